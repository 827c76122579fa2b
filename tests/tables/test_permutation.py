"""Index vectors of weights, held to the view and transpose by which conversions are made."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables.dtypes import INT32, INT64
from service.tables.permutation import HeadOrder, PermutationTable, permutation

HALF = ("interleaved", "half")
INTERLEAVED = ("half", "interleaved")

# Heads, channels of a head, how many of those turn, and from which on.
SHAPES = [(1, 2, 2, 0), (3, 8, 8, 0), (4, 128, 128, 0), (2, 80, 32, 0), (2, 12, 6, 4), (2, 7, 2, 5)]


def index(
    heads: int, head_dim: int, rotary_dim: int, offset: int, layouts: tuple[str, str]
) -> NDArray[Any]:
    order = HeadOrder(head_dim, rotary_dim, offset, *layouts)
    table = PermutationTable(order, heads, INT64)
    return np.asarray(table.read(0, heads * head_dim))


def converted(
    weights: NDArray[np.float64], heads: int, rotary_dim: int, offset: int
) -> NDArray[np.float64]:
    """Reorder rows as conversions from Meta's weights do: view(heads, r/2, 2, in), transposed."""
    inputs = weights.shape[1]
    out = weights.reshape(heads, -1, inputs).copy()
    turning = out[:, offset : offset + rotary_dim]
    pairs = turning.reshape(heads, rotary_dim // 2, 2, inputs)
    out[:, offset : offset + rotary_dim] = pairs.swapaxes(1, 2).reshape(turning.shape)
    return out.reshape(weights.shape)


@pytest.mark.parametrize(("heads", "head_dim", "rotary_dim", "offset"), SHAPES)
def test_rows_come_as_conversions_to_transformers_order_them(
    heads: int, head_dim: int, rotary_dim: int, offset: int
) -> None:
    weights = np.random.default_rng(0).standard_normal((heads * head_dim, 3))

    found = weights[index(heads, head_dim, rotary_dim, offset, HALF)]

    assert (found == converted(weights, heads, rotary_dim, offset)).all()


@pytest.mark.parametrize(("heads", "head_dim", "rotary_dim", "offset"), SHAPES)
def test_the_two_directions_undo_each_other(
    heads: int, head_dim: int, rotary_dim: int, offset: int
) -> None:
    there = index(heads, head_dim, rotary_dim, offset, HALF)
    back = index(heads, head_dim, rotary_dim, offset, INTERLEAVED)

    rows = list(range(heads * head_dim))
    assert there[back].tolist() == back[there].tolist() == rows


@pytest.mark.parametrize("layout", HALF)
def test_a_layout_is_its_own_as_it_is(layout: str) -> None:
    assert index(2, 8, 6, 2, (layout, layout)).tolist() == list(range(16))


def test_the_directions_are_not_mistaken_for_each_other() -> None:
    """Of four channels either order undoes itself; of eight it does not."""
    assert index(1, 8, 8, 0, HALF).tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert index(1, 8, 8, 0, INTERLEAVED).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_channels_that_do_not_turn_stay_in_their_places() -> None:
    assert index(2, 10, 6, 2, HALF).tolist() == [
        *(0, 1, 2, 4, 6, 3, 5, 7, 8, 9),
        *(10, 11, 12, 14, 16, 13, 15, 17, 18, 19),
    ]


@given(st.integers(0, 30), st.integers(0, 30), st.sampled_from([INT32, INT64]))
def test_any_range_is_a_slice_of_the_whole(start: int, length: int, dtype: Any) -> None:
    table = PermutationTable(HeadOrder(10, 6, 2, *HALF), 3, dtype)
    stop = min(start + length, 30)

    part = table.read(start, stop)

    assert part.dtype == np.dtype(dtype.storage)
    assert part.tolist() == table.read(0, 30)[start:stop].tolist()


def test_a_vector_of_many_rows_is_read_from_where_it_is_asked() -> None:
    table = PermutationTable(HeadOrder(65_536, 65_536, 0, *HALF), 65_536, INT64)

    assert table.shape == (2**32,)
    assert table.read(2**32 - 2, 2**32).tolist() == [2**32 - 3, 2**32 - 1]


def test_grouped_heads_have_two_vectors_and_each_may_be_asked_for_alone() -> None:
    order = HeadOrder(4, 4, 0, *HALF)

    document = permutation(order=order, query_heads=4, key_heads=2, dtype=INT32)

    assert {name: table.shape for name, table in document.arrays.items()} == {"q": (16,), "k": (8,)}
    assert document.has_parts
    assert document.part("k").arrays["k"].read(0, 8).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_other_heads_are_other_documents_and_one_number_of_them_is_one_vector() -> None:
    order = HeadOrder(4, 4, 0, *HALF)

    alone = permutation(order=order, query_heads=4, key_heads=None, dtype=INT32)
    both = permutation(order=order, query_heads=4, key_heads=4, dtype=INT32)

    assert (list(alone.arrays), alone.has_parts) == (["permutation"], False)
    assert alone.parameters != both.parameters
