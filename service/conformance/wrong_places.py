"""The places of wrong numbers in a phrase: only some pairs, rows, heads or arrays have them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.conformance.questions import Question
from service.errors import PosrefError
from service.numerics.tables import axis_names

_SEVERAL = {
    "query": "queries",
    "batch": "sequences",
    "seq": "positions",
    "height": "rows",
    "width": "columns",
}
_ONE = {"batch": "sequence", "seq": "position", "height": "row", "width": "column"}
_OF_ROTATIONS = ("head", "seq", "channel")
# More numbers than these tell a reader nothing.
_MOST_LISTED = 4


def places_of(question: Question, wrong: NDArray[np.bool_], arrays: Sequence[str]) -> str:
    """Return where the wrong numbers are, as ``only pairs 15 to 17``; "" if everywhere, or at one.

    Args:
        question: the question, which names the axes.
        wrong: true of each wrong number, (arrays, …).
        arrays: the names of the arrays.
    """
    parts = [*_parts(question, wrong, arrays)] if wrong.sum() > 1 else []
    return f"only {', '.join(parts)}" if parts else ""


def _parts(question: Question, wrong: NDArray[np.bool_], arrays: Sequence[str]) -> Iterator[str]:
    rank = wrong.ndim - 1
    are_wrong = [bool(each.any()) for each in wrong]
    if not all(are_wrong):
        yield ", ".join(name for name, each in zip(arrays, are_wrong, strict=True) if each)
    for axis, known in enumerate(_axes(question, rank)):
        name = known
        rest = tuple(each for each in range(rank + 1) if each != axis + 1)
        numbers: Any = np.arange(wrong.shape[axis + 1])
        is_position = axis == rank - 2 and question.positions is not None
        if is_position and len(question.positions or ()) == len(numbers):
            numbers, name = np.array(question.positions), "position"
        if told := _told(name, numbers, np.asarray(wrong.any(axis=rest))):
            yield told


def _axes(question: Question, rank: int) -> tuple[str, ...]:
    """Return the names of the axes of an answer."""
    known: Sequence[str] = ()
    if question.kind == "rotate":
        known = question.parameters.get("axes", _OF_ROTATIONS[-rank:])
    else:
        with suppress(PosrefError):
            known = question.as_table.request.document().axes
    return tuple(each.partition("(")[0] for each in axis_names(known, rank))


def _told(name: str, numbers: NDArray[np.int64], is_wrong: NDArray[np.bool_]) -> str:
    """Return which numbers of an axis are wrong; "" if all are, or if it is no simple pattern."""
    one, several = _ONE.get(name, name), _SEVERAL.get(name, f"{name}s")
    bad = sorted(set(numbers[is_wrong].tolist()))
    good = set(numbers[~is_wrong].tolist()) - set(bad)
    between = [each for each in good if bad[0] < each < bad[-1]]
    # Position 0 agrees of most mistakes.
    if not good or (name == "position" and good == {0}):
        return ""
    if len(bad) == 1:
        return f"{one} {bad[0]}"
    if not between:
        is_end = all(each < bad[0] for each in good)
        return f"{several} from {bad[0]} on" if is_end else f"{several} {bad[0]} to {bad[-1]}"
    for rest, parity in enumerate(("even", "odd")):
        if all(each % 2 == rest for each in bad) and all(each % 2 != rest for each in good):
            return f"{parity} {several}"
    if len(bad) <= _MOST_LISTED:
        return f"{several} {', '.join(map(str, bad[:-1]))} and {bad[-1]}"
    return ""
