"""Readings of an array as rows of cosines and sines, with what is measured along the rows.

``readings`` yields those in which cos² + sin² is the same in all pairs (``explanation.views``).
``placed`` finds the frequencies of the rows and their positions, with the fits that a family has.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import IdentifyInput, Sample
from service.analysis.explanation.measured import UNIT, fold, measure
from service.analysis.explanation.sampling import sampled_rows
from service.analysis.explanation.views import (
    HALF_STEP,
    Complexes,
    Numbers,
    View,
    is_constant,
    step_bound,
    views,
)
from service.analysis.families.row_positions import decoded, start_of
from service.analysis.families.series import plain_numbers, unfolded, unfolded_series
from service.encodings.rotary.angles import PACKS
from service.numerics.dtypes import FLOAT64, REAL_DTYPES, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices
from service.numerics.tables import ParameterValue, StoredTable

# cos² + sin² is first compared in this many rows.
_FIRST_ROWS = 16
# The error of engines at far positions, in cos² + sin²; and the largest deviation of an angle from
# a line in rows that are evenly spaced.
_ENGINE, _MAX_DEVIATION, _MAX_DEVIATION_OF_FEW = 2.0**-16, 0.3, 0.1
# One of so many rows may be wrong.
_WRONG_ROWS = 16
_FEWEST_PAIRS = 4
_MOST_EVEN, _FEWEST_EVEN = 16, 3
# No table has longer rows.
_MOST_LISTED = 4096
_TWO_PI = 2 * np.pi


@dataclass(frozen=True, eq=False)
class MeasuredFrequencies:
    """Measured frequencies.

    Attributes:
        omega: in radians per position or per row, (K,).
        error: a bound of the error of each, (K,).
        scale: the factor of cosines and sines; None where there are none.
        scale_error: of the scale, relative.
    """

    omega: Float64s
    error: Float64s
    scale: float | None = None
    scale_error: float = 0.0

    @property
    def count(self) -> int:
        return len(self.omega)

    @property
    def is_scaled(self) -> bool:
        return self.scale is not None and abs(self.scale - 1) > self.scale_error

    def agrees(self, omega: Float64s, slack: float = 0.0) -> bool:
        """Return whether frequencies are within the errors and a relative slack."""
        count = min(len(omega), self.count)
        allowed = 3 * self.error[:count] + (slack + 2.0**-44) * np.abs(omega[:count])
        return bool((np.abs(omega[:count] - self.omega[:count]) <= allowed).all())

    def divided(self, divisor: float) -> "MeasuredFrequencies":
        return replace(self, omega=self.omega / divisor, error=self.error / divisor)


@dataclass(frozen=True, eq=False)
class FrequencyFit:
    """Frequencies that a family has, and the request parameters that give them.

    Attributes:
        parameters: of the request, without those of the rows.
        omega: radians per position, of all frequencies, (n,).
        support: the evidence, in sentences.
        scale: the factor of cosines and sines.
        is_guess: whether it serves only to find positions.
    """

    parameters: dict[str, ParameterValue]
    omega: Float64s
    support: tuple[str, ...] = ()
    scale: float = 1.0
    is_guess: bool = False

    @property
    def is_listed(self) -> bool:
        """Return whether a parameter has a number for each frequency."""
        return not self.parameters.keys().isdisjoint({"inv_freq", "freq_factors", "short_factor"})


Fits: TypeAlias = Callable[[MeasuredFrequencies], Iterable[FrequencyFit]]
"""Yields what measured frequencies may be, the plainest first."""


@dataclass(frozen=True, eq=False)
class RowReading:
    """Rows read as cosines and sines.

    Attributes:
        view: sampled rows that are not zero, as float64.
        rows: the index of each of them.
        count: the number of all rows.
        zero_rows: which of all rows are zero throughout, (S,).
        zeros: the number of channels of zeros at the end.
        known: the positions of all rows, (S,); None if unknown.
        width: the number of channels, with zeros.
        is_transposed: whether the rows are columns of the array.
        scale: the factor of cosines and sines, and its relative error.
    """

    view: View
    rows: Indices
    count: int
    zero_rows: NDArray[np.bool_]
    zeros: int
    known: Float64s | None
    width: int
    is_transposed: bool
    scale: tuple[float, float]

    @property
    def packing(self) -> str:
        return self.view.packing

    @property
    def pairs(self) -> int:
        """The number of frequencies of which there are a cosine and a sine."""
        return int(self.view.phasors.shape[1])

    @property
    def noise(self) -> float:
        """A bound of the error of an angle."""
        return 4 * HALF_STEP[self.view.dtype] + 4 * HALF_STEP[FLOAT64] + 2.0**-22

    @cached_property
    def phases(self) -> Float64s:
        return np.asarray(np.angle(self.view.phasors))

    @property
    def support(self) -> str:
        scale, error = self.scale
        return f"√(cos² + sin²) is {scale:.8g} within {error:.1e} of it in channels {self.packing}"


def rows_of(sample: Sample) -> Float64s:
    """Return an array as rows of channels, (S, C): the last axis has the channels.

    A vector is one row, or a column of S rows if the last axis of the array had length 1.
    """
    values = sample.reals()
    if values.ndim == 1:
        last = sample.shape[-1] if sample.shape else 1
        return values[np.newaxis] if last == len(values) else values[:, np.newaxis]
    return values.reshape(-1, values.shape[-1])


def has_pair_axis(sample: Sample) -> bool:
    """Return whether an array is complex, or has a last axis of length 2 for cosine and sine."""
    return sample.is_complex or (len(sample.shape) >= 3 and sample.shape[-1] == 2)


def readings(request: IdentifyInput) -> Iterator[RowReading]:
    """Yield the readings in which cosines and sines have one size in all pairs."""
    for view, zeros in raw_views(request):
        if view.has_pairs and (reading := _reading(request, view, zeros)) is not None:
            yield reading


def raw_views(request: IdentifyInput, *, has_grid: bool = False) -> Iterator[tuple[View, int]]:
    """Yield the views of an array, or of a pair, and the channels of zeros left out of each.

    Args:
        request: the arrays.
        has_grid: whether several axes may count rows.
    """
    samples = list(request.arrays.values())
    if any(each.element_dtype.name not in REAL_DTYPES or not each.is_finite for each in samples):
        return
    dtype, sample = samples[0].element_dtype, request.sample
    if has_pair_axis(sample) and not request.is_pair:
        if sample.values.ndim > 3 and not has_grid:
            return
        pairs = sample.reals().reshape(-1, sample.shape[-1 if sample.is_complex else -2], 2)
        name = "complex" if sample.is_complex else "pair"
        yield View(pairs[..., 0], pairs[..., 1], dtype, name), 0
        return
    if sample.values.ndim > 2 and not has_grid:
        return
    arrays = {name: rows_of(each) for name, each in request.arrays.items()}
    if any(each.shape != rows_of(sample).shape for each in arrays.values()):
        return
    for zeros in (0, 1):
        cut = {name: each[:, : each.shape[1] - zeros] for name, each in arrays.items()}
        if zeros and (rows_of(sample)[:, -1].any() or rows_of(sample).shape[1] % 2 == 0):
            return
        for view in views({name: StoredTable(each, FLOAT64) for name, each in cut.items()}):
            names = {note.name for note in view.notes}
            if not names & {"stacked", "exchanged", "batch"} and not (
                request.is_pair and "transposed" in names
            ):
                yield replace(view, dtype=dtype), zeros


def component_views(request: IdentifyInput) -> Iterator[View]:
    """Yield the views of cosines alone, or of sines alone, one of each packing."""
    if request.is_pair or has_pair_axis(request.sample):
        return
    seen = set()
    for view, zeros in raw_views(request):
        names = {note.name for note in view.notes}
        if "alone" not in names or "transposed" in names or zeros or view.packing in seen:
            continue
        seen.add(view.packing)
        yield view


def _reading(request: IdentifyInput, view: View, zeros: int) -> RowReading | None:
    tolerance = 16 * HALF_STEP[view.dtype] + _ENGINE
    first = view.at(slice(_FIRST_ROWS))
    live = np.logical_or.reduce([part.any(axis=1) for part in first.parts])
    if live.any() and not is_constant(first.at(live), tolerance):
        return None
    nonzero = np.zeros(view.rows, dtype=np.bool_)
    for part in view.parts:
        nonzero |= part.any(axis=1)
    indices = np.flatnonzero(nonzero)
    if not len(indices):
        return None
    rows = indices[sampled_rows(len(indices))]
    sample = view.at(rows)
    if not is_constant(sample, tolerance):
        return None
    norms = np.abs(sample.phasors)
    size = float(np.median(norms))
    # One pair or two fit any size.
    if not size > 0 or (norms.size < _FEWEST_PAIRS and abs(size - 1) > tolerance):
        return None
    error = float(np.quantile(np.abs(norms / size - 1), 0.9)) + 2.0**-52
    close = 4 * HALF_STEP[view.dtype] + 2.0**-21
    scale = (1.0 if abs(size - 1) <= close else size, max(error, close))
    is_transposed = any(note.name == "transposed" for note in view.notes)
    known = request.positions
    if known is not None and (len(known) != view.rows or is_transposed):
        known = None
    width = sum(part.shape[1] for part in view.parts) + zeros
    return RowReading(sample, rows, view.rows, ~nonzero, zeros, known, width, is_transposed, scale)


# Frequencies along the rows.


@dataclass(frozen=True, eq=False)
class RowWaves:
    """Frequencies along coordinates of rows, of which positions are a linear function.

    Attributes:
        reading: the rows.
        coordinates: of all rows, (S,): positions, or indices.
        sign: −1 if angles fall along them.
        frequencies: in radians per unit of them, above 0.
        chosen: the sampled rows that were measured.
    """

    reading: RowReading
    coordinates: Float64s
    sign: int
    frequencies: MeasuredFrequencies
    chosen: slice

    def may_be(self, fit: FrequencyFit) -> bool:
        """Return whether frequencies are near measured ones, of rows a whole number apart."""
        step = max(float(round(self.frequencies.omega[0])), 1.0)
        return self.frequencies.divided(step).agrees(fit.omega, 2.0**-7)

    def positions(self, omega: Float64s) -> Float64s | None:
        """Return the position of each row for given frequencies, (S,); None if none fits."""
        reading = self.reading
        omega = omega[: reading.pairs]
        step = self._step(omega)
        if step is None:
            return None
        where = self.coordinates[reading.rows[self.chosen]]
        turned = reading.view.phasors[self.chosen] * np.exp(-1j * np.outer(where * step, omega))
        far = float(np.abs(where).max()) * abs(step)
        start = start_of(np.angle(turned.sum(axis=0)), omega, 2 * reading.noise, far)
        return None if start is None else start + step * self.coordinates

    def _step(self, omega: Float64s) -> float | None:
        """Return the distance of positions per unit of coordinate."""
        own = self.frequencies
        if not (omega > 0).any():
            return None
        relative = np.where(omega > 0, own.error / np.maximum(np.abs(own.omega), 1e-300), np.inf)
        best = int(np.argmin(relative))
        ratio = float(own.omega[best] / omega[best])
        error = max(float(4 * relative[best]), 1e-6)
        if round(ratio) and abs(ratio - round(ratio)) <= min(error * ratio, 0.5):
            return float(self.sign * round(ratio))
        numbers = plain_numbers(ratio, error, ())
        return self.sign * numbers[0] if numbers else None


def _waves_along(reading: RowReading, coordinates: Float64s, chosen: slice) -> RowWaves | None:
    """Return the frequencies of some rows; None unless angles are linear in the coordinates."""
    where = coordinates[reading.rows[chosen]]
    if len(where) < 2 or len(np.unique(where)) < len(where):
        return None
    measured = measure(reading.view.at(chosen), where)
    assert measured.phasors is not None
    straight = measured.phasors * np.exp(
        -1j * (np.outer(measured.positions, measured.omega) + measured.phase)
    )
    rest = np.abs(np.angle(straight)).max(axis=1)
    few = len(where) // _WRONG_ROWS
    if (rest > (_MAX_DEVIATION if few else _MAX_DEVIATION_OF_FEW)).sum() > few:
        return None
    known = np.flatnonzero(np.abs(measured.omega) > measured.error)
    sign = -1 if len(known) and measured.omega[known[-1]] < 0 else 1
    period = _TWO_PI / measured.step
    omega = unfolded(sign * measured.omega, period)
    frequencies = MeasuredFrequencies(omega, measured.error, *reading.scale)
    return RowWaves(reading, coordinates, sign, frequencies, chosen)


def row_waves(reading: RowReading, chosen: slice = slice(None)) -> Iterator[RowWaves]:
    """Yield frequencies along the known positions, and along the indices of rows."""
    if reading.known is not None:
        rows, known = reading.rows, reading.known
        if len(rows) == 1 and known[rows[0]] > 0:
            # All angles are 0 at position 0.
            view = reading.view
            at_zero = [
                np.vstack([start * np.ones_like(part[:1]), part])
                for start, part in zip((reading.scale[0], 0.0), view.parts, strict=True)
            ]
            both = replace(view, cosine=at_zero[0], sine=at_zero[1])
            moved = replace(reading, view=both, rows=np.array([0, 1]))
            along = _waves_along(moved, np.array([0.0, known[rows[0]]]), chosen)
            if along is not None:
                yield replace(along, reading=reading, coordinates=known)
            return
        along = _waves_along(reading, known, chosen)
        if along is not None:
            yield along
    numbers = np.arange(reading.count, dtype=np.float64)
    along = _waves_along(reading, numbers, chosen)
    if along is not None:
        yield along


def placed(
    reading: RowReading,
    fits: Fits,
    usual: Iterable[FrequencyFit],
    chosen: slice = slice(None),
    *,
    is_whole: bool = False,
) -> Iterator[tuple[FrequencyFit, Float64s]]:
    """Yield fits and the position of each row, (S,).

    Args:
        reading: the rows.
        fits: yields what measured frequencies may be.
        usual: fits that are tried where nothing is measured, or nothing fits.
        chosen: the sampled rows that are measured.
        is_whole: whether positions must be whole numbers.
    """
    usual = list(usual)
    is_along = False
    for waves in row_waves(reading, chosen):
        is_along = True
        is_found = False
        for fit in (*fits(waves.frequencies), *filter(waves.may_be, usual)):
            positions = waves.positions(fit.omega)
            if positions is not None and not (
                is_whole and (positions != np.round(positions)).any()
            ):
                is_found = True
                yield fit, positions
        if is_found:
            return
    # Timesteps may be multiplied by a scale so large that nothing is measured along them.
    if not is_along if reading.known is None else not is_whole:
        yield from _scattered(reading, fits, usual, is_whole=is_whole)


def _scattered(
    reading: RowReading, fits: Fits, usual: Iterable[FrequencyFit], *, is_whole: bool
) -> Iterator[tuple[FrequencyFit, Float64s]]:
    """Yield fits and positions of rows that are not evenly spaced."""
    if reading.count > _MOST_LISTED or len(reading.rows) + reading.zero_rows.sum() < reading.count:
        return
    guesses = list(_guesses(reading, fits))
    for some, is_far in ((usual, False), (usual, True), (guesses, False), (guesses, True)):
        for guess in some:
            omega = guess.omega[: reading.pairs]
            found = decoded(reading.phases, omega, 2 * reading.noise, is_far=is_far)
            if found is None or (is_whole and (found != np.round(found)).any()):
                continue
            positions = np.full(reading.count, np.nan)
            positions[reading.rows] = found
            is_found = False
            for fit in fits(_corrected(reading, found, omega)) if len(np.unique(found)) > 1 else ():
                is_found = True
                yield fit, positions
            if not is_found and not guess.is_guess:
                yield guess, positions
            return


def _corrected(reading: RowReading, positions: Float64s, omega: Float64s) -> MeasuredFrequencies:
    """Return frequencies corrected by what positions (S,) leave of the phases."""
    where = positions[:, None]
    rest = fold(reading.phases - where * omega)
    spread = np.maximum((where * where).sum(axis=0), 1e-300)
    drift = (where * rest).sum(axis=0) / spread
    error = reading.noise * np.abs(where).sum(axis=0) / spread + 8 * UNIT * np.abs(omega)
    return MeasuredFrequencies(omega + drift, error, *reading.scale)


def _guesses(reading: RowReading, fits: Fits) -> Iterator[FrequencyFit]:
    """Yield fits of the rows at the start of the array that are evenly spaced."""
    numbers = np.arange(reading.count, dtype=np.float64)
    for rows in range(min(_MOST_EVEN, len(reading.rows)), _FEWEST_EVEN - 2, -1):
        if (reading.rows[:rows] != np.arange(rows)).any():
            continue
        waves = _waves_along(reading, numbers, slice(rows))
        first = np.inf if waves is None else waves.frequencies.omega[0]
        if waves is not None and rows >= 2 and np.isfinite(first):
            step = max(float(round(first)), 1.0)
            measured = waves.frequencies.divided(step)
            yield from (fit for fit in fits(measured) if not fit.is_listed)
            yield FrequencyFit({}, measured.omega, is_guess=True)
            return
    yield from _guesses_of_one(reading, fits)


def _guesses_of_one(reading: RowReading, fits: Fits) -> Iterator[FrequencyFit]:
    """Yield fits of the ratios of the angles of the row whose slowest angle is smallest."""
    sizes = np.abs(reading.phases[:, -1])
    if reading.pairs < 2 or not sizes.any():
        return
    row = int(np.argmin(np.where(sizes > 0, sizes, np.inf)))
    angles, phasors = reading.phases[row], reading.view.phasors[row]
    cosines, sines = np.abs(phasors.real), np.abs(phasors.imag)
    # The differential of atan2(s, c) is (c·Δs − s·Δc)/(c² + s²); a step is two roundings.
    dtype = reading.view.dtype
    moved = cosines * step_bound(sines, dtype) + sines * step_bound(cosines, dtype)
    errors = moved / np.abs(phasors) ** 2 + 8 * UNIT * np.abs(angles)
    found = unfolded_series(angles, errors)
    if found is not None and found[0].has_ratio and found[0].ratio < 1:
        series = found[0]
        omega: Float64s = np.exp(np.log(series.ratio) * np.arange(reading.pairs))
        error = (series.ratio_error * np.arange(reading.pairs) + series.first_error) * omega
        yield from fits(MeasuredFrequencies(omega, error + 1e-12, *reading.scale))


# All rows of tables of several axes, in every pack.

# Engines add errors at large positions. Verification later compares the elements themselves.
_PACK_TOLERANCE = 2.0**-13
_EARLY_ROWS = 64


@dataclass(frozen=True, eq=False)
class PackReading:
    """The cosines and sines of an array that is read in one pack.

    Attributes:
        pack: the name of the pack.
        components: cosines and sines of S rows and K frequencies, (S, K) each.
        dtype: the dtype of the array.
        scale: the measured √(cos² + sin²) of all pairs; 1 if it is near 1.
    """

    pack: str
    components: tuple[Numbers, Numbers]
    dtype: DType
    scale: float = 1.0

    @cached_property
    def phasors(self) -> Complexes:
        """Cosine + i·sine of each row and frequency, (S, K)."""
        return self.phasors_of(slice(None))

    def phasors_of(self, frequencies: list[int] | slice) -> Complexes:
        """Return the phasors of the given frequency indices only."""
        cosine, sine = (each[:, frequencies] for each in self.components)
        return np.asarray(cosine + 1j * sine, dtype=np.complex128)

    @property
    def count(self) -> int:
        """The number of frequencies."""
        return int(self.components[0].shape[1])

    @property
    def rounding(self) -> float:
        """Half an ulp of 1 in the dtype of the array."""
        return rounding_bound(self.dtype, 1.0)

    @property
    def smallest_error(self) -> float:
        """The rounding error of elements near 0."""
        return rounding_bound(self.dtype, 0.0) / 2


def packed_tables(request: IdentifyInput) -> Iterator[PackReading]:
    """Yield a reading in each pack in which all (cosine, sine) pairs have the same norm."""
    for view, zeros in raw_views(request, has_grid=True):
        names = {note.name for note in view.notes}
        if zeros or names & {"transposed", "alone"} or view.packing not in PACKS or view.rows < 2:
            continue
        tolerance = 8 * rounding_bound(view.dtype, 1.0) + _PACK_TOLERANCE
        early = view.at(slice(_EARLY_ROWS))
        if not is_constant(early, tolerance) or view.count != early.phasors.shape[1]:
            continue
        norms = np.abs(early.phasors)
        scale = float(np.median(norms))
        if scale and float(np.abs(norms / scale - 1).max(initial=0)) <= tolerance:
            assert view.cosine is not None
            assert view.sine is not None
            own = 1.0 if abs(scale - 1) <= tolerance else scale
            yield PackReading(view.packing, (view.cosine, view.sine), view.dtype, own)
    sample = request.sample
    if request.is_pair or has_pair_axis(sample) or not sample.is_finite or sample.is_integer:
        return
    rows = rows_of(sample)
    if len(rows) > 1 and np.abs(rows).max(initial=0) > 1:
        yield PackReading("angle", (np.cos(rows), np.sin(rows)), sample.element_dtype)
