"""The documentation of problems, with an example of each."""

from collections.abc import Iterable, Mapping
from typing import Any

from service import errors
from service.delivery import problems
from service.delivery.negotiation import unknown_format
from service.delivery.openapi_headers import of_problem
from service.delivery.problems import ProblemType
from service.errors import Fault
from service.formats import FORMATS

_MISSPELLED = Fault("dmodel", "512", "dmodel is not a parameter here; did you mean d_model?")
_NO_BFLOAT16 = (
    "npy cannot hold this answer: NumPy has no bfloat16; "
    "these formats can: json, safetensors, bin, csv, png"
)

_EXAMPLES: Mapping[ProblemType, errors.PosrefError] = {
    problems.INVALID_PARAMETERS: errors.InvalidParameters(_MISSPELLED),
    problems.UNSUPPORTED_BY_FORMAT: errors.UnsupportedByFormat(
        _NO_BFLOAT16, [Fault("extension", "npy", _NO_BFLOAT16)]
    ),
    problems.INVALID_BODY: errors.InvalidBody(
        "NaN is not JSON: only npy and safetensors have it", value="NaN"
    ),
    problems.NOT_FOUND: unknown_format("np"),
    problems.NOT_ACCEPTABLE: errors.NotAcceptable(
        "Accept allows none of the formats there are: "
        + ", ".join(form.media_type for form in FORMATS.values())
        + "; an extension names one without it"
    ),
    problems.PRECONDITION_FAILED: errors.PreconditionFailed(
        'If-Match names other bytes than there are now: "0015c94d9bb60ccc7ae9b72a9bffe638", '
        'and this is "a489eb6064ad81b7235f2498d6d1fb07"'
    ),
    problems.RANGE_NOT_SATISFIABLE: errors.RangeNotSatisfiable(192),
    problems.REVISION_RETIRED: errors.RevisionRetired(
        "revision 1 of encoding is no longer served; the current one is 2"
    ),
    problems.ANSWER_TOO_LARGE: errors.AnswerTooLarge(
        "the answer may take up to 8589934873 bytes and the limit is 134217728 "
        "(POSREF_MAX_TEXT_BYTES): ask for npy or safetensors, or for less of it"
    ),
    problems.BODY_TOO_LARGE: errors.BodyTooLarge(
        "the body is longer than 67108864 bytes (POSREF_MAX_BODY_BYTES)"
    ),
    problems.UNSUPPORTED_MEDIA_TYPE: errors.UnsupportedMediaType(
        "the body is said to be text/plain: send application/x-npy or "
        "application/vnd.safetensors or application/json"
    ),
    problems.INTERNAL_ERROR: problems.FAILURE,
    problems.MALFORMED_REQUEST: errors.MalformedRequest("the request line is not one of HTTP"),
    problems.UNAUTHORIZED: errors.Unauthorized(
        "This server asks for a key, and this request bears none that it takes: "
        "send one in the header Authorization: Bearer KEY"
    ),
    problems.REQUEST_TIMEOUT: errors.RequestTimeout(
        "the body did not come within 120 seconds (POSREF_BODY_SECONDS)"
    ),
    problems.URL_TOO_LONG: errors.URLTooLong(
        "the URL is longer than 65535 bytes (POSREF_MAX_URL_BYTES)"
    ),
    problems.HEADERS_TOO_LARGE: errors.HeadersTooLarge(
        "the headers are longer than 131072 bytes (POSREF_MAX_HEAD_BYTES)"
    ),
    problems.OVERLOADED: errors.Overloaded(
        "256 requests wait for a thread already (POSREF_MAX_WAITING): ask again later"
    ),
    problems.NOT_READY: errors.NotReady("this process is about to end: send requests to another"),
}

OF_JSON_BODIES: Mapping[ProblemType, errors.PosrefError] = {
    problems.INVALID_BODY: errors.InvalidBody("the body must be a JSON object"),
    problems.BODY_TOO_LARGE: errors.BodyTooLarge(
        "the body is longer than 4194304 bytes (POSREF_MAX_JSON_BODY_BYTES)"
    ),
    problems.UNSUPPORTED_MEDIA_TYPE: errors.UnsupportedMediaType(
        "the body is said to be text/plain: send application/json"
    ),
}
"""What is said where a body can only be a JSON object."""


_ANYWHERE = (
    problems.MALFORMED_REQUEST,
    problems.UNAUTHORIZED,
    problems.REQUEST_TIMEOUT,
    problems.URL_TOO_LONG,
    problems.HEADERS_TOO_LARGE,
    problems.OVERLOADED,
    problems.NOT_READY,
)


def shared_responses() -> dict[str, Any]:
    """Document, as components, what may be answered before a request is looked at."""
    responses = problem_responses(_ANYWHERE)
    return {name: responses[status] for status, name in _names().items()}


def shared_references() -> dict[str, Any]:
    """Refer to the answers that every operation shares, by status."""
    return {status: {"$ref": f"#/components/responses/{name}"} for status, name in _names().items()}


def _names() -> dict[str, str]:
    """Name the shared answer of each status after the first problem that it may be."""
    return {str(p.status): p.title.replace(" ", "") for p in reversed(_ANYWHERE)}


def problem_responses(
    listed: Iterable[ProblemType], examples: Mapping[ProblemType, errors.PosrefError] | None = None
) -> dict[str, Any]:
    """Document problems by status; several of one status share its answer.

    Args:
        listed: the problems.
        examples: errors to show in place of the usual ones.
    """
    shown = {**_EXAMPLES, **(examples or {})}
    responses: dict[str, Any] = {}
    for problem in listed:
        schema = {"$ref": "#/components/schemas/Problem"}
        fresh: dict[str, Any] = {
            "description": problem.title,
            "headers": of_problem(str(problem.status)),
            "content": {problems.MEDIA_TYPE: {"schema": schema, "examples": {}}},
        }
        response = responses.setdefault(str(problem.status), fresh)
        if response["description"] != problem.title:
            response["description"] += f"; {problem.title.lower()}"
        example = {"value": problems.problem_document(problem, shown[problem])}
        response["content"][problems.MEDIA_TYPE]["examples"][problem.name] = example
    return dict(sorted(responses.items()))
