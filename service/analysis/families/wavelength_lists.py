"""Lists of frequencies or wavelengths of absolute encodings.

Fourier features of rows that lie evenly from −1 to 1: Perceiver's, in evenly spaced bands.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm

import numpy as np

from service.analysis.array import AngleModel, IdentifyInput, Proposal, TableRequest
from service.analysis.families.published_sinusoids import Parameters, frequencies_of, series_support
from service.analysis.families.sinusoid_rows import (
    ENGINE_ERROR,
    ENGINE_SHARE,
    Course,
    Rows,
    rows_of,
)
from service.analysis.measure import fit_geometric
from service.analysis.precision import dtype_parameters, spacing
from service.encodings.absolute.conventions import CONVENTIONS, SinusoidConvention
from service.numerics.dtypes import rounding_bound
from service.numerics.limits import MAX_FACTOR
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Component

_TWO_PI = 2 * np.pi


def propose_frequencies(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding/frequencies``: one of its two arrays, numbers that fall or that rise."""
    sample = question.sample
    if question.is_pair or sample.is_complex or not sample.is_finite or sample.values.ndim != 1:
        return
    values = sample.reals()
    if not (values > 0).all():
        return
    errors = spacing(values, sample.element_dtype) + ENGINE_SHARE * values
    omega, omega_errors = _TWO_PI / values, _TWO_PI / values**2 * errors
    yield from _evenly_spaced(question, "frequency", values, errors)
    yield from _evenly_spaced(question, "wavelength", omega, omega_errors)
    if len(values) == 1 or values[0] > values[-1]:
        yield from _of(question, "frequency", values, errors)
    if len(values) == 1 or values[0] < values[-1]:
        yield from _of(question, "wavelength", omega, omega_errors)


def _of(
    question: IdentifyInput, part: str, omega: Float64s, errors: Float64s
) -> Iterator[Proposal]:
    series = fit_geometric(omega, errors)
    if series is None:
        return
    course, found = Course(series, 1, slice(0, 1), np.zeros(1)), []
    for name, convention in CONVENTIONS.items():
        for d_model in _widths(convention, len(omega), question.d_model):
            named: Parameters = {} if name == "vaswani" else {"convention": name}
            for said, exact, base, is_plain in frequencies_of(convention, d_model, course):
                if (np.abs(exact - omega) <= 4 * errors).all():
                    parameters = {"d_model": d_model, **named, **said, "part": part}
                    support = series_support(series, len(omega), base, convention.span(d_model))
                    call = TableRequest("encoding/frequencies", parameters)
                    found.append((is_plain, d_model % 2, Proposal(call, (support,))))
    has_plain = any(is_plain for is_plain, *_ in found)
    # Every convention has an even width: those say more of them than the odd ones of a few.
    found.sort(key=lambda each: each[1])
    yield from (proposal for is_plain, _, proposal in found if is_plain or not has_plain)


def _widths(convention: SinusoidConvention, count: int, d_model: int | None) -> list[int]:
    """List what d_model may be for so many frequencies, the one that is said if it is among it."""
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
    question: IdentifyInput, part: str, omega: Float64s, errors: Float64s
) -> Iterator[Proposal]:
    count, half_turns = len(omega), 2 * omega[-1] / np.pi
    if not 0.5 < half_turns <= MAX_FACTOR or count < 2:
        return
    resolution = round(half_turns)
    if (np.abs(np.pi * np.linspace(1.0, resolution / 2, count) - omega) > 4 * errors).any():
        return
    parameters: Parameters = {
        "d_model": question.d_model or 2 * count + 1,
        "convention": "perceiver",
        "max_resolution": resolution,
        **({"concat_pos": False} if question.d_model == 2 * count else {}),
        "part": part,
    }
    support = f"{count} bands go evenly from 1 to {resolution / 2:g} half turns"
    yield Proposal(TableRequest("encoding/frequencies", parameters), (support,))


# Rows this far apart have the same numbers for bands that differ by the number of steps: those of
# max_resolution that are tried beyond the lowest.
_MOST_ALIASES = 16

_LARGEST_RESOLUTION = 1e9

# What others of the same numbers may have been meant: an image's usual side, and powers of 2.
_USUAL_RESOLUTIONS = (224, *(1 << power for power in range(1, 12)))
_MOST_MORE = 4

_LEAST_ROWS, _CHECKED_ROWS = 3, 64


@dataclass(frozen=True, eq=False)
class Reading:
    """Rows read as features of their places.

    Attributes:
        rows: what is read.
        has_place: whether the first channel is the place itself.
        is_sine: whether there are no cosines.
    """

    rows: Rows
    has_place: bool
    is_sine: bool

    @property
    def places(self) -> Float64s:
        """Where rows are: evenly from −1 to 1."""
        return np.linspace(-1.0, 1.0, len(self.rows.values))

    @property
    def waves(self) -> Float64s:
        """Sines, and cosines if there are any."""
        return self.rows.values[:, int(self.has_place) :]

    @property
    def channels(self) -> Channels:
        """Say what the waves are."""
        components: tuple[Component, ...] = ("sin",) if self.is_sine else ("sin", "cos")
        return Channels(components, interleaved=False, width=self.waves.shape[1])

    @property
    def count(self) -> int:
        """How many bands there are."""
        return len(self.waves[0]) // (1 if self.is_sine else 2)

    @property
    def error(self) -> float:
        """How far rounding may put an element."""
        return 4 * rounding_bound(self.rows.grain, 1.0) + ENGINE_ERROR

    def omega(self, resolution: int) -> Float64s:
        """Give the bands up to half a resolution, in radians."""
        bands: Float64s = np.pi * np.linspace(1.0, resolution / 2, self.count)
        return bands

    def missed(self, resolution: int) -> float | None:
        """Say how far the early rows and some others are from a resolution; None if too far."""
        last = len(self.rows.values) - 1
        spread = np.linspace(0, last, _CHECKED_ROWS).astype(np.intp)
        some = np.unique([*range(min(last + 1, _CHECKED_ROWS)), *spread])
        frequency, is_sine = self.channels.indices()
        angles = np.outer(self.places[some], self.omega(resolution))[:, frequency]
        missed = np.abs(np.where(is_sine, np.sin(angles), np.cos(angles)) - self.waves[some])
        if (missed > self.error + ENGINE_ERROR * np.abs(angles)).any():
            return None
        return float(missed.max())


def propose_bands(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding`` in the convention of Perceiver.

    Where several resolutions fit, all bands make whole turns more between rows, and the numbers
    are the same: the number of rows is proposed if it is one of them, and otherwise the lowest;
    after it those that are usual.
    """
    if question.is_pair:
        return
    for rows in rows_of(question.sample):
        for reading in _readings(rows):
            known = ((number, reading.missed(number)) for number in _resolutions(reading))
            first = next(((number, off) for number, off in known if off is not None), None)
            if first is not None:
                for number in _same(reading, first[0]):
                    yield _proposal(question, reading, number, first[1])


def _readings(rows: Rows) -> Iterator[Reading]:
    """Read rows with cosines and without, if the first band is that of one half turn."""
    if len(rows.values) < _LEAST_ROWS:
        return
    for is_sine in (False, True):
        plain = Reading(rows, False, is_sine)
        has_place = np.abs(rows.values[:, 0] - plain.places).max() <= plain.error
        reading = Reading(rows, bool(has_place), is_sine)
        width = reading.waves.shape[1]
        if width and (is_sine or width % 2 == 0):
            slowest = np.sin(np.pi * reading.places)
            if np.abs(reading.waves[:, 0] - slowest).max() <= reading.error:
                yield reading


def _proposal(
    question: IdentifyInput, reading: Reading, resolution: int, missed: float
) -> Proposal:
    count, rows = reading.count, reading.rows
    parameters: Parameters = {
        "seq_len": len(rows.values),
        "d_model": rows.values.shape[1],
        "convention": "perceiver",
        "max_resolution": resolution,
        **({} if reading.has_place else {"concat_pos": False}),
        **({"sine_only": True} if reading.is_sine else {}),
        **dtype_parameters(question.sample),
    }
    support = (
        f"rows are those of {len(rows.values)} places from -1 to 1 within {missed:.1e}",
        f"{count} bands go evenly from 1 to {resolution / 2:g} half turns",
        "bands that make whole turns more between rows give the same numbers",
    )
    turning = None
    if not reading.has_place:
        channels = {next(iter(question.arrays)): reading.channels}
        places = reading.places[:, np.newaxis]
        turning = AngleModel(places, (0,) * count, reading.omega(resolution), channels)
    return Proposal(TableRequest("encoding", parameters), support, turning, rows.is_transposed)


def _same(reading: Reading, resolution: int) -> list[int]:
    """List a resolution, and the usual ones that give the same numbers.

    Band k of n goes up by k/(n − 1) of half of what the resolution does. It makes whole turns more
    at −1 if that is a multiple of 2, and from one of the rows to the next if it is a multiple of
    the number of steps between them.
    """
    steps = len(reading.rows.values) - 1
    period = 2 * max(reading.count - 1, 1) * lcm(steps, 2)
    usual = [number for number in _USUAL_RESOLUTIONS if (number - resolution) % period == 0]
    return list(dict.fromkeys([resolution, *usual[:_MOST_MORE]]))


def _resolutions(reading: Reading) -> list[int]:
    """List twice the highest band, as the last channel says it modulo twice the number of steps.

    Sines of evenly spaced angles have x_{s+1} + x_{s−1} = 2·cos(δ)·x_s for a step δ.
    """
    last = reading.waves[:, reading.count - 1]
    steps, power = len(last) - 1, float(last[1:-1] @ last[1:-1])
    if reading.count == 1 or power == 0:
        return [len(last)]
    cosine = float(last[1:-1] @ (last[2:] + last[:-2])) / (2 * power)
    band = float(np.arccos(np.clip(cosine, -1.0, 1.0))) * steps / np.pi
    folded = {
        round(turn * 2 * steps + side * band) for turn in range(_MOST_ALIASES) for side in (1, -1)
    }
    known = (number for number in folded if 1 <= number <= _LARGEST_RESOLUTION)
    return sorted(known, key=lambda number: (number != len(last), number))
