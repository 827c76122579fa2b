"""Mistakes of positions: rows that have those of others, and axes that change places."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from typing import TypeAlias

import numpy as np

from service.conformance.mistakes.rotary.rotary_questions import rows_of
from service.conformance.mistakes.wrong import Maker, Wrong, answers_to
from service.conformance.questions import Question
from service.conformance.tolerance import MOST_COUNTED, Expectation
from service.encodings.rotary.angles import AXES

Rows: TypeAlias = tuple[int, ...]
Move: TypeAlias = Callable[[Rows], Iterator[Rows]]

_LENGTHS = (2048, 4096, 8192, 32768)


def _at(move: Move) -> Maker:
    """Return the maker of a mistake that gives the rows of a sequence other positions."""

    def made(question: Question, _: Expectation) -> Iterator[Wrong]:
        question = question.as_table
        rows = rows_of(question)
        if rows is not None:
            plain = question.changed("start")
            moved = (each for each in move(rows) if each != rows)
            yield from answers_to(*(replace(plain, positions=each) for each in moved))

    return made


def _is_run(rows: Rows) -> bool:
    return len(rows) > 1 and rows == tuple(range(rows[0], rows[0] + len(rows)))


def _offset(rows: Rows) -> Iterator[Rows]:
    for offset in (1, -1, 2):
        yield tuple(each + offset for each in rows)
    for offset in (1, -1) if max(map(abs, rows)) > MOST_COUNTED else ():
        yield tuple(_in_float32(_in_float32(each) + offset) for each in rows)


def _in_float32(position: int) -> int:
    """Return a position as float32 has it, where the offset is added after the conversion."""
    return int(np.float32(position))


def _cache_offset(rows: Rows) -> Iterator[Rows]:
    if _is_run(rows) and rows[0] > 0:
        for offset in (-rows[0], rows[0]):
            yield tuple(each + offset for each in rows)


def _reversed(rows: Rows) -> Iterator[Rows]:
    yield rows[::-1]


def _stuck(rows: Rows) -> Iterator[Rows]:
    for most in (sorted(rows)[len(rows) // 2], *(length - 1 for length in _LENGTHS)):
        yield tuple(min(each, most) for each in rows)


def _reset(rows: Rows) -> Iterator[Rows]:
    half = len(rows) // 2
    if _is_run(rows):
        yield (*rows[:half], *rows[: len(rows) - half])
    for length in _LENGTHS:
        yield tuple(each % length for each in rows)


def _others(rows: Rows) -> Iterator[Rows]:
    if not _is_run(rows):
        yield tuple(range(len(rows)))
        yield tuple(sorted(rows))
        yield tuple(abs(each) for each in rows)


def _not_rotated(rows: Rows) -> Iterator[Rows]:
    yield (0,) * len(rows)


def _next_sequence(question: Question, _: Expectation) -> Iterator[Wrong]:
    offsets = question.parameters.get("seqlen_offsets")
    if offsets:
        yield from answers_to(question.changed(seqlen_offsets=[*offsets[1:], offsets[0]]))


def _cached_rows_of_sequences(question: Question, _: Expectation) -> Iterator[Wrong]:
    offsets = question.parameters.get("seqlen_offsets")
    if offsets:
        for times in (0, 2):
            moved = [times * each for each in offsets]
            yield from answers_to(question.changed(seqlen_offsets=moved))


def _sequences_not_rotated(question: Question, _: Expectation) -> Iterator[Wrong]:
    listed = [name for name in question.parameters if name.startswith("positions_")]
    if listed:
        still = {name: [0] * len(question.parameters[name]) for name in listed}
        yield from answers_to(question.changed(**still))


def _along_axes(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Positions along axes that are one too far; all three of them."""
    names = [f"positions_{axis}" for axis in AXES]
    if all(name in question.parameters for name in names):
        moved = {name: [each + 1 for each in question.parameters[name]] for name in names}
        yield from answers_to(question.changed(**moved))


def _sections_exchanged(question: Question, _: Expectation) -> Iterator[Wrong]:
    """Sections have the positions of other axes or all of one, with their own sizes or not."""
    keys, names = question.parameters, [f"positions_{axis}" for axis in AXES]
    if "mrope_section" in keys and all(name in keys for name in names):
        size = dict(zip(names, keys["mrope_section"], strict=True))
        orders = [*permutations(names), *((name,) * 3 for name in names)]
        for order in orders[1:]:
            moved = {name: keys[other] for name, other in zip(names, order, strict=True)}
            sizes = [size[other] for other in order]
            several = (question.changed(**moved), question.changed(**moved, mrope_section=sizes))
            yield from answers_to(*several)


def _sections_interleaved(question: Question, _: Expectation) -> Iterator[Wrong]:
    if "mrope_section" in question.parameters:
        is_interleaved = question.parameters.get("mrope_interleaved", False)
        yield from answers_to(question.changed(mrope_interleaved=not is_interleaved))


def _axes_swapped(question: Question, _: Expectation) -> Iterator[Wrong]:
    grid = question.parameters.get("grid")
    if grid and "/axial" in question.resource:
        own = question.parameters.get("grid_indexing", "ij")
        yield from answers_to(question.changed(grid_indexing="xy" if own == "ij" else "ij"))
    elif "/axial" in question.resource:
        names = [name for name in question.parameters if name.startswith("positions_")]
        first, second = names[-2:]
        swapped = {first: question.parameters[second], second: question.parameters[first]}
        yield from answers_to(question.changed(**swapped))


def _heads_for_positions(question: Question, _: Expectation) -> Iterator[Wrong]:
    """The first axis of x has the first positions, or the first of all, or the offsets."""
    if question.kind == "rotate" and np.ndim(question.x) == 3:
        heads = len(question.x)
        listed = rows_of(question) or tuple(question.parameters.get("seqlen_offsets", (0,)))
        moved = question.changed("seqlen_offsets", "start", axes=["seq", "head", "channel"])
        for rows in ((listed * heads)[:heads], tuple(range(heads))):
            yield from answers_to(replace(moved, positions=rows))


MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "position-offset": (_at(_offset), _along_axes),
    "cache-offset": (_at(_cache_offset), _cached_rows_of_sequences),
    "positions-reversed": (_at(_reversed),),
    "positions-stuck": (_at(_stuck),),
    "positions-reset": (_at(_reset),),
    "other-positions": (_at(_others),),
    "not-rotated": (_at(_not_rotated), _sequences_not_rotated),
    "next-sequence": (_next_sequence,),
    "sections-exchanged": (_sections_exchanged,),
    "sections-interleaved": (_sections_interleaved,),
    "axes-swapped": (_axes_swapped, _heads_for_positions),
}
