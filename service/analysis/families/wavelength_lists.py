"""Propose ``/encoding/frequencies`` for lists, and ``/encoding`` with the bands of Perceiver.

A list of frequencies, which fall, or of wavelengths, which rise, is a geometric series or evenly
spaced. Rows of Perceiver lie evenly from −1 to 1, and their bands are evenly spaced.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, TableRequest, single_finite_array
from service.analysis.families.published_sinusoids import frequencies_of, series_support
from service.analysis.families.requests import one_axis_angles, table_proposal, unless_default
from service.analysis.families.sinusoid_rows import OrientedRows, oriented_rows
from service.analysis.families.unwrapping import (
    ENGINE_ERROR,
    AxisWaves,
    axis_waves,
    band_resolutions,
    bands,
    sine_bands,
)
from service.analysis.measure import fit_geometric
from service.analysis.precision import spacing
from service.encodings.absolute.conventions import CONVENTIONS, SinusoidConvention
from service.numerics.dtypes import rounding_bound
from service.numerics.limits import MAX_FACTOR
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Component

_TWO_PI = 2 * np.pi


def propose_encoding_frequencies(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding/frequencies``: one of its two arrays, numbers that fall or that rise."""
    values = single_finite_array(request, (1,))
    if values is None or not (values > 0).all():
        return
    errors = spacing(values, request.sample.element_dtype) + ENGINE_ERROR * values
    omega, omega_errors = _TWO_PI / values, _TWO_PI / values**2 * errors
    yield from _evenly_spaced(request, "frequency", values, errors)
    yield from _evenly_spaced(request, "wavelength", omega, omega_errors)
    if len(values) == 1 or values[0] > values[-1]:
        yield from _geometric(request, "frequency", values, errors)
    if len(values) == 1 or values[0] < values[-1]:
        yield from _geometric(request, "wavelength", omega, omega_errors)


def _geometric(
    request: IdentifyInput, part: str, omega: Float64s, errors: Float64s
) -> Iterator[Proposal]:
    series = fit_geometric(omega, errors)
    if series is None:
        return
    found = []
    for name, convention in CONVENTIONS.items():
        for d_model in _widths(convention, len(omega), request.d_model):
            for each in frequencies_of(convention, d_model, series, has_first=True):
                if (np.abs(each.omega - omega) <= 4 * errors).all():
                    parameters = {
                        "d_model": d_model,
                        **unless_default("convention", name, "vaswani"),
                        **each.parameters,
                        "part": part,
                    }
                    span = convention.span(d_model)
                    support = series_support(series, len(omega), each.base, span)
                    call = TableRequest("encoding/frequencies", parameters)
                    found.append((each.is_plain, d_model % 2, Proposal(call, (support,))))
    has_plain = any(is_plain for is_plain, *_ in found)
    # All conventions have even widths, few have odd ones.
    found.sort(key=lambda each: each[1])
    yield from (proposal for is_plain, _, proposal in found if is_plain or not has_plain)


def _widths(convention: SinusoidConvention, count: int, d_model: int | None) -> list[int]:
    """Return what d_model may be for so many frequencies; the known one alone if it is among it."""
    fitting = [
        width
        for width in (2 * count, 2 * count - 1, 2 * count + 1)
        if convention.spacing != "bands"
        and convention.count(width) == count
        and convention.width(width) >= 1
        and convention.span(width) > 0
        and not (convention.odd == "refused" and width % 2)
    ]
    return [width for width in fitting if width == d_model] or fitting


def _evenly_spaced(
    request: IdentifyInput, part: str, omega: Float64s, errors: Float64s
) -> Iterator[Proposal]:
    count, half_turns = len(omega), 2 * omega[-1] / np.pi
    if not 0.5 < half_turns <= MAX_FACTOR or count < 2:
        return
    resolution = round(half_turns)
    if (np.abs(_bands(resolution, count) - omega) > 4 * errors).any():
        return
    parameters = {
        "d_model": request.d_model or 2 * count + 1,
        "convention": "perceiver",
        "max_resolution": resolution,
        **unless_default("concat_pos", request.d_model != 2 * count, default=True),
        "part": part,
    }
    support = _bands_support(resolution, count)
    yield Proposal(TableRequest("encoding/frequencies", parameters), (support,))


def _bands(resolution: int, count: int) -> Float64s:
    """Return evenly spaced bands up to half a resolution, in radians."""
    return np.pi * bands(resolution / 2, count, is_linear=True)


def _bands_support(resolution: int, count: int) -> str:
    return f"{count} bands go evenly from 1 to {resolution / 2:g} half turns"


# Rows of bands.

_LEAST_ROWS = 3


@dataclass(frozen=True, eq=False)
class BandRows:
    """Rows read as sines, and cosines if there are any, of bands at positions from −1 to 1.

    Attributes:
        rows: the rows.
        has_position: whether the first channel is the position.
        is_sine: whether there are no cosines.
        waves: their measured frequencies.
    """

    rows: OrientedRows
    has_position: bool
    is_sine: bool
    waves: AxisWaves


def propose_bands(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding`` in the convention of Perceiver."""
    if request.is_pair:
        return
    for rows in oriented_rows(request.sample):
        for reading in _readings(rows):
            for (resolution,) in band_resolutions([reading.waves]):
                yield _proposal(request, reading, resolution)


def _readings(rows: OrientedRows) -> Iterator[BandRows]:
    """Read rows with cosines and without."""
    values, rounding = rows.values, rounding_bound(rows.grain, 1.0)
    if len(values) < _LEAST_ROWS:
        return
    off = np.abs(values[:, 0] - np.linspace(-1.0, 1.0, len(values))).max()
    has_position = bool(off <= 4 * rounding + ENGINE_ERROR)
    sines = values[:, int(has_position) :]
    count, rest = divmod(sines.shape[1], 2)
    waves = None
    if count and not rest:
        waves = axis_waves(sines[:, count:] + 1j * sines[:, :count], rounding)
    if waves is not None:
        yield BandRows(rows, has_position, False, waves)
    waves = sine_bands(sines, rounding) if sines.shape[1] else None
    if waves is not None:
        yield BandRows(rows, has_position, True, waves)


def _proposal(request: IdentifyInput, reading: BandRows, resolution: int) -> Proposal:
    rows, count = reading.rows, len(reading.waves.rates)
    parameters = {
        "seq_len": len(rows.values),
        "d_model": rows.values.shape[1],
        "convention": "perceiver",
        "max_resolution": resolution,
        **unless_default("concat_pos", reading.has_position, default=True),
        **unless_default("sine_only", reading.is_sine, default=False),
    }
    support = (
        f"rows are those of {len(rows.values)} positions from -1 to 1",
        _bands_support(resolution, count),
        "bands that make whole periods more between rows give the same numbers",
    )
    angles = None
    if not reading.has_position:
        components: tuple[Component, ...] = ("sin",) if reading.is_sine else ("sin", "cos")
        channels = Channels(components, interleaved=False, width=rows.values.shape[1])
        positions = np.linspace(-1.0, 1.0, len(rows.values))
        named = {next(iter(request.arrays)): channels}
        angles = one_axis_angles(positions, _bands(resolution, count), named)
    return table_proposal(
        request, "encoding", parameters, support, angles, is_transposed=rows.is_transposed
    )
