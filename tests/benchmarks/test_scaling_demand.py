"""The demand of the simulation."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.scaling.demand import Catalogue, asked_before

CATALOGUE = Catalogue(1000, 0.9, (100, 1000), (0.75, 0.25), target="/{}.npy")


def test_requests_follow_zipfs_law() -> None:
    drawn = np.bincount(CATALOGUE.requests(200_000), minlength=1000)

    assert CATALOGUE.shares.sum() == pytest.approx(1)
    assert CATALOGUE.shares[0] / CATALOGUE.shares[99] == pytest.approx(100**0.9)
    assert drawn[:10] / 200_000 == pytest.approx(CATALOGUE.shares[:10], rel=0.1)


def test_requests_are_reproducible() -> None:
    few, many = CATALOGUE.requests(100), CATALOGUE.requests(1000)

    assert np.array_equal(few, many[:100])
    assert not np.array_equal(many, CATALOGUE.requests(1000, stream=1))
    assert not np.array_equal(many, replace(CATALOGUE, seed=2).requests(1000))


def test_sizes_have_their_shares() -> None:
    assert set(CATALOGUE.url_bytes.tolist()) == {100, 1000}
    assert (CATALOGUE.url_bytes == 100).mean() == pytest.approx(0.75, abs=0.05)


def test_url_depends_on_its_number() -> None:
    assert CATALOGUE.spelled()[17] == "/17.npy"


def test_popular_urls_were_requested_recently() -> None:
    order = asked_before(CATALOGUE, np.arange(1000), 0, CATALOGUE.shares)

    assert sorted(order.tolist()) == list(range(1000))
    assert order[-100:].mean() < order[:100].mean()
