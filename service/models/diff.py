"""The difference of two positional encodings: which channels, from which position on, by how much.

Frequencies are compared as decimals of 80 digits, whatever keys they are computed from, and first
positions are found without a table, up to 2^62. Other encodings are compared number by number.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache
from itertools import zip_longest
from math import hypot, isclose, prod, sin, sqrt

import numpy as np

from service.numerics.dtypes import to_float64
from service.numerics.evaluation import sin_cos
from service.numerics.phase import (
    MAX_POSITION,
    TWO_PI,
    Float64s,
    Int64s,
    exact_arithmetic,
    fixed_point,
)
from service.numerics.positions import Positions
from service.numerics.tables import Document

MAX_COMPARED = 2**18
"""The most numbers of two tables that are compared."""

# One number by two formulas differs by less than this share of it.
ROUNDING, _SCALE_ROUNDING = Decimal("1e-60"), 1e-15
STORED = Decimal(2) ** -20
"""The same for frequencies that are divided by numbers which a file has in float32."""

_LEAST_STEP = Decimal("1e-70")
_ROUNDED, _SEARCHED = 1e-12, 1024


class _NotFound(Exception):
    """The search for a position ends before it is found."""


@dataclass(frozen=True)
class Difference:
    """The differences between two encodings.

    Attributes:
        first_position: the first at which they are more than epsilon apart; None if there is none
            up to 2^62, or if it is not known.
        by: the largest distance of two rotated unit vectors there, or of two numbers of tables.
        at_most: a bound of that distance before the end of the sequence.
        channels: those that differ, as integers and half-open ranges.
        by_axis: whether some turn with the position along another axis.
        has_positions: whether positions along one axis decide, and the first of them is known.
        reason: why no position can be told, where the shapes decide.
    """

    first_position: int | None = None
    by: float | None = None
    at_most: float | None = None
    channels: str | None = None
    by_axis: bool = False
    has_positions: bool = True
    reason: str | None = None


@dataclass(frozen=True)
class _ChannelTurn:
    """The channel that one turns with, its own if it stands still, how fast, and its factor."""

    partner: int
    frequency: Decimal = Decimal(0)
    scale: float = 1.0
    axis: str = ""

    def equals(self, other: "_ChannelTurn", rounding: Decimal) -> bool:
        """Return whether both are the same at every position along one axis."""
        a, b = self.frequency, other.frequency
        is_near = abs(a - b) <= rounding * max(abs(a), abs(b))
        are_scales_near = isclose(self.scale, other.scale, rel_tol=_SCALE_ROUNDING)
        return is_near and are_scales_near and self.partner == other.partner


@dataclass(frozen=True)
class Rotation:
    """The rotation of the channels of a head.

    Attributes:
        width: the number of channels.
        frequencies: of the pairs; below 0 if they turn backwards.
        layout: of the pairs.
        scale: the attention factor.
        offset: the channels before the first that turns.
        axes: the axis of the first channel of each pair, then of the second; empty for one axis.
        rounding: the share by which frequencies may be rounded.
    """

    width: int
    frequencies: tuple[Decimal, ...]
    layout: str
    scale: float = 1.0
    offset: int = 0
    axes: str = ""
    rounding: Decimal = ROUNDING

    def turns(self) -> list[_ChannelTurn]:
        """Return the turn of each channel."""
        turns, count = [*map(_ChannelTurn, range(self.width))], len(self.frequencies)
        for k, frequency in enumerate(self.frequencies):
            one, other = (2 * k, 2 * k + 1) if self.layout == "interleaved" else (k, k + count)
            one, other = one + self.offset, other + self.offset
            # The positions of text are those along axis t.
            axes = self.axes[k::count] or ("t", "t")
            # The sign of the partner tells the first channel of a pair from the second.
            turns[one] = _ChannelTurn(other, frequency, self.scale, axes[0])
            turns[other] = _ChannelTurn(~one, frequency, self.scale, axes[1])
        return turns


@dataclass(frozen=True)
class _Move:
    """The rotation of one channel by two models, and the distance of the rotated unit vectors.

    Attributes:
        turns: the frequencies.
        scales: the attention factors.
        is_in_one_plane: whether both turn it with the same channel.
    """

    turns: tuple[Decimal, Decimal]
    scales: tuple[float, float]
    is_in_one_plane: bool

    @property
    def _step(self) -> Decimal:
        """The angle between both after one position, from 0 to half a turn."""
        apart = _modulo(self.turns[0] - self.turns[1], TWO_PI)
        return min(apart, TWO_PI - apart)

    def distances(self, positions: Int64s) -> Float64s:
        """Return the distances at positions."""
        a, b = self.scales
        if self.is_in_one_plane:
            sines, _ = sin_cos(fixed_point([self._step / 2]), positions)
            return np.asarray(np.hypot(a - b, 2 * sqrt(a * b) * sines[:, 0]))
        _, cosines = sin_cos(fixed_point([*map(abs, self.turns)]), positions)
        return np.asarray(
            np.sqrt(np.maximum(0.0, a * a + b * b - 2 * a * b * cosines.prod(axis=1)))
        )

    def distance(self, position: int) -> float:
        """Return the distance at a position."""
        return float(self.distances(np.array([position]))[0])

    def first(self, epsilon: float, before: int) -> int | None:
        """Return the first position below a limit at which the distance is more than epsilon.

        Raises:
            _NotFound: the search ends before the limit.
        """
        a, b = self.scales
        if abs(a - b) > epsilon:
            return 0
        if a + b <= epsilon or before == 1:
            return None
        step = self._step
        if not self.is_in_one_plane:
            slow, fast = self._folded
            if fast - slow < _LEAST_STEP and hypot(a, b) <= epsilon:
                return None
            if slow > _LEAST_STEP:
                return self._first_apart(epsilon, before, slow + fast, fast)
            step = fast
        angle = _angle(epsilon, a, b)
        if angle is None or step < _LEAST_STEP:
            return None
        found = _first_within(step, TWO_PI, angle, TWO_PI - angle)
        return found if found < before else None

    @property
    def _folded(self) -> list[Decimal]:
        """The slower and the faster of two frequencies whose cosines have the same product."""
        turns = [_modulo(abs(each), TWO_PI) for each in self.turns]
        slow, fast = sorted(min(each, TWO_PI - each) for each in turns)
        half = TWO_PI / 2
        return [half - fast, half - slow] if slow > half / 2 else [slow, fast]

    def _first_apart(
        self, epsilon: float, before: int, speed: Decimal, fast: Decimal
    ) -> int | None:
        """Search up to a quarter of the faster turn, where the distance grows, and a while on."""
        most = min(max(1, int(min(TWO_PI / 4 / fast, Decimal(MAX_POSITION)))), before - 1)
        if self.distance(most) > epsilon:
            return bisect_left(range(most), 1, 1, key=lambda at: self.distance(at) > epsilon)
        # The product of the cosines changes by less than the speed with each position.
        position, unit = most, 2 * prod(self.scales)
        for _ in range(_SEARCHED):
            if position >= before:
                return None
            distance = self.distance(position)
            if distance > epsilon:
                return position
            gap = (epsilon**2 - distance**2) / unit - _ROUNDED
            position += max(1, int(Decimal(gap) / speed))
        raise _NotFound

    def at_most(self, length: int) -> float:
        """Return an upper bound of the distances before a length."""
        (a, b), half = self.scales, self._step * (length - 1) / 2
        if not self.is_in_one_plane or half > TWO_PI / 4:
            return a + b
        return hypot(a - b, 2 * sqrt(a * b) * sin(half))


@exact_arithmetic
def compare_rotations(
    one: Rotation, other: Rotation, epsilon: float, length: int
) -> Difference | None:
    """Return how two rotations differ, and by how much before a length; None if they do not."""
    if one.width != other.width:
        reason = (
            f"heads have {one.width} and {other.width} channels, so positions cannot be compared"
        )
        return Difference(has_positions=False, reason=reason)
    moves: dict[_Move, None] = {}
    channels, by_axis, rounding = [], False, max(one.rounding, other.rounding)
    for channel, (a, b) in enumerate(zip(one.turns(), other.turns(), strict=True)):
        if not a.equals(b, rounding):
            turns, scales = (a.frequency, b.frequency), (a.scale, b.scale)
            moves[_Move(turns, scales, a.partner == b.partner)] = None
        elif a.axis == b.axis or not a.frequency:
            continue
        by_axis |= a.axis != b.axis
        channels.append(channel)
    if not channels:
        return None
    position, is_known = None, True
    try:
        for move in moves:
            found = move.first(epsilon, MAX_POSITION if position is None else position)
            position = position if found is None else found
    except _NotFound:
        position, is_known = None, False
    return Difference(
        first_position=position,
        by=None if position is None else max(each.distance(position) for each in moves),
        at_most=max((each.at_most(length) for each in moves), default=None),
        channels=str(Positions.of_integers(np.array(channels, dtype=np.int64))),
        by_axis=by_axis,
        has_positions=bool(moves) and is_known,
    )


@cache
def _angle(epsilon: float, a: float, b: float) -> Decimal | None:
    """Return the angle at which vectors of these lengths are epsilon apart; None if always less."""
    exact = Decimal(epsilon) ** 2 - (Decimal(a) - Decimal(b)) ** 2
    chord = (exact / (4 * Decimal(a) * Decimal(b))).sqrt()
    if chord >= 1:
        return None
    # asin(x) = 2·asin(x/√(2·(1 + √(1 − x²)))), which converges for every x.
    small = chord / (2 * (1 + (1 - chord * chord).sqrt())).sqrt()
    term, total, n = small, small, 0
    while abs(term) > _LEAST_STEP * total:
        n += 1
        term *= small * small * (2 * n - 1) ** 2 / (2 * n * (2 * n + 1))
        total += term
    return 4 * total


def _modulo(value: Decimal, period: Decimal) -> Decimal:
    return value - period * (value / period).to_integral_value(ROUND_FLOOR)


def _first_within(step: Decimal, period: Decimal, low: Decimal, high: Decimal) -> int:
    """Return the least n with low ≤ n·step mod period ≤ high, by the steps of Euclid."""
    if 2 * step > period:
        step, low, high = period - step, period - high, period - low
    first = int((low / step).to_integral_value(ROUND_CEILING))
    if first * step <= high:
        return first
    turns = _first_within(_modulo(period, step), step, _modulo(-high, step), _modulo(-low, step))
    return int(((low + period * turns) / step).to_integral_value(ROUND_CEILING))


def compare_tables(one: Document, other: Document, epsilon: float) -> Difference | None:
    """Return how two tables differ, a row for each position; None if they are equal.

    A row that only one of them has differs. Of long tables the first MAX_COMPARED numbers are read.
    """
    firsts, by = list[int](), 0.0
    widths = ({name: each.shape[1:] for name, each in own.arrays.items()} for own in (one, other))
    if next(widths) != next(widths):
        return Difference(has_positions=False, reason="the rows of the tables have other shapes")
    for a, b in zip(one.arrays.values(), other.arrays.values(), strict=True):
        rows, width = min(a.shape[:1], b.shape[:1]), prod(a.shape[1:])
        count = min(prod(rows) * width, MAX_COMPARED)
        numbers = (to_float64(each.read(0, count), each.dtype) for each in (a, b))
        apart = np.abs(np.subtract(*numbers))
        by = max(by, float(apart.max(initial=0.0)))
        firsts += [int(place) // width for place in np.flatnonzero(apart > epsilon)[:1]]
        firsts += rows if a.shape != b.shape else ()
    if not by and not firsts:
        return None
    by_position = (
        one.axes[:1] not in {("head",), ("query",)}
        and min(len(each.shape) for each in one.arrays.values()) > 1
    )
    return Difference(min(firsts, default=None), by, has_positions=by_position)


def score_agreement(
    wanted: Iterable[Decimal], had: Iterable[Decimal], length: int
) -> list[tuple[int, float]]:
    """Return the agreement of attention scores at the distances 1, 2, 4 … up to a length.

    It is the mean over pairs of cos(Δp·(ω' − ω)): the score of a query with an equal key Δp
    positions before it, if the frequencies ω' are used in place of ω, as a share of the right one.
    1 is no change, and near 0 there is nothing left of the score. It is rounded to four decimals:
    the last bits of cosines differ between processors.

    Args:
        wanted: the frequencies ω of the pairs.
        had: the frequencies ω' in their place; pairs that only one side turns stand still on the
            other.
        length: the longest distance.
    """
    apart = np.array([float(a - b) for a, b in zip_longest(had, wanted, fillvalue=Decimal(0))])
    distances = (2**power for power in range(length.bit_length()))
    return [(each, round(float(np.cos(each * apart).mean()), 4)) for each in distances]
