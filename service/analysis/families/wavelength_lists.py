"""Propose ``/encoding/frequencies`` for lists, and ``/encoding`` with the bands of Perceiver.

A list of frequencies, which fall, or of wavelengths, which rise, is a geometric series or evenly
spaced. Rows of Perceiver lie evenly from −1 to 1, and their bands are evenly spaced.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from service.analysis.array import (
    AngleModel,
    IdentifyInput,
    Proposal,
    TableRequest,
    single_finite_array,
)
from service.analysis.families.published_sinusoids import frequency_fits, possible_widths
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


def propose_encoding_frequencies(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding/frequencies`` for frequencies and wavelengths: positive numbers."""
    values = single_finite_array(request, (1,))
    if values is None or not (values > 0).all():
        return
    errors = spacing(values, request.sample.element_dtype) + ENGINE_ERROR * values
    parts = {
        "frequency": (values, errors),
        "wavelength": (2 * np.pi / values, 2 * np.pi / values**2 * errors),
    }
    for part, (omega, omega_errors) in parts.items():
        yield from _evenly_spaced(request, part, omega, omega_errors)
    for part, (omega, omega_errors) in parts.items():
        if len(omega) == 1 or omega[0] > omega[-1]:
            yield from _geometric(request, part, omega, omega_errors)


def _geometric(
    request: IdentifyInput, part: str, omega: Float64s, errors: Float64s
) -> Iterator[Proposal]:
    series = fit_geometric(omega, errors)
    if series is None:
        return
    count = len(omega)

    def fits(convention: SinusoidConvention, width: int) -> bool:
        return convention.count(width) == count and convention.width(width) >= 1

    found = []
    for name, convention in CONVENTIONS.items():
        for d_model in possible_widths(convention, 2 * count, request.d_model, fits):
            for fit in frequency_fits(convention, d_model, series, has_first=True):
                if (np.abs(fit.omega - omega) <= 4 * errors).all():
                    parameters = {
                        "d_model": d_model,
                        **unless_default("convention", name, "vaswani"),
                        **fit.parameters,
                        "part": part,
                    }
                    call = TableRequest("encoding/frequencies", parameters)
                    found.append(
                        (d_model % 2, fit.is_plain, Proposal(call, (fit.support(series),)))
                    )
    has_plain = any(is_plain for _, is_plain, _ in found)
    # All conventions have even widths, few have odd ones.
    found.sort(key=lambda each: each[0])
    yield from (proposal for _, is_plain, proposal in found if is_plain or not has_plain)


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
    """Rows read as sines, and cosines unless there are none, of bands at positions from −1 to 1.

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

    def angles(self, name: str, omega: Float64s) -> AngleModel | None:
        """Return the angle model of an array of a name; None with a channel of positions."""
        if self.has_position:
            return None
        components: tuple[Component, ...] = ("sin",) if self.is_sine else ("sin", "cos")
        channels = Channels(components, interleaved=False, width=self.rows.values.shape[1])
        return one_axis_angles(_positions(self.rows), omega, {name: channels})


def propose_bands(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding`` in the convention of Perceiver."""
    if request.is_pair:
        return
    for rows in oriented_rows(request.sample):
        for reading in _readings(rows) if len(rows.values) >= _LEAST_ROWS else ():
            for (resolution,) in band_resolutions([reading.waves]):
                yield _band_proposal(request, reading, resolution)


def _positions(rows: OrientedRows) -> Float64s:
    return np.linspace(-1.0, 1.0, len(rows.values))


def _readings(rows: OrientedRows) -> Iterator[BandRows]:
    rounding = rounding_bound(rows.dtype, 1.0)
    residual = np.abs(rows.values[:, 0] - _positions(rows)).max()
    has_position = bool(residual <= 4 * rounding + ENGINE_ERROR)
    channels = rows.values[:, int(has_position) :]
    count, rest = divmod(channels.shape[1], 2)
    if count and not rest:
        waves = axis_waves(channels[:, count:] + 1j * channels[:, :count], rounding)
        if waves is not None:
            yield BandRows(rows, has_position, is_sine=False, waves=waves)
    if channels.shape[1]:
        waves = sine_bands(channels, rounding)
        if waves is not None:
            yield BandRows(rows, has_position, is_sine=True, waves=waves)


def _band_proposal(request: IdentifyInput, reading: BandRows, resolution: int) -> Proposal:
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
        "bands that add whole periods between rows give the same table",
    )
    angles = reading.angles(next(iter(request.arrays)), _bands(resolution, count))
    return table_proposal(
        request, "encoding", parameters, support, angles, is_transposed=rows.is_transposed
    )
