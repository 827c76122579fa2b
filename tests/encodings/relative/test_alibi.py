"""ALiBi's slopes and biases."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from math import floor, log2
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.relative.alibi import Alibi, AlibiBias, GivenSlopes, LinearBias, SlopeRule
from service.numerics.dtypes import FLOAT64, INT64
from service.numerics.phase import MAX_POSITION
from service.numerics.tables import StoredTable, Table, overflows
from tests.client import Client, load_data
from tests.exact import UNIT

mpf = mpmath.mpf

RULE = SlopeRule("original", 12, 8.0)
CONVENTIONS = st.sampled_from(["original", "paper"])


def biases(slopes: SlopeRule, heads: range, distances: NDArray[Any]) -> NDArray[Any]:
    return LinearBias(slopes).values(distances, heads)


@given(
    st.integers(0, 11), st.one_of(st.integers(-MAX_POSITION, MAX_POSITION), st.integers(-100, 100))
)
def test_a_bias_is_the_product_rounded_once(head: int, number: int) -> None:
    ((value,),) = biases(RULE, range(head, head + 1), np.array([number])).tolist()

    exact = Fraction(list(RULE.exact())[head]) * number
    assert abs(Fraction(value) - exact) <= abs(exact) * Fraction(101, 100) / 2**53


def test_heads_past_the_last_slope_have_no_bias() -> None:
    numbers = np.array([1, -2])

    assert biases(RULE, range(12, 14), numbers).tolist() == [[0.0, 0.0]] * 2
    last, past = biases(RULE, range(11, 13), numbers)
    assert last.all()
    assert past.tobytes() == bytes(16)


@pytest.mark.parametrize(
    ("is_symmetric", "is_masked", "expected"),
    [
        (False, False, [-1.0, -0.5, 0.0, 0.5]),
        (True, False, [-1.0, -0.5, 0.0, -0.5]),
        (False, True, [-1.0, -0.5, 0.0, -np.inf]),
        (True, True, [-1.0, -0.5, 0.0, -np.inf]),
    ],
)
def test_keys_after_the_query_have_the_bias_of_the_form(
    is_symmetric: bool, is_masked: bool, expected: list[float]
) -> None:
    linear = LinearBias(GivenSlopes(np.array([0.5])), is_symmetric, is_masked)

    (values,) = linear.values(np.array([-2, -1, 0, 1]), range(1))

    assert values.tolist() == expected
    assert not np.signbit(values[2])


@pytest.mark.parametrize(
    ("query_len", "key_len", "parameters", "expected"),
    [
        (1, 4 * 65_520, {}, False),
        (1, 4 * 65_520 + 1, {}, True),
        (4 * 65_520 + 1, 1, {}, True),
        (1, 16 * 65_520, {"head": 1}, False),
        (1, 16 * 65_520 + 1, {"head": 1}, True),
        (1, 2**61, {"head": 4}, False),
        (1, 2**61, {"masked": True}, False),
        (2**61, 1, {"masked": True}, True),
    ],
)
def test_a_table_overflows_if_a_bias_that_is_not_masked_does(
    query_len: int, key_len: int, parameters: dict[str, Any], expected: bool
) -> None:
    """The slopes are 2^-2, 2^-4, …, and float16 ends below 65520."""
    values = {"num_heads": 4, "total_heads": 5, "dtype": "float16", **parameters}
    family = Alibi.model_validate({"query_len": query_len, "key_len": key_len, **values})

    assert overflows(family.table()) == expected


def masked_keys(mask: object, slopes: list[float] | None = None, **parameters: Any) -> Table:
    arrays = {"attention_mask": StoredTable(np.asarray(mask, dtype=np.int64), INT64)}
    if slopes is not None:
        arrays["slopes"] = StoredTable(np.array(slopes), FLOAT64)
    document = AlibiBias.model_validate(parameters).document(arrays)
    return document.arrays["bias"]


@pytest.mark.parametrize(("length", "expected"), [(65_520, False), (65_521, True)])
def test_biases_under_a_mask_overflow_as_the_largest_does(length: int, expected: bool) -> None:
    assert overflows(masked_keys([[1] * length], [0.25, -1.0], dtype="float16")) == expected


@pytest.mark.parametrize("step", [1, 5, 7, 2**17])
def test_biases_under_a_mask_are_slopes_times_numbers_of_keys(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = np.random.default_rng(0).integers(0, 2, (5, 3))
    table = masked_keys(mask, num_heads=12, dtype="float64")
    monkeypatch.setattr("service.numerics.tables.STEP_ELEMENTS", step)

    values = table.read(0, 180).reshape(5, 12, 1, 3)

    positions = (np.cumsum(mask, axis=1) - 1) * mask
    expected = RULE.of_heads(range(12)).high[:, np.newaxis] * positions[:, np.newaxis]
    assert (values[:, :, 0] == expected).all()
    for start, stop in ((1, 2), (2, 40), (35, 36), (7, 179)):
        assert (table.read(start, stop) == values.reshape(-1)[start:stop]).all()


def exact(convention: str, heads: int, last: float) -> list[mpmath.mpf]:
    def series(count: int) -> list[mpmath.mpf]:
        return [mpf(2) ** (-mpf(last) * (h + 1) / count) for h in range(count)]

    lower = 2 ** floor(log2(heads))
    if convention == "paper" or lower == heads:
        return series(heads)
    return series(lower) + series(2 * lower)[0::2][: heads - lower]


@given(CONVENTIONS, st.integers(1, 150), st.floats(0.001, 100))
def test_a_slope_is_the_float64_nearest_to_its_formula(
    convention: str, heads: int, last: float
) -> None:
    slopes = SlopeRule(convention, heads, last).of_heads(range(heads))

    for slope, low, true in zip(*slopes, exact(convention, heads, last), strict=True):
        assert abs(mpf(float(slope)) - true) <= true * UNIT
        assert abs(mpf(float(slope)) + mpf(float(low)) - true) <= true * mpf(2) ** -105


def test_slopes_are_the_same_in_a_new_thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(lambda: list(SlopeRule("original", 40, 7.5).exact())).result()

    assert in_thread == list(SlopeRule("original", 40, 7.5).exact())


@given(CONVENTIONS, st.integers(1, 3000), st.floats(0.001, 100), st.data())
def test_sizes_are_those_of_the_slopes(
    convention: str, heads: int, last: float, data: st.DataObject
) -> None:
    rule = SlopeRule(convention, heads, last)
    start = data.draw(st.integers(0, heads - 1))
    some = range(start, data.draw(st.integers(start + 1, heads)))

    assert np.abs(rule.sizes(some) / rule.of_heads(some).high - 1).max() <= 2.0**-41


@pytest.mark.parametrize("count", [1, 12, 1024, 1500, 2047, 5000])
@pytest.mark.parametrize("convention", ["original", "paper"])
def test_slopes_of_some_heads_equal_those_among_all(convention: str, count: int) -> None:
    rule = SlopeRule(convention, count, 7.3)
    every = rule.of_heads(range(count))

    assert len(every.high) == count
    for some in (range(1), range(count - 1, count), range(count // 3, count // 2 + 1)):
        slopes = rule.of_heads(some)
        assert slopes.high.tobytes() == every.high[some.start : some.stop].tobytes()
        assert slopes.low.tobytes() == every.low[some.start : some.stop].tobytes()


SLOPES = "/relative/alibi/slopes?dtype=float64&num_heads="
ALIBI = "/relative/alibi"


def test_slopes_are_those_of_the_code_unless_convention_is_paper(client: Client) -> None:
    original, paper = (
        load_data(client.get(f"{SLOPES}12&convention={n}")) for n in ("original", "paper")
    )

    assert original[:8].tolist() == [0.5**k for k in range(1, 9)]
    assert original[8] > original[0]
    assert (np.diff(paper) < 0).all()
    assert np.abs(original - paper).max() == pytest.approx(0.69, abs=0.01)


@pytest.mark.parametrize("name", ["bloom", "mpt", "keras-hub", "x-transformers", "mlx"])
def test_libraries_with_the_same_slopes_share_a_table(client: Client, name: str) -> None:
    own, original = (client.get(f"{SLOPES}12&convention={n}") for n in (name, "original"))

    assert own.content == original.content
    assert own.headers["ETag"] == original.headers["ETag"]


def test_alibi_bias_max_moves_every_slope(client: Client) -> None:
    slopes = load_data(client.get(f"{SLOPES}4&alibi_bias_max=16"))

    assert slopes.tolist() == [2.0**-4, 2.0**-8, 2.0**-12, 2.0**-16]


LINEAR = [[0, 0.5, 1], [-0.5, 0, 0.5], [-1, -0.5, 0]]
SYMMETRIC = [[0, -0.5, -1], [-0.5, 0, -0.5], [-1, -0.5, 0]]


@pytest.mark.parametrize(
    ("name", "query", "expected"),
    [
        ("original", "query_len=3", LINEAR),
        ("paper", "query_len=3", LINEAR),
        ("x-transformers", "query_len=3", SYMMETRIC),
        ("mlx", "query_len=3", SYMMETRIC),
        ("bloom", "key_len=3", [[0, 0.5, 1]]),
        ("mpt", "key_len=3", [[-1, -0.5, 0]]),
        ("keras-hub", "key_len=3", [[-1, -0.5, 0]]),
        ("mpt", "key_positions=4,2,9", [[-2.5, -3.5, 0]]),
        ("original", "key_len=3&form=key", [[0, 0.5, 1]]),
        ("bloom", "query_len=3&form=symmetric", SYMMETRIC),
    ],
)
def test_a_convention_has_the_form_of_its_library(
    client: Client, name: str, query: str, expected: list[list[float]]
) -> None:
    url = f"{ALIBI}?num_heads=8&convention={name}&{query}"

    assert load_data(client.get(f"{url}&head=0")).tolist() == expected
    assert load_data(client.get(url))[0].tolist() == expected


def test_masked_keys_are_null_and_minus_infinity(client: Client) -> None:
    query = "num_heads=8&head=0&query_len=2&masked=true"

    assert client.get(f"{ALIBI}?{query}").json()["data"] == [[0, None], [-0.5, 0]]
    raw = np.frombuffer(client.get(f"{ALIBI}.bin?{query}").content, dtype=np.float32)
    assert raw.tolist() == [0, -np.inf, -0.5, 0]


def test_total_heads_adds_heads_without_a_bias(client: Client) -> None:
    query = f"{ALIBI}?num_heads=6&convention=x-transformers&query_len=2&total_heads="

    assert not load_data(client.get(f"{query}8"))[6:].any()
    assert not load_data(client.get(f"{query}8&head=7")).any()
    assert client.get(f"{query}8").json()["parameters"]["total_heads"] == 8
    assert "total_heads" not in client.get(f"{query}6").json()["parameters"]


def test_the_parameters_of_a_key_form_reproduce_it(client: Client) -> None:
    first = client.get(f"{ALIBI}?num_heads=8&convention=bloom&key_len=3&head=1")

    parameters = first.json()["parameters"]

    assert parameters == {
        "convention": "original",
        "num_heads": 8,
        "alibi_bias_max": 8.0,
        "form": "key",
        "key_start": 0,
        "key_len": 3,
        "head": 1,
    }
    again = client.get(f"{ALIBI}?" + "&".join(f"{k}={v}" for k, v in parameters.items()))
    assert again.content == first.content


def far(client: Client, extension: str, rest: str, position: int = 131_040) -> Any:
    places = f"num_heads=8&head=0&query_len=1&key_positions={position}"
    return client.get(f"{ALIBI}.{extension}?{places}&{rest}")


def test_json_refuses_biases_that_may_be_too_large_for_their_type(client: Client) -> None:
    """In JSON, null is a masked key and nothing else."""
    refused = far(client, "json", "dtype=float16")

    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:posref:problem:unsupported-by-format"
    assert "too large for float16" in refused.json()["detail"]
    assert "npy, safetensors, bin, csv, png" in refused.json()["detail"]
    assert far(client, "json", "dtype=float16", 131_038).json()["data"] == [[65504]]
    assert far(client, "json", "dtype=float32").json()["data"] == [[65520]]
    assert far(client, "csv", "dtype=float16").text == "inf\n"
    assert far(client, "json", "dtype=float16&masked=true").json()["data"] == [[None]]


BIAS = "/relative/alibi/bias"
MASK = [[0, 0, 1, 1], [1, 1, 1, 0]]


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        ("query_len=2", {"slopes": [3.0]}, [[[0, 3], [-3, 0]]]),
        ("query_len=2&form=symmetric&head=0", {"slopes": [3.0]}, [[0, -3], [-3, 0]]),
        ("convention=mpt&key_len=3", {"slopes": [-1.0]}, [[[2, 1, 0]]]),
        ("query_len=1&total_heads=2", {"slopes": [0.0]}, [[[0]], [[0]]]),
        (
            "form=key&head=1",
            {"attention_mask": MASK, "slopes": [1.0, 2.0]},
            [[[0, 0, 0, 2]], [[0, 2, 4, 0]]],
        ),
    ],
)
def test_slopes_make_biases_of_the_form(
    client: Client, query: str, body: dict[str, Any], expected: object
) -> None:
    assert client.post(f"{BIAS}?{query}", json=body).json()["data"] == expected


def test_a_mask_numbers_the_keys_that_count(client: Client) -> None:
    answer = client.post(f"{BIAS}?num_heads=8&convention=bloom", json={"attention_mask": MASK})

    biases = answer.json()
    assert biases["axes"] == ["batch", "head", "query", "key"]
    assert biases["shape"] == [2, 8, 1, 4]
    assert biases["data"][0][0] == [[0, 0, 0, 0.5]]
    assert biases["data"][1][1] == [[0, 0.25, 0.5, 0]]
    assert biases["parameters"] == {
        "convention": "original",
        "num_heads": 8,
        "alibi_bias_max": 8.0,
        "form": "key",
    }


@pytest.mark.parametrize(
    ("query", "body", "where"),
    [
        ("num_heads=8", {}, ""),
        ("num_heads=8", {"attention_mask": [[2, 1]]}, "/attention_mask"),
        ("num_heads=1&query_len=1", {"slopes": [1.0]}, "num_heads"),
        ("alibi_bias_max=9&query_len=1", {"slopes": [1.0]}, "alibi_bias_max"),
        ("query_len=1&head=1", {"slopes": [1.0]}, "head"),
        ("query_len=1&convention=paper", {"slopes": [1.0]}, "convention"),
        ("convention=paper", {"slopes": [1.0], "attention_mask": [[1]]}, "convention"),
        ("convention=bloom", {"slopes": [1.0], "attention_mask": [[1]]}, "convention"),
        ("query_len=1", {"slopes": [1e300]}, "/slopes"),
        ("query_len=1", {"slopes": [1e-300]}, "/slopes"),
        ("query_len=1", {"slopes": [1.0] * 65537}, "/slopes"),
    ],
)
def test_a_refusal_names_the_impossible_array_or_parameter(
    client: Client, query: str, body: dict[str, Any], where: str
) -> None:
    answer = client.post(f"{BIAS}?{query}", json=body)

    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error.get("parameter", error.get("pointer")) == where
