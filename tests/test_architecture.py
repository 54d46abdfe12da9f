"""The arrows of the house: who may import whom, where Dagster stands, and what an import of the roof may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LEVELS = (
    "resources.contract",
    "resources",
    "assets.partitions",
    "assets.ingestion",
    "assets.sharding",
    "assets.preprocessing",
    "assets.training",
    "assets.evaluation",
    "assets.export",
    "sensors",
    "definitions",
    "slicewise",
)
DAGSTER_FILES = ("defs.py", "partitions.py", "definitions.py", "slicewise.py")


def sources(root: Path) -> dict[str, Path]:
    """Every module of the product by its dotted name."""
    files = [
        *root.glob("*.py"),
        *(p for folder in ("assets", "resources", "sensors") for p in (root / folder).rglob("*.py")),
    ]
    return {".".join(p.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): p for p in files}


def imports(path: Path) -> list[str]:
    """The modules that a file imports anywhere in it; `from a import b` counts as a.b as well."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def level(module: str) -> int | None:
    matching = [i for i, name in enumerate(LEVELS) if module == name or module.startswith(name + ".")]
    return max(matching, key=lambda i: len(LEVELS[i])) if matching else None


def violations(root: Path) -> list[str]:
    """Every import that points the wrong way, in words."""
    wrong = []
    for module, path in sources(root).items():
        own = level(module)
        for target in imports(path):
            other = level(target)
            if own is not None and other is not None and other > own:
                wrong.append(f"{module} imports {target}, which lies downstream")
            if module not in ("slicewise", "definitions") and target.split(".")[0] == "definitions":
                wrong.append(f"{module} imports the roof")
            if target.split(".")[0] == "dagster" and path.name not in DAGSTER_FILES:
                wrong.append(f"{module} imports dagster outside {', '.join(DAGSTER_FILES)}")
            if target.split(".")[0] in ("assets", "resources", "sensors") and ".." in target:
                wrong.append(f"{module} has a relative import")
    return wrong


def test_arrows_point_one_way() -> None:
    assert violations(ROOT) == []


@pytest.mark.parametrize(
    ("planted", "text", "expected"),
    [
        ("assets/sharding/wrong.py", "from assets.training import loader\n", "downstream"),
        ("resources/contract/wrong.py", "import resources.lake\n", "downstream"),
        ("assets/ingestion/wrong.py", "def f():\n    import dagster\n", "outside"),
        ("sensors/wrong.py", "import definitions\n", "the roof"),
    ],
)
def test_a_planted_wrong_import_is_found(tmp_path: Path, planted: str, text: str, expected: str) -> None:
    (tmp_path / planted).parent.mkdir(parents=True)
    (tmp_path / planted).write_text(text)
    found = violations(tmp_path)
    assert found
    assert all(expected in line or "imports" in line for line in found)
    assert any(expected in line for line in found)


def test_importing_the_roof_leaves_heavy_libraries_out(tmp_path: Path) -> None:  # case F23
    code = "import sys, definitions; print([m for m in ('torch', 'mlflow', 'pandas', 'sklearn') if m in sys.modules])"
    environment = {"PATH": "/usr/bin:/bin", "SLICEWISE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip().splitlines()[-1:] == ["[]"], done.stderr


def test_package_files_hold_a_docstring_and_nothing_else() -> None:
    for path in (p for p in sources(ROOT).values() if p.name == "__init__.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        assert len(body) == 1, path
        assert isinstance(body[0], ast.Expr), path
