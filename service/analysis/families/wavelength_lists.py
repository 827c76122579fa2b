"""Propose ``/encoding/frequencies`` for lists, and ``/encoding`` with the bands of Perceiver.

A list of frequencies, which fall, or of wavelengths, which rise, is a geometric series or evenly
spaced. Rows of Perceiver lie evenly from −1 to 1, and their bands are evenly spaced.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, TableRequest, single_finite_array
from service.analysis.families.coordinate_series import USUAL_RESOLUTIONS
from service.analysis.families.published_sinusoids import frequencies_of, series_support
from service.analysis.families.requests import one_axis_angles, table_proposal, unless_default
from service.analysis.families.sinusoid_rows import (
    ENGINE_ERROR,
    ENGINE_SHARE,
    OrientedRows,
    oriented_rows,
)
from service.analysis.measure import fit_geometric, spread_indices
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
    errors = spacing(values, request.sample.element_dtype) + ENGINE_SHARE * values
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
    """Return bands up to half a resolution, in radians."""
    omega: Float64s = np.pi * np.linspace(1.0, resolution / 2, count)
    return omega


def _bands_support(resolution: int, count: int) -> str:
    return f"{count} bands go evenly from 1 to {resolution / 2:g} half turns"


# Rows of bands.

# Rows this far apart have the same numbers for bands that differ by the number of steps: those of
# max_resolution that are tried beyond the lowest.
_MAX_ALIASES = 16

_LARGEST_RESOLUTION = 1e9
_MAX_USUAL = 4

_LEAST_ROWS, _CHECKED_ROWS = 3, 64


@dataclass(frozen=True, eq=False)
class BandRows:
    """Rows read as features of their places.

    Attributes:
        rows: what is read.
        has_place: whether the first channel is the place itself.
        is_sine: whether there are no cosines.
    """

    rows: OrientedRows
    has_place: bool
    is_sine: bool

    @property
    def places(self) -> Float64s:
        """Places of rows: evenly from −1 to 1."""
        return np.linspace(-1.0, 1.0, len(self.rows.values))

    @property
    def waves(self) -> Float64s:
        """Sines, and cosines if there are any."""
        return self.rows.values[:, int(self.has_place) :]

    @property
    def channels(self) -> Channels:
        components: tuple[Component, ...] = ("sin",) if self.is_sine else ("sin", "cos")
        return Channels(components, interleaved=False, width=self.waves.shape[1])

    @property
    def count(self) -> int:
        """The number of bands."""
        return len(self.waves[0]) // (1 if self.is_sine else 2)

    @property
    def error(self) -> float:
        """The largest rounding error of an element."""
        return 4 * rounding_bound(self.rows.grain, 1.0) + ENGINE_ERROR

    def misfit(self, resolution: int) -> float | None:
        """Return how far some rows, the early ones among them, are from a resolution.

        None if they are farther than rounding may put them.
        """
        count = len(self.rows.values)
        some = np.union1d(
            np.arange(min(count, _CHECKED_ROWS)), spread_indices(count, _CHECKED_ROWS)
        )
        frequency, is_sine = self.channels.indices()
        angles = np.outer(self.places[some], _bands(resolution, self.count))[:, frequency]
        off = np.abs(np.where(is_sine, np.sin(angles), np.cos(angles)) - self.waves[some])
        if (off > self.error + ENGINE_ERROR * np.abs(angles)).any():
            return None
        return float(off.max())


def propose_bands(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding`` in the convention of Perceiver.

    Where several resolutions fit, all bands make whole turns more between rows, and the numbers
    are the same: the number of rows is proposed if it is one of them, and otherwise the lowest;
    after it those that are usual.
    """
    if request.is_pair:
        return
    for rows in oriented_rows(request.sample):
        for reading in _readings(rows):
            fits = ((number, reading.misfit(number)) for number in _resolutions(reading))
            first = next(((number, off) for number, off in fits if off is not None), None)
            if first is not None:
                for number in _same(reading, first[0]):
                    yield _proposal(request, reading, number, first[1])


def _readings(rows: OrientedRows) -> Iterator[BandRows]:
    """Read rows with cosines and without, if the first band is that of one half turn."""
    if len(rows.values) < _LEAST_ROWS:
        return
    for is_sine in (False, True):
        plain = BandRows(rows, False, is_sine)
        has_place = np.abs(rows.values[:, 0] - plain.places).max() <= plain.error
        reading = BandRows(rows, bool(has_place), is_sine)
        width = reading.waves.shape[1]
        if width and (is_sine or width % 2 == 0):
            slowest = np.sin(np.pi * reading.places)
            if np.abs(reading.waves[:, 0] - slowest).max() <= reading.error:
                yield reading


def _resolutions(reading: BandRows) -> list[int]:
    """Return twice the highest band, as the last channel gives it modulo twice the steps.

    Sines of evenly spaced angles have x_{s+1} + x_{s−1} = 2·cos(δ)·x_s for a step δ.
    """
    last = reading.waves[:, reading.count - 1]
    steps, power = len(last) - 1, float(last[1:-1] @ last[1:-1])
    if reading.count == 1 or power == 0:
        return [len(last)]
    cosine = float(last[1:-1] @ (last[2:] + last[:-2])) / (2 * power)
    band = float(np.arccos(np.clip(cosine, -1.0, 1.0))) * steps / np.pi
    folded = {
        round(turn * 2 * steps + side * band) for turn in range(_MAX_ALIASES) for side in (1, -1)
    }
    known = (number for number in folded if 1 <= number <= _LARGEST_RESOLUTION)
    return sorted(known, key=lambda number: (number != len(last), number))


def _same(reading: BandRows, resolution: int) -> list[int]:
    """Return a resolution, and the usual ones that give the same numbers.

    Band k of n goes up by k/(n − 1) of half of what the resolution does. It makes whole turns more
    at −1 if that is a multiple of 2, and from one of the rows to the next if it is a multiple of
    the number of steps between them.
    """
    steps = len(reading.rows.values) - 1
    period = 2 * max(reading.count - 1, 1) * lcm(steps, 2)
    usual = [number for number in USUAL_RESOLUTIONS if (number - resolution) % period == 0]
    return list(dict.fromkeys([resolution, *usual[:_MAX_USUAL]]))


def _proposal(
    request: IdentifyInput, reading: BandRows, resolution: int, misfit: float
) -> Proposal:
    count, rows = reading.count, reading.rows
    parameters = {
        "seq_len": len(rows.values),
        "d_model": rows.values.shape[1],
        "convention": "perceiver",
        "max_resolution": resolution,
        **unless_default("concat_pos", reading.has_place, default=True),
        **unless_default("sine_only", reading.is_sine, default=False),
    }
    support = (
        f"rows are those of {len(rows.values)} places from -1 to 1 within {misfit:.1e}",
        _bands_support(resolution, count),
        "bands that make whole turns more between rows give the same numbers",
    )
    angles = None
    if not reading.has_place:
        channels = {next(iter(request.arrays)): reading.channels}
        angles = one_axis_angles(reading.places, _bands(resolution, count), channels)
    return table_proposal(
        request, "encoding", parameters, support, angles, is_transposed=rows.is_transposed
    )
