"""Embeddings of timesteps: the formula in 90 digits, scales, and what is refused."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.absolute.timesteps import TimestepEmbedding, TimestepFrequencies
from service.numerics.tables import size
from tests.client import Client
from tests.exact import UNIT

TIMES = st.one_of(st.integers(0, 1000).map(float), st.floats(1e-6, 1000.0), st.just(0.0))


def embedded(d_model: int, **given: Any) -> NDArray[Any]:
    """Return the rows of timesteps, or of as many as num_timesteps."""
    parameters = {"d_model": d_model, "dtype": "float64", **given}
    table = TimestepEmbedding.model_validate(parameters).table()
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
    given = {"downscale_freq_shift": shift, "scale": scale, "max_period": max_period}
    (found,) = embedded(d_model, timesteps=[time], flip_sin_to_cos=flip, **given).tolist()

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
def test_num_timesteps_has_the_bytes_of_the_list(d_model: int, scale: float) -> None:
    given = {"scale": scale, "downscale_freq_shift": 0.0}

    listed = embedded(d_model, timesteps=list(range(100)), **given)

    assert listed.tobytes() == embedded(d_model, num_timesteps=100, **given).tobytes()


def test_a_negative_scale_has_the_bytes_of_negated_timesteps() -> None:
    values = [0.0, 0.1, 2.5, 999.0, 2.0**62, -7.25, -12.0]
    negated = [-value for value in values]

    for scale in (1.0, 0.3, 1000.0):
        one = embedded(9, timesteps=values, scale=-scale)
        assert one.tobytes() == embedded(9, timesteps=negated, scale=scale).tobytes()


def test_a_scale_of_0_leaves_sines_of_0_and_cosines_of_1() -> None:
    values = [0.0, -3.0, 2.5, -0.1, 2.0**62]

    found = embedded(5, timesteps=values, scale=0.0, downscale_freq_shift=1.9999999999999998)

    assert found.tolist() == [[0.0, 0.0, 1.0, 1.0, 0.0]] * 5
    assert not np.signbit(found).any()
    assert found.tobytes() == embedded(5, timesteps=values, scale="-0").tobytes()


def test_a_single_channel_is_zero() -> None:
    assert embedded(1, timesteps=[0.0, 3.5]).tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize(
    ("rule", "scale", "is_exact"),
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
def test_frequencies_have_exact_angles_within_the_range_of_phases(
    rule: TimestepFrequencies, scale: float, is_exact: bool
) -> None:
    assert rule.has_exact_angles(scale) is is_exact


URL = "/encoding/timesteps"


def test_without_a_shift_whole_timesteps_are_positions(client: Client) -> None:
    found = client.get(f"{URL}?timesteps=0,7,999&d_model=8&downscale_freq_shift=0").json()
    query = "positions=0,7,999&d_model=8&layout=concatenated"

    assert found["data"] == client.get(f"/encoding?{query}").json()["data"]
    assert found["axes"] == ["timestep", "channel"]


def test_a_long_list_may_be_sent(client: Client) -> None:
    times = [index / 7 for index in range(2000)]

    answer = client.post(f"{URL}.json", json={"timesteps": times, "d_model": 4})

    assert answer.json()["shape"] == [2000, 4]
    assert answer.json()["parameters"]["timesteps"] == times


def test_a_shift_by_all_frequencies_divides_by_zero(client: Client) -> None:
    refused = client.get(f"{URL}?timesteps=1&d_model=2").json()

    assert "divides by zero" in refused["detail"]
    assert client.get(f"{URL}?timesteps=1&d_model=1&downscale_freq_shift=0").status_code == 200
