"""Mistakes of positions: rows that have those of others, and axes that change places."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import TypeAlias

import numpy as np

from service.conformance.mistakes.rotary.rotary_questions import positions_of_axes, rows_of
from service.conformance.mistakes.wrong import (
    Maker,
    Wrong,
    answers_to,
    at,
    changed,
    everything,
    makes,
    rotary,
    rotations,
)
from service.conformance.questions import Question
from service.conformance.tolerance import MOST_COUNTED, Expectation
from service.encodings.rotary.angles import AXES

Rows: TypeAlias = tuple[int, ...]
Move: TypeAlias = Callable[[Rows], Iterator[Rows]]

# Of tables, and of integers of 16 bits.
_LENGTHS = (2048, 4096, 8192, 32768, 65536)


def _moves(name: str) -> Callable[[Move], Maker]:
    """Return a decorator of a mistake that gives the rows of a table other positions."""

    def maker(move: Move) -> Maker:
        def made(question: Question, _: Expectation) -> Iterator[Wrong]:
            if (rows := rows_of(question)) is not None:
                plain = question.changed("start")
                moved = (each for each in move(rows) if each != rows)
                yield from answers_to(*(replace(plain, positions=each) for each in moved))

        return Maker(name, everything, made)

    return maker


def _is_run(rows: Rows) -> bool:
    return len(rows) > 1 and rows == tuple(range(rows[0], rows[0] + len(rows)))


@_moves("position-offset")
def _offset(rows: Rows) -> Iterator[Rows]:
    for offset in (1, -1, 2, -2):
        yield tuple(each + offset for each in rows)
    for offset in (1, -1) if max(map(abs, rows)) > MOST_COUNTED else ():
        yield tuple(_in_float32(_in_float32(each) + offset) for each in rows)


def _in_float32(position: int) -> int:
    """Return a position as float32 has it, where the offset is added after the conversion."""
    return int(np.float32(position))


@_moves("cache-offset")
def _cache_offset(rows: Rows) -> Iterator[Rows]:
    if _is_run(rows) and rows[0] > 0:
        for offset in (-rows[0], rows[0]):
            yield tuple(each + offset for each in rows)


@_moves("positions-reversed")
def _reversed(rows: Rows) -> Iterator[Rows]:
    yield rows[::-1]


@_moves("positions-stuck")
def _stuck(rows: Rows) -> Iterator[Rows]:
    for most in (sorted(rows)[len(rows) // 2], *(length - 1 for length in _LENGTHS)):
        yield tuple(min(each, most) for each in rows)
    # The loop over rows ends one too early.
    yield (*rows[:-1], rows[-2 if len(rows) > 1 else -1])


@_moves("positions-reset")
def _reset(rows: Rows) -> Iterator[Rows]:
    half = len(rows) // 2
    if _is_run(rows):
        yield (*rows[:half], *rows[: len(rows) - half])
    for length in _LENGTHS:
        yield tuple(each % length for each in rows)


@_moves("other-positions")
def _others(rows: Rows) -> Iterator[Rows]:
    if not _is_run(rows):
        yield tuple(range(len(rows)))
        yield tuple(sorted(rows))
        yield tuple(abs(each) for each in rows)


@_moves("not-rotated")
def _not_rotated(rows: Rows) -> Iterator[Rows]:
    yield (0,) * len(rows)


@makes("next-sequence", rotations)
def _next_sequence(question: Question, _: Expectation) -> Iterator[Wrong]:
    if offsets := question.parameters.get("seqlen_offsets"):
        yield from answers_to(question.changed(seqlen_offsets=[*offsets[1:], offsets[0]]))


@makes("cache-offset", rotations)
def _cached_rows_of_sequences(question: Question, _: Expectation) -> Iterator[Wrong]:
    if offsets := question.parameters.get("seqlen_offsets"):
        moved = ([times * each for each in offsets] for times in (0, 2))
        yield from changed(question, seqlen_offsets=moved)


@makes("other-positions", rotations)
def _offset_of_the_first(question: Question, _: Expectation) -> Iterator[Wrong]:
    if offsets := question.parameters.get("seqlen_offsets"):
        yield from answers_to(question.changed(seqlen_offsets=offsets[:1] * len(offsets)))


@makes("positions-stuck", rotary)
def _last_row_of_axes(question: Question, _: Expectation) -> Iterator[Wrong]:
    if listed := positions_of_axes(question):
        stuck = {name: [*listed[name][:-1], *listed[name][-2:-1]] for name in listed}
        yield from answers_to(question.changed(**stuck))


@makes("not-rotated", rotary)
def _sequences_not_rotated(question: Question, _: Expectation) -> Iterator[Wrong]:
    if listed := positions_of_axes(question):
        yield from answers_to(
            question.changed(**{name: [0] * len(listed[name]) for name in listed})
        )


@makes("position-offset", rotary)
def _along_axes(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Positions along axes that are one too far; all three of them."""
    listed = positions_of_axes(question)
    if len(listed) == len(AXES):
        moved = {name: [each + 1 for each in listed[name]] for name in listed}
        yield from answers_to(question.changed(**moved))


@makes("sections-exchanged", rotary)
def _sections_exchanged(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Sections have the positions of other axes or all of one, with their own sizes or not."""
    keys, listed = question.parameters, positions_of_axes(question)
    if "mrope_section" in keys and listed:
        names = [f"positions_{axis}" for axis in AXES]
        size = dict(zip(names, keys["mrope_section"], strict=True))
        for order in [*permutations(names), *((name,) * 3 for name in names)][1:]:
            moved = {name: listed[other] for name, other in zip(names, order, strict=True)}
            sizes = [size[other] for other in order]
            several = (question.changed(**moved), question.changed(**moved, mrope_section=sizes))
            yield from answers_to(*several)


@makes("sections-interleaved", rotary)
def _sections_interleaved(question: Question, _: Expectation) -> Iterator[Wrong]:
    if "mrope_section" in question.parameters:
        yield from changed(question, mrope_interleaved=(True, False))


@makes("axes-swapped", at("/rope/axial", "/rope/axial/apply"))
def _axes_swapped(question: Question, _: Expectation) -> Iterator[Wrong]:
    if "grid" in question.parameters:
        yield from changed(question, grid_indexing=("ij", "xy"))
    else:
        listed = positions_of_axes(question)
        first, second = [*listed][-2:]
        swapped = {first: listed[second], second: listed[first]}
        yield from answers_to(question.changed(**swapped))


@makes("axes-swapped", at("/rope/apply"))
def _heads_for_positions(question: Question, _: Expectation) -> Iterator[Wrong]:
    """The first axis of x has the first positions, or the first of all, or the offsets."""
    if np.ndim(question.x) == 3:
        heads = len(question.x)
        listed = rows_of(question) or tuple(question.parameters.get("seqlen_offsets", (0,)))
        moved = question.changed("seqlen_offsets", "start", axes=["seq", "head", "channel"])
        for rows in ((listed * heads)[:heads], tuple(range(heads))):
            yield from answers_to(replace(moved, positions=rows))
