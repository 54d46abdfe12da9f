"""All values of some sample files as text, read by ingestion's own readers, so that nothing is seen that it would not see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from assets.ingestion.conversion import texts_of
from assets.ingestion.files import LandedFile
from assets.ingestion.look.encoding import PLAIN_ASCII
from assets.ingestion.look.formats import Written, written
from assets.ingestion.look.question import counted, listed
from assets.ingestion.reading import read
from assets.ingestion.unpacking import PACKED
from resources.contract.dataset import Dataset
from resources.contract.errors import ConfigError, DataError
from resources.contract.source import ACCESS_LOG_TIME

MAX_ROWS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Samples:
    """What some files of one dataset hold. A null in `table` is a value that is not there; all columns are text."""

    written: Written
    files: tuple[LandedFile, ...]
    rows: tuple[int, ...]  # of each file, without those that could not be split
    table: pa.Table
    kinds: dict[str, pa.DataType]  # of a Parquet file's columns
    lacking: dict[str, str]  # columns that a file lacks, and the first such file
    broken: Counter[str]  # rows that could not be split, by reason
    cut: tuple[str, ...]  # files of which only the first rows were read
    refused: dict[str, str]  # files that could not be read, and why


def samples(files: Sequence[LandedFile], *, max_rows: int = MAX_ROWS) -> Samples:
    """The values of all files, of each at most its share of `max_rows`.

    A file that cannot be read is left out by name; DataError where none can, ConfigError where two are not written alike.
    """
    share, refused, parts = max(1, max_rows // len(files)), {}, []
    for file in files:
        try:
            parts.append(_part(file, max_rows=share))
        except DataError as error:
            refused[file.name] = str(error)
    if not parts:
        raise DataError("\n".join(refused.values()))
    names = list(dict.fromkeys(name for part in parts for name in part.table.column_names))
    lacking = {}
    for name in names:
        if without := next((part.file.name for part in parts if name not in part.table.column_names), None):
            lacking[name] = without
    return Samples(
        written=_of_all(parts),
        files=tuple(part.file for part in parts),
        rows=tuple(part.table.num_rows for part in parts),
        table=pa.concat_tables([part.table for part in parts], promote_options="default")
        .select(names)
        .combine_chunks(),
        kinds={name: kind for part in reversed(parts) for name, kind in part.kinds.items()},
        lacking=lacking,
        broken=sum((part.broken for part in parts), Counter()),
        cut=tuple(part.file.name for part in parts if part.cut),
        refused=refused,
    )


def _of_all(parts: Sequence[_Part]) -> Written:
    """What is true of all files. Raises ConfigError where one contract cannot be."""
    first = parts[0].written
    telling = next((p.written for p in parts if p.written.reasons.get("encoding") not in (None, PLAIN_ASCII)), first)
    for part in parts:
        other = part.written
        same = (other.format, other.csv) == (first.format, first.csv)
        if not same or (other.encoding != telling.encoding and other.reasons.get("encoding") != PLAIN_ASCII):
            raise ConfigError(
                f"{parts[0].file.name} and {part.file.name} are not written alike ({_manner(first)}; {_manner(other)}), and one "
                "contract reads all its files in one way. Name the files of one kind."
            )
    return replace(
        first,
        encoding=telling.encoding,
        reasons={**first.reasons, **{key: why for key, why in telling.reasons.items() if key == "encoding"}},
        left_out={name: why for part in parts for name, why in part.written.left_out.items()},
        questions=tuple(dict.fromkeys(question for part in parts for question in part.written.questions)),
    )


def _manner(found: Written) -> str:
    letters = f" with delimiter {found.csv.delimiter!r} and quote {found.csv.quote!r}" if found.format == "csv" else ""
    header = " without a header" if found.format == "csv" and found.csv.header is not True else ""
    return f"{found.format} in {found.encoding}{letters}{header}"


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The first rows of one file, as text, and the types that it gives them itself."""

    file: LandedFile
    written: Written
    table: pa.Table
    kinds: dict[str, pa.DataType]
    broken: Counter[str]
    cut: bool


def _part(file: LandedFile, *, max_rows: int) -> _Part:
    found = written(file, max_rows=max_rows)
    if len(found.names) < 2:
        left_out = "".join(f"; {name!r} cannot be one: {why}" for name, why in found.left_out.items())
        raise DataError(
            f"{file.name} has {counted(len(found.names), 'column')}, and a dataset needs a time and a user at least{left_out}."
        )
    tables, kinds, broken, rows = [pa.table({name: pa.nulls(0, pa.string()) for name in found.names})], {}, Counter(), 0
    for chunk in read(_everything(file, found), file):
        landed = chunk.columns.select(list(found.names)).slice(0, max_rows - rows)
        kinds = kinds or dict(zip(landed.column_names, landed.schema.types, strict=True))
        tables.append(pa.table({name: _texts(landed[name].combine_chunks()) for name in found.names}))
        broken.update(row.reason.text for row in chunk.broken)
        rows += chunk.columns.num_rows
        if rows > max_rows:
            break
    return _Part(
        file=file, written=found, table=pa.concat_tables(tables), kinds=kinds, broken=broken, cut=rows > max_rows
    )


def _texts(column: pa.Array) -> pa.Array:
    texts = texts_of(column)
    return pc.if_else(pc.equal(texts, ""), None, texts)


def _everything(file: LandedFile, found: Written) -> Dataset:
    """A contract that takes every column of a file as it is written."""
    first, *others = ("time", *(n for n in found.names if n != "time")) if found.format == "access_log" else found.names
    source = {"files": str(file.path), "format": found.format, "encoding": found.encoding, "csv": found.csv}
    time = {"column": first} | ({"format": ACCESS_LOG_TIME} if found.format == "access_log" else {})
    return Dataset.model_validate(
        {
            "name": "look",
            "source": source,
            "time": time,
            "days": {"zone": "UTC", "first": "1970-01-01"},
            "columns": {n: {"as": f"c{at}", "type": "id", "required": False} for at, n in enumerate(others)},
            "user": {"column": "c0"},
            "label": {"where": "true"},
            "features": {"categories": ("c0",)},
        },
        strict=False,
    )


def told(found: Samples) -> str:
    """What was read, in a sentence."""
    rows, bad = sum(found.rows), found.broken.total()
    packed = {file.path.suffix for file in found.files} & PACKED.keys()
    encoding = [] if found.written.format == "parquet" else [found.written.encoding]
    how = ", ".join([found.written.format, *sorted(packed), *encoding])
    text = f"{counted(rows + bad, 'row')} of {counted(len(found.files), 'file')} ({how})"
    if bad:
        text += f", {bad:,} of the rows broken ({listed(list(found.broken))})"
    if found.cut:
        are, their = ("is", "its") if len(found.cut) == 1 else ("are", "their")
        text += f"; {listed(found.cut, most=3)} {are} larger, and all values of {their} first {max(found.rows):,} rows were looked at"
    return text
