"""Files in S3, Google Cloud Storage and Azure: listed page by page and read by ranges of one and the same version."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from resources.contract.errors import ConfigError, TransientError
from resources.remote import DAY, Checksum, Interrupted, RemoteFile, fixed_part, matching, without_secrets

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_OPTIONS = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT")
_MD5 = re.compile(r'"([0-9a-f]{32})(?:-(\d+))?"')
_STATUS = re.compile(r"status code: (\d{3})")
_METADATA = ("169.254.169.254", "metadata.google.internal")  # where a client looks that was given no credentials
_PAGE = 1000
_BLOCK_BYTES = 1 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Bucket:
    """One bucket (Azure: container). `options` are environment variables of its client; nothing else is asked for any."""

    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        self.scheme, _, rest = address.partition("://")
        self.name = rest.split("/", 1)[0]
        self._options = {k: v for k, v in options.items() if k.startswith(_OPTIONS[self.scheme])}

    @cached_property
    def _store(self) -> ObjectStore:
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        plain = any(self._options.get(name, "").startswith("http://") for name in _ENDPOINTS)
        try:
            return from_url(
                f"{self.scheme}://{self.name}",
                config={name.lower(): value for name, value in self._options.items()},  # type: ignore[arg-type]
                client_options={
                    "allow_http": plain,
                    "connect_timeout": "10s",
                    "timeout": "5min",
                    "read_timeout": "60s",
                },
                retry_config={
                    "max_retries": 5,
                    "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=10)},
                    "retry_timeout": timedelta(minutes=2),
                },
            )
        except (BaseError, ValueError) as error:
            raise self._misconfigured(error) from error

    def listed(self, pattern: str, *, days: tuple[date, ...]) -> list[RemoteFile]:
        """The objects that a pattern means, by name, from as few pages as its fixed part allows.

        Args:
            days: of a pattern with `{day}`, only these are asked for; none: all.
        """
        import obstore

        regex, root = matching(pattern), fixed_part(pattern)
        asked = {fixed_part(pattern.replace(DAY, day.isoformat())) for day in days} if DAY in pattern else set()
        found = []
        with self._translated(pattern):
            for prefix in sorted(asked or {root}):
                for page in obstore.list(self._store, self._path(prefix), chunk_size=_PAGE):
                    for meta in page:
                        address = f"{self.scheme}://{self.name}/{meta['path']}"
                        if matched := regex.fullmatch(address):
                            found.append(self._file(address, matched, root, meta))
        return sorted((f for f in found if not days or f.day in (None, *days)), key=lambda file: file.name)

    def read(self, file: RemoteFile, start: int, stop: int) -> Iterator[bytes]:
        """See `Reader.read`."""
        import obstore

        options: Any = {"range": (start, stop)}
        if file.etag:
            options["if_match"] = file.etag
        with self._translated(file.address, file):
            found = obstore.get(self._store, self._path(file.address), options=options)
            if (found.meta["e_tag"], found.meta["size"]) != (file.etag, file.bytes):
                raise file.changed()
            if tuple(found.range) != (start, stop):
                raise Interrupted(f"asked for bytes {start} to {stop}, the store sent {found.range}")
            yield from found.stream(min_chunk_size=_BLOCK_BYTES)  # type: ignore[misc] # buffers, which is all we need

    def checksum(self, file: RemoteFile) -> Checksum | None:
        """The file's own, unless its bucket encrypts with a key of its own: then an ETag is no MD5 of the content."""
        import obstore

        url = obstore.sign(self._store, "HEAD", self._path(file.address), timedelta(minutes=1))  # type: ignore[arg-type]
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=60) as answer:
                encrypted = answer.headers.get("x-amz-server-side-encryption", "AES256")
                customer = answer.headers.get("x-amz-server-side-encryption-customer-algorithm")
        except (urllib.error.URLError, OSError):
            return file.checksum
        return file.checksum if encrypted == "AES256" and customer is None else None

    def _path(self, address: str) -> str:
        return address.removeprefix(f"{self.scheme}://{self.name}/")

    def _file(self, address: str, matched: re.Match[str], root: str, meta: Any) -> RemoteFile:
        etag = _MD5.fullmatch(meta["e_tag"] or "") if self.scheme == "s3" else None
        parts = int(etag[2]) if etag and etag[2] else None
        return RemoteFile(
            name=address.removeprefix(root),
            address=address,
            bytes=meta["size"],
            modified_ns=(meta["last_modified"] - _EPOCH) // timedelta(microseconds=1) * 1000,
            etag=meta["e_tag"],
            day=_day(matched),
            checksum=Checksum(algorithm="md5", digest=etag[1], parts=parts) if etag else None,
        )

    @contextmanager
    def _translated(self, what: str, file: RemoteFile | None = None) -> Iterator[None]:
        """Turns what the client raises into errors that say who must act; of a file that is read, Interrupted."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, PermissionError, OSError) as error:
            text = str(error)
            found = _STATUS.search(text)
            status = int(found[1]) if found else 0
            if file and (status in (404, 412, 416) or isinstance(error, FileNotFoundError)):
                raise file.changed() from error
            refused = 400 <= status < 500 and status not in (408, 429)
            if refused or isinstance(error, PermissionError) or any(host in text for host in _METADATA):
                raise self._misconfigured(error) from error
            cause = without_secrets(text, self._options)
            if file:
                raise Interrupted(cause) from error
            raise TransientError(f"{what} could not be listed: {cause}. It is tried again.") from error

    def _misconfigured(self, error: Exception) -> ConfigError:
        prefix = _OPTIONS[self.scheme]
        return ConfigError(
            f"{self.scheme}://{self.name} cannot be read as it is set up: {without_secrets(str(error), self._options)}. Look at "
            f"the bucket's name and rights, and at the {prefix}... variables in .env ({', '.join(self._options) or 'none is set'})."
        )


def _day(matched: re.Match[str]) -> date | None:
    try:
        return date.fromisoformat(matched["day"]) if "day" in matched.re.groupindex else None
    except ValueError:
        return None
