"""Frequencies that were measured."""

import numpy as np
import pytest

from service.analysis.rotary.rules_measured import (
    Measured,
    between,
    factors_of,
    frequencies,
    kept_bases,
    last_share,
    unscaled,
)
from service.tables.rope_rules import Default, Linear
from tests.analysis.rotary_tables import measured


def test_frequencies_agree_with_their_own_rule_alone() -> None:
    of_10000 = measured("/rope/frequencies?head_dim=64")

    assert of_10000.agrees(Default(64, 10000.0))
    assert not of_10000.agrees(Default(64, 10001.0))
    assert not of_10000.agrees(Linear(64, 10000.0, 2.0))


def test_a_scale_is_held_against_that_of_the_rule() -> None:
    omega = unscaled(10000.0, 4)

    scaled = Measured(omega, omega * 1e-7, 1.25, 1e-7)

    assert scaled.is_scaled
    assert not scaled.agrees(Default(8, 10000.0))


def test_the_frequencies_of_a_rule_are_the_nearest_numbers() -> None:
    assert frequencies(Default(4, 10000.0)).tolist() == [1.0, 0.01]


def test_fast_frequencies_that_are_kept_say_the_base() -> None:
    omega = unscaled(500000.0, 64)
    omega[40:] /= 8

    assert kept_bases(Measured(omega, omega * 1e-7))[0] == 500000.0


def test_slow_frequencies_say_what_they_are_divided_by() -> None:
    share = np.array([1.0, 0.9, 0.5, 0.125, 0.125, 0.125])

    assert next(factors_of(share, np.full(6, 1e-6))) == 8.0
    assert last_share(share, np.full(6, 1e-6)) == pytest.approx((0.125, 1e-6))


def test_lost_frequencies_say_no_factor() -> None:
    assert last_share(np.ones(3), np.ones(3)) is None
    assert not list(factors_of(np.ones(3), np.ones(3)))


def test_between_two_numbers_a_power_of_two_comes_first() -> None:
    assert between(3900.0, 4300.0)[0] == 4096.0
    assert between(9000.0, 11000.0)[0] == 10000.0
