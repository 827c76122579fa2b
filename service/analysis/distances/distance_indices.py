"""Matrices of integers that a rule gives for distances: read as strips, held to the rule."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np

from service.analysis.call import Call
from service.analysis.distances.distance_alignment import aligned
from service.analysis.distances.query_keys import query_key_parameters
from service.analysis.distances.strips import Strip, strip_of, strips
from service.analysis.lone_arrays import lone_integers
from service.analysis.question import Proposal, Question
from service.tables.angle import Int64s
from service.tables.buckets import BucketRule
from service.tables.document import ParameterValue

_ONE_HEAD = range(1)
_MOST = 8
_TRIED_ROWS = 32
# Fewer different numbers are of any rule: a mask, a sign.
_FEWEST_NUMBERS = 3
# Of fewer rows, one is too many to be wrong.
_FEWEST_ROWS = 4


@dataclass(frozen=True, eq=False)
class Found:
    """A rule that a strip may follow.

    Attributes:
        rule: gives the number of each distance.
        parameters: what names it, queries and keys apart.
        zero: the place of distance 0 in the strip, or outside of it.
        support: what speaks for it.
    """

    rule: BucketRule
    parameters: dict[str, ParameterValue]
    zero: int
    support: tuple[str, ...]


Reader: TypeAlias = Callable[[Strip], Iterator[Found]]
"""Finds the rules of a kind that a strip may follow, the plainest first."""


def propose_rules(question: Question, resource: str, read: Reader) -> Iterator[Proposal]:
    """Propose the tables of integers that follow from what a reader finds.

    Rows that are a choice of those of a larger table are read one alone, and looked for by it.
    """
    numbers = lone_integers(question, (1, 2))
    if numbers is None or numbers.size < 2:
        return
    whole = list(strips(numbers))
    if whole:
        yield from islice(_of_strips(whole, resource, read), _MOST)
    elif numbers.ndim == 2:
        yield from islice(_of_rows(numbers, resource, read), _MOST)
        if len(numbers) >= _FEWEST_ROWS:
            yield from islice(_of_most_rows(numbers, resource, read), _MOST)


def _of_most_rows(numbers: Int64s, resource: str, read: Reader) -> Iterator[Proposal]:
    """Propose tables of which a row has gone wrong: none will do, and one is the nearest.

    Distances at the ends are in the first or in the last row alone: where that is the wrong one,
    the others say the rule.
    """
    near = strip_of(numbers[np.newaxis], wrong_rows=1)
    if near is not None:
        yield from _of_strips([near], resource, read)
    for rest, left_out in ((numbers[1:], (1, 0)), (numbers[:-1], (0, 1))):
        near = strip_of(rest[np.newaxis])
        if near is not None:
            yield from _of_strips([near], resource, read, left_out)


def _of_strips(
    whole: list[Strip], resource: str, read: Reader, left_out: tuple[int, int] = (0, 0)
) -> Iterator[Proposal]:
    """Propose tables of strips, and of so many queries before and after theirs."""
    for strip in whole:
        if len(np.unique(strip.values)) < _FEWEST_NUMBERS:
            continue
        for found in read(strip):
            if _holds(found, strip):
                queries, keys = strip.places(found.zero)
                every = np.arange(queries[0] - left_out[0], queries[-1] + 1 + left_out[1])
                places = query_key_parameters(every, keys)
                call = Call(resource, {**found.parameters, **places})
                yield Proposal(call, (_of_distance(strip), *found.support))


def _of_rows(numbers: Int64s, resource: str, read: Reader) -> Iterator[Proposal]:
    for sign, rows in ((1, numbers), (-1, numbers.T)):
        columns = np.arange(rows.shape[1], dtype=np.int64)
        lengths = (1, len(columns)) if sign == 1 else (len(columns), 1)
        for telling in _telling(rows):
            strip = Strip(telling[np.newaxis, ::sign], *lengths)
            for found in read(strip):
                places = _row_places(found, strip, rows, sign)
                if places is None:
                    continue
                both = (places, columns) if sign == 1 else (columns, places)
                call = Call(resource, {**found.parameters, **query_key_parameters(*both)})
                kind = "row" if sign == 1 else "column"
                said = f"every {kind} is a part of what the rule of the fullest one says"
                yield Proposal(call, (said, *found.support))


def _telling(rows: Int64s) -> Int64s:
    """Choose the row with the most numbers, and that with the largest, to be read alone."""
    some = rows[np.unique(np.linspace(0, len(rows) - 1, _TRIED_ROWS, dtype=np.int64))]
    fullest = int(np.argmax([len(np.unique(row)) for row in some]))
    largest = int(np.abs(some).max(axis=1).argmax())
    return some[[fullest] if fullest == largest else [fullest, largest]]


def _row_places(found: Found, strip: Strip, rows: Int64s, sign: int) -> Int64s | None:
    if not _holds(found, strip):
        return None
    return aligned(rows, lambda distances: found.rule.values(distances, _ONE_HEAD), sign)


def _holds(found: Found, strip: Strip) -> bool:
    expected = found.rule.values(strip.distances(found.zero), _ONE_HEAD)
    return bool(np.array_equal(expected, strip.values[0]))


def _of_distance(strip: Strip) -> str:
    if 1 in {strip.queries, strip.keys}:
        return f"{strip.values.shape[1]} neighbouring distances"
    return f"a number depends on key - query alone, in {strip.queries} rows of {strip.keys}"
