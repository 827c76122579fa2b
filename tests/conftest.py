"""What every test shares."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from service.app import create_app
from service.settings import default_settings
from tests.client import Client, client_of

settings.register_profile(
    "deterministic",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deterministic")


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """Drive an application with its default settings, whatever the environment says."""
    with client_of(create_app(default_settings())) as shared:
        yield shared


@pytest.fixture
def fresh_client() -> Iterator[Client]:
    """Drive an application that nobody else has used."""
    with client_of(create_app(default_settings())) as fresh:
        yield fresh
