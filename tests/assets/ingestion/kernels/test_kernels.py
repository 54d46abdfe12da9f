"""Compiled code is kept by the state of its own file, so a file must not hold compiled code of another."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

KERNELS = sorted(
    path for path in Path(__file__).resolve().parents[4].glob("*/**/kernels/*.py") if path.parts[-4] != "tests"
)
KERNELS = [path for path in KERNELS if "tests" not in path.parts and ".venv" not in path.parts]


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: "/".join(path.parts[-3:]))
def test_a_kernel_imports_nothing_of_ours(path: Path) -> None:
    imported = {
        name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not {name for name in imported if name.split(".")[0] in ("assets", "resources", "sensors")}


def test_there_are_kernels() -> None:
    assert len(KERNELS) > 3
