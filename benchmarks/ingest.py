"""How fast a delivery day is taken in, beside DuckDB, Polars and pyarrow doing the same checked work.

    python benchmarks/ingest.py
    python benchmarks/ingest.py --quick --json
    python benchmarks/ingest.py --formats csv.gz --rows 1000000 --rounds 5 --data /tmp/days

The work: typed good rows by event day as zstd Parquet, every bad row in a Parquet with file, line, column, value, reason
and raw line, and the number of good rows that repeat the contract's key. Good rows, quarantine by reason, lines,
exact repeats and exact sums are compared with what was planted, for everybody. Each measurement is a process of its own
whose clock starts when it has taken in a tiny day: everything is imported, and our kernels are compiled (they are kept
on disk). Rounds are interleaved, medians shown, files in the page cache. Besides the work we alone hash what landed and
what we wrote, digest every row, compare and write page checksums, and sync to disk.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ingest_rivals.event_day import Shape, landed_day
from rich.console import Console
from rich.table import Table

GOAL = (
    "Parquet 1.4x the best rival in wall and CPU, gz text 0.95x in wall (a tie) and 1.2x in CPU; below 2 GB and at most "
    "1.25x the memory for 4x the rows; 20,000 files of 50 kB within 3x of the same rows in one"
)
WALL, CPU = {"parquet": 1.4, "csv.gz": 0.95, "jsonl.gz": 0.95}, {"parquet": 1.4, "csv.gz": 1.2, "jsonl.gz": 1.2}
RSS_MB, FLAT, TINY = 2048, 1.25, 3.0
RIVALS = {"DuckDB": "with_duckdb", "Polars": "with_polars", "pyarrow": "with_pyarrow"}
PROGRAMS = {"ours": "ours", **RIVALS}
TINY_ROWS, WARM_ROWS = 450, 500  # files of 50 kB
REMARKS = {
    ("DuckDB", "csv.gz"): "raw: put together from the values",
    ("DuckDB", "jsonl.gz"): "raw: put together from the values, none of malformed lines",
    ("Polars", "csv.gz"): "raw: put together from the values",
    ("Polars", "jsonl.gz"): "told that a malformed line lacks its }; raw of the others put together",
    ("pyarrow", "csv.gz"): "raw: put together from the values, but for ragged lines",
    ("pyarrow", "jsonl.gz"): "gets the day without malformed lines, text prices and fractional categories",
}


def measured(who: str, shape: Shape, data: Path, *, compare: bool) -> dict[str, Any]:
    """One measurement, in this process: seconds and memory, and what differs from the planted truth."""
    day = landed_day(data, shape)
    limit = who.removeprefix("limit: ")
    if limit != who:
        work = importlib.import_module("ingest_rivals.limits").limits(day)[limit]
        return _clocked(work) | {"wrong": []}
    program, checking = (importlib.import_module(f"ingest_rivals.{name}") for name in (PROGRAMS[who], "taken"))
    taken: list[Any] = []
    with tempfile.TemporaryDirectory(dir=data) as folder, tempfile.TemporaryDirectory(dir=data) as before:
        program.take(landed_day(data, replace(shape, rows=WARM_ROWS, files=1)), Path(before))
        numbers = _clocked(lambda: taken.append(program.take(day, Path(folder))))
        return numbers | {"wrong": checking.differences(day, taken[0]) if compare else []}


def _clocked(work: Any) -> dict[str, float]:
    cpu, wall = _cpu_s(), time.perf_counter()
    work()
    wall, cpu = time.perf_counter() - wall, _cpu_s() - cpu
    # not ru_maxrss, which a process inherits from the one that started it
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak_kb = int(status.split("VmHWM:")[1].split()[0])
    return {"wall_s": wall, "cpu_s": cpu, "rss_mb": peak_kb / 1024}


def _cpu_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def in_its_own_process(who: str, shape: Shape, data: Path, *, compare: bool) -> dict[str, Any]:
    """The same in a new process. Raises AssertionError where the result is not what was planted."""
    told = json.dumps({"who": who, "shape": asdict(shape), "data": str(data), "compare": compare})
    found = subprocess.run([sys.executable, __file__, "--measure", told], capture_output=True, text=True, check=False)
    assert found.returncode == 0, f"{who}, {shape.name}: {found.stderr[-2000:]}"
    numbers = json.loads(found.stdout)
    assert not numbers["wrong"], f"{who}, {shape.name}: {'; '.join(numbers['wrong'])}"
    return numbers


def shape_for(who: str, shape: Shape) -> Shape:
    """The day as a program gets it: without the rows that it cannot read at all."""
    without = ("broken_line", "price_text", "category_fraction")  # malformed, or of another type than declared
    unable = who == "pyarrow" and shape.format == "jsonl.gz"
    return replace(shape, without=without if unable else ())


def medians(
    jobs: Iterable[tuple[str, Shape]], data: Path, *, rounds: int, compare: bool = True
) -> list[dict[str, Any]]:
    """A row of the table per job. Rounds are interleaved; results are compared in the first."""
    found = defaultdict(list)
    for number in range(rounds):
        for who, shape in jobs:
            _say(f"round {number + 1} of {rounds}: {who}, {shape.name}")
            own = shape_for(who, shape)
            found[who, shape].append(in_its_own_process(who, own, data, compare=compare and number == 0))
    rows = []
    for (who, shape), numbers in found.items():
        middle = {key: statistics.median(n[key] for n in numbers) for key in ("wall_s", "cpu_s", "rss_mb")}
        about = {"format": shape.format, "rows": shape.rows, "files": shape.files, "who": who}
        speed = {
            "krows_per_s": shape.rows / middle["wall_s"] / 1000,
            "krows_per_cpu_s": shape.rows / middle["cpu_s"] / 1000,
        }
        rows.append({**about, **middle, **speed, "remark": REMARKS.get((who, shape.format), "")})
    return rows


def against_rivals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per format: how many times the best rival's seconds are ours."""
    checks = []
    for name in dict.fromkeys(row["format"] for row in rows):
        of = {row["who"]: row for row in rows if row["format"] == name and row["who"] in PROGRAMS}
        for what, goals in (("wall_s", WALL), ("cpu_s", CPU)):
            best = min(RIVALS, key=lambda who, of=of, what=what: of[who][what])
            checks.append(
                _check(f"{name}: {what} of {best} / ours", of[best][what] / of["ours"][what], at_least=goals[name])
            )
    return checks


def _check(what: str, value: float, *, at_least: float | None = None, at_most: float | None = None) -> dict[str, Any]:
    holds = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
    return {"what": what, "value": round(value, 3), "at_least": at_least, "at_most": at_most, "holds": holds}


def run(options: argparse.Namespace, data: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All rows of the table, and the goals with what was reached."""
    sizes = (
        dict.fromkeys(WALL, 500_000)
        if options.quick
        else {"parquet": 20_000_000, "csv.gz": 5_000_000, "jsonl.gz": 5_000_000}
    )
    days = [Shape(format=name, rows=options.rows or sizes[name]) for name in options.formats]
    memory = [
        Shape(format="parquet", rows=rows)
        for rows in ((3_000_000, 12_000_000) if options.quick else (5_000_000, 20_000_000))
    ]
    num_tiny = 2_000 if options.quick else 20_000
    tiny = [Shape(format="csv", rows=num_tiny * TINY_ROWS, files=files) for files in (num_tiny, 1)]
    for shape in dict.fromkeys([*(shape_for(who, day) for day in days for who in PROGRAMS), *memory, *tiny]):
        _say(f"landing {shape.name}")
        subprocess.run(
            [sys.executable, __file__, "--land", json.dumps({"shape": asdict(shape), "data": str(data)})], check=True
        )
    for name in dict.fromkeys([*options.formats, "parquet", "csv"]):
        _say(f"compiling for {name}")
        in_its_own_process("ours", Shape(format=name, rows=WARM_ROWS), data, compare=True)
    rows = medians([(who, day) for day in days for who in PROGRAMS], data, rounds=options.rounds)
    checks = against_rivals(rows)
    for day in days:
        names = _limits_of(day)
        rows += medians([(f"limit: {name}", day) for name in names], data, rounds=1)
    once = medians([("ours", shape) for shape in memory], data, rounds=1)
    small, large = (row["rss_mb"] for row in once)
    checks.append(
        _check(
            "MB at most, all of ours", max(r["rss_mb"] for r in [*rows, *once] if r["who"] == "ours"), at_most=RSS_MB
        )
    )
    checks.append(
        _check(f"parquet: MB of {memory[1].rows:,} rows / of {memory[0].rows:,}", large / small, at_most=FLAT)
    )
    apart = medians([("ours", shape) for shape in tiny], data, rounds=1)
    many, one = (row["wall_s"] for row in apart)
    checks.append(_check(f"csv: wall_s of {num_tiny:,} files / of the same rows in one", many / one, at_most=TINY))
    return [*rows, *once, *apart], checks


def _limits_of(day: Shape) -> list[str]:
    gz = ["gunzip, zlib", "gunzip, isal"] if day.format.endswith(".gz") else []
    return ["read bytes", *gz, "decode, pyarrow" if day.format == "parquet" else "parse, Polars"]


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def show(rows: list[dict[str, Any]], checks: list[dict[str, Any]]) -> None:
    """The table and the goals, for people."""
    console = Console(width=170)
    ours = {(r["format"], r["rows"], r["files"]): r for r in rows if r["who"] == "ours"}
    table = Table(title=GOAL, title_justify="left")
    for column in (
        "format",
        "rows",
        "files",
        "who",
        "wall s",
        "CPU s",
        "k rows/s",
        "k rows/CPU s",
        "peak MB",
        "wall/ours",
        "CPU/ours",
    ):
        table.add_column(column, justify="left" if column in ("format", "who") else "right", no_wrap=True)
    table.add_column("form")
    for row in rows:
        own = ours[row["format"], row["rows"], row["files"]]
        numbers = (
            f"{row['wall_s']:.2f}",
            f"{row['cpu_s']:.2f}",
            f"{row['krows_per_s']:,.0f}",
            f"{row['krows_per_cpu_s']:,.0f}",
            f"{row['rss_mb']:,.0f}",
        )
        ratios = (f"{row[key] / own[key]:.2f}" for key in ("wall_s", "cpu_s"))
        table.add_row(
            row["format"], f"{row['rows']:,}", f"{row['files']:,}", row["who"], *numbers, *ratios, row["remark"]
        )
    console.print(table)
    for check in checks:
        limit = f">= {check['at_least']}" if check["at_least"] is not None else f"<= {check['at_most']}"
        console.print(f"{'holds' if check['holds'] else 'DOES NOT HOLD'}: {check['what']} {limit}: {check['value']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=GOAL)
    parser.add_argument(
        "--quick", action="store_true", help="500,000 rows a format, one round, smaller days for memory and tiny files"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--formats", type=lambda text: text.split(","), default=list(WALL))
    parser.add_argument("--rows", type=int, default=None, help="of every format's day, before repeats")
    parser.add_argument("--data", type=Path, default=None, help="where the days are kept for the next time")
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--land", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if told := options.measure or options.land:
        shape = Shape(**{**told["shape"], "without": tuple(told["shape"]["without"])})
        if options.land:
            landed_day(Path(told["data"]), shape)
        else:
            numbers = measured(told["who"], shape, Path(told["data"]), compare=told["compare"])
            sys.stdout.write(json.dumps(numbers))
        return
    options.rounds = options.rounds or (1 if options.quick else 3)
    with tempfile.TemporaryDirectory() as temporary:
        data = options.data or Path(temporary)
        data.mkdir(parents=True, exist_ok=True)
        rows, checks = run(options, data)
    holds = all(check["holds"] for check in checks)
    if options.json:
        sys.stdout.write(json.dumps({"goal": GOAL, "table": rows, "checks": checks, "holds": holds}) + "\n")
        return
    show(rows, checks)


if __name__ == "__main__":
    main()
