"""A contract as the YAML that a newcomer reads: one line a thing, each guess with its reason behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

_WIDTH = 1 << 16  # a value is never wrapped


@dataclass(frozen=True, kw_only=True)
class Line:
    """One key with its value, and why it is so. `question` marks what only a person can answer.

    Where the value is a mapping of Lines, each stands on a line of its own.
    """

    key: str
    value: Any
    reason: str = ""
    question: str = ""

    @property
    def comment(self) -> str:
        asked = f"QUESTION: {self.question}" if self.question else ""
        text = f"{asked} ({self.reason})" if asked and self.reason else asked or self.reason
        # what a reason quotes from a file may hold an end of line, which would end the comment
        return f" # {''.join(c if c.isprintable() else ' ' for c in text)}" if text else ""


def contract_text(title: str, lines: Sequence[Line]) -> str:
    """The whole file."""
    return "\n".join([f"# {title}", *(text for line in lines for text in _written(line, indent=""))]) + "\n"


def _written(line: Line, *, indent: str) -> list[str]:
    key = flow(line.key)
    inner = line.value
    if isinstance(inner, tuple) and inner and all(isinstance(part, Line) for part in inner):
        return [
            f"{indent}{key}:{line.comment}",
            *(text for part in inner for text in _written(part, indent=indent + "  ")),
        ]
    return [f"{indent}{key}: {flow(inner)}{line.comment}"]


def flow(value: Any) -> str:
    """A value in YAML, on one line, quoted where it must be."""
    out, yaml = StringIO(), YAML()
    yaml.width = _WIDTH
    yaml.brace_single_entry_mapping_in_flow_sequence = True
    yaml.dump(_flow(CommentedSeq([value])), out)
    return out.getvalue().strip()[1:-1]


def _flow(value: Any) -> Any:
    if isinstance(value, Mapping):
        found: Any = CommentedMap((key, _flow(inner)) for key, inner in value.items())
    elif isinstance(value, list | tuple):
        found = CommentedSeq([_flow(inner) for inner in value])
    elif isinstance(value, str) and not value.isprintable():
        return DoubleQuotedScalarString(value)  # YAML folds some of these letters to spaces, as it does ends of lines
    else:
        return value
    found.fa.set_flow_style()
    return found
