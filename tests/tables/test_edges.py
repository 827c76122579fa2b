"""Edges of buckets, held to comparisons of the powers themselves."""

from itertools import pairwise
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables.edges import ceilings, floors


@given(st.integers(1, 400), st.integers(1, 10**6), st.integers(2, 60))
def test_a_ceiling_is_the_first_integer_from_a_power_on(low: int, more: int, steps: int) -> None:
    high = low + more

    for j, edge in enumerate(ceilings(low, high, steps).tolist(), start=1):
        power = high**j * low ** (steps - j)
        assert (edge - 1) ** steps < power <= edge**steps


@given(st.integers(1, 400), st.integers(1, 10**6), st.integers(1, 60), st.integers(1, 10**4))
def test_a_floor_is_the_last_integer_up_to_a_power(
    low: int, more: int, steps: int, limit: int
) -> None:
    high = low + more

    found = floors(low, high, steps, limit).tolist()[:200]

    assert all(edge < limit for edge in found)
    for j, edge in enumerate(found):
        power = high**j
        assert edge**steps * low**j <= power * low**steps < (edge + 1) ** steps * low**j


@pytest.mark.parametrize(("growth", "steps"), [(2, 1), (2, 5), (3, 7), (2, 62)])
def test_powers_that_are_integers_are_met_exactly(growth: int, steps: int) -> None:
    """(growth^steps)^(j/steps) is an integer for every j: the case that rounded logarithms miss."""
    high = growth**steps
    powers = [growth**j for j in range(steps)]

    assert ceilings(1, high, steps).tolist() == powers[1:]
    assert floors(1, high, steps, high).tolist() == powers


def test_powers_beside_integers_are_told_from_them() -> None:
    """√(2^61·(2^61 + 2)) is below 2^61 + 1 by less than 10^-18."""
    low, high = 2**61, 2**61 + 2

    assert ceilings(low, high, 2).tolist() == [2**61 + 1]
    assert floors(low, high, 2, high).tolist() == [2**61, 2**61]


def test_no_steps_have_no_edges() -> None:
    assert floors(1, 5, 0, 100).tolist() == []


def test_edges_reach_as_far_as_positions() -> None:
    edges = floors(128, 511, 127, 2**63)

    assert 2**62 < edges[-1] < 2**63 - 1
    assert all(before <= after for before, after in pairwise(edges.tolist()))


def test_edges_are_the_same_from_a_bare_thread() -> None:
    """The decimal context belongs to the thread, and a new one has 28 digits."""
    found = []
    thread = Thread(target=lambda: found.append(ceilings.__wrapped__(2048, 2**62, 2048)))
    thread.start()
    thread.join()

    assert np.array_equal(found[0], ceilings(2048, 2**62, 2048))
    assert found[0].dtype == np.int64
