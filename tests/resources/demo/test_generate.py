import csv
import gzip
import hashlib
from collections import Counter, defaultdict
from dataclasses import asdict
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from resources.contract.dataset import Dataset, load_dataset
from resources.demo.generate import DAYS, FAULTS, FIRST_DAY, landed, planted, text_of, write_day, write_days
from resources.demo.shop import events
from resources.demo.truth import ZONE

CONTRACT = Path(__file__).resolve().parents[3] / "datasets" / "demo.yaml"
SCALE = 0.05
LATE, AGAIN = date(2026, 1, 8), date(2026, 1, 10)


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("landing")
    write_days(folder, scale=SCALE)
    return folder


@pytest.fixture(scope="module")
def contract() -> Dataset:
    return load_dataset(CONTRACT, variables={"LANDING": "/landing"})


def lines_of(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def fault_of(row: list[str]) -> str | None:
    """Why a line cannot be read, told as plainly as possible."""
    if len(row) != 10:
        return "ragged"
    if row[1] == "yesterday":
        return "unreadable_time"
    if row[8] == "n/a":
        return "not_a_decimal"
    return "out_of_bounds" if row[8].startswith("-") else None


def recounted(landing: Path) -> dict[date, dict[str, Any]]:
    """What is in the files, counted line by line with the csv module."""
    found: dict[date, Counter[str]] = defaultdict(Counter)
    faults: dict[date, Counter[str]] = defaultdict(Counter)
    happened: dict[date, list[tuple[str, str, str, bool]]] = defaultdict(list)
    for path in sorted(landing.iterdir()):
        delivered = date.fromisoformat(path.name[:10])
        found[delivered]["files"] += 1
        for row in csv.reader(lines_of(path)[1:]):
            found[delivered]["delivered"] += 1
            if fault := fault_of(row):
                faults[delivered][fault] += 1
                continue
            day = datetime.fromisoformat(row[1]).astimezone(ZoneInfo(ZONE)).date()
            found[delivered]["next_day"] += day > delivered
            happened[day].append((row[0], row[2], row[9], day < delivered))
    counted = {}
    for day in DAYS:
        rows = happened[day]
        examples = {impression: clicked for impression, user, clicked, _ in rows if user}
        counted[day] = {
            **{name: found[day][name] for name in ("files", "delivered", "next_day")},
            "faults": dict(faults[day]),
            "good": len(rows),
            "late": sum(late for *_, late in rows),
            "users": len({user for _, user, *_ in rows if user}),
            "without_user": sum(not user for _, user, *_ in rows),
            "duplicates": len(rows) - len({impression for impression, *_ in rows}),
            "examples": len(examples),
            "clicks": sum(clicked == "1" for clicked in examples.values()),
        }
    return counted


def test_what_is_planted_is_what_the_files_hold(landing: Path) -> None:
    told = {day: {**asdict(found), "faults": dict(found.faults)} for day, found in planted(scale=SCALE).items()}
    assert told == recounted(landing)


def test_the_demo_has_all_the_dirt_it_promises() -> None:
    found = planted(scale=SCALE)
    assert list(found) == list(DAYS)
    assert {fault for day in found.values() for fault in day.faults} == set(FAULTS)
    assert all(day.faults and day.without_user for day in found.values())
    assert {day for day, counts in found.items() if counts.files == 2} == {LATE, AGAIN}
    assert found[AGAIN].duplicates > 0.9 * found[AGAIN].examples
    assert all(found[date(2026, 1, day)].late > 20 for day in (5, 6))
    assert sum(counts.next_day for counts in found.values()) > len(DAYS)
    assert sum(counts.late > 0 for counts in found.values()) > 12


def test_every_impression_is_delivered_once_and_only_those_of_the_second_delivery_twice() -> None:
    delivered = Counter(
        impression
        for day in DAYS
        for file in landed(day, scale=SCALE)
        if not file.name.endswith("-again.csv.gz")
        for impression in file.rows["impression"].to_pylist()
    )
    assert set(delivered.values()) == {1}
    added = landed(AGAIN, scale=SCALE)[0].rows["impression"].to_pylist()
    for day in DAYS[:-2]:  # of the last two days, some rows are delivered later
        assert set(events(day, scale=SCALE)["impression"].to_pylist()) <= {*delivered, *added}


def test_the_demo_is_large_enough() -> None:
    assert len(DAYS) == 16 and DAYS[0] == date(2026, 1, 1)
    assert sum(counts.examples for counts in planted().values()) > 500_000


def test_bad_rows_stay_well_below_what_the_contract_allows(contract: Dataset) -> None:
    for scale in (300 / 36_000, SCALE):
        for counts in planted(scale=scale).values():
            assert sum(counts.faults.values()) <= contract.bad_rows.at_most * counts.delivered / 2


def test_the_late_file_holds_rows_of_the_two_days_before_the_last_two(landing: Path) -> None:
    rows = list(csv.reader(lines_of(landing / f"{LATE}-late.csv.gz")[1:]))
    assert {row[0][:8] for row in rows} == {"20260105", "20260106"}
    on_time = {line.split(",")[0] for day in (5, 6, 7) for line in lines_of(landing / f"2026-01-0{day}.csv.gz")[1:]}
    assert not on_time & {row[0] for row in rows}


def test_the_second_delivery_repeats_the_first_and_adds_to_it(landing: Path) -> None:
    first, second = (lines_of(landing / f"{AGAIN}{kind}.csv.gz") for kind in ("", "-again"))
    assert second[: len(first)] == first
    assert 0 < len(second) - len(first) < 20


def test_the_first_minutes_of_a_day_come_with_the_day_before(landing: Path) -> None:
    midnight = datetime.combine(AGAIN, datetime.min.time(), tzinfo=ZoneInfo(ZONE))
    early = [
        row
        for row in csv.reader(lines_of(landing / f"{AGAIN - timedelta(days=1)}.csv.gz")[1:])
        if fault_of(row) is None and datetime.fromisoformat(row[1]) >= midnight
    ]
    assert early
    assert all(datetime.fromisoformat(row[1]) < midnight + timedelta(minutes=5) for row in early)


def test_a_day_is_the_same_whichever_days_were_written_before(landing: Path, tmp_path: Path) -> None:
    for path in write_day(tmp_path, AGAIN, scale=SCALE):
        assert path.read_bytes() == (landing / path.name).read_bytes()


def test_files_are_as_old_as_a_real_export_would_be_and_other_rows_have_another_time(
    landing: Path, tmp_path: Path
) -> None:
    (path,) = write_day(tmp_path, FIRST_DAY, scale=SCALE)
    end = datetime.combine(FIRST_DAY + timedelta(days=1), datetime.min.time(), tzinfo=ZoneInfo(ZONE)).timestamp()
    assert end + 300 <= path.stat().st_mtime < end + 310
    assert path.stat().st_mtime_ns == (landing / path.name).stat().st_mtime_ns
    path.unlink()
    write_day(tmp_path, FIRST_DAY, seed=1, scale=SCALE)
    assert path.stat().st_mtime_ns != (landing / path.name).stat().st_mtime_ns


def test_another_seed_gives_other_rows(landing: Path, tmp_path: Path) -> None:
    (path,) = write_day(tmp_path, FIRST_DAY, seed=1, scale=SCALE)
    assert path.read_bytes() != (landing / path.name).read_bytes()


def test_files_that_are_there_are_left_alone_and_spoiled_ones_are_mended(tmp_path: Path) -> None:
    first, second = write_day(tmp_path, AGAIN, scale=SCALE)
    content, before = first.read_bytes(), second.stat()
    first.write_bytes(content[:1000])
    assert write_day(tmp_path, AGAIN, scale=SCALE) == [first, second]
    assert first.read_bytes() == content
    assert (second.stat().st_mtime_ns, second.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_nothing_was_delivered_before_the_shop_opened(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2025-12-31"):
        write_day(tmp_path, FIRST_DAY - timedelta(days=1))
    assert not list(tmp_path.iterdir())


def test_the_contract_names_the_columns_and_days_of_the_files(landing: Path, contract: Dataset) -> None:
    header = lines_of(landing / f"{FIRST_DAY}.csv.gz")[0].split(",")
    assert sorted(header) == sorted([contract.time.column, *contract.columns])
    assert (contract.days.first, contract.days.last, contract.days.zone) == (DAYS[0], DAYS[-1], ZONE)


def test_the_deliveries_are_golden() -> None:
    files = [file for day in (LATE, AGAIN) for file in landed(day, scale=0.01)]
    digests = {file.name: hashlib.sha256(text_of(file.rows).encode()).hexdigest()[:16] for file in files}
    assert digests == {
        "2026-01-08-late.csv.gz": "d1ddc34ef627c94c",
        "2026-01-08.csv.gz": "68deb3b43a2938e8",
        "2026-01-10-again.csv.gz": "4a8c621a8e746c13",
        "2026-01-10.csv.gz": "1eaf381f98168c2b",
    }
