"""What changed about the columns of landed files: events by name, for the manifest and the day's page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assets.ingestion.chunk import Layout, declared_columns
from resources.contract.dataset import Dataset

_ROOT = re.compile(r"[.\[]")  # behind the name of a column, in a path into it
_WIDTHS = ("int8", "int16", "int32", "int64", "float", "double")  # each takes most of what those before it hold
Event = tuple[str, str, str]  # what happened, to which column, how


def drift(dataset: Dataset, layouts: Mapping[str, Layout], earlier: Sequence[Layout]) -> list[dict[str, Any]]:
    """The events of a day, each with the number of files that show it and the first of them.

    Args:
        layouts: the columns that each file shows, in its order.
        earlier: those of the newest earlier delivery; without any, files are compared with the contract alone.
    """
    files: dict[Event, list[str]] = {}
    known: dict[Layout, list[Event]] = {}
    for name in sorted(layouts):
        layout = layouts[name]
        if layout not in known:
            known[layout] = list(_events(dataset, layout, earlier))
        for event in known[layout]:
            files.setdefault(event, []).append(name)
    return [
        {"event": what, "column": column, "detail": how, "files": len(names), "file": names[0]}
        for (what, column, how), names in files.items()
    ]


def _events(dataset: Dataset, layout: Layout, earlier: Sequence[Layout]) -> Iterable[Event]:
    declared = declared_columns(dataset)
    names, types = [name for name, _ in layout], dict(layout)
    before = {name: kind for other in reversed(earlier) for name, kind in other}  # the first of them counts
    expected = before.keys() if earlier else declared.keys()
    absent = {name for name in expected if name not in types and _ROOT.split(name)[0] not in types}
    by_case = {name.casefold(): name for name in absent}
    for name, count in Counter(names).items():
        if count > 1:
            yield "duplicated", name, f"{count} times"
    renamed = {}
    for name in types:
        if name not in before and name not in declared and name.casefold() in by_case:
            renamed[by_case[name.casefold()]] = name
            yield "renamed_case", by_case[name.casefold()], f"now {name}"
        elif earlier and name not in before:
            yield "added", name, types[name] or ("declared" if name in declared else "not declared")
    for name in sorted(absent - renamed.keys()):
        yield "missing", name, "declared" if name in declared else "not declared"
    if not earlier:
        return
    for name, kind in types.items():
        if name in before and before[name] != kind:
            narrower = kind in _WIDTHS and before[name] in _WIDTHS[_WIDTHS.index(kind) + 1 :]
            yield "narrowed" if narrower else "widened", name, f"{before[name]}, now {kind}"
    if dataset.source.format != "jsonl":  # the keys of an object have no order
        order = list(dict.fromkeys(name for name, _ in earlier[0] if name in types))
        if (now := [name for name in dict.fromkeys(names) if name in set(order)]) != order:
            moved = next(name for name, other in zip(now, order, strict=True) if name != other)
            yield "reordered", moved, f"now in the place of {order[now.index(moved)]}"
