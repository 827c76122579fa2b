"""The simulation's consistent hash ring."""

import numpy as np
import pytest

from benchmarks.scaling.ring import replicas_of

URLS = [f"/encoding.npy?seq_len={number}&d_model=512" for number in range(20_000)]


def servers(number: int) -> list[str]:
    return [f"10.0.0.{each}:8000" for each in range(1, number + 1)]


@pytest.mark.parametrize("number", [1, 2, 7, 64])
def test_replicas_have_about_equal_shares_of_urls(number: int) -> None:
    counts = np.bincount(replicas_of(URLS, servers(number)), minlength=number)

    assert counts.sum() == len(URLS)
    assert counts.min() > len(URLS) / number / 2
    assert counts.max() < len(URLS) / number * 2


def test_added_replica_moves_urls_to_itself_only() -> None:
    before, after = (replicas_of(URLS, servers(number)) for number in (7, 8))

    moved = after[before != after]
    assert set(moved.tolist()) == {7}
    assert len(moved) / len(URLS) == pytest.approx(1 / 8, abs=0.03)


def test_ring_does_not_depend_on_the_order_of_servers() -> None:
    addresses = servers(5)
    forward, backward = replicas_of(URLS, addresses), replicas_of(URLS, addresses[::-1])

    assert np.array_equal(forward, 4 - backward)
