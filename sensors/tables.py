"""The terminal tables of a dataset: its stages, its newest judgement, its days. Each fits 80 characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from assets.ingestion.quarantine import Faults
from sensors.summary import Judged, Scored, Stage

_COUNTS = {
    "delivered": "delivered",
    "quarantined": "bad",
    "good": "good",
    "duplicates": "dupl.",
    "late": "late",
    "users": "users",
    "without_user": "no user",
}


def stage_table(rows: Sequence[Stage], *, title: str) -> Table:
    """A row per asset that is built."""
    table = _table(
        "stage", right=("days", "rows in", "rows out", "quarantined", "MB", "seconds", "rows/s"), title=title
    )
    for stage in rows:
        table.add_row(
            stage.asset,
            str(stage.days),
            f"{stage.rows_in:,}",
            f"{stage.rows_out:,}",
            f"{stage.quarantined:,}" if stage.asset == "deliveries" else "",
            f"{stage.bytes / 1e6:,.1f}",
            f"{stage.seconds:,.1f}",
            f"{stage.rows_per_s:,.0f}" if stage.rows_per_s else "",
        )
    return table


def judgement_table(judged: Judged, *more: Scored) -> Table:
    """A row per model that was scored on the judged day, and `more` that were not in the competition."""
    title = f"judged day {judged.day}: [bold]{judged.verdict}[/]"
    table = _table("model", right=("AUC", "log loss", "calibration"), title=title)
    for scored in (*judged.scored, *more):
        values = (scored.auc, scored.log_loss, scored.calibration)
        table.add_row(scored.who, *("" if value is None else f"{value:.4f}" for value in values))
    return table


def day_table(days: Sequence[dict[str, Any]]) -> Table:
    """A row per day of `State.as_json`."""
    table = _table("day", "state", right=tuple(_COUNTS.values()))
    for row in days:
        table.add_row(row["day"], *("" if row[name] is None else f"{row[name]:,}" for name in _COUNTS), _standing(row))
    return table


def quarantine_table(found: Sequence[Faults]) -> Table:
    """A row per day, reason and column of what lies in quarantine."""
    table = _table("day", "reason", "column", right=("rows",))
    for faults in found:
        table.add_row(str(faults.day), f"{faults.rows:,}", faults.reason, escape(faults.column or ""))
    return table


def sample_lines(found: Sequence[Faults], *, width: int) -> list[str]:
    """Some rows in quarantine, each with where it stands, its value, and what fits of its line."""
    lines = []
    for faults in found:
        lines.append(f"{faults.day} {faults.reason}{f' in {faults.column}' if faults.column else ''}")
        for row in faults.samples:
            value = "" if row["value"] is None else f": {_one_line(row['value'])!r}"
            lines.append(_cut(f"  {row['file']}, line {row['line']:,}{value}", width))
            if row["raw"] is not None:
                lines.append(_cut(f"    {_one_line(row['raw'])}", width))
    return lines


def _one_line(text: str) -> str:
    """Without what would move the cursor: it is somebody else's text."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text[:1000])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _standing(row: dict[str, Any]) -> str:
    """How far a day has come, in a word or two: its verdict, or what is not built yet."""
    if (row["stale"] or "").startswith("deliveries: refused"):
        return "refused"
    if row["verdict"] is not None:
        return str(row["verdict"])
    behind = next(((asset, row[asset]) for asset in ("shards", "features", "labels") if row[asset] != "built"), None)
    if behind is not None:
        return behind[1] if behind[1] in ("open", "immature") else f"no {behind[0]}"
    return "built" if row["model"] != "built" else "trained"


def _table(*columns: str, right: tuple[str, ...], title: str | None = None) -> Table:
    """An empty table; the columns in `right` are numbers and follow the first one."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(columns[0], no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    for name in columns[1:]:
        table.add_column(name)
    return table
