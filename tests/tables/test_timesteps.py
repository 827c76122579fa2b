"""Embeddings of timesteps against 90-digit arithmetic."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables import timesteps
from service.tables.document import Document
from service.tables.dtypes import FLOAT64
from service.tables.positions import Positions
from service.tables.real_positions import RealPositions
from service.tables.table import size
from service.tables.timesteps import TimestepFrequencies
from tests.exact import UNIT

TIMES = st.one_of(st.integers(0, 1000).map(float), st.floats(1e-6, 1000.0), st.just(0.0))


def embedded(
    steps: RealPositions | Positions,
    d_model: int,
    *,
    flip: bool = False,
    shift: float = 1.0,
    scale: float = 1.0,
    max_period: float = 10000.0,
) -> Document:
    return timesteps.timesteps(
        steps=steps,
        d_model=d_model,
        flip_sin_to_cos=flip,
        downscale_freq_shift=shift,
        scale=scale,
        max_period=max_period,
        dtype=FLOAT64,
    )


def whole(document: Document) -> NDArray[Any]:
    table = document.arrays["timesteps"]
    return np.asarray(table.read(0, size(table))).reshape(table.shape)


@given(
    TIMES,
    st.integers(2, 30),
    st.sampled_from([-1.0, 0.0, 0.25, 1.0, 17.5]),
    st.one_of(st.floats(1e-3, 1e3), st.floats(-1e3, -1e-3), st.just(0.0)),
    st.floats(1e-6, 1e6),
    st.booleans(),
)
@example(999.0, 5, 1.0, 1000.0, 10000.0, True)
@example(0.001, 24, 1.0, 1000.0, 2000.0, True)
def test_values_are_those_of_the_formula(
    time: float, d_model: int, shift: float, scale: float, max_period: float, flip: bool
) -> None:
    count = d_model // 2
    if shift == count:
        return
    options = {"shift": shift, "scale": scale, "max_period": max_period}
    found = whole(embedded(RealPositions((time,)), d_model, flip=flip, **options))[0].tolist()

    period = mpmath.mpf(max_period)
    for k in range(count):
        rate = mpmath.exp(-mpmath.log(period) * k / (count - mpmath.mpf(shift)))
        angle = mpmath.mpf(scale) * mpmath.mpf(time) * rate
        sine, cosine = (k + count, k) if flip else (k, k + count)
        assert abs(found[sine] - mpmath.sin(angle)) <= 5 * UNIT
        assert abs(found[cosine] - mpmath.cos(angle)) <= 5 * UNIT
    assert found[2 * count :] == [0.0] * (d_model % 2)


@pytest.mark.parametrize("d_model", [1, 2, 5, 8])
@pytest.mark.parametrize("scale", [1.0, 0.125, -1.0, -3.5, 0.0])
def test_numbered_timesteps_have_the_bytes_of_listed_ones(d_model: int, scale: float) -> None:
    listed = RealPositions(tuple(map(float, range(100))))

    one = embedded(listed, d_model, shift=0.0, scale=scale)
    other = embedded(Positions.contiguous(0, 100), d_model, shift=0.0, scale=scale)

    assert whole(one).tobytes() == whole(other).tobytes()
    assert one.parameters != other.parameters
    assert other.parameters["num_timesteps"] == 100


def test_a_negative_scale_is_that_of_negated_timesteps_to_the_last_bit() -> None:
    values = (0.0, 0.1, 2.5, 999.0, 2.0**62, -7.25, -12.0)
    negated = RealPositions(tuple(0.0 - value for value in values))

    for scale in (1.0, 0.3, 1000.0):
        one = whole(embedded(RealPositions(values), 9, scale=-scale))
        assert one.tobytes() == whole(embedded(negated, 9, scale=scale)).tobytes()


def test_a_scale_of_nothing_leaves_sines_of_0_and_cosines_of_1() -> None:
    values = (0.0, -3.0, 2.5, -0.1, 2.0**62)

    found = whole(embedded(RealPositions(values), 5, scale=0.0, shift=1.9999999999999998))

    assert found.tolist() == [[0.0, 0.0, 1.0, 1.0, 0.0]] * 5
    assert not np.signbit(found).any()


def test_a_period_below_one_makes_frequencies_rise() -> None:
    rising = TimestepFrequencies(1e-4, 1.0, 5).exact()

    assert [float(frequency) for frequency in rising] == [1.0, 10.0, 100.0, 1000.0, 10000.0]


def test_a_single_channel_is_zero() -> None:
    assert whole(embedded(RealPositions((0.0, 3.5)), 1)).tolist() == [[0.0], [0.0]]


def test_without_a_shift_the_series_is_that_of_the_paper_in_halves() -> None:
    frequencies = TimestepFrequencies(10000.0, 0.0, 4).exact()

    assert [float(frequency) for frequency in frequencies] == [1.0, 0.1, 0.01, 0.001]


def test_with_a_shift_of_one_the_last_period_is_the_longest() -> None:
    assert float(TimestepFrequencies(10000.0, 1.0, 5).exact()[-1]) == 1e-4


@pytest.mark.parametrize(
    ("rule", "scale", "are_within"),
    [
        (TimestepFrequencies(10000.0, 1.0, 160), 1.0, True),
        (TimestepFrequencies(10000.0, 1.0, 1), 1e9, True),
        (TimestepFrequencies(1e250, 0.0, 160), 1.0, True),
        (TimestepFrequencies(1e250, 1.0, 160), 1.0, True),
        (TimestepFrequencies(1e250, 1.0, 160), 0.05, False),
        (TimestepFrequencies(10000.0, 1.9999999999999998, 2), 1.0, False),
        (TimestepFrequencies(10000.0, 2.0000000000000004, 2), 1.0, False),
        (TimestepFrequencies(1e17, 3.0, 2), 1.0, True),
        (TimestepFrequencies(1e17, 3.0, 2), 20.0, False),
        (TimestepFrequencies(10000.0, 1e308, 50), 1.0, True),
        (TimestepFrequencies(1e-17, 1.0, 4), 1.0, True),
        (TimestepFrequencies(1e-17, 1.0, 4), -9.0, True),
        (TimestepFrequencies(1e-17, 1.0, 4), -11.0, False),
        (TimestepFrequencies(1e-250, 0.0, 4), 1.0, False),
        (TimestepFrequencies(1e-250, 0.0, 4), 0.0, True),
        (TimestepFrequencies(1e-250, 5.0, 4), 1.0, False),
        (TimestepFrequencies(1e-250, 7.5, 4), 1.0, True),
    ],
)
def test_frequencies_without_exact_angles_are_told(
    rule: TimestepFrequencies, scale: float, are_within: bool
) -> None:
    assert rule.are_within_phases(scale) is are_within
