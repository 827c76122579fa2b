"""KERPLE's kernels."""

from operator import neg

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.tables import kerple, table
from service.tables.angle import MAX_POSITION
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
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
    st.sampled_from(["log", "power", "nemo"]),
    FACTORS,
    st.one_of(FACTORS, FACTORS.map(neg)),
    EXPONENTS,
    DISTANCES,
    st.booleans(),
)
def test_a_bias_is_its_formula_rounded_once(
    convention: str, a: float, b: float, p: float, distance: int, is_causal: bool
) -> None:
    numbers = {"a": a, "b": b, "p": min(p, 2.0) if convention == "power" else p}
    arrays = {name: np.array([value]) for name, value in numbers.items()}
    kernel = kerple.kernel(convention, arrays, is_causal=is_causal)

    ((got,),) = kernel.values(np.array([distance], dtype=np.int64), range(1)).tolist()

    far = max(-distance, 0) if is_causal else abs(distance)
    true = exact(convention, numbers, far)
    assert abs(mpf(got) - true) <= abs(true) * mpf(2) ** -53 * 1.1


def test_distance_nothing_has_no_bias_and_no_negative_zero() -> None:
    one = np.array([1.0])
    for convention in ("log", "power", "nemo"):
        for b in (one, -one):
            kernel = kerple.kernel(convention, {"a": one, "p": one / 2, "b": b}, is_causal=True)

            values = kernel.values(np.array([0, 5]), range(1))

            assert values.tolist() == [[0.0, 0.0]]
            assert not np.signbit(values).any()


def test_a_power_of_one_is_the_distance_itself() -> None:
    one = np.array([1.0])
    kernel = kerple.kernel("power", {"a": one, "p": one}, is_causal=False)

    distances = np.arange(-5, 6)
    assert (kernel.values(distances, range(1)) == -np.abs(distances)).all()


def test_nemo_has_slopes_of_alibi_unless_it_is_given_others() -> None:
    ones = np.ones(2)
    own = kerple.kernel("nemo", {"a": ones, "p": ones}, is_causal=True)

    # The slopes of two heads are 2^-4 and 2^-8.
    (first,), (second,) = own.values(np.array([-1]), range(2))
    assert first == pytest.approx(-(2.0**-4) * np.log(2))
    assert second == first / 16


def test_each_head_has_numbers_of_its_own() -> None:
    numbers = {"a": np.array([1.0, 2.0]), "p": np.array([1.0, 2.0])}
    kernel = kerple.kernel("power", numbers, is_causal=True)
    pairs = QueryKey(Positions.contiguous(3, 1), Positions.contiguous(0, 4))

    document = kerple.bias(
        kind="relative-kerple", parameters={}, kernel=kernel, pairs=pairs, head=None, dtype=FLOAT64
    )

    (biases,) = document.arrays.values()
    assert biases.shape == (2, 1, 4)
    assert biases.read(0, 8).tolist() == [-3, -2, -1, 0, -18, -8, -2, 0]
    assert document.parameters["causal"] is True


@pytest.mark.parametrize("convention", ["log", "power", "nemo"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_head_has_the_bytes_that_it_has_among_others(convention: str, is_causal: bool) -> None:
    """Whether they are evaluated together or not, exponents of 1 beside others."""
    numbers = {
        "a": np.array([1.0, 0.3, 1e-9, 7.5, 1.0]),
        "p": np.array([1.0, 0.5, 2.0, 1.0, 0.01]),
    }
    kernel = kerple.kernel(convention, numbers, is_causal=is_causal)
    distances = np.array([-(2**61), -5000, -3, 0, 1, 2**53 + 1])

    together = kernel.values(distances, range(5))

    for head in range(5):
        alone = kernel.values(distances, range(head, head + 1))
        assert alone.tobytes() == together[head].tobytes()
    assert kernel.values(distances, range(1, 4)).tobytes() == together[1:4].tobytes()


@settings(max_examples=300)
@given(
    st.sampled_from(["log", "power", "nemo"]),
    st.lists(st.tuples(FACTORS, FACTORS, EXPONENTS), min_size=1, max_size=4),
    st.integers(0, MAX_POSITION),
    st.integers(0, 9),
)
def test_no_bias_is_above_its_bound(
    convention: str, heads: list[tuple[float, float, float]], first: int, length: int
) -> None:
    arrays = dict(zip("abp", np.array(heads).T, strict=True))
    if convention == "power":
        arrays["p"] = np.minimum(arrays["p"], 2.0)
    kernel = kerple.kernel(convention, arrays, is_causal=length % 2 == 0)
    pairs = QueryKey(Positions.contiguous(first - length, 1), Positions.contiguous(0, length + 1))
    chosen = range(len(heads) // 2, len(heads))

    bound = kernel.bound(pairs, chosen)

    largest = np.abs(kernel.values(pairs.distances(0, length + 1), chosen)).max()
    assert largest <= bound * (1 + 2.0**-40)
    if not kernel.is_causal or first >= length:
        assert largest == pytest.approx(bound)


def test_a_table_that_may_overflow_says_so() -> None:
    numbers = {"a": np.array([1.0, 1.0]), "p": np.array([0.5, 2.0])}

    def overflows(queries: int, head: int | None = None, *, dtype: DType = FLOAT16) -> bool:
        document = kerple.bias(
            kind="relative-kerple",
            parameters={},
            kernel=kerple.kernel("power", numbers, is_causal=True),
            pairs=QueryKey(Positions.contiguous(0, queries), Positions.contiguous(0, 2**20)),
            head=head,
            dtype=dtype,
        )
        return table.overflows(document.arrays["bias"])

    # 255² is 65025, and 256² is beyond 65520.
    assert not overflows(256)
    assert overflows(257)
    assert overflows(257, 1)
    assert not overflows(257, 0)
    assert not overflows(257, dtype=FLOAT32)
    assert not overflows(2**61, dtype=BFLOAT16, head=0)
    assert not overflows(2**61, dtype=FLOAT64)
