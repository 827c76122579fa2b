"""Numbers of relative positions within a window, held to counting them one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables.dtypes import INT32, INT64
from service.tables.windows import Window, WindowTable, index


def counted(height: int, width: int) -> list[list[int]]:
    """Number relative positions in the order of the rows and columns that they lead down."""
    steps = [(dy, dx) for dy in range(1 - height, height) for dx in range(1 - width, width)]
    places = [(row, column) for row in range(height) for column in range(width)]
    return [[steps.index((q[0] - k[0], q[1] - k[1])) for k in places] for q in places]


def whole(window: Window) -> list[list[int]]:
    table = WindowTable(window, INT64)
    rows: list[list[int]] = table.read(0, window.tokens**2).reshape(table.shape).tolist()
    return rows


@pytest.mark.parametrize("size", [(1, 1), (1, 4), (4, 1), (2, 3), (3, 5), (7, 7)])
def test_numbers_count_relative_positions_row_by_row(size: tuple[int, int]) -> None:
    window = Window(*size, class_token=False)

    assert whole(window) == counted(*size)
    assert window.count == len({number for row in whole(window) for number in row})


@pytest.mark.parametrize("size", [(1, 1), (4, 6), (3, 3)])
def test_a_class_token_has_three_numbers_of_its_own(size: tuple[int, int]) -> None:
    window = Window(*size, class_token=True)
    first, *others = whole(window)
    most = window.between_tokens

    assert first == [most + 2, *[most] * (size[0] * size[1])]
    assert [row[0] for row in others] == [most + 1] * (size[0] * size[1])
    assert [row[1:] for row in others] == counted(*size)
    assert window.count == most + 3


@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.booleans(),
    st.integers(0, 700),
    st.integers(0, 700),
    st.sampled_from([INT32, INT64]),
)
def test_any_range_is_a_slice_of_the_whole(
    height: int, width: int, has_class: bool, start: int, length: int, dtype: object
) -> None:
    window = Window(height, width, has_class)
    table = WindowTable(window, INT32 if dtype is INT32 else INT64)
    start = min(start, window.tokens**2)
    stop = min(start + length, window.tokens**2)

    part = table.read(start, stop)

    flat = [number for row in whole(window) for number in row]
    assert part.dtype == np.dtype(table.dtype.storage)
    assert part.tolist() == flat[start:stop]


@pytest.mark.parametrize("has_class", [False, True])
def test_a_large_window_is_read_from_where_it_is_asked(has_class: bool) -> None:
    window = Window(2**15, 2**15, has_class)
    table = WindowTable(window, INT64)
    width = window.tokens

    last = table.read(width**2 - 2, width**2).tolist()
    across = table.read(width - 1, width + 1 + has_class).tolist()

    centre = (window.between_tokens - 1) // 2
    assert last == [centre + 1, centre]
    if has_class:
        assert across == [window.between_tokens, window.between_tokens + 1, centre]
    else:
        assert across == [0, centre + 1]


def test_a_document_names_its_window_and_the_order_of_its_axes() -> None:
    document = index(Window(2, 3, class_token=True), INT32)

    assert document.parameters == {"window_size": (2, 3), "class_token": True}
    assert (document.shape, document.axes, document.states_axes) == ((7, 7), ("query", "key"), True)
