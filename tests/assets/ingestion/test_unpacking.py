"""Bytes become text exactly, or the file is refused by name."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from assets.ingestion import delimited, unpacking
from resources.contract.errors import DataError, TransientError

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

TEXT = "event_id,user_id,item_id,event_time,event_type,price\n" + "".join(
    f"{i},ü{i},漢,2025-03-01T00:00:00Z,view,1\n" for i in range(50)
)


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-8-sig"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_every_packing_and_encoding_gives_the_same_rows_in_blocks_of_any_size(
    room: Room, monkeypatch: pytest.MonkeyPatch, encoding: str, suffix: str, block: int
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", block)
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstd}[suffix]
    dataset = room.dataset(source=f"format: csv, encoding: {encoding}")
    chunks = room.chunks(dataset, pack(TEXT.encode(encoding)), name=f"landed.csv{suffix}")
    users = [user for chunk in chunks for user in chunk.columns["user_id"].to_pylist()]
    lines = [line for chunk in chunks for line in chunk.lines.tolist()]
    assert users == [f"ü{i}" for i in range(50)] and lines == list(range(2, 52))


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
    ("name", "data"),
    [
        ("a.csv.gz", b"event_id,user_id\n"),
        ("a.csv.zst", b"event_id,user_id\n"),
        ("a.csv.zst", zstd(TEXT.encode())[:-3]),
        ("a.csv.gz", gzip.compress(TEXT.encode()) + b"more"),
    ],
)
def test_what_cannot_be_unpacked_is_refused_by_name(room: Room, name: str, data: bytes) -> None:
    with pytest.raises(DataError, match=f"{name} is damaged"):
        room.chunks(room.dataset(), data, name=name)


def test_a_file_that_vanishes_before_it_is_read_is_tried_again(room: Room) -> None:
    dataset = room.dataset()
    path = room.land("2025-03-01.csv", TEXT)
    landing = room.scan(dataset)
    path.unlink()
    with pytest.raises(TransientError, match=r"2025-03-01\.csv is gone"):
        list(delimited.chunks(dataset, landing.all[0]))


def test_a_text_without_lines_is_refused_before_it_fills_the_memory(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", 16)
    monkeypatch.setattr(unpacking, "LINE_BYTES", 64)
    with pytest.raises(DataError, match="no line ends within 64 bytes"):
        room.chunks(room.dataset(), "x" * 100)
