"""What can vouch for the bytes of a landed file: a checksum beside it, or one that it carries by itself.

A file with neither is read all the same, and its day is marked `unverifiable`: single flipped bits in plain text, or in
a Parquet without page checksums, mostly read as other values that look like any. What a file carries counts only where
it covers every value: a gzip or bzip2 file always has its CRCs, a zstd one only where each of its frames was written
with a checksum, a Parquet only where every page has its own.
"""

from __future__ import annotations

import hashlib
import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from assets.ingestion.parquet_pages import every_page_checked
from resources.contract.errors import DataError, TransientError

Algorithm = Literal["md5", "sha256"]
_DIGITS: dict[Algorithm, int] = {"sha256": 64, "md5": 32}  # the stronger first
SIDECARS = tuple(f".{algorithm}" for algorithm in _DIGITS)  # the endings of the files that hold them
_COREUTILS = re.compile(r"\\?([0-9a-fA-F]+)(?:[ \t]+\*?(.+))?")  # "hex", "hex  name", "hex *name"
_BSD = re.compile(r"(?:MD5|SHA2?-?256) ?\((.+)\) ?= ?([0-9a-fA-F]+)", re.IGNORECASE)
_SIDECAR_BYTES = 1 << 20  # no list of checksums is longer


@dataclass(frozen=True, kw_only=True)
class Sidecar:
    """A checksum that was landed beside a file; `digest` is lower-case hex."""

    algorithm: Algorithm
    digest: str
    path: Path


@contextmanager
def readable(file: str) -> Iterator[None]:
    """Turns what the system raises where a landed file cannot be read into errors that name it."""
    try:
        yield
    except FileNotFoundError as error:
        raise TransientError(f"{file} is gone since the landing was listed: it is decided again.") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}. Give us the right to, or land it again.") from error


def sidecar_of(path: Path) -> Sidecar | None:
    """The checksum that `<file>.sha256` or, failing that, `<file>.md5` says, or None where there is neither.

    Raises DataError where the sidecar holds no checksum of the file.
    """
    for algorithm in _DIGITS:
        beside = path.with_name(f"{path.name}.{algorithm}")
        try:
            with beside.open("rb") as stream:
                content = stream.read(_SIDECAR_BYTES)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DataError(
                f"{beside.name} cannot be read ({error.strerror}), so {path.name} cannot be compared with it. Give us the "
                "right to, or take it away."
            ) from error
        return Sidecar(algorithm=algorithm, digest=_digest_in(content, algorithm, beside, path.name), path=beside)
    return None


def verify(path: Path, sidecar: Sidecar) -> None:
    """Raises DataError with both digests where the file is not the one that its sidecar was made of."""
    with readable(path.name), path.open("rb") as stream:
        found = hashlib.file_digest(stream, sidecar.algorithm).hexdigest()
    if found != sidecar.digest:
        raise DataError(
            f"{path.name} has the {sidecar.algorithm} {found}, and {sidecar.path.name} says {sidecar.digest}: it was damaged, "
            "cut short or replaced on its way, and is refused as a whole. Land both again."
        )


def carried_checksum(path: Path) -> str | None:
    """Which checksum a file carries that reading it compares, by name, or None where some value has none.

    Raises DataError for a Parquet that contradicts itself (`parquet_pages`).

    Args:
        path: a local file; its ending says how it is packed, as it does for the readers.
    """
    suffix = path.suffix.lower()
    if path.stat().st_size == 0:
        return None
    if suffix in (".gz", ".bz2"):
        return "gzip crc32" if suffix == ".gz" else "bzip2 crc"
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if suffix == ".zst":
            return "zstd checksum" if _every_frame_checked(data) else None
        if data[:4] == b"PAR1" == data[-4:]:
            return "parquet page checksums" if every_page_checked(path, data) else None
    return None


def _digest_in(content: bytes, algorithm: Algorithm, beside: Path, name: str) -> str:
    """The digest that a sidecar says of the file `name`: its only one, or that of the line which names the file."""
    found: list[tuple[str | None, str]] = []
    for line in content.decode("utf-8-sig", errors="replace").splitlines():
        text = line.strip()
        if bsd := _BSD.fullmatch(text):
            found.append((bsd[1], bsd[2]))
        elif plain := _COREUTILS.fullmatch(text):
            found.append((plain[2], plain[1]))
        elif text and not text.startswith("#"):
            found.append((None, ""))
    if len(found) > 1:
        found = [(named, digest) for named, digest in found if named and named.split("/")[-1] == name]
    digest = found[0][1].lower() if len(found) == 1 else ""
    if len(digest) != _DIGITS[algorithm]:
        raise DataError(
            f"{beside.name} must hold the {algorithm} of {name} in {_DIGITS[algorithm]} hexadecimal digits, alone or with the "
            f"file's name, and holds none: {name} cannot be told from a damaged one. Land {beside.name} again."
        )
    return digest


def _every_frame_checked(data: mmap.mmap) -> bool:
    """Whether each zstd frame has the flag of a content checksum (RFC 8878, section 3.1). Nothing is unpacked."""
    at, frames = 0, 0
    while at < len(data):
        magic = int.from_bytes(data[at : at + 4], "little")
        if magic & 0xFFFFFFF0 == 0x184D2A50:  # a skippable frame
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        if magic != 0xFD2FB528 or at + 5 > len(data):
            return False
        descriptor = data[at + 4]
        if not descriptor & 4:
            return False
        single = descriptor >> 5 & 1
        at += 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + (single, 2, 4, 8)[descriptor >> 6]
        last = 0
        while not last:
            if at + 3 > len(data):
                return False
            header = int.from_bytes(data[at : at + 3], "little")
            last, kind = header & 1, header >> 1 & 3
            at += 3 + (1 if kind == 1 else header >> 3)  # a repeated byte is written once
        at += 4
        frames += 1
    return frames > 0 and at == len(data)
