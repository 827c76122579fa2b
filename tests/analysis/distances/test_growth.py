import numpy as np
import pytest

from service.analysis.distances.growth import (
    Grown,
    inner_factor,
    logarithm,
    logarithm_of_power,
    power,
)

LENGTHS = np.arange(1.0, 30.0)


@pytest.mark.parametrize("inner", [0.02, 0.3, 1.0, 7.0, 400.0])
def test_the_factor_in_a_logarithm_follows_from_a_ratio(inner: float) -> None:
    found = inner_factor(LENGTHS, 3 * np.log1p(inner * LENGTHS))

    assert found == pytest.approx(inner, rel=1e-9)


def test_a_straight_line_has_no_factor() -> None:
    assert inner_factor(LENGTHS, 3 * LENGTHS) is None
    assert inner_factor(LENGTHS, np.full_like(LENGTHS, 3)) is None


@pytest.mark.parametrize("inner", [0.02, 1.3, 40.0])
def test_a_logarithm_is_fitted_through_the_rounding_of_sizes(inner: float) -> None:
    sizes = (0.7 * np.log1p(inner * LENGTHS)).astype(np.float32).astype(np.float64)

    found = logarithm(LENGTHS, sizes)

    assert found is not None
    assert found.outer == pytest.approx(0.7, rel=1e-4)
    assert found.inner == pytest.approx(inner, rel=1e-4)
    assert found.error(LENGTHS, sizes) < 2.0**-23


def test_a_power_is_a_straight_line_of_logarithms() -> None:
    found = power(LENGTHS, 0.4 * LENGTHS**1.7)

    assert found.outer == pytest.approx(0.4)
    assert found.exponent == pytest.approx(1.7)


@pytest.mark.parametrize(("inner", "exponent"), [(0.5, 1.3), (0.7, 0.6), (2.0, 1.9)])
def test_three_numbers_are_fitted_together(inner: float, exponent: float) -> None:
    sizes = 0.3 * np.log1p(inner * LENGTHS**exponent)

    found = logarithm_of_power(LENGTHS, sizes)

    assert found.error(LENGTHS, sizes) < 1e-9
    assert found.exponent == pytest.approx(exponent, rel=1e-6)


def test_an_error_is_a_share_of_what_may_be_lost() -> None:
    fit = Grown(2.0, 0.01, 1.0)
    sizes = 2.0 * np.log((1 + (0.01 * LENGTHS).astype(np.float32)).astype(np.float64))

    assert fit.error(LENGTHS, sizes) < 2.0**-22
    assert fit.error(LENGTHS, 1.001 * sizes) > 2.0**-22
