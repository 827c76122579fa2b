"""Frequencies, and exact phases in fixed point.

Frequencies are radians per position, evaluated with decimals of PRECISION_DIGITS digits from the
exact values of binary64 parameters; ``encodings/rotary/rules.py`` has the scaling rules of rotary
embeddings.

A phase is in fixed point: a frequency is kept as the fraction of a turn that one position adds, in
units of 2^-128 turn. Multiplying it by a position wraps at whole turns and rounds nothing, so the
phase of position 2^62 is as good as that of position 1. ``evaluation`` has its sine and cosine.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import wraps
from itertools import accumulate, islice, repeat
from math import frexp
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Float64s: TypeAlias = NDArray[np.float64]
UInt64s: TypeAlias = NDArray[np.uint64]
Int64s: TypeAlias = NDArray[np.int64]
SineCosine: TypeAlias = tuple[Float64s, Float64s]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

PRECISION_DIGITS = 80
TWO_PI = Decimal(
    "6.2831853071795864769252867665590057683943387987502"
    "1164194988918461563281257241799725606965068423413596"
)
MAX_POSITION = 2**62
MAX_FREQUENCY = 1e18
MIN_FREQUENCY = 1e-300

Decimals: TypeAlias = list[Decimal]

_ONE = Decimal(1)

# A frequency so small that 2^62 positions stay within an eighth of a turn is kept with extra
# bits, so that its angles have full relative precision too.
_FIXED_POINT_BITS = 128
_FEWEST_SIGNIFICANT_BITS = 62
_WHOLE_TURN = 2**_FIXED_POINT_BITS

# The exponent of ten from which on a frequency in turns has no extra bits: 10^-20 is above 2^-67.
_COARSE_EXPONENT = -20


def exact_context() -> Context:
    """Return a new decimal context of PRECISION_DIGITS digits, for exact arithmetic.

    Every function that needs one makes its own: the context of the ``decimal`` module belongs to
    the thread, and a worker thread starts with 28 digits.
    """
    return Context(prec=PRECISION_DIGITS)


def exact_arithmetic(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make the operators of decimals exact to PRECISION_DIGITS digits within a function.

    It must return values, not a generator that computes after it has returned (see
    ``exact_series``).
    """

    @wraps(function)
    def in_exact_context(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with localcontext(exact_context()):
            return function(*args, **kwargs)

    return in_exact_context


# Numbers of a series that are computed together.
_AHEAD = 16


def exact_series(
    function: Callable[Arguments, Iterator[Decimal]],
) -> Callable[Arguments, Iterator[Decimal]]:
    """Make the operators of decimals exact within a generator, which computes some at a time."""

    @wraps(function)
    def in_exact_context(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Iterator[Decimal]:
        numbers, some = function(*args, **kwargs), [_ONE]
        while some:
            with localcontext(exact_context()):
                some = list(islice(numbers, _AHEAD))
            yield from some

    return in_exact_context


def is_valid_frequency(frequency: float) -> bool:
    """Check that a frequency is 0 or within the range that phases are exact for."""
    return frequency == 0 or MIN_FREQUENCY <= frequency <= MAX_FREQUENCY


def horner(coefficients: Sequence[float], x: Float64s, out: Float64s | None = None) -> Float64s:
    """Evaluate a polynomial of x, in any shape; the highest power has the first coefficient."""
    total: Float64s = np.multiply(x, coefficients[0], out=out)
    for coefficient in coefficients[1:-1]:
        total += coefficient
        total *= x
    total += coefficients[-1]
    return total


@dataclass(frozen=True, eq=False)
class FixedPointFrequencies:
    """Frequencies as 128-bit fractions of a turn per position.

    Attributes:
        high: upper 64 bits of each fraction, shape (n,), or (k, n) for k rows of frequencies.
        low: lower 64 bits, of the same shape.
        unit: a power of two for each, which undoes the extra bits of tiny frequencies (1 where
            there are none), of the same shape.
    """

    high: UInt64s
    low: UInt64s
    unit: Float64s

    @classmethod
    def joined(cls, parts: Sequence["FixedPointFrequencies"]) -> "FixedPointFrequencies":
        return cls(
            np.concatenate([part.high for part in parts]),
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.unit for part in parts]),
        )

    @classmethod
    def stacked(cls, rows: Sequence["FixedPointFrequencies"]) -> "FixedPointFrequencies":
        """Return rows of frequencies, (n,) each, as one object."""
        joined, shape = cls.joined(rows), (len(rows), -1)
        return cls(
            joined.high.reshape(shape), joined.low.reshape(shape), joined.unit.reshape(shape)
        )

    @property
    def nbytes(self) -> int:
        """An upper estimate of the memory that they and their rule take."""
        return 4 * self.high.nbytes

    def part(self, index: slice | Int64s) -> "FixedPointFrequencies":
        """Return some of the frequencies, or of their rows."""
        if isinstance(index, slice):
            return FixedPointFrequencies(self.high[index], self.low[index], self.unit[index])
        # Indices are right by construction: mode="clip" skips the check.
        return FixedPointFrequencies(
            self.high.take(index, axis=0, mode="clip"),
            self.low.take(index, axis=0, mode="clip"),
            self.unit.take(index, axis=0, mode="clip"),
        )


@exact_arithmetic
def fixed_point(frequencies: Sequence[Decimal]) -> FixedPointFrequencies:
    """Return frequencies, given in radians per position, as fixed-point rotations per position.

    Each must be 0, or MIN_FREQUENCY to MAX_FREQUENCY. The error is at most 2^-129 rotations per
    position, or 2^-61 of the frequency if that is smaller.
    """
    fractions: list[int] = []
    extra_bits: list[int] = []
    for frequency in frequencies:
        turns = frequency / TWO_PI
        bits = _extra_bits(turns)
        scaled = turns % 1 * (_WHOLE_TURN << bits)
        fractions.append(int(scaled.to_integral_value()) % _WHOLE_TURN)
        extra_bits.append(bits)
    return FixedPointFrequencies(
        high=np.array([fraction >> 64 for fraction in fractions], dtype=np.uint64),
        low=np.array([fraction & (2**64 - 1) for fraction in fractions], dtype=np.uint64),
        unit=np.array([2.0**-bits for bits in extra_bits], dtype=np.float64),
    )


def _extra_bits(turns: Decimal) -> int:
    if turns.adjusted() >= _COARSE_EXPONENT or turns == 0:
        return 0
    # The binary exponent of the float64 is the decimal's own, or one more where it rounds up.
    exponent = frexp(float(turns))[1]
    return max(0, _FEWEST_SIGNIFICANT_BITS - 1 - (_FIXED_POINT_BITS + exponent))


@exact_series
def geometric_series(base: Decimal, dim: int, count: int) -> Iterator[Decimal]:
    """Return b^(−2k/dim) for k below count."""
    yield from powers((base.ln() * (Decimal(-2) / dim)).exp(), count)


def powers(ratio: Decimal, count: int) -> Iterator[Decimal]:
    """Return ratio^k for k below count."""
    series = accumulate(repeat(ratio), exact_context().multiply, initial=_ONE)
    return islice(series, count)


@exact_series
def wavelengths(frequencies: Iterable[Decimal]) -> Iterator[Decimal]:
    """Return 2π/ω of each frequency ω, the positions after which its channels repeat; ∞ for 0."""
    for frequency in frequencies:
        yield TWO_PI / frequency if frequency else Decimal("Infinity")


class FrequencyRule(Hashable, Protocol):
    """A hashable description of a list of frequencies."""

    @property
    def count(self) -> int: ...

    def exact(self) -> Iterator[Decimal]:
        """Return the frequencies, in radians per position or per unit of a coordinate.

        Each is computed when it is needed: all of a wide row take longer than a turn.
        """


FREQUENCY_SECONDS = 3e-6
"""The processor seconds of a frequency of 80 digits, and of its fixed point."""


def frequency_seconds(rule: FrequencyRule) -> float:
    """Return the processor seconds of a frequency of a rule, in fixed point.

    It is the attribute ``frequency_seconds`` of the rule; most rules have none.
    """
    seconds: float = getattr(rule, "frequency_seconds", FREQUENCY_SECONDS)
    return seconds


@dataclass(frozen=True)
class Geometric:
    """The frequencies base^(−2k/dim) for k = 0 … count − 1.

    "Attention Is All You Need" (Vaswani et al. 2017), §3.5, with dim = d_model; "RoFormer" (Su et
    al. 2021), §3.2.2, with dim = rotary_dim, where the base is called rope_theta in configs.
    """

    base: float
    dim: int
    count: int

    def exact(self) -> Iterator[Decimal]:
        return geometric_series(Decimal(self.base), self.dim, self.count)


def geometric(d_model: int, base: float) -> Geometric:
    """Return the frequencies of the sinusoidal encoding; an odd d_model's last has no cosine."""
    return Geometric(base, d_model, -(-d_model // 2))


@dataclass(frozen=True)
class ScaledGeometric:
    """The frequencies first·(least/greatest)^(2k/dim) for k = 0 … count − 1.

    tensor2tensor 1.15.7 ``get_timing_signal_1d`` and ``add_timing_signal_nd``: first and least are
    min_timescale, greatest is max_timescale, so that a larger min_timescale makes every frequency
    higher. mlx 0.32.4 ``SinusoidalPositionalEncoding``: first and greatest are max_freq, least is
    min_freq, and full_turns multiplies each frequency by 2π.
    """

    first: float
    least: float
    greatest: float
    dim: int
    count: int
    full_turns: bool = False

    @exact_series
    def exact(self) -> Iterator[Decimal]:
        fastest = Decimal(self.first) * (TWO_PI if self.full_turns else _ONE)
        series = geometric_series(
            Decimal(self.greatest) / Decimal(self.least), self.dim, self.count
        )
        yield from (fastest * frequency for frequency in series)


@dataclass(frozen=True)
class PeriodFrequencies:
    """The frequencies 2π/(first·(last/first)^(k/span)) for k = 0 … count − 1.

    DINOv3 ``RopePositionEmbedding``: first = 1, last = base and span = head_dim/4, or first =
    min_period, last = max_period and span = count − 1.
    """

    first: float
    last: float
    span: int
    count: int

    @exact_series
    def exact(self) -> Iterator[Decimal]:
        first = Decimal(self.first)
        fastest = TWO_PI / first
        # A series ratio^(−2k/dim) with dim = 2·span, which is 0 only for a single frequency.
        series = geometric_series(Decimal(self.last) / first, 2 * max(self.span, 1), self.count)
        yield from (fastest * frequency for frequency in series)


@dataclass(frozen=True)
class PixelBands:
    """The frequencies π·b_k of bands b_k from 1 to max_freq/2, evenly spaced or geometric.

    Evenly spaced: rotary-embedding-torch 0.9.1, freqs_for="pixel"; timm 1.0.31, linear_bands.
    Geometric: timm 1.0.31 ``pixel_freq_bands``, 2^linspace(0, log2(max_res) − 1).
    """

    max_freq: float
    count: int
    is_linear: bool

    @exact_series
    def exact(self) -> Iterator[Decimal]:
        highest = Decimal(self.max_freq) / 2
        steps = max(self.count - 1, 1)
        if self.is_linear:
            step = (highest - 1) / steps
            bands: Iterator[Decimal] = (step.fma(k, _ONE) for k in range(self.count))
        else:
            bands = geometric_series(_ONE / highest, 2 * steps, self.count)
        yield from (TWO_PI / 2 * band for band in bands)


@dataclass(frozen=True)
class ConstantFrequencies:
    """Frequencies of one radian each: rotary-embedding-torch 0.9.1, freqs_for="constant"."""

    count: int

    def exact(self) -> Iterator[Decimal]:
        return repeat(_ONE, self.count)


@dataclass(frozen=True)
class ScaledFrequencies:
    """The frequencies of a rule times unit: in radians per position, if position 1 is unit.

    Attributes:
        rule: the frequencies, in radians per coordinate 1.
        unit: the coordinate of position 1.
    """

    rule: FrequencyRule
    unit: Fraction

    @property
    def count(self) -> int:
        return self.rule.count

    @exact_series
    def exact(self) -> Iterator[Decimal]:
        numerator, denominator = self.unit.numerator, self.unit.denominator
        yield from (frequency * numerator / denominator for frequency in self.rule.exact())


@dataclass(frozen=True)
class Picked:
    """Selected frequencies of a rule.

    Attributes:
        rule: the rule.
        places: the indices of the selected frequencies, in ascending order.
    """

    rule: FrequencyRule
    places: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.places)

    @property
    def frequency_seconds(self) -> float:
        return frequency_seconds(self.rule)

    def exact(self) -> Iterator[Decimal]:
        chosen = set(self.places)
        return (each for place, each in enumerate(self.rule.exact()) if place in chosen)


@dataclass(frozen=True)
class TimesTwoPi:
    """The frequencies of a rule, which are in rotations per position, times 2π."""

    rule: FrequencyRule

    @property
    def count(self) -> int:
        return self.rule.count

    @exact_series
    def exact(self) -> Iterator[Decimal]:
        yield from (TWO_PI * frequency for frequency in self.rule.exact())
