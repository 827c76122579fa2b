"""What the system tests share."""

from collections.abc import Iterator

import pytest

from tests.system.engine import Engine, running_engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Run a container engine, once for all tests."""
    with running_engine() as running:
        yield running
