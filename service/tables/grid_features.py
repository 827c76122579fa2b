"""Fourier features of grids: coordinates from −1 to 1, sines and cosines of evenly spaced bands.

Band k of n along an axis is f_k = 1 + k·(max_resolution/2 − 1)/(n − 1), and turns by π·f_k·x. A
single token lies at −1, a single band is 1.
"""

from dataclasses import replace
from fractions import Fraction

from service.tables.bands import PixelBands
from service.tables.coordinates import pixels
from service.tables.grid_layouts import Grid, Layout, plain
from service.tables.sincos_grid import Along, Block, Content

_SINE: tuple[Content, ...] = ("sin",)
_BOTH: tuple[Content, ...] = ("sin", "cos")


def _bands(grid: Grid) -> dict[str, Along]:
    """Place tokens evenly from −1 to 1 along each axis, the bands up to half its resolution."""
    resolutions, count = grid.values["max_resolution"], grid.values["num_bands"]
    rules = [PixelBands(each, count, is_linear=True) for each in resolutions]
    return {name: _pixels(along) for name, along in plain(grid, rules).items()}


def _pixels(along: Along) -> Along:
    tokens = along.tokens
    places = pixels(tokens.length, Fraction(0))
    first, step = int(places.first / places.unit), int(places.step / places.unit)
    return replace(along, tokens=replace(tokens, first=first, step=step), unit=places.unit)


def perceiver(grid: Grid) -> Layout:
    """Give the coordinates, sin(π·f·x) axis by axis, and the cosines.

    transformers 5.23.0 ``generate_fourier_features`` of Perceiver.
    """
    names, count = list(grid.lengths), grid.values["num_bands"]
    contents = _SINE if grid.values["sine_only"] else _BOTH
    blocks = [Block((content,), (axis,), count) for content in contents for axis in names]
    return Layout(_bands(grid), (*_coordinates(grid), *blocks))


def timm_fourier(grid: Grid) -> Layout:
    """Give the coordinates, sin(π·f·x) band by band, and the cosines.

    timm 1.0.31 ``FourierEmbed``.
    """
    names, count = tuple(grid.lengths), grid.values["num_bands"]
    blocks = [Block((content,), names, count) for content in _BOTH]
    return Layout(_bands(grid), (*_coordinates(grid), *blocks))


def _coordinates(grid: Grid) -> list[Block]:
    names = grid.lengths if grid.values["concat_pos"] else ()
    return [Block(("coordinate",), (name,), 1) for name in names]
