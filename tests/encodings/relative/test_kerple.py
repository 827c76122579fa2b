"""KERPLE's kernels.

``/relative/kerple`` and ``POST /relative/kerple/bias`` through HTTP.
"""

from math import log, log1p
from operator import neg
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.encodings.relative import kerple
from service.encodings.relative.distance import QueryKey
from service.numerics import tables as table
from service.numerics.double_double import MAX_EXPONENT
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import Positions
from tests.client import Client

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


def relative_kerple_table(
    client: Client, query: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    answer = client.get(f"/relative/kerple?dtype=float64&{query}")
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["data"])


def posted(client: Client, query: str, **body: Any) -> Any:
    answer = client.post(f"/relative/kerple/bias?{query}", json=body)
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["data"])


NEAR = 1e-15


def test_each_kernel_is_its_formula(client: Client) -> None:
    numbers = "a=3,0.5&p=2,1.5&query_positions=4&key_positions=0&head=0"

    assert relative_kerple_table(client, numbers)[0, 0] == pytest.approx(-2 * log1p(12), rel=NEAR)
    assert relative_kerple_table(client, f"{numbers}&convention=power")[0, 0] == -48
    nemo = relative_kerple_table(client, f"{numbers}&convention=nemo&b=7")
    assert nemo[0, 0] == pytest.approx(-7 * log(49), rel=NEAR)


def test_b_of_nemo_has_either_sign(client: Client) -> None:
    query = "convention=nemo&query_positions=4&key_positions=0,4"
    found = relative_kerple_table(client, f"{query}&a=3&b=-7,7,0,-1e-100,-1e9&num_heads=5")

    assert found[0, 0, 0] == pytest.approx(7 * log(13), rel=NEAR)
    assert (found[0] == 0.0 - found[1]).all()
    assert found[2].tolist() == [[0, 0]]
    assert (found[3, 0, 0], found[4, 0, 0]) == pytest.approx((1e-100 * log(13), 1e9 * log(13)))
    assert not np.signbit(found[:, 0, 1]).any()
    learned = [np.array([number] * 2) for number in (3.0, -7.0, 1.0)]
    body = {name: values.tolist() for name, values in zip("abp", learned, strict=True)}
    assert posted(client, f"{query}&dtype=float64", **body)[1].tolist() == found[0].tolist()


def test_nemo_needs_no_numbers(client: Client) -> None:
    found = relative_kerple_table(
        client, "convention=nemo&num_heads=8&query_positions=1&key_positions=0"
    )

    assert found[:, 0, 0] == pytest.approx([-log(2) * 0.5**k for k in range(1, 9)], rel=NEAR)


def test_the_future_has_the_bias_of_distance_nothing_by_true_positions(client: Client) -> None:
    """A block of the last queries keeps every key before them, on whichever side of its diagonal.

    NeMo's does not.
    """
    found = relative_kerple_table(client, "a=1&p=1&query_start=3&query_len=2&key_len=6&head=0")

    assert (found[0, :3] < 0).all()
    assert found[0, 3:].tolist() == [0, 0, 0]
    assert (found[1, :4] < 0).all()
    whole = relative_kerple_table(
        client, "a=1&p=1&query_start=3&query_len=2&key_len=6&head=0&causal=false"
    )
    assert (whole[0, 4:] < 0).all()


def test_one_number_is_for_all_heads(client: Client) -> None:
    one, each = (
        relative_kerple_table(client, f"a={a}&p=2,1&query_len=3") for a in ("0.5", "0.5,0.5")
    )

    assert one.tolist() == each.tolist()


def test_clamped_numbers_are_spelled_as_what_they_became(client: Client) -> None:
    clamped = client.get("/relative/kerple?convention=power&a=-1,2&p=3,0&clamp=true&query_len=2")
    spelled = client.get("/relative/kerple?convention=power&a=0.01,2&p=2,0.01&query_len=2")

    assert clamped.status_code == 200, clamped.text
    assert clamped.content == spelled.content
    assert clamped.json()["parameters"]["p"] == [2, 0.01]


def test_arrays_make_what_numbers_make(client: Client) -> None:
    query = "query_len=3&key_len=5&convention=nemo&dtype=float64"

    got = posted(client, query, a=[0.5, 2.0], b=[1.0, 3.0], p=[1.5, 1.0])

    assert (
        got.tolist()
        == relative_kerple_table(client, f"{query[:-14]}&a=0.5,2&b=1,3&p=1.5,1").tolist()
    )


def test_arrays_are_clamped_where_that_is_wanted(client: Client) -> None:
    query = "query_len=3&dtype=float64"

    clamped = posted(client, f"{query}&clamp=true", a=[0.001], p=[1.0])

    assert clamped.tolist() == posted(client, query, a=[0.01], p=[1.0]).tolist()


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("query_len=2", "num_heads"),
        ("a=1&query_len=2", "p"),
        ("a=1&b=1&p=1&query_len=2", "b"),
        ("a=1,2,3&p=1,2&query_len=2", "p"),
        ("a=-1&p=1&query_len=2", "a"),
        ("a=1&p=2.5&convention=power&query_len=2", "p"),
        ("a=1&p=0&convention=power&query_len=2", "p"),
        ("a=1&p=9&convention=nemo&query_len=2", "p"),
        ("a=1e10&p=1&query_len=2", "a"),
        ("a=-1&convention=nemo&query_len=2", "a"),
        ("p=-1&convention=nemo&query_len=2", "p"),
        ("p=0&convention=nemo&query_len=2", "p"),
        ("b=-1e10&convention=nemo&query_len=2", "b"),
        ("b=-1e-101&convention=nemo&query_len=2", "b"),
        ("a=1&p=1&head=1&query_len=2", "head"),
        ("num_heads=2&convention=nemo&clamp=true&query_len=2", "clamp"),
        ("a=1&p=1", "query_len"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, query: str, parameter: str) -> None:
    answer = client.get(f"/relative/kerple?{query}")

    assert answer.status_code == 422, answer.text
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


def test_the_bound_of_b_is_that_of_its_size(client: Client) -> None:
    answer = client.get("/relative/kerple?b=-2e9&convention=nemo&query_len=2")

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
        ({"a": [[1.0]], "p": [1.0]}, "/a"),
    ],
)
def test_what_cannot_be_of_arrays_points_at_one(
    client: Client, body: dict[str, Any], where: str
) -> None:
    answer = client.post("/relative/kerple/bias?query_len=2", json=body)

    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"] == where
