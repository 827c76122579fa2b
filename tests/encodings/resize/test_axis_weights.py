"""Weights of an axis: exact rationals, against worked numbers and an evaluation of kernels."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from service.encodings.resize.axis_weights import AxisWeights


def rows_of(*sizes: Any, **options: Any) -> list[dict[int, Fraction]]:
    rows = AxisWeights(*sizes, **{"a": -0.75, **options}).rationals()
    return [
        {tap: Fraction(own, denominator) for tap, own in numerators.items() if own}
        for numerators, denominator in rows
    ]


def weights(*numbers: str) -> dict[int, Fraction]:
    return {tap: Fraction(number) for tap, number in enumerate(numbers)}


WORKED = [
    ((4, 6, "bicubic"), {}, 0, ("313/288", "-25/288")),
    ((4, 6, "bicubic"), {}, 1, ("1/2", "19/32", "-3/32")),
    (
        (4, 2, "bicubic"),
        {"antialias": True, "a": -0.5},
        0,
        ("111/242", "111/242", "29/242", "-9/242"),
    ),
    ((3, 5, "bilinear"), {}, 1, ("3/5", "2/5")),
    ((3, 5, "bilinear"), {"align_corners": True}, 1, ("1/2", "1/2")),
    ((4, 1, "bilinear"), {"align_corners": True}, 0, ("1",)),
    ((2, 4, "bilinear"), {"padding": "zeros"}, 0, ("3/4",)),
    ((5, 3, "area"), {}, 0, ("1/2", "1/2")),
    ((4, 2, "nearest-exact"), {}, 0, (None, "1")),
]


@pytest.mark.parametrize(("sizes", "options", "place", "expected"), WORKED)
def test_worked_weights(sizes: Any, options: Any, place: int, expected: Any) -> None:
    given = {tap: Fraction(each) for tap, each in enumerate(expected) if each is not None}

    assert rows_of(*sizes, **options)[place] == given


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "area", "geometric"])
def test_rows_sum_to_exactly_one(mode: str, *, align_corners: bool, antialias: bool) -> None:
    options: dict[str, Any] = {}
    if mode.startswith("bi"):
        options = {"align_corners": align_corners, "antialias": antialias}
    for old, new in ((1, 5), (7, 3), (5, 13), (31, 9), (9, 9), (15, 1)):
        for row in rows_of(old, new, mode, **options):
            assert sum(row.values()) == 1
            assert all(0 <= tap < old for tap in row)


@pytest.mark.parametrize("scale_factor", [None, 1.0714285714285714, 0.31])
def test_a_bicubic_row_is_keys_kernel_at_its_place(scale_factor: float | None) -> None:
    old, new = 11, 12
    step = Fraction(old, new) if scale_factor is None else 1 / Fraction(scale_factor)

    def kernel(x: Fraction) -> Fraction:
        a, x = Fraction(-3, 4), abs(x)
        if x <= 1:
            return (a + 2) * x**3 - (a + 3) * x**2 + 1
        return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else Fraction(0)

    for place, row in enumerate(rows_of(old, new, "bicubic", scale_factor=scale_factor)):
        at = (place + Fraction(1, 2)) * step - Fraction(1, 2)
        expected: dict[int, Fraction] = {}
        for tap in range(at.__floor__() - 1, at.__floor__() + 3):
            inside = min(max(tap, 0), old - 1)
            expected[inside] = expected.get(inside, Fraction(0)) + kernel(at - tap)
        assert row == {tap: own for tap, own in expected.items() if own}


@pytest.mark.parametrize("options", [{}, {"antialias": True}, {"scale_factor": 1.3}])
def test_weights_are_rationals_rounded_once_and_unused_taps_weigh_nothing(options: Any) -> None:
    axis = AxisWeights(9, 11, "bicubic", a=-0.5, **options)
    taps = axis.get()

    for place, (numerators, denominator) in enumerate(axis.rationals()):
        used = len(numerators)
        assert taps.index[place, :used].tolist() == [*numerators]
        right = [float(Fraction(each, denominator)) for each in numerators.values()]
        assert taps.weight[place, :used].tolist() == right
        assert not taps.weight[place, used:].any()
        assert (taps.index[place] < 9).all()


def test_knots_of_windows_are_those_of_the_bisection() -> None:
    # From a window of 7 to one of 14: 1 + q + … + q^5 is 13 for q = 1.30762.
    rows = rows_of(13, 27, "geometric")

    assert rows[13] == {6: 1}
    assert rows[14] == {7: 1}
    assert float(rows[15][8]) == pytest.approx(1 / 1.30762, abs=1e-4)
    np.testing.assert_allclose(float(sum(tap * own for tap, own in rows[0].items())), 0, atol=1e-4)
