"""Why a row lies in quarantine. The lower-case names are what people see; the numbers never leave memory."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, auto


class Reason(IntEnum):
    """0 is a good row; everything else is one word for one fault."""

    FINE = 0
    RAGGED = auto()  # more or fewer fields than the header
    BROKEN_QUOTES = auto()  # a quote that never closes, or text behind a closing one
    MALFORMED_JSON = auto()
    NOT_A_SCALAR = auto()  # an object or a list where a value is declared
    NOT_TEXT = auto()  # a value that no UTF-8 text can hold
    DUPLICATE_KEY = auto()  # a key that stands in its object twice
    MALFORMED_LINE = auto()  # of an access log
    MISSING = auto()  # null in a column that is required
    NOT_AN_INTEGER = auto()
    NOT_A_DECIMAL = auto()
    NOT_A_NUMBER = auto()
    NOT_FINITE = auto()
    NOT_EXACT = auto()  # more digits than the declared type keeps
    NOT_A_FLAG = auto()
    OUT_OF_RANGE = auto()  # larger than the declared type can hold
    OUT_OF_BOUNDS = auto()  # outside the contract's own bounds
    UNREADABLE_TIME = auto()
    TIME_WITHOUT_ZONE = auto()
    NONEXISTENT_TIME = auto()  # skipped by a clock change
    AMBIGUOUS_TIME = auto()  # repeated by a clock change, where the contract does not say which is meant
    IMPLAUSIBLE_TIME = auto()
    BEFORE_FIRST_DAY = auto()
    AFTER_LAST_DAY = auto()
    TOO_LATE = auto()

    @property
    def text(self) -> str:
        return self.name.lower()


OUT_OF_DAYS = (Reason.IMPLAUSIBLE_TIME, Reason.BEFORE_FIRST_DAY, Reason.AFTER_LAST_DAY, Reason.TOO_LATE)
NOT_BAD = (Reason.BEFORE_FIRST_DAY, Reason.AFTER_LAST_DAY, Reason.TOO_LATE)  # sound rows of days that are not taken


def rows_of(quarantined: dict[str, int], reasons: Iterable[Reason]) -> int:
    """How many quarantined rows have one of these reasons."""
    return sum(quarantined.get(reason.text, 0) for reason in reasons)
