"""The bound of ``library-rounding`` is above what float32 can be off by, added up step by step.

Errors are in units of 2^-24, the largest error of a number from 1 to 2. Places, kernels, their sums
and the sums of taps are rounded; each step adds half a last place of its result, and a difference
of two numbers within a factor of two is exact. Errors of errors are left out: the bound's share of
the old size is larger by 5 % than the sum needs.
"""

import re
from typing import Any

import numpy as np
import pytest

from service.numerics.phase import Float64s
from tests.client import Client

Rounded = tuple[Float64s, Float64s]
"""Numbers, and how far those of float32 are from them at most."""

_SMALL = 1e-30


def half_place(numbers: Float64s) -> Float64s:
    places = np.exp2(np.floor(np.log2(np.maximum(abs(numbers), _SMALL))))
    return np.where(numbers == 0, 0.0, places)


def plus(one: Rounded, other: float) -> Rounded:
    numbers, error = one
    total, size = numbers + other, abs(numbers)
    is_exact = (numbers * other < 0) & (size <= 2 * abs(other)) & (abs(other) <= 2 * size)
    return total, error + np.where(is_exact, 0, half_place(total))


def times(one: Rounded, other: Any) -> Rounded:
    numbers, error = one
    product = numbers * other
    return product, error * abs(other) + half_place(product)


def horner(x: Float64s, first: float, *others: float) -> Rounded:
    value = first * np.ones_like(x), np.zeros_like(x)
    for other in others:
        value = times(value, x)
        value = plus(value, other) if other else value
    return value


def kernel(distance: Float64s, mode: str, a: float) -> tuple[Float64s, Float64s, Float64s]:
    """Return the kernel, its error and the size of its slope, at a positive distance."""
    if mode == "bilinear":
        value, error = plus((-np.minimum(distance, 1), np.zeros_like(distance)), 1)
        return value, error, np.where(distance < 1, 1.0, 0.0)
    near, far = np.minimum(distance, 1), np.clip(distance, 1, 2)
    inner, outer = horner(near, a + 2, -a - 3, 0, 1), horner(far, a, -5 * a, 8 * a, -4 * a)
    # With antialias the factor a comes last.
    last = times(horner(far, 1, -5, 8, -4), a)
    slopes = (
        abs(3 * (a + 2) * near**2 - 2 * (a + 3) * near),
        abs(a * (3 * far**2 - 10 * far + 8)),
    )
    errors = inner[1], np.maximum(outer[1], last[1])
    is_near, is_far = distance < 1, (distance >= 1) & (distance < 2)
    value, error, slope = (
        is_near * own + is_far * other for own, other in ((inner[0], outer[0]), errors, slopes)
    )
    return value, error, slope


def error_along_an_axis(old: int, new: int, mode: str, *, antialias: bool) -> tuple[float, float]:
    """Return how far a sum of taps of size 1 is off at most, and the sum of sizes of weights."""
    a = -0.5 if antialias else -0.75
    step = old / new
    width = max(step, 1.0) if antialias else 1.0
    # The place of a new one, in old ones from the left end of the first.
    place = step * (np.arange(new)[:, np.newaxis] + 0.5)
    tap = np.arange(old) if antialias else np.arange(-2, old + 2)
    distance = (tap + 0.5 - place) / width
    value, error, slope = kernel(abs(distance), mode, a)
    total = value.sum(1, keepdims=True)
    weight = value / total
    sizes = abs(weight).sum(1)
    count = np.count_nonzero(slope, axis=1)
    # Of the change of a weight with its place, that of the total is taken off.
    change = -np.sign(distance) * slope / width
    change = (change - weight * change.sum(1, keepdims=True)) / total
    if not antialias:
        # A step, a product and a difference; then 1 - t, and 1 more for the far taps.
        moved = abs(change).sum(1) * 3 * place[:, 0]
        own = (error + slope * np.where(abs(distance) > 1, 2, 1)).sum(1)
        return float((moved + own + count * sizes).max()), float(sizes.max())
    # A step and a product; then the distance to a tap, a half, an inverse and its product.
    moved = abs(change).sum(1) * 2 * place[:, 0]
    own = (error + slope * 4 * (abs(distance) + 0.5 / width)).sum(1) / total[:, 0]
    # Errors of weights are those of the total, too; the total and the quotient are rounded.
    summed = (count - 1) * abs(value).sum(1) / total[:, 0] + 2
    return float((moved + own * (1 + sizes) + sizes * (summed + count)).max()), float(sizes.max())


@pytest.mark.parametrize("antialias", ["false", "true"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_the_stated_bound_is_above_the_sum_of_all_roundings(
    client: Client, mode: str, antialias: str
) -> None:
    shares = []
    for old in (1, 2, 3, 4, 7, 16, 37, 224):
        for new in (1, 2, 3, 5, 16, 100, 1024):
            query = f"old_size={old}&size={new}&mode={mode}&antialias={antialias}"
            warning = client.get(f"/resize.json?{query}&part=height_index").json()["warnings"][0]
            (stated,) = re.findall(r"within (\d+)·2\^-23 ", warning["detail"])
            error, sizes = error_along_an_axis(old, new, mode, antialias=antialias == "true")
            # One axis, then the other, of numbers that are larger by the sizes of the weights.
            shares.append(error * sizes / int(stated))

    assert max(shares) <= 1
    assert max(shares) > 0.5
