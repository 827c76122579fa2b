import numpy as np
import pytest

from service.analysis.grids.axial_shares import Shares, bases
from service.analysis.grids.grid_series import AxisTurns, Series

STILL = AxisTurns(np.zeros(2), np.zeros(2), np.ones(2), 1e-7, 1)


def test_numbers_of_axes_are_listed_in_the_order_of_the_grid() -> None:
    shares = Shares("timm", (STILL, STILL), (3, 5), (4, 4), (1, 0))

    assert shares.listed([2.0, 7.0]) == (7.0, 2.0)
    assert shares.listed([2.0, 2.0]) == (2.0,)


def test_bases_follow_from_the_most_exact_axis() -> None:
    series = [Series(1.0, np.log(100) / 8, 1e-6, 1e-7, 8), None]

    assert bases(series, [8, 8])[0] == pytest.approx(100)


def test_axes_of_different_bases_have_none() -> None:
    series = [Series(1.0, np.log(base) / 8, 1e-6, 1e-7, 8) for base in (100, 1000)]

    assert bases(series, [8, 8]) == []
