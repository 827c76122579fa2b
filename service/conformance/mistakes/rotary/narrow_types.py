"""Mistakes of arithmetic: positions, frequencies or angles in a narrow type; and iterated ones.

Each is emulated step by step. A step that an implementation rounds may come out one step of the
narrow type away where the number before it, of float32, is nearly in the middle of two: there the
tolerance is the distance of the two.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.precision import rounded
from service.conformance.expectations.turned_tables import angles_of, table_of
from service.conformance.mistakes.rotary.arrays import Turning
from service.conformance.mistakes.rotary.rotary_questions import (
    frequencies,
    rows_of,
    turned_by,
    unscaled,
)
from service.conformance.mistakes.wrong import (
    NARROW_TYPES,
    Wrong,
    answers_to,
    everything,
    makes,
    sequences,
)
from service.conformance.questions import Question
from service.conformance.tolerance import MOST_ANGLE, UNIT, Expectation
from service.numerics.dtypes import DType
from service.numerics.phase import Float64s

# Of an angle in float32: the roundings of the frequency, and of the product.
_MOST_ROUNDINGS = 48


@makes("narrow-positions", everything)
def _positions(question: Question, right: Expectation) -> Iterator[Wrong]:
    rows = rows_of(question)
    for dtype in NARROW_TYPES:
        narrow = rounded(np.array(rows or np.inf, dtype=np.float64), dtype)
        if np.isfinite(narrow).all():
            moved = replace(question.changed("start"), positions=tuple(map(int, narrow)))
            yield from answers_to(moved)
        elif sequences(question):
            with np.errstate(invalid="ignore"):
                angles = rounded(_places(question), dtype) * frequencies(question)
            exact = Steps(angles, _MOST_ROUNDINGS * UNIT * np.abs(angles))
            yield from _made_of(question, right, *exact.waves())


@makes("narrow-frequencies", sequences)
def _frequencies(question: Question, right: Expectation) -> Iterator[Wrong]:
    omega = frequencies(question)
    for dtype in NARROW_TYPES:
        yield from turned_by(question, rounded(omega, dtype), right)


@dataclass(frozen=True, eq=False)
class Steps:
    """Numbers after some steps of an implementation, and how far off they may be."""

    values: Float64s
    error: Float64s

    def stored(self, dtype: DType) -> "Steps":
        """Return the numbers in a narrow type: nearly in the middle of two, they may be either."""
        # Numbers beyond the type are infinite, and their differences no numbers.
        with np.errstate(invalid="ignore"):
            low, high = (rounded(self.values + sign * self.error, dtype) for sign in (-1, 1))
            return Steps(rounded(self.values, dtype), high - low)

    def waves(self) -> "tuple[Steps, Steps]":
        """Return the cosines and sines of angles; those of infinite ones are no numbers."""
        error = np.where(np.isfinite(self.values), self.error, 0.0)
        with np.errstate(invalid="ignore"):
            return Steps(np.cos(self.values), error), Steps(np.sin(self.values), error)


@makes("narrow-angles", sequences)
def _angles(question: Question, right: Expectation) -> Iterator[Wrong]:
    angles = angles_of(_table(question))
    exact = Steps(angles, _MOST_ROUNDINGS * UNIT * np.abs(angles))
    for dtype in NARROW_TYPES:
        yield from _made_of(question, right, *exact.stored(dtype).waves())


@makes("narrow-throughout", sequences)
def _throughout(question: Question, right: Expectation) -> Iterator[Wrong]:
    omega, places = frequencies(question), _places(question)
    for dtype in NARROW_TYPES:
        # Products of narrow numbers are exact in float64.
        with np.errstate(invalid="ignore"):
            product = rounded(places, dtype) * rounded(omega, dtype)
        angles = Steps(product, UNIT * np.abs(product)).stored(dtype)
        yield from _made_of(question, right, *(each.stored(dtype) for each in angles.waves()))


def _table(question: Question) -> Question:
    return table_of(question) if question.kind == "rotate" else question


def _places(question: Question) -> Float64s:
    """Return the position of each angle, (…, S, r/2); any where the frequency is 0."""
    omega = frequencies(question)
    places: Float64s = np.rint(angles_of(_table(question)) / np.where(omega > 0, omega, 1))
    return places


def _made_of(question: Question, right: Expectation, cos: Steps, sin: Steps) -> Iterator[Wrong]:
    """Yield the table of cosines and sines, or x rotated by it."""
    assert right.angle is not None
    factor = right.factor
    apart = np.nan_to_num(np.maximum(cos.error, sin.error))
    error: Float64s = np.minimum(factor * apart, MOST_ANGLE)
    if question.kind != "rotate":
        arrays = {"cos": factor * cos.values, "sin": factor * sin.values}
        yield Wrong(replace(right, arrays=arrays, angle=error))
        return
    turning = Turning.of(question, right)
    if turning is not None:
        sign = -1 if question.parameters.get("inverse") else 1
        result = turning.by(factor * cos.values, sign * factor * sin.values)
        size = np.asarray(right.scale)
        angle = size * (error.max(axis=-1, keepdims=True) + 4 * UNIT)
        yield Wrong(replace(right, arrays={"rotated": result}, angle=angle))


def iterated(question: Question, right: Expectation) -> Iterator[Wrong]:
    """Yield the answers with frequencies, or angles, that float32 multiplies on and on.

    ggml does so; powers of the rounded ratio are no better. It is no mistake, but costs more than
    a power of the base. The ratio is that of the first two frequencies, in float32, or one step
    away. Only rules that divide all frequencies alike have one.
    """
    question = question.as_table
    keys, rows, plain = question.parameters, rows_of(question), unscaled(question)
    is_power = keys.get("rope_type", "default") in {"default", "linear"}
    if rows is None or not is_power or {"inv_freq", "mrope_section"} & keys.keys():
        return
    one, ratio, *_ = (*frequencies(plain), 1.0)
    own, places = np.float32(ratio / one), np.array(rows).astype(np.float32)[:, None]
    divisor = (frequencies(plain) / frequencies(question)).astype(np.float32)
    for each in (own, np.nextafter(own, np.float32(0)), np.nextafter(own, np.float32(1))):
        ratios = np.full(len(divisor), each)
        ratios[0] = 1
        omega = np.multiply.accumulate(ratios) / divisor
        of_rows = np.repeat(ratios[None], len(places), axis=0)
        of_rows[:, :1] = places
        angles = np.multiply.accumulate(of_rows, axis=1) / divisor
        powers = (np.float64(each) ** np.arange(len(ratios))).astype(np.float32) / divisor
        for turned in (places * omega, angles, places * powers):
            exact = turned.astype(np.float64)
            yield from _made_of(question, right, *Steps(exact, 4 * UNIT * np.abs(exact)).waves())
