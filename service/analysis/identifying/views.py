"""Other ways to look at an array: axes in reverse order, a narrower type, a part of its rows."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from service.analysis.identifying.emulation import rounded
from service.analysis.identifying.verification_rows import INTEGERS
from service.analysis.question import Proposal, Question, Turning
from service.analysis.sample import Sample
from service.analysis.waves import EARLY_ROWS
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, DType

_NARROWER = (BFLOAT16, FLOAT16, FLOAT32)
_SHARES = (2, 4, 16)

# Tables with their rows in the last axis are looked for up to the longest of common contexts.
_MOST_REVERSED = 2**17
_LEAST_ROWS = 4

# As many as frequencies are measured in; twice as many are worth the detour.
_HEAD_ROWS = EARLY_ROWS


def transposed(question: Question) -> Question | None:
    """Turn the axes of an array round, where it has two of which the last may be its rows."""
    if question.sample.values.shape[-1] > _MOST_REVERSED or any(
        sample.values.ndim != 2 or sample.is_complex for sample in question.arrays.values()
    ):
        return None
    arrays = {name: _reversed(sample) for name, sample in question.arrays.items()}
    return replace(question, arrays=arrays)


def _reversed(sample: Sample) -> Sample:
    if sample.values.dtype == np.int64:
        return replace(sample, values=sample.values.T.astype(np.int64), shape=sample.values.T.shape)
    return replace(sample, values=sample.reals().T.copy(), shape=sample.values.T.shape)


def without_copies(question: Question) -> tuple[Question, int] | None:
    """Take one of the copies that an axis holds, the batch of a table, and say which axis it is."""
    samples = question.arrays.values()
    values = question.sample.values
    if values.ndim < 3 or any(sample.values.shape != values.shape for sample in samples):
        return None
    lengths = [axis for axis, length in enumerate(question.sample.shape) if length != 1]
    for place, axis in enumerate(lengths[:-1]):
        if all(_is_copied(sample.values, place) for sample in samples):
            arrays = {name: _one(each, place, axis) for name, each in question.arrays.items()}
            return replace(question, arrays=arrays), axis
    return None


def _is_copied(values: np.ndarray, axis: int) -> bool:
    return bool((values == values.take([0], axis)).all())


def _one(sample: Sample, place: int, axis: int) -> Sample:
    shape = (*sample.shape[:axis], 1, *sample.shape[axis + 1 :])
    values = np.moveaxis(sample.values, place, 0)[0]
    return replace(sample, values=values, shape=shape)


def narrowed(question: Question) -> Question | None:
    """Take arrays for those of the narrowest type that holds all their numbers, if there is one."""
    if any(sample.is_complex or sample.dtype in INTEGERS for sample in question.arrays.values()):
        return None
    for dtype in _NARROWER:
        if dtype is question.sample.dtype:
            return None
        if all(_holds(dtype, sample) for sample in question.arrays.values()):
            arrays = {
                name: replace(sample, dtype=dtype) for name, sample in question.arrays.items()
            }
            return replace(question, arrays=arrays)
    return None


def _holds(dtype: DType, sample: Sample) -> bool:
    values = sample.reals()
    some = values.reshape(-1)[:1024]
    return bool((rounded(some, dtype) == some).all() and (rounded(values, dtype) == values).all())


def head(question: Question) -> Question | None:
    """Give the first rows of an array that has many more."""
    shape = question.sample.values.shape
    if len(shape) < 2 or shape[0] <= 2 * _HEAD_ROWS:
        return None
    return _window(question, 0, _HEAD_ROWS)


def windows(question: Question) -> Iterator[tuple[Question, int]]:
    """Give parts of the rows of an array, ever later or fewer, with their first row's number.

    No part has more rows than frequencies are measured in, and none is what ``head`` gives.
    """
    rows = question.sample.values.shape[0]
    parts: dict[tuple[int, int], None] = {}
    for share in _SHARES:
        count = min(rows // share, _HEAD_ROWS)
        for first in (0, rows - rows // share):
            is_head = rows > 2 * _HEAD_ROWS and first == 0
            if count >= _LEAST_ROWS and not is_head:
                parts[first, count] = None
    for first, count in parts:
        yield _window(question, first, count), first


def _window(question: Question, first: int, count: int) -> Question:
    arrays = {}
    for name, sample in question.arrays.items():
        values = sample.values[first : first + count]
        shape = values.shape[:-1] if sample.is_complex else values.shape
        arrays[name] = replace(sample, values=values, shape=shape)
    positions = question.positions
    if positions is not None:
        positions = positions[first : first + count]
    return replace(question, arrays=arrays, positions=positions)


def extended(proposal: Proposal, first: int, rows: int) -> Proposal | None:
    """Let a proposal for rows from one on go on over all rows; None if they do not follow."""
    call, turning = proposal.call, proposal.turning
    if "seq_len" not in call.parameters or turning is None or turning.coordinates.shape[1] != 1:
        return None
    if not (np.diff(turning.coordinates[:, 0]) == 1).all():
        return None
    start = call.parameters.get("start", 0)
    if not isinstance(start, int):
        return None
    moved = {"start": start - first} if start != first else {}
    kept = {name: value for name, value in call.parameters.items() if name != "start"}
    whole = replace(call, parameters={**kept, "seq_len": rows, **moved})
    places = turning.coordinates[0, 0] - first + np.arange(rows, dtype=np.float64)
    return replace(proposal, call=whole, turning=_at(turning, places))


def _at(turning: Turning, places: np.ndarray) -> Turning:
    return replace(turning, coordinates=places[:, None])
