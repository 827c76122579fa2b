"""The cosines and sines that were used, by how they differ from those wanted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from service.analysis.applied.spin import Spin, Target, ahead_of, rounded
from service.tables.dtypes import BFLOAT16, FLOAT16
from tests.analysis.rotating import Engine

WANT = Engine(16, factor=1.2)
ROWS = np.arange(40)
TARGET = Target.of(*WANT.tables(40))
SPINS: dict[str, tuple[Spin, dict[str, Any]]] = {
    "none": (Spin(), {}),
    "inverse": (Spin(is_inverse=True), {"turns": -1.0}),
    "twice": (Spin(times=2), {"turns": 2.0}),
    "exchanged": (Spin(is_exchanged=True), {"is_swapped": True}),
    "later": (Spin(ahead=3.0), {"start": 3}),
    "reversed": (Spin(rows=ROWS[::-1]), {"positions": "reversed"}),
    "base": (Spin(omega=Engine(16, base=500.0).frequencies()), {"base": 500.0}),
    "no factor": (Spin(powers=(0, 0)), {"factor": 1.0}),
    "one-sided": (Spin(powers=(1, 0)), {"sine_factor": 1.0}),
    "factor": (Spin(factor=1.5), {"factor": 1.8}),
}


@pytest.mark.parametrize("name", SPINS)
def test_cosines_and_sines_are_those_of_an_engine_that_does_so(name: str) -> None:
    spin, changes = SPINS[name]

    made = spin.cosines_and_sines(TARGET, ROWS)

    for ours, theirs in zip(made, WANT.having(**changes).tables(40), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-13)


@pytest.mark.parametrize("name", [name for name in SPINS if name != "twice"])
def test_what_was_done_is_undone(name: str) -> None:
    spin, _ = SPINS[name]
    cosine, sine = replace(spin, factor=1.0).cosines_and_sines(TARGET, ROWS)

    undone = spin.undone(cosine + 1j * sine, TARGET, ROWS)

    np.testing.assert_allclose(undone, spin.unit(TARGET, ROWS), atol=1e-13)


def test_frequencies_and_positions_are_measured_on_the_table() -> None:
    far = Target.of(*WANT.having(start=900).tables(40))

    assert far.omega is not None
    np.testing.assert_allclose(far.omega, WANT.frequencies(), atol=1e-14)
    np.testing.assert_array_equal(far.positions, ROWS + 900)
    np.testing.assert_allclose(far.size, 1.2)
    assert far.position(5) == 905


def test_angles_that_are_no_multiples_of_positions_have_no_frequencies() -> None:
    angles = np.random.default_rng(0).uniform(-3, 3, (20, 4))

    target = Target.of(np.cos(angles), np.sin(angles))

    assert target.omega is None
    assert target.position(3) is None


def test_one_row_alone_has_no_frequencies_unless_they_are_known() -> None:
    tables = WANT.having(start=9).tables(1)

    assert Target.of(*tables).omega is None
    assert Target.of(*tables, np.array([9.0]), WANT.frequencies()).position(0) == 9


@pytest.mark.parametrize("steps", [1, -1, 77, -3000, 9000])
def test_a_number_of_steps_is_found_from_the_slowest_frequency_to_the_fastest(steps: int) -> None:
    omega = Engine(64).frequencies()
    noise = np.exp(1j * np.random.default_rng(0).uniform(-0.003, 0.003, 32))

    found = ahead_of(np.exp(1j * steps * omega) * noise, np.ones(32), omega)

    assert found == steps


def test_no_steps_are_found_without_anything_that_turns() -> None:
    assert ahead_of(np.ones(3, complex), np.ones(3), np.zeros(3)) is None


def test_numbers_are_rounded_to_narrow_types() -> None:
    numbers = np.array([1.0, 257.0, 1e6])

    np.testing.assert_array_equal(rounded(numbers, BFLOAT16)[:2], [1, 256])
    np.testing.assert_array_equal(rounded(numbers, FLOAT16), [1, 257, np.inf])
