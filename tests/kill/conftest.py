"""`make test-kill` runs every case; `make test` three of them."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kill-all", action="store_true", help="every kill case, about a quarter of an hour")


@pytest.fixture
def kill_all(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--kill-all"))
