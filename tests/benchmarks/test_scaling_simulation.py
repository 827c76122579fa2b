"""The simulation of edges and replicas."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.scaling.demand import Catalogue
from benchmarks.scaling.simulation import (
    HASH,
    IN_TURN,
    Kept,
    Scene,
    Service,
    simulate,
    waits,
)

CATALOGUE = Catalogue(2000, 0.9, (1000,), (1.0,))
SERVICE = Service((1e-4,), (2e-3,))
SCENE = Scene(4, HASH, 100_000, rate=1.0, requests=40_000)


def waits_one_by_one(arrivals: list[float], seconds: list[float]) -> list[float]:
    free_at, taken = 0.0, []
    for arrival, needed in zip(arrivals, seconds, strict=True):
        free_at = max(free_at, arrival) + needed
        taken.append(free_at - arrival)
    return taken


def test_each_waits_for_those_before() -> None:
    chance = np.random.default_rng(1)
    arrivals, seconds = np.cumsum(chance.random(1000)), chance.random(1000)

    expected = waits_one_by_one(arrivals.tolist(), seconds.tolist())

    assert waits(arrivals, seconds) == pytest.approx(expected)


def test_waits_are_those_of_a_queue_with_known_ones() -> None:
    arrivals = np.cumsum(np.random.default_rng(1).exponential(size=1_000_000))

    mean = waits(arrivals, np.full(len(arrivals), 0.6)).mean()

    # Pollaczek and Khinchine, for service of one length: s + s·ρ / (2·(1 − ρ)).
    assert mean == pytest.approx(0.6 + 0.6 * 0.6 / (2 * 0.4), rel=0.02)


def test_what_was_used_least_recently_is_forgotten() -> None:
    kept = Kept(2500, np.array([1000, 1000, 1000, 2000]))

    answers = [kept.asks(url) for url in (0, 1, 0, 2, 1, 3, 1)]

    assert answers == [False, False, True, False, False, False, False]


def test_what_was_asked_for_last_is_put_in_as_far_as_there_is_room() -> None:
    kept = Kept(2500, np.array([1000, 1000, 1000, 2000]))

    kept.fill(np.array([3, 0, 2, 1]))

    assert [kept.asks(url) for url in (1, 2)] == [True, True]
    assert not kept.asks(0)


@pytest.mark.parametrize("routing", [HASH, IN_TURN])
@pytest.mark.parametrize("edges", [0, 2])
def test_caches_begin_as_they_are_after_a_long_time(routing: str, edges: int) -> None:
    scene = replace(SCENE, routing=routing, edges=edges, edge_bytes=200_000)
    long = replace(scene, is_fresh=True, requests=400_000)

    begun, run = (simulate(each, CATALOGUE, SERVICE) for each in (scene, long))

    assert begun.edge_found == pytest.approx(run.edge_found, abs=0.02)
    assert begun.replica_found == pytest.approx(run.replica_found, abs=0.03)


def test_replicas_keep_more_between_them_only_where_urls_lead_to_one() -> None:
    one, hashed, turning = (
        simulate(replace(SCENE, replicas=number, routing=routing), CATALOGUE, SERVICE)
        for number, routing in ((1, HASH), (8, HASH), (8, IN_TURN))
    )

    assert hashed.replica_found > one.replica_found + 0.2
    assert turning.replica_found == pytest.approx(one.replica_found, abs=0.02)


def test_one_edge_that_keeps_everything_asks_once_for_each_url() -> None:
    scene = replace(SCENE, edges=1, edge_bytes=10**9, is_fresh=True)

    seen = simulate(scene, CATALOGUE, SERVICE)

    distinct = len(set(CATALOGUE.requests(scene.requests).tolist()))
    assert seen.built == distinct / scene.requests
    assert seen.replica_found == 0


def test_cores_are_what_requests_take_at_their_rate() -> None:
    seen = simulate(replace(SCENE, rate=100.0), CATALOGUE, SERVICE)

    expected = 100 * (seen.built * 2e-3 + (1 - seen.built) * 1e-4)
    assert seen.cores == pytest.approx(expected)
    assert seen.mean_busy == pytest.approx(seen.cores / 4)
    assert seen.busiest >= seen.mean_busy


def test_a_replica_that_cannot_keep_up_is_told() -> None:
    seen = simulate(replace(SCENE, rate=1e6), CATALOGUE, SERVICE)

    assert seen.busiest > 1
    assert seen.p99_seconds == float("inf")


def test_the_same_scene_gives_the_same() -> None:
    scene = replace(SCENE, edges=1, edge_bytes=200_000)

    assert simulate(scene, CATALOGUE, SERVICE) == simulate(scene, CATALOGUE, SERVICE)
