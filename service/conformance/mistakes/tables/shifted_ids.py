"""Mistakes of positions, ids and indices of tables that are not rotary."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from service.conformance.expected import expectation
from service.conformance.mistakes.wrong import (
    Wrong,
    answers_to,
    at,
    changed,
    made_of,
    makes,
    others,
    reshaped,
)
from service.conformance.questions import Numbers, Question
from service.conformance.tolerance import Expectation

_MOVED: Mapping[str, str] = {
    "/attention/temperature": "positions",
    "/encoding/timesteps": "timesteps",
    **dict.fromkeys(
        ("/relative/deberta", "/relative/fire", "/relative/kerple", "/relative/sandwich"),
        "query_positions",
    ),
}


def _has_ids(question: Question) -> Question | None:
    """Return the question for position ids."""
    is_ids = question.kind == "positions" or question.parameters.get("part") == "position_ids"
    return question if is_ids else None


def _with_ids(right: Expectation, change: Callable[[Numbers], Numbers]) -> Wrong:
    return made_of(right, {name: change(each) for name, each in right.arrays.items()})


def _moved(question: Question, by: int) -> Iterator[Question]:
    """Yield the question for later positions."""
    name = _MOVED.get(question.resource, "")
    if name in question.parameters:
        yield question.changed(**{name: [each + by for each in question.parameters[name]]})


@makes("position-offset", others)
def _position_offset(question: Question, right: Expectation) -> Iterator[Wrong]:
    is_index = question.resource in {"/relative/shaw", "/relative/swin", "/relative/t5"}
    for by in (1, -1, 2, -2):
        yield from answers_to(*_moved(question, by))
        if is_index or _has_ids(question):
            yield _with_ids(right, partial(np.add, by))


@makes("position-offset", at("/relative/alibi", "/relative/alibi/bias", "/relative/alibi/slopes"))
def _heads_from_zero(question: Question, right: Expectation) -> Iterator[Wrong]:
    """Heads count from 0: in each series of slopes, in one of all heads, or of the next power."""
    keys = question.parameters
    heads, most = keys["num_heads"], keys.get("alibi_bias_max", 8.0)
    series = 2 ** (heads.bit_length() - 1)
    own = {"num_heads": heads, "alibi_bias_max": most}
    slopes = expectation(Question("array", "/relative/alibi/slopes", own))
    of_all = 2.0 ** (-most * np.arange(heads) / heads) / slopes.arrays["slopes"]
    one, half = 2 ** (most / series), 2 ** (most / (2 * series))
    axis = question.request.document().axes.index("head")
    for times in (
        [one] * series + [half] * (heads - series),
        of_all,
        [one] * heads,
        [half] * heads,
    ):
        grown = np.expand_dims(times, [each for each in range(len(right.shape)) if each != axis])
        arrays = {name: grown * each for name, each in right.arrays.items()}
        angle = None if right.angle is None else grown * right.angle
        yield replace(
            made_of(replace(right, angle=angle, scale=grown * right.scale), arrays),
            detail="the heads of slopes count from 0",
        )


@makes("cache-offset", others)
def _cache_offset(question: Question, _: Expectation) -> Iterator[Wrong]:
    """The cached tokens count twice, or not at all."""
    for name in ("past", "query_start"):
        if cached := question.parameters.get(name):
            yield from changed(question, **{name: (2 * cached, 0)})


@makes("padding-counted", others)
def _padding_counted(question: Question, right: Expectation) -> Iterator[Wrong]:
    keys = question.parameters
    if "padding_mask" in keys:
        none = np.zeros_like(keys["padding_mask"]).tolist()
        yield from answers_to(question.changed(padding_mask=none))
    if question.resource == "/relative/alibi/bias":
        every = np.ones_like(keys["attention_mask"]).tolist()
        yield from answers_to(question.changed(attention_mask=every))
    tokens = np.array(keys.get("attention_mask", keys.get("input_ids", [[]])))
    padding = 0 if "attention_mask" in keys else keys.get("padding_idx", 1)
    if _has_ids(question) and (tokens[..., :1] == padding).any():
        yield _with_ids(
            right,
            lambda ids: np.broadcast_to(ids.max() - np.arange(ids.shape[-1])[::-1], ids.shape),
        )
    if _counts(question, 1) > 1 and _counts(question, 0) == 1:
        yield from answers_to(_counted_on(question))


@makes("positions-reset", others)
def _positions_reset(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Positions count on where a sequence begins."""
    if _counts(question, 0) > 1:
        yield from answers_to(_counted_on(question))
    if lengths := question.parameters.get("lengths"):
        yield from answers_to(question.changed(lengths=[sum(lengths)]))


def _counts(question: Question, position: int) -> int:
    """Return how many rows of a table of sinusoids have a position."""
    return (question.positions or ()).count(position) if question.resource == "/encoding" else 0


def _counted_on(question: Question) -> Question:
    """Return the question for the positions 0, 1, …."""
    return replace(question, positions=tuple(range(len(question.positions or ()))))


@makes("next-sequence", at("/encoding/tokens", "/encoding/mask", "/positions"))
def _next_sequence(question: Question, right: Expectation) -> Iterator[Wrong]:
    """Each sequence of the batch has the numbers of the next one."""
    axis = -2 if question.resource == "/positions" else 0
    # Two rows of ids look like two axes of ids.
    if right.shape[axis] > 1 and len(right.shape) > 2:
        yield reshaped(right, lambda each: np.roll(each, -1, axis=axis))


@makes("sections-exchanged", _has_ids)
def _sections_exchanged(_: Question, right: Expectation) -> Iterator[Wrong]:
    if len(right.shape) > 2:
        yield _with_ids(right, lambda ids: ids[[0, 2, 1]])
