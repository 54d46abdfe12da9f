"""Files behind HTTP(S): one per day, by an address that names it, since the web knows no listing."""

from __future__ import annotations

import base64
import binascii
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from email.message import Message
from email.utils import parsedate_to_datetime
from urllib.parse import quote, urlsplit

from resources.contract.errors import ConfigError, TransientError
from resources.remote import DAY, WILD, Checksum, Interrupted, NoRanges, RemoteFile, fixed_part

_TIMEOUT_S = 60
_BLOCK_BYTES = 1 << 20
_ASKED_AT_ONCE = 16
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_GONE = (404, 410)


class Web:
    """Reads public files. Passwords in addresses are refused, since addresses stand in logs and manifests."""

    def listed(self, pattern: str, *, days: tuple[date, ...]) -> list[RemoteFile]:
        """The files that are there of these days, each found by one request of its own, several at once.

        So the pattern must hold `{day}` and neither `*` nor `?` (an address with a query cannot be said), only one file
        a day can be had, and a server must answer HEAD with the file's length. 404 and 410 mean: not there.
        """
        address = urlsplit(pattern)
        if DAY not in pattern or any(part in ("*", "?") for part in WILD.split(pattern)) or address.username:
            raise ConfigError(
                "source.files with an http address must hold {day}, no * or ?, and no password, since there is no listing to "
                f"look names up in; got an address on {address.hostname!r}. Name one file a day, or read from the store itself."
            )
        root = fixed_part(pattern)

        def asked(day: date) -> RemoteFile | None:
            return self._head(pattern.replace(DAY, day.isoformat()), root, day)

        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            return [file for file in pool.map(asked, sorted(days)) if file is not None]

    def read(self, file: RemoteFile, start: int, stop: int) -> Iterator[bytes]:
        """See `Reader.read`."""
        headers = {"Range": f"bytes={start}-{stop - 1}"} if (start, stop) != (0, file.bytes) else {}
        if file.etag and not file.etag.startswith("W/"):  # a weak one never matches
            headers["If-Match"] = file.etag
        with _interrupted(), self._answer(file.address, headers, file=file) as answer:
            etag, modified_ns = _version(answer.headers)
            if etag != file.etag or (etag is None and modified_ns != file.modified_ns):
                raise file.changed()
            if answer.status != 206 and headers.get("Range"):
                raise NoRanges
            if answer.status == 206:
                found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
                if found is None or found[3] not in ("*", str(file.bytes)):
                    raise file.changed()
                if (int(found[1]), int(found[2]) + 1) != (start, stop):
                    raise Interrupted(f"asked for bytes {start} to {stop}, the server sent {found[0]}")
            elif _length(answer.headers) not in (None, file.bytes):
                raise file.changed()
            left = stop - start
            while left and (block := answer.read(min(left, _BLOCK_BYTES))):
                left -= len(block)
                yield block

    def checksum(self, file: RemoteFile) -> Checksum | None:
        """The file's own: what a server says in words is meant so."""
        return file.checksum

    def _head(self, address: str, root: str, day: date) -> RemoteFile | None:
        try:
            with _interrupted(), self._answer(address, {}, method="HEAD") as answer:
                headers = answer.headers
        except FileNotFoundError:
            return None
        except Interrupted as error:
            raise TransientError(f"{address} cannot be asked for: {error}. It is tried again.") from error
        length = _length(headers)
        if length is None:
            raise ConfigError(
                f"{address}: the server does not tell the file's length, so a file that is cut short could not be told from a "
                "whole one. Read it from another place."
            )
        etag, modified_ns = _version(headers)
        return RemoteFile(
            name=address.removeprefix(root),
            address=address,
            bytes=length,
            modified_ns=modified_ns,
            etag=etag,
            day=day,
            checksum=_checksum(headers),
        )

    @contextmanager
    def _answer(
        self, address: str, headers: dict[str, str], *, method: str = "GET", file: RemoteFile | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """The server's answer. Raises FileNotFoundError for a file that is not there and was not listed."""
        headers = {**headers, "Accept-Encoding": "identity", "User-Agent": "slicewise"}
        request = urllib.request.Request(quote(address, safe=":/%+@=~,;&"), headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                yield answer
        except urllib.error.HTTPError as error:
            error.close()
            if file and error.code in (*_GONE, 412, 416):
                raise file.changed() from error
            if error.code in _GONE:
                raise FileNotFoundError(address) from error
            if error.code >= 500 or error.code in (408, 429):
                raise Interrupted(f"the server answered {error.code}", after_s=_after_s(error.headers)) from error
            raise ConfigError(
                f"{address}: the server answers {error.code} ({error.reason}), so its files cannot be had. Look at "
                "source.files, and whether they can be read without signing in."
            ) from error


@contextmanager
def _interrupted() -> Iterator[None]:
    """Turns a lost or silent connection into Interrupted."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise Interrupted(f"{type(error).__name__}: {error}") from error


def _version(headers: Message) -> tuple[str | None, int]:
    try:
        modified = parsedate_to_datetime(headers.get("Last-Modified", ""))
    except ValueError:
        return headers.get("ETag"), 0
    return headers.get("ETag"), int(modified.timestamp()) * 1_000_000_000


def _length(headers: Message) -> int | None:
    text = headers.get("Content-Length", "")
    return int(text) if text.isdigit() else None


def _after_s(headers: Message) -> float:
    text = headers.get("Retry-After", "")
    return float(text) if text.isdigit() else 0.0


def _checksum(headers: Message) -> Checksum | None:
    """The digest of the whole file that a server tells: Repr-Digest (RFC 9530), Digest (RFC 3230) or Content-MD5."""
    told = f"{headers.get('Repr-Digest', '')},{headers.get('Digest', '')},md5={headers.get('Content-MD5', '')}"
    for algorithm, name, size in (("sha256", "sha-256", 32), ("md5", "md5", 16)):
        for part in told.split(","):
            word, _, value = part.strip().partition("=")
            if word.lower() != name:
                continue
            try:
                digest = base64.b64decode(value.strip(": "), validate=True)
            except (binascii.Error, ValueError):
                continue
            if len(digest) == size:
                return Checksum(algorithm=algorithm, digest=digest.hex())  # type: ignore[arg-type]
    return None
