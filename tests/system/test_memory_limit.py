"""A server with default settings in a real limit of 512 MiB, under all that takes memory."""

import pytest

from benchmarks.processes import ROOT
from benchmarks.starvation.memory import Outcome, crowd

pytestmark = pytest.mark.system

SECONDS = 20.0


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """Send a crowd of unread streams, large bodies and examinations at once."""
    return crowd(ROOT, SECONDS)


def test_no_process_is_killed_and_nothing_fails(outcome: Outcome) -> None:
    assert outcome.is_alive
    assert outcome.kills == 0
    assert not outcome.wrong
    assert not outcome.traceback


def test_every_answer_is_a_success_or_a_refusal(outcome: Outcome) -> None:
    assert {status for _, status in outcome.answers} <= {200, 413, 503}


def test_memory_is_given_back_when_all_have_left(outcome: Outcome) -> None:
    assert outcome.grown_bytes < outcome.peak_bytes / 2


def test_answers_within_a_limit_are_right(outcome: Outcome) -> None:
    assert outcome.compared
    assert outcome.answers["stream", 200] > 100
