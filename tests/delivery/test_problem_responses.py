"""The documentation of problems."""

from service.delivery import problems
from service.delivery.problem_responses import problem_responses


def test_problems_of_one_status_share_its_answer() -> None:
    responses = problem_responses([problems.INVALID_BODY, problems.INVALID_PARAMETERS])

    assert list(responses) == ["422"]
    assert responses["422"]["description"] == "Invalid body; invalid parameters"
    examples = responses["422"]["content"]["application/problem+json"]["examples"]
    assert set(examples) == {"invalid-body", "invalid-parameters"}


def test_answers_are_listed_by_status() -> None:
    listed = [problem for problem in problems.PROBLEM_TYPES if problem.name != "method-not-allowed"]

    assert list(problem_responses(listed)) == sorted({str(problem.status) for problem in listed})
