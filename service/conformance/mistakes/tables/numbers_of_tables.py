"""Mistakes of tables that are not rotary: their numbers, rearranged, rounded, cut or multiplied."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from service.conformance.expected import expectation
from service.conformance.mistakes.wrong import Maker, Wrong, answers_to
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation

# Arrays of numbers, or of their tolerances.
_Change: TypeAlias = Callable[[Any], Any]

_SIGNED = frozenset(
    {
        "/relative/alibi",
        "/relative/alibi/bias",
        "/relative/alibi/slopes",
        "/relative/deberta",
        "/relative/dynamic",
        "/relative/kerple",
        "/relative/kerple/bias",
        "/relative/sandwich",
        "/relative/swin-v2",
    }
)
# Biases of scores, which some libraries multiply or divide by the root of the channels.
_BIASES = frozenset(
    {
        "/relative/alibi",
        "/relative/kerple",
        "/relative/kerple/bias",
        "/relative/sandwich",
        "/relative/swin/bias",
        "/relative/t5/bias",
    }
)
_OF_DISTANCES = frozenset({"/relative/t5", "/relative/t5/bias"})
_ROOT = 8.0
# The first half of a row has all sines.
_CONCATENATED = frozenset({"/relative/transformer-xl", "/relative/xlnet"})
_DESCENDING = frozenset({*_CONCATENATED, "/relative/conformer"})


def _changed(question: Question, right: Expectation, change: _Change) -> Iterator[Wrong]:
    """Yield the right numbers after a change that keeps their shape, but for rotary tables."""
    if not question.is_rotary:
        yield Wrong(replace(right, arrays={n: change(each) for n, each in right.arrays.items()}))


def _reshaped(question: Question, right: Expectation, change: _Change) -> Iterator[Wrong]:
    """Yield the right numbers in another shape or order, each with its own tolerance."""
    if question.is_rotary:
        return
    angle = None if right.angle is None else change(right.angle)
    scale = change(right.scale) if isinstance(right.scale, np.ndarray) else right.scale
    arrays = {name: change(each) for name, each in right.arrays.items()}
    yield Wrong(replace(right, arrays=arrays, angle=angle, scale=scale))


def _is_float(right: Expectation) -> bool:
    return right.angle is not None


def _wrong_sign(question: Question, right: Expectation) -> Iterator[Wrong]:
    if question.resource in _SIGNED:
        yield from _changed(question, right, np.negative)
    if question.resource in _OF_DISTANCES:
        keys, negated = question.parameters, {}
        for name in ("query", "key"):
            start, length = keys.get(f"{name}_start", 0), keys.get("query_len", 0)
            rows = range(start, start + keys.get(f"{name}_len", length))
            negated[f"{name}_positions"] = [-each for each in keys.get(f"{name}_positions", rows)]
        yield from answers_to(question.changed("query_start", "query_len", "key_len", **negated))


def _extra_factor(question: Question, right: Expectation) -> Iterator[Wrong]:
    if question.resource in _BIASES:
        yield from _changed(question, right, lambda each: each * _ROOT)
    if right.factor != 1:
        yield from _changed(question, right, lambda each: each * right.factor)


def _missing_factor(question: Question, right: Expectation) -> Iterator[Wrong]:
    if question.resource in _BIASES:
        yield from _changed(question, right, lambda each: each / _ROOT)


def _narrow_tables(question: Question, right: Expectation) -> Iterator[Wrong]:
    if not question.is_rotary and _is_float(right):
        names = ("bfloat16", "float16")
        yield from answers_to(*(question.changed(dtype=each) for each in names))


def _rounded_decimals(question: Question, right: Expectation) -> Iterator[Wrong]:
    for decimals in (4, 3, 2) if _is_float(right) else ():
        for each in _changed(question, right, partial(np.round, decimals=decimals)):
            yield replace(each, decimals=decimals)


def _truncated(question: Question, right: Expectation) -> Iterator[Wrong]:
    """The last half of the rows of positions is zeros; other arrays lack their last part."""
    half = right.shape[0] // 2
    has_rows = question.positions is not None or "timesteps" in question.parameters
    if has_rows or question.resource in _DESCENDING:
        yield from _changed(
            question, right, lambda each: np.concatenate([each[:half], 0 * each[half:]])
        )
    elif max(right.shape) > 1 and question.resource != "/attention/temperature":
        axis = int(np.argmax(np.array(right.shape) > 1))
        yield from _reshaped(question, right, lambda each: np.delete(each, -1, axis=axis))


def _longer(question: Question, _: Expectation) -> Iterator[Wrong]:
    listed = question.positions
    if listed is not None and question.resource == "/encoding" and listed[-2] == listed[-1] - 1:
        yield from answers_to(replace(question, positions=(*listed, listed[-1] + 1)))
    if question.parameters.get("convention") == "bloom" and question.x is None:
        yield from answers_to(question.changed(key_len=question.parameters["key_len"] + 1))


def _transposed(question: Question, right: Expectation) -> Iterator[Wrong]:
    is_grid = question.resource == "/encoding/grid"
    if len(right.shape) > 1 and min(right.shape[-2:]) > 1 and not is_grid:
        yield from _reshaped(question, right, lambda each: np.swapaxes(each, -1, -2))


def _wrong_heads(question: Question, _: Expectation) -> Iterator[Wrong]:
    """The first slopes of the next power of two."""
    heads = question.parameters.get("num_heads", 0)
    if question.resource in {"/relative/alibi", "/relative/alibi/slopes"}:
        more = expectation(question.changed(num_heads=2 ** (heads - 1).bit_length()))
        yield from _reshaped(question, more, lambda each: each[:heads])


def _halves_swapped(question: Question, right: Expectation) -> Iterator[Wrong]:
    if question.resource in _CONCATENATED:
        width = right.shape[-1] // 2
        yield from _reshaped(question, right, lambda each: np.roll(each, width, axis=-1))


def _missing_part(question: Question, right: Expectation) -> Iterator[Wrong]:
    """The sines, twice."""
    if question.resource in _CONCATENATED:
        width = right.shape[-1] // 2
        sines = [*range(width)] * 2
        yield from _reshaped(question, right, lambda each: each[..., sines])


def _positions_reversed(question: Question, right: Expectation) -> Iterator[Wrong]:
    if question.resource in _CONCATENATED:
        yield from _reshaped(question, right, lambda each: each[::-1])


def _wrong_factor(question: Question, right: Expectation) -> Iterator[Wrong]:
    if question.resource == "/encoding" and right.factor != 1:
        yield from _changed(question, right, lambda each: each * 1.3)


MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "wrong-sign": (_wrong_sign,),
    "extra-factor": (_extra_factor,),
    "missing-factor": (_missing_factor,),
    "narrow-tables": (_narrow_tables,),
    "rounded-decimals": (_rounded_decimals,),
    "truncated": (_truncated,),
    "longer": (_longer,),
    "transposed": (_transposed,),
    "wrong-heads": (_wrong_heads,),
    "halves-swapped": (_halves_swapped,),
    "missing-part": (_missing_part,),
    "positions-reversed": (_positions_reversed,),
    "wrong-factor": (_wrong_factor,),
}
