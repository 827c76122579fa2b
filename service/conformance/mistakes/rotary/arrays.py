"""Mistakes that rearrange or change right numbers: signs, halves, rows, shapes, digits."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any, Self

import numpy as np

from service.analysis.precision import rounded
from service.conformance.expectations.turned_tables import Pairs, pairs
from service.conformance.mistakes.wrong import Maker, Wrong
from service.conformance.questions import Numbers, Question
from service.conformance.tolerance import Expectation
from service.numerics.dtypes import BFLOAT16, FLOAT16
from service.numerics.phase import Float64s

Arrays = Mapping[str, Numbers]

NARROW_TYPES = (BFLOAT16, FLOAT16)
_DECIMALS = (4, 5, 3, 6)
# A share of what a table or a rotation has, from which on it goes wrong.
_CUT = 0.5


def made_of(right: Expectation, arrays: Arrays) -> Wrong:
    """Return the answer with other numbers, and the tolerance of the right ones."""
    return Wrong(replace(right, arrays=arrays))


def _of_tables(change: Callable[[Numbers, Numbers], Iterator[tuple[Any, Any]]]) -> Maker:
    """Return the maker of other cosines and sines."""

    def made(_: Question, right: Expectation) -> Iterator[Wrong]:
        if "sin" in right.arrays:
            for cos, sin in change(right.arrays["cos"], right.arrays["sin"]):
                yield made_of(right, {"cos": cos, "sin": sin})

    return made


def _sine_sign(cos: Numbers, sin: Numbers) -> Iterator[tuple[Any, Any]]:
    yield cos, -sin


def _halves_swapped(cos: Numbers, sin: Numbers) -> Iterator[tuple[Any, Any]]:
    yield sin, cos


def _missing_part(cos: Numbers, sin: Numbers) -> Iterator[tuple[Any, Any]]:
    yield cos, cos
    yield sin, sin


@dataclass(frozen=True, eq=False)
class Turning:
    """The pairs of a rotation, with their cosines and sines, times the factor.

    Attributes:
        x: what is rotated, (…, D).
        rotated: the right result.
        read: the channels of the pairs of x.
        written: those of the result.
        cos: (…, r/2).
        sin: (…, r/2).
    """

    x: Float64s
    rotated: Float64s
    read: Pairs
    written: Pairs
    cos: Float64s
    sin: Float64s

    @classmethod
    def of(cls, question: Question, right: Expectation) -> Self | None:
        """Return the pairs of a rotation; None for other questions, and for halves by axis."""
        layout = question.parameters.get("layout", "interleaved")
        if question.kind != "rotate" or layout == "half_by_axis":
            return None
        x, result = np.asarray(question.x, dtype=np.float64), right.arrays["rotated"]
        width = int((np.asarray(right.scale) > 0).any(axis=tuple(range(x.ndim - 1))).sum())
        offset = question.parameters.get("rotary_offset", 0)
        read, written = (
            tuple(offset + channels for channels in pairs(name, width))
            for name in (layout, question.parameters.get("output_layout", layout))
        )
        one, other = x[..., read[0]], x[..., read[1]]
        first, second = result[..., written[0]], result[..., written[1]]
        # x and its rotation tell the angle and the factor; nothing turns a pair of zeros.
        size = one * one + other * other
        size = np.where(size > 0, size, 1.0)
        cos, sin = (one * first + other * second) / size, (one * second - other * first) / size
        return cls(x, result.astype(np.float64), read, written, cos, sin)

    def by(self, cos: Any, sin: Any, *, first: float = -1.0, second: float = 1.0) -> Float64s:
        """Return x·cos + (first·x1, second·x0)·sin, by each channel's or each pair's numbers."""
        (cos0, cos1), (sin0, sin1) = (
            each if isinstance(each, tuple) else (each, each) for each in (cos, sin)
        )
        one, other = self.x[..., self.read[0]], self.x[..., self.read[1]]
        result = self.rotated.copy()
        result[..., self.written[0]] = one * cos0 + first * other * sin0
        result[..., self.written[1]] = other * cos1 + second * one * sin1
        return result


def of_rotations(change: Callable[[Turning, Expectation], Iterator[Float64s]]) -> Maker:
    """Return the maker of other results of a rotation."""

    def made(question: Question, right: Expectation) -> Iterator[Wrong]:
        turning = Turning.of(question, right)
        if turning is not None:
            for result in change(turning, right):
                yield made_of(right, {"rotated": result})

    return made


def _rotate_half_signs(turning: Turning, _: Expectation) -> Iterator[Float64s]:
    yield turning.by(turning.cos, turning.sin, first=1.0)
    yield turning.by(turning.cos, turning.sin, second=-1.0)


def _channels_swapped(turning: Turning, _: Expectation) -> Iterator[Float64s]:
    first, second = turning.written
    result = turning.rotated.copy()
    result[..., first], result[..., second] = turning.rotated[..., second], result[..., first]
    yield result


def _rest_zeroed(turning: Turning, _: Expectation) -> Iterator[Float64s]:
    turned = np.zeros(turning.x.shape)
    for channels in turning.written:
        turned[..., channels] = turning.rotated[..., channels]
    yield turned


def _table_layout_swapped(question: Question, right: Expectation) -> Iterator[Wrong]:
    """The two channels of a pair turn by the angles that the other layout has there."""
    turning = Turning.of(question, right)
    if turning is None:
        return
    count = turning.cos.shape[-1]
    is_half = question.parameters.get("layout") == "half"
    channels = np.arange(2 * count)
    places = channels // 2 if is_half else channels % count
    own = pairs("half" if is_half else "interleaved", 2 * count)
    cos, sin = (
        tuple(each[..., places[side]] for side in own) for each in (turning.cos, turning.sin)
    )
    result = turning.by(cos, sin)
    yield made_of(_of_widest(right), {"rotated": result})


def _of_widest(right: Expectation) -> Expectation:
    """Return the expectation of a rotation with the tolerance of the widest channel for all."""
    angle, scale = (
        np.broadcast_to(np.max(each, axis=-1, keepdims=True), right.shape)
        for each in (right.angle, right.scale)
        if each is not None
    )
    return replace(right, angle=angle, scale=scale)


def _halves_of_the_head(question: Question, right: Expectation) -> Iterator[Wrong]:
    """A partial rotation pairs channel k with k + d/2 of the whole head, not with k + r/2."""
    turning = Turning.of(question, right)
    if turning is not None and question.parameters.get("layout") == "half":
        first, width = turning.read[0], turning.x.shape[-1]
        far = first, (first + width // 2) % width
        wide = replace(turning, rotated=turning.x, read=far, written=far)
        yield made_of(_of_widest(right), {"rotated": wide.by(turning.cos, turning.sin)})


def _left_as_it_is(turning: Turning, _: Expectation) -> Iterator[Float64s]:
    """Rows from the middle on are not rotated: the table was too short."""
    result = turning.rotated.copy()
    rows = int(_CUT * result.shape[-2])
    result[..., rows:, :] = turning.x[..., rows:, :]
    yield result


def _one_sided(question: Question, right: Expectation) -> Iterator[Wrong]:
    turning, factor = Turning.of(question, right), right.factor
    if factor == 1:
        return
    if turning is not None:
        yield made_of(right, {"rotated": turning.by(turning.cos, turning.sin / factor)})
        yield made_of(right, {"rotated": turning.by(turning.cos / factor, turning.sin)})
    elif "sin" in right.arrays:
        cos, sin = right.arrays["cos"], right.arrays["sin"]
        yield made_of(right, {"cos": cos, "sin": sin / factor})
        yield made_of(right, {"cos": cos / factor, "sin": sin})


def _of_all(change: Callable[[Float64s], Iterator[Float64s]]) -> Maker:
    """Return the maker of a change of every array of a rotary answer."""

    def made(question: Question, right: Expectation) -> Iterator[Wrong]:
        if question.is_rotary:
            arrays = (each.astype(np.float64) for each in right.arrays.values())
            for changed in zip(*map(change, arrays), strict=True):
                yield made_of(right, dict(zip(right.arrays, changed, strict=True)))

    return made


def _times(*factors: float) -> Maker:
    """Return the maker of rotary answers that are multiplied: all numbers, or those that turn."""

    def made(question: Question, right: Expectation) -> Iterator[Wrong]:
        if not question.is_rotary or right.angle is None:
            return
        turning = Turning.of(question, right)
        for factor in factors:
            size = abs(factor)
            grown = replace(
                right,
                angle=size * right.angle,
                scale=size * right.scale,
                factor=size * right.factor,
            )
            arrays = {name: factor * each.astype(np.float64) for name, each in right.arrays.items()}
            yield made_of(grown, arrays)
            if turning is not None:
                result = turning.by(factor * turning.cos, factor * turning.sin)
                yield made_of(grown, {"rotated": result})

    return made


def _root_of_factor(question: Question, right: Expectation) -> Iterator[Wrong]:
    if right.factor != 1:
        yield from _times(1 / sqrt(right.factor))(question, right)


def _rounded(*roundings: Callable[[Float64s], Float64s]) -> Maker:
    """Return the maker of rotary answers whose numbers are rounded, once they are computed.

    A number nearly in the middle of two steps may come out as either: their distance is allowed.
    """

    def made(question: Question, right: Expectation) -> Iterator[Wrong]:
        if not question.is_rotary:
            return
        for rounding in roundings:
            arrays, apart = {}, []
            for name, each in right.arrays.items():
                numbers, error = each.astype(np.float64), right.allowed(name)
                arrays[name] = rounding(numbers)
                apart.append(rounding(numbers + error) - rounding(numbers - error))
            yield Wrong(replace(right, arrays=arrays, angle=np.maximum.reduce(apart)))

    return made


def _printed(decimals: int) -> Maker:
    """Return the maker of numbers that are rounded to decimals."""

    def rounding(numbers: Float64s) -> Float64s:
        return np.round(numbers, decimals)

    make = _rounded(rounding)

    def made(question: Question, right: Expectation) -> Iterator[Wrong]:
        for each in make(question, right):
            yield replace(each, decimals=decimals)

    return made


def _narrow_table(question: Question, right: Expectation) -> Iterator[Wrong]:
    """Cosines and sines are rounded before they multiply."""
    turning = Turning.of(question, right)
    if turning is not None and right.angle is not None:
        for dtype in NARROW_TYPES:
            result = turning.by(rounded(turning.cos, dtype), rounded(turning.sin, dtype))
            yield made_of(right, {"rotated": result})


def _empty_rows(numbers: Float64s) -> Iterator[Float64s]:
    cut = numbers.copy()
    cut[..., int(_CUT * numbers.shape[-2]) :, :] = 0
    yield cut


def _transposed(question: Question, right: Expectation) -> Iterator[Wrong]:
    if question.is_rotary and right.angle is not None:
        arrays = {name: np.swapaxes(each, -1, -2) for name, each in right.arrays.items()}
        scale = np.broadcast_to(right.scale, right.shape)
        angle, scale = (np.swapaxes(each, -1, -2) for each in (right.angle, scale))
        yield Wrong(replace(right, arrays=arrays, angle=angle, scale=scale))


def _with_rows(select: Callable[[int], list[int]]) -> Maker:
    """Return the maker of tables that have fewer or more rows."""

    def made(_: Question, right: Expectation) -> Iterator[Wrong]:
        if "sin" in right.arrays and right.angle is not None:
            rows = select(right.shape[-2])
            scale = np.broadcast_to(right.scale, right.shape)[..., rows, :]
            arrays = {name: each[..., rows, :] for name, each in right.arrays.items()}
            angle = right.angle[..., rows, :]
            yield Wrong(replace(right, arrays=arrays, angle=angle, scale=scale))

    return made


def _without_last(rows: int) -> list[int]:
    return [*range(rows - 1)]


def _last_twice(rows: int) -> list[int]:
    return [*range(rows), rows - 1]


MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "sine-sign": (_of_tables(_sine_sign), of_rotations(_rotate_half_signs)),
    "halves-swapped": (_of_tables(_halves_swapped), of_rotations(_channels_swapped)),
    "missing-part": (_of_tables(_missing_part),),
    "rest-zeroed": (of_rotations(_rest_zeroed),),
    "layout-swapped": (_halves_of_the_head,),
    "table-layout-swapped": (_table_layout_swapped,),
    "one-sided-factor": (_one_sided,),
    "wrong-sign": (_times(-1.0),),
    "wrong-factor": (_times(2.0, 0.5, 1.5, 0.75), _root_of_factor),
    "narrow-tables": (
        _rounded(*(partial(rounded, dtype=dtype) for dtype in NARROW_TYPES)),
        _narrow_table,
    ),
    "rounded-decimals": tuple(_printed(decimals) for decimals in _DECIMALS),
    "truncated": (_with_rows(_without_last), _of_all(_empty_rows), of_rotations(_left_as_it_is)),
    "longer": (_with_rows(_last_twice),),
    "transposed": (_transposed,),
}
