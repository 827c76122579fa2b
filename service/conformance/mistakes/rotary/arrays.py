"""Mistakes that rearrange or change the numbers of a rotation, or its cosines and sines."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np

from service.analysis.precision import rounded
from service.conformance.expectations.turned_tables import Pairs, pairs
from service.conformance.mistakes.wrong import (
    NARROW_TYPES,
    Maker,
    Wrong,
    made_of,
    makes,
    rotary,
    rotations,
    tables,
)
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation
from service.numerics.phase import Float64s

# A share of the rows, from which on they are not rotated.
_CUT = 0.5


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


Turn: TypeAlias = Callable[[Turning], Iterator[Float64s]]


def _turns(name: str) -> Callable[[Turn], Maker]:
    """Return a decorator of a function that makes other results of a rotation."""

    def maker(change: Turn) -> Maker:
        def made(question: Question, right: Expectation) -> Iterator[Wrong]:
            if (turning := Turning.of(question, right)) is not None:
                for result in change(turning):
                    yield made_of(right, {"rotated": result})

        return Maker(name, rotations, made)

    return maker


@makes("sine-sign", tables)
def _sine_sign(_: Question, right: Expectation) -> Iterator[Wrong]:
    yield made_of(right, {"cos": right.arrays["cos"], "sin": -right.arrays["sin"]})


@_turns("sine-sign")
def _rotate_half_signs(turning: Turning) -> Iterator[Float64s]:
    yield turning.by(turning.cos, turning.sin, first=1.0)
    yield turning.by(turning.cos, turning.sin, second=-1.0)


@makes("halves-swapped", tables)
def _waves_swapped(_: Question, right: Expectation) -> Iterator[Wrong]:
    yield made_of(right, {"cos": right.arrays["sin"], "sin": right.arrays["cos"]})


@_turns("halves-swapped")
def _channels_swapped(turning: Turning) -> Iterator[Float64s]:
    yield replace(turning, written=turning.written[::-1]).by(turning.cos, turning.sin)
    yield turning.by(turning.sin, turning.cos)


@makes("missing-part", tables)
def _missing_part(_: Question, right: Expectation) -> Iterator[Wrong]:
    for each in right.arrays.values():
        yield made_of(right, {"cos": each, "sin": each})


@_turns("rest-zeroed")
def _rest_zeroed(turning: Turning) -> Iterator[Float64s]:
    zeroed = replace(turning, rotated=np.zeros(turning.x.shape))
    yield zeroed.by(turning.cos, turning.sin)


@makes("extra-factor", rotations)
def _rest_scaled(question: Question, right: Expectation) -> Iterator[Wrong]:
    """Channels that pass through have the factor of those that turn."""
    turning = Turning.of(question, right)
    if turning is not None and right.factor != 1:
        scaled = replace(turning, rotated=right.factor * turning.x)
        yield replace(
            made_of(_of_widest(right), {"rotated": scaled.by(turning.cos, turning.sin)}),
            detail="channels that pass through have the factor",
        )


@makes("table-layout-swapped", rotations)
def _table_layout_swapped(question: Question, right: Expectation) -> Iterator[Wrong]:
    """The two channels of a pair turn by the angles that the other layout has there."""
    if (turning := Turning.of(question, right)) is not None:
        count = turning.cos.shape[-1]
        is_half = question.parameters.get("layout") == "half"
        channels = np.arange(2 * count)
        places = channels // 2 if is_half else channels % count
        own = pairs("half" if is_half else "interleaved", 2 * count)
        cos, sin = (
            tuple(each[..., places[side]] for side in own) for each in (turning.cos, turning.sin)
        )
        yield made_of(_of_widest(right), {"rotated": turning.by(cos, sin)})


def _of_widest(right: Expectation) -> Expectation:
    """Return the expectation of a rotation with the tolerance of the widest channel for all."""
    assert right.angle is not None
    angle, scale = (
        np.broadcast_to(np.max(each, axis=-1, keepdims=True), right.shape)
        for each in (right.angle, right.scale)
    )
    return replace(right, angle=angle, scale=scale)


@makes("layout-swapped", rotations)
def _halves_of_the_head(question: Question, right: Expectation) -> Iterator[Wrong]:
    """A partial rotation pairs channel k with k + d/2 of the whole head, not with k + r/2."""
    turning = Turning.of(question, right)
    if turning is not None and question.parameters.get("layout") == "half":
        first, width = turning.read[0], turning.x.shape[-1]
        far = first, (first + width // 2) % width
        wide = replace(turning, rotated=turning.x, read=far, written=far)
        yield made_of(_of_widest(right), {"rotated": wide.by(turning.cos, turning.sin)})


@_turns("truncated")
def _left_as_it_is(turning: Turning) -> Iterator[Float64s]:
    """Rows from the middle on are not rotated: the table was too short."""
    result = turning.rotated.copy()
    rows = int(_CUT * result.shape[-2])
    result[..., rows:, :] = turning.x[..., rows:, :]
    yield result


@makes("one-sided-factor", rotary)
def _one_sided(question: Question, right: Expectation) -> Iterator[Wrong]:
    turning, factor = Turning.of(question, right), right.factor
    for of_cos, of_sin in ((1, factor), (factor, 1)) if factor != 1 else ():
        if turning is not None:
            result = turning.by(turning.cos / of_cos, turning.sin / of_sin)
            yield made_of(right, {"rotated": result})
        elif "sin" in right.arrays:
            cos, sin = right.arrays["cos"], right.arrays["sin"]
            yield made_of(right, {"cos": cos / of_cos, "sin": sin / of_sin})


@_turns("narrow-tables")
def _narrow_table(turning: Turning) -> Iterator[Float64s]:
    """Cosines and sines are rounded before they multiply."""
    for dtype in NARROW_TYPES:
        yield turning.by(rounded(turning.cos, dtype), rounded(turning.sin, dtype))
