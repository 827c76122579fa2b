"""Parameters that say where tokens are along several axes: time, height and width."""

from math import prod
from typing import Any

from pydantic import Field

from service.delivery.parameters import Parameters
from service.routes.parameters import PositionList, impossible
from service.tables.limits import MAX_LENGTH
from service.tables.mrope import AXES
from service.tables.positions import Positions


def _along(axis: str) -> Any:
    return Field(
        default=None,
        description=f"The position {axis} of each token, beside those of other axes; in place of "
        "grid.",
        examples=["0,1,1,2"],
    )


class AxisParameters(Parameters):
    """Parameters that list positions along axes."""

    positions_t: PositionList | None = _along("t")
    positions_h: PositionList | None = _along("h")
    positions_w: PositionList | None = _along("w")

    def positions_by_axis(self, *, every: bool) -> dict[str, Positions]:
        """Give the positions along each axis, all as many; none if none are listed.

        Args:
            every: whether all axes are needed, and not only the last ones.
        """
        lists = {axis: getattr(self, f"positions_{axis}") for axis in AXES}
        given = {axis: positions for axis, positions in lists.items() if positions is not None}
        if not given:
            return {}
        for axis in AXES if every else AXES[-len(given) :]:
            if axis not in given:
                name = f"positions_{axis}"
                raise impossible(name, None, f"{name} is required, beside those of other axes")
        counts = [positions.count for positions in given.values()]
        for axis, positions in given.items():
            if positions.count != counts[0]:
                rule = f"the positions along every axis must be as many, not {counts}"
                raise impossible(f"positions_{axis}", positions, rule)
        return given


def check_grid(grid: tuple[int, ...]) -> None:
    """Refuse a grid without tokens, or with more than can be counted."""
    if min(grid) < 1 or prod(grid) > MAX_LENGTH:
        rule = "grid must be lengths from 1 on, of at most 2^62 tokens"
        raise impossible("grid", grid, rule)
