"""A contract drafted from samples: what was told from them, why, and what only a person can answer.

Where a contract needs an answer to be valid, the most careful choice stands there: text rather than a type that may lose
something, UTC, which skips no hour, personal rather than not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from assets.ingestion.look.contract_text import Line, contract_text
from assets.ingestion.look.parts import Parts, column_lines, parts
from assets.ingestion.look.pattern import Found
from assets.ingestion.look.question import Question
from assets.ingestion.look.roles import Label, is_price, label_of
from assets.ingestion.look.samples import Samples, told
from assets.ingestion.look.timeline import timeline
from assets.ingestion.look.values import Values
from resources.contract.source import Csv


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The text of a contract. `timed`: whether it has a time, without which no row could be taken."""

    text: str
    questions: tuple[Question, ...]
    timed: bool


def draft(name: str, samples: Samples, pattern: Found, *, today: date) -> Draft:
    """The contract of a dataset, from what its samples hold.

    Args:
        today: the first day of a dataset whose samples have no time.
    """
    values = {column: Values.of(column, samples.table[column]) for column in samples.table.column_names}
    times = timeline(samples, values, pattern, today=today)
    columns = parts(samples, values, time_column=times.column, further=times.further)
    label = label_of(columns.held, values, columns.names, keys=columns.keys)
    asked = Question(key="label", text=f"what is to be predicted? Until you say: {_in_words(label)}")
    lines = [
        Line(key="name", value=name),
        Line(key="source", value=tuple(_source(samples, pattern))),
        # an access log's time is known by its format
        *([] if samples.written.format == "access_log" else [times.time]),
        times.days,
        Line(key="columns", value=tuple(column_lines(samples, columns))),
        Line(key="user", value={"column": "user"}, reason=columns.why_user),
    ]
    if columns.item:
        lines.append(Line(key="item", value={"column": "item"}, reason="by its name"))
    if label.events:
        kinds = tuple(Line(key=kind, value=where) for kind, where in label.events.items())
        lines.append(Line(key="events", value=kinds, reason="kinds of rows, the first that matches"))
    lines.append(Line(key="label", value=label.label, question="what is to be predicted?", reason=label.reason))
    lines.append(Line(key="features", value=tuple(_features(columns, label, clock=times.has_clock))))
    title = f"Drafted from {told(samples)}. docs/contract.yaml shows every key."
    return Draft(
        text=contract_text(title, lines),
        questions=(*samples.written.questions, *pattern.questions, *times.questions, *columns.questions, asked),
        timed=times.moments is not None,
    )


def _in_words(label: Label) -> str:
    if "where" in label.label:
        return f"`{label.label['where']}` on the row itself"
    return f"whether {label.label['event']!r} follows within {label.label['within_hours']} hours"


def _source(samples: Samples, pattern: Found) -> list[Line]:
    found, why = samples.written, samples.written.reasons
    lines = [
        Line(
            key="files",
            value=pattern.text,
            reason=pattern.reason,
            question="could {day} stand there?" if pattern.questions else "",
        )
    ]
    lines.append(Line(key="format", value=found.format, reason=why.get("format", "")))
    if found.encoding != "utf-8":
        asked = any(question.key == "source.encoding" for question in found.questions)
        lines.append(
            Line(key="encoding", value=found.encoding, reason=why["encoding"], question="right?" if asked else "")
        )
    said = {key: value for key, value in found.csv.model_dump().items() if value != getattr(Csv(), key)}
    if said:
        reason = "; ".join(f"{key}: {why[key]}" for key in said if key in why)
        asked = "what are the columns called?" if "header" in said else ""
        lines.append(Line(key="csv", value=said, reason=reason, question=asked))
    return lines


def _features(columns: Parts, label: Label, *, clock: bool) -> list[Line]:
    """What the parts and types suggest: who, what, kinds, the hour, prices by their logarithm, counts of the past."""
    categories = ["user"] + (["item"] if columns.item else [])
    numbers: list[object] = []
    for column, what in columns.held.items():
        if column in (columns.user, columns.item) or column in label.of or not columns.values[column].rows:
            continue
        if what.type == "flag" or (what.type == "category" and not what.options.get("personal") and not what.question):
            categories.append(columns.names[column])
        elif what.type in ("integer", "decimal", "number"):
            log = is_price(column) or (what.lowest is not None and what.lowest >= 0)
            numbers.append({"log1p": columns.names[column]} if log else columns.names[column])
    categories += ["hour", "weekday"] if clock else ["weekday"]
    history: list[object] = [{"count": "user", "days": [1, 7]}]
    history += [{"count": "item", "days": [1, 7]}] if columns.item else []
    history.append({"since_last": "user"})
    lines = [Line(key="categories", value=categories)]
    lines += [Line(key="numbers", value=numbers)] if numbers else []
    lines.append(Line(key="history", value=history, reason="of the rows before"))
    return lines
