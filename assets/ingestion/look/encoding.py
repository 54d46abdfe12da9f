"""The encoding of a file, told from its bytes: marks and zeros first, then UTF-8, then what takes any byte."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from assets.ingestion.files import LandedFile
from assets.ingestion.look.question import Question
from assets.ingestion.unpacking import byte_blocks
from resources.contract.errors import DataError

PLAIN_ASCII = "every byte is ASCII"  # which is a part of all encodings that are told here
_LOOKED_AT_BYTES = 256 << 20
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def encoding_of(file: LandedFile) -> tuple[str, str, tuple[Question, ...]]:
    """The encoding, its reason, and what has to be asked about it."""
    decoder, consumed, ascii_only = codecs.getincrementaldecoder("utf-8")(), 0, True
    for block in byte_blocks(file):
        if not consumed and (marked := _marked(block)):
            return *marked, ()
        waiting = len(decoder.getstate()[0])  # bytes of a character that the block before began
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            return _of_single_bytes(file, block, at=max(0, error.start - waiting), before=consumed)
        consumed += len(block)
        ascii_only &= block.isascii()
        if consumed > _LOOKED_AT_BYTES:
            break
    return "utf-8", PLAIN_ASCII if ascii_only else "every byte is UTF-8", ()


def _marked(block: bytes) -> tuple[str, str] | None:
    """The encoding that the first bytes of a file show, and how."""
    for mark, name in _BOMS.items():
        if block.startswith(mark):
            return name, "by its byte order mark"
    pairs = block[: 1 << 16]
    for place, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if pairs[place::2].count(0) > 0.6 * len(pairs) / 2 > 1:
            return name, "every other byte is zero, as in UTF-16"
    return None


def _of_single_bytes(file: LandedFile, block: bytes, *, at: int, before: int) -> tuple[str, str, tuple[Question, ...]]:
    """The encoding of a file whose byte `at` of this block cannot be UTF-8, `before` being those before the block."""
    if block.count(0) > 0.1 * len(block):
        raise DataError(f"{file.name} is no text, no Parquet and nothing else that is read: export it as one of those.")
    # what are control characters in Latin-1 are letters and dashes in cp1252, which leaves five bytes out
    name = "cp1252" if re.search(rb"[\x80-\x9f]", block) else "latin-1"
    try:
        text = block.decode(name)
    except UnicodeDecodeError:
        name, text = "latin-1", block.decode("latin-1")
    words = list(dict.fromkeys(re.findall(r"\w*[^\W\x00-\x7f]\w*", text[max(0, at - 100) : at + 10_000])))[:3]
    asked = Question(
        key="source.encoding",
        text=f"byte {before + at} of {file.name} (0x{block[at]:02x}) cannot be UTF-8; read as {name} the words are "
        f"{', '.join(words) or 'without letters'}. If they look wrong, which encoding is it (such as cp1251, shift_jis)?",
    )
    return name, f"byte {before + at} cannot be UTF-8", (asked,)


def text_of(file: LandedFile, encoding: str) -> Iterator[str]:
    """The text of a file, block by block; what its encoding cannot be is replaced."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for block in byte_blocks(file):
        yield decoder.decode(block)
