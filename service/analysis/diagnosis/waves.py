"""Tables of sines and cosines read as waves, and the tables that wrong angles make of them.

``waves_of`` reads the frequencies of the expected table, the frequency of each column and the
position of each row. An ``AngleFault`` computes the table with wrong positions, frequencies, signs
or scale. ``tutorial_slips`` are angle faults in which cosines have other frequencies than sines.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from service.analysis.diagnosis.mistakes import Mistake
from service.analysis.measure import (
    EARLY_ROWS,
    USUAL_BASE,
    Complexes,
    LayoutReading,
    fit_geometric,
    layout_readings,
    measure,
    read_layout,
    round_bases,
    wrap_angles,
)
from service.analysis.precision import rounded
from service.numerics.dtypes import BFLOAT16, FLOAT16, DType, largest_finite
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Indices

# The largest error of a norm and of an angle in tables of any type: bfloat16 moves a component by
# 2^-9 of it at most, so a norm by as much and an angle by 2^-8.
_LARGEST_ERROR = 2.0**-7


@dataclass(frozen=True, eq=False)
class Waves:
    """A table of sines and cosines, S rows of C columns.

    Attributes:
        frequency: the index of each column's frequency, (C,).
        is_sine: True if a column has sines, False if it has cosines, (C,).
        positions: the positions of the rows, (S,).
        omega: the frequencies in radians per position, (K,).
        scale: the factor that multiplies sines and cosines.
        base: b and d if frequency k is b^(-2k/d); None if the frequencies are no powers.
    """

    frequency: Indices
    is_sine: np.ndarray
    positions: Float64s
    omega: Float64s
    scale: float
    base: tuple[float, int] | None

    @property
    def has_pairs(self) -> bool:
        """True if there are cosines and sines: angles can be measured."""
        return bool(self.is_sine.any() and not self.is_sine.all())

    def of_part(self, *, is_sine: bool) -> "Waves":
        """Return the waves of the columns with sines, or of those with cosines."""
        kept = self.is_sine == is_sine
        return replace(self, frequency=self.frequency[kept], is_sine=self.is_sine[kept])

    def phasors(self, rows: Float64s) -> Complexes:
        """Return cosine + i·sine of each frequency, (S, K), from rows (S, C) of the same layout."""
        cosine, sine = (
            [np.flatnonzero((self.frequency == k) & part)[0] for k in range(len(self.omega))]
            for part in (~self.is_sine, self.is_sine)
        )
        phasors: Complexes = rows[:, cosine] + 1j * rows[:, sine]
        return phasors

    def restricted(self, columns: Indices, rows: int) -> "Waves | None":
        """Return the waves of some columns and the first ``rows`` rows; None if a pair is cut."""
        frequency, is_sine = self.frequency[columns], self.is_sine[columns]
        parts = [np.unique(frequency[part]) for part in (is_sine, ~is_sine) if part.any()]
        count = len(parts[0])
        if not all(np.array_equal(part, np.arange(count)) for part in parts):
            return None
        return replace(
            self,
            frequency=frequency,
            is_sine=is_sine,
            positions=self.positions[:rows],
            omega=self.omega[:count],
        )

    def of_width(self, channels: int) -> "Waves":
        """Return waves with the frequencies base^(−2k/channels); unchanged without a base."""
        if self.base is None:
            return self
        base, _ = self.base
        omega = base ** (-2 * np.arange(len(self.omega)) / channels)
        return replace(self, omega=omega, base=(base, channels))


def waves_of(rows: Float64s, *, is_pair: bool, positions: Float64s | None) -> Waves | None:
    """Return the waves of a table; None if its rows are not sines and cosines of one position.

    Args:
        rows: the table, (S, C), or its first rows; two arrays are joined along the columns.
        is_pair: True if the columns are those of two arrays, cosines first.
        positions: the positions of the rows, rising, (S,); None for consecutive integers, the
            first of which is determined from the angles.
    """
    if len(rows) < 2 or rows.shape[1] < 2:
        return None
    if positions is None:
        positions = np.arange(len(rows), dtype=np.float64)
    if not (np.diff(positions) > 0).all():
        return None
    early = rows[:EARLY_ROWS]
    candidates = [
        (reading.channels, waves)
        for reading in _readings(early, is_pair=is_pair)
        if (waves := _waves(reading, positions[: len(early)])) is not None
    ]
    if not candidates:
        return None
    # Negative frequencies describe the same table as positive ones with sines for cosines.
    channels, waves = min(
        candidates, key=lambda each: (float(np.median(each[1].omega)) < 0, len(each[1].omega))
    )
    return _extended(waves, read_layout("", channels, rows), positions)


def _extended(waves: Waves, reading: LayoutReading, positions: Float64s) -> Waves | None:
    """Extend waves from the first rows to all rows; None if the norms of pairs differ."""
    if not _has_equal_norms(reading):
        return None
    positions = positions + (waves.positions[0] - positions[0])
    if waves.base is None:
        waves = replace(waves, omega=_refined(reading.phasors, positions, waves.omega))
    return replace(waves, positions=positions)


def _readings(rows: Float64s, *, is_pair: bool) -> Iterator[LayoutReading]:
    width = rows.shape[1]
    if width % 4 == 0:
        yield read_layout("pairs", Channels(("cos", "sin"), False, width, 2), rows)
    for reading in layout_readings(rows):
        if not is_pair or reading.layout in {"concat", "half_concat"}:
            yield reading


def _waves(reading: LayoutReading, positions: Float64s) -> Waves | None:
    if not _has_equal_norms(reading):
        return None
    measured = measure(reading.phasors, positions)
    if measured.angle_error.max() > 2 * _LARGEST_ERROR:
        return None
    start = offset_of(measured.phase, measured.omega)
    if start is None:
        return None
    error = measured.omega_error + 2.0**-23 * np.abs(measured.omega)
    powers, base = _powers_of_base(np.abs(measured.omega), error)
    sign = -1.0 if float(np.median(measured.omega)) < 0 else 1.0
    omega = measured.omega if powers is None else sign * powers
    frequency, is_sine = reading.channels.indices()
    return Waves(frequency, is_sine, positions + start, omega, measured.scale, base)


def _has_equal_norms(reading: LayoutReading) -> bool:
    """Return whether all (cosine, sine) pairs have one norm and repeated columns are equal."""
    norms = np.abs(reading.phasors)
    scale = float(np.median(norms))
    most = _LARGEST_ERROR * scale
    return scale > 0 and reading.copy_error <= most and float(np.abs(norms - scale).max()) <= most


def _refined(phasors: Complexes, positions: Float64s, omega: Float64s) -> Float64s:
    """Refine the frequencies (K,) on all rows; return them unchanged if angles differ by > 1."""
    if len(phasors) <= EARLY_ROWS:
        return omega
    residual = np.angle(phasors * np.exp(-1j * np.outer(positions, omega)))
    if np.abs(residual).max() > 1:
        return omega
    # Angles are 0 at position 0.
    refined: Float64s = omega + positions @ residual / float(positions @ positions)
    return refined


def _powers_of_base(
    omega: Float64s, error: Float64s
) -> tuple[Float64s, tuple[float, int]] | tuple[None, None]:
    """Return the exact frequencies b^(−2k/d) for a round base b, and (b, d).

    Return (None, None) if the measured frequencies are no powers of a round base.
    """
    series = fit_geometric(omega, error)
    if series is None or len(omega) < 2:
        return None, None
    places = np.arange(len(omega))
    for span in (2 * len(omega), 2 * len(omega) - 2):
        for base in round_bases(series, span):
            powers = float(base) ** (-2 * places / span)
            if base == float(f"{base:.3g}") and (np.abs(powers - omega) <= 2 * error).all():
                return powers, (base, span)
    return None, None


# float32 represents every integer up to this one.
_FARTHEST = 2.0**24


def offset_of(phase: Float64s, omega: Float64s, tolerance: float = 0.05) -> float | None:
    """Return the integer position p with p·omega = phase modulo 2π; None if there is none to 2^24.

    Args:
        phase: the angles modulo 2π, (K,).
        omega: frequencies in radians per position, (K,).
        tolerance: the largest allowed error of an angle, in radians.
    """
    offsets = offsets_of(phase[None], omega, tolerance)
    return None if offsets is None else float(offsets[0])


def offsets_of(phases: Float64s, omega: Float64s, tolerance: float = 0.05) -> Float64s | None:
    """Return the integer position of each row, (S,); None if a row of phases (S, K) has none.

    The slowest frequency gives an estimate, and each faster one refines it. See ``offset_of``.
    """
    positions = np.zeros(len(phases))
    for k in np.argsort(np.abs(omega), kind="stable"):
        if omega[k] != 0:
            positions += wrap_angles(phases[:, k] - positions * omega[k]) / omega[k]
    whole: Float64s = np.round(positions)
    away = np.abs(wrap_angles(phases - np.outer(whole, omega)))
    is_near = float(away.max(initial=0.0)) <= tolerance and float(np.abs(whole).max()) <= _FARTHEST
    return whole if is_near else None


LARGEST_INTEGERS = {BFLOAT16: 256, FLOAT16: 2048}
"""The largest integer up to which a narrow dtype represents all integers: 2^p for p bits."""


@dataclass(frozen=True)
class Narrowing:
    """The values that are rounded to a narrow type while a table is computed."""

    dtype: DType
    positions: bool = False
    frequencies: bool = False
    angles: bool = False

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        if self.angles:
            return (Mistake("narrow-angles", {"dtype": self.dtype.name}),)
        values = {"dtype": self.dtype.name, "exact": LARGEST_INTEGERS[self.dtype]}
        faults = (("narrow-positions", self.positions), ("narrow-frequencies", self.frequencies))
        return tuple(Mistake(name, values) for name, is_made in faults if is_made)


NARROWINGS = tuple(
    Narrowing(dtype, *parts)
    for parts in ((True,), (False, True), (True, True), (True, True, True))
    for dtype in (BFLOAT16, FLOAT16)
)


@dataclass(frozen=True, eq=False)
class AngleFault:
    """Mistakes in the angles or the scale of waves.

    Attributes:
        mistakes: the mistakes, in order.
        cosine: the frequencies used for cosines, in radians per position, (K,).
        sine: the frequencies used for sines, in radians per position, (K,).
        shift: the offset added to all positions.
        narrowing: the values rounded to a narrow dtype; None if there are none.
        factor: an additional factor of all elements.
    """

    mistakes: tuple[Mistake, ...]
    cosine: Float64s
    sine: Float64s
    shift: float = 0.0
    narrowing: Narrowing | None = None
    factor: float = 1.0

    def with_mistakes(self, *mistakes: Mistake, **changes: Any) -> "AngleFault":
        """Return the fault with more mistakes, and with the attributes in ``changes`` replaced."""
        return replace(self, mistakes=(*self.mistakes, *mistakes), **changes)

    def table(self, waves: Waves, rows: slice | np.ndarray) -> tuple[Float64s, Float64s]:
        """Return the wrong table's elements in the given rows, (R, C), and their error weights."""
        positions = waves.positions[rows] + self.shift
        narrow = self.narrowing
        if narrow and narrow.positions:
            positions = _clipped(positions, narrow.dtype)
        sines = self._angles(positions, self.sine)
        cosines = sines if self.cosine is self.sine else self._angles(positions, self.cosine)
        scale = waves.scale * self.factor

        def in_columns(of_sines: Float64s, of_cosines: Float64s) -> Float64s:
            columns = waves.frequency
            return np.where(waves.is_sine, of_sines[:, columns], of_cosines[:, columns])

        weights = error_weights(sines, self.sine), error_weights(cosines, self.cosine)
        return in_columns(np.sin(sines) * scale, np.cos(cosines) * scale), in_columns(*weights)

    def _angles(self, positions: Float64s, omega: Float64s) -> Float64s:
        narrow = self.narrowing
        if narrow and narrow.frequencies:
            omega = _clipped(omega, narrow.dtype)
        angles = np.outer(positions, omega)
        return _clipped(angles, narrow.dtype) if narrow and narrow.angles else angles


def error_weights(angles: Float64s, omega: Float64s) -> Float64s:
    """Return weights (S, K) to which the errors of angles (S, K) are proportional.

    Engines that compute a frequency ω as ω0·e^(-k·ln b/n) in float32 round the exponent: a relative
    error e of ln (ω/ω0) gives ω, and so the angle, the relative error e·|ln (ω/ω0)|. Engines that
    multiply angle k − 1 by a ratio, as ggml does, round the ratio and the product k times each. The
    weight is a quarter of (4 + 3·|ln (ω/ω0)| + 2k), the error in units of 2^-24.
    """
    size = np.abs(omega)
    largest = size.max(initial=0.0)
    logarithms = np.log(np.divide(size, largest, out=np.ones_like(size), where=size > 0))
    products = np.arange(len(omega))
    weights: Float64s = np.abs(angles) * (1 + 0.75 * np.abs(logarithms) + products / 2)
    return weights


def bounded_errors(errors: Float64s) -> Float64s:
    """Return bounds on the errors of cosines, (S, K), from those of their angles.

    No two cosines are farther apart than 2. In a row where every angle may be off by 1, float32
    predicts nothing: the bounds are 0, and only exact angles are right.
    """
    is_known = (errors < 1).any(axis=1, keepdims=True)
    return np.where(is_known, np.minimum(errors, 2.0), 0.0)


def _clipped(values: Float64s, dtype: DType) -> Float64s:
    """Round to a narrow dtype, and clip to its finite range, since infinity has no sine."""
    most = largest_finite(dtype)
    return rounded(np.clip(values, -most, most), dtype)


COMMON_BASES = (USUAL_BASE, 500000.0, 1000000.0)

# With a slip the two components of a pair have different frequencies, and neither can be measured:
# a second mistake is tried with common values.
_FACTORS = (2.0, 4.0, 8.0)
_SHIFTS = 64
# bfloat16 changes an element by 2^-8 at most, float32 arithmetic by far less.
_NEAR = 2.0**-7

_LEAST_FACTOR_IN_USE = 1.01

LEAST_FACTOR = 2.0**-64
"""The smallest factor of a table that counts as a mistake; no model uses a smaller one."""


def tutorial_slips(waves: Waves, rows: Float64s) -> Iterator[AngleFault]:
    """Yield the wrong exponents of tutorials' loops, alone and with one more mistake.

    In a loop over channels i in steps of 2, the right exponent of sine and cosine is i/d. Wrong
    exponents are (i + 1)/d for the cosine, and 2i/d or 2(i + 1)/d, as if the loop counted pairs.

    Args:
        waves: the expected table; nothing is yielded if it has no base.
        rows: the first rows of the submitted table, (S, C).
    """
    if waves.base is None:
        return
    base, span = waves.base
    for slip in _slips(waves, base, span):
        yield slip
        yield from _with_second_mistake(slip, waves, rows)
    for other in COMMON_BASES:
        if other != base:
            mistake = Mistake("wrong-base", {"have": other, "want": base})
            for slip in _slips(waves, other, span):
                yield slip.with_mistakes(mistake)


def _slips(waves: Waves, base: float, span: int) -> Iterator[AngleFault]:
    pair = np.arange(len(waves.omega), dtype=np.float64)

    def powers(exponents: Float64s) -> Float64s:
        return np.asarray(base ** (-exponents / span), dtype=np.float64)

    right = powers(2 * pair)
    slips = {
        "(i + 1)/d": (powers(2 * pair + 1), right),
        "(i + 2)/d": (powers(2 * pair + 2), right),
        "2(i + 1)/d, and 2i/d for sines": (powers(4 * pair + 2), powers(4 * pair)),
        "2i/d": (powers(4 * pair), powers(4 * pair)),
    }
    for exponent, (cosine, sine) in slips.items():
        yield AngleFault((Mistake("tutorial-slip", {"exponent": exponent}),), cosine, sine)


def _with_second_mistake(slip: AngleFault, waves: Waves, rows: Float64s) -> Iterator[AngleFault]:
    for shift in _shifts(slip, waves, rows[0]):
        mistake = Mistake("position-offset", {"rows": shift})
        yield slip.with_mistakes(mistake, shift=float(shift))
    yield slip.with_mistakes(Mistake("sine-sign"), sine=-slip.sine)
    for narrowing in NARROWINGS:
        yield slip.with_mistakes(*narrowing.mistakes, narrowing=narrowing)
    for factor in _FACTORS:
        for ratio in (factor, 1 / factor):
            mistake = linear_mistake(ratio, factor)
            cosine, sine = ratio * slip.cosine, ratio * slip.sine
            yield slip.with_mistakes(mistake, cosine=cosine, sine=sine)
    table, _ = slip.table(waves, np.arange(len(rows)))
    factor = float((table * rows).sum() / (table * table).sum())
    if factor >= LEAST_FACTOR:
        yield slip.with_mistakes(factor_mistake(factor), factor=factor)


def _shifts(slip: AngleFault, waves: Waves, first: Float64s) -> list[int]:
    """Return the position shifts other than 0, at most _SHIFTS, that match the first row."""
    shifts = np.arange(-_SHIFTS, _SHIFTS + 1)
    moved = replace(waves, positions=waves.positions[0] + shifts)
    table, _ = slip.table(moved, np.arange(len(shifts)))
    is_near = np.abs(table - first).max(axis=1) <= _NEAR * waves.scale
    return [int(shift) for shift in shifts[is_near] if shift]


def linear_mistake(ratio: float, factor: float) -> Mistake:
    """Return the mistake of multiplying all frequencies by ``ratio``: ``factor`` or 1/factor."""
    if ratio == 2:
        return Mistake("rotated-twice")
    how = "divided" if ratio < 1 else "multiplied"
    return Mistake("linear-factor", {"ratio": ratio, "factor": factor, "how": how})


def factor_mistake(factor: float) -> Mistake:
    """Return the mistake of multiplying all elements by ``factor``.

    The smallest factors in use are the attention factors of YaRN, 0.1·ln 2 + 1 for twice the
    length, and of longrope, √(1 + ln 2/ln L) for L positions, above 1.01 up to L = 2^40.
    """
    if max(factor, 1 / factor) < _LEAST_FACTOR_IN_USE:
        return Mistake("wrong-factor", {"factor": factor})
    if factor > 1:
        return Mistake("extra-factor", {"factor": factor})
    return Mistake("missing-factor", {"ratio": factor, "factor": 1 / factor})
