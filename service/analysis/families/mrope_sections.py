"""Frequencies sorted by the positions that they turn with, which become known on the way.

In which order the frequencies of three axes lie, by which of them turn together.

``/rope`` with mrope_section: a series of frequencies, each turning with one of three positions.

The slowest pairs have not gone round once: from how their angles compare the base follows, and from
the base the positions, to a whole number as faster pairs that turn with the same ones refine them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import numpy as np

from service.analysis.array import AngleModel, IdentifyInput, Proposal, TableRequest
from service.analysis.families.axial_packing import Packed, packed
from service.analysis.families.frequency_lists import USUAL_BASES, RuleMatch, frequencies
from service.analysis.families.row_positions import rules_of_first_rows
from service.analysis.round_numbers import round_numbers
from service.encodings.grid.grids import Tokens
from service.encodings.rotary.angles import AXES, axis_of_frequency
from service.encodings.rotary.rules import Default
from service.numerics.document import ParameterValue
from service.numerics.dtypes import FLOAT32
from service.numerics.phase import Float64s, Int64s
from service.numerics.positions import Positions

_TWO_PI = 2 * np.pi

# Frequencies and angles of engines in float32: some roundings of the angle.
ARITHMETIC = 2.0**-22

Rounding: TypeAlias = tuple[float, float]


@dataclass(eq=False)
class Group:
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


def grouped(angles: Float64s, omega: Float64s, rounding: Rounding) -> list[Group] | None:
    """Sort frequencies by the positions they turn with; none where these are more than three.

    Args:
        angles: in radians, (S, K), within ±π.
        omega: radians per position, (K,), falling.
        rounding: by what share it may move a number, and a number near 0 by how much.
    """
    groups: list[Group] = []
    for k in range(len(omega) - 1, -1, -1):
        rate, angle = float(omega[k]), angles[:, k]
        best: tuple[float, Group, Float64s, Float64s] | None = None
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
    groups: list[Group], k: int, rate: float, angle: Float64s, rounding: Rounding
) -> Group:
    """Begin with one frequency, whose first row is near that of the others."""
    positions = np.unwrap(angle) / rate
    if groups:
        turn = _TWO_PI / rate
        positions = positions + turn * np.round((groups[0].positions[0] - positions[0]) / turn)
    noise = _noise(angle, positions * rate, rounding)
    group = Group(positions, np.full(len(positions), np.inf))
    group.refine(k, rate, np.zeros(len(positions)), noise)
    return group


def _noise(angle: Float64s, expected: Float64s, rounding: Rounding) -> Float64s:
    """Say how far off angles are: sines and cosines are rounded, or what they were computed of.

    φ is off by cos φ·δsin − sin φ·δcos, each δ a share of its own.
    """
    share, least = rounding
    rounded = share * np.abs(np.sin(2 * angle)) + max(least, 2.0**-40)
    noise: Float64s = rounded + ARITHMETIC * np.abs(expected)
    return noise


def _folded(angles: Float64s) -> Float64s:
    folded: Float64s = (angles + np.pi) % _TWO_PI - np.pi
    return folded


@dataclass(frozen=True)
class Order:
    """How frequencies are shared out to t, h and w.

    Attributes:
        section: how many turn with each.
        interleaved: whether they take turns.
        groups: which group of frequencies is that of each axis.
        axis_of: the axis of each frequency, one letter each.
    """

    section: tuple[int, int, int]
    interleaved: bool
    groups: tuple[int, int, int]
    axis_of: str


def orders(places: Sequence[set[int]], count: int) -> Iterator[Order]:
    """Give the orders that groups of frequencies lie in, one in blocks and one in turns at most.

    Args:
        places: for each group the frequencies that may be of it.
        count: how many there are.
    """
    for interleaved in (False, True):
        for groups in _choices(places, count, interleaved=interleaved):
            section = (
                _turned_section(places, groups, count)
                if interleaved
                else _block_section(places, groups, count)
            )
            if section is None:
                continue
            axis_of = axis_of_frequency(count, section, interleaved=interleaved)
            if all(k in places[groups[AXES.index(axis)]] for k, axis in enumerate(axis_of)):
                yield Order(section, interleaved, groups, axis_of)
                break


def _choices(
    places: Sequence[set[int]], count: int, *, interleaved: bool
) -> Iterator[tuple[int, int, int]]:
    """Give groups that may be those of t, h and w."""
    every = range(len(places))
    last = 2 if interleaved else count - 1
    for t in every:
        for h in every:
            for w in every:
                is_middle = 1 in places[h] if interleaved else True
                uses_all = len({t, h, w}) == len(places)
                if 0 in places[t] and last in places[w] and is_middle and uses_all:
                    yield t, h, w


def _block_section(
    places: Sequence[set[int]], groups: tuple[int, int, int], count: int
) -> tuple[int, int, int] | None:
    """Let t have all from the first on that it can, and w all to the last."""
    first, middle, last = (places[group] for group in groups)
    end = next((k for k in range(count) if k not in first), count)
    begin = next((k + 1 for k in range(count - 1, -1, -1) if k not in last), 0)
    begin = max(begin, end)
    if not all(k in middle for k in range(end, begin)):
        return None
    return end, begin - end, count - begin


def _turned_section(
    places: Sequence[set[int]], groups: tuple[int, int, int], count: int
) -> tuple[int, int, int] | None:
    """Let h and w have what they can of their thirds, from the first on."""
    counts = []
    for place, group in enumerate(groups[1:], start=1):
        own = range(place, count, 3)
        counts.append(next((n for n, k in enumerate(own) if k not in places[group]), len(own)))
    section = (count - sum(counts), counts[0], counts[1])
    return section if min(section) >= 0 else None


_USUAL_THETA = 10000.0
_LEAST_FREQUENCIES = 3
_MOST_ROWS = 4096
_MOST = 6

# Between two pairs of one axis lies one frequency, or three where the axes take turns.
_GAPS = (1, 3)
_SLOW_PAIRS = 12

# A text before the first image says the rule, if it is as long as this or shorter.
_TEXT_ROWS = 16


def propose(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose the tables of M-RoPE that an array, or two, may be."""
    yield from islice(_proposals(question), _MOST)


def _proposals(question: IdentifyInput) -> Iterator[Proposal]:
    for table in packed(question):
        rows, count = table.components[0].shape
        if count < _LEAST_FREQUENCIES or not 2 <= rows <= _MOST_ROWS or _is_sequence(table):
            continue
        for rule in islice(_rules(table), _MOST):
            omega = frequencies(rule.rule)
            if not (omega > 0).all():
                continue
            groups = grouped(np.angle(table.turns), omega, (table.rounding, table.least))
            if groups is None or len(groups) == 1 or not all(each.is_counted for each in groups):
                continue
            for order in orders([each.places for each in groups], count):
                yield _proposal(table, rule, omega, order, [each.whole for each in groups])


def _rules(table: Packed) -> Iterator[RuleMatch]:
    """Find rules: those without scaling by the slowest pairs, others by the rows of a text."""
    count = table.count
    slow = table.some(list(range(max(count - _SLOW_PAIRS - max(_GAPS), 0), count)))
    if table.scale == 1.0:
        for theta in _bases(np.angle(slow), count, table):
            said = (f"the angles of the slowest pairs are as {theta:g}^(-k/{count})",)
            named = {} if theta == _USUAL_THETA else {"rope_theta": theta}
            yield RuleMatch(Default(2 * count, theta), named, said)
    for found in rules_of_first_rows(table.turns[:_TEXT_ROWS], table.rounding):
        if not found.parameters.keys() <= {"rope_theta"}:
            yield found


def _is_sequence(table: Packed) -> bool:
    """Tell whether rows follow each other evenly, as those of one sequence of positions do.

    The last three pairs turn along all three axes where these take turns; where each has a block of
    pairs, these are the first, one in the middle and the last.
    """
    count = table.count
    some = table.some(sorted({0, count // 2, *range(count - _LEAST_FREQUENCIES, count)}))
    ahead = some[1:] * some[:-1].conj()
    # Two roundings of each of two rows move such a product by twice as much as one row.
    loose = 8 * table.rounding + ARITHMETIC * len(some)
    return bool((np.abs(ahead - ahead[0]) <= loose).all())


def _bases(angles: Float64s, count: int, table: Packed) -> list[float]:
    """Measure the base by pairs of slow frequencies, the last of all, that are proportional."""
    rounding, least = table.rounding, 4 * table.least + 2.0**-40
    last = angles.shape[1] - 1
    for k in range(last, max(last - _SLOW_PAIRS, 0), -1):
        slow = angles[:, k]
        if np.abs(slow).max() < 2.0**-40:
            continue
        for gap in _GAPS:
            if k - gap < 0:
                continue
            fast = np.unwrap(angles[:, k - gap])
            ratio = float(slow @ fast) / float(slow @ slow)
            noise = (2 * rounding + ARITHMETIC) * (np.abs(fast) + ratio * np.abs(slow))
            if ratio > 1 and (np.abs(fast - ratio * slow) <= 4 * noise + (1 + ratio) * least).all():
                # A least square over rows of relative errors: as heavy as the largest angles.
                error = 4 * (2 * rounding + ARITHMETIC) * count / gap
                power = np.log(ratio) * count / gap
                if power < 100:
                    return _plain_bases(float(np.exp(power)), error)
    return []


def _plain_bases(measured: float, error: float) -> list[float]:
    """Give bases near a measured one: those of published models first."""
    usual = [base for base in USUAL_BASES if abs(base - measured) <= error * measured]
    return list(dict.fromkeys([*usual, *round_numbers(measured, error, 3)]))


def _proposal(
    table: Packed, rule: RuleMatch, omega: Float64s, order: Order, positions: list[Int64s]
) -> Proposal:
    along = {axis: positions[group] for axis, group in zip(AXES, order.groups, strict=True)}
    parameters: dict[str, ParameterValue] = {
        "head_dim": 2 * len(omega),
        **rule.parameters,
        "mrope_section": order.section,
    }
    if order.interleaved:
        parameters["mrope_interleaved"] = True
    parameters |= _spelled(along)
    if table.pack != "pair":
        parameters["pack"] = table.pack
    if table.dtype is not FLOAT32:
        parameters["dtype"] = table.dtype.name
    shares = ", ".join(map(str, order.section))
    support = (
        *rule.says,
        f"{shares} of {len(omega)} frequencies turn with three sequences of whole positions",
    )
    channels = table.channels()
    turning = None
    if channels:
        coordinates = np.stack([along[axis] for axis in AXES], axis=1).astype(np.float64)
        axis_of = tuple(AXES.index(axis) for axis in order.axis_of)
        turning = AngleModel(coordinates, axis_of, omega, channels, rule.rule.scale)
    return Proposal(TableRequest("rope", parameters), support, turning)


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
