"""Frequencies, exact phases in fixed point, and sines and cosines that every machine agrees on.

Frequencies are radians per position, evaluated with decimals of PRECISION_DIGITS digits from the
exact values of binary64 parameters; ``encodings/rotary/rules.py`` has the scaling rules of rotary
embeddings.

A phase is in fixed point: a frequency is kept as the fraction of a turn that one position adds, in
units of 2^-128 turn. Multiplying it by a position wraps at whole turns and rounds nothing, so the
phase of position 2^62 is as good as that of position 1. Everything after that uses only elementwise
additions, subtractions and multiplications of float64, which IEEE 754 fixes to the last bit;
NumPy's own ``sin``, ``exp`` and ``power`` differ between processors.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import wraps
from itertools import accumulate, islice, repeat
from math import factorial, frexp
from threading import local
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

CACHED_ELEMENTS = 4096
"""Elements of a step: its dozen arrays of this length fit into the cache of a core."""

EVALUATED_ELEMENTS = 16384
"""Sines in a step of an evaluation, whose arrays fit into the cache of a core."""

Decimals: TypeAlias = list[Decimal]

_ONE = Decimal(1)

_LOW_32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_1 = np.uint64(1)
_QUARTER_BITS = np.uint64(2)
_UPPER_SHIFT = np.int64(34)
_EVERY_BIT = np.int64(63)
_SIGN_SHIFT = np.uint64(63)
_SIGN_BIT = np.uint64(2**63)
_HALF_QUARTER = np.uint64(2**61)

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
        high: upper 64 bits of each fraction, shape (n,).
        low: lower 64 bits, shape (n,).
        unit: a power of two for each, which undoes the extra bits of tiny frequencies (1 where
            there are none), shape (n,).
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

    @property
    def nbytes(self) -> int:
        """An upper estimate of the memory that they and their rule take."""
        return 4 * self.high.nbytes

    def part(self, index: slice | Int64s) -> "FixedPointFrequencies":
        if isinstance(index, slice):
            return FixedPointFrequencies(self.high[index], self.low[index], self.unit[index])
        # Indices are right by construction: mode="clip" skips the check.
        return FixedPointFrequencies(
            self.high.take(index, mode="clip"),
            self.low.take(index, mode="clip"),
            self.unit.take(index, mode="clip"),
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


def sin_cos(
    frequencies: FixedPointFrequencies, positions: Int64s, out: SineCosine | None = None
) -> SineCosine:
    """Return sine and cosine of positions (m,) within ±2^62 times frequencies (n,): each (m, n).

    They are within 0.9·2^-53 of the exact value; the sine also within 3.5·2^-53 of its own size
    where the angle is below an eighth of a turn. They are written to out, arrays or views of
    float64, if it is given.
    """
    shape = (len(positions), len(frequencies.high))
    sine, cosine = out or np.empty((2, *shape))
    rows = max(1, EVALUATED_ELEMENTS // max(1, shape[1]))
    room = _rooms.of(min(rows, shape[0]) * shape[1])
    for first in range(0, shape[0], rows):
        part = slice(first, first + rows)
        _sin_cos(frequencies, positions[part, np.newaxis], (sine[part], cosine[part]), room)
    return sine, cosine


def sin_cos_of_each(
    frequencies: FixedPointFrequencies, positions: Int64s, chosen: Int64s | None = None
) -> SineCosine:
    """Return sine and cosine of positions (n,), each times its own frequency (see ``sin_cos``).

    If it is given, chosen is the index of each position's frequency.
    """
    sine, cosine = np.empty((2, len(positions)))
    room = _rooms.of(min(EVALUATED_ELEMENTS, len(positions)))
    for first in range(0, len(positions), EVALUATED_ELEMENTS):
        part = slice(first, first + EVALUATED_ELEMENTS)
        own = frequencies.part(part if chosen is None else chosen[part])
        _sin_cos(own, positions[part], (sine[part], cosine[part]), room)
    return sine, cosine


_ROOM_ARRAYS = 8


class _Rooms(local):
    """The arrays of evaluations, which a thread overwrites again and again.

    An evaluation takes ninety passes over them: they should stay in the cache of a core, and the
    system should not clear the memory of new ones each time.
    """

    def __init__(self) -> None:
        self._kept = np.empty(_ROOM_ARRAYS * EVALUATED_ELEMENTS)

    def of(self, elements: int) -> Float64s:
        """Return arrays of this many elements, (_ROOM_ARRAYS, elements), until the next call."""
        count = _ROOM_ARRAYS * elements
        room = self._kept[:count] if count <= len(self._kept) else np.empty(count)
        return room.reshape(_ROOM_ARRAYS, elements)


_rooms = _Rooms()


def _sin_cos(
    frequencies: FixedPointFrequencies, positions: Int64s, out: SineCosine, room: Float64s
) -> None:
    """Write the sine and cosine of positions times frequencies, which are broadcast, to out."""
    room = room[:, : out[0].size].reshape(_ROOM_ARRAYS, *out[0].shape)
    bits = room.view(np.uint64)
    _multiply(frequencies, np.abs(positions).view(np.uint64), bits)
    turn = np.add(bits[0], _HALF_QUARTER, out=bits[2])
    angle, tail = _reduce(room)
    if (frequencies.unit != 1.0).any():
        angle *= frequencies.unit
        tail *= frequencies.unit
    sine, cosine = _sin_cos_kernel(angle, tail, room)
    signed = sine.view(np.uint64), cosine.view(np.uint64)
    _turn(turn, signed, bits)
    if positions.min() < 0:
        signed[0][...] ^= (positions < 0).astype(np.uint64) << _SIGN_SHIFT
    # Adding zero turns the sine -0 of a negative position and a frequency of 0 into +0.
    np.add(sine, 0.0, out=out[0])
    np.add(cosine, 0.0, out=out[1])


def _multiply(frequencies: FixedPointFrequencies, position: UInt64s, room: UInt64s) -> None:
    """Multiply positions and frequencies modulo one turn: 128-bit products, in room[:2]."""
    high, low, product, cross, rest = room[:5]
    low_high, low_low = frequencies.low >> _32, frequencies.low & _LOW_32
    is_near = position.max() <= _LOW_32
    position_low = position if is_near else position & _LOW_32
    np.multiply(position_low, low_low, out=product)
    product >>= _32
    np.multiply(position_low, low_high, out=cross)
    cross += product
    np.multiply(position, frequencies.high, out=high)
    if not is_near:
        position_high = position >> _32
        np.multiply(position_high, low_high, out=product)
        high += product
        np.multiply(position_high, low_low, out=product)
        np.bitwise_and(cross, _LOW_32, out=rest)
        product += rest
        product >>= _32
        high += product
    cross >>= _32
    high += cross
    np.multiply(position, frequencies.low, out=low)


def _reduce(room: Float64s) -> tuple[Float64s, Float64s]:
    """Return the distance of phases, in room[:2], from the nearest quarter of a turn, in radians.

    It is within an eighth of a turn of 0, the unevaluated sum of two float64: room[3:5].
    """
    first, second, _, total, tail, upper, angle, product = room
    high, low = first.view(np.uint64), second.view(np.uint64)
    # Without its two highest bits a phase is that distance, as a signed integer of 62 bits.
    signed = product.view(np.int64)
    np.left_shift(high, _QUARTER_BITS, out=product.view(np.uint64))
    signed >>= _UPPER_SHIFT
    np.copyto(upper, signed)
    high &= _LOW_32
    middle, lowest = total, first
    np.copyto(middle, high.view(np.int64))
    np.copyto(lowest, low)

    # The leading part of 2π is short, so that its products with both integers are exact.
    np.multiply(upper, _TWO_PI_HIGH * 2.0**-32, out=product)
    np.multiply(middle, _TWO_PI_HIGH * 2.0**-64, out=tail)
    np.add(product, tail, out=angle)
    np.subtract(angle, product, out=product)
    tail -= product
    upper *= _TWO_PI_LOW * 2.0**-32
    tail += upper
    middle *= _TWO_PI_LOW * 2.0**-64
    tail += middle
    lowest *= float(TWO_PI) * 2.0**-128
    tail += lowest
    np.add(angle, tail, out=total)
    np.subtract(total, angle, out=angle)
    tail -= angle
    return total, tail


def _turn(turn: UInt64s, signed: tuple[UInt64s, UInt64s], room: UInt64s) -> None:
    """Turn the angles of a sine and a cosine by the quarters that are the highest bits of turn.

    Swaps and signs are done on the bits: a selection by a mask costs a tenth of ``np.where``.
    """
    (sine, cosine), (swap, signs) = signed, room[3:5]
    np.left_shift(turn, _1, out=signs)
    np.right_shift(signs.view(np.int64), _EVERY_BIT, out=swap.view(np.int64))
    # A sine changes its sign in the quarters 2 and 3, a cosine in 1 and 2.
    signs ^= turn
    signs &= _SIGN_BIT
    turn &= _SIGN_BIT
    difference = np.bitwise_xor(sine, cosine, out=room[0])
    difference &= swap
    sine ^= difference
    cosine ^= difference
    sine ^= turn
    cosine ^= signs


_TWO_PI_HIGH = round(float(TWO_PI) * 2**18) / 2**18
_TWO_PI_LOW = float(exact_context().subtract(TWO_PI, Decimal(_TWO_PI_HIGH)))

# Taylor coefficients: up to an eighth of a turn the first one left out adds less than 2^-58.
_SINE = [(-1.0) ** n / factorial(2 * n + 1) for n in range(8, 0, -1)]
_COSINE = [(-1.0) ** n / factorial(2 * n) for n in range(8, 1, -1)]


def _sin_cos_kernel(angle: Float64s, tail: Float64s, room: Float64s) -> SineCosine:
    """Evaluate sine and cosine of angle + tail, an angle within an eighth of a turn of 0.

    They are in room[6:]; the angle and the tail are in room[3:5] and are overwritten.

    Error, in units of 2^-53: the last addition rounds by 1/2 at most, as both results are below
    1. What it adds to the angle is at most 0.08 in size and carries four roundings: 0.3. What it
    adds to 1 − square/2 is at most 0.016, with as many roundings, 0.06, after the rounding of
    square itself has put in 0.16. Both stay below 0.9.
    """
    square, half_square, near_one, sine, cosine = room[0], room[1], *room[5:]
    np.multiply(angle, angle, out=square)
    np.multiply(square, 0.5, out=half_square)
    np.subtract(1.0, half_square, out=near_one)

    horner(_SINE, square, out=sine)
    sine *= square
    sine *= angle
    horner(_COSINE, square, out=cosine)
    cosine *= square
    cosine *= square
    sine += np.multiply(tail, near_one, out=square)
    sine += angle
    tail *= angle
    cosine -= tail
    tail_of_one = np.subtract(1.0, near_one, out=square)
    tail_of_one -= half_square
    cosine += tail_of_one
    cosine += near_one
    return sine, cosine


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
