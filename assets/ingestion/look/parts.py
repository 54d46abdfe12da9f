"""What each column holds and which part it plays, with its line in the contract."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from assets.ingestion.look import roles
from assets.ingestion.look.columns import held
from assets.ingestion.look.contract_text import Line
from assets.ingestion.look.question import Question, listed
from assets.ingestion.look.samples import Samples
from assets.ingestion.look.values import Held, Values, words_of
from resources.contract.dataset import RESERVED

_MOST_CODES = 100


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What all columns hold, and which part some of them play."""

    values: Mapping[str, Values]
    held: Mapping[str, Held]
    names: Mapping[str, str]  # the contract's, by the source's
    why_user: str
    user: str
    item: str | None
    questions: tuple[Question, ...]

    @property
    def keys(self) -> list[str]:
        """The contract's names of the user and the item."""
        return [self.names[column] for column in (self.user, self.item) if column]


def parts(samples: Samples, values: Mapping[str, Values], *, time_column: str, further: Collection[str]) -> Parts:
    """What all columns but the time's hold, those of `further` times as text."""
    names = [column for column in values if column != time_column]
    if samples.written.format == "access_log":  # whose fields are known, used or not
        names = [column for column in names if values[column].rows]
    questions = []
    first_look = {column: held(values[column], kind=samples.kinds.get(column)) for column in names}
    for column, what in first_look.items():
        if what.type == "integer" and roles.is_code(column) and len(values[column].distinct) <= _MOST_CODES:
            first_look[column] = replace(what, type="category", reason=f"{what.reason}, which name kinds")
    for column in further:
        optional = {"required": False} if values[column].num_null else {}
        first_look[column] = Held(type="text", reason="another time, kept as it is written", options=optional)
    able = [c for c in names if first_look[c].type not in ("decimal", "number") or values[c].are_whole]
    able = [c for c in able if c not in further] or able
    able = [c for c in able if values[c].rows] or able
    user, why_user, asked = roles.user_of({column: values[column] for column in able or names}, first_look)
    questions += [asked] if asked else []
    item, asked = roles.item_of([column for column in able if column != user])
    questions += [asked] if asked else []
    found = {}
    for column in names:
        plays = column in (user, item)
        is_id = plays or (roles.identifies(column) and first_look[column].type != "flag")
        found[column] = held(values[column], is_id=True) if is_id else first_look[column]
    empty = [column for column in names if not values[column].rows and column not in (user, item)]
    if empty:
        questions.append(
            Question(
                key="columns",
                text=f"no value of {listed(empty)} was seen: what {'does it' if len(empty) == 1 else 'do they'} hold? Text until you say",
            )
        )
    for column, what in found.items():
        if what.question:
            questions.append(Question(key=f"columns.{column}", text=what.question))
        if roles.is_price(column) and what.lowest is not None and what.lowest < 0:
            questions.append(
                Question(
                    key=f"columns.{column}.at_least",
                    text=f"may it be negative (the lowest is {what.lowest:g})? Such rows go to quarantine until you say",
                )
            )
    return Parts(
        values=values,
        held=found,
        names=_plain_names(names, user=user, item=item),
        why_user=why_user,
        user=user,
        item=item,
        questions=tuple(questions),
    )


def _plain_names(columns: Sequence[str], *, user: str, item: str | None) -> dict[str, str]:
    """A name of the contract's own for each column, the user's and the item's first."""
    found: dict[str, str] = {user: "user"} | ({item: "item"} if item else {})
    for column in columns:
        if column in found:
            continue
        plain = re.sub(r"[^a-z0-9_]+", "_", "_".join(words_of(column)) if not _is_plain(column) else column).strip("_")
        plain = plain if _is_plain(plain) else f"column_{plain}".rstrip("_")
        plain = f"{plain}_kind" if plain == "event" else f"{plain}_value" if plain in RESERVED else plain
        base, number = plain, 2
        while plain in found.values():
            plain, number = f"{base}_{number}", number + 1
        found[column] = plain
    return found


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None


def column_lines(samples: Samples, columns: Parts) -> list[Line]:
    """One line a column, with the name that the rest of the contract calls it."""
    lines = []
    for column, what in columns.held.items():
        name = columns.names[column]
        said = ({"as": name} if name != column else {}) | what.contract
        reason = what.reason
        if column == columns.user:
            said["personal"] = True
            reason += "" if what.options.get("personal") else "; a person's, so shown hashed"
        if column in samples.lacking:
            said["required"] = False
            reason += f"; {samples.lacking[column]} has no such column"
        marks = [what.mark]
        if roles.is_price(column) and what.lowest is not None:
            said["at_least"] = 0
            marks.append("may it be negative?" if what.lowest < 0 else "")
        if not columns.values[column].rows:
            marks.append("what does it hold?")
        lines.append(Line(key=column, value=said, reason=reason, question=" ".join(filter(None, marks))))
    return lines
