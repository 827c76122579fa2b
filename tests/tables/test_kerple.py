"""KERPLE's kernels."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.tables import kerple
from service.tables.angle import MAX_POSITION
from service.tables.dtypes import FLOAT64
from service.tables.exponential import MAX_EXPONENT
from service.tables.positions import Positions
from service.tables.query_key import QueryKey

mpf = mpmath.mpf

DISTANCES = st.one_of(
    st.integers(-MAX_POSITION, MAX_POSITION),
    st.integers(-3000, 3000),
    st.builds(lambda k, s: -(2**k) + s, st.integers(0, 61), st.integers(-2, 2)),
)
FACTORS = st.one_of(
    st.floats(1e-9, 1e9), st.floats(0.01, 10.0), st.sampled_from([0.0, 1.0, 1e-100])
)
EXPONENTS = st.one_of(st.floats(0.001, MAX_EXPONENT), st.sampled_from([0.5, 1.0, 2.0]))


def exact(convention: str, numbers: dict[str, float], distance: int) -> mpmath.mpf:
    a, b, p = (mpf(numbers[name]) for name in ("a", "b", "p"))
    if convention == "log":
        return -p * mpmath.log1p(a * distance)
    if convention == "power":
        return -a * mpf(distance) ** p
    return -b * mpmath.log1p(a * mpf(distance) ** p)


@settings(max_examples=800)
@given(
    st.sampled_from(["log", "power", "nemo"]), FACTORS, FACTORS, EXPONENTS, DISTANCES, st.booleans()
)
def test_a_bias_is_its_formula_rounded_once(
    convention: str, a: float, b: float, p: float, distance: int, is_causal: bool
) -> None:
    numbers = {"a": a, "b": b, "p": min(p, 2.0) if convention == "power" else p}
    arrays = {name: np.array([value]) for name, value in numbers.items()}
    kernel = kerple.kernel(convention, arrays, is_causal=is_causal)

    (got,) = kernel.values(np.array([distance], dtype=np.int64), 0).tolist()

    far = max(-distance, 0) if is_causal else abs(distance)
    true = exact(convention, numbers, far)
    assert abs(mpf(got) - true) <= abs(true) * mpf(2) ** -53 * 1.1


def test_distance_nothing_has_no_bias_and_no_negative_zero() -> None:
    one = np.array([1.0])
    for convention in ("log", "power", "nemo"):
        kernel = kerple.kernel(convention, {"a": one, "p": one / 2, "b": one}, is_causal=True)

        values = kernel.values(np.array([0, 5]), 0)

        assert values.tolist() == [0.0, 0.0]
        assert not np.signbit(values).any()


def test_a_power_of_one_is_the_distance_itself() -> None:
    one = np.array([1.0])
    kernel = kerple.kernel("power", {"a": one, "p": one}, is_causal=False)

    assert kernel.values(np.arange(-5, 6), 0).tolist() == (-np.abs(np.arange(-5, 6))).tolist()


def test_nemo_has_slopes_of_alibi_unless_it_is_given_others() -> None:
    ones = np.ones(2)
    own = kerple.kernel("nemo", {"a": ones, "p": ones}, is_causal=True)

    # The slopes of two heads are 2^-4 and 2^-8.
    first, second = (own.values(np.array([-1]), head)[0] for head in (0, 1))
    assert first == pytest.approx(-(2.0**-4) * np.log(2))
    assert second == first / 16


def test_each_head_has_numbers_of_its_own() -> None:
    numbers = {"a": np.array([1.0, 2.0]), "p": np.array([1.0, 2.0])}
    kernel = kerple.kernel("power", numbers, is_causal=True)
    pairs = QueryKey(Positions.contiguous(3, 1), Positions.contiguous(0, 4))

    document = kerple.bias(
        kind="relative-kerple", parameters={}, kernel=kernel, pairs=pairs, head=None, dtype=FLOAT64
    )

    (table,) = document.arrays.values()
    assert table.shape == (2, 1, 4)
    assert table.read(0, 8).tolist() == [-3, -2, -1, 0, -18, -8, -2, 0]
    assert document.parameters["causal"] is True
