"""Fourier features of grids."""

from fractions import Fraction

from service.tables.bands import PixelBands
from service.tables.grid_features import perceiver, timm_fourier
from service.tables.grid_layouts import Grid

VALUES = {
    "num_bands": 3,
    "max_resolution": (8, 10),
    "concat_pos": True,
    "sine_only": False,
}


def grid(**values: object) -> Grid:
    return Grid({"height": 1, "width": 4}, 0, VALUES | values)


def test_perceiver_has_one_axis_after_the_other_and_timm_one_band() -> None:
    both = ["sin height", "sin width", "cos height", "cos width"]

    assert [str(block) for block in perceiver(grid()).blocks] == ["height", "width", *both]
    found = [str(block) for block in timm_fourier(grid()).blocks]
    assert found == ["height", "width", "sin height|width", "cos height|width"]


def test_coordinates_and_cosines_may_be_left_out() -> None:
    bare = grid(concat_pos=False, sine_only=True)

    assert [str(block) for block in perceiver(bare).blocks] == ["sin height", "sin width"]
    found = [str(block) for block in timm_fourier(bare).blocks]
    assert found == ["sin height|width", "cos height|width"]


def test_tokens_lie_evenly_from_end_to_end_and_one_alone_at_the_beginning() -> None:
    along = perceiver(grid()).along

    evenly = [-1, Fraction(-1, 3), Fraction(1, 3), 1]
    for name, expected in {"height": [-1], "width": evenly}.items():
        axis = along[name]
        found = axis.tokens.at(0, 4)[: axis.tokens.length].tolist()
        assert [position * axis.unit for position in found] == expected


def test_bands_go_up_to_half_the_resolution_of_their_axis() -> None:
    along = perceiver(grid()).along

    assert along["height"].rule == PixelBands(8, 3, is_linear=True)
    assert along["width"].rule == PixelBands(10, 3, is_linear=True)
