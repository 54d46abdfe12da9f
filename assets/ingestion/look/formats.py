"""How a file is written, told from its bytes: format, encoding, delimiter, quotes, header, and the names of its columns.

What the name says of the format is not believed; what it says of the compression is what ingestion goes by, so a name
that is wrong there is refused here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from assets.ingestion.fieldpath import parse_path
from assets.ingestion.files import LandedFile
from assets.ingestion.look import dialect
from assets.ingestion.look.encoding import encoding_of, text_of
from assets.ingestion.look.jsonnames import Steps, joined, json_names
from assets.ingestion.look.question import Question, counted
from assets.ingestion.unpacking import HEAD_BYTES, PACKED, byte_blocks, kind_of, refusing_damage
from resources.contract.errors import DataError
from resources.contract.source import ACCESS_LOG_FIELDS, Csv

_TEXT_BYTES = 1 << 20
_HEAD_LINES = 500
_ACCESS_LOG = re.compile(r'\S+ \S+ \S+ \[[^\]]+\] "[^"]*" \d{3} (\d+|-)( "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*")?.*')


@dataclass(frozen=True, kw_only=True)
class Written:
    """How a file is written. `names` are its columns in its order; `reasons` say why, by the contract's key."""

    format: Literal["csv", "jsonl", "parquet", "access_log"]
    names: tuple[str, ...]
    encoding: str = "utf-8"
    csv: Csv = field(default_factory=Csv)
    reasons: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)  # columns that no contract can name, and why
    questions: tuple[Question, ...] = ()


def written(file: LandedFile, *, max_rows: int) -> Written:
    """How a file is written. Raises DataError for one that ingestion could not read.

    Args:
        max_rows: how many lines of JSON are looked at for names.
    """
    if file.bytes == 0:
        raise DataError(f"{file.name} is empty: nothing can be told from it. Name a file that holds rows.")
    with refusing_damage(file.name):
        _require_true_name(file)
    if next(iter(byte_blocks(file)), b"")[:4] == b"PAR1":
        return _parquet(file)
    encoding, why, questions = encoding_of(file)
    head = _head(file, encoding)
    lines = [line for line in head.splitlines()[:_HEAD_LINES] if line.strip()]
    if not lines:
        raise DataError(
            f"{file.name} holds blank lines alone: nothing can be told from it. Name a file that holds rows."
        )
    reasons = {"encoding": why}
    if (objects := sum(map(_is_json, lines))) > 0.5 * len(lines):
        names, left_out = json_names(file, encoding, max_rows=max_rows)
        reasons["format"] = f"{objects:,} of the first {counted(len(lines), 'line')} are JSON objects"
        return Written(
            format="jsonl", names=names, encoding=encoding, reasons=reasons, left_out=left_out, questions=questions
        )
    if lines[0].lstrip()[:1] in ("[", "{"):
        raise DataError(
            f"{file.name} is one JSON document and not one object a line, so it could only be read as a whole. Write it as "
            "JSON lines, for example by: jq -c '.[]'"
        )
    if sum(_ACCESS_LOG.fullmatch(line) is not None for line in lines) > 0.9 * len(lines):
        reasons["format"] = f"{len(lines):,} lines looked at are in the combined log format"
        return Written(
            format="access_log", names=ACCESS_LOG_FIELDS, encoding=encoding, reasons=reasons, questions=questions
        )
    found = dialect.of(head, file=file.name)
    unclear = {name: "two columns have this name" for name in found.names if found.names.count(name) > 1}
    unclear |= {"": "it has no name"} if "" in found.names else {}
    return Written(
        format="csv",
        names=tuple(name for name in found.names if name not in unclear),
        encoding=encoding,
        csv=found.csv,
        reasons={**reasons, **found.reasons},
        left_out=unclear,
        questions=questions + found.questions,
    )


def _require_true_name(file: LandedFile) -> None:
    """Raises DataError where the name and the first bytes do not agree on what the file is."""
    with file.path.open("rb") as stream:
        found = kind_of(stream.read(HEAD_BYTES))
    if found not in (None, "Parquet", *PACKED.values()):
        raise DataError(f"{file.name} is {found}, which is not read. Export it as CSV, JSON lines or Parquet.")
    endings = {kind: ending for ending, kind in PACKED.items()}
    packed, named = found if found in endings else None, PACKED.get(file.path.suffix)
    if packed != named:
        remedy = f"let its name end in {endings[packed]}" if packed else f"take the {file.path.suffix} off its name"
        raise DataError(
            f"{file.name} is {packed or 'not packed'}, its name says {named or 'not packed'}, and files are unpacked by their "
            f"name: {remedy}."
        )


def _head(file: LandedFile, encoding: str) -> str:
    """The first whole lines."""
    head = next(text_of(file, encoding), "").removeprefix("\ufeff")
    cut = head[:_TEXT_BYTES]
    return cut[: cut.rindex("\n") + 1] if len(head) > len(cut) and "\n" in cut else cut


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _parquet(file: LandedFile) -> Written:
    with refusing_damage(file.name):
        packed = file.path.suffix in PACKED
        schema = pq.read_schema(pa.BufferReader(b"".join(byte_blocks(file))) if packed else file.path)
    names, left_out = [], {}
    for path, kind in (found for field_ in schema for found in _leaves((field_.name,), field_.type)):
        name = joined(path)
        if schema.names.count(str(path[0])) > 1:
            left_out[name] = "two columns have this name"
        elif kind is None:
            left_out[name] = "its keys are data"
        elif (parse_path(name) or (name,)) != path:
            left_out[name] = "its name is made of the marks of a path"
        else:
            names.append(name)
    return Written(format="parquet", names=tuple(names), reasons={"format": "the file says so"}, left_out=left_out)


def _leaves(path: Steps, kind: pa.DataType) -> Iterator[tuple[Steps, pa.DataType | None]]:
    """The plain values in a type, of lists their first entry's; None stands for a map, whose keys are not known."""
    if pa.types.is_struct(kind):
        for inner in kind:
            yield from _leaves((*path, inner.name), inner.type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves((*path, 0), kind.value_type)
    else:
        yield path, None if pa.types.is_nested(kind) else kind
