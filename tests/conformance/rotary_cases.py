"""The rotary cases of the core, and what their questions are in an independent evaluation."""

from functools import cache
from typing import Any

import mpmath
import numpy as np

from service.conformance.expected import expectation
from service.conformance.files.all_files import FILES
from service.conformance.questions import Question
from service.conformance.tolerance import Expectation
from tests.conformance.core_cases import core_of
from tests.parity.backend import Query
from tests.parity.exact import Exact
from tests.parity.exact_axial import axial_angles
from tests.parity.golden import Array, Arrays
from tests.parity.truth import Truth

_DIGITS = 45
_ROTATED = 7 * 2.0**-53
CASES = core_of(file for file in FILES if file.name.startswith("rope/"))


@cache
def right(number: int) -> Expectation:
    """Return the expectation of a case, by its place in CASES."""
    return expectation(CASES[number].question)


def query_of(question: Question) -> Query:
    """Return the parameters of a question, with lists of numbers for those of links."""
    table = question.as_table
    lists = ("mrope_section", "short_factor", "long_factor")
    query: dict[str, Any] = {
        name: [float(each) for each in value.split(",")]
        if name in lists and isinstance(value, str)
        else value
        for name, value in table.parameters.items()
    }
    if "mrope_section" in query:
        query["mrope_section"] = [int(each) for each in query["mrope_section"]]
        for axis in "thw":
            query.setdefault(f"positions_{axis}", table.positions)
    if table.positions is not None:
        query["positions"] = table.positions
    return query


def exact(question: Question) -> Arrays:
    """Evaluate a question in 45 digits, by code that shares nothing with the service."""
    query = query_of(question)
    if question.x is None:
        return Exact().tables(question.as_table.resource, {**query, "pack": "compact"})
    x = np.array(question.x)
    if question.resource == "/rope/axial/apply":
        return {"rotated": _turned(x, {"head_dim": x.shape[-1], **query})}
    if "seqlen_offsets" in query:
        batch = [
            Exact().rotated(each, {**query, "start": start})
            for each, start in zip(x, query["seqlen_offsets"], strict=True)
        ]
        return {"rotated": np.stack(batch)}
    return {"rotated": Exact().rotated(x, query)}


def _turned(x: Array, query: Query) -> Array:
    """Rotate the vectors of a grid."""
    result = np.empty(x.shape, dtype=object)
    with mpmath.workdps(_DIGITS):
        for row, angles in enumerate(axial_angles(query)):
            for k, angle in enumerate(angles):
                one, other = _pair(query["layout"], k, len(angles), len(query["grid"]))
                first, second = float(x[row, one]), float(x[row, other])
                cos, sin = mpmath.cos(angle), mpmath.sin(-angle if query.get("inverse") else angle)
                bound = _ROTATED * (abs(first) + abs(second))
                result[row, one] = Truth(first * cos - second * sin, bound)
                result[row, other] = Truth(second * cos + first * sin, bound)
    return result


def _pair(layout: str, k: int, count: int, axes: int) -> tuple[int, int]:
    if layout == "interleaved":
        return 2 * k, 2 * k + 1
    if layout == "half_by_axis":
        own = count // axes
        start = k // own * own
        return start + k, start + k + own
    return k, k + count
