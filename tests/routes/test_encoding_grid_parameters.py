"""Parameters of sin-cos tables of grids."""

from typing import get_args

from service.routes.encoding_grid_parameters import (
    MAX_TIMESCALE,
    MIN_TIMESCALE,
    GridParameters,
)
from service.tables.angle import MAX_FREQUENCY
from service.tables.grid_conventions import CONVENTIONS


def test_every_convention_can_be_asked_for() -> None:
    assert get_args(GridParameters.model_fields["convention"].annotation) == tuple(CONVENTIONS)


def test_everything_that_a_convention_takes_is_a_parameter_that_is_nothing_unless_given() -> None:
    for known in CONVENTIONS.values():
        for name in (name for convention in known for name in convention.takes):
            assert GridParameters.model_fields[name].default is None, name


def test_timescales_stay_in_the_range_of_phases() -> None:
    assert MAX_TIMESCALE**2 / MIN_TIMESCALE <= MAX_FREQUENCY * 1.001
