"""What the places along an axis of a table are numbered by."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from service import grammar
from service.tables.document import Document, ParameterValue

Numbers = NDArray[Any]


def numbers(axis: str, count: int, document: Document, most: int | None = None) -> Numbers:
    """Number the places along an axis as the document or its parameters do, otherwise from 0 on.

    An axis ``query`` is numbered by ``query_positions`` or ``query_start``, ``position`` by
    ``positions`` or ``start``, ``dimension`` by ``dimensions``.

    Args:
        axis: its name.
        count: how many places it has.
        document: of which table.
        most: how many of them to number, where it is not all.
    """
    shown = count if most is None else min(count, most)
    if axis in document.places:
        return document.places[axis].at(0, shown)
    parameters = document.parameters
    for name in (f"{axis}s", f"{axis}_positions"):
        if name in parameters:
            found = _listed(parameters[name], count, shown)
            if found is not None:
                return found
    start = parameters.get(f"{axis}_start", parameters.get("start", 0) if axis == "position" else 0)
    first = start if isinstance(start, int) else 0
    return first + np.arange(shown, dtype=np.int64)


def _listed(value: ParameterValue, count: int, shown: int) -> Numbers | None:
    """Read a list of integers as it is spelled, or of other numbers; None if it has not as many."""
    if not isinstance(value, str):
        found = np.atleast_1d(np.asarray(value))
        return found[:shown] if len(found) == count else None
    positions = grammar.positions(value)
    return positions.at(0, shown) if positions.count == count else None
