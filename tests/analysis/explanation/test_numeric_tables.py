"""Biases, indices, frequencies and grids: their order, factor, rows and settings are compared."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from service.analysis.array import Sample, TableRequest
from service.analysis.explanation import numeric_tables
from service.analysis.explanation.catalogue import mistake
from service.analysis.explanation.engine import Explanation
from service.analysis.explanation.numeric_tables import Alternative, Numbers, explain_numbers
from service.numerics.dtypes import BFLOAT16, COMPLEX64, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable
from service.routes.another_table import other_settings
from service.routes.expected_tables import elements_of, expected_at, numbers_of
from service.routes.table_urls import read_url
from tests.analysis.samples import float_sample, sample_from
from tests.analysis.turning import names

LEARNED: Float64s = np.random.default_rng(7).normal(size=(32, 16))


def against(want: Float64s, have: Float64s, dtype: DType = FLOAT32, **given: Any) -> Explanation:
    """Return what an array is in place of another."""
    numbers = Numbers({"x": float_sample(want, FLOAT64)}, dtype, **given)
    found = explain_numbers({"x": float_sample(have, dtype)}, numbers)
    assert found is not None
    return found


def halves(table: Float64s) -> Float64s:
    return np.hstack([table[:, ::2], table[:, 1::2]])


DISORDERS: Mapping[str, tuple[list[str], Float64s]] = {
    "right": (["equal"], LEARNED),
    "transposed": (["transposed"], LEARNED.T),
    "halves": (["halves-swapped"], np.roll(LEARNED, 8, axis=1)),
    "neighbours": (["halves-swapped"], LEARNED[:, np.arange(16) ^ 1]),
    "half for interleaved": (["layout-swapped"], halves(LEARNED)),
    "interleaved for half": (
        ["layout-swapped"],
        np.stack([LEARNED[:, :8], LEARNED[:, 8:]], axis=-1).reshape(32, 16),
    ),
    "reversed": (["positions-reversed"], LEARNED[::-1]),
    "a quarter": (["missing-factor"], LEARNED / 4),
    "two and a half": (["extra-factor"], LEARNED * 2.5),
    "fewer rows": (["truncated"], LEARNED[:20]),
    "fewer channels": (["truncated"], LEARNED[:, :12]),
    "more rows": (["longer"], np.vstack([LEARNED, LEARNED[:2]])),
    "three rows on": (["position-offset", "truncated"], LEARNED[3:]),
    "rounded": (["rounded-decimals"], np.round(LEARNED, 3)),
    "reversed halves": (["layout-swapped", "positions-reversed"], halves(LEARNED)[::-1]),
    "a transposed half": (["layout-swapped", "transposed"], halves(LEARNED).T),
    "fewer rows of a half": (["layout-swapped", "truncated"], halves(LEARNED)[:20]),
}


@pytest.mark.parametrize("name", DISORDERS)
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=lambda dtype: dtype.name)
def test_what_was_done_to_a_table_of_numbers_is_named(name: str, dtype: DType) -> None:
    wanted, have = DISORDERS[name]

    found = against(LEARNED, have, dtype)

    assert names(found) == wanted
    # Rows and channels beyond the expected ones are compared with nothing.
    assert found.elements == min(have.size, LEARNED.size)
    assert all(each.sentence and each.correction for each in found.mistakes)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16, FLOAT32, FLOAT64], ids=lambda each: each.name)
def test_a_table_in_its_own_type_is_equal(dtype: DType) -> None:
    assert names(against(LEARNED, LEARNED, dtype)) == ["equal"]


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16], ids=lambda each: each.name)
def test_numbers_that_were_rounded_to_a_narrow_type_are_narrow_tables(dtype: DType) -> None:
    narrow = float_sample(LEARNED, dtype).reals()

    found = against(LEARNED, narrow)

    assert names(found) == ["narrow-tables"]
    assert found.mistakes[0].values == {"dtype": dtype.name}


@pytest.mark.parametrize("factor", [0.5, 0.125, 3.0, 1.4426950408889634])
def test_a_factor_of_all_numbers_has_its_value(factor: float) -> None:
    (found,) = against(LEARNED, LEARNED * factor).mistakes

    assert found.values["ratio"] == pytest.approx(factor, rel=1e-5)
    assert found.values["factor"] == pytest.approx(max(factor, 1 / factor), rel=1e-5)


@pytest.mark.parametrize("rows", [1, 7, 30])
def test_rows_that_begin_later_have_their_shift(rows: int) -> None:
    found = against(
        np.arange(64.0)[:, None] ** [0.5, 1.5], np.arange(rows, 64.0)[:, None] ** [0.5, 1.5]
    )

    offset = next(each for each in found.mistakes if each.name == "position-offset")
    assert offset.values == {"rows": rows, "have": rows, "want": 0}


def test_another_table_has_no_explanation_and_no_place() -> None:
    other = np.random.default_rng(8).normal(size=(32, 16)) + 1

    found = against(LEARNED, other)

    assert (found.verdict, found.mistakes, found.findings) == ("none", (), ())


@pytest.mark.parametrize(
    ("where", "place"),
    [
        (np.s_[20:], "rows from 20 on"),
        (np.s_[:, 3], "channel 3"),
        (np.s_[5, 6], "row 5, channel 6"),
    ],
)
def test_the_place_of_wrong_numbers_is_said(where: Any, place: str) -> None:
    have = LEARNED.copy()
    have[where] += 0.5

    found = against(LEARNED, have)

    assert found.verdict == "none"
    assert found.findings[0].text == f"right but for {place}"


def test_shapes_that_have_nothing_in_common_are_not_compared() -> None:
    numbers = Numbers({"x": float_sample(LEARNED, FLOAT64)}, FLOAT32)

    assert explain_numbers({"x": float_sample(np.ones((3, 50)))}, numbers) is None
    assert explain_numbers({"x": float_sample(np.ones((3, 5, 2)))}, numbers) is None


GRID = np.arange(6.0 * 8).reshape(6, 8) ** 1.5
COLUMN_MAJOR = GRID.reshape(2, 3, 8).swapaxes(0, 1).reshape(6, 8)


@pytest.mark.parametrize(
    ("grid", "wanted"), [((2, 3), ["axes-swapped"]), (None, ["none"]), ((6, 1), ["none"])]
)
def test_cells_in_the_other_order_are_swapped_axes_of_a_grid(
    grid: tuple[int, int] | None, wanted: list[str]
) -> None:
    assert names(against(GRID, COLUMN_MAJOR, grid=grid)) == wanted


def test_two_axes_in_front_that_are_exchanged_are_swapped() -> None:
    table = np.random.default_rng(3).normal(size=(3, 5, 4))

    assert names(against(table, table.swapaxes(0, 1))) == ["axes-swapped"]
    assert names(against(table, table.transpose(2, 0, 1))) == ["transposed"]
    assert names(against(table, table)) == ["equal"]


def test_infinities_are_compared() -> None:
    mask = np.where(np.tri(6), 0.0, -np.inf)
    wrong = np.where(np.tri(6, k=-1), 0.0, -np.inf)
    with np.errstate(invalid="ignore"):
        right, other = (against(mask, each) for each in (mask, wrong))

    assert right.verdict == "equal"
    assert other.verdict == "none"


@pytest.mark.parametrize(
    ("numbers", "decimals"),
    [
        (np.sin(np.arange(1.0, 40.0)), 0),
        (np.round(np.sin(np.arange(1.0, 40.0)), 1), 1),
        (np.round(np.sin(np.arange(1.0, 40.0)), 6), 6),
        (np.arange(3.0), 0),
        (np.array([0.5, 1.0, 0.25]), 0),
        (np.sin(np.arange(40.0)).astype(np.float16).astype(np.float64), 0),
    ],
    ids=str,
)
def test_decimals_are_counted_unless_there_are_too_few_numbers(
    numbers: Float64s, decimals: int
) -> None:
    assert numeric_tables._decimals(numbers) == decimals


def table_of(url: str) -> dict[str, Sample]:
    """Return the arrays of a URL."""
    return {
        name: sample_from(elements_of(table), None if "int" in table.dtype.name else table.dtype)
        for name, table in read_url(url).document.arrays.items()
    }


def examined(url: str, have: Mapping[str, Sample]) -> Explanation:
    """Return what arrays are in place of the table of a URL, other settings included."""
    sent = sum(sample.values.size for sample in have.values())
    expected = expected_at(url, max(sample.shape[0] for sample in have.values()))
    assert expected.target is None
    numbers = numbers_of(expected.request, expected.document, sent)
    found = explain_numbers(have, numbers, partial(other_settings, expected.request, sent))
    assert found is not None
    return found


def changed(
    have: Mapping[str, Sample], change: Callable[[Float64s], Float64s]
) -> dict[str, Sample]:
    return {
        name: float_sample(change(sample.reals()), FLOAT64 if sample.is_integer else sample.dtype)
        for name, sample in have.items()
    }


ALIBI = "/relative/alibi?num_heads=8&query_len=6"
T5 = "/relative/t5?query_len=20&key_len=24&num_buckets=8&max_distance=20"
INV_FREQ = "/rope/frequencies?part=inv_freq&head_dim=32&rope_theta=500000"
SWIN = "/relative/swin?window_size=3,5"
SYMMETRIC = "/relative/alibi?num_heads=12&query_len=8&form=symmetric"
KERPLE = "/relative/kerple?a=1,0.5&p=2,1&query_len=4"
URLS = (
    ALIBI,
    T5,
    INV_FREQ,
    SWIN,
    KERPLE,
    "/relative/alibi/slopes?num_heads=12",
    "/relative/sandwich?num_heads=4&head_dim=16&query_len=4",
    "/relative/deberta?query_len=9&key_len=9&bucket_size=4&max_position=12",
    "/encoding/frequencies?part=frequency&d_model=16",
)


@pytest.mark.parametrize("url", URLS)
def test_a_table_of_the_service_is_equal_to_itself(url: str) -> None:
    found = examined(url, table_of(url))

    assert (found.verdict, found.mistakes) == ("equal", ())


def negated(table: Float64s) -> Float64s:
    return -table


def in_bfloat16(table: Float64s) -> Float64s:
    return float_sample(table, BFLOAT16).reals()


@pytest.mark.parametrize(
    ("url", "change", "wanted"),
    [
        (ALIBI, lambda each: each * 2, ["extra-factor"]),
        (ALIBI, lambda each: each / 8, ["missing-factor"]),
        (ALIBI, lambda each: each[:3], ["truncated"]),
        (ALIBI, lambda each: each.swapaxes(0, 2), ["transposed"]),
        (ALIBI, lambda each: np.round(each, 2), ["rounded-decimals"]),
        (ALIBI, lambda each: each[::-1], None),
        (ALIBI, negated, ["wrong-sign"]),
        (KERPLE, lambda each: each * -1.5, ["extra-factor", "wrong-sign"]),
        (SYMMETRIC, lambda each: each / -3, ["missing-factor", "wrong-sign"]),
        (SYMMETRIC, lambda each: in_bfloat16(-each), ["narrow-tables", "wrong-sign"]),
        (INV_FREQ, lambda each: in_bfloat16(each * 3.3), ["extra-factor", "narrow-tables"]),
        (ALIBI, lambda each: each[:, :5, :5], ["truncated", "truncated"]),
        (T5, lambda each: each + 1, ["position-offset"]),
        (T5, lambda each: each.T, ["transposed"]),
        (T5, lambda each: each[:12], ["truncated"]),
        (T5, negated, ["wrong-sign"]),
        (INV_FREQ, lambda each: each * 4, ["extra-factor"]),
        (INV_FREQ, lambda each: each[:9], ["truncated"]),
        (KERPLE, lambda each: each * 1.5, ["extra-factor"]),
    ],
)
def test_mistakes_in_a_bias_an_index_or_frequencies_are_named(
    url: str, change: Callable[[Float64s], Float64s], wanted: list[str] | None
) -> None:
    found = examined(url, changed(table_of(url), change))

    assert names(found) == (wanted or [found.verdict])
    assert wanted or found.verdict == "none"
    assert len(found.alternatives) == (change is negated and url is ALIBI)


SETTINGS = [
    (T5, "/relative/t5?query_len=20&key_len=24&num_buckets=8"),
    (T5, "/relative/t5?query_len=20&key_len=24&max_distance=20"),
]


@pytest.mark.parametrize(("url", "other"), SETTINGS)
def test_a_setting_that_was_left_out_is_named(url: str, other: str) -> None:
    found = examined(url, table_of(other))

    assert names(found) == ["config-key-ignored"]
    assert found.request is not None
    asked = {key: str(value) for key, value in read_url(other).request.parameters.items()}
    assert found.request.parameters == asked


@pytest.mark.parametrize("base", [10000, 1000000, 5000000])
def test_frequencies_of_another_base_are_named(base: int) -> None:
    other = INV_FREQ.replace("500000", str(base))

    found = examined(INV_FREQ, table_of(other))

    assert names(found) == ["wrong-base"]
    assert found.mistakes[0].values["have"] == base


def test_integers_of_a_file_are_compared_as_they_are() -> None:
    buckets = table_of(T5)
    ((name, table),) = buckets.items()
    assert table.is_integer
    wrong = sample_from(np.where(table.values == 3, 4, table.values).astype(np.int64))

    found = examined(T5, {name: wrong})

    assert found.verdict == "none"
    assert names(examined(T5, buckets)) == ["equal"]


def test_an_index_that_is_off_by_one_is_no_rounding() -> None:
    index: Float64s = np.arange(40.0, 232.0).reshape(24, 8)
    ids = np.arange(400.0).reshape(50, 8)

    assert names(against(index, index + 1, FLOAT64)) != ["narrow-tables"]
    assert names(against(ids, float_sample(ids, BFLOAT16).reals())) == ["narrow-tables"]


def _others(want: Float64s) -> Iterator[Alternative]:
    request = TableRequest("relative/alibi/bias", {"num_heads": 4})
    numbers = Numbers({"x": float_sample(want, FLOAT64)}, FLOAT32)
    yield mistake("axes-swapped", None, {"first": "h", "second": "w"}), request, numbers


@pytest.mark.parametrize(
    ("change", "wanted", "has_request"),
    [
        (lambda each: each, ["axes-swapped"], True),
        (lambda each: each[:20], ["axes-swapped", "truncated"], False),
    ],
)
def test_the_table_of_other_settings_is_linked_where_nothing_else_is_wrong(
    change: Callable[[Float64s], Float64s], wanted: list[str], has_request: bool
) -> None:
    other = np.random.default_rng(9).normal(size=LEARNED.shape)
    have = {"x": float_sample(change(other))}
    numbers = Numbers({"x": float_sample(LEARNED, FLOAT64)}, FLOAT32)

    found = explain_numbers(have, numbers, partial(_others, other))

    assert found is not None
    assert names(found) == wanted
    assert (found.request is not None) == has_request


def test_complex_numbers_are_compared_by_their_parts() -> None:
    waves = np.exp(1j * np.outer(np.arange(6), [1.0, 0.1])).astype("<c8")
    want = Sample.of(StoredTable(waves, COMPLEX64))
    have = Sample.of(StoredTable(waves.conj(), COMPLEX64))
    right, wrong = (
        explain_numbers({"x": each}, Numbers({"x": want}, FLOAT32)) for each in (want, have)
    )

    assert right is not None
    assert right.verdict == "equal"
    assert wrong is not None
    assert wrong.verdict == "none"


@pytest.mark.parametrize("row", [28, 31])
def test_every_row_that_is_known_is_compared_after_a_shift(row: int) -> None:
    have = LEARNED[3:].copy()
    have[row - 3] += 1

    assert against(LEARNED, have).verdict == "none"
    assert names(against(LEARNED, LEARNED[3:])) == ["position-offset", "truncated"]


# A bound that is changed on purpose: the tests above can fail.


def test_with_a_step_that_is_too_large_another_table_is_equal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert names(against(LEARNED, LEARNED + 1e-3)) == ["none"]

    monkeypatch.setattr(numeric_tables, "spacing", lambda values, _: np.full(values.shape, 1e-2))

    assert names(against(LEARNED, LEARNED + 1e-3)) == ["equal"]


@pytest.mark.parametrize(
    ("url", "index", "part"),
    [
        (INV_FREQ, (3,), np.s_[:]),
        (INV_FREQ, (3,), np.s_[:9]),
        (ALIBI, (3, 4, 2), np.s_[:]),
        (ALIBI, (3, 4, 2), np.s_[:, :6, :5]),
    ],
)
def test_place_of_a_wrong_number_has_a_number_for_each_axis(
    url: str, index: tuple[int, ...], part: Any
) -> None:
    have = next(iter(table_of(url).values())).reals()[part].copy()
    have[index] += 1

    found = examined(url, {name: float_sample(have, FLOAT32) for name in table_of(url)})

    assert (found.verdict, found.findings[0].values["index"]) == ("none", [*index])


@pytest.mark.parametrize(
    ("change", "more"),
    [
        (negated, []),
        (lambda each: each * -2, ["extra-factor"]),
        (lambda each: each / -2, ["missing-factor"]),
        (lambda each: in_bfloat16(-each), ["narrow-tables"]),
    ],
)
def test_distances_of_the_wrong_sign_may_be_those_in_another_order(
    change: Callable[[Float64s], Float64s], more: list[str]
) -> None:
    both = SYMMETRIC.replace("&form=symmetric", "")

    one, other = (examined(url, changed(table_of(url), change)) for url in (both, SYMMETRIC))

    assert names(one) == names(other) == sorted([*more, "wrong-sign"])
    (rival,) = one.alternatives
    assert [each.name for each in rival] == ["transposed", *more]
    assert not other.alternatives


@pytest.mark.parametrize("factor", [1 / 3, 2**0.5, 32**0.5, 6, 0.123])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64])
def test_factor_is_that_of_fewest_digits_within_the_error_of_the_numbers(
    factor: float, dtype: DType
) -> None:
    (wrong,) = against(LEARNED, LEARNED * factor, dtype).mistakes

    digits = 6 if dtype is FLOAT32 else 15
    assert wrong.values["ratio"] == pytest.approx(factor, rel=10.0**-digits, abs=0)
    assert len(f"{wrong.values['factor']!r}") <= digits + 4


@pytest.mark.parametrize("sent", [1000, -1, 5])
@pytest.mark.parametrize("url", ["t5?", "shaw?max_relative_position=4&"])
def test_one_number_explains_no_other_index(url: str, sent: int) -> None:
    url = f"/relative/{url}query_len=1&key_len=1"
    ((name, table),) = table_of(url).items()
    have = {name: sample_from(np.full(table.shape, sent))}

    assert examined(url, have).verdict == "none"


@pytest.mark.parametrize("sent", [0.3, -2])
def test_one_number_is_no_multiple_of_another(sent: float) -> None:
    assert against(np.full((1, 1), 0.7), np.full((1, 1), sent)).verdict == "none"
