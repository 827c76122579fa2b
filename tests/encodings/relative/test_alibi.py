"""Attention with linear biases.

ALiBi's slopes.

``/relative/alibi`` and ``/relative/alibi/slopes`` through HTTP.

``POST /relative/alibi/bias`` through HTTP.
"""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from math import floor, log2
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.encodings.relative import alibi
from service.encodings.relative.alibi import (
    GivenSlopes,
    Linear,
    MaskedKeysTable,
    SlopeRule,
    SlopesTable,
    sloped,
    slopes,
)
from service.encodings.relative.distance import QueryKey
from service.numerics import tables as table
from service.numerics.dtypes import FLOAT16, FLOAT32, FLOAT64, REAL_DTYPES, to_float64
from service.numerics.phase import MAX_POSITION, Float64s, Int64s
from service.numerics.positions import Positions
from service.numerics.tables import FREQUENCY_WORK, setup_work
from tests.client import Client

RULE = SlopeRule("original", 12, 8.0)
FAR = st.integers(-MAX_POSITION, MAX_POSITION)


@given(st.integers(0, 11), st.one_of(FAR, st.integers(-100, 100)))
def test_a_bias_is_the_product_rounded_once(head: int, number: int) -> None:
    ((got,),) = sloped(RULE, range(head, head + 1), np.array([number])).tolist()

    exact = Fraction(RULE.exact(12)[head]) * number
    assert abs(Fraction(got) - exact) <= abs(exact) * Fraction(101, 100) / 2**53


def test_slopes_of_halves_make_exact_biases() -> None:
    numbers = np.arange(-50, 50)

    assert (sloped(SlopeRule("original", 8, 8.0), range(1), numbers) == [numbers / 2]).all()


def test_heads_past_the_last_slope_have_no_bias() -> None:
    numbers = np.array([1, -2])

    assert sloped(RULE, range(12, 14), numbers).tolist() == [[0.0, 0.0]] * 2
    last, past = sloped(RULE, range(11, 13), numbers)
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
def test_what_a_key_after_the_query_has_is_what_is_asked_for(
    is_symmetric: bool, is_masked: bool, expected: list[float]
) -> None:
    linear = Linear(GivenSlopes(np.array([0.5])), is_symmetric, is_masked)

    (values,) = linear.values(np.array([-2, -1, 0, 1]), range(1))

    assert values.tolist() == expected
    assert not np.signbit(values[2])


def test_the_biases_of_heads_are_one_table() -> None:
    pairs = QueryKey(Positions.contiguous(0, 2), Positions.contiguous(0, 3))
    document = alibi.bias(
        kind="relative-alibi",
        parameters=RULE.parameters(),
        linear=Linear(RULE, is_symmetric=True, is_masked=False),
        pairs=pairs,
        total_heads=14,
        head=None,
        dtype=FLOAT64,
    )

    (biases,) = document.arrays.values()
    assert biases.shape == (14, 2, 3)
    assert document.parameters["total_heads"] == 14
    assert biases.read(0, 6).tolist() == [0, -0.5, -1, -0.5, 0, -0.5]
    assert not biases.read(72, 84).any()


def masked_keys(head: int | None = None, dtype: str = "float64") -> MaskedKeysTable:
    document = alibi.mask_aware(
        parameters={},
        slopes=GivenSlopes(np.array([1.0, 0.5])),
        mask=np.array([[0, 1, 1], [1, 0, 1]]),
        head=head,
        dtype=FLOAT64 if dtype == "float64" else FLOAT16,
    )
    (biases,) = document.arrays.values()
    assert isinstance(biases, MaskedKeysTable)
    return biases


def test_keys_are_numbered_by_the_mask_and_padding_is_at_nothing() -> None:
    biases = masked_keys()

    assert biases.shape == (2, 2, 1, 3)
    assert biases.read(0, 12).tolist() == [0, 0, 1, 0, 0, 0.5, 0, 0, 1, 0, 0, 0.5]
    assert biases.work_per_element == 1


def test_one_head_under_a_mask_has_no_axis_of_heads() -> None:
    biases = masked_keys(head=1)

    assert biases.shape == (2, 1, 3)
    assert biases.read(0, 6).tolist() == [0, 0, 0.5, 0, 0, 0.5]


def test_any_part_of_a_masked_table_is_that_of_the_whole() -> None:
    biases = masked_keys(dtype="float16")

    whole = biases.read(0, 12)
    for start in range(12):
        for stop in range(start + 1, 13):
            assert biases.read(start, stop).tobytes() == whole[start:stop].tobytes()


@pytest.mark.parametrize("is_symmetric", [False, True])
@pytest.mark.parametrize("is_masked", [False, True])
def test_a_head_has_the_bytes_that_it_has_among_others(is_symmetric: bool, is_masked: bool) -> None:
    linear = Linear(RULE, is_symmetric, is_masked)
    distances = np.array([-(2**61), -5000, 0, 3, 2**53 + 1])

    together = linear.values(distances, range(14))

    for head in range(14):
        alone = linear.values(distances, range(head, head + 1))
        assert alone.tobytes() == together[head].tobytes()


def overflows(queries: int, keys: int, *, is_masked: bool = False, head: int | None = None) -> bool:
    document = alibi.bias(
        kind="relative-alibi",
        parameters={},
        linear=Linear(SlopeRule("original", 4, 8.0), is_symmetric=False, is_masked=is_masked),
        pairs=QueryKey(Positions.contiguous(0, queries), Positions.contiguous(0, keys)),
        total_heads=5,
        head=head,
        dtype=FLOAT16,
    )
    return table.overflows(document.arrays["bias"])


def test_a_table_that_may_overflow_says_so() -> None:
    """The slopes are 2^-2, 2^-4, …, and 65520 is what float16 has no room for."""
    assert not overflows(1, 4 * 65_520)
    assert overflows(1, 4 * 65_520 + 1)
    assert overflows(4 * 65_520 + 1, 1)
    assert not overflows(1, 16 * 65_520, head=1)
    assert overflows(1, 16 * 65_520 + 1, head=1)
    assert not overflows(1, 2**61, head=4)


def test_a_key_that_is_masked_does_not_overflow() -> None:
    assert not overflows(1, 2**61, is_masked=True)
    assert overflows(2**61, 1, is_masked=True)


def test_biases_under_a_mask_may_overflow() -> None:
    for length, expected in ((65_520, False), (65_521, True)):
        document = alibi.mask_aware(
            parameters={},
            slopes=GivenSlopes(np.array([0.25, -1.0])),
            mask=np.ones((1, length), dtype=np.int64),
            head=None,
            dtype=FLOAT16,
        )
        assert table.overflows(document.arrays["bias"]) == expected


@pytest.mark.parametrize("step", [1, 5, 7, 2**17])
def test_rows_under_a_mask_are_the_same_by_parts(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = np.random.default_rng(0).integers(0, 2, (5, 3))
    document = alibi.mask_aware(parameters={}, slopes=RULE, mask=mask, head=None, dtype=FLOAT64)
    monkeypatch.setattr("service.numerics.tables.STEP_ELEMENTS", step)

    found = document.arrays["bias"].read(0, 180).reshape(5, 12, 1, 3)

    positions = (np.cumsum(mask, axis=1) - 1) * mask
    expected = RULE.pairs(range(12)).high[:, np.newaxis] * positions[:, np.newaxis]
    assert (found[:, :, 0] == expected).all()


def test_many_heads_of_few_pairs_are_evaluated_together() -> None:
    """65,536 rounds of NumPy would take seconds, which one short thread would be held for."""
    pairs = QueryKey(Positions.contiguous(0, 1), Positions.contiguous(0, 1))
    calls = []

    class Counted(Linear):
        def values(self, distances: Int64s, heads: range) -> Float64s:
            calls.append(len(heads))
            return super().values(distances, heads)

    linear = Counted(GivenSlopes(np.ones(65_536)), is_symmetric=False, is_masked=False)
    document = alibi.bias(
        kind="relative-alibi",
        parameters={},
        linear=linear,
        pairs=pairs,
        total_heads=65_536,
        head=None,
        dtype=FLOAT64,
    )
    document.arrays["bias"].read(0, 65_536)

    assert calls == [65_536]


mpf = mpmath.mpf


def exact(convention: str, heads: int, last: float) -> list[mpmath.mpf]:
    def series(count: int) -> list[mpmath.mpf]:
        return [mpf(2) ** (-mpf(last) * (h + 1) / count) for h in range(count)]

    lower = 2 ** floor(log2(heads))
    if convention == "paper" or lower == heads:
        return series(heads)
    return series(lower) + series(2 * lower)[0::2][: heads - lower]


@given(st.sampled_from(["original", "paper"]), st.integers(1, 150), st.floats(0.001, 100))
def test_a_slope_is_the_float64_nearest_to_its_formula(
    convention: str, heads: int, last: float
) -> None:
    rule = SlopeRule(convention, heads, last)

    got = SlopesTable(rule, FLOAT64).read(0, heads)

    lows = rule.pairs(range(heads)).low
    for found, low, true in zip(got, lows, exact(convention, heads, last), strict=True):
        assert abs(mpf(float(found)) - true) <= true * mpf(2) ** -53
        assert abs(mpf(float(found)) + mpf(float(low)) - true) <= true * mpf(2) ** -105


def test_eight_heads_have_the_powers_of_a_half() -> None:
    eight = SlopeRule("original", 8, 8.0).pairs(range(8))
    assert eight.high.tolist() == [0.5**k for k in range(1, 9)]
    assert SlopeRule("original", 1, 8.0).pairs(range(1)).high.tolist() == [2.0**-8]


def test_the_rules_differ_where_heads_are_no_power_of_two() -> None:
    original, paper = (
        SlopeRule(name, 12, 8.0).pairs(range(12)).high for name in ("original", "paper")
    )

    assert (original[:8] == [0.5**k for k in range(1, 9)]).all()
    assert (np.diff(paper) < 0).all()
    assert original[8] > original[0]
    assert np.abs(original - paper).max() == pytest.approx(0.69, abs=0.01)


def test_a_part_of_the_slopes_is_a_part_of_the_whole() -> None:
    table = SlopesTable(SlopeRule("original", 40, 8.0), FLOAT32)

    assert table.shape == (40,)
    assert table.read(13, 17).tobytes() == table.read(0, 40)[13:17].tobytes()


@pytest.mark.parametrize("name", list(REAL_DTYPES))
def test_slopes_come_in_every_real_type(name: str) -> None:
    document = slopes(rule=SlopeRule("original", 12, 8.0), dtype=REAL_DTYPES[name])

    (table,) = document.arrays.values()
    found = to_float64(table.read(0, 12), table.dtype)
    ours = SlopeRule("original", 12, 8.0).pairs(range(12)).high
    assert np.abs(found / ours - 1).max() <= 2.0**-8
    assert document.parameters == {
        "convention": "original",
        "num_heads": 12,
        "alibi_bias_max": 8.0,
    }


def test_slopes_that_are_sent_are_taken_as_they_are() -> None:
    given_slopes = GivenSlopes(np.array([0.1, -3.0]))

    assert given_slopes.count == 2
    assert given_slopes.pairs(range(2)).high.tolist() == [0.1, -3.0]
    assert given_slopes.pairs(range(1, 2)).high.tolist() == [-3.0]
    assert given_slopes.pairs(range(2)).low.tolist() == [0.0, 0.0]
    assert given_slopes.sizes(range(2)).tolist() == [0.1, 3.0]


def test_slopes_are_the_same_in_a_bare_thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(SlopeRule("original", 40, 7.5).exact, 40).result()

    assert in_thread == SlopeRule("original", 40, 7.5).exact(40)
    assert isinstance(in_thread[0], Decimal)


@given(
    st.sampled_from(["original", "paper"]), st.integers(1, 3000), st.floats(0.001, 100), st.data()
)
def test_sizes_are_those_of_the_slopes(
    convention: str, heads: int, last: float, data: st.DataObject
) -> None:
    rule = SlopeRule(convention, heads, last)
    start = data.draw(st.integers(0, heads - 1))
    some = range(start, data.draw(st.integers(start + 1, heads)))

    assert np.abs(rule.sizes(some) / rule.pairs(some).high - 1).max() <= 2.0**-41


@pytest.mark.parametrize("count", [1, 12, 1024, 1500, 2047, 5000])
@pytest.mark.parametrize("convention", ["original", "paper"])
def test_the_slopes_of_some_heads_are_those_among_all(convention: str, count: int) -> None:
    rule = SlopeRule(convention, count, 7.3)
    every = rule.pairs(range(count))

    assert len(every.high) == count
    for some in (range(1), range(count - 1, count), range(count // 3, count // 2 + 1)):
        found = rule.pairs(some)
        assert found.high.tobytes() == every.high[some.start : some.stop].tobytes()
        assert found.low.tobytes() == every.low[some.start : some.stop].tobytes()


def test_no_more_slopes_are_evaluated_than_the_heads_that_are_asked_for_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluated = []
    exact_slopes = SlopeRule.exact

    def counted(rule: SlopeRule, heads: int) -> list[Decimal]:
        evaluated.append(heads)
        return exact_slopes(rule, heads)

    monkeypatch.setattr(SlopeRule, "exact", counted)
    rule = SlopeRule("original", 65_535, 6.25)
    rule.pairs(range(1))
    rule.pairs(range(900, 1024))
    rule.pairs(range(3000, 3001))

    assert evaluated == [1024, 4096]


def test_only_slopes_of_a_rule_take_setting_up() -> None:
    assert setup_work(SlopeRule("original", 12, 8.0)) == 12 * FREQUENCY_WORK
    assert setup_work(GivenSlopes(np.ones(12))) == 0


SLOPES = "/relative/alibi/slopes?dtype=float64&num_heads="


def relative_alibi_table(
    client: Client, url: str
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["data"])


def parameters(client: Client, url: str) -> dict[str, object]:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()["parameters"]
    return found


def test_slopes_are_those_of_the_code_unless_the_paper_is_named(client: Client) -> None:
    original, paper = (
        relative_alibi_table(client, f"{SLOPES}12&convention={n}") for n in ("original", "paper")
    )

    assert original[:8].tolist() == [0.5**k for k in range(1, 9)]
    assert np.abs(original - paper).max() == pytest.approx(0.69, abs=0.01)


@pytest.mark.parametrize("name", ["bloom", "mpt", "keras-hub", "x-transformers", "mlx"])
def test_libraries_with_the_same_slopes_have_one_table(client: Client, name: str) -> None:
    own, original = (client.get(f"{SLOPES}12&convention={n}") for n in (name, "original"))

    assert own.content == original.content
    assert own.headers["ETag"] == original.headers["ETag"]


def test_the_largest_exponent_moves_every_slope(client: Client) -> None:
    assert relative_alibi_table(client, f"{SLOPES}4&alibi_bias_max=16").tolist() == [
        2.0**-4,
        2.0**-8,
        2.0**-12,
        2.0**-16,
    ]


LINEAR = [[0, 0.5, 1], [-0.5, 0, 0.5], [-1, -0.5, 0]]
SYMMETRIC = [[0, -0.5, -1], [-0.5, 0, -0.5], [-1, -0.5, 0]]


@pytest.mark.parametrize(
    ("name", "asked", "expected"),
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
def test_a_name_does_what_its_library_does(
    client: Client, name: str, asked: str, expected: list[list[float]]
) -> None:
    url = f"/relative/alibi?num_heads=8&convention={name}&{asked}"

    assert relative_alibi_table(client, f"{url}&head=0").tolist() == expected
    assert relative_alibi_table(client, url)[0].tolist() == expected


def test_masked_keys_are_null_and_minus_infinity(client: Client) -> None:
    query = "num_heads=8&head=0&query_len=2&masked=true"

    assert client.get(f"/relative/alibi?{query}").json()["data"] == [[0, None], [-0.5, 0]]
    raw = np.frombuffer(client.get(f"/relative/alibi.bin?{query}").content, dtype=np.float32)
    assert raw.tolist() == [0, -np.inf, -0.5, 0]


def test_heads_beyond_those_with_a_slope_have_no_bias(client: Client) -> None:
    query = "num_heads=6&total_heads=8&convention=x-transformers&query_len=2"

    assert not relative_alibi_table(client, f"/relative/alibi?{query}")[6:].any()
    assert not relative_alibi_table(client, f"/relative/alibi?{query}&head=7").any()
    assert "total_heads" not in parameters(client, f"/relative/alibi?{query.replace('8', '6')}")


def test_the_answer_says_its_form_and_asks_for_itself(client: Client) -> None:
    first = client.get("/relative/alibi?num_heads=8&convention=bloom&key_len=3&head=1")

    said = first.json()["parameters"]
    assert said == {
        "convention": "original",
        "num_heads": 8,
        "alibi_bias_max": 8.0,
        "form": "key",
        "key_start": 0,
        "key_len": 3,
        "head": 1,
    }
    again = client.get("/relative/alibi?" + "&".join(f"{k}={v}" for k, v in said.items()))
    assert again.content == first.content


def test_far_positions_are_as_good_as_near_ones(client: Client) -> None:
    query = "num_heads=8&head=7&query_positions=4611686018427387904&key_positions=0"

    assert relative_alibi_table(client, f"/relative/alibi?{query}&dtype=float64").tolist() == [
        [-(2.0**54)]
    ]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("query_len=2", "num_heads"),
        ("num_heads=0&query_len=2", "num_heads"),
        ("num_heads=8", "query_len"),
        ("num_heads=8&query_len=2&head=8", "head"),
        ("num_heads=8&query_len=2&total_heads=7", "total_heads"),
        ("num_heads=8&query_len=2&alibi_bias_max=0", "alibi_bias_max"),
        ("num_heads=8&query_len=2&convention=alibi", "convention"),
        ("num_heads=8&convention=bloom", "key_len"),
        ("num_heads=8&convention=bloom&key_len=2&query_len=2", "query_len"),
        ("num_heads=8&convention=bloom&key_len=2&masked=true", "masked"),
        (f"num_heads=8&form=last-key&key_positions={-(2**62)},{2**62}", "key_positions"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, query: str, parameter: str) -> None:
    answer = client.get(f"/relative/alibi?{query}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


RELATIVE_ALIBI_FAR = "num_heads=8&head=0&query_len=1&key_positions=131040"


def test_json_refuses_biases_that_may_be_too_large_for_their_type(client: Client) -> None:
    """Null is a key that is masked, and nothing else."""
    near = RELATIVE_ALIBI_FAR.replace("131040", "131038")
    refused = client.get(f"/relative/alibi.json?{RELATIVE_ALIBI_FAR}&dtype=float16")

    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:posref:problem:unsupported-by-format"
    assert "too large for float16" in refused.json()["detail"]
    assert "npy, safetensors, bin, csv, png" in refused.json()["detail"]
    assert client.get(f"/relative/alibi.json?{near}&dtype=float16").json()["data"] == [[65504]]
    assert client.get(f"/relative/alibi.json?{RELATIVE_ALIBI_FAR}&dtype=float32").json()[
        "data"
    ] == [[65520]]


def test_csv_has_infinity_for_biases_that_are_too_large(client: Client) -> None:
    assert client.get(f"/relative/alibi.csv?{RELATIVE_ALIBI_FAR}&dtype=float16").text == "inf\n"


def test_keys_that_are_masked_are_null_however_far_they_are(client: Client) -> None:
    answer = client.get(f"/relative/alibi.json?{RELATIVE_ALIBI_FAR}&dtype=float16&masked=true")

    assert answer.json()["data"] == [[None]]


PATH = "/relative/alibi/bias"
MASK = [[0, 0, 1, 1], [1, 1, 1, 0]]


def data(client: Client, query: str, **body: Any) -> Any:
    answer = client.post(f"{PATH}?{query}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_a_mask_numbers_the_keys_it_leaves(client: Client) -> None:
    found = data(client, "num_heads=8&convention=bloom", attention_mask=MASK)

    assert found[0][0] == [[0, 0, 0, 0.5]]
    assert found[1][1] == [[0, 0.25, 0.5, 0]]


def test_a_mask_and_slopes_go_together_and_one_head_alone(client: Client) -> None:
    query = "form=key&head=1"

    assert data(client, query, attention_mask=MASK, slopes=[1.0, 2.0]) == [
        [[0, 0, 0, 2]],
        [[0, 2, 4, 0]],
    ]


def test_slopes_make_the_form_that_is_asked_for(client: Client) -> None:
    assert data(client, "query_len=2", slopes=[3.0]) == [[[0, 3], [-3, 0]]]
    assert data(client, "query_len=2&form=symmetric&head=0", slopes=[3.0]) == [[0, -3], [-3, 0]]
    assert data(client, "convention=mpt&key_len=3", slopes=[-1.0]) == [[[2, 1, 0]]]
    assert data(client, "query_len=1&total_heads=2", slopes=[0.0]) == [[[0]], [[0]]]


def test_the_answer_says_what_it_made(client: Client) -> None:
    answer = client.post(f"{PATH}?num_heads=2", json={"attention_mask": [[1]]}).json()

    assert answer["kind"] == "relative-alibi-bias"
    assert answer["shape"] == [1, 2, 1, 1]
    assert answer["parameters"] == {
        "convention": "original",
        "num_heads": 2,
        "alibi_bias_max": 8.0,
        "form": "key",
    }


@pytest.mark.parametrize(
    ("query", "body", "where"),
    [
        ("num_heads=8", {}, ""),
        ("num_heads=8", {"attention_mask": [[2, 1]]}, "/attention_mask"),
        ("num_heads=8", {"attention_mask": [1, 1]}, "/attention_mask"),
        ("", {"attention_mask": [[1, 1]]}, "num_heads"),
        ("num_heads=8&masked=true", {"attention_mask": [[1]]}, "masked"),
        ("num_heads=8&key_len=1", {"attention_mask": [[1]]}, "key_len"),
        ("num_heads=8&form=linear", {"attention_mask": [[1]]}, "form"),
        ("num_heads=8&convention=mpt", {"attention_mask": [[1]]}, "convention"),
        ("num_heads=1&query_len=1", {"slopes": [1.0]}, "num_heads"),
        ("alibi_bias_max=9&query_len=1", {"slopes": [1.0]}, "alibi_bias_max"),
        ("query_len=1&head=1", {"slopes": [1.0]}, "head"),
        ("query_len=1&convention=paper", {"slopes": [1.0]}, "convention"),
        ("convention=paper", {"slopes": [1.0], "attention_mask": [[1]]}, "convention"),
        ("convention=original", {"slopes": [1.0], "attention_mask": [[1]]}, "convention"),
        ("convention=bloom", {"slopes": [1.0], "attention_mask": [[1]]}, "convention"),
        ("query_len=1", {"slopes": [1e300]}, "/slopes"),
        ("query_len=1", {"slopes": [1e-300]}, "/slopes"),
        ("query_len=1", {"slopes": [1.0] * 65537}, "/slopes"),
    ],
)
def test_what_is_impossible_is_named(
    client: Client, query: str, body: dict[str, Any], where: str
) -> None:
    answer = client.post(f"{PATH}?{query}", json=body)

    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error.get("parameter", error.get("pointer")) == where
