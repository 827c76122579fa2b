"""KERPLE's kernels."""

from math import log
from operator import neg
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.relative.distance import QueryKey
from service.encodings.relative.kerple import Kernel, KernelParameters, Kerple
from service.numerics.double_double import MAX_EXPONENT
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import Positions
from service.numerics.tables import overflows
from tests.client import Client, load_data
from tests.exact import UNIT

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
CONVENTIONS = ["log", "power", "nemo"]


def kernel(convention: str, numbers: dict[str, Any], *, is_causal: bool) -> Kernel:
    parameters = KernelParameters.model_validate({"convention": convention, "causal": is_causal})
    return parameters.kernel({name: np.atleast_1d(values) for name, values in numbers.items()})


def exact(convention: str, numbers: dict[str, float], distance: int) -> mpmath.mpf:
    a, b, p = (mpf(numbers[name]) for name in ("a", "b", "p"))
    if convention == "log":
        return -p * mpmath.log1p(a * distance)
    if convention == "power":
        return -a * mpf(distance) ** p
    return -b * mpmath.log1p(a * mpf(distance) ** p)


@pytest.mark.full
@settings(max_examples=800)
@given(
    st.sampled_from(CONVENTIONS),
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

    values = kernel(convention, numbers, is_causal=is_causal).values(
        np.array([distance], dtype=np.int64), range(1)
    )

    far = max(-distance, 0) if is_causal else abs(distance)
    true = exact(convention, numbers, far)
    assert abs(mpf(float(values[0, 0])) - true) <= abs(true) * 1.1 * UNIT


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("b", [1.0, -1.0])
def test_distance_0_has_the_bias_0_and_no_negative_zero(convention: str, b: float) -> None:
    biases = kernel(convention, {"a": 1.0, "p": 0.5, "b": b}, is_causal=True)

    values = biases.values(np.array([0, 5]), range(1))

    assert values.tolist() == [[0.0, 0.0]]
    assert not np.signbit(values).any()


def test_a_power_of_one_is_the_distance_itself() -> None:
    biases = kernel("power", {"a": 1.0, "p": 1.0}, is_causal=False)

    distances = np.arange(-5, 6)
    assert (biases.values(distances, range(1)) == -np.abs(distances)).all()


@pytest.mark.full
@settings(max_examples=300)
@given(
    st.sampled_from(CONVENTIONS),
    st.lists(st.tuples(FACTORS, FACTORS, EXPONENTS), min_size=1, max_size=4),
    st.integers(0, MAX_POSITION),
    st.integers(0, 9),
)
def test_no_bias_exceeds_its_bound(
    convention: str, heads: list[tuple[float, float, float]], first: int, length: int
) -> None:
    numbers = dict(zip("abp", np.array(heads).T, strict=True))
    if convention == "power":
        numbers["p"] = np.minimum(numbers["p"], 2.0)
    biases = kernel(convention, numbers, is_causal=length % 2 == 0)
    pairs = QueryKey(Positions.contiguous(first - length, 1), Positions.contiguous(0, length + 1))
    chosen = range(len(heads) // 2, len(heads))

    bound = biases.bound(pairs, chosen)

    distances = np.arange(length + 1) - (first - length)
    largest = np.abs(biases.values(distances, chosen)).max()
    assert largest <= bound * (1 + 2.0**-40)
    if not biases.is_causal or first >= length:
        assert largest == pytest.approx(bound)


@pytest.mark.parametrize(
    ("queries", "head", "dtype", "expected"),
    [
        # 255² is 65025, and 256² is beyond 65520.
        (256, None, "float16", False),
        (257, None, "float16", True),
        (257, 1, "float16", True),
        (257, 0, "float16", False),
        (257, None, "float32", False),
        (2**61, 0, "bfloat16", False),
        (2**61, None, "float64", False),
    ],
)
def test_a_table_that_may_overflow_says_so(
    queries: int, head: int | None, dtype: str, expected: bool
) -> None:
    values = {"convention": "power", "a": "1,1", "p": "0.5,2", "key_len": 2**20}
    family = Kerple.model_validate({**values, "query_len": queries, "head": head, "dtype": dtype})

    assert overflows(family.table()) == expected


KERPLE = "/relative/kerple"


def data_of(client: Client, query: str) -> NDArray[np.float64]:
    return load_data(client.get(f"{KERPLE}?dtype=float64&{query}"))


def posted(client: Client, query: str, **body: Any) -> NDArray[np.float64]:
    return load_data(client.post(f"{KERPLE}/bias?dtype=float64&{query}", json=body))


NEAR = 1e-15


def test_each_head_has_its_own_numbers(client: Client) -> None:
    biases = data_of(client, "convention=power&a=1,2&p=1,2&query_start=3&query_len=1&key_len=4")

    assert biases.tolist() == [[[-3, -2, -1, 0]], [[-18, -8, -2, 0]]]


def test_b_of_nemo_has_either_sign(client: Client) -> None:
    query = "convention=nemo&query_positions=4&key_positions=0,4"
    biases = data_of(client, f"{query}&a=3&b=-7,7,0,-1e-100,-1e9&num_heads=5")

    assert biases[0, 0, 0] == pytest.approx(7 * log(13), rel=NEAR)
    assert (biases[0] == 0.0 - biases[1]).all()
    assert biases[2].tolist() == [[0, 0]]
    assert (biases[3, 0, 0], biases[4, 0, 0]) == pytest.approx((1e-100 * log(13), 1e9 * log(13)))
    assert not np.signbit(biases[:, 0, 1]).any()
    learned = posted(client, query, a=[3.0, 3.0], b=[-7.0, -7.0], p=[1.0, 1.0])
    assert learned[1].tolist() == biases[0].tolist()


def test_nemo_without_numbers_has_the_slopes_of_alibi(client: Client) -> None:
    biases = data_of(client, "convention=nemo&num_heads=8&query_positions=1&key_positions=0")

    assert biases[:, 0, 0] == pytest.approx([-log(2) * 0.5**k for k in range(1, 9)], rel=NEAR)


def test_causal_is_by_positions_and_not_by_rows(client: Client) -> None:
    """NeMo masks by rows: it loses keys before the last queries."""
    query = "a=1&p=1&query_start=3&query_len=2&key_len=6&head=0"

    causal, both = data_of(client, query), data_of(client, f"{query}&causal=false")

    assert (causal[0, :3] < 0).all()
    assert causal[0, 3:].tolist() == [0, 0, 0]
    assert (causal[1, :4] < 0).all()
    assert (both[0, 4:] < 0).all()


def test_one_number_is_for_all_heads(client: Client) -> None:
    one, each = (data_of(client, f"a={a}&p=2,1&query_len=3") for a in ("0.5", "0.5,0.5"))

    assert one.tolist() == each.tolist()


def test_canonical_numbers_are_clamped(client: Client) -> None:
    url = f"{KERPLE}?convention=power&query_len=2"

    clamped = client.get(f"{url}&a=-1,2&p=3,0&clamp=true")

    assert clamped.status_code == 200, clamped.text
    assert clamped.content == client.get(f"{url}&a=0.01,2&p=2,0.01").content
    assert clamped.json()["parameters"]["p"] == [2, 0.01]


def test_arrays_make_the_biases_of_numbers(client: Client) -> None:
    query = "query_len=3&key_len=5&convention=nemo"

    learned = posted(client, query, a=[0.5, 2.0], b=[1.0, 3.0], p=[1.5, 1.0])
    clamped = posted(client, "query_len=3&clamp=true", a=[0.001], p=[1.0])

    assert learned.tolist() == data_of(client, f"{query}&a=0.5,2&b=1,3&p=1.5,1").tolist()
    assert clamped.tolist() == posted(client, "query_len=3", a=[0.01], p=[1.0]).tolist()


def test_the_range_of_b_is_that_of_its_size(client: Client) -> None:
    answer = client.get(f"{KERPLE}?b=-2e9&convention=nemo&query_len=2")

    (error,) = answer.json()["errors"]
    assert error["detail"] == "b must be 0, or 1e-100 to 1e+09 in size with nemo"
    assert error["value"] == "-2000000000"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, ""),
        ({"a": [1.0] * 65537, "p": [1.0] * 65537}, ""),
        ({"a": [1.0]}, "/p"),
        ({"a": [1.0], "p": [1.0, 2.0]}, ""),
        ({"a": [1.0], "p": [-1.0]}, "/p"),
        ({"a": [1.0], "p": [1.0], "b": [1.0]}, "/b"),
    ],
)
def test_a_refusal_names_the_impossible_array(
    client: Client, body: dict[str, Any], where: str
) -> None:
    answer = client.post(f"{KERPLE}/bias?query_len=2", json=body)

    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"] == where
