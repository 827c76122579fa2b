"""The documentation of problems."""

from service.delivery import problems
from service.delivery.problem_responses import (
    problem_responses,
    shared_references,
    shared_responses,
)


def test_problems_of_one_status_share_its_answer() -> None:
    responses = problem_responses([problems.INVALID_BODY, problems.INVALID_PARAMETERS])

    assert list(responses) == ["422"]
    assert responses["422"]["description"] == "Invalid body; invalid parameters"
    examples = responses["422"]["content"]["application/problem+json"]["examples"]
    assert set(examples) == {"invalid-body", "invalid-parameters"}


def test_answers_are_listed_by_status() -> None:
    listed = [problem for problem in problems.PROBLEM_TYPES if problem.name != "method-not-allowed"]

    assert list(problem_responses(listed)) == sorted({str(problem.status) for problem in listed})


def test_what_any_request_may_meet_is_documented_once_and_referred_to() -> None:
    shared, references = shared_responses(), shared_references()

    assert set(references) == {"400", "401", "408", "414", "431", "503"}
    for status, reference in references.items():
        response = shared[reference["$ref"].removeprefix("#/components/responses/")]
        for example in response["content"]["application/problem+json"]["examples"].values():
            assert str(example["value"]["status"]) == status
    assert shared["Overloaded"]["description"] == "Overloaded; not ready"


def test_a_problem_says_that_it_is_not_kept() -> None:
    assert "Cache-Control" in problem_responses([problems.INVALID_BODY])["422"]["headers"]
