"""Landed bytes as UTF-8 text, block by block: unpacked with their checksums compared, checked or decoded as declared."""

from __future__ import annotations

import bz2
import codecs
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
from isal import igzip, isal_zlib

from assets.ingestion.files import LandedFile
from resources.contract.errors import DataError, TransientError

BLOCK_BYTES = 8 << 20
LINE_BYTES = 32 << 20  # no row is longer, and no line; a file with such a line is refused
PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2"}
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    **{bytes([kind]) + b"\x2a\x4d\x18": "zstd" for kind in range(0x50, 0x60)},  # frames to be skipped
    **{b"BZh%d%b" % (level, block): "bzip2" for level in range(1, 10) for block in (b"1AY&SY", b"\x17rE8P\x90")},
    b"\xfd7zXZ\0": "xz",
    b"PK\x03\x04": "a ZIP archive (as Excel sheets are)",
    b"PAR1\x15": "Parquet",  # a text may begin with PAR1; behind it comes the letter that begins a page's header
    b"ARROW1\0\0": "Arrow IPC",
    b"ORC\n": "ORC",
    b"Obj\x01": "Avro",
    b"SQLite format 3\0": "SQLite",
    b"%PDF-": "PDF",
}
_MAGICS = tuple(_MAGIC)
HEAD_BYTES = 16  # tell what a file is
_LONGEST = 4  # bytes of a character in UTF-8
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@contextmanager
def refusing_damage(file: str) -> Iterator[None]:
    """Turns what the unpackers and Arrow's readers raise into errors that name the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise TransientError(f"{file} is gone since the landing was listed: it is decided again.") from error
    except (OSError, EOFError, zlib.error, isal_zlib.error, pa.ArrowException) as error:  # pyright: ignore[reportGeneralTypeIssues]
        raise DataError(
            f"{file} is damaged, cut short, or not what its name says, and is refused as a whole: "
            f"{' '.join(str(error).split()).rstrip('.')}. Land it again."
        ) from error


def kind_of(head: bytes) -> str | None:
    """What a file is that begins with these bytes, if it is no text."""
    if not head.startswith(_MAGICS):
        return None
    return next(kind for magic, kind in _MAGIC.items() if head.startswith(magic))


def byte_blocks(file: LandedFile) -> Iterator[bytes]:
    """The unpacked bytes of a plain, gzip, zstd or bzip2 file: all members, frames and streams, with their checksums.

    Raises DataError where the bytes are damaged, or not packed as the name's ending says.
    """
    if file.bytes == 0:
        return
    expected = PACKED.get(file.path.suffix)
    with refusing_damage(file.name):
        with file.path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
        found = kind_of(head)
        whole = len(head) == HEAD_BYTES  # of a shorter one it cannot be told; the unpackers refuse it as cut short
        if found != expected and (found in PACKED.values() or (expected and whole)):
            raise _mislabelled(file.name, found, f"{expected}, as its ending says" if expected else "plain")
        # room for a whole block costs more than a small file itself
        size = min(BLOCK_BYTES, file.bytes + 1) if expected is None else BLOCK_BYTES
        with _opened(file.path) as stream:
            while block := stream.read(size):
                yield block


def _mislabelled(file: str, found: str | None, expected: str) -> DataError:
    return DataError(
        f"{file} is not what its name says, so it is refused as a whole: it should be {expected}, and it is "
        f"{found or 'something else, plain text perhaps'}. Land it again under the right name, or packed as it says."
    )


def _opened(path: Path) -> IO[bytes] | pa.NativeFile:
    if path.suffix == ".gz":
        return igzip.open(path, "rb")  # not Arrow's: it takes trailing zero padding for a broken member
    if path.suffix == ".zst":
        return pa.input_stream(str(path), compression="zstd")
    return _Bzip2(path) if path.suffix == ".bz2" else path.open("rb")


class _Bzip2:
    """A bzip2 file; Python's own reader takes a stream that is damaged in its first bytes for the end of the file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._unpacker = bz2.BZ2Decompressor()

    def __enter__(self) -> _Bzip2:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """At most so many of the next unpacked bytes; none at the end. Raises EOFError if the file is cut short."""
        while True:
            packed = b""
            if self._unpacker.eof:
                packed = self._unpacker.unused_data or self._file.read(1 << 18)
                if not packed:
                    return b""
                self._unpacker = bz2.BZ2Decompressor()
            elif self._unpacker.needs_input:
                packed = self._file.read(1 << 18)
                if not packed:
                    raise EOFError("the last stream does not end")
            if block := self._unpacker.decompress(packed, size):
                return block


def text_blocks(file: LandedFile, encoding: str) -> Iterator[tuple[bytes, bool]]:
    """The file's text as UTF-8 without a byte order mark, in blocks, and whether a block is the last.

    Raises DataError with the offset of the first byte that the declared encoding cannot be.
    """
    utf_8 = codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")
    decoded = _checked() if utf_8 else _recoded(encoding)
    consumed, begun = 0, False
    blocks = byte_blocks(file)
    block = next(blocks, b"")
    while True:
        following = next(blocks, b"")
        if consumed == 0 and (found := kind_of(block)):
            raise _mislabelled(file.name, found, "text")
        try:
            text = decoded(block, not following)
        except UnicodeDecodeError as error:
            # what the error shows ends where this block does
            offset = consumed + len(block) - len(error.object) + error.start
            hint = (
                " It begins with the mark of UTF-16."
                if utf_8 and offset == 0 and error.object.startswith(_UTF_16)
                else ""
            )
            raise DataError(
                f"{file.name}: byte {offset} (0x{error.object[error.start]:02x}) cannot be {encoding}, so the file is refused "
                f"rather than guessed at.{hint} Declare its real `source.encoding`, or land it again."
            ) from error
        except UnicodeError as error:
            if not isinstance(error, UnicodeEncodeError):  # such as UTF-16 without the mark that tells its byte order
                raise DataError(
                    f"{file.name} cannot be {encoding}, so the file is refused rather than guessed at: {error}. Declare its real "
                    "`source.encoding`, such as utf-16-le, or land it again."
                ) from error
            raise DataError(
                f"{file.name}: near byte {consumed} stands half a character as {encoding} writes it, so the file is refused. "
                "Declare its real `source.encoding`, or land it again."
            ) from error
        consumed += len(block)
        if text and not begun:
            text, begun = text.removeprefix(codecs.BOM_UTF8), True
        yield text, not following
        if not following:
            return
        block = following


def _checked() -> Callable[[bytes, bool], bytes]:
    """UTF-8 as it stands, once it is known to be that; a character that a block cuts in two waits for its rest."""
    waiting = b""

    def checked(block: bytes, last: bool) -> bytes:
        nonlocal waiting
        block = waiting + block
        _, end = codecs.utf_8_decode(block[-_LONGEST:], "ignore", last)
        waiting = block[len(block) - len(block[-_LONGEST:]) + end :]
        if not block.isascii() and not _is_utf_8(block[: len(block) - len(waiting)]):
            codecs.utf_8_decode(block, "strict", last)  # for its error, which tells the place
        return block[: len(block) - len(waiting)]

    return checked


def _is_utf_8(block: bytes) -> bool:
    """Whether it is; four times as fast as decoding it."""
    bounds = pa.py_buffer(np.array([0, len(block)], np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, bounds, pa.py_buffer(block)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _recoded(encoding: str) -> Callable[[bytes, bool], bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    return lambda block, last: decoder.decode(block, last).encode()
