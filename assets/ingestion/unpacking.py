"""Landed bytes as text, block by block: unpacked with their checksums compared, decoded as declared, cut into lines."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

import numpy as np
import pyarrow as pa

from assets.ingestion.files import LandedFile
from resources.contract.errors import DataError, TransientError

BLOCK_BYTES = 16 << 20
LINE_BYTES = 4 * BLOCK_BYTES  # no row is longer; such a file has no lines at all
LF, CR = b"\n"[0], b"\r"[0]


@contextmanager
def refusing_damage(file: str) -> Iterator[None]:
    """Turns what the unpackers and Arrow's readers raise into errors that name the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise TransientError(f"{file} is gone since the landing was listed: it is decided again.") from error
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        raise DataError(
            f"{file} is damaged, cut short, or not what its name says, and is refused as a whole: "
            f"{' '.join(str(error).split())}. Land it again."
        ) from error


def byte_blocks(file: LandedFile) -> Iterator[bytes]:
    """The unpacked bytes of a plain, gzip or zstd file. Checksums are compared; all gzip members are read."""
    with refusing_damage(file.name), ExitStack() as stack:
        stream: IO[bytes] | pa.NativeFile
        if file.bytes == 0:
            return
        if file.path.suffix == ".gz":
            # not Arrow's: it takes trailing zero padding for a broken member
            stream = stack.enter_context(gzip.open(file.path, "rb"))
        elif file.path.suffix == ".zst":
            stream = stack.enter_context(pa.input_stream(str(file.path), compression="zstd"))
        else:
            stream = stack.enter_context(file.path.open("rb"))
        while block := stream.read(BLOCK_BYTES):
            yield block


def text_blocks(file: LandedFile, encoding: str) -> Iterator[tuple[bytes, bool]]:
    """The file's text as UTF-8 without a byte order mark, in blocks, and whether a block is the last.

    Raises DataError with the offset of the first byte that the declared encoding cannot be.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    consumed, begun, unbroken = 0, False, 0

    def decoded(block: bytes, *, last: bool) -> bytes:
        nonlocal consumed, begun
        waiting = len(decoder.getstate()[0])  # bytes of a character that the previous block began
        try:
            text = decoder.decode(block, last)
        except UnicodeDecodeError as error:
            offset = consumed - waiting + error.start
            raise DataError(
                f"{file.name}: byte {offset} (0x{error.object[error.start]:02x}) cannot be {encoding}, so the file is refused "
                f"rather than guessed at. Declare its real `source.encoding`, or land it again."
            ) from error
        consumed += len(block)
        if text and not begun:
            text, begun = text.removeprefix("\ufeff"), True
        return text.encode()

    for block in byte_blocks(file):
        text = decoded(block, last=False)
        unbroken = 0 if b"\n" in text or b"\r" in text else unbroken + len(text)
        if unbroken > LINE_BYTES:
            raise DataError(f"{file.name}: no line ends within {LINE_BYTES:,} bytes, so it has no rows. Land it again.")
        yield text, False
    yield decoded(b"", last=True), True


def line_spans(data: bytes, *, last: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Where each line starts and stops (its end of line left out), and where the unfinished rest begins.

    A line ends with LF, CRLF or a lone CR; the last line of a file may lack its end.
    """
    buffer = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(buffer == LF)
    stops = ends
    if b"\r" in data:
        returns = np.flatnonzero(buffer == CR)
        returns = returns if last else returns[returns < len(buffer) - 1]  # the next block may begin with its LF
        alone = returns[(returns == len(buffer) - 1) | (buffer[np.minimum(returns + 1, len(buffer) - 1)] != LF)]
        ends = np.sort(np.concatenate([ends, alone]))
        stops = ends - ((buffer[ends] == LF) & (ends > 0) & (buffer[ends - 1] == CR))
    starts = np.concatenate([[0], ends + 1])
    if last and starts[-1] < len(buffer):
        return starts, np.append(stops, len(buffer)), len(buffer)
    return starts[:-1], stops, int(starts[-1])
