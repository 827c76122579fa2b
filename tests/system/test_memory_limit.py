"""A server with default settings in a real limit of 512 MiB, under all that takes memory."""

import pytest

from benchmarks.processes import ROOT
from benchmarks.starvation.memory import Outcome, crowd

pytestmark = pytest.mark.system

SECONDS = 30.0


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """Send a crowd of unread streams, large bodies and examinations at once."""
    return crowd(ROOT, SECONDS)


def test_server_survives_and_returns_its_memory(outcome: Outcome) -> None:
    assert not outcome.broken, outcome


def test_answers_within_a_limit_are_right(outcome: Outcome) -> None:
    assert outcome.compared
    assert outcome.answers["stream", 200] > 100
    assert outcome.answers["examination", 200]
