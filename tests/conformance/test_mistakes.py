"""Mistakes that are made on purpose: each flag of a rotary case is seen by far."""

from collections.abc import Callable
from functools import cache
from itertools import islice

import numpy as np
import pytest

from service.analysis.explanation.catalogue import CATALOGUE
from service.conformance.expected import expectation
from service.conformance.mistakes.makers import MAKERS
from service.conformance.mistakes.rotary.narrow_types import iterated
from service.conformance.mistakes.wrong import Wrong
from service.conformance.questions import Numbers, Question, Request, arrays_of
from service.conformance.suite import Flag, flags_of
from service.conformance.tolerance import Expectation
from tests.conformance.honest_rotary import WAYS, Floats, Honest, powers_of_a_step
from tests.conformance.honest_rotary import iterated as iterated_powers
from tests.conformance.rotary_cases import CASES, right

_NUMBERS = range(len(CASES))
_FIRST = 3
_IDS = [case.id for case in CASES]


@cache
def flags(number: int) -> tuple[Flag, ...]:
    return tuple(flags_of(CASES[number].question, right(number)))


@cache
def wrongs(number: int) -> list[tuple[str, Wrong]]:
    """Return the first wrong answers of each maker to a case that are seen, by name."""
    question, expected = CASES[number].question, right(number)
    return [
        (name, wrong)
        for name, makers in MAKERS.items()
        for maker in makers
        for wrong in islice(maker(question, expected), _FIRST)
        if wrong.is_seen(expected)
    ]


def test_every_maker_has_the_name_of_a_mistake() -> None:
    assert MAKERS.keys() <= {name.partition("/")[0] for name in CATALOGUE}


@pytest.mark.parametrize("number", _NUMBERS, ids=_IDS)
def test_requests_of_wrong_answers_give_their_numbers(number: int) -> None:
    for name, wrong in wrongs(number):
        if wrong.request is not None:
            arrays = numbers_of(wrong.request, wrong.expectation)
            for part, numbers in arrays.items():
                assert np.array_equal(numbers, wrong.expectation.arrays[part]), name


def numbers_of(request: Request, wrong: Expectation) -> dict[str, Numbers]:
    """Return the arrays of a request, under the names of an expectation."""
    found = arrays_of(request)
    return dict(zip(wrong.arrays, found.values(), strict=True))


@pytest.mark.parametrize("number", _NUMBERS, ids=_IDS)
def test_wrong_answers_have_tolerances_of_their_own_shape(number: int) -> None:
    for name, wrong in wrongs(number):
        expected = wrong.expectation
        assert expected.angle is not None
        for part in expected.arrays:
            allowed = expected.allowed(part, "bfloat16")
            assert allowed.shape == expected.arrays[part].shape, name
            # Numbers that are none, of angles beyond a type, have no tolerance.
            assert (allowed >= 0)[np.isfinite(expected.arrays[part])].all(), name
        assert expected.distances(expected.arrays).max() == 0, name


@pytest.mark.parametrize("number", _NUMBERS, ids=_IDS)
def test_a_flag_starts_at_the_first_row_that_its_wrong_numbers_leave(number: int) -> None:
    expected, made = right(number), dict(reversed(wrongs(number)))
    for flag in flags(number):
        if flag.first is None or flag.name not in made:
            continue
        apart = expected.distances(made[flag.name].expectation.arrays)
        rows = [np.moveaxis(apart, -2, 0)[row] for row in range(apart.shape[-2])]
        start = (CASES[number].question.positions or ()).index(flag.first)
        assert rows[start].max() > 1
        assert max((each.max() for each in rows[:start]), default=0) <= 1


@pytest.mark.parametrize("way", [iterated_powers, powers_of_a_step])
def test_iterated_frequencies_are_recognised_where_they_are_too_far_off(
    way: Callable[[float, int], Floats],
) -> None:
    question = Question(
        "table", "/rope", {"head_dim": 128, "rope_theta": 10000.0}, (1, 257, 131071)
    )
    expected = expectation(question)
    answer = Honest(way).answer(question)
    emulated = iterated(question, expected)

    assert expected.distances(answer).max() > 1
    assert min(each.expectation.distances(answer).max() for each in emulated) <= 1


def test_powers_are_not_taken_for_iterated_frequencies() -> None:
    question = Question(
        "table", "/rope", {"head_dim": 128, "rope_theta": 10000.0}, (1, 257, 131071)
    )
    answer = Honest(WAYS["power"]).answer(question)
    emulated = iterated(question, expectation(question))

    assert min(each.expectation.distances(answer).max() for each in emulated) > 1
