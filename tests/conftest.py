"""Fixtures of all tests, and the choice of those that ``make test`` runs."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, settings

from service.app import create_app
from service.settings import default_settings
from tests.client import Client, client_of

REPRESENTATIVES = 3

settings.register_profile(
    "deterministic",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("deterministic"), max_examples=10)
settings.load_profile("deterministic")


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark the cases of a parametrized test as full, but for three spread over all of them."""
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    for of_one_test in cases.values():
        step = -(-len(of_one_test) // REPRESENTATIVES)
        for index, item in enumerate(of_one_test):
            if index % step:
                item.add_marker(pytest.mark.full)


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """Return a client of an application with the default settings, shared by all tests."""
    with client_of(create_app(default_settings())) as shared:
        yield shared


@pytest.fixture
def fresh_client() -> Iterator[Client]:
    """Return a client of an application with empty caches."""
    with client_of(create_app(default_settings())) as fresh:
        yield fresh
