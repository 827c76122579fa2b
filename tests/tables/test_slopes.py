"""ALiBi's slopes."""

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from math import floor, log2

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables.dtypes import FLOAT32, FLOAT64, REAL_DTYPES, widened
from service.tables.slopes import GivenSlopes, SlopeRule, SlopesTable, slopes
from service.tables.table import FREQUENCY_WORK, setup_work

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
    found = widened(table.read(0, 12), table.dtype)
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
