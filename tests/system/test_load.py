"""A server under a load of a thousand connections."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from benchmarks.load import summary
from benchmarks.load.plan import Plan
from benchmarks.load.requests import KINDS
from benchmarks.load.run import Measured, Outcome, run
from tests.system.processes import wait_until
from tests.system.servers import MIB, Server, running

pytestmark = pytest.mark.system

PAUSING = Plan(connections=1000, seconds=8, think_seconds=4.0, unloaded_seconds=1)
HASTY = Plan(connections=1000, seconds=6, think_seconds=0.0, unloaded_seconds=1)
CACHE_BYTES = 64 * MIB
# Beside the cache: a body of up to a MiB for each of 256 queued requests and for the answers
# to them, blocks of running answers, and memory that the allocator does not return.
GROWTH_BYTES = CACHE_BYTES + 640 * MIB


@dataclass(frozen=True)
class Loaded:
    server: Server
    outcome: Outcome


@pytest.fixture(scope="module", params=[PAUSING, HASTY], ids=["with pauses", "without"])
def loaded(request: pytest.FixtureRequest) -> Iterator[Loaded]:
    plan: Plan = request.param
    with running(cache_bytes=CACHE_BYTES) as server:
        yield Loaded(server, run(Measured(server.port, server.process.pid), plan))


def test_every_answer_under_load_is_correct_or_a_refusal(loaded: Loaded) -> None:
    tally = loaded.outcome.tally

    assert not loaded.outcome.trouble, tally.examples
    assert {status for _, status in tally.statuses} <= {200, 206, 503}
    assert tally.refused == 0 or loaded.outcome.plan == HASTY


def test_answers_under_load_are_compared_with_known_bytes(loaded: Loaded) -> None:
    tally = loaded.outcome.tally

    assert all(tally.compared[kind] for kind in KINDS)
    assert not tally.samples


def test_single_warm_answers_are_correct_under_load(loaded: Loaded) -> None:
    during = loaded.outcome.during

    assert during.probes
    assert not during.trouble


def test_memory_grows_by_little_more_than_the_cache(loaded: Loaded) -> None:
    held = summary.memory(loaded.outcome)

    assert held.most - held.idle <= GROWTH_BYTES


def test_no_work_or_memory_is_held_after_the_load(loaded: Loaded) -> None:
    count = loaded.server.count

    wait_until("nothing waits", lambda: count("posref_waiting_work") == 0)
    wait_until("no body is held", lambda: count("posref_held_body_bytes") == 0)
    # The one that is left is that of this request.
    wait_until("no connection is left", lambda: count("posref_connections") <= 1)


def test_server_exits_after_the_load(loaded: Loaded) -> None:
    assert loaded.server.end() == 0


def test_requests_that_would_wait_too_long_get_503_with_retry_after() -> None:
    plan = Plan(connections=1000, seconds=3, think_seconds=0.0, unloaded_seconds=1)

    with running(cache_bytes=CACHE_BYTES, wait_seconds=1) as server:
        outcome = run(Measured(server.port, server.process.pid), plan)

    assert outcome.tally.refused
    assert not outcome.trouble, outcome.tally.examples
