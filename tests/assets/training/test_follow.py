from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainable import Notebook

from assets.training.follow import Follower


def progress(step: int, **changed: Any) -> str:
    message = {"time_ms": 1, "step": step, "steps": 9, "loss": 0.5, "rows_per_s": 7.0, "day": "d"}
    message |= {"losses": [[step, 0.5]], "seconds": {"wait": 1.0, "compute": 3.0}}
    return json.dumps(message | changed) + "\n"


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


def test_every_loss_that_was_read_stands_at_its_own_step(tmp_path: Path) -> None:
    path, book = tmp_path / "progress.jsonl", Notebook()
    run_id = book.start(dataset="shop", name="n", tags={}, params={}, inputs=[])
    path.write_text(progress(75, losses=[[25, 0.7], [50, 0.6], [75, 0.5]], loss=0.6) + progress(100))
    follow = Follower(path, tracker=book, run_id=run_id, on_progress=None)  # pyright: ignore[reportArgumentType]
    follow()
    assert book.runs[run_id].metrics == []  # about once a second, not at each read
    follow.flush()
    losses = [(m.step, m.value) for m in book.runs[run_id].metrics if m.key == "train/loss"]
    assert losses == [(25, 0.7), (50, 0.6), (75, 0.5), (100, 0.5)]
