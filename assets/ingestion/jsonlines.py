"""JSON lines: one object a line. Numbers keep the text they were written with; no float ever stands in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from assets.ingestion.chunk import Broken, Chunk, declared_columns
from assets.ingestion.files import LandedFile
from assets.ingestion.reasons import Reason
from assets.ingestion.unpacking import line_spans, text_blocks
from resources.contract.dataset import Dataset

_decode = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str).decode


def chunks(dataset: Dataset, file: LandedFile) -> Iterator[Chunk]:
    """The rows of a file of JSON lines. A key that a line does not name is null there; blank lines are no rows."""
    names, rest, line = list(declared_columns(dataset)), b"", 1
    for block, last in text_blocks(file, dataset.source.encoding):
        data = rest + block
        starts, stops, end = line_spans(data, last=last)
        lines = [data[start:stop].decode() for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
        if lines:
            yield _parsed(lines, names, line=line)
        rest, line = data[end:], line + len(lines)


def _parsed(lines: list[str], names: list[str], *, line: int) -> Chunk:
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    broken: list[Broken] = []
    keys: set[str] = set()

    def refuse(at: int, reason: Reason) -> None:
        broken.append(Broken(line=line + at, reason=reason, raw=lines[at]))

    for at, text in enumerate(lines):
        if not text or text.isspace():
            continue
        try:
            row = _decode(text)
        except (json.JSONDecodeError, RecursionError):
            row = None
        if not isinstance(row, dict):
            refuse(at, Reason.MALFORMED_JSON)
            continue
        keys.update(row)
        rows.append(row)
        numbers.append(at)
    try:
        columns = pa.table({name: pa.array([row.get(name) for row in rows], pa.string()) for name in names})
    except (pa.ArrowException, TypeError, UnicodeEncodeError):
        # some value is no text: look at each
        sound, kept = [], []
        for at, row in zip(numbers, rows, strict=True):
            values, reason = _texts(row, names)
            if reason is Reason.FINE:
                sound.append(values)
                kept.append(at)
            else:
                refuse(at, reason)
        numbers = kept
        columns = pa.table({name: pa.array([row[name] for row in sound], pa.string()) for name in names})
    spans = np.array(numbers, dtype=np.int64)
    return Chunk(
        columns=columns,
        lines=spans + line,
        raw=lambda row: lines[numbers[row]],
        broken=tuple(sorted(broken, key=lambda row: row.line)),
        undeclared=frozenset(key.encode(errors="replace").decode() for key in keys.difference(names)),
    )


def _texts(row: dict[str, Any], names: list[str]) -> tuple[dict[str, str | None], Reason]:
    """The declared values of one object as texts (`true` and `false` as JSON writes them), or why they are none."""
    texts: dict[str, str | None] = {}
    for name in names:
        value = row.get(name)
        if isinstance(value, bool):
            value = "true" if value else "false"
        if isinstance(value, dict | list):
            return {}, Reason.NOT_A_SCALAR
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            return {}, Reason.NOT_TEXT
        texts[name] = value
    return texts, Reason.FINE
