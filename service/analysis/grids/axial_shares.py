"""The axes of a rotary table as a convention shares its frequencies out, and what comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import TypeAlias

from service.analysis.grids.grid_fits import common
from service.analysis.grids.grid_series import AxisTurns, Series
from service.analysis.plain import plain_numbers
from service.tables.angle import Float64s
from service.tables.axial import CONVENTIONS, Convention
from service.tables.document import ParameterValue

Values: TypeAlias = dict[str, ParameterValue]

NEAR_ONE = 2.0**-18
"""How near 1 a step is that engines in float32 make of 1."""

MAX_LOGARITHM = 512.0
"""The logarithm of a base that is taken for one: its exponential is still a float64."""


@dataclass(frozen=True, eq=False)
class Shares:
    """The axes of a table, in the order of their channels, as a convention shares them out.

    Attributes:
        name: of the convention whose they are.
        turns: how each axis turns.
        lengths: tokens along it.
        widths: channels of it.
        order: which axis of the grid it is.
    """

    name: str
    turns: tuple[AxisTurns, ...]
    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def convention(self) -> Convention:
        """What the convention is."""
        return CONVENTIONS[self.name]

    def listed(self, numbers: Sequence[float]) -> tuple[float, ...]:
        """Put numbers of axes into the order of the grid, as one where they are the same."""
        by_axis = [numbers[self.order.index(axis)] for axis in range(len(numbers))]
        return (by_axis[0],) if len(set(by_axis)) == 1 else tuple(by_axis)


@dataclass(frozen=True, eq=False)
class Made:
    """What parameters make of axes.

    Attributes:
        values: the parameters.
        firsts, steps: coordinates of the first token of each axis, and from one to the next.
        omega: radians per coordinate of the frequencies of each axis.
    """

    values: Values
    firsts: tuple[float, ...]
    steps: tuple[float, ...]
    omega: tuple[Float64s, ...]


def bases(series: Sequence[Series | None], spans: Sequence[float]) -> list[float]:
    """Give the bases that series over so many frequencies may have, the plainest first."""
    known = [
        (exp(each.decay * span), each.decay_error * span)
        for each, span in zip(series, spans, strict=True)
        if each is not None and each.count > 1 and 0 < each.decay * span < MAX_LOGARITHM
    ]
    if not known:
        return [10000.0]
    base = common(known)
    return [] if base is None else [each for each in plain_numbers(*base, 3) if each > 1]
