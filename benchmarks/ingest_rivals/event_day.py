"""One day of a shop's event log with planted faults and repeats, and what is true of it.

Rows are made in blocks of a fixed size from one seed, so that a day of any length needs the memory of one block. Every
bad row has exactly one fault; a repeat stands anywhere behind its row, in the same file or the next.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resources.contract.dataset import Dataset, parse_dataset
from resources.contract.digest import splitmix64

DAY, FIRST, LATE_DAYS, AHEAD_DAYS = date(2026, 3, 2), date(2026, 1, 1), 7, 1
NOW = datetime(2026, 3, 4, tzinfo=UTC)
START_MS = int(datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC).timestamp()) * 1000
DAY_MS = 86_400_000
NUM_CATEGORIES = 500
KEY = ("user_id", "item_id", "event_type", "session_id")
COLUMNS = (
    *("event_time", "user_id", "item_id", "category", "brand", "event_type"),
    *("price", "device", "site", "session_id", "label"),
)
FORMATS = ("parquet", "csv.gz", "jsonl.gz", "csv")

_NUM_USERS, _NUM_ITEMS, _NUM_BRANDS = 1_000_000, 200_000, 5_000
_BLOCK_ROWS = 250_000
_REPEATED, _LATE, _NO_PRICE = 0.005, 0.005, 0.02
_EVENTS = pa.array(["view", "cart", "purchase", "favourite"])
_DEVICES = pa.array(["ios", "android", "web", "tablet", "mini_program"])
_SITES = pa.array(["US", "DE", "FR", "BR", "SG", "JP", "GB", "MX"])
# one brand in a hundred has a comma, so that quoting is part of the work
_BRANDS = pa.array([f"Sons & Co, {i:04d}" if i % 100 == 0 else f"brand_{i:04d}" for i in range(_NUM_BRANDS)])
_TYPED_FAULTS = ("negative_price", "unknown_category", "too_late", "ahead", "no_user")
_TEXT_FAULTS = ("price_text", "category_fraction", "time_text", "broken_line")
_REASONS = {
    "negative_price": "out_of_bounds",
    "unknown_category": "out_of_bounds",
    "too_late": "too_late",
    "ahead": "implausible_time",
    "no_user": "missing",
    "price_text": "not_a_number",
    "category_fraction": "not_an_integer",
    "time_text": "unreadable_time",
}
_CONTRACT = """
name: events
source: {{files: "{files}", format: {format}, settle_seconds: 0}}
time: {{column: event_time}}
days: {{zone: UTC, first: {first}, late: {late}}}
columns:
  user_id: {{type: id}}
  item_id: {{type: id}}
  category: {{type: integer, between: [0, {categories}]}}
  brand: {{type: category}}
  event_type: {{type: category}}
  price: {{type: number, required: false, at_least: 0}}
  device: {{type: category}}
  site: {{type: category}}
  session_id: {{type: text}}
  label: {{type: integer, between: [0, 1]}}
user: {{column: user_id}}
duplicates: {{key: [{key}], keep: first, order: event_time}}
label: {{where: "label = 1"}}
features: {{categories: [user_id]}}
"""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How much lands, in which form."""

    format: str  # of FORMATS
    rows: int  # before repeats
    files: int = 4
    without: tuple[str, ...] = ()  # faults whose rows are taken out, for a program that cannot read them
    seed: int = 1
    bad: float = 0.003  # the share of bad rows

    @property
    def name(self) -> str:
        return "-".join(map(str, (self.format, self.rows, self.files, self.seed, self.bad, *self.without)))


@dataclass(frozen=True, kw_only=True)
class Planted:
    """What is true of a day. Sums are exact integers; `lines` are the sums of the bad rows' lines, by reason."""

    rows: int
    bytes: int
    good: dict[str, int]  # by event day
    reasons: dict[str, int]
    lines: dict[str, int]
    duplicates: int
    sums: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class LandedDay:
    """A day that lies on disk."""

    folder: Path
    shape: Shape
    planted: Planted

    @property
    def files(self) -> list[Path]:
        return sorted((self.folder / "landing" / DAY.isoformat()).iterdir())

    @property
    def contract(self) -> Dataset:
        text = _CONTRACT.format(
            files=f"{self.folder}/landing/{{day}}/*.{self.shape.format}",
            format=self.shape.format.split(".")[0],
            first=FIRST,
            late=LATE_DAYS,
            categories=NUM_CATEGORIES - 1,
            key=", ".join(KEY),
        )
        return parse_dataset(text, file="events.yaml", variables={})


def landed_day(data: Path, shape: Shape) -> LandedDay:
    """The day under `data`, which is made unless it is there."""
    folder = data / shape.name
    told = folder / "planted.json"
    if not told.exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "landing" / DAY.isoformat()).mkdir(parents=True)
        planted = _write(folder / "landing" / DAY.isoformat(), shape)
        told.write_text(json.dumps(asdict(planted)), encoding="utf-8")
    return LandedDay(folder=folder, shape=shape, planted=Planted(**json.loads(told.read_text(encoding="utf-8"))))


Rows = dict[str, np.ndarray]


def _blocks(shape: Shape) -> Iterator[tuple[int, Rows]]:
    """The rows of the day in order, each block with the file that it belongs to."""
    faults = np.arange(1, 1 + len(_TYPED_FAULTS) + (len(_TEXT_FAULTS) if shape.format != "parquet" else 0))
    rng = np.random.default_rng(shape.seed)
    carried: Rows | None = None
    for file, number in enumerate(np.diff(np.linspace(0, shape.rows, min(shape.files, 16) + 1).astype(int)).tolist()):
        for first in range(0, number, _BLOCK_ROWS):
            rows = _drawn(rng, min(_BLOCK_ROWS, number - first), faults, bad=shape.bad)
            size = len(rows["user"])
            repeated = rng.choice(size, round(size * _REPEATED), replace=False)
            places = np.concatenate([np.arange(size), repeated + rng.integers(1, 1 + _BLOCK_ROWS // 4, len(repeated))])
            order = np.concatenate([np.arange(size), repeated])[np.argsort(places, kind="stable")]
            rows = {name: values[order] for name, values in rows.items()}
            if carried is not None:
                rows = {name: np.concatenate([carried[name], values]) for name, values in rows.items()}
            carried = {name: values[-max(1, size // 1000) :] for name, values in rows.items()}
            if shape.without:
                left = ~np.any([_has(rows, fault) for fault in shape.without], axis=0)
                rows = {name: values[left] for name, values in rows.items()}
            yield file, rows


def _drawn(rng: np.random.Generator, size: int, faults: np.ndarray, *, bad: float) -> Rows:
    moments = np.sort(START_MS + (rng.beta(2, 2, size) * DAY_MS).astype(np.int64))
    fault = np.where(rng.random(size) < bad, rng.choice(faults, size), 0)
    return {
        "moment": moments,
        "late": rng.random(size) < _LATE,
        "user": _skewed(rng, _NUM_USERS, size, 1.05) * 611_953 % _NUM_USERS,
        "item": _skewed(rng, _NUM_ITEMS, size, 1.1) * 15_485_863 % _NUM_ITEMS,
        "event": rng.choice(4, size, p=[0.86, 0.08, 0.03, 0.03]),
        "cents": np.exp(rng.normal(7.6, 1.2, size)).astype(np.int64),
        "priced": rng.random(size) >= _NO_PRICE,
        "device": rng.choice(5, size, p=[0.3, 0.35, 0.2, 0.05, 0.1]),
        "site": rng.choice(8, size, p=[0.35, 0.15, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05]),
        "label": (rng.random(size) < 0.04).astype(np.int64),
        "fault": fault,
    }


def _skewed(rng: np.random.Generator, most: int, size: int, power: float) -> np.ndarray:
    """Ranks below `most` by a bounded power law."""
    share = rng.random(size) * ((most + 1.0) ** (1 - power) - 1) + 1
    return np.minimum((share ** (1 / (1 - power))).astype(np.int64) - 1, most - 1)


def _has(rows: Rows, fault: str) -> np.ndarray:
    return rows["fault"] == 1 + (*_TYPED_FAULTS, *_TEXT_FAULTS).index(fault)


def _times_ms(rows: Rows) -> np.ndarray:
    days = np.where(rows["late"], -1, 0)
    days = np.where(_has(rows, "too_late"), -40, np.where(_has(rows, "ahead"), 5, days))
    return rows["moment"] + days * DAY_MS


def _table(rows: Rows) -> pa.Table:
    """The rows with their types, and with those faults that a type can hold."""
    cents = np.where(_has(rows, "negative_price"), -rows["cents"] - 1, rows["cents"])
    unpriced = ~rows["priced"] & (rows["fault"] == 0)
    category = np.where(_has(rows, "unknown_category"), 9_999, rows["item"] * 7919 % NUM_CATEGORIES)
    return pa.table(
        {
            "event_time": pa.array(_times_ms(rows), pa.timestamp("ms", tz="UTC")),
            "user_id": pa.array(rows["user"], mask=_has(rows, "no_user")),
            "item_id": rows["item"],
            "category": category.astype(np.int32),
            "brand": _BRANDS.take(pa.array(rows["item"] * 104_729 % _NUM_BRANDS)),
            "event_type": _EVENTS.take(pa.array(rows["event"])),
            "price": pa.array(cents / 100, mask=unpriced),
            "device": _DEVICES.take(pa.array(rows["device"])),
            "site": _SITES.take(pa.array(rows["site"])),
            "session_id": _sessions(rows),
            "label": rows["label"].astype(np.int8),
        }
    )


def _sessions(rows: Rows) -> pa.Array:
    """One name per user and half hour, as a UUID is written."""
    first = splitmix64(
        rows["user"].astype(np.uint64) << np.uint64(24) | (rows["moment"] // 1_800_000).astype(np.uint64)
    )
    words = np.stack([first, splitmix64(first)], axis=1)
    hexadecimal = np.array([f"{value:02x}" for value in range(256)], dtype="S2")
    digits = hexadecimal[words.view(np.uint8)].view(np.uint8)
    text = np.full((len(digits), 36), ord("-"), dtype=np.uint8)
    for start, at, stop in ((0, 0, 8), (8, 9, 12), (12, 14, 16), (16, 19, 20), (20, 24, 32)):
        text[:, at : at + stop - start] = digits[:, start:stop]
    ends = np.arange(len(digits) + 1, dtype=np.int32) * 36
    return pa.Array.from_buffers(pa.string(), len(digits), [None, pa.py_buffer(ends), pa.py_buffer(text)])


def _texts(rows: Rows) -> dict[str, pa.Array]:
    """The columns as texts, with those faults that only a text can hold; null where there is no value."""
    columns = {name: column.combine_chunks() for name, column in zip(COLUMNS, _table(rows).columns, strict=True)}
    texts = {name: column.cast(pa.string()) for name, column in columns.items()}
    texts["event_time"] = pc.binary_replace_slice(texts["event_time"], start=10, stop=11, replacement="T")
    for column, fault, text in (
        ("event_time", "time_text", "2026-13-45T10:00:00Z"),
        ("category", "category_fraction", "7.5"),
    ):
        texts[column] = pc.if_else(pa.array(_has(rows, fault)), text, texts[column])
    return texts


def _csv_lines(rows: Rows) -> pa.Array:
    texts = _texts(rows)
    texts["price"] = pc.if_else(pa.array(_has(rows, "price_text")), "12.5x", texts["price"])
    comma = pc.match_substring(texts["brand"], ",")
    texts["brand"] = pc.if_else(comma, pc.binary_join_element_wise('"', texts["brand"], '"', ""), texts["brand"])
    joined = {"null_handling": "replace", "null_replacement": ""}
    lines = pc.binary_join_element_wise(*texts.values(), ",", **joined)
    short = pc.binary_join_element_wise(*list(texts.values())[:8], ",", **joined)
    long = pc.binary_join_element_wise(lines, "surplus", ",")
    broken, even = _has(rows, "broken_line"), rows["item"] % 2 == 0
    lines = pc.if_else(pa.array(broken & even), short, pc.if_else(pa.array(broken & ~even), long, lines))
    return pc.binary_join_element_wise(lines, "\n", "")


def _json_lines(rows: Rows) -> pa.Array:
    texts = _texts(rows)
    bare = ("user_id", "item_id", "category", "price", "label")
    parts: list[pa.Array | str] = []
    for name, column in texts.items():
        mark = "" if name in bare else '"'
        parts += [f'{"," if parts else "{"}"{name}":{mark}', column.fill_null("null") if not mark else column, mark]
    place = next(i for i, part in enumerate(parts) if isinstance(part, str) and "price" in part) + 1
    parts[place] = pc.if_else(pa.array(_has(rows, "price_text")), '"12.5x"', parts[place])
    lines = pc.binary_join_element_wise(*parts, "}", "")
    lines = pc.if_else(pa.array(_has(rows, "broken_line")), pc.utf8_slice_codeunits(lines, 0, 70), lines)
    return pc.binary_join_element_wise(lines, "\n", "")


def _write(folder: Path, shape: Shape) -> Planted:
    """The files of the day, and the truth about them."""
    reasons = dict(_REASONS, broken_line="malformed_json" if shape.format.startswith("json") else "ragged")
    counts, lines = dict.fromkeys(reasons.values(), 0), dict.fromkeys(reasons.values(), 0)
    good, sums = {DAY: 0, DAY - timedelta(days=1): 0}, dict.fromkeys(("cents", "priced", "category", "label", "ms"), 0)
    users, items = np.zeros(_NUM_USERS, dtype=bool), np.zeros(_NUM_ITEMS, dtype=bool)
    keys, total, at = [], 0, {"file": -1, "line": 0}
    header = shape.format.startswith("csv")
    with ThreadPoolExecutor(2) as pool:
        writer = _Files(folder, shape, pool)
        for file, rows in _blocks(shape):
            at = at if at["file"] == file else {"file": file, "line": 1 + header}
            size, fine = len(rows["user"]), rows["fault"] == 0
            numbers = at["line"] + np.arange(size)
            at["line"] += size
            for fault, reason in reasons.items():
                found = _has(rows, fault)
                counts[reason] += int(found.sum())
                lines[reason] += int(numbers[found].sum())
            good[DAY] += int((fine & ~rows["late"]).sum())
            good[DAY - timedelta(days=1)] += int((fine & rows["late"]).sum())
            sums["cents"] += int(rows["cents"][fine & rows["priced"]].sum())
            sums["priced"] += int((fine & rows["priced"]).sum())
            sums["category"] += int((rows["item"][fine] * 7919 % NUM_CATEGORIES).sum())
            sums["label"] += int(rows["label"][fine].sum())
            sums["ms"] += int((_times_ms(rows)[fine] - START_MS).sum())
            users[rows["user"][fine]], items[rows["item"][fine]] = True, True
            keys.append(_keys({name: values[fine] for name, values in rows.items()}))
            total += size
            writer.add(file, rows)
        writer.close()
    known = np.sort(np.concatenate(keys))
    return Planted(
        rows=total,
        bytes=sum(path.stat().st_size for path in folder.iterdir()),
        good={day.isoformat(): count for day, count in sorted(good.items()) if count},
        reasons={reason: count for reason, count in sorted(counts.items()) if count},
        lines={reason: total for reason, total in sorted(lines.items()) if total},
        duplicates=int((known[1:] == known[:-1]).sum()),
        sums={**sums, "users": int(users.sum()), "items": int(items.sum())},
    )


def _keys(rows: Rows) -> np.ndarray:
    """The declared key and the event day of each row as one number."""
    found = rows["late"].astype(np.int64)
    half_hours = (rows["moment"] - START_MS) // 1_800_000
    for part, size in ((rows["user"], _NUM_USERS), (half_hours, 64), (rows["item"], _NUM_ITEMS), (rows["event"], 4)):
        found = found * size + part
    return found


class _Files:
    """The landed files, of which one grows at a time; finished ones are packed beside."""

    def __init__(self, folder: Path, shape: Shape, pool: ThreadPoolExecutor) -> None:
        self._folder, self._shape, self._pool = folder, shape, pool
        self._file, self._open, self._waiting = -1, None, []
        self._tiny: list[str] = []

    def add(self, file: int, rows: Rows) -> None:
        parquet, tiny = self._shape.format == "parquet", self._shape.files > 16
        if file != self._file and not tiny:
            self._finish()
            self._file = file
            path = self._folder / f"part-{file:05d}.{self._shape.format}"
            self._open = (
                pq.ParquetWriter(path, _table(rows).schema, compression="zstd")
                if parquet
                else path.with_suffix(".raw").open("wb")
            )
            if not parquet and self._shape.format.startswith("csv"):
                self._open.write(_HEADER)
        if parquet:
            assert isinstance(self._open, pq.ParquetWriter)
            self._open.write_table(_table(rows))
            return
        lines = _json_lines(rows) if self._shape.format.startswith("json") else _csv_lines(rows)
        if tiny:
            self._tiny += map(str, lines.to_pylist())
        else:
            assert self._open is not None
            self._open.write(lines.buffers()[2])

    def close(self) -> None:
        if self._shape.files > 16:
            for number, some in enumerate(np.array_split(np.arange(len(self._tiny)), self._shape.files)):
                text = "".join(self._tiny[some[0] : some[-1] + 1])
                (self._folder / f"part-{number:05d}.csv").write_bytes(_HEADER + text.encode())
            return
        self._finish()
        for packed in self._waiting:
            packed.result()

    def _finish(self) -> None:
        if self._open is None:
            return
        self._open.close()
        if self._shape.format != "parquet":
            path = self._folder / f"part-{self._file:05d}.{self._shape.format}"
            self._waiting.append(self._pool.submit(_packed, path))


_HEADER = (",".join(COLUMNS) + "\n").encode()


def _packed(path: Path) -> None:
    """The raw text under its final name, zipped as gzip(1) would where the name says so."""
    raw = path.with_suffix(".raw")
    if path.suffix != ".gz":
        raw.rename(path)
        return
    with raw.open("rb") as source, gzip.open(path, "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    raw.unlink()
