"""``/rope`` with mrope_section: a series of frequencies, each turning with one of three positions.

The slowest pairs have not gone round once: from how their angles compare the base follows, and from
the base the positions, to a whole number as faster pairs that turn with the same ones refine them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from service.analysis.call import Call
from service.analysis.grids.axial_packs import Packed, packed
from service.analysis.grids.section_orders import Order, orders
from service.analysis.plain import plain_numbers
from service.analysis.question import Proposal, Question, Turning
from service.tables.angle import Float64s, Int64s
from service.tables.document import ParameterValue
from service.tables.dtypes import FLOAT32
from service.tables.grid import Tokens
from service.tables.mrope import AXES
from service.tables.positions import Positions

_TWO_PI = 2 * np.pi
_USUAL_THETA = 10000.0
_LEAST_FREQUENCIES = 3
_MOST_ROWS = 4096
_MOST = 6

# Between two pairs of one axis lies one frequency, or three where the axes take turns.
_GAPS = (1, 3)
_SLOW_PAIRS = 12

# Frequencies and angles of engines in float32: some roundings of the angle.
_ARITHMETIC = 2.0**-22


def propose(question: Question) -> Iterator[Proposal]:
    """Propose the tables of M-RoPE that an array, or two, may be."""
    given = 0
    for table in packed(question):
        rows, count = table.turns.shape
        if count < _LEAST_FREQUENCIES or not 2 <= rows <= _MOST_ROWS or table.scale != 1.0:
            continue
        angles = np.angle(table.turns)
        for theta in _bases(angles, table.rounding):
            omega = theta ** (-np.arange(count) / count)
            groups = _grouped(angles, omega, table.rounding)
            if groups is None or len(groups) == 1 or not all(each.is_counted for each in groups):
                continue
            for order in orders([each.places for each in groups], count):
                yield _proposal(table, theta, omega, order, [each.whole for each in groups])
                given += 1
                if given == _MOST:
                    return


def _bases(angles: Float64s, rounding: float) -> list[float]:
    """Measure the base by pairs of slow frequencies whose angles are proportional."""
    count = angles.shape[1]
    for k in range(count - 1, max(count - 1 - _SLOW_PAIRS, 0), -1):
        slow = angles[:, k]
        if np.abs(slow).max() < 2.0**-40:
            continue
        for gap in _GAPS:
            if k - gap < 0:
                continue
            fast = np.unwrap(angles[:, k - gap])
            ratio = float(slow @ fast) / float(slow @ slow)
            noise = (2 * rounding + _ARITHMETIC) * (np.abs(fast) + ratio * np.abs(slow))
            if ratio > 1 and (np.abs(fast - ratio * slow) <= 4 * noise + 2.0**-40).all():
                # A least square over rows of relative errors: as heavy as the largest angles.
                error = 4 * (2 * rounding + _ARITHMETIC) * count / gap
                power = np.log(ratio) * count / gap
                if power < 100:
                    return list(plain_numbers(float(np.exp(power)), error, 3))
    return []


@dataclass(eq=False)
class _Group:
    """Frequencies that turn with the same positions.

    Attributes:
        positions: as far as they are known, (S,).
        errors: how far off each may be.
        places: which frequencies may be of it.
    """

    positions: Float64s
    errors: Float64s
    places: set[int] = field(default_factory=set)

    @property
    def whole(self) -> Int64s:
        """The positions as integers."""
        return np.round(self.positions).astype(np.int64)

    @property
    def is_counted(self) -> bool:
        """Tell whether they do not all lie a multiple of some number apart, as no tokens do."""
        steps = np.gcd.reduce(np.diff(self.whole))
        return int(steps) <= 1

    def refine(self, k: int, rate: float, apart: Float64s, noise: Float64s) -> None:
        """Take in a frequency that turns with them."""
        self.places.add(k)
        moved = self.positions + apart / rate
        self.positions = np.where(noise / rate < self.errors, moved, self.positions)
        self.errors = np.minimum(self.errors, noise / rate)
        nearest = np.round(self.positions)
        is_sure = self.errors < 0.1
        self.positions = np.where(is_sure, nearest, self.positions)
        self.errors = np.where(is_sure, 0.0, self.errors)


def _grouped(angles: Float64s, omega: Float64s, rounding: float) -> list[_Group] | None:
    """Sort frequencies by the positions they turn with; none where these are more than three."""
    groups: list[_Group] = []
    for k in range(len(omega) - 1, -1, -1):
        rate, angle = float(omega[k]), angles[:, k]
        best: tuple[float, _Group, Float64s, Float64s] | None = None
        for group in groups:
            expected = group.positions * rate
            noise = _noise(angle, expected, rounding)
            apart = _folded(angle - expected)
            worst = float((np.abs(apart) / (4 * noise + group.errors * rate)).max())
            if worst <= 1:
                group.places.add(k)
                if best is None or worst < best[0]:
                    best = (worst, group, apart, noise)
        if best is not None:
            best[1].refine(k, rate, best[2], best[3])
            continue
        if len(groups) == len(AXES):
            return None
        groups.append(_new_group(groups, k, rate, angle, rounding))
    sure = all((each.errors == 0).all() for each in groups)
    return groups if sure else None


def _new_group(
    groups: list[_Group], k: int, rate: float, angle: Float64s, rounding: float
) -> _Group:
    """Begin with one frequency, whose first row is near that of the others."""
    positions = np.unwrap(angle) / rate
    if groups:
        turn = _TWO_PI / rate
        positions = positions + turn * np.round((groups[0].positions[0] - positions[0]) / turn)
    noise = _noise(angle, positions * rate, rounding)
    group = _Group(positions, np.full(len(positions), np.inf))
    group.refine(k, rate, np.zeros(len(positions)), noise)
    return group


def _noise(angle: Float64s, expected: Float64s, rounding: float) -> Float64s:
    """Say how far off angles are: a sine or a cosine is rounded, or what it was computed of."""
    rounded = 2 * rounding * np.abs(np.sin(angle)) + rounding * np.abs(np.sin(2 * angle))
    noise: Float64s = rounded + _ARITHMETIC * np.abs(expected) + 2.0**-40
    return noise


def _folded(angles: Float64s) -> Float64s:
    folded: Float64s = (angles + np.pi) % _TWO_PI - np.pi
    return folded


def _proposal(
    table: Packed, theta: float, omega: Float64s, order: Order, positions: list[Int64s]
) -> Proposal:
    along = {axis: positions[group] for axis, group in zip(AXES, order.groups, strict=True)}
    parameters: dict[str, ParameterValue] = {
        "head_dim": 2 * len(omega),
        "mrope_section": order.section,
    }
    if order.interleaved:
        parameters["mrope_interleaved"] = True
    if theta != _USUAL_THETA:
        parameters["rope_theta"] = theta
    parameters |= _spelled(along)
    if table.pack != "pair":
        parameters["pack"] = table.pack
    if table.dtype is not FLOAT32:
        parameters["dtype"] = table.dtype.name
    shares = ", ".join(map(str, order.section))
    support = (
        f"the angles of the slowest pairs are as {theta:g}^(-k/{len(omega)})",
        f"{shares} of {len(omega)} frequencies turn with three sequences of whole positions",
    )
    channels = table.channels()
    turning = None
    if channels:
        coordinates = np.stack([along[axis] for axis in AXES], axis=1).astype(np.float64)
        axis_of = tuple(AXES.index(axis) for axis in order.axis_of)
        turning = Turning(coordinates, axis_of, omega, channels)
    return Proposal(Call("rope", parameters), support, turning)


def _spelled(along: dict[str, Int64s]) -> dict[str, ParameterValue]:
    """Say the positions along three axes, as a grid where they are those of one."""
    lengths = tuple(int(along[axis].max()) + 1 for axis in AXES)
    rows = len(along["t"])
    if min(lengths) > 0 and np.prod(lengths, dtype=float) == rows:
        grid = Tokens.of_grid(lengths, AXES)
        if all((grid.axes[axis].at(0, rows) == along[axis]).all() for axis in AXES):
            return {"grid": lengths}
    listed = {axis: Positions.of_runs(along[axis].tolist()) for axis in AXES}
    return {f"positions_{axis}": str(positions) for axis, positions in listed.items()}
