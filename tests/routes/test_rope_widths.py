"""How many channels of a head turn."""

import pytest

from service.errors import InvalidParameters
from service.routes.rope_widths import WidthParameters, paired


@pytest.mark.parametrize(
    ("named", "head_dim", "expected"),
    [
        ({}, None, None),
        ({}, 128, 128),
        ({"rotary_dim": 64}, None, 64),
        ({"rotary_dim": 64}, 128, 64),
        ({"partial_rotary_factor": 0.4}, 80, 32),
        ({"partial_rotary_factor": 0.41}, 80, 32),
    ],
)
def test_the_channels_that_turn_are_those_named(
    named: dict[str, float], head_dim: int | None, expected: int | None
) -> None:
    assert WidthParameters.model_validate(named).turning_channels(head_dim) == expected


@pytest.mark.parametrize(
    ("named", "head_dim", "parameter"),
    [
        ({}, 7, "head_dim"),
        ({"rotary_dim": 64}, 32, "rotary_dim"),
        ({"rotary_dim": 4, "partial_rotary_factor": 0.5}, 8, "partial_rotary_factor"),
        ({"partial_rotary_factor": 0.5}, None, "head_dim"),
        ({"partial_rotary_factor": 0.5}, 10, "partial_rotary_factor"),
        ({"partial_rotary_factor": 0.01}, 10, "partial_rotary_factor"),
    ],
)
def test_channels_that_cannot_turn_name_what_they_came_from(
    named: dict[str, float], head_dim: int | None, parameter: str
) -> None:
    with pytest.raises(InvalidParameters) as caught:
        WidthParameters.model_validate(named).turning_channels(head_dim)

    assert [fault.where for fault in caught.value.faults] == [parameter]


def test_nothing_is_said_of_channels_that_nobody_knows() -> None:
    assert paired("head_dim", None, None) is None
