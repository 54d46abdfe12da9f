from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainable import Notebook

from assets.training.follow import Follower


def progress(step: int, **changed: Any) -> str:
    message = {"kind": "progress", "time_ms": 1, "step": step, "steps": 9, "loss": 0.5, "rows_per_s": 7.0, "day": "d"}
    return json.dumps(message | {"seconds": {"wait": 1.0, "compute": 3.0}} | changed) + "\n"


def test_lines_are_passed_on_once_and_only_when_they_are_whole(tmp_path: Path) -> None:
    path, book, seen = tmp_path / "progress.jsonl", Notebook(), []
    run_id = book.start(dataset="shop", name="n", tags={}, params={}, inputs=[])
    follow = Follower(path, tracker=book, run_id=run_id, on_progress=seen.append)  # pyright: ignore[reportArgumentType]
    follow()
    half = progress(2)
    path.write_text(progress(1) + half[:10])
    follow()
    follow()
    assert [message["step"] for message in seen] == [1]
    path.write_text(progress(1) + half + progress(3))
    follow()
    assert [message["step"] for message in seen] == [1, 2, 3]
    follow.flush()
    shares = [(m.step, m.value) for m in book.runs[run_id].metrics if m.key == "time/wait_share"]
    assert shares == [(1, 0.25), (2, 0.25), (3, 0.25)]


def test_checkpoints_go_to_mlflow_and_not_to_whoever_watches(tmp_path: Path) -> None:
    path, book, seen = tmp_path / "progress.jsonl", Notebook(), []
    run_id = book.start(dataset="shop", name="n", tags={}, params={}, inputs=[])
    made = {"kind": "checkpoint", "time_ms": 1, "step": 50, "loss": 0.4, "path": "/p.pt", "bytes": 3, "checksum": "c"}
    path.write_text(json.dumps(made) + "\n")
    Follower(path, tracker=book, run_id=run_id, on_progress=seen.append)()  # pyright: ignore[reportArgumentType]
    assert seen == []
    assert book.runs[run_id].checkpoints == {
        "step-50": {"step": 50, "metrics": {"checkpoint/loss": 0.4}, "address": "/p.pt", "checksum": "c"}
    }
