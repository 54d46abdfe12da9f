"""Bytes become text exactly, or the file is refused by name."""

from __future__ import annotations

import bz2
import gzip
import lzma
import subprocess
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.ingestion import unpacking
from assets.ingestion.files import LandedFile
from assets.ingestion.reading import read
from resources.contract.errors import DataError, TransientError

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

TEXT = "event_id,user_id,item_id,event_time,event_type,price\n" + "".join(
    f"{i},ü{i},漢,2025-03-01T00:00:00Z,view,1\n" for i in range(50)
)
USERS = [f"ü{i}" for i in range(50)]


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstd, ".bz2": bz2.compress}
PARQUET = pa.BufferOutputStream()
pq.write_table(pa.table({"event_id": [1]}), PARQUET)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-8-sig"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst", ".bz2"])
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_every_packing_and_encoding_gives_the_same_rows_in_blocks_of_any_size(
    room: Room, monkeypatch: pytest.MonkeyPatch, encoding: str, suffix: str, block: int
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", block)
    pack = PACK[suffix]
    dataset = room.dataset(source=f"format: csv, encoding: {encoding}")
    chunks = room.chunks(dataset, pack(TEXT.encode(encoding)), name=f"landed.csv{suffix}")
    users = [user for chunk in chunks for user in chunk.columns["user_id"].to_pylist()]
    lines = [line for chunk in chunks for line in chunk.lines.tolist()]
    assert users == USERS and lines == list(range(2, 52))


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
def test_a_wrong_byte_is_named_by_its_place_in_the_file(
    room: Room, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", block)
    data = "ab漢".encode() + b"\xe6\xbc" + b"x"
    with pytest.raises(DataError, match=r"byte 5 \(0xe6\)"):
        room.chunks(room.dataset(), data)
    with pytest.raises(DataError, match=r"byte 2 \(0xe6\)"):  # a character that the end of the file cuts in two
        room.chunks(room.dataset(), b"ab\xe6\xbc")


@pytest.mark.parametrize(
    ("encoding", "data", "message"),
    [
        ("cp1252", b"a,b\x81", r"byte 3 \(0x81\) cannot be cp1252"),
        ("shift_jis", "漢字".encode("shift_jis") + b"\x81", r"byte 4 \(0x81\) cannot be shift_jis"),
        ("utf-16", "ab".encode("utf-16") + b"\x00\xd8a\x00", r"byte 6 \(0x00\) cannot be utf-16"),
        ("utf-16", "ab".encode("utf-16-le"), r"cannot be utf-16.*does not start with BOM.*such as utf-16-le"),
        ("utf-8", "a,b\n".encode("utf-16"), r"byte 0 \(0xff\) cannot be utf-8.*the mark of UTF-16"),
        ("utf-8", b"ab\xed\xa0\x80", r"byte 2 \(0xed\) cannot be utf-8"),
        ("utf-7", b"+2AA-", "stands half a character as utf-7"),
    ],
)
@pytest.mark.parametrize("block", [2, 3, 1 << 20])
def test_bytes_that_the_declared_encoding_cannot_be_refuse_the_file(
    room: Room, monkeypatch: pytest.MonkeyPatch, encoding: str, data: bytes, message: str, block: int
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", block)
    with pytest.raises(DataError, match=message):
        room.chunks(room.dataset(source=f"format: csv, encoding: {encoding}"), data)


@pytest.mark.parametrize(("encoding", "word"), [("latin-1", "Málaga"), ("cp1252", "5 €"), ("shift_jis", "漢字表")])
def test_declared_encodings_are_read(room: Room, encoding: str, word: str) -> None:
    text = f"event_id,user_id,item_id,event_time,event_type,price\n1,{word},3,4,5,6\n"
    [chunk] = room.chunks(room.dataset(source=f"format: csv, encoding: {encoding}"), text.encode(encoding))
    assert chunk.columns["user_id"].to_pylist() == [word] and chunk.raw(0) == f"1,{word},3,4,5,6"


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".bz2"])
@pytest.mark.parametrize("block", [7, 1 << 20])
def test_several_packed_pieces_in_one_file_are_read_as_one(
    room: Room, monkeypatch: pytest.MonkeyPatch, suffix: str, block: int
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", block)
    pieces = [TEXT[:100], "", TEXT[100:101], TEXT[101:]]
    data = b"".join(PACK[suffix](piece.encode()) for piece in pieces)
    chunks = room.chunks(room.dataset(), data, name=f"landed.csv{suffix}")
    assert sum(chunk.columns.num_rows for chunk in chunks) == 50


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".bz2"])
@pytest.mark.parametrize("fault", ["cut", "cut_in_second", "more", "bit", "second_begins_wrong"])
def test_what_cannot_be_unpacked_is_refused_by_name(room: Room, suffix: str, fault: str) -> None:
    packed = PACK[suffix](TEXT.encode())
    if suffix == ".zst":
        packed = subprocess.run(["zstd", "--check", "-c"], input=TEXT.encode(), capture_output=True, check=True).stdout
    middle = len(packed) // 2
    data = {
        "cut": packed[:-3],
        "cut_in_second": packed + packed[:middle],
        "more": packed + b"more",
        "bit": packed[:middle] + bytes([packed[middle] ^ 16]) + packed[middle + 1 :],
        "second_begins_wrong": packed + b"B" + packed[1:],
    }[fault]
    if fault == "second_begins_wrong" and suffix == ".bz2":
        data = packed + b"X" + packed[1:]
    with pytest.raises(DataError, match=rf"^a\.csv{suffix} is (damaged|not what its name says)"):
        room.chunks(room.dataset(), data, name=f"a.csv{suffix}")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv.gz", TEXT.encode(), "should be gzip, as its ending says, and it is something else, plain text perhaps"),
        ("a.csv.zst", TEXT.encode(), "should be zstd, as its ending says, and it is something else"),
        ("a.csv.bz2", gzip.compress(TEXT.encode()), "should be bzip2, as its ending says, and it is gzip"),
        ("a.csv.gz", zstd(TEXT.encode()), "should be gzip, as its ending says, and it is zstd"),
        ("a.csv", gzip.compress(TEXT.encode()), "should be plain, and it is gzip"),
        ("a.csv", bz2.compress(TEXT.encode()), "should be plain, and it is bzip2"),
        ("a.csv", lzma.compress(TEXT.encode()), "should be text, and it is xz"),
        ("a.csv", PARQUET.getvalue().to_pybytes(), "should be text, and it is Parquet"),
        ("a.csv.gz", gzip.compress(PARQUET.getvalue().to_pybytes()), "should be text, and it is Parquet"),
        ("a.csv.gz", gzip.compress(gzip.compress(TEXT.encode())), "should be text, and it is gzip"),
        ("a.csv", b"PK\x03\x04rest of a spreadsheet", "should be text, and it is a ZIP archive"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused_with_what_it_is(
    room: Room, name: str, data: bytes, message: str
) -> None:
    with pytest.raises(DataError, match=rf"^{name} is not what its name says.*{message}"):
        room.chunks(room.dataset(), data, name=name)


def test_a_text_may_begin_as_parquet_does(room: Room) -> None:
    [chunk] = room.chunks(room.dataset(), "PAR1," + TEXT.splitlines()[0] + "\n1,2,3,4,5,6,7\n")
    assert chunk.columns["user_id"].to_pylist() == ["3"]


def test_a_file_that_vanishes_before_it_is_read_is_tried_again(room: Room) -> None:
    dataset = room.dataset()
    path = room.land("2025-03-01.csv", TEXT)
    landed = LandedFile(name=path.name, path=path, bytes=len(TEXT), modified_ns=0)
    path.unlink()
    with pytest.raises(TransientError, match=r"2025-03-01\.csv is gone"):
        list(read(dataset, landed))


@pytest.mark.parametrize(("kind", "fault"), [("csv", "no line ends within"), ("jsonl", "line 1 is longer than")])
@pytest.mark.parametrize("length", [65, 66, 80, 100])
def test_a_text_without_lines_is_refused_before_it_fills_the_memory(
    room: Room, monkeypatch: pytest.MonkeyPatch, kind: str, fault: str, length: int
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", 16)
    monkeypatch.setattr(unpacking, "LINE_BYTES", 64)
    with pytest.raises(DataError, match=f"{fault} 64 bytes"):
        room.chunks(room.dataset(source=f"format: {kind}"), "x" * length)
