"""What was done to get one table in place of another: the shortest list of known mistakes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from service.analysis.call import Call
from service.analysis.mistakes.catalogue import MOST_MISTAKES, Diagnosis, Leaving, Mistake, Verdict
from service.analysis.mistakes.checks import Match, Subject, Suspect, check, sampled
from service.analysis.mistakes.decimals import cuts
from service.analysis.mistakes.extents import Extent, extents
from service.analysis.mistakes.orders import Order, orders
from service.analysis.mistakes.search import turned
from service.analysis.mistakes.sides import Side, sides
from service.analysis.mistakes.turns import holding
from service.analysis.mistakes.values import of_values
from service.analysis.mistakes.waves import Waves, waves_of
from service.analysis.sample import Sample
from service.analysis.waves import EARLY_ROWS
from service.tables.angle import Float64s
from service.tables.dtypes import FLOAT64, INT64, DType, rounding_bound

_SHIFTS = 64

# What explains less than half of the elements explains nothing: no mistake is named then.
_NEAR = 0.5
# One mistake more explains some elements more of almost anything, as a row of noise; of one that
# was made it explains more than one row of those that are looked at.
_STEPS = 2**6


@dataclass(frozen=True, eq=False)
class Wanted:
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
    wanted: Wanted,
    others: Iterable[tuple[Mistake, Call, Wanted]] = (),
) -> Diagnosis | None:
    """Find the shortest known mistakes that turn one table into another.

    Args:
        have: what somebody has: arrays of the names that are wanted.
        wanted: what it should be.
        others: tables that a mistake of settings makes of it.

    Returns:
        The diagnosis, or None where the shapes have nothing to do with each other.
    """
    variants: list[tuple[Mistake, Call, Wanted]] = []
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


def _by_variant(found: Diagnosis, mistake: Mistake, yours: Call | None) -> Diagnosis:
    return replace(found, verdict="diagnosed", mistakes=(mistake, *found.mistakes), yours=yours)


@dataclass(frozen=True, eq=False)
class _Found:
    best: _Case | None
    nearest: _Case | None


def _search(have: Mapping[str, Sample], wanted: Wanted, most: int) -> _Found:
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
    have: Mapping[str, Sample], wanted: Wanted, most: int
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


def _of_order(subject: Subject, extent: Extent, order: Order, most: int) -> Iterator[Suspect]:
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
