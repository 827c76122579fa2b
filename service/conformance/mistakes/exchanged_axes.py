"""Mistakes of axes: time, height and width, or heads and positions, change places."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations

import numpy as np

from service.conformance.mistakes.wrong import Maker, Wrong, answers_to
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation
from service.encodings.rotary.angles import AXES


def _sections_exchanged(question: Question, _: Expectation) -> Iterator[Wrong]:
    names = [f"positions_{axis}" for axis in AXES]
    if all(name in question.parameters for name in names) and "/axial" not in question.resource:
        for order in list(permutations(names))[1:]:
            moved = {
                name: question.parameters[other] for name, other in zip(names, order, strict=True)
            }
            yield from answers_to(question.changed(**moved))


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
    if question.kind == "rotate" and question.positions and np.ndim(question.x) == 3:
        heads = len(question.x)
        rows = (question.positions * heads)[:heads]
        moved = question.changed(axes=["seq", "head", "channel"])
        yield from answers_to(replace(moved, positions=rows))


MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "sections-exchanged": (_sections_exchanged,),
    "sections-interleaved": (_sections_interleaved,),
    "axes-swapped": (_axes_swapped, _heads_for_positions),
}
