"""Attention with linear biases."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables import alibi
from service.tables.alibi import Linear, MaskedKeysTable, sloped
from service.tables.angle import MAX_POSITION
from service.tables.dtypes import FLOAT16, FLOAT64
from service.tables.positions import Positions
from service.tables.query_key import QueryKey
from service.tables.slopes import GivenSlopes, SlopeRule

RULE = SlopeRule("original", 12, 8.0)
FAR = st.integers(-MAX_POSITION, MAX_POSITION)


@given(st.integers(0, 11), st.one_of(FAR, st.integers(-100, 100)))
def test_a_bias_is_the_product_rounded_once(head: int, number: int) -> None:
    (got,) = sloped(RULE, head, np.array([number], dtype=np.int64)).tolist()

    exact = Fraction(RULE.exact()[head]) * number
    assert abs(Fraction(got) - exact) <= abs(exact) * Fraction(101, 100) / 2**53


def test_slopes_of_halves_make_exact_biases() -> None:
    numbers = np.arange(-50, 50)

    assert (sloped(SlopeRule("original", 8, 8.0), 0, numbers) == numbers / 2).all()


def test_heads_past_the_last_slope_have_no_bias() -> None:
    assert sloped(RULE, 12, np.array([1, 2])).tolist() == [0.0, 0.0]


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

    values = linear.values(np.array([-2, -1, 0, 1]), 0)

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

    (table,) = document.arrays.values()
    assert table.shape == (14, 2, 3)
    assert document.parameters["total_heads"] == 14
    assert table.read(0, 6).tolist() == [0, -0.5, -1, -0.5, 0, -0.5]
    assert not table.read(72, 84).any()


def masked_keys(head: int | None = None, dtype: str = "float64") -> MaskedKeysTable:
    document = alibi.mask_aware(
        parameters={},
        slopes=GivenSlopes(np.array([1.0, 0.5])),
        mask=np.array([[0, 1, 1], [1, 0, 1]]),
        head=head,
        dtype=FLOAT64 if dtype == "float64" else FLOAT16,
    )
    (table,) = document.arrays.values()
    assert isinstance(table, MaskedKeysTable)
    return table


def test_keys_are_numbered_by_the_mask_and_padding_is_at_nothing() -> None:
    table = masked_keys()

    assert table.shape == (2, 2, 1, 3)
    assert table.read(0, 12).tolist() == [0, 0, 1, 0, 0, 0.5, 0, 0, 1, 0, 0, 0.5]
    assert table.work_per_element == 1


def test_one_head_under_a_mask_has_no_axis_of_heads() -> None:
    table = masked_keys(head=1)

    assert table.shape == (2, 1, 3)
    assert table.read(0, 6).tolist() == [0, 0, 0.5, 0, 0, 0.5]


def test_any_part_of_a_masked_table_is_that_of_the_whole() -> None:
    table = masked_keys(dtype="float16")

    whole = table.read(0, 12)
    for start in range(12):
        for stop in range(start + 1, 13):
            assert table.read(start, stop).tobytes() == whole[start:stop].tobytes()
