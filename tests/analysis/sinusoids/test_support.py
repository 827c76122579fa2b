import numpy as np

from service.analysis.progression import Geometric
from service.analysis.sinusoids.positions import Positioned
from service.analysis.sinusoids.support import rows_support, series_support


def test_support_says_base_span_and_how_well_they_are_known() -> None:
    assert series_support(Geometric(1.0, 0.9, 1e-9, 3e-8), 64, 10000.0, 128) == (
        "64 frequencies fall as 10000^(-2k/128), each to the one before within 3.0e-08"
    )


def test_support_says_where_rows_are() -> None:
    even = Positioned(np.array([3.0, 5.0]), 1e-8, 2.0)
    uneven = Positioned(np.array([3.0, 50.0]), 1e-8, None)

    assert rows_support(even, 2) == (
        "angles put the first row at position 5, each next one 2 on, within 1.0e-08 radians"
    )
    assert rows_support(uneven) == (
        "angles put rows at positions from 3 to 50, within 1.0e-08 radians"
    )
