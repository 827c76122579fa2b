"""Propose ``/rope`` with mrope_section: frequencies that turn with one of three positions each.

The slowest pairs have not gone round once: the ratios of their angles give the base, and the base
gives the positions, to a whole number as faster pairs that turn with the same ones refine them.
Frequencies are sorted by the positions that they turn with; which of them lie together gives the
sections.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import TypeAlias

import numpy as np

from service.analysis.array import AngleModel, IdentifyInput, Proposal
from service.analysis.families.requests import pack_parameters, table_proposal, unless_default
from service.analysis.families.rotary_packs import PackReading, packed_tables
from service.analysis.families.row_positions import rules_of_first_rows
from service.analysis.families.series_rules import USUAL_BASES, RuleMatch, frequencies
from service.analysis.measure import USUAL_BASE, wrap_angles
from service.analysis.round_numbers import round_numbers
from service.encodings.grid.grids import Tokens
from service.encodings.rotary.angles import AXES, axis_of_frequency
from service.encodings.rotary.rules import Default
from service.numerics.phase import Float64s, Int64s
from service.numerics.positions import Positions
from service.numerics.tables import ParameterValue

_LEAST_FREQUENCIES = 3
_MAX_ROWS = 4096
_MAX_PROPOSALS = 6

# Between two pairs of one axis lies one frequency, or three where the axes take turns.
_GAPS = (1, 3)
_SLOW_PAIRS = 12

# A text before the first image gives the rule, if it is as long as this or shorter.
_TEXT_ROWS = 16

# Frequencies and angles of engines in float32: some roundings of the angle.
_ARITHMETIC = 2.0**-22
_LEAST_ANGLE = 2.0**-40


def propose_mrope(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the tables of M-RoPE that an array, or a pair, may be."""
    yield from islice(_tables(request), _MAX_PROPOSALS)


def _tables(request: IdentifyInput) -> Iterator[Proposal]:
    for table in packed_tables(request):
        rows, count = table.components[0].shape
        if count < _LEAST_FREQUENCIES or not 2 <= rows <= _MAX_ROWS or _is_sequence(table):
            continue
        for match in islice(_rules(table), _MAX_PROPOSALS):
            omega = frequencies(match.rule)
            if not (omega > 0).all():
                continue
            groups = grouped(np.angle(table.phasors), omega, (table.rounding, table.smallest_error))
            if groups is None or len(groups) == 1 or not all(each.is_counted for each in groups):
                continue
            for order in orders([each.places for each in groups], count):
                positions = [groups[group].whole for group in order.groups]
                yield _proposal(
                    request, table, match, order, dict(zip(AXES, positions, strict=True))
                )


def _rules(table: PackReading) -> Iterator[RuleMatch]:
    """Yield unscaled rules from the slowest pairs, others from the rows of a text."""
    count = table.count
    if table.scale == 1.0:
        slow = table.phasors_of(list(range(max(count - _SLOW_PAIRS - max(_GAPS), 0), count)))
        for theta in _bases(np.angle(slow), count, table):
            support = (f"the angles of the slowest pairs are as {theta:g}^(-k/{count})",)
            theta_parameter = unless_default("rope_theta", theta, USUAL_BASE)
            yield RuleMatch(Default(2 * count, theta), theta_parameter, support)
    for match in rules_of_first_rows(table.phasors[:_TEXT_ROWS], table.rounding):
        if not match.parameters.keys() <= {"rope_theta"}:
            yield match


def _is_sequence(table: PackReading) -> bool:
    """Return whether rows follow each other evenly, as those of one sequence of positions do.

    The last three pairs turn along all three axes where these take turns; where each has a block of
    pairs, these are the first, one in the middle and the last.
    """
    count = table.count
    some = table.phasors_of(sorted({0, count // 2, *range(count - _LEAST_FREQUENCIES, count)}))
    ahead = some[1:] * some[:-1].conj()
    # Two roundings of each of two rows move such a product by twice as much as one row.
    loose = 8 * table.rounding + _ARITHMETIC * len(some)
    return bool((np.abs(ahead - ahead[0]) <= loose).all())


def _bases(angles: Float64s, count: int, table: PackReading) -> list[float]:
    """Measure the base by pairs of slow frequencies, the last of all, that are proportional."""
    share, least = 2 * table.rounding + _ARITHMETIC, 4 * table.smallest_error + _LEAST_ANGLE
    last = angles.shape[1] - 1
    for k in range(last, max(last - _SLOW_PAIRS, 0), -1):
        slow = angles[:, k]
        if np.abs(slow).max() < _LEAST_ANGLE:
            continue
        for gap in _GAPS:
            if k - gap < 0:
                continue
            fast = np.unwrap(angles[:, k - gap])
            ratio = float(slow @ fast) / float(slow @ slow)
            noise = share * (np.abs(fast) + ratio * np.abs(slow))
            if ratio > 1 and (np.abs(fast - ratio * slow) <= 4 * noise + (1 + ratio) * least).all():
                power = np.log(ratio) * count / gap
                if power < 100:
                    # A least square over rows of relative errors: as heavy as the largest angles.
                    return _plain_bases(float(np.exp(power)), 4 * share * count / gap)
    return []


def _plain_bases(measured: float, error: float) -> list[float]:
    """Return bases near a measured one: those of published models first."""
    usual = [base for base in USUAL_BASES if abs(base - measured) <= error * measured]
    return list(dict.fromkeys([*usual, *round_numbers(measured, error, 3)]))


# Frequencies by the positions that they turn with.

RoundingErrors: TypeAlias = tuple[float, float]
"""The relative rounding error of a number, and the absolute one of the smallest numbers."""


@dataclass(eq=False)
class FrequencyGroup:
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
        return np.round(self.positions).astype(np.int64)

    @property
    def is_counted(self) -> bool:
        """Return whether positions have no common divisor, as those of tokens."""
        return int(np.gcd.reduce(np.diff(self.whole))) <= 1

    def refine(self, k: int, rate: float, apart: Float64s, noise: Float64s) -> None:
        """Add a frequency that turns with them."""
        self.places.add(k)
        self.positions = np.where(
            noise / rate < self.errors, self.positions + apart / rate, self.positions
        )
        self.errors = np.minimum(self.errors, noise / rate)
        is_sure = self.errors < 0.1
        self.positions = np.where(is_sure, np.round(self.positions), self.positions)
        self.errors = np.where(is_sure, 0.0, self.errors)


def grouped(
    angles: Float64s, omega: Float64s, rounding: RoundingErrors
) -> list[FrequencyGroup] | None:
    """Sort frequencies by the positions they turn with; None where these are more than three.

    Args:
        angles: in radians, (S, K), within ±π.
        omega: radians per position, (K,), falling.
        rounding: of cosines and sines.
    """
    groups: list[FrequencyGroup] = []
    for k in range(len(omega) - 1, -1, -1):
        rate, angle = float(omega[k]), angles[:, k]
        best: tuple[float, FrequencyGroup, Float64s, Float64s] | None = None
        for group in groups:
            expected = group.positions * rate
            noise = _noise(angle, expected, rounding)
            apart = wrap_angles(angle - expected)
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
        positions = np.unwrap(angle) / rate
        if groups:
            # The first row is near that of the other groups.
            turn = 2 * np.pi / rate
            positions += turn * np.round((groups[0].positions[0] - positions[0]) / turn)
        group = FrequencyGroup(positions, np.full(len(positions), np.inf))
        group.refine(k, rate, np.zeros(len(positions)), _noise(angle, positions * rate, rounding))
        groups.append(group)
    return groups if all((each.errors == 0).all() for each in groups) else None


def _noise(angle: Float64s, expected: Float64s, rounding: RoundingErrors) -> Float64s:
    """Bound the error of angles whose sines and cosines are rounded, or computed of rounded angles.

    φ is off by cos φ·δsin − sin φ·δcos, each δ a share of its own.
    """
    share, least = rounding
    rounded = share * np.abs(np.sin(2 * angle)) + max(least, _LEAST_ANGLE)
    noise: Float64s = rounded + _ARITHMETIC * np.abs(expected)
    return noise


# Sections.


@dataclass(frozen=True)
class SectionOrder:
    """Frequencies shared out to t, h and w.

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


def orders(places: Sequence[set[int]], count: int) -> Iterator[SectionOrder]:
    """Yield the orders of groups of frequencies, at most one in blocks and one in turns.

    Args:
        places: for each group the frequencies that may be of it.
        count: how many there are.
    """
    for interleaved in (False, True):
        last = 2 if interleaved else count - 1
        for t, h, w in product(range(len(places)), repeat=3):
            is_middle = 1 in places[h] or not interleaved
            uses_all = len({t, h, w}) == len(places)
            if not (0 in places[t] and last in places[w] and is_middle and uses_all):
                continue
            of_axes = places[t], places[h], places[w]
            section = (_turns if interleaved else _blocks)(*of_axes, count)
            if section is None:
                continue
            axis_of = axis_of_frequency(count, section, interleaved=interleaved)
            if all(k in of_axes[AXES.index(axis)] for k, axis in enumerate(axis_of)):
                yield SectionOrder(section, interleaved, (t, h, w), axis_of)
                break


def _blocks(t: set[int], h: set[int], w: set[int], count: int) -> tuple[int, int, int] | None:
    """Assign t all frequencies from the first on that it can have, and w all to the last."""
    end = next((k for k in range(count) if k not in t), count)
    begin = next((k + 1 for k in range(count - 1, -1, -1) if k not in w), 0)
    begin = max(begin, end)
    if not all(k in h for k in range(end, begin)):
        return None
    return end, begin - end, count - begin


def _turns(_: set[int], h: set[int], w: set[int], count: int) -> tuple[int, int, int] | None:
    """Assign h and w what they can have of their thirds, from the first on."""
    counts = []
    for place, group in enumerate((h, w), start=1):
        own = range(place, count, 3)
        counts.append(next((n for n, k in enumerate(own) if k not in group), len(own)))
    section = (count - sum(counts), counts[0], counts[1])
    return section if min(section) >= 0 else None


def _proposal(
    request: IdentifyInput,
    table: PackReading,
    match: RuleMatch,
    order: SectionOrder,
    positions: dict[str, Int64s],
) -> Proposal:
    count, channels = table.count, table.channels()
    parameters: dict[str, ParameterValue] = {
        "head_dim": 2 * count,
        **match.parameters,
        "mrope_section": order.section,
        **unless_default("mrope_interleaved", order.interleaved, default=False),
        **_position_parameters(positions),
        **pack_parameters(table.pack),
    }
    shares = ", ".join(map(str, order.section))
    support = f"{shares} of {count} frequencies turn with three sequences of whole positions"
    angles = None
    if channels:
        coordinates = np.stack([positions[axis] for axis in AXES], axis=1).astype(np.float64)
        axis_of = tuple(AXES.index(axis) for axis in order.axis_of)
        omega = frequencies(match.rule)
        angles = AngleModel(coordinates, axis_of, omega, channels, match.rule.scale)
    return table_proposal(request, "rope", parameters, (*match.support, support), angles)


def _position_parameters(positions: dict[str, Int64s]) -> dict[str, ParameterValue]:
    """Return positions along three axes as parameters, as a grid where they are those of one."""
    lengths = tuple(int(positions[axis].max()) + 1 for axis in AXES)
    rows = len(positions["t"])
    if min(lengths) > 0 and np.prod(lengths, dtype=float) == rows:
        grid = Tokens.of_grid(lengths, AXES)
        if all((grid.axes[axis].at(0, rows) == positions[axis]).all() for axis in AXES):
            return {"grid": lengths}
    return {f"positions_{axis}": str(Positions.of_runs(positions[axis].tolist())) for axis in AXES}
