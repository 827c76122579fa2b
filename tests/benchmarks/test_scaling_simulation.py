"""The simulation of edges and replicas."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.scaling.demand import Catalogue
from benchmarks.scaling.simulation import HASH, IN_TURN, LruCache, Scene, Service, simulate, waits

CATALOGUE = Catalogue(2000, 0.9, (1000,), (1.0,))
SERVICE = Service((1e-4,), (2e-3,))
SCENE = Scene(4, HASH, 100_000, rate=1.0, requests=40_000)


def waits_one_by_one(arrivals: list[float], seconds: list[float]) -> list[float]:
    free_at, taken = 0.0, []
    for arrival, needed in zip(arrivals, seconds, strict=True):
        free_at = max(free_at, arrival) + needed
        taken.append(free_at - arrival)
    return taken


def test_requests_wait_for_earlier_ones() -> None:
    chance = np.random.default_rng(1)
    arrivals, seconds = np.cumsum(chance.random(1000)), chance.random(1000)

    expected = waits_one_by_one(arrivals.tolist(), seconds.tolist())

    assert waits(arrivals, seconds) == pytest.approx(expected)


def test_waits_match_queueing_theory() -> None:
    arrivals = np.cumsum(np.random.default_rng(1).exponential(size=1_000_000))

    mean = waits(arrivals, np.full(len(arrivals), 0.6)).mean()

    # Pollaczek and Khinchine, for service of one length: s + s·ρ / (2·(1 − ρ)).
    assert mean == pytest.approx(0.6 + 0.6 * 0.6 / (2 * 0.4), rel=0.02)


def test_least_recently_used_url_is_evicted() -> None:
    kept = LruCache(2500, np.array([1000, 1000, 1000, 2000]))

    answers = [kept.is_hit(url) for url in (0, 1, 0, 2, 1, 3, 1)]

    assert answers == [False, False, True, False, False, False, False]


def test_initial_cache_holds_the_most_recent_urls_that_fit() -> None:
    kept = LruCache(2500, np.array([1000, 1000, 1000, 2000]))

    kept.fill(np.array([3, 0, 2, 1]))

    assert [kept.is_hit(url) for url in (1, 2)] == [True, True]
    assert not kept.is_hit(0)


@pytest.mark.full
@pytest.mark.parametrize("routing", [HASH, IN_TURN])
@pytest.mark.parametrize("edges", [0, 2])
def test_initial_cache_equals_the_steady_state(routing: str, edges: int) -> None:
    scene = replace(SCENE, routing=routing, edges=edges, edge_bytes=200_000)
    long = replace(scene, is_fresh=True, requests=400_000)

    begun, run = (simulate(each, CATALOGUE, SERVICE) for each in (scene, long))

    assert begun.edge_found == pytest.approx(run.edge_found, abs=0.02)
    assert begun.replica_found == pytest.approx(run.replica_found, abs=0.03)


def test_replicas_cache_more_together_only_with_consistent_hashing() -> None:
    one, hashed, turning = (
        simulate(replace(SCENE, replicas=number, routing=routing), CATALOGUE, SERVICE)
        for number, routing in ((1, HASH), (8, HASH), (8, IN_TURN))
    )

    assert hashed.replica_found > one.replica_found + 0.2
    assert turning.replica_found == pytest.approx(one.replica_found, abs=0.02)


def test_edge_with_unlimited_cache_requests_each_url_once() -> None:
    scene = replace(SCENE, edges=1, edge_bytes=10**9, is_fresh=True)

    seen = simulate(scene, CATALOGUE, SERVICE)

    distinct = len(set(CATALOGUE.requests(scene.requests).tolist()))
    assert seen.built == distinct / scene.requests
    assert seen.replica_found == 0


def test_busy_cores_are_rate_times_service_time() -> None:
    seen = simulate(replace(SCENE, rate=100.0), CATALOGUE, SERVICE)

    expected = 100 * (seen.built * 2e-3 + (1 - seen.built) * 1e-4)
    assert seen.cores == pytest.approx(expected)
    assert seen.mean_busy == pytest.approx(seen.cores / 4)
    assert seen.busiest >= seen.mean_busy


def test_overloaded_replica_is_reported() -> None:
    seen = simulate(replace(SCENE, rate=1e6), CATALOGUE, SERVICE)

    assert seen.busiest > 1
    assert seen.p99_seconds == float("inf")


def test_simulation_is_reproducible() -> None:
    scene = replace(SCENE, edges=1, edge_bytes=200_000)

    assert simulate(scene, CATALOGUE, SERVICE) == simulate(scene, CATALOGUE, SERVICE)
