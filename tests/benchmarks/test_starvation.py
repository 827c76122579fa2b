"""The measurement of starvation detects broken promises."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.starvation.flood import Flood
from benchmarks.starvation.kinds import KINDS, STREAMS
from benchmarks.starvation.memory import MOST_GROWTH_BYTES, Outcome
from benchmarks.starvation.pairs import MOST_CORES_AFTER, Left
from benchmarks.starvation.probes import KEPT, MOST_RATIO, PROBE, Times
from service.__main__ import find_body

QUIET = Times([0.001, 0.001, 0.003])
KEPT_FLOOD = Flood(Counter({200: 100, 503: 100}), waits=[3.0], kept=[True] * 9, reports=[0.1])
KEPT_OUTCOME = Outcome(Counter({("stream", 200): 1}), grown_bytes=MOST_GROWTH_BYTES)


@pytest.mark.parametrize(
    ("seconds", "is_kept"),
    [
        ([0.001 * MOST_RATIO] * 3, True),
        ([0.0011 * MOST_RATIO] * 3, False),
        ([0.001, 0.001, 1.1], False),
        ([0.001, 0.001, math.inf], False),
    ],
)
def test_times_are_bounded_by_the_quiet_median_and_a_second(
    seconds: list[float], *, is_kept: bool
) -> None:
    assert Times(seconds).keeps(KEPT, QUIET) is is_kept


def test_probes_are_bounded_by_half_a_second_alone() -> None:
    assert Times([0.4] * 3).keeps(PROBE, QUIET)
    assert not Times([0.4, 0.6]).keeps(PROBE, QUIET)


def test_work_and_memory_after_all_left_are_found() -> None:
    assert Left(MOST_CORES_AFTER, 0).is_nothing
    assert not Left(2 * MOST_CORES_AFTER, 0).is_nothing
    assert not Left(0.0, 1).is_nothing


@pytest.mark.parametrize(
    "changed",
    [
        {"reports": [0.1, 5.1]},
        {"reports": [math.inf]},
        {"statuses": Counter({500: 1})},
        {"statuses": Counter({0: 1})},
        {"waits": [math.nan]},
        {"kept": [True] * 8 + [False] * 2},
    ],
)
def test_broken_promises_of_a_flood_are_found(changed: dict[str, object]) -> None:
    assert not KEPT_FLOOD.broken
    assert len(replace(KEPT_FLOOD, **changed).broken) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        {"answers": Counter({("body", 500): 1})},
        {"answers": Counter({("body", 0): 1})},
        {"wrong": ["/encoding"]},
        {"is_alive": False},
        {"grown_bytes": MOST_GROWTH_BYTES + 1},
        {"traceback": "Traceback"},
    ],
)
def test_broken_promises_of_a_memory_limit_are_found(changed: dict[str, object]) -> None:
    assert not KEPT_OUTCOME.broken
    assert len(replace(KEPT_OUTCOME, **changed).broken) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("target", STREAMS)
def test_streams_are_too_long_to_be_cached(target: str) -> None:
    length = find_body(target.format(100_000)).length_bytes

    assert length is None or length > 16 * 2**20


def numbered(name: str) -> bool:
    """Return whether requests of a kind differ by their numbers."""
    request: Callable[[int], bytes] = KINDS[name].request
    return request(1) != request(2)


def test_costly_requests_that_the_cache_could_keep_are_new() -> None:
    assert all(numbered(name) for name in KINDS if KINDS[name].request(1).startswith(b"GET"))
