"""Colours of numbers: as light for a number as for its negative, and never lighter for more."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from service.formats.drawing import DISTINCT, Colour, diverging, oklch, sequential


def ramp(colour: Callable[[float], Colour]) -> list[Colour]:
    return [colour(step / 222) for step in range(223)]


def lightness(colour: Colour) -> float:
    """Return L* of CIELAB, a measure of lightness that is not that of OKLCH."""
    shares = [part / 255 for part in colour]
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return 116 * light ** (1 / 3) - 16 if light > 0.008856 else 903.3 * light


@pytest.mark.parametrize(
    ("colour", "expected"),
    [
        ((1.0, 0.0, 0.0), (255, 255, 255)),
        ((0.0, 0.0, 0.0), (0, 0, 0)),
        ((0.6279554, 0.2576833, 29.2338), (255, 0, 0)),
        ((0.4520137, 0.3132144, 264.052), (0, 0, 255)),
    ],
)
def test_colours_of_srgb_have_their_published_coordinates(
    colour: tuple[float, float, float], expected: Colour
) -> None:
    assert oklch(*colour) == expected


def test_colours_of_both_signs_are_equally_light_and_darker_for_more() -> None:
    lights = [lightness(colour) for colour in ramp(diverging)]

    below, above = lights[111::-1], lights[111:]
    assert all(one > other for side in (below, above) for one, other in pairwise(side))
    assert max(abs(one - other) for one, other in zip(below, above, strict=True)) < 3
    assert above[0] > 96
    assert above[-1] < 40


def test_colours_without_signs_are_lighter_for_more() -> None:
    lights = [lightness(colour) for colour in ramp(sequential)]

    # A colour is rounded to three bytes.
    assert all(one < other + 0.1 for one, other in pairwise(lights))
    assert lights[0] < 20
    assert lights[-1] > 90


def test_equal_steps_look_equal() -> None:
    for colours in (ramp(sequential)[::10], ramp(diverging)[::10]):
        steps = [abs(lightness(one) - lightness(other)) for one, other in pairwise(colours)]
        assert max(steps) < 2.5 * min(steps)


def test_curves_differ_from_each_other_and_from_paper() -> None:
    assert len(set(DISTINCT)) == 10
    assert max(map(lightness, DISTINCT)) < 75
