"""Parquet: typed columns say exactly what they said."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.ingestion import columnar
from assets.ingestion.reasons import Reason
from assets.ingestion.times import instants
from resources.contract.days import instant_us
from resources.contract.errors import DataError
from resources.contract.source import Time

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

PARQUET = "format: parquet"
INSTANT = datetime(2025, 3, 1, 12, 30, 0, 123456)


def parquet(table: pa.Table, **options: Any) -> bytes:
    """A table as a Parquet file's bytes."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([9007199254740993, None, -1]), ["9007199254740993", None, "-1"]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array([17850.0, 12.75, -0.5, 1e15, 1e300, None]), ["17850.0", "12.75", "-0.5", "1000000000000000.0", "1e+300", None]),
        (pa.array([0.1, 3], pa.float32()), ["0.1", "3.0"]),
        (pa.array(np.array([0.5, 2], np.float16)), ["0.5", "2.0"]),
        (pa.array([Decimal("12.750"), Decimal("-1")], pa.decimal128(10, 3)), ["12.750", "-1.000"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array(["NO", "007", ""]), ["NO", "007", None]),
        (pa.array(["a", "b", None, "a"]).dictionary_encode(), ["a", "b", None, "a"]),
        (pa.array(["a"], pa.large_string()), ["a"]),
        (pa.array([b"x", "\xe4".encode()]), ["x", "\xe4"]),
        (pa.array([UUID(int=5).bytes, None], pa.uuid()), ["00000000-0000-0000-0000-000000000005", None]),
        (pa.array([date(2025, 3, 1)]), ["2025-03-01"]),
        (pa.array([INSTANT], pa.timestamp("us")), ["2025-03-01 12:30:00.123456"]),
        (pa.array([INSTANT.replace(tzinfo=UTC)], pa.timestamp("us", "Europe/Berlin")), ["2025-03-01 12:30:00.123456Z"]),
    ],
)  # fmt: skip
def test_a_typed_id_is_the_text_that_says_the_same(room: Room, column: pa.Array, texts: list[Any]) -> None:
    dataset = room.dataset("{c: {as: user, type: id, required: false}}", source=PARQUET)
    times = pa.array([INSTANT.replace(tzinfo=UTC)] * len(column))
    manifest = room.delivered(dataset, pa.table({"event_time": times, "c": column}))
    assert room.good(dataset, manifest)["user"].to_pylist() == texts


NESTED = pa.table(
    {
        "event_time": pa.array([INSTANT.replace(tzinfo=UTC)] * 4),
        "a": pa.array(
            [
                {"b": [{"c": "x", "n": 1}, {"c": "y", "n": 2}], "d": {"e": 1.5}},
                {"b": [{"c": "z", "n": 3}], "d": None},
                {"b": None, "d": {"e": None}},
                None,
            ]
        ),
        "m": pa.array([[("k", "v")], [], None, [("other", "w")]], pa.map_(pa.string(), pa.string())),
        "f": pa.array([["p", "q"], [None, None], ["r", None], ["s", "t"]], pa.list_(pa.string(), 2)),
        "g.h": pa.array(["its", "own", "column", None]),
        "g": pa.array([{"h": "hidden"}] * 4),
    }
)


def test_nested_values_are_taken_by_their_path_and_null_where_there_is_none(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnar, "_BATCH_ROWS", 3)  # so that a batch begins within the lists
    columns = """
  "a.b[0].c": {as: user, type: id, required: false}
  "a.b[1].n": {as: second, type: integer, required: false}
  "a.d.e": {as: e, type: number, required: false}
  "m.k": {as: k, type: text, required: false}
  "f[1]": {as: f, type: text, required: false}
  "g.h": {as: h, type: text, required: false}
  "a.no.such[3]": {as: none, type: integer, required: false}
"""
    dataset = room.dataset(columns, source=PARQUET)
    manifest = room.delivered(dataset, NESTED)
    found = room.good(dataset, manifest)
    assert found.drop_columns("event_time").to_pydict() == {
        "user": ["x", "z", None, None],
        "second": [2, None, None, None],
        "e": [1.5, None, None, None],
        "k": ["v", None, None, None],
        "f": ["q", None, None, "t"],
        "h": ["its", "own", "column", None],
        "none": [None] * 4,
    }


def test_a_required_path_that_leads_nowhere_refuses_the_file(room: Room) -> None:
    dataset = room.dataset('{"a.b[0].x": {as: user, type: id}}', source=PARQUET)
    with pytest.raises(DataError, match=r"has no column 'a\.b\[0\]\.x'"):
        room.chunks(dataset, parquet(NESTED))


@pytest.mark.parametrize(
    "column", [pa.array([[1]]), pa.array([{"a": 1}]), pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))]
)
def test_what_is_no_single_value_is_refused_with_file_and_column(room: Room, column: pa.Array) -> None:
    dataset = room.dataset("{u: {as: user, type: id}}", source=PARQUET)
    with pytest.raises(DataError, match=r"landed\.csv: column 'u' is of type"):
        room.chunks(dataset, parquet(pa.table({"u": column, "event_time": [INSTANT]})))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("version", ["1.0", "2.4", "2.6"])
def test_every_writer_s_timestamps_are_the_instants_that_were_written(room: Room, unit: str, version: str) -> None:
    column = pa.array([INSTANT.replace(tzinfo=UTC, microsecond=0), None], pa.timestamp(unit, "UTC"))
    chunk = room.chunks(
        room.dataset("{u: {as: user, type: id}}", source=PARQUET),
        parquet(pa.table({"u": ["a", "b"], "event_time": column}), version=version),
    )[0]
    found = instants(chunk.columns["event_time"].combine_chunks(), Time(column="t"))
    assert found.times_us.tolist() == [instant_us(INSTANT.replace(tzinfo=UTC, microsecond=0)), 0]
    assert found.reasons.tolist() == [Reason.FINE, Reason.MISSING]


def test_int96_times_are_exact_and_do_not_wrap_around(room: Room) -> None:
    moments = [INSTANT, None, datetime(9999, 12, 31, 23, 59, 59), datetime(1, 1, 1), datetime(2609, 9, 20)]
    dataset = room.dataset(
        "{u: {as: user, type: id, required: false}}", source=PARQUET, time="column: event_time, zone: UTC"
    )
    for values in (moments, moments[:2]):
        table = pa.table({"u": ["a"] * len(values), "event_time": pa.array(values, pa.timestamp("us"))})
        [chunk] = room.chunks(dataset, parquet(table, use_deprecated_int96_timestamps=True))
        found = instants(chunk.columns["event_time"].combine_chunks(), dataset.time)
        assert found.times_us.tolist() == [instant_us(v.replace(tzinfo=UTC)) if v else 0 for v in values]
    fine = pa.array([1740787200_000000001, 1740787200_000001000], pa.timestamp("ns"))
    [chunk] = room.chunks(
        dataset, parquet(pa.table({"u": ["a", "b"], "event_time": fine}), use_deprecated_int96_timestamps=True)
    )
    found = instants(chunk.columns["event_time"].combine_chunks(), dataset.time)
    assert found.reasons.tolist() == [Reason.NOT_EXACT, Reason.FINE]


def test_old_times_in_nanoseconds_beside_times_far_out_are_each_what_they_are() -> None:
    far = datetime(2609, 9, 20)
    micros = pa.array([INSTANT, far, None], pa.timestamp("us"))
    nanos = pa.array([1740787200_000000001, 7, None], pa.timestamp("ns"))
    micros = pa.array([datetime(2025, 3, 1), far, None], pa.timestamp("us"))
    found = instants(columnar._exact_int96(nanos, micros), Time(column="t", zone="UTC"))
    assert found.reasons[0] == Reason.NOT_EXACT and found.reasons[2] == Reason.MISSING
    assert found.times_us[1] > instant_us(datetime(2262, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_every_codec_and_encoding_is_read(room: Room, compression: str) -> None:
    table = pa.table({"event_time": [INSTANT.replace(tzinfo=UTC)] * 300, "u": [f"user {n % 7}" for n in range(300)]})
    dataset = room.dataset("{u: {as: user, type: id}}", source=PARQUET)
    for options in (
        {},
        {"use_dictionary": False, "column_encoding": {"u": "DELTA_BYTE_ARRAY"}},
        {"data_page_version": "2.0"},
    ):
        chunks = room.chunks(dataset, parquet(table, compression=compression, row_group_size=100, **options))
        assert pa.concat_tables([chunk.columns for chunk in chunks])["u"].to_pylist() == table["u"].to_pylist()


def test_a_chunk_shows_all_columns_of_the_file_with_their_types_and_reads_only_the_declared(room: Room) -> None:
    table = pa.table({"x": [[1]], "event_time": [INSTANT], "U": pa.array([5], pa.int32())})
    [chunk] = room.chunks(room.dataset("{u: {as: user, type: id}}", source=PARQUET), parquet(table))
    assert [name for name, _ in chunk.seen] == ["x", "event_time", "U"]
    assert [kind for _, kind in chunk.seen][1:] == ["timestamp[us]", "int32"]
    # a name that differs in case alone stands for the declared
    assert chunk.columns.column_names == ["event_time", "u"]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_how_a_writer_lays_texts_out_is_no_other_type(room: Room, kind: pa.DataType) -> None:
    table = pa.table({"u": pa.array(["a"]).cast(kind), "event_time": [INSTANT]})
    [chunk] = room.chunks(room.dataset("{u: {as: user, type: id}}", source=PARQUET), parquet(table))
    assert dict(chunk.seen)["u"] == "string"


def test_a_row_group_of_any_size_is_read_in_pieces(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "_BATCH_ROWS", 1000)
    table = pa.table({"event_time": [INSTANT.replace(tzinfo=UTC)] * 2500, "u": [str(n) for n in range(2500)]})
    chunks = room.chunks(room.dataset("{u: {as: user, type: id}}", source=PARQUET), parquet(table))
    assert [chunk.columns.num_rows for chunk in chunks] == [1000, 1000, 500]
    assert np.concatenate([chunk.lines for chunk in chunks]).tolist() == list(range(1, 2501))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x1f\x8b\x08\0" + b"\0" * 20, "gzip"),
        (b"event_time,u\n1,2\n", "something else"),
        (b"PK\x03\x04" + b"\0" * 20, "ZIP"),
    ],
)
def test_what_is_no_parquet_is_refused_and_called_what_it_is(room: Room, content: bytes, said: str) -> None:
    with pytest.raises(DataError, match=rf"landed\.csv should be Parquet.* it is .*{said}"):
        room.chunks(room.dataset("{u: {as: user, type: id}}", source=PARQUET), content)


def test_rows_are_numbered_and_shown_in_quarantine(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "_BATCH_ROWS", 2)
    dataset = room.dataset(
        "{u: {as: user, type: id}, n: {type: integer}}", source=PARQUET, time="column: event_time, zone: UTC"
    )
    table = pa.table({"n": [1.0, 2.5, None], "event_time": [INSTANT] * 3, "u": ["a", "b", "c"], "x": [[1]] * 3})
    manifest = room.delivered(dataset, table)
    assert room.good(dataset, manifest).to_pylist() == [
        {"event_time": INSTANT.replace(tzinfo=UTC), "user": "a", "n": 1}
    ]
    assert [(row["line"], row["column"], row["reason"], row["raw"]) for row in room.quarantine(manifest)] == [
        (2, "n", "not_an_integer", '{"event_time": "2025-03-01 12:30:00.123456", "u": "b", "n": "2.5"}'),
        (3, "n", "missing", '{"event_time": "2025-03-01 12:30:00.123456", "u": "c", "n": null}'),
    ]
    assert "x" in [name for name, _ in manifest.facts["layouts"][0]]


def test_instants_finer_than_a_microsecond_are_not_rounded(room: Room) -> None:
    times = pa.array([1740787200_000000000, 1740787200_000000001, 1740787200_000001000], pa.timestamp("ns", "UTC"))
    dataset = room.dataset("{u: {as: user, type: id}}", source=PARQUET)
    manifest = room.delivered(dataset, pa.table({"u": ["a", "b", "c"], "event_time": times}))
    good = room.good(dataset, manifest)["event_time"].cast(pa.int64()).to_pylist()
    assert good == [1740787200_000000, 1740787200_000001]
    assert [(row["line"], row["reason"]) for row in room.quarantine(manifest)] == [(2, "not_exact")]


def test_a_missing_required_column_and_a_damaged_file_are_refused_by_name(room: Room) -> None:
    dataset = room.dataset("{u: {as: user, type: id}}", source=PARQUET)
    with pytest.raises(DataError, match=r"landed\.csv has no column 'event_time'"):
        room.chunks(dataset, parquet(pa.table({"u": ["a"]})))
    with pytest.raises(DataError, match=r"landed\.csv is damaged"):
        room.chunks(dataset, b"PAR1 is not enough")
    latin = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xe4")]
    )
    with pytest.raises(DataError, match=r"landed\.csv is damaged"):
        room.chunks(dataset, parquet(pa.table({"event_time": [INSTANT], "u": latin})))
