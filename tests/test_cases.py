"""The cases that broke other pipelines, each proved by a test that carries its number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CASES = """
A3 A5 A7 A12 A16 A18 A20 A21 A25 A26 A27
B1 B3 B5 B14
C1 C3 C5 C7 C9 C11 C13
D3 D4 D6 D8 D9 D24
E2 E3 E4 E5 E9 E12
F4 F5 F8 F9 F11 F13 F15 F17 F23
""".split()


@pytest.fixture(scope="module")
def everything() -> str:
    return "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))


@pytest.mark.parametrize("case", CASES)
def test_a_test_carries_the_number_of_the_case(case: str, everything: str) -> None:
    named, marked = rf"def test_{case.lower()}_", rf"(def test_.*|\) -> None:)  # cases? (\w+, )*{case}\b"
    assert re.search(rf"^({named}|{marked})", everything, flags=re.MULTILINE)
