"""The exactness tests can fail: plausible mistakes in the kernel, each caught."""

from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from inspect import unwrap
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from service.encodings.rotary import rules
from service.encodings.rotary.rules import Yarn
from service.lru import ByteBoundedLRU
from service.numerics import axes, dtypes, evaluation, phase, phasors
from service.numerics.axes import Float32s
from service.numerics.phase import Decimals, FixedPointFrequencies, Float64s, Int64s
from service.numerics.phasors import BLOCK_LENGTH, BlockSpan
from service.numerics.positions import Positions
from service.numerics.tables import size
from tests.encodings.absolute import test_sinusoidal
from tests.encodings.rotary import test_rules
from tests.numerics import test_axes, test_dtypes, test_frequencies, test_phase, test_phasors
from tests.numerics.mutants import check_examples

pytestmark = pytest.mark.full

fixed_point = phase.fixed_point


@pytest.fixture(autouse=True)
def fresh_setups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no mutant see phasors of the real kernel, nor leave its own behind."""
    monkeypatch.setattr(phasors.Phasors, "cache", ByteBoundedLRU(2**26))
    monkeypatch.setattr(phasors.Frequencies, "cache", ByteBoundedLRU(2**20))


# What fails here is meant to: no smaller example of it is looked for.
@settings(max_examples=120, phases=[Phase.explicit, Phase.generate])
@given(**test_sinusoidal.SPECS)
def exactness_of_the_encoding(d_model: int, base: float, positions: list[int], layout: str) -> None:
    test_sinusoidal.check_exactness(d_model, base, positions, layout)


def test_without_a_mutant_the_encoding_is_exact() -> None:
    exactness_of_the_encoding()


def plain_sines(frequencies: FixedPointFrequencies, positions: Int64s) -> tuple[Float64s, Float64s]:
    turns = (frequencies.high * 2.0**-64 + frequencies.low * 2.0**-128) * frequencies.unit
    angles = positions[:, np.newaxis] * (turns * 2 * np.pi)
    return np.sin(angles), np.cos(angles)


def frequencies_of_64_bits(frequencies: list[Decimal]) -> FixedPointFrequencies:
    whole = fixed_point(frequencies)
    return FixedPointFrequencies(whole.high, np.zeros_like(whole.low), whole.unit)


def bfloat16_rounded_twice(values: Float64s) -> dtypes.Elements:
    bits = values.astype(np.float32).view(np.uint32)
    last_kept = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + np.uint32(0x7FFF) + last_kept) >> np.uint32(16)).astype("<u2")


RANGE_USED = Yarn.range_used


def range_always_rounded(rule: Yarn) -> Decimals:
    """Round as engines without the parameter truncate do."""
    low, high = RANGE_USED(rule)
    return [low.to_integral_value(ROUND_FLOOR), high.to_integral_value(ROUND_CEILING)]


def float64_angles(frequencies: Float32s, positions: Int64s) -> Float32s:
    return (positions[:, np.newaxis] * frequencies.astype(np.float64)).astype(np.float32)


def float32_of_float64(frequencies: list[Decimal]) -> Float32s:
    return np.array([float(frequency) for frequency in frequencies], dtype=np.float32)


def digits_28() -> Context:
    return Context(prec=28)


WRONG_PI = phase.exact_context().add(phase.TWO_PI, Decimal("1e-30"))
WIDEST_HEAD = test_frequencies.test_a_geometric_series_keeps_its_digits_over_the_widest_head


def digits_of_a_linear_rule() -> None:
    check_examples(test_rules.test_linear_divides_every_frequency_by_the_factor, (5e5, 64, 3.0))


@pytest.mark.parametrize(
    ("owner", "name", "mutant", "promise"),
    [
        (phasors, "sin_cos", plain_sines, exactness_of_the_encoding),
        (phasors, "fixed_point", frequencies_of_64_bits, exactness_of_the_encoding),
        (phase, "TWO_PI", WRONG_PI, exactness_of_the_encoding),
        (phase, "exact_context", digits_28, exactness_of_the_encoding),
        (phase, "exact_context", digits_28, test_phase.test_precision_is_the_same_in_a_new_thread),
        (phase, "exact_context", digits_28, WIDEST_HEAD),
        (phase, "exact_context", digits_28, digits_of_a_linear_rule),
        (rules, "divided", unwrap(rules.divided), digits_of_a_linear_rule),
        (Yarn, "range_used", range_always_rounded, test_rules.test_published_ranges_of_yarn),
        (
            dtypes,
            "_bfloat16_bits",
            bfloat16_rounded_twice,
            test_dtypes.test_bfloat16_is_not_rounded_twice,
        ),
        (
            axes,
            "float32_angles",
            float64_angles,
            test_axes.test_a_position_above_2_to_the_24_is_rounded_to_float32,
        ),
        (
            axes,
            "float32_angles",
            float64_angles,
            test_axes.test_sines_and_cosines_are_those_of_the_rounded_angle,
        ),
        (
            test_axes,
            "float32_frequencies",
            float32_of_float64,
            test_axes.test_frequencies_next_to_a_tie_are_rounded_once,
        ),
    ],
)
def test_mutants_are_caught(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, mutant: Any, promise: Callable[[], None]
) -> None:
    monkeypatch.setattr(owner, name, mutant)

    with pytest.raises(AssertionError):
        promise()


@pytest.mark.parametrize("positions", [[-1], [-1, 5]])
def test_phasors_split_across_zero_are_caught(
    monkeypatch: pytest.MonkeyPatch, positions: list[int]
) -> None:
    """With b always positive, position −1 is 64·(−1) + 63, and small sines cancel."""

    def floored(consecutive: range) -> Iterator[BlockSpan]:
        for position in consecutive:
            run, fine = divmod(position, BLOCK_LENGTH)
            yield BlockSpan(run, 1, range(fine, fine + 1))

    monkeypatch.setattr(phasors, "block_of", lambda position: position // BLOCK_LENGTH)
    monkeypatch.setattr(phasors, "block_spans", floored)
    monkeypatch.setattr(np, "fmod", np.mod)
    row = test_sinusoidal.read(4096, 1e12, positions, "interleaved", "float64")[0]

    with pytest.raises(AssertionError):
        test_sinusoidal.check_tiny_sines(row, -1)


def test_numpy_sines_of_exact_angles_are_caught_by_their_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = test_phasors.table(512, Positions.contiguous(0, 600))
    expected = table.read(0, size(table)).tobytes()
    monkeypatch.setattr(phasors.Phasors, "cache", ByteBoundedLRU(2**26))
    monkeypatch.setattr(phasors.Frequencies, "cache", ByteBoundedLRU(2**20))
    monkeypatch.setattr(
        evaluation,
        "_sin_cos_kernel",
        lambda angle, tail, _: (np.sin(angle + tail), np.cos(angle + tail)),
    )

    assert table.read(0, size(table)).tobytes() != expected
