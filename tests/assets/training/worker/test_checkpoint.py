from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import pytest
import torch

from assets.training.worker import checkpoint
from resources.contract.errors import CorruptError


def state(step: int) -> dict[str, object]:
    return {"position": step, "weights": torch.full((4000,), float(step)), "seconds": {"wait": 0.5}}


def written(folder: Path, *steps: tuple[int, float]) -> None:
    for step, loss in steps:
        checkpoint.write(folder, state(step), step=step, loss=loss)


def cut(share: float) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def zero_tail(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut(0), cut(0.5), cut(0.99), zero_tail, flip_a_bit, Path.unlink])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(  # case D16
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    written(tmp_path, (100, 0.5), (200, 0.4))
    damage(tmp_path / "step=000000200.pt")
    with pytest.raises(CorruptError, match="step 200"):
        checkpoint.load(tmp_path, 200)
    found = checkpoint.newest_whole(tmp_path)
    assert found is not None
    assert found.step == 100
    loaded = checkpoint.load(tmp_path, found.step)
    assert loaded["position"] == 100
    assert torch.equal(loaded["weights"], torch.full((4000,), 100.0))


@pytest.mark.parametrize(
    "damage", [cut(0), cut(0.5), lambda path: path.write_text("[]"), lambda path: path.write_text("{}")]
)
def test_a_checkpoint_whose_record_is_damaged_is_passed_over_too(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    written(tmp_path, (100, 0.5), (200, 0.4))
    damage(tmp_path / "step=000000200.json")
    found = checkpoint.newest_whole(tmp_path)
    assert found is not None
    assert found.step == 100


def test_without_a_whole_one_there_is_none(tmp_path: Path) -> None:
    assert checkpoint.newest_whole(tmp_path / "nowhere") is None
    written(tmp_path, (100, 0.5))
    cut(0.5)(tmp_path / "step=000000100.pt")
    assert checkpoint.newest_whole(tmp_path) is None


def test_the_last_two_and_the_best_are_kept(tmp_path: Path) -> None:
    written(tmp_path, (1, 0.5), (2, 0.3), (3, 0.4), (4, 0.45), (5, 0.41))
    assert [found.step for found in checkpoint.known(tmp_path)] == [2, 4, 5]
    assert len(list(tmp_path.iterdir())) == 6


def test_what_was_damaged_is_written_anew_at_the_same_step(tmp_path: Path) -> None:
    written(tmp_path, (100, 0.5), (200, 0.4))
    cut(0.5)(tmp_path / "step=000000200.pt")
    assert checkpoint.newest_whole(tmp_path) is not None
    written(tmp_path, (200, 0.4))
    assert [found.step for found in checkpoint.known(tmp_path)] == [100, 200]
    assert checkpoint.load(tmp_path, 200)["position"] == 200


def test_a_write_that_is_killed_leaves_the_others_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, (1, 0.5), (2, 0.4))

    def killed(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path, (3, 0.3))
    found = checkpoint.newest_whole(tmp_path)
    assert found is not None
    assert found.step == 2
    assert [c.step for c in checkpoint.known(tmp_path)] == [1, 2]
    assert list(tmp_path.glob("*tmp*")) == []


def test_a_state_that_could_not_be_resumed_is_refused_when_it_is_written(tmp_path: Path) -> None:
    written(tmp_path, (1, 0.5))
    with pytest.raises(UnpicklingError):
        checkpoint.write(tmp_path, {"position": np.float64(3)}, step=2, loss=0.4)
    assert [c.step for c in checkpoint.known(tmp_path)] == [1]


def test_a_moved_folder_is_still_read(tmp_path: Path) -> None:
    written(tmp_path / "here", (1, 0.5))
    (tmp_path / "here").rename(tmp_path / "there")
    assert checkpoint.newest_whole(tmp_path / "there") is not None
