"""What is wanted, read as waves: which frequency is in which column, how fast, from where on.

Mistakes of angles: what was done to positions, frequencies, signs and sizes of waves.

The slips of tutorials: cosines of other frequencies than the sines beside them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.diagnosis.mistakes import Mistake
from service.analysis.measure import (
    EARLY_ROWS,
    Complexes,
    LayoutReading,
    fit_geometric,
    layout_readings,
    measure,
    read_layout,
    round_bases,
)
from service.numerics.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    DType,
    largest_finite,
    round_into,
    to_float64,
)
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Indices

_TWO_PI = 2 * np.pi

# Norms of pairs and straightness of angles of tables in any type: bfloat16 moves a component by
# 2^-9 of it at most, so a norm by as much and an angle by 2^-8 at most.
_ROUGHEST = 2.0**-7


@dataclass(frozen=True, eq=False)
class Waves:
    """A table of sines and cosines, S rows of C columns.

    Attributes:
        frequency: which frequency a column holds, (C,).
        is_sine: whether it holds its sine, (C,).
        positions: of rows, (S,).
        omega: radians per position, (K,).
        scale: what sines and cosines are multiplied by.
        base: that of the frequencies, where they are powers of one; and over how many channels they
            fall to 1 over it.
    """

    frequency: Indices
    is_sine: np.ndarray
    positions: Float64s
    omega: Float64s
    scale: float
    base: tuple[float, int] | None

    @property
    def copies(self) -> tuple[Indices, Indices]:
        """Give the first column of each frequency's cosine, and of its sine."""
        return tuple(  # type: ignore[return-value]
            np.array(
                [np.flatnonzero((self.frequency == k) & part)[0] for k in range(len(self.omega))]
            )
            for part in (~self.is_sine, self.is_sine)
        )

    def turns(self, rows: Float64s) -> Complexes:
        """Read rows (S, C) that lie as these do: a cosine + i·sine for each frequency."""
        cosine, sine = self.copies
        read_turns: Complexes = rows[:, cosine] + 1j * rows[:, sine]
        return read_turns

    def narrowed(self, columns: Indices, rows: int) -> "Waves | None":
        """Keep some columns and the first rows; None where a sine is left without its cosine."""
        frequency, is_sine = self.frequency[columns], self.is_sine[columns]
        sines, cosines = set(frequency[is_sine].tolist()), set(frequency[~is_sine].tolist())
        count = len(sines)
        if sines != cosines or sines != set(range(count)):
            return None
        return replace(
            self,
            frequency=frequency,
            is_sine=is_sine,
            positions=self.positions[:rows],
            omega=self.omega[:count],
        )

    def of_width(self, channels: int) -> "Waves":
        """Let frequencies fall over another number of channels, where they have a base."""
        if self.base is None:
            return self
        base, _ = self.base
        omega = base ** (-2 * np.arange(len(self.omega)) / channels)
        return replace(self, omega=omega, base=(base, channels))


def waves_of(rows: Float64s, *, is_pair: bool, positions: Float64s | None) -> Waves | None:
    """Read rows (S, C) as waves; None where they are none.

    Args:
        rows: cosines and sines; for two arrays the columns of the one, then of the other.
        is_pair: whether they are two arrays, the cosines first.
        positions: of rows, rising, where they are known; otherwise whole numbers from where the
            angles say.
    """
    if len(rows) < 2 or rows.shape[1] < 2:
        return None
    if positions is None or len(positions) != len(rows):
        # Rows of several axes are not those of the positions of one.
        places = np.arange(len(rows), dtype=np.float64)
    else:
        places = positions
    if not (np.diff(places) > 0).all():
        return None
    early = rows[:EARLY_ROWS]
    found = [
        (reading.channels, waves)
        for reading in _readings(early, is_pair=is_pair)
        if (waves := _waves(reading, places[: len(early)])) is not None
    ]
    if not found:
        return None
    # Frequencies that turn backwards are the same table as forward ones with sines for cosines.
    channels, waves = min(
        found, key=lambda each: (float(np.median(each[1].omega)) < 0, len(each[1].omega))
    )
    return _of_all(waves, read_layout("", channels, rows), places)


def _of_all(waves: Waves, reading: LayoutReading, places: Float64s) -> Waves | None:
    """Read all rows as the first ones; None where those after them are no waves."""
    moved = waves.positions[0] - places[0]
    if not _is_even(reading):
        return None
    if waves.base is None:
        waves = replace(waves, omega=_refined(reading.phasors, places + moved, waves.omega))
    return replace(waves, positions=places + moved)


def _readings(rows: Float64s, *, is_pair: bool) -> Iterator[LayoutReading]:
    width = rows.shape[1]
    if width % 4 == 0:
        yield read_layout("pairs", Channels(("cos", "sin"), False, width, 2), rows)
    for reading in layout_readings(rows):
        if not is_pair or reading.layout in {"concat", "half_concat"}:
            yield reading


def _waves(reading: LayoutReading, places: Float64s) -> Waves | None:
    if not _is_even(reading):
        return None
    measured = measure(reading.phasors, places)
    if measured.angle_error.max() > 2 * _ROUGHEST:
        return None
    start = offset_of(measured.phase, measured.omega)
    if start is None:
        return None
    error = measured.omega_error + 2.0**-23 * np.abs(measured.omega)
    based, base = _based(np.abs(measured.omega), error)
    if base is None:
        omega = measured.omega
    else:
        omega = -based if float(np.median(measured.omega)) < 0 else based
    frequency, is_sine = reading.channels.indices()
    return Waves(frequency, is_sine, places + start, omega, measured.scale, base)


def _is_even(reading: LayoutReading) -> bool:
    """Tell whether pairs have one norm, and copies are such."""
    norms = np.abs(reading.phasors)
    scale = float(np.median(norms))
    most = _ROUGHEST * scale
    return scale > 0 and reading.copy_error <= most and float(np.abs(norms - scale).max()) <= most


def _refined(turns: Complexes, positions: Float64s, omega: Float64s) -> Float64s:
    """Measure frequencies by all rows, where none is half a turn away from what is expected."""
    if len(turns) <= EARLY_ROWS:
        return omega
    bent = np.angle(turns * np.exp(-1j * np.outer(positions, omega)))
    if np.abs(bent).max() > 1:
        return omega
    # Angles go through 0 at position 0.
    more: Float64s = omega + positions @ bent / float(positions @ positions)
    return more


def _based(omega: Float64s, error: Float64s) -> tuple[Float64s, tuple[float, int] | None]:
    """Put the powers of a plain base in place of measured frequencies, if they are such powers."""
    series = fit_geometric(omega, error)
    if series is None or len(omega) < 2:
        return omega, None
    places = np.arange(len(omega))
    for span in (2 * len(omega), 2 * len(omega) - 2):
        for base in round_bases(series, span):
            exact = float(base) ** (-2 * places / span)
            if base == float(f"{base:.3g}") and (np.abs(exact - omega) <= 2 * error).all():
                return exact, (base, span)
    return omega, None


def offset_of(phase: Float64s, omega: Float64s, tolerance: float = 0.05) -> float | None:
    """Find the whole position at which all angles are what they are; None where there is none.

    The slowest frequency says about where it is, and each faster one more exactly.

    Args:
        phase: angles, modulo 2π, (K,).
        omega: radians per position, (K,).
        tolerance: how far an angle may be from what it should be.
    """
    position = 0.0
    for k in np.argsort(np.abs(omega), kind="stable"):
        if omega[k] != 0:
            position += float(_folded(phase[k] - position * omega[k]) / omega[k])
    whole = float(np.round(position))
    away = np.abs(_folded(phase - whole * omega))
    return whole if float(away.max(initial=0.0)) <= tolerance else None


def _folded(angles: Float64s) -> Float64s:
    return (angles + np.pi) % _TWO_PI - np.pi


@dataclass(frozen=True)
class Narrowing:
    """What was held in a narrow type on the way to a table.

    Attributes:
        dtype: the type.
        positions, frequencies, angles: whether these were.
    """

    dtype: DType
    positions: bool = False
    frequencies: bool = False
    angles: bool = False

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """Name what went wrong by it."""
        # Every integer up to 2^p has a place in a type with p bits of precision.
        exact = 256 if self.dtype is BFLOAT16 else 2048
        values = {"dtype": self.dtype.name, "exact": exact}
        if self.angles:
            return (Mistake("narrow-angles", {"dtype": self.dtype.name}),)
        named = (("narrow-positions", self.positions), ("narrow-frequencies", self.frequencies))
        return tuple(Mistake(name, values) for name, is_so in named if is_so)


NARROWINGS = tuple(
    Narrowing(dtype, positions, frequencies, angles)
    for positions, frequencies, angles in (
        (True, False, False),
        (False, True, False),
        (True, True, False),
        (True, True, True),
    )
    for dtype in (BFLOAT16, FLOAT16)
)


@dataclass(frozen=True, eq=False)
class AngleFault:
    """Waves that somebody made in place of those that are wanted.

    Attributes:
        mistakes: why they are others.
        cosine, sine: radians per position of cosines and of sines, (K,).
        shift: what positions have more than they should.
        narrowing: what was held in a narrow type.
        factor: what everything is multiplied by, beside what it should be.
    """

    mistakes: tuple[Mistake, ...]
    cosine: Float64s
    sine: Float64s
    shift: float = 0.0
    narrowing: Narrowing | None = None
    factor: float = 1.0

    def table(self, waves: Waves, rows: slice | np.ndarray) -> tuple[Float64s, Float64s]:
        """Compute rows of the table, and how large the angle of each element counts."""
        positions = waves.positions[rows] + self.shift
        narrow = self.narrowing
        if narrow and narrow.positions:
            positions = rounded(positions, narrow.dtype)
        sines = self._angles(positions, self.sine)
        is_twin = self.cosine is self.sine
        cosines = sines if is_twin else self._angles(positions, self.cosine)
        sine_reach, cosine_reach = reach(sines, self.sine), reach(cosines, self.cosine)
        reaches = np.where(
            waves.is_sine, sine_reach[:, waves.frequency], cosine_reach[:, waves.frequency]
        )
        scale = waves.scale * self.factor
        sine, cosine = np.sin(sines) * scale, np.cos(cosines) * scale
        table = np.where(waves.is_sine, sine[:, waves.frequency], cosine[:, waves.frequency])
        return table, reaches

    def _angles(self, positions: Float64s, omega: Float64s) -> Float64s:
        narrow = self.narrowing
        if narrow and narrow.frequencies:
            omega = rounded(omega, narrow.dtype)
        angles = np.outer(positions, omega)
        return rounded(angles, narrow.dtype) if narrow and narrow.angles else angles


def reach(angles: Float64s, omega: Float64s) -> Float64s:
    """Say how much angles count where errors in proportion to them are bounded.

    Engines that compute a frequency as e^(-k·ln b/n) in float32 round the exponent: ln ω is off by
    as much of itself as the angle is by other steps, and ω by that times |ln ω|.
    """
    size = np.abs(omega)
    logarithms = np.abs(np.log(np.where(size > 0, size, 1.0)))
    reached: Float64s = np.abs(angles) * (1 + logarithms / 2)
    return reached


def rounded(values: Float64s, dtype: DType) -> Float64s:
    """Round numbers to a narrow type; what is too large for it becomes its largest."""
    elements = np.empty(values.shape, dtype=dtype.storage)
    # An infinite angle has no sine: there is no such number in what is compared.
    most = largest_finite(dtype)
    round_into(np.clip(values, -most, most), elements, dtype)
    return to_float64(elements, dtype)


def holding(values: Float64s, dtype: DType) -> DType:
    """Find the narrowest type that holds sines and cosines as they are, of which a wider was made.

    Numbers are written as text, or sent as float32, that were computed in a narrower type.
    """
    sizes = [FLOAT64, FLOAT32, FLOAT16, BFLOAT16]
    for narrow in sizes[:0:-1]:
        if sizes.index(narrow) > sizes.index(dtype) and (rounded(values, narrow) == values).all():
            return narrow
    return dtype


# With a slip no frequency can be measured by the turning of a pair: other mistakes beside it are
# tried as they are most common.
_BASES = (10000.0, 500000.0, 1000000.0)
_FACTORS = (2.0, 4.0, 8.0)
_SHIFTS = 64
# A number that bfloat16 holds is off by 2^-8 at most; what float32 makes of angles is far less.
_NEAR = 2.0**-7

_LEAST_IN_USE = 1.01

LEAST_FACTOR = 2.0**-64
"""What is smaller is no factor that anyone multiplies by."""


def slips(waves: Waves, rows: Float64s) -> Iterator[AngleFault]:
    """Give what loops of tutorials make of waves, alone and with one mistake more.

    Where a loop counts channels i in steps of 2, the exponent of both is i/d. Written are (i + 1)/d
    for the cosine, and 2i/d, 2(i + 1)/d and the like for a loop that is thought to count pairs.

    Args:
        waves: what is wanted; without a base there is no exponent to be wrong.
        rows: the first rows of what somebody has.
    """
    if waves.base is None:
        return
    base, span = waves.base
    for found in _written(waves, base, span):
        yield found
        yield from _beside(found, waves, rows)
    for other in _BASES:
        if other != base:
            said = Mistake("wrong-base", {"have": other, "want": base})
            for found in _written(waves, other, span):
                yield replace(found, mistakes=(*found.mistakes, said))


def _written(waves: Waves, base: float, span: int) -> Iterator[AngleFault]:
    pair = np.arange(len(waves.omega), dtype=np.float64)

    def powers(exponents: Float64s) -> Float64s:
        return np.asarray(base ** (-exponents / span), dtype=np.float64)

    right = powers(2 * pair)
    written = {
        "(i + 1)/d": (powers(2 * pair + 1), right),
        "(i + 2)/d": (powers(2 * pair + 2), right),
        "2(i + 1)/d, and 2i/d for sines": (powers(4 * pair + 2), powers(4 * pair)),
        "2i/d": (powers(4 * pair), powers(4 * pair)),
    }
    for exponent, (cosine, sine) in written.items():
        yield AngleFault((Mistake("tutorial-slip", {"exponent": exponent}),), cosine, sine)


def _beside(found: AngleFault, waves: Waves, rows: Float64s) -> Iterator[AngleFault]:
    named = found.mistakes
    for shift in _shifts(found, waves, rows[0]):
        said = Mistake("position-offset", {"rows": shift})
        yield replace(found, mistakes=(*named, said), shift=float(shift))
    yield replace(found, mistakes=(*named, Mistake("sine-sign")), sine=-found.sine)
    for narrowing in NARROWINGS:
        every = (*named, *narrowing.mistakes)
        yield replace(found, mistakes=every, narrowing=narrowing)
    for factor in _FACTORS:
        for how, ratio in (("multiplied", factor), ("divided", 1 / factor)):
            values = {"ratio": ratio, "factor": factor, "how": how}
            said = Mistake("linear-factor", values)
            if ratio == 2:
                said = Mistake("rotated-twice")
            cosine, sine = ratio * found.cosine, ratio * found.sine
            yield replace(found, mistakes=(*named, said), cosine=cosine, sine=sine)
    table, _ = found.table(waves, np.arange(len(rows)))
    factor = float((table * rows).sum() / (table * table).sum())
    if factor >= LEAST_FACTOR:
        yield replace(found, mistakes=(*named, factor_mistake(factor)), factor=factor)


def _shifts(found: AngleFault, waves: Waves, first: Float64s) -> list[int]:
    """Find the shifts, none larger than _SHIFTS, that the first row allows."""
    shifts = np.arange(-_SHIFTS, _SHIFTS + 1)
    moved = replace(waves, positions=waves.positions[0] + shifts)
    table, _ = found.table(moved, np.arange(len(shifts)))
    is_near = np.abs(table - first).max(axis=1) <= _NEAR * waves.scale
    return [int(shift) for shift in shifts[is_near] if shift]


def factor_mistake(factor: float) -> Mistake:
    """Name what all numbers are multiplied by.

    Of the factors in use, the attention factor of YaRN is the smallest: 0.1·ln 2 + 1 for twice the
    length, and that of longrope, √(1 + ln 2/ln L) for L positions, is above 1.01 up to L = 2^40.
    """
    if max(factor, 1 / factor) < _LEAST_IN_USE:
        return Mistake("wrong-factor", {"factor": factor})
    if factor > 1:
        return Mistake("extra-factor", {"factor": factor})
    return Mistake("missing-factor", {"ratio": factor, "factor": 1 / factor})
