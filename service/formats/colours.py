"""The colours of numbers in pictures: ramps whose equal steps look equal, from OKLCH.

OKLCH describes a colour as it is seen, by lightness (0 to 1), chroma and hue (degrees).
"""

from collections.abc import Callable
from functools import lru_cache
from math import cos, radians, sin
from typing import TypeAlias

Colour: TypeAlias = tuple[int, int, int]

_BLUE, _RED = 255.0, 32.0


def oklch(lightness: float, chroma: float, hue: float) -> Colour:
    """Return the sRGB colour, each part cut to 0 to 255 (Ottosson 2020, "Oklab")."""
    a, b = chroma * cos(radians(hue)), chroma * sin(radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        _encoded(4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short),
        _encoded(-1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short),
        _encoded(-0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short),
    )


def _encoded(light: float) -> int:
    """Return the sRGB code of a share of linear light."""
    share = min(max(light, 0.0), 1.0)
    code = 12.92 * share if share <= 0.0031308 else 1.055 * share ** (1 / 2.4) - 0.055
    return round(255 * code)


def diverging(share: float) -> Colour:
    """Return the colour of a number with a sign: 0 is the darkest red, 1/2 white, 1 blue."""
    signed = 2 * share - 1
    size = abs(signed)
    hue = _BLUE if signed > 0 else _RED
    return oklch(0.975 - 0.575 * size, 0.155 * min(1.0, 1.25 * size), hue)


def sequential(share: float) -> Colour:
    """Return the colour of a number without a sign, from dark violet over green to yellow."""
    return oklch(0.27 + 0.66 * share, 0.11 + 0.06 * abs(2 * share - 1), 295 - 190 * share)


@lru_cache
def ramp(colour: Callable[[float], Colour], count: int) -> tuple[Colour, ...]:
    """Return colours of shares from 0 to 1, in equal steps."""
    return tuple(colour(index / max(1, count - 1)) for index in range(count))


DISTINCT = tuple(
    oklch(*each)
    for each in (
        (0.56, 0.16, 255),
        (0.70, 0.17, 55),
        (0.60, 0.15, 145),
        (0.56, 0.19, 27),
        (0.55, 0.16, 300),
        (0.48, 0.07, 50),
        (0.70, 0.16, 345),
        (0.55, 0.0, 0),
        (0.68, 0.14, 110),
        (0.68, 0.11, 210),
    )
)
"""Colours of curves that are told apart."""
