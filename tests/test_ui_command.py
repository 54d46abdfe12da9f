"""`slicewise ui` as a person uses it: two pages on loopback, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
from mini import ROOT, Mini
from servers import free_port, processes_of, wait_for


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).ok
    except requests.RequestException:
        return False


@pytest.mark.timeout(300)
def test_both_pages_answer_and_ctrl_c_ends_everything_that_was_started(tmp_path: Path) -> None:
    shop = Mini.write(tmp_path, days=1, scale=0.002, window_days=1)
    dagster, mlflow = free_port(), free_port()
    command = [sys.executable, "-m", "slicewise", "ui", "--port", str(dagster), "--mlflow-port", str(mlflow)]
    log = tmp_path / "ui.log"
    environment = {**os.environ, **shop.environment, "PYTHONUNBUFFERED": "1"}
    with log.open("w") as output:
        ui = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:

        def both_answer() -> bool:
            assert ui.poll() is None, log.read_text()[-3000:]
            return answers(f"http://127.0.0.1:{dagster}/server_info") and answers(f"http://127.0.0.1:{mlflow}/health")

        wait_for("both pages", both_answer, timeout_s=150)
        assert f"http://127.0.0.1:{dagster}" in log.read_text()
        assert f"http://127.0.0.1:{mlflow}" in log.read_text()
        assert len(processes_of(shop.home, "")) > 3

        # as a terminal does it: the whole foreground group hears it
        os.killpg(ui.pid, signal.SIGINT)
        started = time.monotonic()
        code = ui.wait(30)
        assert time.monotonic() - started < 30
        assert code == 0, log.read_text()[-3000:]
        assert processes_of(shop.home, "") == []
        assert not answers(f"http://127.0.0.1:{dagster}/server_info")
        assert "Traceback" not in log.read_text(), log.read_text()[-3000:]
    finally:
        if ui.poll() is None:
            ui.kill()  # its supervisors end the servers
            ui.wait()
