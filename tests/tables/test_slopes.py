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

    for found, low, true in zip(got, rule.pairs().low, exact(convention, heads, last), strict=True):
        assert abs(mpf(float(found)) - true) <= true * mpf(2) ** -53
        assert abs(mpf(float(found)) + mpf(float(low)) - true) <= true * mpf(2) ** -105


def test_eight_heads_have_the_powers_of_a_half() -> None:
    assert SlopeRule("original", 8, 8.0).pairs().high.tolist() == [0.5**k for k in range(1, 9)]
    assert SlopeRule("original", 1, 8.0).pairs().high.tolist() == [2.0**-8]


def test_the_rules_differ_where_heads_are_no_power_of_two() -> None:
    original, paper = (SlopeRule(name, 12, 8.0).pairs().high for name in ("original", "paper"))

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
    assert np.abs(found / SlopeRule("original", 12, 8.0).pairs().high - 1).max() <= 2.0**-8
    assert document.parameters == {
        "convention": "original",
        "num_heads": 12,
        "alibi_bias_max": 8.0,
    }


def test_slopes_that_are_sent_are_taken_as_they_are() -> None:
    given_slopes = GivenSlopes(np.array([0.1, -3.0]))

    assert given_slopes.count == 2
    assert given_slopes.pairs().high.tolist() == [0.1, -3.0]
    assert given_slopes.pairs().low.tolist() == [0.0, 0.0]


def test_slopes_are_the_same_in_a_bare_thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        in_thread = pool.submit(SlopeRule("original", 40, 7.5).exact).result()

    assert in_thread == SlopeRule("original", 40, 7.5).exact()
    assert isinstance(in_thread[0], Decimal)
