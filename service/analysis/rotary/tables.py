"""Rotary tables: which rule, pack, scale and positions an array may be made of."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from service.analysis.call import Call
from service.analysis.question import Family, Proposal, Question, Turning
from service.analysis.real_types import dtype_parameters
from service.analysis.rotary.components import components_located
from service.analysis.rotary.inverse_frequencies import angles_outright, frequency_vectors
from service.analysis.rotary.layouts import Packed, packings
from service.analysis.rotary.located import Located, evenly_located, scattered
from service.analysis.rotary.parameters import (
    has_whole_positions,
    is_of_numbers,
    positions_as_parameters,
    unit_of,
)
from service.analysis.waves import Complexes
from service.tables.angle import Int64s
from service.tables.document import ParameterValue

_MOST = 24
# A norm of two rounded numbers is off by a unit at most, and so is the median: the rest is for
# what engines lose in sines and cosines.
_EVEN = 8
_LISTS = {"inv_freq", "freq_factors", "short_factor"}


def rotary_tables(question: Question) -> Iterator[Proposal]:
    """Propose rotary tables with both cosines and sines, in every pack."""
    if all(is_of_numbers(sample) for sample in question.arrays.values()):
        yield from islice(_proposals(question), _MOST)


def _proposals(question: Question) -> Iterator[Proposal]:
    unit = unit_of(question.sample)
    even = [
        each
        for each in packings(question, unit)
        if _is_even(each.turns, unit) and has_whole_positions(question, each.rows)
    ]
    outright: list[Proposal] = []
    is_found = False
    for locate in (_evenly, _scattered):
        for packed in even:
            for each in locate(question, packed, unit):
                # A list fits any reading of channels; what has the fewest pairs is meant.
                is_wider = packed.turns.shape[1] > even[0].turns.shape[1]
                if is_wider and each.found.parameters.keys() & _LISTS:
                    continue
                proposal = _proposal(question, packed, each)
                if "inv_freq" in each.found.parameters:
                    outright.append(proposal)
                else:
                    is_found = True
                    yield proposal
        if is_found:
            break
    yield from outright[:1]


def _evenly(question: Question, packed: Packed, unit: float) -> Iterator[Located]:
    known = question.positions
    return evenly_located(
        packed.turns, unit, None if known is None else known[: packed.turns.shape[0]]
    )


def _scattered(question: Question, packed: Packed, unit: float) -> Iterator[Located]:
    is_whole = packed.rows == len(packed.turns)
    return scattered(packed.turns, unit) if is_whole and question.positions is None else iter(())


def _is_even(turns: Complexes, unit: float) -> bool:
    """Tell whether all pairs have one norm, as cosines and sines do."""
    norms = np.abs(turns)
    scale = float(np.median(norms))
    return scale > 0 and float(np.abs(norms - scale).max()) <= _EVEN * unit * scale


def _proposal(question: Question, packed: Packed, each: Located) -> Proposal:
    norms = np.abs(packed.turns)
    scale = float(np.median(norms))
    off = float(np.abs(norms / scale - 1).max())
    says = f"√(cos² + sin²) is {scale:.8g} within {off:.1e}, with {packed.says}"
    return _named(question, packed, each, says)


def rotary_components(question: Question) -> Iterator[Proposal]:
    """Propose rotary tables of which an array holds the cosines or the sines alone."""
    if not all(is_of_numbers(sample) for sample in question.arrays.values()):
        return
    for packed, each in islice(components_located(question, unit_of(question.sample)), _MOST):
        yield _named(question, packed, each, f"channels are waves of one frequency: {packed.says}")


def _named(question: Question, packed: Packed, each: Located, says: str) -> Proposal:
    positions = _every_position(question, packed, each)
    parameters = {**_width_of(each), **each.found.parameters}
    parameters |= positions_as_parameters(positions)
    if packed.pack != "pair":
        parameters["pack"] = packed.pack
    if not question.is_pair and (part := next(iter(packed.channels))) != "rope":
        parameters["part"] = part
    parameters |= dtype_parameters(question.sample)
    turning = Turning(
        positions.astype(np.float64)[:, np.newaxis],
        (0,) * len(each.omega),
        each.omega,
        packed.channels,
        each.found.rule.scale,
    )
    return Proposal(Call("rope", parameters), (says, *each.found.says), turning)


def _every_position(question: Question, packed: Packed, each: Located) -> Int64s:
    """Give the positions of all rows, of which the first were looked at."""
    if len(each.positions) == packed.rows:
        return each.positions
    if question.positions is not None:
        return question.positions.astype(np.int64)
    first = int(each.positions[0])
    return np.arange(first, first + packed.rows, dtype=np.int64)


def _width_of(each: Located) -> dict[str, ParameterValue]:
    """Say how wide a head is, unless a list of its frequencies says it."""
    return {} if "inv_freq" in each.found.parameters else {"head_dim": 2 * len(each.omega)}


FAMILIES: tuple[Family, ...] = (
    rotary_tables,
    rotary_components,
    frequency_vectors,
    angles_outright,
)
