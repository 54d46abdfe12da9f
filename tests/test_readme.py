"""The README tells the truth: what it tells people to type is there, and so is every file it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from ruamel.yaml import YAML
from typer.core import TyperGroup

from resources.contract.column import Column
from resources.contract.dataset import (
    BadRows,
    Cut,
    Dataset,
    Days,
    Duplicates,
    Features,
    Item,
    Train,
    User,
    load_dataset,
)
from resources.contract.source import Csv, Source, Time
from slicewise import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
YOURS = ("path/to/", ".slicewise", ".venv", ".env", "landing", "datasets/shop.yaml")  # comes into being by use


def code(language: str = "") -> list[str]:
    """The fenced blocks of a language, or all of them."""
    return re.findall(rf"^```{language or '[a-z]*'}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def spans() -> list[str]:
    """Everything that is set as code: the lines of fenced blocks, and what stands between backticks."""
    prose = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
    return [line for block in code() for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", prose)


def calls(program: str) -> set[str]:
    """Whatever follows the name of a program, up to a comment."""
    found = [re.match(rf"(?:\.venv/bin/)?{program}\s+([^#]+)", span.strip()) for span in spans()]
    return {match[1].strip() for match in found if match}


def paths() -> Iterator[str]:
    """What looks like a path of the repository: named with a folder or with a suffix of ours, or linked to."""
    for span in spans():
        for word in re.split(r"\s+", span):
            if re.fullmatch(r"\.?[\w-]+(/[\w.-]+)*(/|\.(py|yaml|toml|md|txt))", word):
                yield word
    yield from (target for target in re.findall(r"\]\(([^)]+)\)", README) if "://" not in target)


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = {call.split()[0] for call in calls("make")}
    assert {"run", "ui", "test"} <= named
    assert named <= targets


def test_every_command_that_is_named_exists_with_its_options() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    named = calls("slicewise")
    assert {call.split()[0] for call in named} == set(group.commands), "the README has a line for each"
    for call in named:
        known = {option for param in group.commands[call.split()[0]].params for option in param.opts}
        assert set(re.findall(r"--[\w-]+", call)) <= known, call


@pytest.mark.parametrize("path", sorted(set(paths())))
def test_every_file_that_is_named_exists(path: str) -> None:
    assert path.startswith(YOURS) or (ROOT / path).exists()


def test_the_files_that_matter_are_named() -> None:
    assert {"datasets/demo.yaml", "definitions.py", "slicewise.py", "assets/", "CHANGELOG.md"} <= set(paths())


def test_every_yaml_that_is_shown_parses() -> None:
    for block in code("yaml"):
        assert YAML(typ="safe").load(block), block


@pytest.mark.parametrize("path", ["datasets/demo.yaml", "docs/contract.yaml"])
def test_the_contracts_that_it_sends_people_to_are_valid(path: str) -> None:
    assert path in README
    assert load_dataset(ROOT / path, variables={"LANDING": "/nowhere"}).name == Path(path).stem


def test_the_reference_shows_every_key_of_a_contract() -> None:
    text = (ROOT / "docs" / "contract.yaml").read_text(encoding="utf-8")
    models = (Dataset, Source, Csv, Time, Days, Column, User, Item, Duplicates, BadRows, Cut, Features, Train)
    for model in models:
        for key in model.model_fields.keys() - {"as_"}:  # which is written `as`
            assert re.search(rf"\b{key}\b", text), f"{model.__name__}.{key}"
