"""Attention with linear biases."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables import alibi, table
from service.tables.alibi import Linear, MaskedKeysTable, sloped
from service.tables.angle import MAX_POSITION, Float64s, Int64s
from service.tables.dtypes import FLOAT16, FLOAT64
from service.tables.positions import Positions
from service.tables.query_key import QueryKey
from service.tables.slopes import GivenSlopes, SlopeRule

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
    monkeypatch.setattr("service.tables.table.STEP_ELEMENTS", step)

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
