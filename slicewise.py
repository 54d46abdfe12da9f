"""The command line: run a dataset headless, see how its days stand, find its files, check its contract."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from resources.contract.errors import ConfigError, DataError, SlicewiseError
from resources.deployments import CODE, Deployment, remember_landing

if TYPE_CHECKING:
    from collections.abc import Iterator

    import dagster as dg

    from resources.contract.dataset import Dataset
    from sensors.state import State
    from sensors.summary import Judged, Scored

_HOST = "127.0.0.1"
_CHECK_ERROR = "DagsterAssetCheckFailedError"  # says only that a check failed, not which and why
_PATIENCE_S = 60.0  # that `run` waits for files that somebody is still writing
_MOST_LEFT_OUT = 20
_SEED_FILE = "seed.json"  # beside the demo's files: which shop they are of

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
out = Console()
err = Console(stderr=True)

Name = Annotated[str, typer.Argument(help="the dataset: the name of a file in datasets/, without .yaml")]
Days = Annotated[
    str | None,
    typer.Option("--days", help="A..B or one day, such as 2026-01-03..2026-01-09; default: every day that landed"),
]


@contextmanager
def _told() -> Iterator[None]:
    """Our errors as one line and exit code 2: whoever must act needs no traceback."""
    try:
        yield
    except SlicewiseError as error:
        err.print(f"[bold red]{type(error).__name__}[/]", error, highlight=False, soft_wrap=True)
        raise typer.Exit(2) from error


def _span(text: str) -> tuple[date, date]:
    first, _, last = text.partition("..")
    try:
        span = date.fromisoformat(first), date.fromisoformat(last or first)
    except ValueError as error:
        raise ConfigError(f"days must be one day or A..B, such as 2026-01-03..2026-01-09, got {text!r}.") from error
    if span[1] < span[0]:
        raise ConfigError(f"a span of days must not end before it begins, got {text!r}: say {last}..{first}.")
    return span


def _take_landing(name: str, landing: Path | None) -> None:
    """The dataset's files land there from now on, if a folder was named."""
    if landing is None:
        return
    if not landing.is_dir():
        raise ConfigError(f"--landing must be a folder, got {landing}: nothing could land there.")
    remember_landing(name, landing)
    os.environ[f"LANDING_{name.upper()}"] = str(landing.resolve())  # what was just said beats what was set before


def _state(deployment: Deployment, name: str) -> State:
    from sensors.defs import read_state

    return read_state(_dataset(deployment, name), deployment)


def _dataset(deployment: Deployment, name: str) -> Dataset:
    from resources.contract.dataset import load_dataset

    path = deployment.datasets / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in deployment.datasets.glob("*.yaml")))
        raise ConfigError(f"there is no dataset {name!r} in {deployment.datasets}. Known: {known or 'none'}.")
    return load_dataset(path, variables=deployment.variables(name))


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="another seed is another shop")] = 0,
    scale: Annotated[float, typer.Option(help="1 is about 35,000 rows a day")] = 1.0,
) -> None:
    """Write the demo's 16 days into its landing folder (days that are there stay as they are)."""
    from resources.demo.generate import write_days
    from resources.lake import write_json

    with _told():
        folder, shop = Deployment.from_env().landing_of("demo"), {"seed": seed, "scale": scale}
        marker = folder / _SEED_FILE
        if not marker.exists() and folder.is_dir() and any(folder.iterdir()):
            raise ConfigError(
                f"{folder} holds files that are not the demo's: they would be mixed. Name another with LANDING_DEMO."
            )
        if marker.exists() and json.loads(marker.read_text()) == {**shop, "whole": True}:
            out.print(f"landed: the demo's days are in {folder} already", soft_wrap=True)
            return
        folder.mkdir(parents=True, exist_ok=True)
        write_json(marker, {**shop, "whole": False})
        with out.status("writing the demo's days"):
            started = time.monotonic()
            written = write_days(folder, seed=seed, scale=scale)
        write_json(marker, {**shop, "whole": True})
        out.print(f"landed: {len(written)} files in {folder}, {time.monotonic() - started:.1f} s", soft_wrap=True)


@app.command()
def run(
    name: Name,
    days: Days = None,
    landing: Annotated[Path | None, typer.Option(help="where its files land; remembered in .env")] = None,
    judge: Annotated[int, typer.Option(min=0, help="how many of the latest days to train for and judge")] = 2,
    rebuild: Annotated[bool, typer.Option(help="build the days of --days again, although nothing changed")] = False,
) -> None:
    """Take a dataset from landed files to a champion: what is already done is not done again."""
    with _told():
        _take_landing(name, landing)
        deployment = Deployment.from_env()
        deployment.prepare()
        state = _state(deployment, name)
        if not state.grid and state.landing.waiting:
            state = _settled(deployment, state, first=date.min, last=date.max)
        if not state.grid:
            if unread := state.unread():
                raise DataError(f"{name}: no landed file could be read: {'; '.join(unread)}")
            raise DataError(
                f"{name}: nothing landed yet that matches {state.dataset.source.files}. Put a file there, or say where "
                f"they are: slicewise run {name} --landing FOLDER."
            )
        first, last = _span(days) if days else (state.grid[0], state.grid[-1])
        state = _settled(deployment, state, first=first, last=last)
        _end_orphaned_runs()
        worked, failures = _work(deployment, state, first=first, last=last, judge=judge, rebuild=rebuild)
        state = _state(deployment, name)
        _tell_stale_models(state, first=first, last=last)
        if not worked and not failures:
            out.print(
                f"[green]{name}: everything from {first} to {last} is done and up to date; nothing to do.[/]",
                soft_wrap=True,
            )
        _summary(deployment, state, first=first, last=last)
        _tell_left_out(state, first=first, last=last, but="\n".join(failures))
        if failures:
            err.print(
                "[bold red]not everything could be built[/]", *failures, sep="\n", highlight=False, soft_wrap=True
            )
            raise typer.Exit(2)


def _settled(deployment: Deployment, state: State, *, first: date, last: date) -> State:
    """The state once the files of these days, and those of no known day, have not been written to for long enough."""
    patience = time.monotonic() + max(_PATIENCE_S, 3 * state.dataset.source.settle_seconds)
    told: set[str] = set()
    while time.monotonic() < patience:
        fresh = [f for f in state.landing.waiting if f.until and (f.day is None or first <= f.day <= last)]
        if not fresh:
            break
        if new := [str(file) for file in fresh if file.name not in told]:
            more = f" and {len(new) - 1} more" if new[1:] else ""
            out.print(f"[yellow]waiting for {new[0]}{more}[/]", highlight=False, soft_wrap=True)
        told |= {file.name for file in fresh}
        until = max(file.until for file in fresh if file.until)
        time.sleep(max(0.05, min((until - datetime.now(UTC)).total_seconds(), 5.0)))
        state = _state(deployment, state.dataset.name)
    return state


def _tell_left_out(state: State, *, first: date, last: date, but: str) -> None:
    """Which files the days were built without, and why; not what is told in `but` anyway."""
    told = [(day, why) for day in state.grid if first <= day <= last for why in state.left_out(day)]
    lines = [f"left out {day}: {why}" for day, why in told if why not in but]
    lines += [f"left out: {why}" for why in state.unread() if why not in {known for _, known in told}]
    for line in lines[:_MOST_LEFT_OUT]:
        out.print(f"[yellow]{escape(line)}[/]", highlight=False, soft_wrap=True)
    if lines[_MOST_LEFT_OUT:]:
        out.print(f"[yellow]and {len(lines) - _MOST_LEFT_OUT} more: slicewise status {state.dataset.name} --json[/]")


def _tell_stale_models(state: State, *, first: date, last: date) -> None:
    """Which models were trained on data that has changed since: they are kept, and a person decides."""
    built = [day for day in state.ledger.days("model") if first <= day <= last]
    if stale := [day for day in built if state.of("model", day).stale]:
        span = f"{stale[0]}..{stale[-1]}"
        out.print(
            f"[yellow]the data of {len(stale)} trained models changed since ({span}); they stay as they are. To train again: "
            f"slicewise run {state.dataset.name} --days {span} --judge {len(stale)} --rebuild[/]",
            soft_wrap=True,
        )


def _end_orphaned_runs() -> None:
    import dagster as dg

    from sensors.defs import end_orphaned_runs

    with dg.DagsterInstance.get() as instance:
        end_orphaned_runs(instance)


def _work(
    deployment: Deployment, state: State, *, first: date, last: date, judge: int, rebuild: bool
) -> tuple[bool, list[str]]:
    """Runs the jobs whose work is not done, in this process; whether there was any, and what failed.

    A day that cannot be built (still open, or refused) does not hold up the days that can. A model stays as it was
    trained although its data changed since: only `rebuild` trains again.
    """
    from resources.contract.manifest import DATA_ASSETS, JUDGEMENT_ASSETS
    from sensors.decisions import blocks_of

    name = state.dataset.name
    chosen = [day for day in state.grid if first <= day <= last]
    if not chosen:
        raise DataError(
            f"{name} has no day between {first} and {last}: its days are {state.grid[0]} to {state.grid[-1]}."
        )
    hindered, stuck, failures, worked, again = _hindered(state, chosen), {}, [], False, rebuild
    # until nothing is left: what a pass builds may make other days stale, and a step that fails for one day stops the rest
    while todo := [day for day in chosen if day not in hindered and (again or _first_undone(state, day))]:
        before = {day: _first_undone(state, day) for day in todo}
        blocks = blocks_of(todo, at_most=len(todo))
        failures += [why for days in blocks if (why := _execute(deployment, state, DATA_ASSETS, days, rebuild=again))]
        state, worked, again = _state(deployment, name), True, False
        failed = [day for day in todo if (undone := _first_undone(state, day)) and undone == before[day]]
        stuck |= {day: f"{undone[0]}, which failed" for day in failed if (undone := before[day])}
        hindered = {**stuck, **_hindered(state, chosen)}  # asked anew: what stood in the way may be mended by now
    judgeable = [day for day in chosen if state.unjudgeable(day) is None][-judge:] if judge else []
    for day in judgeable:
        state = _state(deployment, name)
        trained = state.ledger.get("model", day) is not None and not rebuild
        if not trained or any(_undone(state, asset, day) for asset in JUDGEMENT_ASSETS[1:]):
            needed = JUDGEMENT_ASSETS[1:] if trained else JUDGEMENT_ASSETS
            failures += [why] if (why := _execute(deployment, state, needed, [day], rebuild=rebuild)) else []
            worked = True
    if not judgeable and judge:
        hinders = state.unjudgeable(chosen[-1]) or ""
        for why in (why for day in chosen for why in state.left_out(day)):  # told with its own day
            hinders = hinders.replace(f": {why}", "")
        out.print(f"[yellow]no day can be judged yet: {escape(hinders)}[/]", soft_wrap=True)
    for day, reason in hindered.items():
        if state.of("deliveries", day).hindered:
            out.print(f"[yellow]{day} is not built yet: it waits for {reason}[/]", soft_wrap=True)
        else:
            short, _, why = reason.partition(": ")  # why a check failed is told by the run that made it
            failures.append(f"{day} is left out: {short if why and why in ''.join(failures) else reason}")
    return worked, list(dict.fromkeys(failures))


def _first_undone(state: State, day: date) -> tuple[str, str, int] | None:
    """The first data asset of a day that is missing or stale, what it would be made from, and what it is now."""
    work = state.work(day, history_above=0.0)
    if not work:
        return None
    built = state.ledger.get(work[0].asset, day)
    return work[0].asset, work[0].plan.input_digest, built.generation if built else 0


def _undone(state: State, asset: str, day: date) -> bool:
    return state.ledger.get(asset, day) is None or state.of(asset, day).stale is not None


def _hindered(state: State, days: list[date]) -> dict[date, str]:
    """Days that nothing done here can build, and why."""
    found = {}
    for day in days:
        work = state.work(day, history_above=0.0)
        if work and work[0].hindered and (work[0].asset == "deliveries" or work[0].plan.blocked):
            found[day] = work[0].hindered
    return found


def _execute(
    deployment: Deployment, state: State, assets: tuple[str, ...], days: list[date], *, rebuild: bool
) -> str | None:
    """Why the run of some assets over neighbouring days failed, or None."""
    import dagster as dg

    from assets.partitions import PROCESS, RANGE_END, RANGE_START, REBUILD
    from definitions import build_definitions
    from resources.console import Bars
    from resources.contract.manifest import DATA_ASSETS
    from resources.launcher.process import process_name

    job = f"{state.dataset.name}_{'data' if assets == DATA_ASSETS else 'judgement'}"
    first, last = days[0], days[-1]
    tags = {PROCESS: process_name(), REBUILD: str(rebuild).lower()}
    if first != last:
        tags |= {RANGE_START: first.isoformat(), RANGE_END: last.isoformat()}
    with Bars(err) as bars, dg.DagsterInstance.get() as instance:
        result = (
            build_definitions(deployment, bars)
            .resolve_job_def(job)
            .execute_in_process(
                instance=instance,
                partition_key=first.isoformat() if first == last else None,
                asset_selection=[dg.AssetKey([state.dataset.name, asset]) for asset in assets],
                tags=tags,
                raise_on_error=False,
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            )
        )
    return None if result.success else f"{job} {first}..{last} failed.\n{_reasons(result)}"


def _reasons(result: dg.ExecuteInProcessResult) -> str:
    """Why each step of a run failed, innermost cause first."""
    lines = []
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            text = data.user_failure_data.description if data.user_failure_data else None
            error = data.error
            while text is None and error is not None and error.cause is not None:
                error = error.cause
            lines.append(f"{event.step_key}: {text or (error.message.strip() if error else 'no reason recorded')}")
    for check in result.get_asset_check_evaluations():
        if not check.passed and check.blocking:
            lines.append(f"{check.asset_key.path[-1]}, check {check.check_name}: {check.description}")
    lines = [line for line in lines if _CHECK_ERROR not in line] or lines
    return "\n".join(lines) or "It was stopped."


def _summary(deployment: Deployment, state: State, *, first: date, last: date) -> None:
    from resources.contract.days import days_between
    from sensors.summary import newest_judgement, stages
    from sensors.tables import judgement_table, stage_table

    rows = stages(state.ledger, list(days_between(first, last)))
    out.print(stage_table(rows, title=f"{state.dataset.name}, {first} to {last}"))
    if (judged := newest_judgement(state.ledger)) is not None:
        seed = _demo_seed(deployment, state)
        out.print(
            judgement_table(judged, *([_best_possible(deployment, state, judged, seed)] if seed is not None else []))
        )
        out.print(judged.reason, highlight=False, soft_wrap=True)
        champion = state.as_json()["champion"]
        out.print(f"champion: {'the model of ' + champion['day'] if champion else 'none yet'}", highlight=False)
        total = sum(judged.seconds_split.values()) or 1.0
        split = ", ".join(f"{part.replace('_', ' ')} {s / total:.0%}" for part, s in judged.seconds_split.items())
        out.print(f"training: {total:.1f} s ({split})", soft_wrap=True)
        out.print(f"cycle time, from the day's delivery to its champion: {judged.cycle_s:.0f} s")
    out.print(
        f"\nnext: [bold]make ui[/] shows the graph, the days and the runs:\n"
        f"      Dagster on {deployment.dagster_page}, MLflow on {deployment.mlflow_page};\n"
        f"      [bold]slicewise status {state.dataset.name}[/] a row per day, [bold]slicewise quarantine {state.dataset.name}[/] "
        f"what does not fit.{' Your own logs: see the README.' if state.dataset.name == 'demo' else ''}",
        soft_wrap=True,
    )


def _demo_seed(deployment: Deployment, state: State) -> int | None:
    """The seed of the landed demo, whose truth is planted and known; None for everything else."""
    path = deployment.landing_of("demo") / _SEED_FILE
    return json.loads(path.read_text())["seed"] if state.dataset.name == "demo" and path.exists() else None


def _best_possible(deployment: Deployment, state: State, judged: Judged, seed: int) -> Scored:
    """What nobody can expect to beat on the judged day's rows."""
    import pyarrow as pa

    from assets.sharding.pieces import read_table
    from resources.demo.truth import best_possible
    from resources.lake import Lake
    from sensors.summary import Scored

    manifest = state.ledger.get("shards", judged.day)
    assert manifest is not None, "a judged day has shards"
    lake = Lake(deployment.lake)
    best = best_possible(pa.concat_tables([read_table(lake, manifest, e) for e in manifest.files if e.rows]), seed=seed)
    return Scored(who="best possible", auc=best.auc, log_loss=best.log_loss, calibration=None)


@app.command()
def status(
    name: Name, as_json: Annotated[bool, typer.Option("--json", help="one JSON object instead of a table")] = False
) -> None:
    """A row a day, and the champion."""
    from sensors.tables import day_table

    with _told():
        found = _state(Deployment.from_env(), name).as_json()
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    champion = found["champion"]
    told = "trained for {day}, since {since}, MLflow run {run_id}".format(**champion) if champion else "none yet"
    out.print(f"champion: {told}", soft_wrap=True)
    out.print(day_table(found["days"]))
    for row in found["days"]:
        if row["stale"]:
            stale = row["stale"]
            for why in row["left_out"]:  # told below
                stale = stale.replace(f": {why}", "")
            out.print(f"[yellow]stale[/] {row['day']}: {escape(stale)}", highlight=False, soft_wrap=True)
        for why in row["waiting"]:
            out.print(f"[yellow]waits[/] {row['day']}: for {escape(why)}", highlight=False, soft_wrap=True)
        for why in row["left_out"]:
            out.print(f"[yellow]left out[/] {row['day']}: {escape(why)}", highlight=False, soft_wrap=True)
        if row["drift"]:
            events = [f"{event['event'].replace('_', ' ')} {event['column']}" for event in row["drift"]]
            told = ", ".join(events[:3]) + (f" and {len(events) - 3} more" if events[3:] else "")
            out.print(f"[yellow]columns[/] {row['day']}: {escape(told)}", highlight=False, soft_wrap=True)
    for why in found["waiting"]:
        out.print(f"[yellow]waits[/] {escape(why)}", highlight=False, soft_wrap=True)
    for why in found["left_out"]:
        out.print(f"[yellow]left out[/]: {escape(why)}", highlight=False, soft_wrap=True)


@app.command()
def paths(
    name: Name,
    asset: Annotated[
        str, typer.Argument(help="deliveries, quarantine, shards, rollups, features, labels, model or champion")
    ],
    days: Annotated[str, typer.Argument(help="A..B or one day")],
) -> None:
    """The current files of an asset, one a line, for other engines; `quarantine` for the rows that did not fit."""
    from resources.contract.days import days_between
    from resources.contract.manifest import ASSETS
    from resources.lake import Lake

    with _told():
        if asset not in (*ASSETS, "quarantine"):
            raise ConfigError(f"there is no asset {asset!r}. Known: {', '.join(ASSETS)}, quarantine.")
        deployment = Deployment.from_env()
        _state(deployment, name)
        lake = Lake(deployment.lake)
        for day in days_between(*_span(days)):
            manifest = lake.read(name, "deliveries" if asset == "quarantine" else asset, day)
            for entry in manifest.files if manifest is not None else ():
                # files without rows (sketches, a header's schema) are none of other engines' business
                if entry.rows and entry.name.startswith("quarantine/") == (asset == "quarantine"):
                    typer.echo(lake.path(manifest, entry))  # pyright: ignore[reportArgumentType]


@app.command()
def quarantine(
    name: Name,
    days: Annotated[str | None, typer.Option("--day", help="one day of delivery, or A..B; default: all")] = None,
    reason: Annotated[str | None, typer.Option(help="only rows of this reason, such as not_a_decimal")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="a JSON list instead of tables")] = False,
) -> None:
    """The rows that do not fit the contract: how many, of which days, for which reasons, and some of them."""
    from assets.ingestion.look.question import counted
    from assets.ingestion.quarantine import quarantined
    from assets.ingestion.reasons import Reason
    from resources.lake import Lake
    from sensors.tables import quarantine_table, sample_lines

    with _told():
        known = [word.text for word in Reason if word is not Reason.FINE]
        if reason is not None and reason not in known:
            raise ConfigError(f"there is no reason {reason!r}. Known: {', '.join(known)}.")
        deployment = Deployment.from_env()
        first, last = _span(days) if days else (date.min, date.max)
        _dataset(deployment, name)
        lake = Lake(deployment.lake)
        ledger = lake.ledger(name, assets=("deliveries",), first=first, last=last)
        manifests = [m for day in ledger.days("deliveries") if (m := ledger.get("deliveries", day)) is not None]
        found = quarantined(lake, manifests, reason=reason)
    if as_json:
        typer.echo(json.dumps([faults.as_json() for faults in found], indent=1))
        return
    if not found:
        days_of = counted(len(manifests), "built day")
        out.print(f"no row of {days_of} of {name} lies in quarantine{f' as {reason}' if reason else ''}.")
        if refused := sum(manifest.counts["refused_files"] for manifest in manifests):
            out.print(f"{counted(refused, 'file')} could not be read at all: slicewise status {name}", soft_wrap=True)
        return
    out.print(quarantine_table(found))
    for line in sample_lines(found, width=out.width):
        out.print(line, highlight=False, markup=False, no_wrap=True, overflow="ellipsis", crop=True)


@app.command()
def check(
    name: Name,
    landing: Annotated[Path | None, typer.Option(help="where its files land; remembered in .env")] = None,
) -> None:
    """Validate a dataset's YAML, and a sample of its landed files against it."""
    from assets.ingestion.check import check_sample
    from assets.ingestion.look.question import counted

    with _told():
        _take_landing(name, landing)
        deployment = Deployment.from_env()
        state = _state(deployment, name)
        findings = check_sample(state.dataset, state.landing)
        if not state.landing.all and not state.landing.waiting:
            raise DataError(
                f"{name} is a valid contract, but no file matches {state.dataset.source.files} yet. Put one there, or say "
                f"where they are: slicewise check {name} --landing FOLDER."
            )
    landed = counted(len(state.landing.all), "file")
    out.print(f"datasets/{name}.yaml is a valid contract; {landed} can be taken.")
    written = (deployment.datasets / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    if asked := [str(number) for number, line in enumerate(written, start=1) if "# QUESTION" in line]:
        out.print(f"[yellow]still marked QUESTION: line {', '.join(asked)}[/] (take the word away once it is answered)")
    for finding in findings:
        out.print(f"  {'serious: ' if finding.serious else ''}{finding}", highlight=False, markup=False, soft_wrap=True)
    if any(finding.serious for finding in findings):
        out.print(
            "[red]a day like this would be refused[/]: mend the files, or what the contract says of these columns."
        )
        raise typer.Exit(1)
    if any(finding.example for finding in findings):
        limit = state.dataset.bad_rows.at_most
        out.print(f"the sample fits the contract but for these bad rows; bad_rows.at_most allows {limit:.1%} a day.")
    elif state.landing.all:
        out.print("the sample fits the contract.")


@app.command()
def init(
    files: Annotated[list[Path], typer.Argument(help="sample files of one source, such as logs/*.csv.gz")],
    name: Annotated[str, typer.Option(help="what the dataset shall be called: lower-case letters, digits and _")],
    landing: Annotated[Path | None, typer.Option(help="where its files land; remembered in .env")] = None,
) -> None:
    """Look at sample files and write datasets/NAME.yaml for them, with what only you can answer marked in it."""
    from assets.ingestion.look.begin import begin

    with _told():
        path = Deployment.from_env().datasets / f"{name}.yaml"
        if path.exists():
            raise ConfigError(
                f"{path} is there already and stays as it is: choose another --name, or take it away first."
            )
        begun = begin(files, name=name, today=datetime.now(UTC).date(), landing=landing)
        _take_landing(name, landing)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as new:
            new.write(begun.text)
    said = [f"read {begun.read}"]
    said += [f"  left out, since it cannot be read: {why}" for why in begun.refused.values()]
    said += [f"  left out: column {column!r}, {why}" for column, why in begun.left_out.items()]
    said += [f"wrote {path}: {begun.fit}", *(f"  {fault}" for fault in begun.faults)]
    said += ["", "what only you can answer; each is marked QUESTION in the file, and assumed until you say:"]
    said += [f"  {number}. {question}" for number, question in enumerate(begun.questions, start=1)]
    said += ["", f"next: slicewise check {name}{'' if landing else f' --landing {begun.landing}'}"]
    out.print(*said, sep="\n", highlight=False, markup=False, soft_wrap=True)


def _refuse_taken(port: int, option: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise ConfigError(
                f"port {port} is taken: end what listens there, or say another one with {option}."
            ) from error


@app.command()
def ui(
    port: Annotated[int, typer.Option(help="of Dagster's page")] = 3000,
    mlflow_port: Annotated[int, typer.Option(help="of MLflow's page")] = 5000,
) -> None:
    """Dagster (page, daemon, sensors) and MLflow on loopback, until Ctrl-C."""
    from resources.tracking import Tracker

    with _told():
        for number, option in ((port, "--port"), (mlflow_port, "--mlflow-port")):
            _refuse_taken(number, option)
    deployment = Deployment.from_env()
    deployment.prepare()
    Tracker(deployment.mlflow_uri).initialise()
    servers = {
        f"Dagster  http://{_HOST}:{port}": [
            *(sys.executable, "-W", "ignore", "-m", "dagster", "dev", "-w", str(CODE / "workspace.yaml")),
            *("-h", _HOST, "-p", str(port), "--log-level", "warning"),
        ],
        f"MLflow   http://{_HOST}:{mlflow_port}": [
            *(sys.executable, "-W", "ignore", "-m", "mlflow", "server", "--backend-store-uri", deployment.mlflow_uri),
            *("--host", _HOST, "--port", str(mlflow_port), "--workers", "1", "--uvicorn-opts", "--log-level warning"),
        ],
    }
    supervised = [sys.executable, "-W", "ignore", "-m", "resources.launcher.supervisor", "--grace", "10", "--"]
    # each server's supervisor watches our end of its stdin: whatever ends us ends it, with all its children
    running = [
        subprocess.Popen([*supervised, *command], stdin=subprocess.PIPE, cwd=CODE) for command in servers.values()
    ]
    for address in servers:
        out.print(address, highlight=False)
    out.print("Ctrl-C ends both.")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        while all(server.poll() is None for server in running):
            time.sleep(0.5)
    except KeyboardInterrupt:
        pass
    finally:
        for server in running:
            assert server.stdin is not None
            server.stdin.close()
        for server in running:
            server.wait()


if __name__ == "__main__":
    app()
