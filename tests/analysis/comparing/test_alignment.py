"""How the axes of an array lie over those of a table."""

import pytest

from service.analysis.comparing.alignment import alignments


def test_the_same_shape_lies_as_it_is() -> None:
    (way,) = alignments((4, 6), (4, 6))

    assert way.is_whole
    assert not way.is_reordered
    assert not way.is_squeezed
    assert way.region == (4, 6)
    assert way.index((3, 5)) == (3, 5)


def test_axes_of_length_1_are_passed_over_wherever_they_are() -> None:
    (way,) = alignments((1, 4, 1, 6), (4, 6))

    assert way.is_squeezed
    assert way.index((3, 5)) == (0, 3, 0, 5)
    assert alignments((4, 6), (1, 1, 4, 6))[0].region == (1, 1, 4, 6)
    assert alignments((1,), ())[0].region == ()


def test_axes_in_another_order_are_found() -> None:
    (way,) = alignments((6, 4), (4, 6))

    assert way.is_reordered
    assert way.index((3, 5)) == (5, 3)


def test_both_orders_of_a_square_are_given_its_own_first() -> None:
    first, second = alignments((4, 4), (4, 4))

    assert (first.is_reordered, second.is_reordered) == (False, True)


@pytest.mark.parametrize(
    ("shape", "table_shape", "prefix", "region"),
    [
        ((3, 6), (4, 6), 0, (3, 6)),
        ((5, 6), (4, 6), 0, (4, 6)),
        ((4, 2), (4, 6), 1, (4, 2)),
        ((6, 3), (4, 6), 0, (3, 6)),
        ((1, 6), (4, 6), 0, (1, 6)),
        ((6,), (4, 6), 0, (1, 6)),
        ((3,), (2**62,), 0, (3,)),
        ((2, 4, 6), (2, 4, 9), 2, (2, 4, 6)),
    ],
)
def test_one_may_be_a_prefix_of_the_other_along_one_axis(
    shape: tuple[int, ...], table_shape: tuple[int, ...], prefix: int, region: tuple[int, ...]
) -> None:
    way = alignments(shape, table_shape)[0]

    assert (way.prefix, way.region, way.is_whole) == (prefix, region, False)


def test_a_table_of_one_row_is_a_prefix_of_more() -> None:
    (way,) = alignments((4, 6), (1, 6))

    assert (way.longer, way.region, way.is_whole) == (0, (1, 6), False)
    assert way.index((0, 5)) == (0, 5)


@pytest.mark.parametrize(
    ("shape", "table_shape"),
    [((3, 5), (4, 6)), ((24,), (4, 6)), ((4, 6, 2), (4, 6, 2, 2, 2)), ((2, 3), (4, 5, 6))],
)
def test_other_shapes_do_not_lie_over_each_other(
    shape: tuple[int, ...], table_shape: tuple[int, ...]
) -> None:
    assert alignments(shape, table_shape) == ()


def test_many_equal_axes_have_a_bounded_number_of_orders() -> None:
    assert 1 < len(alignments((2,) * 8, (2,) * 8)) <= 24
