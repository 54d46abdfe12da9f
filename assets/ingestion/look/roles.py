"""Which part each column plays: the time, the user, the item, the kind of event, the label. Names and values speak for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from assets.ingestion.look.moments import Moments
from assets.ingestion.look.question import Question, listed
from assets.ingestion.look.values import Held, Values, words_of

# earlier groups stand before later ones
_USERS = (
    frozenset("user uid userid username".split()),
    frozenset(
        "customer client visitor member buyer shopper reader player subscriber account person guest kunde kunden nutzer benutzer cliente".split()
    ),
    frozenset("session device cookie browser host ip email msisdn".split()),
)
_ITEMS = (
    frozenset(
        "item product article sku stock asin movie song track video book content listing offer ad creative ean gtin isbn hotel "
        "restaurant document doc post news recipe game app artikel produkt".split()
    ),
    frozenset("path url page uri".split()),
)
_IDENTIFYING = frozenset("id ids key hash uuid guid no nr num number nummer code identifier unique".split())
_ID_ENDINGS = frozenset("id key hash uuid guid no nr nummer code sku".split())
_KINDS = frozenset(
    "event eventtype event_type event_name action action_type type kind behavior behaviour behavior_type behaviour_type "
    "interaction interaction_type activity verb".split()
)
_WORTH = ("purchase", "buy", "order", "transaction", "conver", "checkout", "sale", "paid", "subscri", "sign")
_LESS_WORTH = ("cart", "basket", "like", "fav", "wish", "share", "install", "click", "download", "play")
_LABELS = frozenset(
    "click clicked clk is_click label target converted conversion is_conversion purchased bought is_purchase ordered "
    "subscribed churn churned y response".split()
)
_RATINGS = frozenset("rating stars score".split())
_PRICES = frozenset("price unitprice cost fare".split())
_NO_EVENTS = frozenset(["other"])  # which is what the contract calls all the rest
_MOST_KINDS, _MOST_EVENTS = 50, 8


@dataclass(frozen=True, kw_only=True)
class Label:
    """The label and the kinds of events that it needs, as the contract writes them."""

    label: Mapping[str, object]
    events: Mapping[str, str]
    of: frozenset[str]  # columns that tell the label, and must be no feature
    reason: str


def identifies(name: str) -> bool:
    """Whether a name says that its values identify something."""
    words = words_of(name)
    joined = "".join(words)
    return bool(words) and (words[-1] in _ID_ENDINGS or joined in ("id", "uid", "userid", "itemid", "movieid"))


def is_code(name: str) -> bool:
    """Whether a name says that its numbers are names of kinds."""
    return words_of(name)[-1:] in (("status",), ("type",), ("kind",), ("class",), ("group",), ("segment",))


def is_price(name: str) -> bool:
    return not _PRICES.isdisjoint(words_of(name))


def _named(names: Sequence[str], groups: Sequence[frozenset[str]]) -> list[str]:
    """The columns whose names consist of one of the first group's words that any has, and words for 'identifier'."""
    for group in groups:
        known = group | {word + tail for word in group for tail in ("s", "id", "no", "nr", "nummer", "code")}
        found = [
            name
            for name in names
            if not known.isdisjoint(words := {word for word in words_of(name) if not word.isdigit()})
            and words <= known | _IDENTIFYING
        ]
        if found:
            return sorted(found, key=lambda name: not identifies(name))
    return []


def user_of(values: Mapping[str, Values], held: Mapping[str, Held]) -> tuple[str, str, Question | None]:
    """The column of the user, why, and what has to be asked."""
    names = list(values)
    if named := _named(names, _USERS):
        first, *others = named
        rivals = [o for o in others if identifies(o) == identifies(first)]
        asked = Question(
            key="user.column", text=f"{listed(named, word='or')}: which says who did it? {first!r} until you say"
        )
        return first, "by its name", asked if rivals else None
    # somebody comes again: the column with the most values that do
    again = {
        n: len(values[n].distinct)
        for n in names
        if 1 < len(values[n].distinct) < values[n].rows
        and (held[n].type in ("id", "category") or identifies(n))
        and not _named([n], _ITEMS)
    }
    first = max(again, key=lambda n: (identifies(n), again[n]), default=names[0])
    others = [name for name in again if name != first]
    asked = Question(
        key="user.column",
        text=f"no column is named for a user; which one says who did it? {first!r} until you say"
        + (f", others that could be: {listed(others)}" if others else ""),
    )
    return first, "its values come again, and no name is a user's", asked


def item_of(names: Sequence[str]) -> tuple[str | None, Question | None]:
    """The column of the item, if there is one, and what has to be asked."""
    named = _named(names, _ITEMS)
    if not named:
        return None, None
    rivals = [name for name in named[1:] if identifies(name) == identifies(named[0])]
    asked = Question(
        key="item.column", text=f"{listed(named, word='or')}: which one is it about? {named[0]!r} until you say"
    )
    return named[0], asked if rivals else None


def time_of(found: Mapping[str, Moments]) -> tuple[Moments | None, Question | None]:
    """The column of the event's time, and what has to be asked."""
    if not found:
        return None, None
    ranked = sorted(found.values(), key=lambda moments: moments.rank)
    first = ranked[0]
    if len(ranked) == 1:
        return first, None
    others = [moments.column for moments in ranked[1:]]
    asked = Question(
        key="time.column",
        text=f"{listed([first.column, *others], word='or')}: which says when a row happened? {first.column!r} until you say",
    )
    return first, asked


def kind_of(held: Mapping[str, Held], values: Mapping[str, Values]) -> str | None:
    """The column that tells kinds of events apart."""
    for name, column in held.items():
        if (
            column.type == "category"
            and "_".join(words_of(name)) in _KINDS
            and len(values[name].distinct) <= _MOST_KINDS
        ):
            return name
    return None


def label_of(
    held: Mapping[str, Held], values: Mapping[str, Values], names: Mapping[str, str], *, keys: Sequence[str]
) -> Label:
    """The most plausible thing to predict.

    Args:
        names: the contract's names of the columns.
        keys: the contract's names of the user and, if there is one, the item.
    """
    for name, column in held.items():
        words = "_".join(words_of(name))
        if column.type == "flag" and words in _LABELS:
            return Label(
                label={"where": names[name]}, events={}, of=frozenset([name]), reason="a flag with such a name"
            )
        if column.type == "integer" and words in _LABELS and set(values[name].distinct.to_pylist()) <= {"0", "1"}:
            return Label(label={"where": f"{names[name]} = 1"}, events={}, of=frozenset([name]), reason="0 or 1")
    if (kind := kind_of(held, values)) and set(values[kind].distinct.to_pylist()) - _NO_EVENTS:
        return _event_label(values[kind], names[kind], keys=keys)
    for name, column in held.items():
        if column.type in ("integer", "decimal", "number") and not _RATINGS.isdisjoint(words_of(name)):
            numbers = pc.drop_null(values[name].distinct).cast("float64").to_numpy()
            high = f"{np.quantile(np.repeat(numbers, values[name].counts), 0.5):g}"
            label = {"where": f"{names[name]} >= {high}"}
            return Label(label=label, events={}, of=frozenset([name]), reason=f"half of the rows have {high} or more")
    return Label(
        label={"event": "again", "same": list(keys), "within_hours": 168},
        events={"again": "true"},
        of=frozenset(),
        reason="no column tells: will it happen again within a week?",
    )


def _event_label(values: Values, name: str, *, keys: Sequence[str]) -> Label:
    order = np.argsort(-values.counts, kind="stable")
    kinds: dict[str, str] = {}
    for kind in (values.distinct[int(at)].as_py() for at in order):
        word = "_".join(words_of(kind)) or "kind"
        word = word if word[0].isalpha() and word.isascii() else f"kind_{len(kinds)}"
        if word not in kinds and kind not in _NO_EVENTS:
            kinds[word] = "{} = '{}'".format(name, kind.replace("'", "''"))
        if len(kinds) == _MOST_EVENTS:
            break
    rarest = list(kinds)[-1]
    chosen = next((k for part in (*_WORTH, *_LESS_WORTH) for k in kinds if part in k), rarest)
    return Label(
        label={"event": chosen, "same": list(keys), "within_hours": 168},
        events=kinds,
        of=frozenset(),
        reason=f"will {chosen!r} follow within a week?",
    )
