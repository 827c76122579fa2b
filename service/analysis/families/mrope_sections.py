"""Propose ``/rope`` with mrope_section: frequencies with one of three position sequences each.

Angles of the slowest frequencies stay below 2π, so that their ratios give the base. The base gives
estimates of the positions, which faster frequencies with the same positions refine to integers.
MeasuredFrequencies are grouped by their positions, and the order of the groups gives the sections.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product, takewhile

import numpy as np

from service.analysis.array import IdentifyInput, Proposal
from service.analysis.explanation.formulas import Series
from service.analysis.explanation.measured import fold
from service.analysis.explanation.sources import USUAL_BASES
from service.analysis.explanation.views import View
from service.analysis.families.readings import (
    FrequencyFit,
    PackReading,
    RowReading,
    packed_tables,
    row_waves,
)
from service.analysis.families.requests import (
    USUAL_BASE,
    pack_parameters,
    table_proposal,
    unless_default,
)
from service.analysis.families.rotary_rules import exponents, rotary_fits
from service.analysis.families.series import plain_numbers
from service.encodings.grid.grids import Tokens
from service.encodings.rotary.angles import AXES
from service.encodings.rotary.mrope import LAYOUTS
from service.numerics.phase import Float64s, Int64s
from service.numerics.positions import Positions
from service.numerics.tables import ParameterValue

_LEAST_FREQUENCIES = 3
_MAX_ROWS = 4096
_MAX_PROPOSALS = 6

# The next frequency of the same axis is 1 ahead in blocks, and 3 ahead if axes are interleaved.
_GAPS = (1, 3)
_SLOW_PAIRS = 12

# The rows of text before the first image give the rule: this many rows are measured.
_TEXT_ROWS = 16

# The relative error of an angle after a few float32 roundings.
_ARITHMETIC = 2.0**-22
_LEAST_ANGLE = 2.0**-40


def propose_mrope(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/rope`` tables with mrope_section for an array, or for cosines and sines."""
    yield from islice(_tables(request), _MAX_PROPOSALS)


def _tables(request: IdentifyInput) -> Iterator[Proposal]:
    for table in packed_tables(request):
        rows, count = table.components[0].shape
        if count < _LEAST_FREQUENCIES or not 2 <= rows <= _MAX_ROWS or _is_sequence(table):
            continue
        angles = np.angle(table.phasors)
        for fit in islice(_fits(table), _MAX_PROPOSALS):
            if not (fit.omega > 0).all():
                continue
            groups = grouped(angles, fit.omega, table.rounding, table.smallest_error)
            if groups is None or len(groups) == 1 or not all(each.is_counted for each in groups):
                continue
            for order in orders([each.candidates for each in groups], count):
                positions = [groups[group].integers for group in order.groups]
                yield _proposal(request, table, fit, order, positions)


def _fits(table: PackReading) -> Iterator[FrequencyFit]:
    """Yield default rules found from the slowest frequencies, then rules found from text rows."""
    count = table.count
    if table.scale == 1.0:
        slow = table.phasors_of(list(range(max(count - _SLOW_PAIRS - max(_GAPS), 0), count)))
        for theta in _bases(np.angle(slow), count, table):
            support = (f"angles of the slowest pairs are proportional to {theta:g}^(-k/{count})",)
            own = unless_default("rope_theta", theta, USUAL_BASE)
            yield FrequencyFit(own, Series(theta, exponents(count), 2 * count).omega, support)
    for rows in range(min(_TEXT_ROWS, len(table.components[0])), 2, -1):
        waves = next(row_waves(_text(table, rows)), None)
        if waves is not None:
            for fit in rotary_fits(waves.frequencies):
                if not fit.is_listed and not fit.parameters.keys() <= {"rope_theta"}:
                    yield fit
            return


def _text(table: PackReading, rows: int) -> RowReading:
    """Return the first rows, which have one position on all axes before the first image."""
    first = View(table.components[0][:rows], table.components[1][:rows], table.dtype, table.pack)
    scale = (table.scale, 8 * table.rounding + 2.0**-21)
    none = np.zeros(rows, dtype=np.bool_)
    return RowReading(first, np.arange(rows), rows, none, 0, None, 0, False, scale)


def _is_sequence(table: PackReading) -> bool:
    """Return whether all angles increase evenly from row to row, as in an ordinary rotary table.

    One frequency of each axis is checked: the last three cover interleaved axes; the first, the
    middle and the last one cover axes in blocks.
    """
    count = table.count
    some = table.phasors_of(sorted({0, count // 2, *range(count - _LEAST_FREQUENCIES, count)}))
    ahead = some[1:] * some[:-1].conj()
    # The product of two rows has twice the error of one row.
    tolerance = 8 * table.rounding + _ARITHMETIC * len(some)
    return bool((np.abs(ahead - ahead[0]) <= tolerance).all())


def _bases(angles: Float64s, count: int, table: PackReading) -> list[float]:
    """Return bases from the last two frequencies with proportional angles, usual bases first.

    Args:
        angles: the angles of the slowest frequencies, in radians, (S, K).
        count: the number of all frequencies.
        table: the table with these angles.
    """
    relative_error = 2 * table.rounding + _ARITHMETIC
    error = 4 * table.smallest_error + _LEAST_ANGLE
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
            allowed = 4 * relative_error * (np.abs(fast) + ratio * np.abs(slow))
            if ratio > 1 and (np.abs(fast - ratio * slow) <= allowed + (1 + ratio) * error).all():
                power = np.log(ratio) * count / gap
                if power < 100:
                    measured = float(np.exp(power))
                    # The error of a least-squares fit is at most that of the largest angles.
                    base_error = 4 * relative_error * count / gap
                    close = [b for b in USUAL_BASES if abs(b - measured) <= base_error * measured]
                    numbers = plain_numbers(measured, min(base_error, 0.99))
                    return list(dict.fromkeys([*close, *numbers]))
    return []


# Frequencies by their positions.


@dataclass(eq=False)
class FrequencyGroup:
    """MeasuredFrequencies whose angles have the same positions, that is, belong to one axis.

    Attributes:
        positions: the estimated position of each row, (S,).
        errors: a bound of the error of each position, (S,).
        candidates: the indices of the frequencies that may belong to this group.
    """

    positions: Float64s
    errors: Float64s
    candidates: set[int] = field(default_factory=set)

    @property
    def integers(self) -> Int64s:
        return np.round(self.positions).astype(np.int64)

    @property
    def is_counted(self) -> bool:
        """True if the differences of positions have no common divisor, as in real token grids."""
        return int(np.gcd.reduce(np.diff(self.integers))) <= 1

    def refine(self, k: int, rate: float, deviation: Float64s, noise: Float64s) -> None:
        """Add frequency k to the group, and refine the position estimates with it.

        Args:
            k: the index of the frequency.
            rate: the frequency in radians per position.
            deviation: measured minus predicted angle of each row, (S,).
            noise: a bound of the angle error of each row, (S,).
        """
        self.candidates.add(k)
        is_finer = noise / rate < self.errors
        self.positions = np.where(is_finer, self.positions + deviation / rate, self.positions)
        self.errors = np.minimum(self.errors, noise / rate)
        is_known = self.errors < 0.1
        self.positions = np.where(is_known, np.round(self.positions), self.positions)
        self.errors = np.where(is_known, 0.0, self.errors)


def grouped(
    angles: Float64s, omega: Float64s, rounding: float, least: float
) -> list[FrequencyGroup] | None:
    """Return the frequencies grouped by their positions.

    Return None if there are more than three groups, or if a position is not found exactly.

    Args:
        angles: the measured angles in radians, within ±π, (S, K).
        omega: the decreasing frequencies in radians per position, (K,).
        rounding: the relative error of a cosine or a sine.
        least: the smallest absolute error of a cosine or a sine.
    """
    groups: list[FrequencyGroup] = []
    for k in range(len(omega) - 1, -1, -1):
        rate, angle = float(omega[k]), angles[:, k]
        best: tuple[float, FrequencyGroup, Float64s, Float64s] | None = None
        for group in groups:
            expected = group.positions * rate
            noise = _noise(angle, expected, rounding, least)
            deviation = fold(angle - expected)
            worst = float((np.abs(deviation) / (4 * noise + group.errors * rate)).max())
            if worst <= 1:
                group.candidates.add(k)
                if best is None or worst < best[0]:
                    best = worst, group, deviation, noise
        if best is not None:
            best[1].refine(k, rate, *best[2:])
            continue
        if len(groups) == len(AXES):
            return None
        positions = np.unwrap(angle) / rate
        if groups:
            # The position of the first row is near those of the other groups.
            period = 2 * np.pi / rate
            positions += period * np.round((groups[0].positions[0] - positions[0]) / period)
        group = FrequencyGroup(positions, np.full(len(positions), np.inf))
        noise = _noise(angle, positions * rate, rounding, least)
        group.refine(k, rate, np.zeros(len(positions)), noise)
        groups.append(group)
    return groups if all((each.errors == 0).all() for each in groups) else None


def _noise(angle: Float64s, expected: Float64s, rounding: float, least: float) -> Float64s:
    """Return bounds of the angle errors, (S,), from rounding sines, cosines and angles.

    The error of φ is cos φ·δ(sin φ) − sin φ·δ(cos φ).
    """
    rounded = rounding * np.abs(np.sin(2 * angle)) + max(least, _LEAST_ANGLE)
    return np.asarray(rounded + _ARITHMETIC * np.abs(expected))


# Sections.


@dataclass(frozen=True)
class SectionOrder:
    """An assignment of groups of frequencies to the axes t, h and w.

    Attributes:
        section: the number of frequencies of t, h and w.
        interleaved: whether the axes are interleaved instead of in blocks.
        groups: the group index of t, h and w.
        axis_of: the axis letter of each frequency, (K characters).
    """

    section: tuple[int, int, int]
    interleaved: bool
    groups: tuple[int, ...]
    axis_of: str


def orders(groups: Sequence[set[int]], count: int) -> Iterator[SectionOrder]:
    """Yield the assignments of groups to axes: at most one in blocks and one interleaved.

    Args:
        groups: for each group, the indices of the frequencies that may belong to it.
        count: the number of all frequencies.
    """
    for interleaved in (False, True):
        last = 2 if interleaved else count - 1
        for chosen in product(range(len(groups)), repeat=3):
            t, h, w = of_axes = [groups[group] for group in chosen]
            is_middle = 1 in h or not interleaved
            uses_all = len(set(chosen)) == len(groups)
            if not (0 in t and last in w and is_middle and uses_all):
                continue
            section = _interleaved(h, w, count) if interleaved else _blocks(t, w, count)
            layout = LAYOUTS["interleaved" if interleaved else "chunked"]
            axis_of = layout.axis_of_each(section)
            if all(k in of_axes[AXES.index(axis)] for k, axis in enumerate(axis_of)):
                yield SectionOrder(section, interleaved, chosen, axis_of)
                break


def _blocks(t: set[int], w: set[int], count: int) -> tuple[int, int, int]:
    """Return the block sections: t and w get as many of the first and last frequencies as fit."""
    end = next((k for k in range(count) if k not in t), count)
    begin = next((k + 1 for k in range(count - 1, -1, -1) if k not in w), 0)
    begin = max(begin, end)
    return end, begin - end, count - begin


def _interleaved(h: set[int], w: set[int], count: int) -> tuple[int, int, int]:
    """Return the interleaved sections: h and w get every third frequency as long as it fits."""
    of_h, of_w = (
        sum(1 for _ in takewhile(group.__contains__, range(first, count, 3)))
        for first, group in ((1, h), (2, w))
    )
    return count - of_h - of_w, of_h, of_w


def _proposal(
    request: IdentifyInput,
    table: PackReading,
    fit: FrequencyFit,
    order: SectionOrder,
    positions: Sequence[Int64s],
) -> Proposal:
    parameters: dict[str, ParameterValue] = {
        "head_dim": 2 * table.count,
        **fit.parameters,
        "mrope_section": order.section,
        **unless_default("mrope_interleaved", order.interleaved, default=False),
        **_position_parameters(positions),
        **pack_parameters(table.pack),
    }
    sections = ", ".join(map(str, order.section))
    support = f"{sections} of {table.count} frequencies have the positions of one axis each"
    return table_proposal(request, "rope", parameters, (*fit.support, support))


def _position_parameters(positions: Sequence[Int64s]) -> dict[str, ParameterValue]:
    """Return the request parameters of positions on three axes: ``grid`` if they form a grid."""
    rows, lengths = len(positions[0]), tuple(int(each.max()) + 1 for each in positions)
    if min(lengths) > 0 and np.prod(lengths, dtype=float) == rows:
        grid = Tokens.of_grid(lengths, AXES).axes
        if all(
            np.array_equal(grid[axis].at(0, rows), each)
            for axis, each in zip(AXES, positions, strict=True)
        ):
            return {"grid": lengths}
    return {
        f"positions_{axis}": str(Positions.of_integers(each))
        for axis, each in zip(AXES, positions, strict=True)
    }
