"""Vectors of frequencies: ``inv_freq``, their wavelengths, and angles of rows outright."""

from collections.abc import Iterator

import numpy as np

from service.analysis.call import Call
from service.analysis.question import Proposal, Question
from service.analysis.real_types import dtype_parameters
from service.analysis.rotary.layouts import rows_of
from service.analysis.rotary.parameters import (
    has_whole_positions,
    is_of_numbers,
    positions_as_parameters,
    unit_of,
)
from service.analysis.rotary.rules import find_rules
from service.analysis.rotary.rules_measured import Found, Measured, frequencies
from service.tables.angle import Float64s
from service.tables.dtypes import FLOAT16

_FEWEST = 2
_LISTS = {"inv_freq", "freq_factors", "short_factor"}
_MOST_ANGLES = 2.0**40

# Logarithms and powers of float64 are some units of the last place off.
_LEAST_SHARE = 2.0**-46


def frequency_vectors(question: Question) -> Iterator[Proposal]:
    """Propose rules whose frequencies, or wavelengths, a list of numbers may be."""
    sample = question.sample
    values = sample.reals()
    if question.is_pair or sample.is_complex or not is_of_numbers(sample) or values.ndim != 1:
        return
    if len(values) < _FEWEST or (values < 0).any():
        return
    unit = unit_of(sample)
    if values[-1] <= values[0]:
        yield from _parts("inv_freq", values, unit)
    elif (values > 0).all():
        yield from _parts("wavelength", 2 * np.pi / values, unit)


def _parts(part: str, omega: Float64s, unit: float) -> Iterator[Proposal]:
    measured = Measured(omega, np.maximum(_share(unit) * omega, 2.0**-120))
    found = list(find_rules(measured))
    named = [each for each in found if "inv_freq" not in each.parameters]
    if part == "wavelength" and not named:
        return
    for each in named or found:
        width = {} if "inv_freq" in each.parameters else {"head_dim": 2 * len(omega)}
        call = Call("rope/frequencies", {**width, **each.parameters, "part": part})
        yield Proposal(call, each.says)


def angles_outright(question: Question) -> Iterator[Proposal]:
    """Propose rotary tables of which an array holds the angles themselves, in radians."""
    sample = question.sample
    if question.is_pair or sample.is_complex or not is_of_numbers(sample):
        return
    if sample.values.ndim > 2 or sample.element_dtype is FLOAT16:
        return
    rows = rows_of(sample)
    is_rising = bool((np.diff(rows[:, 0]) > 0).all())
    if not is_rising or np.abs(rows).max() > _MOST_ANGLES:
        return
    if not has_whole_positions(question, len(rows)):
        return
    unit = unit_of(sample)
    for measured, positions in _angle_rows(rows, unit, question.positions):
        for found in find_rules(measured):
            if not found.parameters.keys() & _LISTS and _starts(rows, found, positions, unit):
                yield _angles(question, found, positions)


def _share(unit: float) -> float:
    return max(4 * unit, _LEAST_SHARE)


def _angle_rows(
    rows: Float64s, unit: float, positions: Float64s | None
) -> Iterator[tuple[Measured, Float64s]]:
    """Give frequencies and positions of rows of angles: known, or of which the first turns 1."""
    if positions is not None:
        places = positions
    elif len(rows) > 1 and rows[-1, 0] != rows[0, 0]:
        step = (rows[-1, 0] - rows[0, 0]) / (len(rows) - 1)
        near = np.round(rows[:, 0] / step) if step > 0 else np.zeros(0)
        # With a step of one; or with as many as there are where the first frequency is 1.
        places = near if len(near) and np.ptp(near) == len(rows) - 1 else np.round(rows[:, 0])
        if step <= 0:
            return
    else:
        places = np.round(rows[:, 0])
    for each in dict.fromkeys((tuple(places), tuple(np.round(rows[:, 0])))):
        where = np.array(each)
        reach = float(np.abs(where).max())
        if reach == 0 or np.abs(where[-1]) < reach:
            continue
        omega = rows[-1] / where[-1]
        yield Measured(omega, np.maximum(2 * _share(unit) * np.abs(omega), 2.0**-120)), where


def _starts(rows: Float64s, found: Found, positions: Float64s, unit: float) -> bool:
    """Tell whether all rows are at their positions, as far as their first numbers say."""
    exact = positions[:, np.newaxis] * frequencies(found.rule)[:1]
    return bool((np.abs(rows[:, :1] - exact) <= 16 * unit * np.abs(exact)).all())


def _angles(question: Question, found: Found, positions: Float64s) -> Proposal:
    width = 2 * rows_of(question.sample).shape[1]
    parameters = {"head_dim": width, **found.parameters}
    parameters |= positions_as_parameters(positions.astype(np.int64))
    says = "numbers grow in proportion to the position, as angles do"
    call = Call("rope", {**parameters, "pack": "angle", **dtype_parameters(question.sample)})
    return Proposal(call, (says, *found.says))
