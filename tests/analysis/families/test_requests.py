"""Parameters of proposed requests."""

from collections.abc import Mapping

import numpy as np
import pytest

from service.analysis.families.requests import nearest_fits, position_parameters


def test_position_parameters_are_the_shortest() -> None:
    assert position_parameters(np.arange(5)) == {"seq_len": 5}
    assert position_parameters(np.arange(3, 8)) == {"start": 3, "seq_len": 5}
    assert position_parameters(np.array([0, 1, 2, 9])) == {"positions": "0:3,9"}


LONG, SHORT = {"base": 999.8}, {"base": 1000.0}


@pytest.mark.parametrize(
    ("residuals", "parameters", "chosen"),
    [
        ([2e-8, 3e-8], [LONG, SHORT], [1]),
        ([2e-9, 3e-8], [LONG, SHORT], [1, 0]),
        ([3e-4, 2e-4, 0.5], [SHORT, SHORT, SHORT], [1, 0]),
        ([1e-8, 1e-8], [{"grid": (2.5, 3.0)}, {"grid": (2.0,)}], [1]),
    ],
    ids=("fewest digits", "a much nearer one beside it", "near ones by distance", "lists"),
)
def test_nearest_fits_have_few_digits(
    residuals: list[float], parameters: list[Mapping[str, float]], chosen: list[int]
) -> None:
    assert nearest_fits(residuals, parameters, 2**-24) == chosen
