"""Sinusoidal families: the absolute encoding in every convention, and what is made of it."""

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from service.analysis.call import Call
from service.analysis.question import Family, Proposal, Question, Turning
from service.analysis.real_types import dtype_parameters
from service.analysis.sinusoids.bands import propose_bands
from service.analysis.sinusoids.conventions import Candidate, Parameters, candidates
from service.analysis.sinusoids.frequencies import propose_frequencies
from service.analysis.sinusoids.operators import propose_operators, propose_similarity
from service.analysis.sinusoids.positions import Positioned, positions_of, spelled_positions
from service.analysis.sinusoids.relative import propose_relative
from service.analysis.sinusoids.rows import View, seen
from service.analysis.sinusoids.series import Course, courses
from service.analysis.sinusoids.support import rows_support, series_support
from service.analysis.sinusoids.timesteps import propose_timesteps
from service.grammar import spelled
from service.tables.angle import Float64s
from service.tables.conventions import ALIASES

_MOST = 24
_FEW_DIGITS = 6

# A list of so many positions more is nothing to say where a few parameters give the same rows.
_MUCH_LONGER = 32


def propose_encoding(question: Question) -> Iterator[Proposal]:
    """Propose ``/encoding`` in every convention that the rows of an array speak for."""
    if question.is_pair:
        return
    found = (proposal for view in seen(question.sample) for proposal in _of_view(question, view))
    yield from islice(found, _MOST)


def _of_view(question: Question, view: View) -> Iterator[Proposal]:
    for course in courses(view, question.positions):
        held = False
        places: dict[bytes, Positioned | None] = {}
        for candidate in candidates(view, course, question.d_model):
            pairs = view.pairs
            key = candidate.omega[:pairs].tobytes()
            if key not in places:
                places[key] = positions_of(view, course, candidate.omega)
            positioned = places[key]
            for proposal in _proposals(question, view, course, candidate, positioned):
                held = True
                yield proposal
        if held:
            return


def _proposals(
    question: Question,
    view: View,
    course: Course,
    candidate: Candidate,
    positioned: Positioned | None,
) -> Iterator[Proposal]:
    if positioned is None:
        return
    for said, values, offset in _rows(candidate, view, positioned):
        where = spelled_positions(values)
        if where is None:
            continue
        call = Call(
            "encoding",
            {**where, **candidate.parameters, **said, **dtype_parameters(question.sample)},
        )
        turned = values + offset
        yield Proposal(
            call,
            (view.evenness, *_support(view, course, candidate, positioned, offset)),
            Turning(
                turned[:, np.newaxis],
                (0,) * len(candidate.omega),
                candidate.omega,
                {next(iter(question.arrays)): view.channels},
                view.scale,
            ),
            view.rows.is_transposed,
        )


def _rows(
    candidate: Candidate, view: View, positioned: Positioned
) -> Iterator[tuple[Parameters, Float64s, int]]:
    """Give what is said of offset and padding, the positions that are asked for, and the offset."""
    blank = view.rows.blank
    usual = candidate.convention.padding_idx
    if usual is None:
        if not blank.any():
            yield {}, positioned.values, 0
        return
    if not positioned.is_whole:
        return
    for padding in _paddings(blank, positioned.values, usual):
        values = np.where(blank, padding, positioned.values)
        if ((values == padding) == blank).all():
            offset = candidate.convention.offset
            offset = padding + 1 if offset is None else offset
            said: Parameters = {} if padding == usual else {"padding_idx": padding}
            yield said, values - offset, offset


def _paddings(blank: NDArray[np.bool_], values: Float64s, usual: int) -> list[int]:
    """List what the row of padding may be: the one that is usual, or that among its neighbours."""
    if not blank.any() or np.isnan(values[blank]).any():
        return [usual]
    own = int(values[blank][0])
    is_inside = not (blank[0] or blank[-1])
    return list(dict.fromkeys([own, usual] if is_inside else [usual, own]))


def _support(
    view: View, course: Course, candidate: Candidate, positioned: Positioned, offset: int
) -> Iterator[str]:
    yield series_support(course.series, len(candidate.omega), candidate.base, candidate.span)
    if view.scale != 1:
        yield f"sines and cosines are multiplied by {view.scale:.9g}"
    yield rows_support(positioned, offset)
    if view.rows.blank.any():
        row = int(np.flatnonzero(view.rows.blank)[0])
        yield f"row {row} is zero throughout, as that of padding"
    alike = [alias for alias, name in ALIASES.items() if name == candidate.name]
    if alike:
        yield f"convention={candidate.name} goes by the name of {', '.join(alike)} as well"


def propose_sinusoids(question: Question) -> Iterator[Proposal]:
    """Propose all kinds of tables of sines and cosines of positions, the plainest first.

    It is plain to have few parameters, and numbers of few digits in them.
    """
    found = [(_cost(proposal.call), proposal) for family in _KINDS for proposal in family(question)]
    least = min((cost for cost, _ in found), default=0)
    for cost, proposal in sorted(found, key=lambda each: each[0])[:_MOST]:
        if cost <= least + _MUCH_LONGER:
            yield proposal


def _cost(call: Call) -> int:
    cost = len(call.parameters)
    for value in call.parameters.values():
        if isinstance(value, float):
            cost += max(0, len(spelled(value)) - _FEW_DIGITS)
        elif isinstance(value, str):
            cost += value.count(",")
    return cost


_KINDS: tuple[Family, ...] = (
    propose_encoding,
    propose_bands,
    propose_timesteps,
    propose_relative,
    propose_frequencies,
    propose_operators,
    propose_similarity,
)
FAMILIES: tuple[Family, ...] = (propose_sinusoids,)
