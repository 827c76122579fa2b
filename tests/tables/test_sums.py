"""Sums in a fixed order."""

from fractions import Fraction

import numpy as np
import pytest

from service.tables.sums import sum_of_halves


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 1000])
def test_a_sum_is_within_a_rounding_for_each_halving(count: int) -> None:
    terms = np.random.default_rng(1).random((5, count))

    got = sum_of_halves(terms)

    limit = Fraction(2 * (count - 1).bit_length(), 2**53)
    for row, total in zip(terms.tolist(), got.tolist(), strict=True):
        exact = sum(map(Fraction, row))
        assert abs(Fraction(total) - exact) <= limit * exact


def test_a_row_has_the_same_sum_in_any_company() -> None:
    terms = np.random.default_rng(2).random((50, 37))

    assert sum_of_halves(terms)[7] == sum_of_halves(terms[7:8].copy())[0]


def test_the_terms_are_left_as_they_are() -> None:
    terms = np.ones((2, 5))

    assert sum_of_halves(terms).tolist() == [5.0, 5.0]
    assert (terms == 1).all()
