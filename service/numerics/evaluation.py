"""Sines and cosines of exact phases that every machine agrees on.

Phases are integers (see ``phase``). Everything after that uses only elementwise additions,
subtractions and multiplications of float64, which IEEE 754 fixes to the last bit; NumPy's own
``sin``, ``exp`` and ``power`` differ between processors.
"""

from decimal import Decimal
from math import factorial
from threading import local

import numpy as np

from service.numerics.phase import (
    TWO_PI,
    FixedPointFrequencies,
    Float64s,
    Int64s,
    SineCosine,
    UInt64s,
    exact_context,
    horner,
)

EVALUATED_ELEMENTS = 16384
"""Sines in a step of an evaluation, whose arrays fit into the cache of a core."""

_LOW_32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_1 = np.uint64(1)
_QUARTER_BITS = np.uint64(2)
_UPPER_SHIFT = np.int64(34)
_EVERY_BIT = np.int64(63)
_SIGN_SHIFT = np.uint64(63)
_SIGN_BIT = np.uint64(2**63)
_HALF_QUARTER = np.uint64(2**61)


def sin_cos(
    frequencies: FixedPointFrequencies, positions: Int64s, chosen: Int64s | None = None
) -> SineCosine:
    """Return sine and cosine of positions (m,) within ±2^62 times frequencies (n,): each (m, n).

    If it is given, chosen is the index of each position's row of frequencies, which are (k, n).

    They are within 0.9·2^-53 of the exact value; the sine also within 3.5·2^-53 of its own size
    where the angle is below an eighth of a turn.
    """
    shape = (len(positions), frequencies.high.shape[-1])
    sine, cosine = np.empty((2, *shape))
    rows = max(1, EVALUATED_ELEMENTS // max(1, shape[1]))
    room = _rooms.of(min(rows, shape[0]) * shape[1])
    for first in range(0, shape[0], rows):
        part = slice(first, first + rows)
        own = frequencies if chosen is None else frequencies.part(chosen[part])
        _sin_cos(own, positions[part, np.newaxis], (sine[part], cosine[part]), room)
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
