"""One pattern for the paths of some files, with `{day}` where they name days."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import takewhile
from pathlib import Path

from assets.ingestion.look.question import Question, listed
from resources.contract.errors import ConfigError

_DAY = re.compile(r"(?<!\d)\d{4}-\d\d-\d\d(?!\d)")
_OTHER_DAY = re.compile(r"(?<!\d)(20\d\d[_./]?(0[1-9]|1[0-2])[_./]?(0[1-9]|[12]\d|3[01]))(?!\d)|year=\d+")
_WILD = set("*?[")


@dataclass(frozen=True, kw_only=True)
class Found:
    """`text` is source.files; `days` the day that each path names, in their order, or none where they do not."""

    text: str
    landing: Path
    days: tuple[date, ...]
    reason: str
    questions: tuple[Question, ...] = ()


def pattern_of(paths: Sequence[Path], *, landing: Path | None = None) -> Found:
    """The pattern below the landing folder. Raises ConfigError where none can stand for all paths.

    Args:
        paths: absolute.
        landing: the folder that the pattern begins at, if it holds all files; otherwise the one that holds them does.
    """
    days = [_day_in(path.name) or _day_in(str(path)) for path in paths]
    named = all(day is not None for day in days)
    root = _common_folder(paths, above=[d for d in days if d] if named else [])
    if landing is not None and all(path.is_relative_to(landing) for path in paths):
        root = landing
    below = [path.relative_to(root) for path in paths]
    if named:
        named = all(str(day) in str(path) for day, path in zip(days, below, strict=True))
    texts = [
        str(path).replace(str(day), "{day}") if named else str(path) for path, day in zip(below, days, strict=True)
    ]
    depths = {text.count("/") for text in texts}
    if len(depths) > 1:
        raise ConfigError(
            f"the files lie at different depths below {root}, and one pattern cannot name them all: name files of one depth."
        )
    if odd := [text for text in texts if _WILD & set(text.replace("{day}", ""))]:
        raise ConfigError(
            f"{odd[0]} has one of the letters * ? [ in its name, which mean any letters in a pattern: rename it."
        )
    other = None if named else next((found[0] for text in texts if (found := _OTHER_DAY.search(text))), None)
    texts = [_OTHER_DAY.sub("*", text) for text in texts] if other else texts
    parts = [_of_parts(column) for column in zip(*(text.split("/") for text in texts), strict=True)]
    questions, reason = (), "{day} is the day in the names" if named else "the names hold no day"
    if not named and other:
        reason = f"names hold days as {other}, which {{day}} does not read"
        asked = f"could the files be named as 2026-01-03 instead of {other}? Then put {{day}} there, and it is told when a row came late"
        questions = (Question(key="source.files", text=asked),)
    elif not named and any(days):
        reason = (
            f"not all names hold a day: {listed([p.name for p, d in zip(paths, days, strict=True) if not d], most=2)}"
        )
    return Found(
        text="${LANDING}/" + "/".join(parts).replace("$", "$$"),
        landing=root,
        days=tuple(day for day in days if day) if named else (),
        reason=reason,
        questions=questions,
    )


def _day_in(text: str) -> date | None:
    for found in _DAY.findall(text):
        try:
            return date.fromisoformat(found)
        except ValueError:
            continue
    return None


def _common_folder(paths: Sequence[Path], *, above: Sequence[date]) -> Path:
    """The folder that holds all files, above every part that names their day."""
    folders = [path.parent for path in paths]
    root = folders[0]
    while not all(folder.is_relative_to(root) for folder in folders):
        root = root.parent
    while any(str(day) in str(root) for day in above):
        root = root.parent
    return root


def _beginning(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False))
    return "".join(letters[0] for letters in alike)


def _of_parts(parts: tuple[str, ...]) -> str:
    """One part of the paths: what all have in common, with `*` for the rest."""
    if len(set(parts)) == 1:
        return parts[0]
    # a placeholder of one letter, so that nothing is cut within it
    short = [part.replace("{day}", "\0") for part in parts]
    # not within a number either: the next file's may begin with another digit
    before = _beginning(short).rstrip("0123456789")
    after = _beginning([part[len(before) :][::-1] for part in short])[::-1].lstrip("0123456789")
    return f"{before}*{after}".replace("\0", "{day}")
