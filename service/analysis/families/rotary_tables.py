"""Propose ``/rope`` and ``/rope/frequencies``: rotary tables, parts of them, and frequencies.

The arrays are cosines and sines in every pack, cosines or sines alone, angles in radians, inverse
frequencies, or wavelengths.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, TableRequest
from service.analysis.families.requests import (
    one_axis_angles,
    pack_parameters,
    position_parameters,
    table_proposal,
    unless_default,
)
from service.analysis.families.rotary_packs import (
    PackReading,
    equal_channels,
    has_pair_axis,
    pack_channels,
    pack_readings,
    rows_of,
)
from service.analysis.families.row_positions import (
    LocatedRows,
    evenly_located,
    has_real_numbers,
    has_rising_positions,
    scattered,
    unit_of,
)
from service.analysis.families.scaling_rules import find_rules
from service.analysis.families.series_rules import MeasuredFrequencies, RuleMatch, frequencies
from service.analysis.families.unwrapping import whole_positions
from service.analysis.measure import EARLY_ROWS, Complexes, wrap_angles
from service.encodings.rotary.angles import PACKS
from service.numerics.dtypes import FLOAT16
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Component

_MAX_PROPOSALS = 24

# In units: a norm of two rounded numbers and the median each have an error of one at most, engines
# add errors of sines and cosines.
_NORM_ERROR = 8

# In so few rows channels may be equal by chance: all cosines are 1 at position 0.
_FEW_ROWS = 8


def propose_rotary_tables(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose rotary tables with both cosines and sines, in every pack."""
    if all(has_real_numbers(sample) for sample in request.arrays.values()):
        yield from islice(_tables(request), _MAX_PROPOSALS)


def _tables(request: IdentifyInput) -> Iterator[Proposal]:
    unit = unit_of(request.sample)
    readings = [
        (reading, norm)
        for reading in _narrow_readings(request)
        if has_rising_positions(request, reading.rows)
        and (norm := _common_norm(reading, unit)) is not None
    ]
    given: list[Proposal] = []
    for locate in (_evenly, _scattered):
        is_found = False
        for reading, norm in readings:
            is_wider = reading.count > readings[0][0].count
            for located in locate(request, reading, unit):
                # A list fits every reading of channels: only the one with the fewest pairs counts.
                if is_wider and located.match.is_listed:
                    continue
                channels = reading.channels()
                proposal = _proposal(request, reading.pack, channels, located, norm)
                if located.match.is_given:
                    given.append(proposal)
                else:
                    is_found = True
                    yield proposal
        if is_found:
            break
    yield from given[:1]


def _narrow_readings(request: IdentifyInput) -> list[PackReading]:
    """Return the pack readings with the fewest frequencies; all readings if rows are few."""
    sample = request.sample
    if sample.values.ndim > (3 if has_pair_axis(sample) else 2):
        return []
    readings = sorted(pack_readings(request), key=lambda each: each.count)
    return [each for each in readings if each.count == readings[0].count or each.rows <= _FEW_ROWS]


def _evenly(request: IdentifyInput, reading: PackReading, unit: float) -> Iterator[LocatedRows]:
    phasors, known = reading.first_phasors, request.positions
    first = None if known is None else known[: len(phasors)]
    for located in evenly_located(phasors, unit, first):
        positions = located.positions
        if len(positions) < reading.rows:
            # The first rows alone are located.
            positions = np.arange(positions[0], positions[0] + reading.rows)
            if known is not None:
                positions = known.astype(np.int64)
        yield replace(located, positions=positions)


def _scattered(request: IdentifyInput, reading: PackReading, unit: float) -> Iterator[LocatedRows]:
    phasors = reading.first_phasors
    is_complete = reading.rows == len(phasors)
    return scattered(phasors, unit) if is_complete and request.positions is None else iter(())


def _common_norm(reading: PackReading, unit: float) -> str | None:
    """Return a sentence about the norm √(cos² + sin²) of all pairs; None if norms differ."""
    norms = np.abs(reading.first_phasors)
    scale = float(np.median(norms))
    if not (scale > 0 and float(np.abs(norms - scale).max()) <= _NORM_ERROR * unit * scale):
        return None
    error = float(np.abs(norms / scale - 1).max())
    layout = PACKS[reading.pack].description
    return f"√(cos² + sin²) is {scale:.8g} within {error:.1e}, with pairs laid out as {layout}"


def _proposal(
    request: IdentifyInput,
    pack: str,
    channels: Mapping[str, Channels],
    located: LocatedRows,
    support: str,
) -> Proposal:
    match = located.match
    parameters = {
        **match.sized(len(located.omega)),
        **position_parameters(located.positions),
        **pack_parameters(pack),
        **({} if request.is_pair else unless_default("part", next(iter(channels)), "rope")),
    }
    angles = one_axis_angles(located.positions, located.omega, channels, match.rule.scale)
    return table_proposal(request, "rope", parameters, (support, *match.support), angles)


# Cosines or sines alone.

# Two numbers are fitted to each channel: fewer rows do not show whether it is a wave.
_FEWEST_WAVE_ROWS = 8
_COMPONENTS: tuple[Component, ...] = ("cos", "sin")


def propose_rotary_components(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose rotary tables that contain only the cosines or only the sines."""
    if not all(has_real_numbers(sample) for sample in request.arrays.values()):
        return
    every = located_components(request, unit_of(request.sample))
    for pack, name, located in islice(every, _MAX_PROPOSALS):
        support = f"channels are waves of one frequency: the {name} alone"
        channels = pack_channels(pack, len(located.omega))
        yield _proposal(request, pack, {str(name): channels[name]}, located, support)


def located_components(
    request: IdentifyInput, unit: float
) -> Iterator[tuple[str, Component, LocatedRows]]:
    """Yield (pack, component, rule and positions) for an array of only cosines or only sines.

    The rows must have consecutive positions.

    x(p + L) + x(p − L) = 2·cos(L·ω)·x(p) gives the frequency of each channel, and least squares
    give its phase.
    """
    values = request.sample.values
    if request.is_pair or request.sample.is_complex or values.ndim != 2:
        return
    every = rows_of(request.sample)
    rows = every[:EARLY_ROWS]
    known = request.positions
    if len(rows) < _FEWEST_WAVE_ROWS or (known is not None and not (np.diff(known) == 1).all()):
        return
    packs = list(equal_channels(request.sample.element_dtype, rows))
    for pack, first in packs[:-1] or packs:
        wave = rows[:, first]
        omega, error = _wave_frequencies(wave, unit)
        phasors, residual = _wave_phases(wave, omega)
        clear = omega * len(wave) > 1
        if not clear.any() or (residual[clear] > 0.2).any():
            continue
        scale = float(np.median(np.abs(phasors[clear])))
        scale = 1.0 if abs(scale - 1) < 64 * unit else scale
        phase_error = float(residual[clear].max()) * 4 + 64 * unit
        for match in find_rules(MeasuredFrequencies(omega, error, scale, 64 * unit)):
            if match.parameters.keys() & {"inv_freq", "freq_factors"}:
                continue
            exact = frequencies(match.rule)
            for name in _COMPONENTS:
                phases = np.angle(phasors if name == "cos" else phasors * 1j)
                for start in whole_positions(phases[clear], exact[clear], phase_error)[:1]:
                    yield pack, name, LocatedRows(match, exact, np.arange(len(every)) + start)


def _wave_frequencies(wave: Float64s, unit: float) -> tuple[Float64s, Float64s]:
    """Estimate frequencies and their errors from lags of 1, 2, 4, … rows.

    Each estimate gives the number of full rotations in the next lag.
    """
    omega = np.zeros(wave.shape[1])
    error = np.full(wave.shape[1], np.pi)
    size = np.sqrt((wave**2).sum(axis=0)) + 1e-300
    lag = 1
    while 2 * lag < len(wave):
        middle = wave[lag:-lag]
        power = np.maximum((middle**2).sum(axis=0), 1e-300)
        cosine = (middle * (wave[2 * lag :] + wave[: -2 * lag])).sum(axis=0) / (2 * power)
        angle = np.arccos(np.clip(cosine, -1, 1))
        cosine_error = 4 * unit * size / np.sqrt(power)
        sine = np.maximum(np.sqrt(np.maximum(1 - cosine**2, 0)), np.sqrt(cosine_error))
        lag_error = cosine_error / sine / lag
        estimate = _nearest_angle(angle, omega * lag) / lag if lag > 1 else angle
        is_better = (lag_error < error) & ((error * lag < 0.5) | (lag == 1))
        omega = np.where(is_better, estimate, omega)
        error = np.where(is_better, lag_error, error)
        lag *= 2
    return omega, error


def _nearest_angle(angle: Float64s, near: Float64s) -> Float64s:
    """Return angle + 2πn or −angle + 2πn for an integer n, whichever is nearest to ``near``."""
    plus, minus = (wrap_angles(each - near) for each in (angle, -angle))
    return near + np.where(np.abs(plus) <= np.abs(minus), plus, minus)


def _wave_phases(wave: Float64s, omega: Float64s) -> tuple[Complexes, Float64s]:
    """Fit a·cos(ω·row) − b·sin(ω·row) to each channel: a + i·b, and the largest residual."""
    places = np.arange(len(wave), dtype=np.float64)[:, np.newaxis]
    cos, sin = np.cos(places * omega), -np.sin(places * omega)
    cc, ss, cs = (cos * cos).sum(axis=0), (sin * sin).sum(axis=0), (cos * sin).sum(axis=0)
    cx, sx = (cos * wave).sum(axis=0), (sin * wave).sum(axis=0)
    determinant = np.maximum(cc * ss - cs**2, 1e-300)
    real, imaginary = (ss * cx - cs * sx) / determinant, (cc * sx - cs * cx) / determinant
    residual = np.abs(wave - real * cos - imaginary * sin).max(axis=0)
    return real + 1j * imaginary, residual


# Vectors of frequencies, and angles.

_FEWEST_FREQUENCIES = 2
_LARGEST_ANGLE = 2.0**40
_LEAST_FREQUENCY_ERROR = 2.0**-120

# Logarithms and powers of float64 have an error of some units in the last place.
_LEAST_RELATIVE_ERROR = 2.0**-46


def propose_inverse_frequencies(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/rope/frequencies`` for falling inverse frequencies and for rising wavelengths."""
    sample = request.sample
    values = sample.reals()
    if request.is_pair or sample.is_complex or not has_real_numbers(sample) or values.ndim != 1:
        return
    if len(values) < _FEWEST_FREQUENCIES or (values < 0).any():
        return
    part, omega = "inv_freq", values
    if values[-1] > values[0]:
        if not (values > 0).all():
            return
        part, omega = "wavelength", 2 * np.pi / values
    matches = list(find_rules(_measured(omega, _relative_error(unit_of(sample)))))
    rules = [match for match in matches if not match.is_given]
    if part == "inv_freq":
        rules = rules or matches
    for match in rules:
        parameters = {**match.sized(len(omega)), "part": part}
        yield Proposal(TableRequest("rope/frequencies", parameters), match.support)


def propose_angles(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose rotary tables of angles in radians, without cosines and sines."""
    sample = request.sample
    if request.is_pair or sample.is_complex or not has_real_numbers(sample):
        return
    if sample.values.ndim > 2 or sample.element_dtype is FLOAT16:
        return
    rows = rows_of(sample)
    is_rising = bool((np.diff(rows[:, 0]) > 0).all())
    if not (is_rising and has_rising_positions(request, len(rows))):
        return
    if np.abs(rows).max() > _LARGEST_ANGLE:
        return
    unit = unit_of(sample)
    for measured, positions in _angle_rows(rows, unit, request.positions):
        for match in find_rules(measured):
            if match.is_listed or not _begins_with(rows, match, positions, unit):
                continue
            parameters = {
                "head_dim": 2 * rows.shape[1],
                **match.parameters,
                **position_parameters(positions.astype(np.int64)),
                "pack": "angle",
            }
            growth = "numbers are proportional to the position, as angles are"
            yield table_proposal(request, "rope", parameters, (growth, *match.support))


def _relative_error(unit: float) -> float:
    return max(4 * unit, _LEAST_RELATIVE_ERROR)


def _measured(omega: Float64s, relative_error: float) -> MeasuredFrequencies:
    error = np.maximum(relative_error * np.abs(omega), _LEAST_FREQUENCY_ERROR)
    return MeasuredFrequencies(omega, error)


def _angle_rows(
    rows: Float64s, unit: float, known: Float64s | None
) -> Iterator[tuple[MeasuredFrequencies, Float64s]]:
    """Yield frequencies and positions (S,) of rows of angles (S, K).

    Unknown positions are consecutive, or the first angles if the first frequency is 1.
    """
    rounded = np.round(rows[:, 0])
    positions = rounded if known is None else known
    if known is None and len(rows) > 1 and rows[-1, 0] != rows[0, 0]:
        step = (rows[-1, 0] - rows[0, 0]) / (len(rows) - 1)
        if step <= 0:
            return
        # Consecutive positions, also where the first frequency is not 1.
        in_steps = np.round(rows[:, 0] / step)
        positions = in_steps if np.ptp(in_steps) == len(rows) - 1 else rounded
    for each in dict.fromkeys((tuple(positions), tuple(rounded))):
        places = np.array(each)
        farthest = float(np.abs(places).max())
        if farthest > 0 and np.abs(places[-1]) >= farthest:
            yield _measured(rows[-1] / places[-1], 2 * _relative_error(unit)), places


def _begins_with(rows: Float64s, match: RuleMatch, positions: Float64s, unit: float) -> bool:
    """Return whether the first angle of each row is the position times the first frequency."""
    exact = positions[:, np.newaxis] * frequencies(match.rule)[:1]
    return bool((np.abs(rows[:, :1] - exact) <= 16 * unit * np.abs(exact)).all())
