"""The flags of cases that are not rotary: each mistake is seen by far, and its request shows it."""

import numpy as np
import pytest

from service.conformance.expected import expectation
from service.conformance.mistakes.makers import MAKERS
from service.conformance.mistakes.wrong import LEAST_TIMES
from service.conformance.questions import Question, Request, arrays_of
from service.conformance.suite import MOST_TIMES, Case, cases_of
from tests.client import Client
from tests.conformance.exact_tables import FILES
from tests.parity.golden import Array

_CASES: dict[str, list[Case]] = {}


def cases(name: str) -> list[Case]:
    """Return the cases of a file, which are computed once."""
    if name not in _CASES:
        (file,) = (each for each in FILES if each.name == name)
        _CASES[name] = [*cases_of(file)]
    return _CASES[name]


def answered(case: Case, request: Request) -> dict[str, Array]:
    """Return the arrays of a server's answer under the names of the case."""
    found, names = arrays_of(request), [*case.expected.arrays]
    if case.question.kind == "positions":
        return {"position_ids": found["position_ids"]}
    return dict(zip(names, found.values(), strict=True))


@pytest.mark.parametrize("name", [file.name for file in FILES])
def test_every_case_shows_a_mistake(name: str) -> None:
    assert all(case.flags for case in cases(name))


@pytest.mark.parametrize("name", [file.name for file in FILES])
def test_wrong_numbers_are_eight_tolerances_away_and_their_request_answers_with_them(
    name: str,
) -> None:
    for case in cases(name):
        for flag in case.flags:
            assert flag.times is None or flag.times >= LEAST_TIMES
            if flag.request is None:
                continue
            wrong = answered(case, flag.request)
            shape = next(iter(wrong.values())).shape
            assert (shape != case.expected.shape) == (flag.times is None)
            if flag.times is not None:
                most = min(float(case.expected.distances(wrong).max()), MOST_TIMES)
                assert float(f"{most:.1e}") == flag.times


@pytest.mark.parametrize("name", [file.name for file in FILES])
def test_the_request_of_a_case_answers_with_its_numbers(client: Client, name: str) -> None:
    for case in cases(name):
        request = case.question.request
        given = {} if request.body is None else {"json": dict(request.body)}
        answer = client.request(request.method, request.url, **given)
        assert answer.status_code == 200, answer.text
        data = answer.json()["data"]
        data = data.get("position_ids", data) if isinstance(data, dict) else data
        (want,) = case.expected.arrays.values()
        assert (np.array(data) == want).all()


@pytest.mark.parametrize(("tokens", "is_shown"), [([1, 1, 5, 7], True), ([5, 7, 1, 1], False)])
def test_padding_is_counted_only_in_front_of_a_sequence(tokens: list[int], is_shown: bool) -> None:
    keys = {"convention": "padding_idx", "padding_idx": 1, "input_ids": [tokens, [5, 6, 7, 8]]}
    question = Question("positions", "/positions", keys)
    right = expectation(question)

    made = [each for maker in MAKERS["padding-counted"] for each in maker(question, right)]

    assert any(each.is_seen(right) for each in made) == is_shown
