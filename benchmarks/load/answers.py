"""Checks of answers under load."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from benchmarks.load.requests import LoadRequest
from benchmarks.load.tally import Tally

_OVERLOADED = "urn:posref:problem:overloaded"
_PROBLEM = b"application/problem+json"
_SHOWN_BYTES = 400


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer; header names are in lower case.

    Attributes:
        body_bytes: length of the body.
        body: the body if it is checked, else empty.
    """

    status: int
    headers: Mapping[bytes, bytes]
    body_bytes: int
    body: bytes


def is_body_checked(request: LoadRequest, status: int) -> bool:
    """Return whether the body is checked, not only its length."""
    return (
        request.body is not None
        or request.sampled is not None
        or status == HTTPStatus.SERVICE_UNAVAILABLE
    )


def check(request: LoadRequest, answer: Answer, tally: Tally) -> None:
    """Count an answer and its failures; an overload refusal is not a failure."""
    tally.statuses[request.kind, answer.status] += 1
    fault = _fault(request, answer)
    if fault is not None:
        tally.fail(request.kind, fault, f"{_line(request)}: {answer.body[:_SHOWN_BYTES]!r}")
    elif answer.status == request.status:
        tally.body_bytes[request.kind] += answer.body_bytes
        if request.body is not None:
            tally.compared[request.kind] += 1
        elif request.sampled is not None:
            tally.sample(request.kind, request.sampled, answer.body)


def _fault(request: LoadRequest, answer: Answer) -> str | None:
    if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return _fault_of_refusal(answer)
    if answer.status != request.status:
        return f"status {answer.status}"
    if request.length_bytes not in {None, answer.body_bytes}:
        return "wrong length"
    if request.body not in {None, answer.body}:
        return "wrong bytes"
    return None


def _fault_of_refusal(answer: Answer) -> str | None:
    """Check that a refusal is an overload problem with Retry-After."""
    is_problem = answer.headers.get(b"content-type") == _PROBLEM
    if not is_problem or json.loads(answer.body).get("type") != _OVERLOADED:
        return "503 that is not deliberate"
    if not answer.headers.get(b"retry-after", b"").isdigit():
        return "503 without Retry-After"
    return None


def _line(request: LoadRequest) -> str:
    return request.data.partition(b"\r\n")[0].decode()
