"""`slicewise check` shows where a sample does not fit, and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from assets.ingestion.check import check_sample
from assets.ingestion.landing import Landing

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

HEAD = "event_id,user_id,item_id,event_time,event_type,price\n"


def row(day: str, price: str = "1", user: str = "u") -> str:
    return f"1,{user},i,{day}T00:00:00Z,view,{price}\n"


def told(room: Room, **how: int) -> list[str]:
    dataset = room.dataset()
    return [str(finding) for finding in check_sample(dataset, Landing.scan(dataset), **how)]


def test_a_sample_that_fits_has_no_findings(room: Room) -> None:
    room.land("2025-03-01.csv", HEAD + row("2025-03-01"))
    assert told(room) == []
    assert not room.lake.root.exists()


def test_each_fault_is_told_once_with_its_number_and_first_line(room: Room) -> None:
    room.land("2025-03-01.csv", HEAD + row("2025-03-01") + row("2025-03-01", "x") * 2 + row("1970-01-01") + "1,2\n")
    assert told(room) == [
        "2025-03-01.csv: not_a_decimal (2 of the sampled rows), for example line 3, price = 'x'",
        "2025-03-01.csv: implausible_time (1 of the sampled rows), for example line 5, event_time = '1970-01-01T00:00:00Z'",
        "2025-03-01.csv: ragged (1 of the sampled rows), for example line 6",
    ]


def test_files_that_are_refused_empty_or_lack_an_optional_column_are_told(room: Room) -> None:
    room.land("2025-03-01.csv", "event_id\n1\n")
    room.land("2025-03-02.csv", "")
    room.land("2025-03-03.csv", HEAD + row("2025-03-03", user=""))
    first, second, third = told(room)
    assert first.startswith("2025-03-01.csv has no column 'event_time'")  # its name is said once
    assert "2025-03-01.csv has no column 'event_time', 'item_id', 'event_type'" in first
    assert second == "2025-03-02.csv: holds no rows"
    assert third == "2025-03-03.csv: column 'user_id' is empty or not there (1 of the sampled rows)"


def test_a_file_of_rows_whose_name_is_not_meant_is_told(room: Room) -> None:
    room.land("2025-03-01.csv", HEAD + row("2025-03-01"))
    for name in (
        "late_2025-03-01.csv",
        "late_2025-03-02.csv.gz",
        "readme.md",
        "_SUCCESS",
        ".a.csv",
        "x.csv.md5",
        "y.csv.tmp",
    ):
        room.land(name, "")
    [line] = told(room)
    assert line == "late_2025-03-01.csv: is not taken, nor is 1 more: source.files does not match its name"


def test_the_sample_is_bounded_and_spread_over_the_files(room: Room) -> None:
    for number in range(1, 10):
        room.land(f"2025-03-0{number}.csv", HEAD + row(f"2025-03-0{number}", "x") * 50 + "ragged\n")
    found = told(room, max_files=3, max_rows=20)
    assert [line[:14] for line in found] == ["2025-03-01.csv", "2025-03-05.csv", "2025-03-09.csv"]
    assert all("(20 of the sampled rows)" in line for line in found)


def test_an_export_is_checked_without_an_index(room: Room) -> None:
    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + row("2025-03-01") + row("1970-01-01"))
    [finding] = check_sample(dataset, Landing.scan(dataset))
    assert finding.what == "implausible_time" and finding.rows == 1


@pytest.mark.parametrize(
    ("faults", "serious"),
    [
        ("x" * 6 + "r", {"not_a_decimal"}),  # one is too much by itself: the other is not to blame
        ("x" * 6 + "r" * 7, {"not_a_decimal", "ragged"}),
        ("x" * 4 + "r" * 3, {"not_a_decimal"}),  # only together: the largest
        ("x" * 3 + "r" * 2, set()),
        ("x" * 2 + "l" * 20, set()),  # sound, only too late
    ],
)
def test_the_faults_that_make_a_file_bad_are_serious_and_each_has_the_share_of_all(
    room: Room, faults: str, serious: set[str]
) -> None:
    lines = {"x": row("2025-03-20", "x"), "r": "1,2\n", "l": row("2025-03-01")}
    good = row("2025-03-20") * (100 - len(faults))
    room.land("2025-03-20.csv", HEAD + good + "".join(lines[fault] for fault in faults))
    dataset = room.dataset(bad=0.05)
    found = check_sample(dataset, Landing.scan(dataset))
    assert {finding.what for finding in found if finding.serious} == serious
    assert {finding.share for finding in found} == {(faults.count("x") + faults.count("r")) / 100}
