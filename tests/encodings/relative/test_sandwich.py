"""Sandwich's biases."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.encodings.relative.distance import QueryKey
from service.encodings.relative.sandwich import HalfFrequencies, Sandwich
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import Positions
from tests.client import Client
from tests.exact import UNIT

mpf = mpmath.mpf
DISTANCES = st.one_of(st.integers(-MAX_POSITION, MAX_POSITION), st.integers(-40, 40))


# So few pairs that the sums of other distances are not kept.
ONE_PAIR = {"query_len": 1, "key_start": -1, "key_len": 1}


def exact(base: float, head_dim: int, heads: int, head: int, distance: int) -> mpmath.mpf:
    angles = [distance * mpf(base) ** (mpf(-2 * k) / head_dim) for k in range(1, head_dim // 2 + 1)]
    total = mpmath.fsum(mpmath.cos(angle) - 1 for angle in angles)
    return total / (mpf(8 * (head + 1)) / heads)


@pytest.mark.full
@settings(max_examples=150)
@given(st.integers(1, 24), st.floats(1.0, 1e9), st.integers(1, 9), DISTANCES)
def test_a_bias_is_within_its_bound(half: int, base: float, heads: int, distance: int) -> None:
    values = Sandwich(num_heads=heads, head_dim=2 * half, base=base, causal=False, **ONE_PAIR)

    bound = half * (11 + 2 * (half - 1).bit_length()) * heads * UNIT
    for head in (0, heads - 1):
        ((value,),) = values.values(
            np.array([distance], dtype=np.int64), range(head, head + 1)
        ).tolist()
        true = exact(base, 2 * half, heads, head, distance)
        assert abs(mpf(value) - true) <= bound / (4 * (head + 1))


@pytest.mark.full
@settings(max_examples=80)
@given(st.integers(1, 24), st.floats(1e4, 1e100), st.integers(-1, 1))
def test_small_angles_have_small_errors(half: int, base: float, distance: int) -> None:
    """The bias keeps all its digits if a cosine is almost 1."""
    values = Sandwich(num_heads=3, head_dim=2 * half, base=base, causal=False, **ONE_PAIR)

    ((value,),) = values.values(np.array([distance], dtype=np.int64), range(1, 2)).tolist()

    with mpmath.workdps(420):
        true = exact(base, 2 * half, 3, 1, distance)
        limit = (15 + 2 * (half - 1).bit_length()) * UNIT
        assert abs(mpf(value) - true) <= limit * abs(true)


def test_causal_bias_of_later_keys_is_zero() -> None:
    values = Sandwich(num_heads=2, head_dim=16, base=10000.0, causal=True, **ONE_PAIR)

    (biases,) = values.values(np.array([-3, 0, 3]), range(1))

    assert biases[0] < 0
    assert biases[1:].tolist() == [0.0, 0.0]
    assert not np.signbit(biases[1:]).any()


def test_the_frequency_1_is_left_out() -> None:
    rule = HalfFrequencies(100.0, 4)

    assert [float(frequency) for frequency in rule.exact()] == [0.05, 0.005]
    assert rule.count == 2


@given(st.integers(1, 12), st.floats(1.0, 1e9), st.integers(1, 9), st.integers(0, 8), st.booleans())
def test_no_bias_exceeds_its_bound(
    half: int, base: float, heads: int, length: int, is_causal: bool
) -> None:
    values = Sandwich(num_heads=heads, head_dim=2 * half, base=base, causal=is_causal, **ONE_PAIR)
    pairs = QueryKey(Positions.contiguous(3, 1), Positions.contiguous(0, length + 1))
    chosen = range(heads // 2, heads)

    largest = np.abs(values.values(np.arange(-3, length - 2), chosen)).max()

    assert largest <= values.bound(pairs, chosen) * (1 + 2.0**-40)


def test_later_keys_have_a_bias_with_causal_false(client: Client) -> None:
    query = "/relative/sandwich?num_heads=2&head_dim=4&head=1&query_len=2"

    causal = client.get(query).json()["data"]
    both = client.get(f"{query}&causal=false").json()["data"]

    assert causal[0] == [0, 0]
    assert both[0][1] == both[1][0] == causal[1][0] < 0
