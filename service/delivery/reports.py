"""Reports: answers about a JSON object that is sent, as JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from service.delivery.answer import Answer
from service.delivery.headers import raw
from service.delivery.parameters import Parameters
from service.formats.json_text import JSON


@dataclass(frozen=True)
class Report:
    """Something that is said about an object.

    Attributes:
        path: where it is asked for, by POST.
        operation: its name in the API's documentation.
        summary: what it says.
        parameters: the model of its query.
        report: makes it of those parameters and the object; raises InvalidBody.
        says: what the answer is, in a few words.
        schema: the JSON schema of it.
        example: an object.
    """

    path: str
    operation: str
    summary: str
    parameters: type[Parameters]
    report: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
    says: str
    schema: Mapping[str, Any]
    example: Mapping[str, Any]


def report_answer(content: Mapping[str, Any]) -> Answer:
    """Answer with a report; never cached."""
    headers = {"Content-Type": JSON.media_type, "Cache-Control": "no-store"}
    return Answer(200, raw(headers), orjson.dumps(content))
