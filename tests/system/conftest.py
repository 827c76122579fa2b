"""Fixtures of the system tests."""

from collections.abc import Iterator

import pytest

from tests.system import nginx
from tests.system.engine import Engine, running_engine
from tests.system.nginx import Edge
from tests.system.servers import Server, running


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Run a container engine for all tests."""
    with running_engine() as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Run a server with its default settings."""
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def edge(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Run the edge in front of the server."""
    with nginx.before([server], tmp_path_factory.mktemp("edge")) as edge:
        yield edge
