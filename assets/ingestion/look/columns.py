"""What a column holds, told from all its values: a type is taken only where ingestion's own cast accepts them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from assets.ingestion.look.numbers import ENOUGH, NOT_FINITE, endless_question, number, range_of
from assets.ingestion.look.question import counted, every, listed
from assets.ingestion.look.values import Held, Values, words_of
from resources.contract.column import Column

NULL_WORDS = ("NA", "N/A", "n/a", "na", "null", "NULL", "Null", "None", "none", "nil", "\\N", "-", "--", "?", "#N/A")
_FLAG_WORDS = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("on", "off"), ("ja", "nein"), ("oui", "non"))
_FLAG_NAMES = re.compile(r"(is|has|was|did)_.*|.*_flag|(click|purchas|convert|order|label|target|bought|churn).*|y")
_EMAIL = r"^[^@\s]+@[^@\s]+\.[A-Za-z]{2,}$"
_IP = r"^(\d{1,3}\.){3}\d{1,3}$|^[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){2,7}$"
_PHONE = r"^\+[0-9][0-9 ()/-]{6,18}$"
_PERSONAL_NAMES = frozenset(
    "email mail ip phone mobile tel telephone msisdn address street firstname lastname surname birthday birthdate dob ssn "
    "iban passport".split()
)


def held(values: Values, *, is_id: bool = False, kind: pa.DataType | None = None) -> Held:
    """What a column holds.

    Args:
        is_id: its name, or the part that it plays, says that it identifies something.
        kind: its type in a Parquet file.
    """
    if not values.rows:
        return Held(type="id" if is_id else "text", reason="no value was seen", options={"required": False})
    personal = _personal(values)
    found = _of_kind(values, kind) if kind is not None and not is_id else None
    found = found or (_text(values) if personal and not is_id else _typed(values, is_id=is_id))
    rest, named = values.without(NULL_WORDS), [w for w in NULL_WORDS if pc.index(values.distinct, w).as_py() >= 0]
    if named and rest.rows and not (personal and not is_id) and (found.question or not _plainly(found, values)):
        other = _typed(rest, is_id=is_id)
        if _plainly(other, rest):
            said = f"{other.reason}; {listed(named, word='or')} says that there is none"
            found, values = replace(other, options={**other.options, "nulls": ["", *named]}, reason=said), rest
    options, reason = dict(found.options), found.reason
    if values.num_null:
        options["required"] = False
        reason += f"; {counted(values.num_null, 'row')} without one"
    if personal:
        options["personal"] = True
        reason += f"; {personal}, so shown hashed"
    return replace(found, options=options, reason=reason)


def _typed(values: Values, *, is_id: bool) -> Held:
    return _id(values) if is_id else _flag(values) or number(values) or _text(values)


def _plainly(found: Held, values: Values) -> bool:
    """Whether everything in a column fits a type so well that a word for 'nothing' would stand out."""
    return found.type in ("integer", "decimal", "number", "flag") or values.are_whole


def _of_kind(values: Values, kind: pa.DataType) -> Held | None:
    """What a Parquet file's schema says; None where it says text, which may be anything."""
    if pa.types.is_boolean(kind):
        return Held(type="flag", reason=f"the file's own type is {kind}")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    finite = ~values.matching(NOT_FINITE)
    lowest, span = range_of(values, finite)
    said = f"the file's own type is {kind}, {span}"
    question, mark = endless_question(values, ~finite)
    if pa.types.is_integer(kind):
        big = not values.fitting(Column(type="integer")).all()
        options = {"unsigned": True} if big else {}
        return _flag(values) or Held(type="integer", reason=said, options=options, lowest=lowest)
    if pa.types.is_decimal(kind) and kind.scale <= 12:
        options = {"scale": kind.scale} if kind.scale > 6 else {}
        if values.fitting(Column.model_validate({"type": "decimal", **options})).all():
            return Held(type="decimal", reason=said, options=options, lowest=lowest)
    return Held(type="number", reason=said, question=question, mark=mark, lowest=lowest)


def _id(values: Values) -> Held:
    zeros = values.matching(r"^[+-]?[0-9]+\.0+$")
    if zeros.any() and (zeros | values.matching(r"^[+-]?[0-9]+$")).all():
        return Held(
            type="id",
            reason=f"{values.variety}, whole numbers whose .0 is no part of an id",
            options={"strip_decimal_zero": True},
        )
    return Held(type="id", reason=values.variety)


def _flag(values: Values) -> Held | None:
    words = {word.lower() for word in values.distinct.slice(0, 9).to_pylist()}
    for yes, no in _FLAG_WORDS:
        if len(values.distinct) < 9 and (words == {yes, no} or (yes == "true" and words <= {yes, no})):
            said = {} if yes in ("true", "yes") else {"true": [yes], "false": [no]}
            return Held(
                type="flag", reason=f"{every(values.rows, 'value')} {listed(sorted(words), word='or')}", options=said
            )
    if words == {"0", "1"} and len(values.distinct) == 2 and _FLAG_NAMES.fullmatch("_".join(words_of(values.name))):
        return Held(type="flag", reason=f"all {values.rows:,} values are 0 or 1, and the name is a flag's")
    return None


def _text(values: Values) -> Held:
    """Texts: words that come again are categories, tokens that never do are ids, sentences are text."""
    lengths = pc.utf8_length(values.distinct).to_numpy()
    mean, distinct = float(lengths.mean()), len(values.distinct)
    spaced = float(values.matching(r"\s").mean())
    said = values.variety
    if lengths.max() > 200 or (spaced > 0.5 and mean > 15):
        return Held(type="text", reason=f"{said}, {mean:.0f} letters long on average")
    if distinct > ENOUGH and distinct > 0.5 * values.rows and spaced < 0.1:
        return Held(type="id", reason=f"{said}, without spaces")
    if values.rows > ENOUGH and distinct > 0.9 * values.rows:
        return Held(type="text", reason=said)
    return Held(type="category", reason=said)


_KINDS: tuple[tuple[str, Callable[[Values], bool]], ...] = (
    ("e-mail addresses", lambda v: v.share(v.matching(_EMAIL)) > 0.01),
    ("IP addresses", lambda v: v.share(v.matching(_IP)) > 0.9),
    ("phone numbers", lambda v: v.share(v.matching(_PHONE)) > 0.9),
    ("a person's by its name", lambda v: not _PERSONAL_NAMES.isdisjoint(words_of(v.name))),
)


def _personal(values: Values) -> str | None:
    return next((what for what, is_so in _KINDS if is_so(values)), None)
