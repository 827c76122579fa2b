"""Arrays as they are received."""

import numpy as np
import pytest

from service.errors import InvalidBody
from service.formats.format import INTEGER_STORAGES, MAX_RANK, check_shape, integers
from service.numerics.dtypes import INT64


@pytest.mark.parametrize("shape", [(1,), (3, 2), (1,) * MAX_RANK, (2**60, 2**60)])
def test_shapes_with_axes_and_elements_pass_however_many_they_promise(
    shape: tuple[int, ...],
) -> None:
    check_shape("x", shape)


@pytest.mark.parametrize(
    ("shape", "rule"),
    [
        ((), "x has 0 axes: 1 to 8 are possible"),
        ((1,) * (MAX_RANK + 1), "x has 9 axes: 1 to 8 are possible"),
        ((0,), r"x has no elements: its shape is \(0\)"),
        ((3, -1), r"its shape is \(3, -1\)"),
        ((True, 2), r"its shape is \(True, 2\)"),
        ((2.0, 2), r"its shape is \(2.0, 2\)"),
        ((2**63, 0), r"x has an axis longer than 2\^63 - 1"),
        ((16**5000,), "an axis longer"),
    ],
)
def test_any_other_shape_is_refused(shape: tuple[object, ...], rule: str) -> None:
    with pytest.raises(InvalidBody, match=rule):
        check_shape("x", shape)


def test_long_names_and_shapes_are_cut_in_what_is_said() -> None:
    with pytest.raises(InvalidBody) as caught:
        check_shape("n" * 10_000, (2**62, 0) * 4)

    assert len(caught.value.detail) < 250


@pytest.mark.parametrize("storage", INTEGER_STORAGES)
def test_the_least_and_the_largest_integer_of_a_type_are_kept(storage: str) -> None:
    dtype = np.dtype(storage)
    ends = [0, 1] if dtype.kind == "b" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    ends = [min(int(end), 2**63 - 1) for end in ends]

    table = integers("x", np.array([ends], dtype=dtype))

    assert table.dtype is INT64
    assert table.elements.dtype == np.dtype(INT64.storage)
    assert table.elements.tolist() == [ends]


def test_a_truth_value_of_any_byte_is_one() -> None:
    stored = np.frombuffer(bytes([0, 1, 2, 255] * 9), dtype="|b1")

    assert integers("mask", stored).elements.tolist() == [0, 1, 1, 1] * 9


def test_integers_beyond_int64_are_refused_and_not_wrapped() -> None:
    with pytest.raises(InvalidBody, match=r"beyond 2\^63 - 1"):
        integers("x", np.array([1, 2**63], dtype="<u8"))
