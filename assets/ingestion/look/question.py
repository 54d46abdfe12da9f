"""What only a person can answer, and what is assumed until they do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Question:
    """`key` is where in the contract the answer goes; the text says what is assumed until it is given."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


def counted(number: int, what: str) -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def every(number: int, what: str) -> str:
    """All of a number of things, as the subject of a sentence."""
    return f"the one {what} is" if number == 1 else f"all {number:,} {what}s are"


def listed(values: list[str] | tuple[str, ...], *, most: int = 5, word: str = "and") -> str:
    """Some values in a sentence: the first ones by name, the others by their number."""
    more = [f"{len(values) - most:,} more"] if len(values) > most else []
    shown = [*(repr(value) for value in values[:most]), *more]
    return f" {word} ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
