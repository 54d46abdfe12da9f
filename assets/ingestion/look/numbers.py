"""Columns of numbers: the narrowest type that takes them all, with the marks that they are written with.

What a number would lose (leading zeros, digits beyond 64 bits) makes the column an id. A small share of values that do not
fit are taken for faults, and asked about: their rows go to quarantine, where they can be seen.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.ingestion.casting import cast_column
from assets.ingestion.look.question import every, listed
from assets.ingestion.look.values import Held, Values
from resources.contract.column import Column

ENOUGH = 100  # values, from which on a share of them tells something
_FAULTS = 0.01  # the share of values that may be faults, where there are enough values to tell
NOT_FINITE = r"(?i)^[+-]?(nan|inf|infinity)$"
_PLAIN = {
    "integer": r"^-?(0|[1-9][0-9]*)$",
    "decimal": r"^-?(0|[1-9][0-9]*)?(\.[0-9]{1,6}0*)?$",
    # 1e5 is a code as often as a number; what programs write as a number has a point or a sign
    "number": r"^-?((0|[1-9][0-9]*)\.?[0-9]*|\.[0-9]+)([eE][+-][0-9]+)?$|^-?[0-9]+\.[0-9]+[eE][0-9]+$",
    "longer decimal": r"^-?(0|[1-9][0-9]*)?(\.[0-9]{1,12}0*)?$",
}
_COLUMNS = {
    "integer": Column(type="integer"),
    "decimal": Column(type="decimal"),
    "number": Column(type="number"),
    "longer decimal": Column(type="decimal", scale=12),
}
_AS = {"integer": "whole numbers", "decimal": "decimals", "number": "numbers"}
_MARKS = (
    # how numbers with marks are written, the marks, and what shows that they are meant so
    (r"^-?[0-9]{1,3}(\.[0-9]{3})+(,[0-9]+)?$|^-?[0-9]+(,[0-9]+)?$", ".", ",", r"\..*,|\..*\.|,([0-9]{1,2}|[0-9]{4,})$"),
    (r"^-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$|^-?[0-9]+(\.[0-9]+)?$", ",", ".", r",.*\.|,.*,"),
    (r"^-?[0-9]{1,3}( [0-9]{3})+(,[0-9]+)?$|^-?[0-9]+(,[0-9]+)?$", " ", ",", r" .*,| .* |,([0-9]{1,2}|[0-9]{4,})$"),
    (r"^-?[0-9]{1,3}('[0-9]{3})+(\.[0-9]+)?$|^-?[0-9]+(\.[0-9]+)?$", "'", ".", r"'"),
)
_UNCLEAR_MARK = r"^-?[0-9]{1,3},[0-9]{3}$"


def number(values: Values) -> Held | None:
    """The narrowest number's type that takes the values, or an id where a number would lose digits."""
    zeros = values.matching(r"^[+-]?0[0-9]")
    digits = values.matching(r"^[+-]?[0-9]+$")
    if zeros.any() and values.share(digits) > 1 - _FAULTS:
        return Held(
            type="id", reason=f"{values.share(zeros):.0%} of the values have leading zeros, which a number loses"
        )
    if digits.all() and (long := ~values.fitting(Column(type="integer"))).any():
        return Held(type="id", reason=f"{int(values.counts[long].sum()):,} values are beyond 64 bits")
    endless = values.matching(NOT_FINITE)
    for kind, column in _COLUMNS.items():
        fine = values.matching(_PLAIN[kind])
        if not _tolerable(values, fine, endless, kind=kind):
            continue
        fine &= values.fitting(column)
        if _tolerable(values, fine, endless, kind=kind):
            return _taken(values, fine, endless, column=column)
    return _with_marks(values)


def _tolerable(values: Values, fine: np.ndarray, endless: np.ndarray, *, kind: str) -> bool:
    """Whether what does not fit is nothing, infinite, or rare enough for faults and no number of another kind."""
    wrong = ~fine & ~endless
    if not fine.any() or (wrong & values.matching(r"^[+-]?[0-9.,]+$")).any():
        return False
    faults = values.share(wrong)
    return faults == 0 or (values.rows >= ENOUGH and faults <= _FAULTS and kind != "number")


def _mostly(values: Values, fine: np.ndarray) -> bool:
    """Whether what is not fine is nothing, or rare enough for faults."""
    return bool(fine.all()) or (values.rows >= ENOUGH and values.share(~fine) <= _FAULTS)


def _taken(values: Values, fine: np.ndarray, endless: np.ndarray, *, column: Column) -> Held:
    """The type, and what has to be asked about the values that do not fit it."""
    type_, wrong = column.type, ~fine & ~endless
    options = {"scale": column.scale} if column.scale != _COLUMNS["decimal"].scale else {}
    lowest, span = range_of(values, fine)
    few, bad = int(values.counts[fine].sum()), int(values.counts[wrong].sum())
    said = every(few, "value") if few == values.rows else f"{few:,} of {values.rows:,} values are"
    reason, (question, mark) = f"{said} {_AS[type_]}, {span}", endless_question(values, endless)
    if bad:
        reason += f"; {bad:,} {'is' if bad == 1 else 'are'} not"
        question, mark = _faults_question(values, wrong, type_=type_)
    return Held(type=type_, reason=reason, options=options, question=question, mark=mark, lowest=lowest)


def _faults_question(values: Values, wrong: np.ndarray, *, type_: str) -> tuple[str | None, str]:
    """What is to be asked about values that are no numbers, if there are any: the question, and in a few words."""
    if not wrong.any():
        return None, ""
    bad, examples = int(values.counts[wrong].sum()), values.distinct.filter(pa.array(wrong)).slice(0, 3).to_pylist()
    question = (
        f"not all values are {_AS[type_]} ({bad:,} of {values.rows:,} are not, such as {listed(examples)}): are those faults "
        "(their rows go to quarantine until you say), words for 'no value' (name them in `nulls`), or is the column a category?"
    )
    return question, "faults, or words for 'no value'?"


def endless_question(values: Values, endless: np.ndarray) -> tuple[str | None, str]:
    """What is to be asked about NaN and infinite values, if there are any: the question, and in a few words."""
    if not endless.any():
        return None, ""
    words = values.distinct.filter(pa.array(endless)).to_pylist()
    rows = int(values.counts[endless].sum())
    question = (
        f"{rows:,} of {values.rows:,} values are {listed(words, word='or')}: does that say that there is none (nulls: "
        f"{['', *words]}), or is it a fault? The rows go to quarantine until you say"
    )
    return question, f"{' or '.join(words)}: none, or a fault?"


def _with_marks(values: Values) -> Held | None:
    """Numbers with a mark between thousands, or with another one than a point before the decimals."""
    for pattern, thousands, mark, shows in _MARKS:
        fine = values.matching(pattern)
        if not _mostly(values, fine) or not (fine & values.matching(shows)).any():
            continue
        type_ = "decimal" if (fine & values.matching(re.escape(mark))).any() else "integer"
        options = {"thousands": thousands} if (fine & values.matching(re.escape(thousands))).any() else {}
        if mark != "." and (type_ == "decimal" or thousands == "."):  # the two must differ, and a point is the default
            options["decimal_mark"] = mark
        column = Column.model_validate({"type": type_, **options})
        fine &= values.fitting(column)
        if _mostly(values, fine):
            read, _ = cast_column(values.distinct.filter(pa.array(fine)), column)
            few = int(values.counts[fine].sum())
            said = every(few, "value") if few == values.rows else f"{few:,} of {values.rows:,} values are"
            said += f" {_AS[type_]} with the marks {listed(list(options.values()))}"
            question, asks = _faults_question(values, ~fine, type_=type_)
            lowest = float(pc.min(read).as_py())
            return Held(type=type_, reason=said, options=options, question=question, mark=asks, lowest=lowest)
    unclear = values.matching(_UNCLEAR_MARK)
    if unclear.any() and (unclear | values.matching(r"^-?[0-9]+$")).all():
        example = values.distinct[int(np.flatnonzero(unclear)[0])].as_py()
        return Held(
            type="category",
            reason="numbers whose comma may be either mark stay text",
            question=f"is the comma in {example!r} a decimal mark (type: decimal, decimal_mark: ',') or one between thousands "
            "(type: integer, thousands: ',')? It stays text until you say",
            mark="is the comma a decimal mark?",
        )
    return None


def range_of(values: Values, fine: np.ndarray) -> tuple[float | None, str]:
    """The lowest of the distinct values that are fine, and both ends of their range as they are written."""
    texts = values.distinct.filter(pa.array(fine))
    if not len(texts):
        return None, "none of them finite"
    numbers = texts.cast(pa.float64()).to_numpy()
    low, high = int(numbers.argmin()), int(numbers.argmax())
    return float(numbers[low]), f"{texts[low]} to {texts[high]}"
