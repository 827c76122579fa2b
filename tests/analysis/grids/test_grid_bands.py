import numpy as np
import pytest

from service.analysis.grids.grid_bands import pixel_bands, sine_bands
from service.analysis.grids.grid_series import axis_turns
from service.tables.angle import Float64s

ROUNDING = 2.0**-24


def bands_of(highest: float, count: int, *, is_linear: bool) -> Float64s:
    """Give bands from 1 to half of a number."""
    half = highest / 2
    return np.linspace(1, half, count) if is_linear else half ** np.linspace(0, 1, count)


@pytest.mark.parametrize("is_linear", [True, False])
@pytest.mark.parametrize("highest", [7, 10, 64, 224])
def test_the_highest_band_is_found(highest: int, is_linear: bool) -> None:
    bands = np.pi * bands_of(highest, 8, is_linear=is_linear)
    along = axis_turns(np.exp(1j * np.outer(np.linspace(-1, 1, 6), bands)), ROUNDING)

    assert along is not None
    # Bands that are whole turns farther apart look the same at so few tokens.
    assert (highest, is_linear) in pixel_bands(along)


def test_other_rates_are_no_bands() -> None:
    along = axis_turns(np.exp(1j * np.outer(np.arange(6), [1.0, 0.1])), ROUNDING)

    assert along is not None
    assert pixel_bands(along) == []


def test_sines_alone_say_their_highest_band() -> None:
    bands = np.pi * bands_of(64, 6, is_linear=True)
    sines = np.sin(np.outer(np.linspace(-1, 1, 12), bands))

    along = sine_bands(sines, ROUNDING)

    assert along is not None
    assert (64, True) in pixel_bands(along)


def test_other_sines_are_no_bands() -> None:
    assert sine_bands(np.sin(np.outer(np.arange(12), [1.0, 0.1])), ROUNDING) is None
