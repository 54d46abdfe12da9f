"""How much of the planted truth the whole pipeline finds, on shops of several seeds.

    python benchmarks/demo_seeds.py --seeds 101 202 303
    python benchmarks/demo_seeds.py --quick --json

Each seed is another shop: its 16 days land in a folder of their own and go through the command line as a person would
run it. The way is (AUC - 0.5) / (best possible AUC - 0.5) on the last judged day.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from assets.sharding.pieces import read_table
from resources.demo.truth import best_possible
from resources.deployments import CODE, Deployment
from resources.lake import Lake

GOAL = "the candidate goes at least 90 % of the way from 0.5 to the best possible AUC on every seed"
LIMIT = 0.9


def measured(seed: int, folder: Path) -> dict[str, Any]:
    """The AUCs of the last judged day of one shop, and the CPU and wall seconds of `slicewise run`."""
    environment = {"SLICEWISE_HOME": str(folder / "home"), "LANDING": str(folder / "landing")}
    command = [sys.executable, "-m", "slicewise"]
    full = {**os.environ, **environment}
    subprocess.run([*command, "demo", "--seed", str(seed)], cwd=CODE, env=full, check=True, capture_output=True)
    cpu, wall = sum(os.times()[2:4]), time.monotonic()
    subprocess.run([*command, "run", "demo", "--judge", "1"], cwd=CODE, env=full, check=True, capture_output=True)
    cpu, wall = sum(os.times()[2:4]) - cpu, time.monotonic() - wall
    lake = Lake(Deployment.from_env(environment).lake)
    ledger = lake.ledger("demo")
    day = ledger.days("champion")[-1]
    evaluation, shards = ledger.get("evaluation", day), ledger.get("shards", day)
    assert evaluation is not None
    assert shards is not None
    rows = pa.concat_tables([read_table(lake, shards, entry) for entry in shards.files if entry.rows])
    best = best_possible(rows, seed=seed).auc
    found = {who: metrics["auc"] for who, metrics in evaluation.facts["metrics"].items()}
    ways = {f"{who} way": (auc - 0.5) / (best - 0.5) for who, auc in found.items()}
    return {"seed": seed, "best": best, **found, **ways, "cpu_s": cpu, "wall_s": wall}


def main() -> None:
    parser = argparse.ArgumentParser(description=GOAL)
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 202, 303])
    parser.add_argument("--quick", action="store_true", help="the first seed only")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for seed in options.seeds[: 1 if options.quick else None]:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(seed, Path(folder)))
    holds = all(row["candidate way"] >= LIMIT for row in rows)
    if options.json:
        sys.stdout.write(json.dumps({"goal": GOAL, "table": rows, "holds": holds}) + "\n")
        return
    table = Table(title=f"{GOAL}: {'holds' if holds else 'does not hold'}", title_justify="left")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(str(v) if isinstance(v, int) else f"{v:.3f}" for v in row.values()))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
