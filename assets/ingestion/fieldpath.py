"""The names of nested values: `a.b[0].c` is what stands under c, in the first entry of the list b, in the object a."""

from __future__ import annotations

import re

_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(0|[1-9][0-9]{0,8})\]")


def parse_path(name: str) -> tuple[str | int, ...] | None:
    """The keys and places on the way to a nested value; None for a plain name, which is a key as it stands."""
    steps: list[str | int] = []
    end = 0
    while end < len(name):
        step = _STEP.match(name, end)
        if step is None or (end == 0 and step[1] is None):
            return None
        steps.append(step[1] if step[2] is None else int(step[2]))
        end = step.end()
    return tuple(steps) if len(steps) > 1 else None
