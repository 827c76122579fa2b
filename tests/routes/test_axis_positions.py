"""Positions along several axes."""

import pytest

from service.errors import InvalidParameters
from service.routes.axis_positions import AxisParameters, check_grid


def named(caught: pytest.ExceptionInfo[InvalidParameters]) -> list[str | None]:
    return [fault.where for fault in caught.value.faults]


def test_positions_are_given_by_their_axis() -> None:
    listed = AxisParameters.model_validate({"positions_h": "0,1", "positions_w": "5:7"})

    assert {axis: str(along) for axis, along in listed.positions_by_axis(every=False).items()} == {
        "h": "0,1",
        "w": "5,6",
    }
    assert AxisParameters().positions_by_axis(every=True) == {}


@pytest.mark.parametrize(
    ("listed", "every", "missing"),
    [
        ({"positions_h": "0", "positions_w": "0"}, True, "positions_t"),
        ({"positions_t": "0", "positions_w": "0"}, False, "positions_h"),
        ({"positions_h": "0"}, False, "positions_w"),
        ({"positions_h": "0", "positions_w": "0,1"}, False, "positions_w"),
    ],
)
def test_an_axis_that_is_missing_or_other_is_named(
    listed: dict[str, str], *, every: bool, missing: str
) -> None:
    with pytest.raises(InvalidParameters) as caught:
        AxisParameters.model_validate(listed).positions_by_axis(every=every)

    assert named(caught) == [missing]


@pytest.mark.parametrize("grid", [(0, 1), (2**31, 2**32), (-1, -1)])
def test_a_grid_has_tokens_and_no_more_than_can_be_counted(grid: tuple[int, ...]) -> None:
    check_grid((1, 2**62))
    with pytest.raises(InvalidParameters) as caught:
        check_grid(grid)

    assert named(caught) == ["grid"]
