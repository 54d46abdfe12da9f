"""Files that lie elsewhere: what is known of one, what can go wrong with reading it, and who reads it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from resources.contract.errors import TransientError

WILD = re.compile(r"(\{day\}|\*|\?)")
DAY = "{day}"
# how large clients make the parts of an upload, in MiB; the MD5 of a file's ETag depends on it
_UPLOAD_PARTS_MIB = (5, 6, 8, 10, 12, 15, 16, 20, 25, 32, 50, 64, 100, 128, 200, 256, 512, 1024)


@dataclass(frozen=True, kw_only=True)
class Checksum:
    """What a server says of a file's content. `parts`: the MD5s of so many parts, hashed again, as S3 does."""

    algorithm: Literal["md5", "sha256"]
    digest: str
    parts: int | None = None

    def agreement(self, path: Path) -> str | None:
        """With what the bytes of a file agree, in words; "" where they do not, None where it cannot be told."""
        size = path.stat().st_size
        with path.open("rb") as stream:
            if self.parts is None:
                found = hashlib.file_digest(stream, self.algorithm).hexdigest()
                return f"its server's {self.algorithm}" if found == self.digest else ""
            for part_bytes in (mib << 20 for mib in _UPLOAD_PARTS_MIB):
                if -(-size // part_bytes) == self.parts:
                    stream.seek(0)
                    digests = b"".join(_md5(stream, part_bytes) for _ in range(self.parts))
                    if hashlib.md5(digests).hexdigest() == self.digest:
                        return f"its server's md5 of {self.parts} parts"
        return None


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file as one listing saw it. `name` is its address below the pattern's fixed part; `day` what the address tells."""

    name: str
    address: str
    bytes: int
    modified_ns: int
    etag: str | None
    day: date | None = None
    checksum: Checksum | None = None

    @property
    def version(self) -> str:
        """Another one whenever the file may be another."""
        return f"{self.etag or self.modified_ns} {self.bytes}"

    def changed(self) -> TransientError:
        """The error for a file that is not what the listing saw."""
        return TransientError(
            f"{self.name} changed or went away since it was listed, so what was read would be a mixture: it is taken as it is "
            "then at the next try."
        )


class Interrupted(Exception):
    """Reading stopped for a reason that may pass by itself: the rest is asked for again."""

    def __init__(self, cause: str, *, after_s: float = 0) -> None:
        super().__init__(cause)
        self.after_s = after_s  # how long the server asks us to wait


class NoRanges(Exception):
    """A server sent the whole of a file that a part was asked of: it can only be read from its beginning."""


class Reader(Protocol):
    """A client for one kind of address."""

    def listed(self, pattern: str, *, days: tuple[date, ...]) -> list[RemoteFile]:
        """The files that a pattern means, by name. Raises ConfigError where it or the access to it is wrong."""
        ...

    def read(self, file: RemoteFile, start: int, stop: int) -> Iterator[bytes]:
        """Bytes of a file from `start`, `stop` excluded, in blocks.

        Raises TransientError where the file is no longer the listed one, Interrupted, NoRanges, ConfigError.
        """
        ...

    def checksum(self, file: RemoteFile) -> Checksum | None:
        """What the server says of the content of a file that does not have the checksum of its listing; None where
        that is no checksum at all."""
        ...


def _md5(stream: BinaryIO, length: int) -> bytes:
    """The MD5 of the next so many bytes, or of the rest."""
    digest = hashlib.md5()
    while length and (block := stream.read(min(length, 1 << 20))):
        digest.update(block)
        length -= len(block)
    return digest.digest()


def matching(pattern: str) -> re.Pattern[str]:
    """Matches a whole address; the group `day`, where the pattern has one, is the same in all its places."""
    before, day, after = pattern.partition(DAY)
    shown = {DAY: "(?P=day)", "*": "[^/]*", "?": "[^/]"}

    def translated(text: str) -> str:
        return "".join(shown.get(part) or re.escape(part) for part in WILD.split(text))

    return re.compile(translated(before) + (r"(?P<day>\d{4}-\d\d-\d\d)" if day else "") + translated(after))


def fixed_part(pattern: str) -> str:
    """The address, with its slash, that lies before everything variable."""
    fixed = WILD.split(pattern)[0]
    return fixed[: fixed.rindex("/") + 1]


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """The first line of what a client reports, without the values of secret options."""
    line = text.split("\n", 1)[0][:300]
    for name, value in options.items():
        if value and any(word in name.upper() for word in ("SECRET", "TOKEN", "KEY", "PASSWORD", "CREDENTIAL")):
            line = line.replace(value, "…")
    return line
