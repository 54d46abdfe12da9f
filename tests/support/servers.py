"""A real webserver and daemon on loopback, for the tests that use Dagster as a person would."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import requests

from resources.deployments import Deployment

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what: str, ask: Callable[[], T], *, timeout_s: float, every_s: float = 0.5) -> T:
    """The first true answer of `ask`; fails with what was waited for."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if answer := ask():
            return answer
        time.sleep(every_s)
    raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}; the last answer was {ask()!r}")


def processes_of(home: Path, pattern: str) -> list[int]:
    """Ids of living processes that were started for this SLICEWISE_HOME and whose command line holds `pattern`."""
    found = []
    mark = f"SLICEWISE_HOME={home}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if pattern in (folder / "cmdline").read_text().replace("\0", " ") and mark in (
                folder / "environ"
            ).read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@dataclass(frozen=True, kw_only=True)
class Servers:
    """The page's GraphQL address and what one may ask it."""

    url: str
    home: Path

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        answer = requests.post(f"{self.url}/graphql", json={"query": query, "variables": variables}, timeout=60).json()
        assert "errors" not in answer, answer
        return answer["data"]

    def runs(self, **tags: str) -> list[dict[str, Any]]:
        """Runs with these tags, newest first; `__` in a name stands for `/`."""
        wanted = [{"key": key.replace("__", "/"), "value": value} for key, value in tags.items()]
        query = """query Runs($filter: RunsFilter) { runsOrError(filter: $filter) { ... on Runs { results {
            runId status pipelineName tags { key value } } } ... on PythonError { message } } }"""
        return self.ask(query, filter={"tags": wanted})["runsOrError"]["results"]

    def status(self, run_id: str) -> str:
        query = "query Run($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
        return self.ask(query, id=run_id)["runOrError"]["status"]

    def launch(self, job: str, day: str) -> str:
        """One run of a job for one day, as the launchpad starts it."""
        query = """mutation Launch($params: ExecutionParams!) { launchPipelineExecution(executionParams: $params) {
            __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
        params = {
            "selector": {"repositoryLocationName": "slicewise", "repositoryName": "__repository__", "jobName": job},
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": day}]},
            "runConfigData": {},
            "mode": "default",
        }
        answer = self.ask(query, params=params)["launchPipelineExecution"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return answer["run"]["runId"]

    def terminate(self, run_id: str) -> None:
        query = "mutation Stop($id: String!) { terminateRun(runId: $id) { __typename } }"
        assert self.ask(query, id=run_id)["terminateRun"]["__typename"] == "TerminateRunSuccess"

    def backfill(self, dataset: str, asset_names: tuple[str, ...], days: list[str]) -> str:
        """A backfill of a job's assets over days, as the page starts it."""
        query = """mutation Backfill($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
            __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
        params = {
            "assetSelection": [{"path": [dataset, name]} for name in asset_names],
            "partitionNames": days,
            "tags": [],
        }
        answer = self.ask(query, params=params)["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        return answer["backfillId"]

    def backfill_status(self, backfill_id: str) -> str:
        query = """query Backfill($id: String!) { partitionBackfillOrError(backfillId: $id) {
            ... on PartitionBackfill { status } ... on PythonError { message } } }"""
        return self.ask(query, id=backfill_id)["partitionBackfillOrError"]["status"]


@contextmanager
def dagster_servers(environment: dict[str, str], log_folder: Path) -> Iterator[Servers]:
    """`dagster dev` as `slicewise ui` starts it, on a free port, until the block ends; nothing of it outlives the block."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "resources.launcher.supervisor", "--grace", "10", "--"),
        *(
            sys.executable,
            "-m",
            "dagster",
            "dev",
            "-w",
            str(ROOT / "workspace.yaml"),
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
        ),
    ]
    home = Path(environment["SLICEWISE_HOME"])
    full = {**os.environ, **environment}
    Deployment.from_env(environment).prepare(full)
    with (log_folder / "dagster.log").open("w") as log:
        dev = subprocess.Popen(command, cwd=ROOT, env=full, stdin=subprocess.PIPE, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"

    def up() -> bool:
        assert dev.poll() is None, (log_folder / "dagster.log").read_text()[-3000:]
        try:
            return requests.get(f"{url}/server_info", timeout=2).ok
        except requests.ConnectionError:
            return False

    try:
        wait_for("the Dagster page", up, timeout_s=120)
        yield Servers(url=url, home=home)
    finally:
        assert dev.stdin is not None
        dev.stdin.close()
        try:
            dev.wait(60)
        except subprocess.TimeoutExpired:
            dev.send_signal(signal.SIGKILL)
            raise
