"""Rotary tables of which there are only the cosines, or only the sines.

Vectors of frequencies: ``inv_freq``, their wavelengths, and angles of rows outright.

Rotary tables: which rule, pack, scale and positions an array may be made of.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from service.analysis.array import AngleModel, IdentifyInput, Proposal, ProposalFamily, TableRequest
from service.analysis.families.frequency_lists import MeasuredFrequencies, RuleMatch, frequencies
from service.analysis.families.row_positions import (
    Located,
    Packed,
    component_channels,
    evenly_located,
    has_whole_positions,
    is_of_numbers,
    packings,
    pick,
    positions_as_parameters,
    positions_of,
    rows_of,
    scattered,
    unit_of,
)
from service.analysis.families.scaling_rules import find_rules
from service.analysis.measure import EARLY_ROWS, Complexes
from service.analysis.precision import dtype_parameters
from service.numerics.document import ParameterValue
from service.numerics.dtypes import FLOAT16
from service.numerics.phase import Float64s, Int64s
from service.numerics.phasors import Component

# Two numbers are fitted to each channel: fewer rows say little of whether it is a wave at all.
_FEWEST_ROWS = 8
_COMPONENTS: tuple[Component, ...] = ("cos", "sin")


def components_located(question: IdentifyInput, unit: float) -> Iterator[tuple[Packed, Located]]:
    """Find the rule, and the position of the first row, of cosines or of sines alone.

    Rows must follow each other: x(p + L) + x(p − L) = 2·cos(L·ω)·x(p) says how fast each channel
    turns, and by least squares its phase follows.
    """
    values = question.sample.values
    if question.is_pair or question.sample.is_complex or values.ndim != 2:
        return
    every = rows_of(question.sample)
    rows = every[:EARLY_ROWS]
    if len(rows) < _FEWEST_ROWS or (question.positions is not None and not _is_close(question)):
        return
    for pack, channels in component_channels(rows, unit):
        wave = pick(rows, channels)
        omega, error = _frequencies(wave, unit)
        turns, angle_error = _fitted(wave, omega)
        clear = omega * len(wave) > 1
        if not clear.any() or (angle_error[clear] > 0.2).any():
            continue
        scale = float(np.median(np.abs(turns[clear])))
        scale = 1.0 if abs(scale - 1) < 64 * unit else scale
        measured = MeasuredFrequencies(omega, error, scale, 64 * unit)
        for found in find_rules(measured):
            if "inv_freq" in found.parameters or "freq_factors" in found.parameters:
                continue
            exact = frequencies(found.rule)
            off = float(angle_error[clear].max()) * 4 + 64 * unit
            for name in _COMPONENTS:
                phases = np.angle(turns if name == "cos" else turns * 1j)
                for start in next(positions_of(phases[clear], exact[clear], off))[:1]:
                    named = next(
                        each for kind, each in component_channels(rows, unit, name) if kind == pack
                    )
                    packed = Packed(
                        pack, {name: named}, turns[np.newaxis], len(every), f"the {name} alone"
                    )
                    yield packed, Located(found, exact, np.arange(len(every)) + start)


def _is_close(question: IdentifyInput) -> bool:
    return question.positions is not None and bool((np.diff(question.positions) == 1).all())


def _frequencies(wave: Float64s, unit: float) -> tuple[Float64s, Float64s]:
    """Estimate frequencies from lags ever longer, each telling which turn the next one is in."""
    omega = np.zeros(wave.shape[1])
    error = np.full(wave.shape[1], np.pi)
    lag = 1
    size = np.sqrt((wave**2).sum(axis=0)) + 1e-300
    while 2 * lag < len(wave):
        middle = wave[lag:-lag]
        power = np.maximum((middle**2).sum(axis=0), 1e-300)
        cosine = (middle * (wave[2 * lag :] + wave[: -2 * lag])).sum(axis=0) / (2 * power)
        turned = np.arccos(np.clip(cosine, -1, 1))
        off = 4 * unit * size / np.sqrt(power)
        sine = np.maximum(np.sqrt(np.maximum(1 - cosine**2, 0)), np.sqrt(off))
        doubt = off / sine / lag
        guesses = _turns_like(turned, omega * lag) / lag if lag > 1 else turned
        is_better = (doubt < error) & ((error * lag < 0.5) | (lag == 1))
        omega = np.where(is_better, guesses, omega)
        error = np.where(is_better, doubt, error)
        lag *= 2
    return omega, error


def _turns_like(turned: Float64s, near: Float64s) -> Float64s:
    """Give the angle with a cosine, that angle known only up to its sign and whole turns."""
    whole = 2 * np.pi * np.round((near - turned) / (2 * np.pi))
    other = 2 * np.pi * np.round((near + turned) / (2 * np.pi))
    first, second = whole + turned, other - turned
    nearer: Float64s = np.where(np.abs(first - near) <= np.abs(second - near), first, second)
    return nearer


def _fitted(wave: Float64s, omega: Float64s) -> tuple[np.ndarray, Float64s]:
    """Fit a·cos(ω·row) − b·sin(ω·row) to each channel: a + i·b, and how far it is off at most."""
    places = np.arange(len(wave), dtype=np.float64)[:, np.newaxis]
    cos, sin = np.cos(places * omega), -np.sin(places * omega)
    cc, ss, cs = (cos * cos).sum(axis=0), (sin * sin).sum(axis=0), (cos * sin).sum(axis=0)
    cx, sx = (cos * wave).sum(axis=0), (sin * wave).sum(axis=0)
    determinant = np.maximum(cc * ss - cs**2, 1e-300)
    real, imaginary = (ss * cx - cs * sx) / determinant, (cc * sx - cs * cx) / determinant
    off = np.abs(wave - real * cos - imaginary * sin).max(axis=0)
    return real + 1j * imaginary, off


_FEWEST = 2
_LISTS = {"inv_freq", "freq_factors", "short_factor"}
_MOST_ANGLES = 2.0**40

# Logarithms and powers of float64 are some units of the last place off.
_LEAST_SHARE = 2.0**-46


def frequency_vectors(question: IdentifyInput) -> Iterator[Proposal]:
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
    measured = MeasuredFrequencies(omega, np.maximum(_share(unit) * omega, 2.0**-120))
    found = list(find_rules(measured))
    named = [each for each in found if "inv_freq" not in each.parameters]
    if part == "wavelength" and not named:
        return
    for each in named or found:
        width = {} if "inv_freq" in each.parameters else {"head_dim": 2 * len(omega)}
        call = TableRequest("rope/frequencies", {**width, **each.parameters, "part": part})
        yield Proposal(call, each.says)


def angles_outright(question: IdentifyInput) -> Iterator[Proposal]:
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
) -> Iterator[tuple[MeasuredFrequencies, Float64s]]:
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
        yield (
            MeasuredFrequencies(omega, np.maximum(2 * _share(unit) * np.abs(omega), 2.0**-120)),
            where,
        )


def _starts(rows: Float64s, found: RuleMatch, positions: Float64s, unit: float) -> bool:
    """Tell whether all rows are at their positions, as far as their first numbers say."""
    exact = positions[:, np.newaxis] * frequencies(found.rule)[:1]
    return bool((np.abs(rows[:, :1] - exact) <= 16 * unit * np.abs(exact)).all())


def _angles(question: IdentifyInput, found: RuleMatch, positions: Float64s) -> Proposal:
    width = 2 * rows_of(question.sample).shape[1]
    parameters = {"head_dim": width, **found.parameters}
    parameters |= positions_as_parameters(positions.astype(np.int64))
    says = "numbers grow in proportion to the position, as angles do"
    call = TableRequest(
        "rope", {**parameters, "pack": "angle", **dtype_parameters(question.sample)}
    )
    return Proposal(call, (says, *found.says))


_MOST = 24
# A norm of two rounded numbers is off by a unit at most, and so is the median: the rest is for
# what engines lose in sines and cosines.
_EVEN = 8


def rotary_tables(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose rotary tables with both cosines and sines, in every pack."""
    if all(is_of_numbers(sample) for sample in question.arrays.values()):
        yield from islice(_proposals(question), _MOST)


def _proposals(question: IdentifyInput) -> Iterator[Proposal]:
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


def _evenly(question: IdentifyInput, packed: Packed, unit: float) -> Iterator[Located]:
    known = question.positions
    return evenly_located(
        packed.turns, unit, None if known is None else known[: packed.turns.shape[0]]
    )


def _scattered(question: IdentifyInput, packed: Packed, unit: float) -> Iterator[Located]:
    is_whole = packed.rows == len(packed.turns)
    return scattered(packed.turns, unit) if is_whole and question.positions is None else iter(())


def _is_even(turns: Complexes, unit: float) -> bool:
    """Tell whether all pairs have one norm, as cosines and sines do."""
    norms = np.abs(turns)
    scale = float(np.median(norms))
    return scale > 0 and float(np.abs(norms - scale).max()) <= _EVEN * unit * scale


def _proposal(question: IdentifyInput, packed: Packed, each: Located) -> Proposal:
    norms = np.abs(packed.turns)
    scale = float(np.median(norms))
    off = float(np.abs(norms / scale - 1).max())
    says = f"√(cos² + sin²) is {scale:.8g} within {off:.1e}, with {packed.says}"
    return _named(question, packed, each, says)


def rotary_components(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose rotary tables of which an array holds the cosines or the sines alone."""
    if not all(is_of_numbers(sample) for sample in question.arrays.values()):
        return
    for packed, each in islice(components_located(question, unit_of(question.sample)), _MOST):
        yield _named(question, packed, each, f"channels are waves of one frequency: {packed.says}")


def _named(question: IdentifyInput, packed: Packed, each: Located, says: str) -> Proposal:
    positions = _every_position(question, packed, each)
    parameters = {**_width_of(each), **each.found.parameters}
    parameters |= positions_as_parameters(positions)
    if packed.pack != "pair":
        parameters["pack"] = packed.pack
    if not question.is_pair and (part := next(iter(packed.channels))) != "rope":
        parameters["part"] = part
    parameters |= dtype_parameters(question.sample)
    turning = AngleModel(
        positions.astype(np.float64)[:, np.newaxis],
        (0,) * len(each.omega),
        each.omega,
        packed.channels,
        each.found.rule.scale,
    )
    return Proposal(TableRequest("rope", parameters), (says, *each.found.says), turning)


def _every_position(question: IdentifyInput, packed: Packed, each: Located) -> Int64s:
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


FAMILIES: tuple[ProposalFamily, ...] = (
    rotary_tables,
    rotary_components,
    frequency_vectors,
    angles_outright,
)
