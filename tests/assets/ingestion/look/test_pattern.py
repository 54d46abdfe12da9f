"""One pattern for some paths, which finds them and their like."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from assets.ingestion.look.pattern import pattern_of
from resources.contract.errors import ConfigError


@pytest.mark.parametrize(
    ("names", "text", "days"),
    [
        (["2026-03-01.csv"], "{day}.csv", 1),
        (["2026-03-01.csv", "2026-03-02.csv"], "{day}.csv", 2),
        (["2026-03-01.csv", "2026-03-01-late.csv"], "{day}*.csv", 2),
        (["events-2026-03-01.csv.gz", "events-2026-03-02.csv.gz"], "events-{day}.csv.gz", 2),
        (["2026-03-01/part-0.parquet", "2026-03-01/part-1.parquet"], "{day}/part-*.parquet", 2),
        (["day=2026-03-01/2026-03-01.csv", "day=2026-03-02/2026-03-02.csv"], "day={day}/{day}.csv", 2),
        (["export.csv"], "export.csv", 0),
        (["a.csv", "b.csv"], "*.csv", 0),
        (["part9.csv", "part10.csv"], "part*.csv", 0),
        (["part1.csv", "part10.csv"], "part*.csv", 0),
        (["2026-03-01.csv", "rest.csv"], "*.csv", 0),
        (["2026-13-45.csv"], "2026-13-45.csv", 0),
    ],
)
def test_each_set_of_names(names: list[str], text: str, days: int) -> None:
    found = pattern_of([Path("/logs") / name for name in names])
    assert (found.text, len(found.days), found.questions) == ("${LANDING}/" + text, days, ())
    assert found.landing == Path("/logs") and all(isinstance(day, date) for day in found.days)


@pytest.mark.parametrize(
    ("name", "text"),
    [("events_20260301.csv", "events_*.csv"), ("2026/03/01.csv", "*.csv"), ("log-2026.03.01.gz", "log-*.gz")],
)
def test_other_ways_of_naming_days_are_said_and_asked_about(name: str, text: str) -> None:
    found = pattern_of([Path("/logs") / name], landing=Path("/logs"))
    assert found.text == "${LANDING}/" + text and [question.key for question in found.questions] == ["source.files"]


def test_the_landing_folder_keeps_what_lies_below_it() -> None:
    paths = [Path("/logs/shop/2026-03-01.csv")]
    assert pattern_of(paths, landing=Path("/logs")).text == "${LANDING}/shop/{day}.csv"
    assert pattern_of(paths, landing=Path("/elsewhere")).text == "${LANDING}/{day}.csv"


def test_names_are_no_templates() -> None:
    assert pattern_of([Path("/logs/a$b.csv")]).text == "${LANDING}/a$$b.csv"


def test_paths_that_no_pattern_can_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="different depths"):
        pattern_of([Path("/logs/a.csv"), Path("/logs/x/b.csv")])
    with pytest.raises(ConfigError, match="rename"):
        pattern_of([Path("/logs/a[1].csv")])
