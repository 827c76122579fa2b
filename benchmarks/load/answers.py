"""Checks of answers under load."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from benchmarks.load.asked import Asked
from benchmarks.load.tally import Tally

_OVERLOADED = "urn:posref:problem:overloaded"
_PROBLEM = b"application/problem+json"
_TOLD_BYTES = 400


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer; header names are in lower case.

    Attributes:
        body_bytes: how long its body was.
        body: the body, where it is looked at.
    """

    status: int
    headers: Mapping[bytes, bytes]
    body_bytes: int
    body: bytes


def is_looked_at(asked: Asked, status: int) -> bool:
    """Return whether the body is checked, not only its length."""
    return (
        asked.body is not None
        or asked.sampled is not None
        or status == HTTPStatus.SERVICE_UNAVAILABLE
    )


def check(asked: Asked, answer: Answer, tally: Tally) -> None:
    """Count an answer and its failures; an overload refusal is no failure."""
    tally.statuses[asked.kind, answer.status] += 1
    fault = _fault(asked, answer)
    if fault is not None:
        tally.fail(asked.kind, fault, f"{_line(asked)}: {answer.body[:_TOLD_BYTES]!r}")
    elif answer.status == asked.status:
        tally.body_bytes[asked.kind] += answer.body_bytes
        if asked.body is not None:
            tally.compared[asked.kind] += 1
        elif asked.sampled is not None:
            tally.sample(asked.kind, asked.sampled, answer.body)


def _fault(asked: Asked, answer: Answer) -> str | None:
    if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return _fault_of_refusal(answer)
    if answer.status != asked.status:
        return f"status {answer.status}"
    if asked.length_bytes not in {None, answer.body_bytes}:
        return "wrong length"
    if asked.body not in {None, answer.body}:
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


def _line(asked: Asked) -> str:
    return asked.request.partition(b"\r\n")[0].decode()
