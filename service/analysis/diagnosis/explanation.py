"""Whether mistakes explain a table: what they make of the wanted one, element by element.

Mistakes in numbers of which nothing is known: a factor, and rows that are elsewhere.

What was done to get one table in place of another: the shortest list of known mistakes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from service.analysis.array import Sample, TableRequest
from service.analysis.diagnosis.frequency_faults import turned
from service.analysis.diagnosis.mistakes import MOST_MISTAKES, Diagnosis, Leaving, Mistake, Verdict
from service.analysis.diagnosis.structure import (
    Extent,
    OrderFault,
    Side,
    cuts,
    extents,
    orders,
    sides,
)
from service.analysis.diagnosis.waves import (
    LEAST_FACTOR,
    AngleFault,
    Waves,
    factor_mistake,
    holding,
    reach,
    waves_of,
)
from service.analysis.measure import EARLY_ROWS
from service.analysis.precision import spacing
from service.numerics.dtypes import FLOAT64, INT64, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

_SAMPLED_ROWS = 64
_FEWEST_SAMPLED_ROWS = 16
_SAMPLED_ELEMENTS = 2**13
_BLOCK_ELEMENTS = 2**18

# Engines round a frequency, its product with a position and its sine to float32, each to 2^-24 of
# it; what leads to a frequency (a power, a logarithm) may put some of its last places wrong. The
# larger the angle, the more that matters: 4 · 2^-24 of it (more where ``reach`` says so), and as
# much for the last step.
_ARITHMETIC = 2.0**-22


@dataclass(frozen=True, eq=False)
class Subject:
    """Two tables of rows and columns, the arrays of each side by side.

    Attributes:
        have, want: what somebody has, and what it should be.
        have_dtype, want_dtype: what they were rounded to.
        waves: what is wanted, where that is waves.
        blocks: how many arrays there are.
        cut: how far numbers are from what they were before they were rounded to a few decimals.
    """

    have: Float64s
    want: Float64s
    have_dtype: DType
    want_dtype: DType
    waves: Waves | None
    blocks: int
    cut: float = 0.0

    def allowed(self, table: Float64s, angles: Float64s | None, scale: float) -> Float64s:
        """Bound how far elements may be from computed ones, of waves of a scale."""
        steps = spacing(table, self.have_dtype) + spacing(table, self.want_dtype)
        if angles is None:
            bound: Float64s = 2 * steps + self.cut
            return bound
        return steps + _ARITHMETIC * (1 + angles) * scale + self.cut


@dataclass(frozen=True, eq=False)
class Suspect:
    """A way that somebody may have come from what is wanted to what is there.

    Attributes:
        mistakes: what went wrong.
        extent: what can be compared.
        order: where what is wanted is.
        waves: what is wanted of that extent.
        turned: what was made of the waves; None where the numbers are taken as they are, times
        factor: this, from the row
        shift: this many further down.
    """

    mistakes: tuple[Mistake, ...]
    extent: Extent
    order: OrderFault
    waves: Waves | None = None
    turned: AngleFault | None = None
    factor: float = 1.0
    shift: int = 0

    def expected(self, subject: Subject, rows: Indices) -> tuple[Float64s, Float64s | None]:
        """Compute rows, and how much the angles of their elements count, where they have any."""
        if self.turned is not None and self.waves is not None:
            return self.turned.table(self.waves, rows)
        wanted = subject.want[rows + self.shift][:, self.extent.want] * self.factor
        if self.waves is None:
            return wanted, None
        angles = np.outer(self.waves.positions[rows], self.waves.omega)
        return wanted, reach(angles, self.waves.omega)[:, self.waves.frequency]

    def found(self, subject: Subject, rows: Indices) -> Float64s:
        """Give the rows that somebody has, in the order that is wanted."""
        return subject.have[self.order.rows[rows]][:, self.extent.have[self.order.columns]]

    @property
    def scale(self) -> float:
        """What the waves are multiplied by, as they would have been made."""
        factor = self.factor if self.turned is None else self.turned.factor
        return factor * (self.waves.scale if self.waves else 1.0)

    @property
    def rows(self) -> int:
        """How many rows can be compared."""
        return self.extent.rows - abs(self.shift)


@dataclass(frozen=True)
class Match:
    """How far a suspect explains what is there.

    Attributes:
        share: of the elements, those that are explained.
        residual: how far an element is from what is expected, at most.
        allowed: how far the one that is farthest, for what it may, may be.
        elements: how many were compared.
        leaves: the first that is not explained: its row and its column in the wanted order, what
            is there, what is expected, how far apart they may be.
    """

    share: float
    residual: float
    allowed: float
    elements: int
    leaves: tuple[int, int, float, float, float] | None

    @property
    def is_whole(self) -> bool:
        """Tell whether every element is explained."""
        return self.leaves is None


def sampled(count: int, width: int) -> Indices:
    """Pick some of many rows of a width, the first and the last among them."""
    most = min(_SAMPLED_ROWS, max(_FEWEST_SAMPLED_ROWS, _SAMPLED_ELEMENTS // width))
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.intp)


def check(subject: Subject, suspect: Suspect, rows: Indices) -> Match:
    """Hold what a suspect would have made against rows of what is there."""
    good, residual, allowed, elements = 0, 0.0, 0.0, 0
    leaves: tuple[int, int, float, float, float] | None = None
    for part in _blocks(rows, len(suspect.extent.want)):
        expected, angles = suspect.expected(subject, part)
        found = suspect.found(subject, part)
        bound = subject.allowed(expected, angles, suspect.scale)
        error = np.abs(found - expected)
        is_good = error <= bound
        good += int(is_good.sum())
        elements += found.size
        residual = max(residual, float(error.max()))
        allowed = max(allowed, float(bound.max()))
        if leaves is None and not is_good.all():
            row, column = divmod(int(np.argmin(is_good)), found.shape[1])
            here = (found[row, column], expected[row, column], bound[row, column])
            leaves = (int(part[row]), column, *map(float, here))
    return Match(good / elements, residual, allowed, elements, leaves)


def _blocks(rows: Indices, width: int) -> Iterator[Indices]:
    length = max(1, _BLOCK_ELEMENTS // width)
    for start in range(0, len(rows), length):
        yield rows[start : start + length]


_SHIFTS = 64


def of_values(subject: Subject, straight: Suspect, epsilon: float) -> Iterator[Suspect]:
    """Give what may have been done to numbers of which nothing is known."""
    rows = sampled(straight.rows, len(straight.extent.want))
    wanted, _ = straight.expected(subject, rows)
    found = straight.found(subject, rows)
    factor = float((found * wanted).sum() / ((wanted * wanted).sum() or 1.0))
    if factor >= LEAST_FACTOR and abs(factor - 1) > 4 * epsilon:
        yield replace(straight, mistakes=(factor_mistake(factor),), factor=factor)
    for shift in range(1, min(_SHIFTS, straight.rows - 1)):
        moved = replace(straight, shift=shift)
        if check(subject, moved, np.arange(2)).is_whole:
            named = Mistake("position-offset", {"rows": shift})
            yield replace(moved, mistakes=(named,))


# What explains less than half of the elements explains nothing: no mistake is named then.
_NEAR = 0.5
# One mistake more explains some elements more of almost anything, as a row of noise; of one that
# was made it explains more than one row of those that are looked at.
_STEPS = 2**6


@dataclass(frozen=True, eq=False)
class ExpectedTable:
    """What a table should be.

    Attributes:
        arrays: one array, or those named ``cos`` and ``sin``.
        dtype: what its numbers are rounded to by whoever makes it.
        positions: of its rows, rising, where they are known.
        grid: height and width, where its rows are the places of a grid.
    """

    arrays: Mapping[str, Sample]
    dtype: DType
    positions: Float64s | None = None
    grid: tuple[int, int] | None = None

    @cached_property
    def side(self) -> Side:
        """The arrays as they are."""
        return Side.of(self.arrays)

    @cached_property
    def table(self) -> Float64s:
        """They as one table of rows and columns."""
        return self.side.table()

    @cached_property
    def waves(self) -> Waves | None:
        """They as waves, where they are such."""
        is_pair = len(self.side.names) == 2
        return waves_of(self.table, is_pair=is_pair, positions=self.positions)


@dataclass(frozen=True, eq=False)
class _Case:
    side: Side
    subject: Subject
    suspect: Suspect
    match: Match

    @property
    def rank(self) -> tuple[int, int, float]:
        """Say how near it is: how much it explains, by how few mistakes."""
        share = self.match.share
        return int(share * _STEPS), -len(self.suspect.mistakes), share

    def diagnosis(self) -> Diagnosis:
        """Say what it explains."""
        match, suspect = self.match, self.suspect
        explained: Verdict = "diagnosed" if suspect.mistakes else "equal"
        leaving: Leaving | None = None
        if match.leaves is not None:
            row, column, *numbers = match.leaves
            place = (
                int(suspect.order.rows[row]),
                int(suspect.extent.have[suspect.order.columns[column]]),
            )
            leaving = self.side.leaving(place, *numbers)
            if suspect.waves is not None:
                leaving = replace(leaving, position=float(suspect.waves.positions[row]))
        return Diagnosis(
            "none" if leaving else explained,
            suspect.mistakes,
            match.residual,
            match.elements,
            match.allowed,
            leaving,
        )


def diagnose(
    have: Mapping[str, Sample],
    wanted: ExpectedTable,
    others: Iterable[tuple[Mistake, TableRequest, ExpectedTable]] = (),
) -> Diagnosis | None:
    """Find the shortest known mistakes that turn one table into another.

    Args:
        have: what somebody has: arrays of the names that are wanted.
        wanted: what it should be.
        others: tables that a mistake of settings makes of it.

    Returns:
        The diagnosis, or None where the shapes have nothing to do with each other.
    """
    variants: list[tuple[Mistake, TableRequest, ExpectedTable]] = []
    nearest: list[tuple[_Case, Mistake | None]] = []
    for most in range(MOST_MISTAKES + 1):
        if most == 1:
            variants = list(others)
        for mistake, call, other in variants if 1 <= most < MOST_MISTAKES else ():
            varied = _search(have, other, most - 1)
            if varied.best is not None:
                yours = None if varied.best.suspect.mistakes else call
                return _by_variant(varied.best.diagnosis(), mistake, yours)
            nearest += [(varied.nearest, mistake)] if varied.nearest else []
        found = _search(have, wanted, most)
        if found.best is not None:
            return found.best.diagnosis()
        nearest += [(found.nearest, None)] if found.nearest else []
    return _nearest(nearest) if nearest else None


def _nearest(cases: list[tuple[_Case, Mistake | None]]) -> Diagnosis:
    """Say what comes nearest, and where it is left; no mistake, where nothing comes near."""
    case, mistake = max(cases, key=_nearness)
    if case.match.share < _NEAR:
        case, mistake = next((each for each in cases if each[1] is None), cases[0])
    every = np.arange(case.suspect.rows)
    found = replace(case, match=check(case.subject, case.suspect, every)).diagnosis()
    named = () if mistake is None else (mistake,)
    return replace(found, mistakes=(*named, *found.mistakes))


def _nearness(each: tuple[_Case, Mistake | None]) -> tuple[int, int, float]:
    (steps, fewest, share), mistake = each[0].rank, each[1]
    return steps, fewest - (mistake is not None), share


def _by_variant(found: Diagnosis, mistake: Mistake, yours: TableRequest | None) -> Diagnosis:
    return replace(found, verdict="diagnosed", mistakes=(mistake, *found.mistakes), yours=yours)


@dataclass(frozen=True, eq=False)
class _Found:
    best: _Case | None
    nearest: _Case | None


def _search(have: Mapping[str, Sample], wanted: ExpectedTable, most: int) -> _Found:
    """Find the first list of just so many mistakes that explains every element."""
    nearest: _Case | None = None
    for side, subject, suspect in _suspects(have, wanted, most):
        if len(suspect.mistakes) < most:
            continue
        match = check(subject, suspect, sampled(suspect.rows, len(suspect.extent.want)))
        if match.is_whole:
            match = check(subject, suspect, np.arange(suspect.rows))
        case = _Case(side, subject, suspect, match)
        if match.is_whole:
            return _Found(case, case)
        if nearest is None or case.rank > nearest.rank:
            nearest = case
    return _Found(None, nearest)


def _suspects(
    have: Mapping[str, Sample], wanted: ExpectedTable, most: int
) -> Iterator[tuple[Side, Subject, Suspect]]:
    should, table, waves = wanted.side, wanted.table, wanted.waves
    blocks = len(should.names)
    sent = next(iter(have.values())).element_dtype
    for side in sides(have, should):
        ours = side.table()
        dtype = FLOAT64 if sent is INT64 else sent
        if waves is not None:
            dtype = holding(ours, dtype)
        exact = Subject(ours, table, dtype, wanted.dtype, waves, blocks)
        for cut, mistakes in cuts(ours):
            subject, said = replace(exact, cut=cut), (*side.mistakes, *mistakes)
            for suspect in _of_subject(subject, wanted.grid, said, most):
                yield side, subject, suspect


def _of_subject(
    subject: Subject, grid: tuple[int, int] | None, said: tuple[Mistake, ...], most: int
) -> Iterator[Suspect]:
    if len(said) > most:
        return
    waves, blocks = subject.waves, subject.blocks
    for extent in extents(subject.have, subject.want, blocks, waves):
        every = orders(
            extent.rows, len(extent.want), blocks, grid, is_interleaved=_is_interleaved(waves)
        )
        for order in every:
            named = (*said, *extent.mistakes, *order.mistakes)
            if len(named) > most:
                continue
            for suspect in _of_order(subject, extent, order, most - len(named)):
                yield replace(suspect, mistakes=(*named, *suspect.mistakes))


def _is_interleaved(waves: Waves | None) -> bool:
    return waves is not None and bool(waves.frequency[0] == waves.frequency[1])


def _of_order(subject: Subject, extent: Extent, order: OrderFault, most: int) -> Iterator[Suspect]:
    """Give what may have been done to numbers in some order, by at most so many mistakes."""
    waves = subject.waves.narrowed(extent.want, extent.rows) if subject.waves else None
    straight = Suspect((), extent, order, waves)
    epsilon = rounding_bound(subject.have_dtype, 1.0) + rounding_bound(subject.want_dtype, 1.0)
    epsilon += subject.cut
    if extent.turning is None:
        yield straight
        if most == 0:
            return
    if waves is None:
        yield from of_values(subject, straight, epsilon)
        return
    if extent.turning is not None:
        waves = waves.of_width(extent.turning)
        straight = replace(straight, waves=waves)
    first = straight.found(subject, np.arange(min(EARLY_ROWS, extent.rows)))
    for found in turned(waves, first, epsilon):
        if len(found.mistakes) <= most:
            yield replace(straight, mistakes=found.mistakes, turned=found)
