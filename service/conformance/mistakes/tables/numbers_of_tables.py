"""Mistakes in numbers: rearranged, rounded, cut or multiplied ones, of any table or of some."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np

from service.analysis.precision import rounded
from service.conformance.expected import expectation
from service.conformance.mistakes.rotary.arrays import Turning
from service.conformance.mistakes.wrong import (
    NARROW_TYPES,
    Make,
    Wrong,
    answers_to,
    at,
    changed,
    everything,
    made_of,
    makes,
    others,
    reshaped,
    rotary,
    tables,
)
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation
from service.numerics.phase import Float64s


def _relative(*names: str) -> frozenset[str]:
    return frozenset(f"/relative/{name}" for name in names)


_SIGNED = _relative(
    *("alibi", "alibi/bias", "alibi/slopes", "kerple", "kerple/bias", "sandwich"),
    *("deberta", "dynamic", "swin-v2"),
)
# Biases of scores, which some libraries multiply or divide by the root of the channels.
_BIASES = _relative("alibi", "kerple", "kerple/bias", "sandwich", "swin/bias", "t5/bias")
_ROOT = 8.0
# The first half of a row has all sines.
_CONCATENATED = _relative("transformer-xl", "xlnet")
# A share of what a table has, from which on it goes wrong.
_CUT = 0.5


def _times(*factors: float) -> Make:
    """Return what makes answers that are multiplied: all numbers, or those that turn."""

    def made(question: Question, right: Expectation) -> Iterator[Wrong]:
        turning = Turning.of(question, right)
        for factor in factors:
            size = abs(factor)
            grown = replace(
                right,
                angle=None if right.angle is None else size * right.angle,
                scale=size * right.scale,
                factor=size * right.factor,
            )
            numbers: dict[str, Any] = dict(right.arrays)
            yield made_of(grown, {name: factor * numbers[name] for name in numbers})
            if turning is not None:
                result = turning.by(factor * turning.cos, factor * turning.sin)
                yield made_of(grown, {"rotated": result})

    return made


@makes("wrong-sign", everything)
def _wrong_sign(question: Question, right: Expectation) -> Iterator[Wrong]:
    if question.is_rotary or question.resource in _SIGNED:
        yield from _times(-1)(question, right)


@makes("wrong-sign", at("/relative/t5", "/relative/t5/bias"))
def _distances_negated(question: Question, _: Expectation) -> Iterator[Wrong]:
    keys, negated = question.parameters, {}
    for name in ("query", "key"):
        start, length = keys.get(f"{name}_start", 0), keys.get("query_len", 0)
        rows = range(start, start + keys.get(f"{name}_len", length))
        negated[f"{name}_positions"] = [-each for each in keys.get(f"{name}_positions", rows)]
    yield from answers_to(question.changed("query_start", "query_len", "key_len", **negated))


_wrong_factor = makes("wrong-factor", rotary)(_times(2.0, 0.5, 1.5, 0.75))


@makes("wrong-factor", everything)
def _share_of_factor(question: Question, right: Expectation) -> Iterator[Wrong]:
    """The root of the factor of a rotary table, or a multiple of that of sinusoids."""
    if right.factor != 1 and (question.is_rotary or question.resource == "/encoding"):
        share = 1 / sqrt(right.factor) if question.is_rotary else 1.3
        yield from _times(share)(question, right)


_extra_root = makes("extra-factor", at(*_BIASES))(_times(_ROOT))
_missing_root = makes("missing-factor", at(*_BIASES))(_times(1 / _ROOT))


@makes("extra-factor", others)
def _extra_factor(question: Question, right: Expectation) -> Iterator[Wrong]:
    if right.factor != 1:
        yield from _times(right.factor)(question, right)


def _rounded(right: Expectation, rounding: Callable[[Float64s], Any]) -> Wrong:
    """Return numbers that are rounded, once they are computed.

    A number nearly in the middle of two steps may come out as either: their distance is allowed.
    """
    arrays, apart = {}, []
    for name, each in right.arrays.items():
        numbers, error = each.astype(np.float64), right.allowed(name)
        arrays[name] = rounding(numbers)
        apart.append(rounding(numbers + error) - rounding(numbers - error))
    return Wrong(replace(right, arrays=arrays, angle=np.maximum.reduce(apart)))


@makes("narrow-tables", everything)
def _narrow_tables(question: Question, right: Expectation) -> Iterator[Wrong]:
    if right.angle is not None:
        for dtype in NARROW_TYPES:
            wrong = _rounded(right, partial(rounded, dtype=dtype))
            asked = () if question.is_rotary else [question.changed(dtype=dtype.name)]
            requests = (each.request for each in answers_to(*asked))
            yield replace(wrong, request=next(requests, None))


@makes("rounded-decimals", everything)
def _rounded_decimals(_: Question, right: Expectation) -> Iterator[Wrong]:
    for decimals in () if right.angle is None else (4, 5, 3, 6, 2):
        wrong = _rounded(right, partial(np.round, decimals=decimals))
        yield replace(wrong, decimals=decimals)


def _emptied(each: Any, axis: int) -> Any:
    """Return numbers of which the last half along an axis is zeros."""
    rows = np.moveaxis(each.copy(), axis, 0)
    rows[int(_CUT * len(rows)) :] = 0
    return np.moveaxis(rows, 0, axis)


@makes("truncated", tables)
def _without_last(_: Question, right: Expectation) -> Iterator[Wrong]:
    yield reshaped(right, lambda each: each[..., :-1, :])


@makes("truncated", rotary)
def _empty_rows(_: Question, right: Expectation) -> Iterator[Wrong]:
    yield made_of(right, {name: _emptied(each, -2) for name, each in right.arrays.items()})


@makes("truncated", others)
def _cut(question: Question, right: Expectation) -> Iterator[Wrong]:
    """The last half of the rows of positions is zeros; other arrays lack their last part."""
    has_rows = question.positions is not None or "timesteps" in question.parameters
    if has_rows or question.resource in {*_CONCATENATED, "/relative/conformer"}:
        yield made_of(right, {name: _emptied(each, 0) for name, each in right.arrays.items()})
    elif max(right.shape) > 1 and question.resource != "/attention/temperature":
        axis = int(np.argmax(np.array(right.shape) > 1))
        yield reshaped(right, partial(np.delete, obj=-1, axis=axis))


@makes("longer", tables)
def _last_twice(_: Question, right: Expectation) -> Iterator[Wrong]:
    yield reshaped(right, lambda each: np.concatenate([each, each[..., -1:, :]], axis=-2))


@makes("longer", at("/encoding", "/relative/alibi"))
def _one_more(question: Question, _: Expectation) -> Iterator[Wrong]:
    listed = question.positions
    if listed and listed[-2] == listed[-1] - 1:
        yield from answers_to(replace(question, positions=(*listed, listed[-1] + 1)))
    if question.parameters.get("convention") == "bloom":
        yield from changed(question, key_len=[question.parameters["key_len"] + 1])


@makes("transposed", everything)
def _transposed(question: Question, right: Expectation) -> Iterator[Wrong]:
    is_grid = question.resource == "/encoding/grid"
    if len(right.shape) > 1 and min(right.shape[-2:]) > 1 and not is_grid:
        yield reshaped(right, lambda each: np.swapaxes(each, -1, -2))


@makes("wrong-heads", at("/relative/alibi", "/relative/alibi/slopes"))
def _wrong_heads(question: Question, _: Expectation) -> Iterator[Wrong]:
    """The first slopes of the next power of two."""
    heads = question.parameters["num_heads"]
    more = expectation(question.changed(num_heads=2 ** (heads - 1).bit_length()))
    yield reshaped(more, lambda each: each[:heads])


@makes("halves-swapped", at(*_CONCATENATED))
def _halves_swapped(_: Question, right: Expectation) -> Iterator[Wrong]:
    yield reshaped(right, lambda each: np.roll(each, right.shape[-1] // 2, axis=-1))


@makes("missing-part", at(*_CONCATENATED))
def _sines_twice(_: Question, right: Expectation) -> Iterator[Wrong]:
    sines = [*range(right.shape[-1] // 2)] * 2
    yield reshaped(right, lambda each: each[..., sines])


@makes("positions-reversed", at(*_CONCATENATED))
def _positions_reversed(_: Question, right: Expectation) -> Iterator[Wrong]:
    yield reshaped(right, lambda each: each[::-1])
