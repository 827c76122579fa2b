"""The exactness tests of grids and real positions can fail: plausible mistakes, each caught."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import log, tau
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest

from service.encodings.absolute import fourier as random_fourier
from service.encodings.absolute import timesteps
from service.encodings.absolute.timesteps import TimestepFrequencies
from service.encodings.grid import mask as masked_grid
from service.encodings.grid import sincos as sincos_grid
from service.encodings.grid.grid_conventions import normalized_unit
from service.encodings.grid.sincos import Along
from service.lru import ByteBoundedLRU
from service.numerics import phasors as factors
from service.numerics import phasors as real_positions
from service.numerics import positions
from service.numerics.phase import (
    Decimals,
    Float64s,
    FrequencyRule,
    Geometric,
    Int64s,
    ScaledFrequencies,
    SineCosine,
)
from tests.encodings.absolute import test_fourier as test_boxes
from tests.encodings.absolute import test_fourier as test_random_fourier
from tests.encodings.absolute import test_timesteps
from tests.encodings.grid import test_mask as test_masked_grid
from tests.encodings.grid import test_sincos as test_sincos_grid
from tests.numerics import test_real_positions
from tests.numerics.mutants import check_examples

pytestmark = pytest.mark.full

Promise: TypeAlias = Callable[[], None]


@pytest.fixture(autouse=True)
def fresh_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no mutant see frequencies of the real kernel, nor leave its own behind."""
    monkeypatch.setattr(factors.Phasors, "cache", ByteBoundedLRU(2**26))
    monkeypatch.setattr(factors.Frequencies, "cache", ByteBoundedLRU(2**20))


def grids_are_exact() -> None:
    test_sincos_grid.test_channels_are_the_formula_of_their_block()


def coordinates_are_exact() -> None:
    for length in (50, 2**31, 2**60 + 1):
        test_sincos_grid.test_a_coordinate_is_the_float64_nearest_to_it(length)


def masked_grids_are_exact() -> None:
    promise: Any = test_masked_grid.test_positions_count_the_valid_pixels_of_columns_and_rows
    for rule in (test_masked_grid.PLAIN, test_masked_grid.NORMALIZED, test_masked_grid.SCALED):
        promise(rule)


def real_positions_are_exact() -> None:
    promise = test_real_positions.test_values_are_within_their_bound_however_small
    check_examples(promise, *((value, 100.0) for value in (0.1, -1e-20, 17.3, 98765.4, 1e12 + 0.1)))


def timesteps_are_exact() -> None:
    promise = test_timesteps.test_values_are_those_of_the_formula
    check_examples(promise, *((9.99, d_model, 1.0, 123.4, 1e4, True) for d_model in (5, 16, 30)))


def boxes_are_exact() -> None:
    promise = test_boxes.test_each_frequency_has_the_sines_of_a_box_and_then_the_cosines
    check_examples(promise, *(([0.1, 0.7, 0.3, 0.9], count, 100.0) for count in (3, 8)))


def products_are_exact() -> None:
    numbers, weight = [0.3, -17.1, 1e10 + 0.1], [16.3, 0.1, -1e6]
    check_examples(test_random_fourier.test_products_are_exact, (numbers, weight))
    check_examples(
        test_random_fourier.test_products_of_logarithms_are_exact, ([0.002, 80.0, 1.5], weight)
    )


@pytest.mark.parametrize(
    "promise",
    [
        grids_are_exact,
        coordinates_are_exact,
        masked_grids_are_exact,
        real_positions_are_exact,
        timesteps_are_exact,
        boxes_are_exact,
        products_are_exact,
    ],
)
def test_promises_hold_without_a_mutant(promise: Promise) -> None:
    promise()


def float32_unit(rule: FrequencyRule, unit: Fraction) -> ScaledFrequencies:
    return ScaledFrequencies(rule, Fraction(float(np.float32(float(unit)))))


def float32_coordinates(self: Along, positions: Int64s) -> Float64s:
    return np.asarray((positions * float(self.unit)).astype(np.float32), dtype=np.float64)


def float64_coordinates(self: Along, positions: Int64s) -> Float64s:
    return np.asarray(positions * float(self.unit), dtype=np.float64)


def float64_quotients(last: int, scale: float | None) -> Fraction:
    return Fraction(float(normalized_unit(last, scale)))


def no_epsilon(last: int, scale: float | None) -> Fraction:
    return Fraction(1 if scale is None else scale) / max(last, 1)


def plain_sines(rule: FrequencyRule, exponents: Int64s, integers: Int64s) -> SineCosine:
    frequencies = np.array([float(frequency) for frequency in rule.exact()])
    angles = np.ldexp(integers.astype(np.float64), exponents)[:, np.newaxis] * frequencies
    return np.sin(angles), np.cos(angles)


def exponentials_of_timesteps(self: TimestepFrequencies) -> Decimals:
    exponents = np.arange(self.count) / (self.count - self.shift)
    return list(map(Decimal, np.exp(-log(self.max_period) * exponents).tolist()))


def float64_powers(self: Geometric) -> Decimals:
    powers = self.base ** (-2 * np.arange(self.count) / self.dim)
    return list(map(Decimal, powers.tolist()))


def plain_logarithms() -> SimpleNamespace:
    return SimpleNamespace(ln=lambda number: Decimal(log(number)))


def float64_radians(numbers: Decimals, exponent: int) -> Decimals:
    return [abs(Decimal(float(number) * tau * 2.0**exponent)) for number in numbers]


@pytest.mark.parametrize(
    ("owner", "name", "mutant", "promise"),
    [
        (sincos_grid, "ScaledFrequencies", float32_unit, grids_are_exact),
        (Along, "_coordinates", float32_coordinates, coordinates_are_exact),
        (Along, "_coordinates", float64_coordinates, coordinates_are_exact),
        (masked_grid, "normalized_unit", float64_quotients, masked_grids_are_exact),
        (masked_grid, "normalized_unit", no_epsilon, masked_grids_are_exact),
        (timesteps, "ScaledFrequencies", float32_unit, timesteps_are_exact),
        (real_positions, "of_units", plain_sines, real_positions_are_exact),
        (real_positions, "of_units", plain_sines, timesteps_are_exact),
        (TimestepFrequencies, "exact", exponentials_of_timesteps, timesteps_are_exact),
        (Geometric, "exact", float64_powers, boxes_are_exact),
        (random_fourier, "exact_context", plain_logarithms, products_are_exact),
        (random_fourier, "_radians", float64_radians, products_are_exact),
    ],
)
def test_mutants_are_caught(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, mutant: Any, promise: Promise
) -> None:
    monkeypatch.setattr(owner, name, mutant)

    with pytest.raises(AssertionError):
        promise()


def test_positions_of_float32_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    exactly = positions.split_units

    def shortly(values: Float64s) -> tuple[Int64s, Int64s]:
        return exactly(values.astype(np.float32).astype(np.float64))

    monkeypatch.setattr(real_positions, "split_units", shortly)

    with pytest.raises(AssertionError):
        real_positions_are_exact()
