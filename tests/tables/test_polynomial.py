"""Polynomials, one rounded operation after the other."""

import numpy as np

from service.tables.polynomial import horner


def test_the_coefficient_of_the_highest_power_comes_first() -> None:
    x = np.array([[0.0, 1.0], [-2.0, 0.5]])

    assert (horner([3.0, -1.0, 2.0], x) == 3 * x * x - x + 2).all()
    assert (horner([3.0, -1.0], x) == 3 * x - 1).all()


def test_every_product_and_every_sum_is_rounded_by_itself() -> None:
    x = 1.0 + 2.0**-30

    (value,) = horner([1.0, 0.0, -1.0], np.array([x]))

    assert value == x * x - 1.0 != 2.0**-29 + 2.0**-60


def test_what_is_given_is_left_as_it_is() -> None:
    x = np.array([1.0, 2.0])

    horner([1.0, 1.0, 1.0], x)

    assert x.tolist() == [1.0, 2.0]
