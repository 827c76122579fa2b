"""Propose ``/rope`` and ``/rope/frequencies``: rotary tables, parts of them, and frequencies.

The arrays are cosines and sines in every pack, cosines or sines alone, angles in radians, inverse
frequencies, or wavelengths.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, TableRequest
from service.analysis.explanation.measured import fold, frequency_loss
from service.analysis.explanation.views import HALF_STEP, View
from service.analysis.families.readings import (
    FrequencyFit,
    MeasuredFrequencies,
    RowReading,
    component_views,
    placed,
    rows_of,
)
from service.analysis.families.requests import (
    pack_parameters,
    position_parameters,
    table_proposal,
)
from service.analysis.families.rotary_rules import rotary_fits, usual_fits
from service.analysis.families.row_positions import whole_positions
from service.analysis.precision import rounding_share
from service.encodings.rotary.angles import PACKS
from service.numerics.dtypes import FLOAT16, FLOAT64, REAL_DTYPES
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue

_MAX_PROPOSALS = 24
# In so few rows channels may be equal by chance: all cosines are 1 at position 0.
_FEW_ROWS = 8


def propose_rotary_tables(
    request: IdentifyInput, read: Sequence[RowReading], chosen: slice = slice(None)
) -> Iterator[Proposal]:
    """Propose rotary tables with both cosines and sines, in every pack."""
    found = [each for each in read if each.packing in PACKS and not each.zeros]
    if not found:
        return
    fewest = min(each.pairs for each in found)
    kept = [each for each in found if each.pairs == fewest or each.count <= _FEW_ROWS]
    proposals = (
        proposal
        for reading in sorted(kept, key=lambda each: each.pairs)
        for proposal in _of_reading(request, reading, chosen, may_be_listed=reading.pairs == fewest)
    )
    yield from islice(proposals, _MAX_PROPOSALS)


def _of_reading(
    request: IdentifyInput, reading: RowReading, chosen: slice, *, may_be_listed: bool
) -> Iterator[Proposal]:
    if reading.zero_rows.any() or reading.view.count != reading.pairs:
        return
    usual = usual_fits(reading.pairs)
    for fit, positions in placed(reading, _unit_fits, usual, chosen, is_whole=True):
        if fit.is_listed and not may_be_listed:
            continue
        yield _proposal(
            request,
            fit,
            positions,
            reading.packing,
            (reading.support, *fit.support),
            is_transposed=reading.is_transposed,
        )


def _unit_fits(measured: MeasuredFrequencies) -> Iterator[FrequencyFit]:
    """Yield the fits of frequencies per row, where rows may be several positions apart."""
    first = float(measured.omega[0])
    step = float(round(first))
    if step > 1 and abs(first - step) <= 2.0**-8 * step:
        yield from rotary_fits(measured.divided(step))
    else:
        yield from rotary_fits(measured)


def _proposal(
    request: IdentifyInput,
    fit: FrequencyFit,
    positions: Float64s,
    pack: str,
    support: tuple[str, ...],
    *,
    part: str | None = None,
    is_transposed: bool = False,
) -> Proposal:
    width: dict[str, ParameterValue] = {"head_dim": 2 * len(fit.omega)}
    parameters = {
        **({} if "inv_freq" in fit.parameters else width),
        **fit.parameters,
        **position_parameters(positions.astype(np.int64)),
        **pack_parameters(pack),
        **({} if part is None else {"part": part}),
    }
    return table_proposal(request, "rope", parameters, support, is_transposed=is_transposed)


# Cosines or sines alone.

# Two numbers are fitted to each channel: fewer rows do not show whether it is a wave.
_FEWEST_WAVE_ROWS = 8
_MAX_WAVE_ROWS = 512
# No rule has a smaller or a larger factor of cosines and sines.
_SMALLEST_WAVE, _LARGEST_WAVE = 2.0**-6, 2.0


def propose_rotary_components(
    request: IdentifyInput, read: Sequence[RowReading], chosen: slice = slice(None)
) -> Iterator[Proposal]:
    """Propose rotary tables that contain only the cosines or only the sines."""
    if read or chosen != slice(None):
        return
    for view in component_views(request):
        yield from islice(_components(request, view), _MAX_PROPOSALS)


def _components(request: IdentifyInput, view: View) -> Iterator[Proposal]:
    """Yield the proposals of rows of waves at consecutive positions.

    x(p + L) + x(p − L) = 2·cos(L·ω)·x(p) gives the frequency of each channel, and least squares
    its phase.
    """
    rows = view.rows
    known = request.positions
    if rows < _FEWEST_WAVE_ROWS or (known is not None and (np.diff(known) != 1).any()):
        return
    if np.abs(view.parts[0][:_FEWEST_WAVE_ROWS]).max() > _LARGEST_WAVE:
        return
    wave = np.asarray(view.parts[0][:_MAX_WAVE_ROWS], dtype=np.float64)
    unit = HALF_STEP[view.dtype]
    omega, error = _wave_frequencies(wave, unit)
    error = error + frequency_loss(omega)
    phasors, residual = _wave_phases(wave, omega)
    clear = omega * len(wave) > 1
    if not clear.any() or (residual[clear] > 0.2).any():
        return
    scale = float(np.median(np.abs(phasors[clear])))
    if scale < _SMALLEST_WAVE:
        return
    scale = 1.0 if abs(scale - 1) < 64 * unit else scale
    phase_error = float(residual[clear].max()) * 4 + 64 * unit
    for fit in rotary_fits(MeasuredFrequencies(omega, error, scale, 64 * unit)):
        if fit.is_listed:
            continue
        for part in ("cos", "sin"):
            phases = np.angle(phasors if part == "cos" else phasors * 1j)
            for start in whole_positions(phases[clear], fit.omega[clear], phase_error)[:1]:
                support = (f"channels are waves of one frequency: the {part} alone", *fit.support)
                positions = np.arange(rows, dtype=np.float64) + float(start)
                yield _proposal(request, fit, positions, view.packing, support, part=part)


def _wave_frequencies(wave: Float64s, unit: float) -> tuple[Float64s, Float64s]:
    """Estimate frequencies and their errors from lags of 1, 2, 4, … rows.

    Each estimate gives the number of full rotations in the next lag.
    """
    omega, error = np.zeros(wave.shape[1]), np.full(wave.shape[1], np.pi)
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
        plus, minus = (fold(each - omega * lag) for each in (angle, -angle))
        near = omega * lag + np.where(np.abs(plus) <= np.abs(minus), plus, minus)
        is_better = (lag_error < error) & ((error * lag < 0.5) | (lag == 1))
        omega = np.where(is_better, near / lag if lag > 1 else angle, omega)
        error = np.where(is_better, lag_error, error)
        lag *= 2
    return omega, error


def _wave_phases(wave: Float64s, omega: Float64s) -> tuple[np.ndarray, Float64s]:
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


def _has_real_numbers(request: IdentifyInput) -> bool:
    sample = request.sample
    is_real = sample.element_dtype in REAL_DTYPES.values() and not sample.is_complex
    return not request.is_pair and is_real and sample.is_finite and bool(sample.values.any())


def propose_inverse_frequencies(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/rope/frequencies`` for falling inverse frequencies and for rising wavelengths."""
    values = request.sample.reals()
    if not _has_real_numbers(request) or values.ndim != 1 or (values < 0).any():
        return
    if len(values) < _FEWEST_FREQUENCIES:
        return
    part, omega = "inv_freq", values
    if values[-1] > values[0]:
        if not (values > 0).all():
            return
        part, omega = "wavelength", 2 * np.pi / values
    fits = list(rotary_fits(_measured(omega, _relative_error(request))))
    given = [fit for fit in fits if "inv_freq" in fit.parameters]
    others = [fit for fit in fits if "inv_freq" not in fit.parameters]
    for fit in others or (given if part == "inv_freq" else []):
        width: dict[str, ParameterValue] = {"head_dim": 2 * len(omega)}
        own = {} if fit in given else width
        parameters = {**own, **fit.parameters, "part": part}
        yield Proposal(TableRequest("rope/frequencies", parameters), fit.support)


def propose_angles(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose rotary tables of angles in radians, without cosines and sines."""
    sample = request.sample
    if not _has_real_numbers(request) or sample.values.ndim > 2 or sample.element_dtype is FLOAT16:
        return
    rows, known = rows_of(sample), request.positions
    if known is not None and (len(known) != len(rows) or (known != np.round(known)).any()):
        return
    if not (np.diff(rows[:, 0]) > 0).all() or np.abs(rows).max() > _LARGEST_ANGLE:
        return
    error = _relative_error(request)
    for measured, positions in _angle_rows(rows, error, known):
        for fit in rotary_fits(measured):
            exact = positions[:, np.newaxis] * fit.omega[:1]
            if fit.is_listed or (np.abs(rows[:, :1] - exact) > 4 * error * np.abs(exact)).any():
                continue
            parameters = {
                "head_dim": 2 * rows.shape[1],
                **fit.parameters,
                **position_parameters(positions.astype(np.int64)),
                "pack": "angle",
            }
            growth = "numbers are proportional to the position, as angles are"
            yield table_proposal(request, "rope", parameters, (growth, *fit.support))


def _relative_error(request: IdentifyInput) -> float:
    sample = request.sample
    share = HALF_STEP[FLOAT64] if sample.is_integer else rounding_share(sample)
    return max(4 * share, _LEAST_RELATIVE_ERROR)


def _measured(omega: Float64s, relative_error: float) -> MeasuredFrequencies:
    error = np.maximum(relative_error * np.abs(omega), _LEAST_FREQUENCY_ERROR)
    return MeasuredFrequencies(omega, error)


def _angle_rows(
    rows: Float64s, error: float, known: Float64s | None
) -> Iterator[tuple[MeasuredFrequencies, Float64s]]:
    """Yield frequencies and positions (S,) of rows of angles (S, K).

    Unknown positions are consecutive, or the first angles if the first frequency is 1.
    """
    whole = np.round(rows[:, 0])
    positions = whole if known is None else known
    if known is None and len(rows) > 1 and rows[-1, 0] != rows[0, 0]:
        step = (rows[-1, 0] - rows[0, 0]) / (len(rows) - 1)
        if step <= 0:
            return
        # Consecutive positions, also where the first frequency is not 1.
        in_steps = np.round(rows[:, 0] / step)
        positions = in_steps if np.ptp(in_steps) == len(rows) - 1 else whole
    for each in dict.fromkeys((tuple(positions), tuple(whole))):
        places = np.array(each)
        farthest = float(np.abs(places).max())
        if farthest > 0 and np.abs(places[-1]) >= farthest:
            yield _measured(rows[-1] / places[-1], 2 * error), places
