"""Honest implementations of tables that are not rotary pass, in float32, float16 and bfloat16."""

from random import Random

import ml_dtypes
import numpy as np
import pytest

from service.conformance.expected import expectation
from service.conformance.files.vector_file import VectorFile
from service.conformance.questions import Question
from tests.conformance.exact_tables import CASES, FILES
from tests.conformance.honest_tables import WAYS, answer

_TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
_IMPLEMENTED = [case for case in CASES if answer(case.question, "power") is not None]
# Cases of numbers that no implementation here answers: their tolerances are derived alone.
_NOT_IMPLEMENTED = {
    *(f"encoding/sinusoid/{number}" for number in (10, 11, 15)),
    *(f"encoding/grid/{number}" for number in (5, 6, 7, 9, 10, 11, 12, 13, 14)),
    *("encoding/tokens/1", "encoding/tokens/3", "encoding/apply/1", "encoding/apply/2"),
    *("relative/operator/1", "relative/operator/2", "relative/alibi/8", "relative/kerple/4"),
    "relative/kerple/6",
    *("relative/dynamic/1", "relative/dynamic/2"),
}
_DRAWN: list[tuple[VectorFile, int]] = [
    (file, seed)
    for file in FILES
    if file.drawn is not None
    for seed in range(8)
    if answer(file.drawn(Random(seed))[1], "power") is not None
]


def worst_share(question: Question) -> tuple[float, str]:
    """Return the largest share of what is allowed that an implementation takes, and which."""
    right, shares = expectation(question), list[tuple[float, str]]()
    (name,) = right.arrays
    for way in WAYS:
        numbers = answer(question, way)
        if numbers is None:
            continue
        for dtype, kind in _TYPES.items() if right.angle is not None else [("float32", None)]:
            given = numbers if kind is None else numbers.astype(kind).astype(np.float64)
            share = float(right.distances({name: given}, dtype).max())
            shares.append((share, f"{way}, {dtype}"))
    return max(shares)


def test_every_case_of_numbers_has_an_implementation_but_for_those_listed() -> None:
    answered = {case.id for case in _IMPLEMENTED}
    numbers = {case.id for case in CASES if expectation(case.question).angle is not None}

    assert numbers - answered == _NOT_IMPLEMENTED


@pytest.mark.parametrize("number", range(len(_IMPLEMENTED)), ids=[c.id for c in _IMPLEMENTED])
def test_honest_implementations_pass_every_case(number: int) -> None:
    share, whose = worst_share(_IMPLEMENTED[number].question)

    assert share <= 1, whose


@pytest.mark.parametrize(("file", "seed"), _DRAWN, ids=lambda each: getattr(each, "name", each))
def test_honest_implementations_pass_drawn_cases(file: VectorFile, seed: int) -> None:
    assert file.drawn is not None
    _, question = file.drawn(Random(seed))
    share, whose = worst_share(question)

    assert share <= 1, whose


def test_the_tolerance_of_channels_first_moves_with_them_if_all_axes_are_of_one_length() -> None:
    keys = {"convention": "detr", "height": 8, "width": 8, "d_model": 8}
    first = Question("array", "/encoding/grid", keys)
    moved, angle = (
        expectation(each).angle for each in (first, first.changed(channels_first=False))
    )

    assert moved is not None
    assert angle is not None
    assert np.array_equal(moved, np.moveaxis(angle, -1, 0))
