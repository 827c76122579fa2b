"""Mistakes of positions, ids and indices of tables that are not rotary."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from service.analysis.precision import rounded
from service.conformance.mistakes.wrong import Maker, Wrong, answers_to
from service.conformance.questions import Numbers, Question
from service.conformance.tolerance import Expectation
from service.numerics.dtypes import BFLOAT16, FLOAT16

NARROW_TYPES = (BFLOAT16, FLOAT16)
_INDICES = frozenset({"/relative/shaw", "/relative/swin", "/relative/t5"})
_MOVED: Mapping[str, str] = {
    "/attention/temperature": "positions",
    "/encoding/timesteps": "timesteps",
    "/relative/deberta": "query_positions",
    "/relative/fire": "query_positions",
    "/relative/kerple": "query_positions",
    "/relative/sandwich": "query_positions",
}


def _with_ids(right: Expectation, ids: Numbers) -> Wrong:
    (name,) = right.arrays
    return Wrong(replace(right, arrays={name: ids}))


def _ids(question: Question, right: Expectation) -> Numbers | None:
    """Return the position ids that are expected; None of other numbers."""
    is_ids = question.kind == "positions" or question.parameters.get("part") == "position_ids"
    return next(iter(right.arrays.values())) if is_ids else None


def _moved(question: Question, by: int) -> Iterator[Question]:
    """Yield the question for later positions."""
    if question.positions is not None and not question.is_rotary:
        yield replace(question, positions=tuple(each + by for each in question.positions))
    name = _MOVED.get(question.resource, "")
    if name in question.parameters:
        yield question.changed(**{name: [each + by for each in question.parameters[name]]})


def _position_offset(question: Question, right: Expectation) -> Iterator[Wrong]:
    ids = _ids(question, right)
    for by in (1, -1, 2, -2):
        yield from answers_to(*_moved(question, by))
        if ids is not None or question.resource in _INDICES:
            yield _with_ids(right, next(iter(right.arrays.values())) + by)


def _narrow_positions(question: Question, _: Expectation) -> Iterator[Wrong]:
    if question.resource == "/encoding" and question.positions is not None:
        for dtype in NARROW_TYPES:
            narrow = rounded(np.array(question.positions, dtype=np.float64), dtype)
            if np.isfinite(narrow).all():
                yield from answers_to(replace(question, positions=tuple(map(int, narrow))))


def _cache_offset(question: Question, _: Expectation) -> Iterator[Wrong]:
    """The cached tokens count twice, or not at all."""
    past = question.parameters.get("past", 0)
    if past:
        yield from answers_to(*(question.changed(past=each) for each in (2 * past, 0)))
    listed = question.positions or (0,)
    first = listed[0]
    if first > 1 and question.resource == "/encoding":
        for by in (first, -first):
            yield from answers_to(replace(question, positions=tuple(each + by for each in listed)))


def _padding_counted(question: Question, right: Expectation) -> Iterator[Wrong]:
    keys, ids = question.parameters, _ids(question, right)
    if "padding_mask" in keys:
        none = np.zeros_like(keys["padding_mask"]).tolist()
        yield from answers_to(question.changed(padding_mask=none))
    if question.resource == "/relative/alibi/bias":
        every = np.ones_like(keys["attention_mask"]).tolist()
        yield from answers_to(question.changed(attention_mask=every))
    if ids is not None and {"attention_mask", "input_ids"} & keys.keys():
        first = int(ids.max()) - ids.shape[-1] + 1
        yield _with_ids(right, np.broadcast_to(first + np.arange(ids.shape[-1]), ids.shape))
    if _counts(question, 1) > 1 and _counts(question, 0) == 1:
        yield from answers_to(_counted_on(question))


def _positions_reset(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Positions count on where a sequence begins."""
    if _counts(question, 0) > 1:
        yield from answers_to(_counted_on(question))
    lengths = question.parameters.get("lengths")
    if lengths is not None:
        yield from answers_to(question.changed(lengths=[sum(lengths)]))


def _counts(question: Question, position: int) -> int:
    """Return how many rows of a table of sinusoids have a position."""
    return (question.positions or ()).count(position) if question.resource == "/encoding" else 0


def _counted_on(question: Question) -> Question:
    """Return the question for the positions 0, 1, …."""
    return replace(question, positions=tuple(range(len(question.positions or ()))))


def _next_sequence(question: Question, right: Expectation) -> Iterator[Wrong]:
    """Each sequence of the batch has the numbers of the next one."""
    batches = {"/encoding/tokens": 0, "/encoding/mask": 0, "/positions": -2}
    axis = batches.get(question.resource)
    # Two rows of ids look like two axes of ids.
    is_plain = len(right.shape) < 3
    if axis is not None and right.shape[axis] > 1 and not is_plain:
        arrays = {name: np.roll(each, -1, axis=axis) for name, each in right.arrays.items()}
        angle = None if right.angle is None else np.roll(right.angle, -1, axis=axis)
        yield Wrong(replace(right, arrays=arrays, angle=angle))


def _sections_exchanged(question: Question, right: Expectation) -> Iterator[Wrong]:
    ids = _ids(question, right)
    if ids is not None and ids.ndim > 2:
        yield _with_ids(right, ids[[0, 2, 1]])


MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "position-offset": (_position_offset,),
    "narrow-positions": (_narrow_positions,),
    "cache-offset": (_cache_offset,),
    "padding-counted": (_padding_counted,),
    "positions-reset": (_positions_reset,),
    "next-sequence": (_next_sequence,),
    "sections-exchanged": (_sections_exchanged,),
}
