"""`slicewise init`: a contract from sample files, which check then takes, and nothing that was there is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import slicewise
from resources import deployments
from resources.contract.dataset import load_dataset

CSV = "user_id,at,price\nu1,2026-03-01 10:00:00,1.50\nu2,2026-03-01 11:00:00,2\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(deployments, "ENV_FILE", tmp_path / ".env")
    monkeypatch.setenv("SLICEWISE_DATASETS", str(tmp_path / "datasets"))
    monkeypatch.setenv("SLICEWISE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LANDING_SHOP", "")  # put back afterwards, whatever init remembers
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "2026-03-01.csv").write_text(CSV)
    return tmp_path


def said(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(slicewise.app, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, " ".join(done.output.split())


def test_a_contract_is_written_and_its_questions_are_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = said("init", home / "logs/2026-03-01.csv", "--name", "shop", "--landing", home / "logs")
    assert code == 0
    dataset = load_dataset(home / "datasets/shop.yaml")
    assert (dataset.source.files, dataset.time.zone) == ("${LANDING}/{day}.csv", "UTC")
    assert f"LANDING_SHOP='{home / 'logs'}'" in (home / ".env").read_text()


def test_check_tells_which_questions_are_open_until_their_marks_are_gone(home: Path) -> None:
    assert said("init", home / "logs/2026-03-01.csv", "--name", "shop", "--landing", home / "logs")[0] == 0
    path = home / "datasets/shop.yaml"
    lines = path.read_text().splitlines()
    numbers = [str(at) for at, line in enumerate(lines, start=1) if "QUESTION" in line]
    assert numbers and f"still marked QUESTION: line {', '.join(numbers)} " in said("check", "shop")[1]
    # a file that was written a moment ago is there, and told to wait
    assert "2026-03-01.csv: is not taken yet" in said("check", "shop")[1]
    path.write_text(path.read_text().replace("QUESTION", "answered"))
    assert "QUESTION" not in said("check", "shop")[1]


def test_what_is_there_is_never_overwritten(home: Path) -> None:
    assert said("init", home / "logs/2026-03-01.csv", "--name", "shop")[0] == 0
    path = home / "datasets/shop.yaml"
    path.write_text("mine")
    code, _ = said("init", home / "logs/2026-03-01.csv", "--name", "shop")
    assert code == 2 and path.read_text() == "mine"
    assert not (home / ".env").exists()


def test_what_cannot_be_read_writes_nothing(home: Path) -> None:
    (home / "logs/empty.csv").write_text("")
    assert said("init", home / "logs/empty.csv", "--name", "shop")[0] == 2
    assert said("init", home / "logs/2026-03-01.csv", "--name", "../shop")[0] == 2
    assert not (home / "datasets").exists()
