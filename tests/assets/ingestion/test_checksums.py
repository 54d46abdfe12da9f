"""What vouches for a file is told truly: neither a checksum that is not there, nor silence about one that is."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from assets.ingestion.checksums import carried_checksum, sidecar_of, verify
from assets.ingestion.files import LandedFile
from assets.ingestion.reading import read
from assets.ingestion.unpacking import byte_blocks
from resources.contract.errors import DataError

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

DATA = b"at,user\n" + b"2026-03-01,someone\n" * 400
MD5, SHA256 = hashlib.md5(DATA).hexdigest(), hashlib.sha256(DATA).hexdigest()
TABLE = pa.table(
    {
        "at": pa.array(np.arange(60) * 1_000_000 + 1_740_000_000_000_000, pa.timestamp("us", "UTC")),
        "user": [f"u{i % 17}" for i in range(60)],
        "price": pa.array([Decimal(i) / 100 for i in range(60)], pa.decimal128(9, 2)),
        "count": pa.array([None if i % 5 == 0 else i for i in range(60)], pa.int64()),
        "small": pa.array([i % 100 for i in range(60)], pa.uint8()),
        "tags": [["a"] * (i % 3) for i in range(60)],
    }
)


def parquet(table: pa.Table = TABLE, **options: object) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, **{"write_page_checksum": True, "row_group_size": 40, **options})
    return stream.getvalue()


def zstd(data: bytes, *, checked: bool) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=checked).compress(data)


@pytest.fixture
def landed(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def land(name: str, data: bytes) -> Path:
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return land


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
@pytest.mark.parametrize(
    "form",
    [
        "{digest}",
        "{digest}\n",
        "{digest}  a.csv\n",
        "{digest} *a.csv\r\n",
        "{digest}  in/the/folder/a.csv\n",
        "{digest}  a.csv.tmp\n",  # made before the file had its name
        "\ufeff{digest}  a.csv\n",
        "{upper}  a.csv\n",
        "{name} (a.csv) = {digest}\n",
        "{name}(a.csv)= {digest}\n",
        "# made by hand\n\n{digest}  a.csv\n",
        "{other}  b.csv\n{digest}  a.csv\n",
    ],
)
def test_every_usual_form_of_a_sidecar_is_read(landed: Callable[[str, bytes], Path], algorithm: str, form: str) -> None:
    digest = {"md5": MD5, "sha256": SHA256}[algorithm]
    path = landed("a.csv", DATA)
    text = form.format(digest=digest, upper=digest.upper(), name=algorithm.upper(), other="0" * len(digest))
    landed(f"a.csv.{algorithm}", text.encode())
    sidecar = sidecar_of(path)
    assert sidecar is not None
    assert (sidecar.algorithm, sidecar.digest, sidecar.path.name) == (algorithm, digest, f"a.csv.{algorithm}")
    verify(path, sidecar)


def test_the_stronger_of_two_sidecars_counts_and_without_one_there_is_none(
    landed: Callable[[str, bytes], Path],
) -> None:
    path = landed("a.csv", DATA)
    assert sidecar_of(path) is None
    landed("a.csv.md5", b"damaged, and never looked at")
    landed("a.csv.sha256", SHA256.encode())
    sidecar = sidecar_of(path)
    assert sidecar is not None and sidecar.algorithm == "sha256"


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\x00", MD5[:-1].encode(), SHA256.encode(), b"no such file", f"{MD5} b\n{MD5} c".encode()],
)
def test_a_sidecar_that_says_nothing_of_its_file_is_refused_by_name(
    landed: Callable[[str, bytes], Path], content: bytes
) -> None:
    path = landed("a.csv", DATA)
    landed("a.csv.md5", content)
    with pytest.raises(DataError, match=r"a\.csv\.md5 must hold the md5 of a\.csv"):
        sidecar_of(path)


def test_a_file_that_differs_from_its_sidecar_is_refused_with_both_digests(
    landed: Callable[[str, bytes], Path],
) -> None:
    path = landed("a.csv", DATA)
    landed("a.csv.sha256", SHA256.encode())
    sidecar = sidecar_of(path)
    assert sidecar is not None
    landed("a.csv", DATA[:-1])
    with pytest.raises(DataError, match=rf"a\.csv has the sha256 {hashlib.sha256(DATA[:-1]).hexdigest()}.*{SHA256}"):
        verify(path, sidecar)


def written_by_polars() -> bytes:
    stream = io.BytesIO()
    pl.DataFrame({"a": [1, 2, 3]}).write_parquet(stream)
    return stream.getvalue()


CARRIED: dict[str, tuple[str, bytes, str | None]] = {
    "plain": ("a.csv", DATA, None),
    "empty": ("a.csv.gz", b"", None),
    "gzip": ("a.csv.gz", gzip.compress(DATA), "gzip crc32"),
    "bzip2": ("a.csv.bz2", bz2.compress(DATA), "bzip2 crc"),
    "zstd": ("a.csv.zst", zstd(DATA, checked=True), "zstd checksum"),
    "zstd without": ("a.csv.zst", zstd(DATA, checked=False), None),
    "zstd of nothing": ("a.csv.zst", zstd(b"", checked=True), "zstd checksum"),
    "zstd of large blocks": ("a.csv.zst", zstd(os.urandom(300_000), checked=True), "zstd checksum"),
    "zstd of one letter": ("a.csv.zst", zstd(b"x" * 3_000_000, checked=True), "zstd checksum"),
    "one of two frames": ("a.csv.zst", zstd(DATA, checked=True) + zstd(DATA, checked=False), None),
    "two frames, one to be skipped": (
        "a.csv.zst",
        zstd(DATA, checked=True) + b"\x5a\x2a\x4d\x18\x03\0\0\0abc" + zstd(DATA, checked=True),
        "zstd checksum",
    ),
    "zstd cut short": ("a.csv.zst", zstd(DATA, checked=True)[:-1], None),
    "no zstd": ("a.csv.zst", DATA, None),
    "parquet": ("a.parquet", parquet(), "parquet page checksums"),
    "parquet under any name": ("part-0", parquet(), "parquet page checksums"),
    "parquet without": ("a.parquet", parquet(write_page_checksum=False), None),
    "parquet of no rows": ("a.parquet", parquet(TABLE.slice(0, 0)), "parquet page checksums"),
    "parquet in gzip": ("a.parquet.gz", gzip.compress(parquet(write_page_checksum=False)), "gzip crc32"),
    "parquet, plain encoding": ("a.parquet", parquet(use_dictionary=False), "parquet page checksums"),
    "parquet, many pages": (
        "a.parquet",
        parquet(pa.table({"x": np.arange(50_000)}), data_page_size=1000, row_group_size=20_000, use_dictionary=False),
        "parquet page checksums",
    ),
    # the header of such a page alone says where its values begin
    "parquet, pages of version 2": ("a.parquet", parquet(data_page_version="2.0"), None),
    "parquet, long texts in its headers": (
        "a.parquet",
        parquet(pa.table({"x": ["a" * 200_000, "b" * 200_000]}), write_page_index=False),
        "parquet page checksums",
    ),
    "parquet by polars": ("a.parquet", written_by_polars(), None),
    "parquet cut short": ("a.parquet", parquet()[:-1], None),
}


@pytest.mark.parametrize("case", CARRIED)
def test_a_file_is_said_to_carry_a_checksum_where_all_of_it_has_one(
    landed: Callable[[str, bytes], Path], case: str
) -> None:
    name, data, expected = CARRIED[case]
    assert carried_checksum(landed(name, data)) == expected


@pytest.mark.parametrize(
    "writer",
    ["int96", "nanoseconds", "milliseconds", "large types", "nested", "nulls", "duckdb", "polars", "times and dates"],
)
def test_no_sound_parquet_is_said_to_contradict_itself(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "a.parquet"
    kinds = [
        pa.uint8(),
        pa.int8(),
        pa.uint16(),
        pa.int16(),
        pa.uint32(),
        pa.int32(),
        pa.uint64(),
        pa.int64(),
        pa.float32(),
    ]
    if writer == "duckdb":
        duckdb.sql(
            f"copy (select i, i::decimal(9, 2) d, i::varchar s, now() t, [i] l, {{'a': i}} m, gen_random_uuid() u, "
            f"current_date c, (i % 200)::utinyint b, '{{}}'::json j, interval 1 day v from range(300000) r(i)) to '{path}'"
        )
    elif writer == "polars":
        frame = pl.DataFrame(
            {"a": [1, None], "s": ["x", "y"], "c": pl.Series(["k", "k"], dtype=pl.Categorical), "l": [[1], []]}
        )
        frame.with_columns(t=pl.lit(0).cast(pl.Datetime("ms")), d=pl.lit("1.25").cast(pl.Decimal(9, 2))).write_parquet(
            path
        )
    elif writer == "times and dates":
        spans = {u: pa.array([1, None], pa.time64(u)) for u in ("us", "ns")} | {"ms": pa.array([1, 2], pa.time32("ms"))}
        pq.write_table(
            pa.table({**spans, "day": pa.array([1, 2], pa.date32()), "h": pa.array([1, 2], pa.float16())}), path
        )
    else:
        table = {
            "large types": pa.table({f"{k}": pa.array([1, 2, None], k) for k in kinds}).append_column(
                "s", pa.array(["a", "b", None], pa.large_string())
            ),
            "nested": pa.table(
                {
                    "a": [{"b": [1, 2], "c": {"d": "x"}}, None],
                    "m": pa.array([[("k", 1)], []], pa.map_("string", "int8")),
                }
            ),
            "nulls": pa.table({"n": pa.nulls(5), "d": pa.array(["x", None] * 2 + ["y"]).dictionary_encode()}),
        }.get(writer, TABLE)
        options = {
            "int96": {"use_deprecated_int96_timestamps": True},
            "milliseconds": {"coerce_timestamps": "ms", "version": "1.0"},
            "nanoseconds": {"coerce_timestamps": None, "version": "2.6"},
        }.get(writer, {})
        pq.write_table(table, path, write_page_checksum=True, **options)
        assert carried_checksum(path) == "parquet page checksums"
    carried_checksum(path)


def flips(data: bytes, where: range) -> Iterator[bytes]:
    """Each single flipped bit of some bytes."""
    for at in where:
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            yield bytes(flipped)


@pytest.mark.parametrize(
    "options",
    [
        {"row_group_size": 100},
        {"row_group_size": 100, "compression": "none", "use_dictionary": False},
        {"data_page_size": 40, "write_batch_size": 5, "compression": "none"},
    ],
    ids=["usual", "uncompressed", "several row groups and pages"],
)
def test_no_flipped_bit_of_a_parquets_footer_or_page_headers_is_vouched_for(
    room: Room, options: dict[str, object]
) -> None:
    columns = "{user: {type: id}, price: {type: decimal, scale: 2}, count: {type: integer, required: false}}"
    dataset = room.dataset(columns, source="format: parquet", time="column: at")
    data = parquet(TABLE.select(["at", "user", "price", "count"]), **options)
    path = room.land("a.parquet", data)
    file = LandedFile(name="a.parquet", path=path, bytes=len(data), modified_ns=0)

    def rows() -> list[pa.Table]:
        return [chunk.columns for chunk in read(dataset, file)]

    # of the footer, the schema and the first row group: behind them stands the same again; and of the pages' headers
    # the first of each column
    footer, right = len(data) - 8 - int.from_bytes(data[-8:-4], "little"), rows()
    group = pq.read_metadata(path).row_group(0)
    columns_at = [group.column(i) for i in range(3)]
    headers = [c.dictionary_page_offset if c.has_dictionary_page else c.data_page_offset for c in columns_at]
    counted = {"refused": 0, "harmless": 0, "unverifiable": 0}
    for where in (range(footer, footer + 160), *(range(at, at + 20) for at in headers)):
        for flipped in flips(data, where):
            path.write_bytes(flipped)
            try:
                carried = carried_checksum(path)
                found = rows()
            except DataError as error:
                assert "a.parquet" in str(error)
                counted["refused"] += 1
                continue
            counted["harmless" if found == right else "unverifiable"] += 1
            assert found == right or carried is None
    assert counted["refused"] > 500 and counted["unverifiable"] < 20, counted


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.zst", "a.csv.bz2"])
def test_a_flipped_bit_in_packed_text_is_noticed_or_does_not_matter(
    landed: Callable[[str, bytes], Path], name: str
) -> None:
    pack = {"gz": gzip.compress, "zst": lambda data: zstd(data, checked=True), "bz2": bz2.compress}[
        name[-3:].strip(".")
    ]
    data = pack(DATA[:200]) + pack(DATA[200:])  # two members: the beginning of a second one is where readers stop early
    refused = 0
    for flipped in flips(data, range(len(data))):
        path = landed(name, flipped)
        try:
            read = b"".join(byte_blocks(LandedFile(name=name, path=path, bytes=len(data), modified_ns=0)))
        except DataError as error:
            assert name in str(error)
            refused += 1
            continue
        assert read == DATA
    assert refused > 4 * len(data)


def test_what_a_parquet_says_twice_must_agree(room: Room) -> None:
    data = parquet(TABLE)
    name = data.rindex(b"price", 0, data.index(b"ARROW:schema"))  # in the last row group's footer
    path = room.land("a.parquet", data[:name] + b"pryce" + data[name + 5 :])
    with pytest.raises(
        DataError, match=r"a\.parquet is damaged.*column 'price' of row group 1: it is called 'pryce' there"
    ):
        carried_checksum(path)
