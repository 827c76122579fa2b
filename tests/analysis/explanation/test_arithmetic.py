"""Each way to compute a table is named, within a bound that refuses what is not computed so."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from service.analysis.explanation import arithmetic
from service.analysis.explanation.arithmetic import (
    NARROW_PARTS,
    Fit,
    Narrowing,
    Waves,
    fit_of,
    is_possible,
    mismatches,
)
from service.analysis.explanation.formulas import Rule, Series
from service.analysis.explanation.sampling import sampled_rows
from service.analysis.explanation.views import View
from service.analysis.precision import rounded
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s
from tests.analysis.turning import DTYPES

Reals: TypeAlias = NDArray[np.floating[Any]]
FLOAT = np.float32

NEAR = np.arange(256.0)
FAR = sampled_rows(131072).astype(np.float64)
ROWS = {"near": NEAR, "far": FAR}
BASES = (10000.0, 500000.0)


def _exponents(width: int) -> Reals:
    exponents: Reals = np.arange(0, width, 2, dtype=FLOAT) / FLOAT(width)
    return exponents


def _products(positions: Float64s, omega: Reals) -> Reals:
    angles: Reals = positions.astype(FLOAT)[:, None] * omega
    return angles


def by_power(positions: Float64s, base: float, width: int) -> Reals:
    """1/b**e: transformers, vLLM."""
    return _products(positions, FLOAT(1) / np.power(FLOAT(base), _exponents(width)))


def by_exponential(positions: Float64s, base: float, width: int) -> Reals:
    """exp(2k·(−ln b/d)): the sinusoids of tutorials."""
    omega = np.exp(np.arange(0, width, 2, dtype=FLOAT) * FLOAT(-np.log(base) / width))
    return _products(positions, omega)


def by_power_of_two(positions: Float64s, base: float, width: int) -> Reals:
    """exp2(−e·log2 b): MLX."""
    omega = np.exp2(-_exponents(width) * FLOAT(np.log2(base)))
    return _products(positions, omega)


def by_products(positions: Float64s, base: float, width: int) -> Reals:
    """θ·q, again and again: ggml."""
    ratio = np.power(FLOAT(base), FLOAT(-2 / width))
    angle = positions.astype(FLOAT)
    columns = []
    for _ in range(width // 2):
        columns.append(angle)
        angle = angle * ratio
    return np.stack(columns, axis=1)


def by_division(positions: Float64s, base: float, width: int) -> Reals:
    """p/b**e: JAX, MaxText."""
    angles: Reals = positions.astype(FLOAT)[:, None] / np.power(FLOAT(base), _exponents(width))
    return angles


def by_float64(positions: Float64s, base: float, width: int) -> Reals:
    """Everything in float64: NumPy."""
    angles: Float64s = np.outer(positions, base ** (-np.arange(0, width, 2) / width))
    return angles


ENGINES: Mapping[str, Callable[[Float64s, float, int], Reals]] = {
    "power": by_power,
    "exponential": by_exponential,
    "power of two": by_power_of_two,
    "products": by_products,
    "division": by_division,
    "float64": by_float64,
}
# In a narrow type nothing finer than float32 can be told apart.
FINE: Mapping[str, set[str]] = {
    "power": {"float32"},
    "exponential": {"float32"},
    "power of two": {"float32"},
    "products": {"iterated"},
    "division": {"float32-steps"},
    "float64": {"exact"},
}
COARSE = {"exact", "float32"}


def view_of(angles: Reals, dtype: DType, scale: float = 1.0) -> View:
    """Return cosines and sines in the type of the angles, then rounded to another."""
    cosine, sine = np.cos(angles) * angles.dtype.type(scale), np.sin(angles)
    sine = sine * angles.dtype.type(scale)
    cosine, sine = (rounded(each.astype(np.float64), dtype) for each in (cosine, sine))
    return View(cosine, sine, dtype, "compact")


def waves_of(positions: Any, base: float, width: int, scale: float = 1.0) -> Waves:
    series = Series(base, np.arange(0, width, 2) / width, width)
    return Waves(series.omega, positions[:, None], scale, series)


def name_of(fit: Fit | None) -> str | None:
    return None if fit is None else fit.arithmetic.name


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_way_to_compute_a_float32_table_is_named(engine: str, rows: str, base: float) -> None:
    view = view_of(ENGINES[engine](ROWS[rows], base, 64), FLOAT32)

    assert name_of(fit_of(view, waves_of(ROWS[rows], base, 64), FLOAT32)) in FINE[engine]


@pytest.mark.parametrize("scale", [1.0, 1.2079441541679836])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_is_within_the_bounds_up_to_position_131071(
    engine: str, dtype: str, scale: float
) -> None:
    for base, width in product((100.0, *BASES, 1e10), (2, 16, 128, 256)):
        view = view_of(ENGINES[engine](FAR, base, width), DTYPES[dtype], scale)
        waves = waves_of(FAR, base, width, scale)

        assert not any(bad.any() for bad in mismatches(view, waves, DTYPES[dtype]))
        fit = fit_of(view, waves, DTYPES[dtype])
        assert fit is not None
        assert not any(bad.any() for bad in fit.mismatches(view, waves, DTYPES[dtype]))
        assert is_possible(view.at(slice(16)), waves.at(slice(16)), DTYPES[dtype])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_fit_gives_is_nearly_given_in_float32(engine: str, dtype: str) -> None:
    view = view_of(ENGINES[engine](FAR, 500000.0, 64), DTYPES[dtype])
    waves = waves_of(FAR, 500000.0, 64)
    fit = fit_of(view, waves, DTYPES[dtype])
    assert fit is not None
    cosine, sine = (each.astype(FLOAT) for each in view.parts)

    assert fit.nearly(replace(view, cosine=cosine, sine=sine), waves, DTYPES[dtype])
    far = replace(view, cosine=cosine, sine=sine + FLOAT(0.13) * (np.arange(32) == 3))
    assert not fit.nearly(far, waves, DTYPES[dtype])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("engine", [each for each in ENGINES if each != "products"])
def test_a_narrow_table_of_any_engine_was_made_exactly_or_in_float32(
    engine: str, dtype: str
) -> None:
    view = view_of(ENGINES[engine](FAR, 10000.0, 64), DTYPES[dtype])

    assert name_of(fit_of(view, waves_of(FAR, 10000.0, 64), DTYPES[dtype])) in COARSE


@pytest.mark.parametrize(
    ("engine", "name"),
    [("float64", {"exact", "float64"}), ("power", {"float32"}), ("products", {"iterated"})],
)
def test_numbers_of_float64_show_the_type_of_their_angles(engine: str, name: set[str]) -> None:
    angles = ENGINES[engine](NEAR, 10000.0, 64).astype(np.float64)

    assert name_of(fit_of(view_of(angles, FLOAT64), waves_of(NEAR, 10000.0, 64), FLOAT64)) in name


def test_a_fit_knows_the_frequencies_and_the_ratio_of_the_engine() -> None:
    base, width = 500000.0, 64
    powers, products = (
        fit_of(
            view_of(ENGINES[each](FAR, base, width), FLOAT32), waves_of(FAR, base, width), FLOAT32
        )
        for each in ("power", "products")
    )

    assert powers is not None
    assert powers.omega is not None
    np.testing.assert_array_equal(powers.omega, by_power(np.ones(1), base, width)[0])
    assert products is not None
    assert products.step is not None
    assert products.step.by == np.power(FLOAT(base), FLOAT(-2 / width))


@pytest.mark.parametrize("engine", ["power", "products", "division"])
def test_a_rule_is_applied_after_the_power(engine: str) -> None:
    waves = waves_of(FAR, 10000.0, 64)
    assert waves.series is not None
    rule = Rule("linear", {"factor": 8.0})
    scaled = replace(waves, omega=rule.frequencies(waves.series))

    view = view_of(ENGINES[engine](FAR, 10000.0, 64) / FLOAT(8), FLOAT32)

    assert name_of(fit_of(view, scaled, FLOAT32)) in FINE[engine]


def narrowed(positions: Float64s, part: str, dtype: DType) -> View:
    """Return a table in whose computation a part is rounded to a type."""
    is_all = part == "throughout"
    omega = (FLOAT(1) / np.power(FLOAT(10000), _exponents(64))).astype(np.float64)
    if part == "positions" or is_all:
        positions = rounded(positions, dtype)
    if part == "frequencies" or is_all:
        omega = rounded(omega, dtype)
    angles = positions.astype(FLOAT)[:, None] * omega.astype(FLOAT)
    if part == "angles" or is_all:
        angles = rounded(angles.astype(np.float64), dtype).astype(FLOAT)
    return view_of(angles, dtype if is_all else FLOAT32)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("part", NARROW_PARTS)
def test_what_was_narrow_is_named_and_no_other_part_fits(part: str, dtype: DType) -> None:
    positions = np.arange(3000.0)
    view = narrowed(positions, part, dtype)
    waves = waves_of(positions, 10000.0, 64)

    fitting = [
        each
        for each in NARROW_PARTS
        if fit_of(view, replace(waves, narrowing=Narrowing(dtype, each)), view.dtype)
    ]

    assert fitting == [part]
    assert fit_of(view, waves, view.dtype) is None
    fit = fit_of(view, replace(waves, narrowing=Narrowing(dtype, part)), view.dtype)
    assert name_of(fit) == f"{dtype.name}-{part}"


def test_narrow_positions_that_are_exact_are_not_narrow() -> None:
    view = view_of(by_power(NEAR, 10000.0, 64), FLOAT32)

    for part in ("positions", "angles"):
        narrow = replace(waves_of(NEAR, 10000.0, 64), narrowing=Narrowing(BFLOAT16, part))
        assert fit_of(view, narrow, FLOAT32) is None


def test_angles_that_overflow_a_narrow_type_fit_nothing() -> None:
    positions = np.array([0.0, 70000.0])
    narrow = replace(waves_of(positions, 100.0, 4), narrowing=Narrowing(FLOAT16, "positions"))
    with np.errstate(invalid="ignore", over="ignore"):
        found = fit_of(view_of(by_power(positions, 100.0, 4), FLOAT32), narrow, FLOAT32)

    assert found is None


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pair", range(0, 13, 3))
@pytest.mark.parametrize("sign", [1, -1])
def test_a_frequency_that_is_off_by_two_to_the_minus_18_is_refused(
    engine: str, pair: int, sign: int
) -> None:
    angles = ENGINES[engine](FAR, 10000.0, 32).astype(np.float64)
    angles[:, pair] *= 1 + sign * 2.0**-18

    assert (
        fit_of(view_of(angles.astype(FLOAT), FLOAT32), waves_of(FAR, 10000.0, 32), FLOAT32) is None
    )


@pytest.mark.parametrize("pair", [0, 7, 31, 63])
def test_a_frequency_that_is_off_by_more_than_any_power_is_refused(pair: int) -> None:
    angles = by_power(FAR, 500000.0, 128).astype(np.float64)
    angles[:, pair] *= 1 + 2.0**-16

    assert fit_of(view_of(angles, FLOAT32), waves_of(FAR, 500000.0, 128), FLOAT32) is None


@pytest.mark.parametrize("row", [1, 100, 255])
@pytest.mark.parametrize("part", ["cosine", "sine"])
def test_a_single_number_that_is_off_by_a_few_steps_is_refused(part: str, row: int) -> None:
    view, waves = view_of(by_power(NEAR, 10000.0, 64), FLOAT32), waves_of(NEAR, 10000.0, 64)

    def moved_by(error: float) -> View:
        cosine, sine = (each.copy() for each in view.parts)
        (cosine if part == "cosine" else sine)[row, 5] += error
        return replace(view, cosine=cosine, sine=sine)

    # Repeated multiplication leaves far angles a little room.
    little = name_of(fit_of(moved_by(2.0**-19), waves, FLOAT32))
    assert little in {None, "float32-steps", "iterated"}
    assert fit_of(moved_by(1e-3), waves, FLOAT32) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("farthest", [2.0**22, 2.0**30, 2.0**52])
def test_nothing_is_accepted_because_angles_are_far(farthest: float, dtype: str) -> None:
    positions = farthest + np.arange(64)
    waves = waves_of(positions, 10000.0, 64)
    noise = np.random.default_rng(1).uniform(0, 6, waves.far.shape)

    assert fit_of(view_of(noise, DTYPES[dtype]), waves, DTYPES[dtype]) is None
    for part in NARROW_PARTS:
        narrow = replace(waves, narrowing=Narrowing(BFLOAT16, part))
        assert fit_of(view_of(noise, DTYPES[dtype]), narrow, DTYPES[dtype]) is None


def test_an_error_of_a_sine_is_never_more_than_an_eighth_of_the_scale() -> None:
    waves = waves_of(np.array([2.0**60]), 10000.0, 8, scale=3.0)

    assert waves.loss(waves.far).max() == 3 / 8


def test_the_factor_is_part_of_the_prediction() -> None:
    view = view_of(by_power(NEAR, 10000.0, 64), FLOAT32, scale=1.0)

    assert fit_of(view, waves_of(NEAR, 10000.0, 64, scale=1 + 1e-5), FLOAT32) is None


def test_cosines_alone_and_sines_alone_are_compared() -> None:
    view = view_of(by_power(NEAR, 10000.0, 64), FLOAT32)
    waves = waves_of(NEAR, 10000.0, 64)

    for alone in (replace(view, sine=None), replace(view, cosine=None)):
        assert fit_of(alone, waves, FLOAT32) is not None
        assert fit_of(alone, waves_of(NEAR + 1, 10000.0, 64), FLOAT32) is None


@pytest.mark.parametrize("decimals", [2, 4])
def test_printed_numbers_are_within_half_of_their_last_decimal(decimals: int) -> None:
    view = view_of(by_power(NEAR, 10000.0, 64), FLOAT64)
    cosine, sine = (np.round(each, decimals) for each in view.parts)
    printed = replace(view, cosine=cosine, sine=sine, slack=0.5 * 10.0**-decimals)
    waves = waves_of(NEAR, 10000.0, 64)

    assert fit_of(printed, waves, FLOAT32) is not None
    assert fit_of(replace(printed, slack=0.4 * 10.0**-decimals), waves, FLOAT32) is None


def test_every_arithmetic_has_a_description() -> None:
    known = [each for each in vars(arithmetic).values() if isinstance(each, arithmetic.Arithmetic)]
    narrow = [Narrowing(BFLOAT16, part).arithmetic for part in NARROW_PARTS]

    assert len(known) == 5
    assert all(each.description for each in (*known, *narrow))
    assert len({each.name for each in (*known, *narrow)}) == 9


# Bounds that are changed on purpose: the tests above can fail.


def test_with_a_bound_that_is_too_tight_an_engine_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, waves = view_of(by_division(FAR, 500000.0, 64), FLOAT32), waves_of(FAR, 500000.0, 64)
    assert fit_of(view, waves, FLOAT32) is not None

    monkeypatch.setattr(arithmetic, "UNIT", 2.0**-28)

    assert fit_of(view, waves, FLOAT32) is None


def test_with_a_bound_that_is_too_loose_a_wrong_frequency_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    angles = by_power(FAR, 10000.0, 32).astype(np.float64)
    angles[:, 6] *= 1 + 2.0**-18
    view = view_of(angles.astype(FLOAT), FLOAT32)
    assert fit_of(view, waves_of(FAR, 10000.0, 32), FLOAT32) is None

    monkeypatch.setattr(arithmetic, "UNIT", 2.0**-22)

    assert fit_of(view, waves_of(FAR, 10000.0, 32), FLOAT32) is not None


def test_with_half_steps_that_are_too_small_a_rounded_table_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, waves = view_of(by_float64(NEAR, 10000.0, 64), BFLOAT16), waves_of(NEAR, 10000.0, 64)
    assert fit_of(view, waves, BFLOAT16) is not None

    with monkeypatch.context() as patch:
        patch.setattr(arithmetic, "step_bound", lambda values, _: np.abs(values) * 2.0**-10)
        assert fit_of(view, waves, BFLOAT16) is None


def test_with_half_steps_that_are_too_large_another_base_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, waves = view_of(by_float64(NEAR, 10010.0, 64), FLOAT32), waves_of(NEAR, 10000.0, 64)
    assert fit_of(view, waves, FLOAT32) is None

    monkeypatch.setattr(arithmetic, "step_bound", lambda values, _: np.full(values.shape, 0.25))

    assert fit_of(view, waves, FLOAT32) is not None


def test_without_the_cap_noise_at_far_positions_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    positions = 2.0**40 + np.arange(8)
    waves = waves_of(positions, 1.5, 4)
    view = view_of(np.random.default_rng(1).uniform(0, 6, waves.far.shape), FLOAT32)
    assert fit_of(view, waves, FLOAT32) is None

    monkeypatch.setattr(arithmetic, "_MOST_LOOSE", np.inf)

    assert fit_of(view, waves, FLOAT32) is not None
