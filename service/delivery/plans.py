"""Plans: what a request asks for, with its headers, before a table element is computed.

The functions here are synchronous and know no connection, so that the event loop, a worker thread
and a child process plan in the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from service.delivery.children import Job
from service.delivery.endpoints import Endpoint
from service.delivery.negotiation import RawHeaders, raw
from service.delivery.parameters import given_twice, parse_query, read_parameters
from service.delivery.representation import (
    Representation,
    array_headers,
    check_answer_size,
    represent,
)
from service.delivery.responses import Answer, ResponseHead
from service.encodings.family import Parameters
from service.errors import InvalidParameters
from service.formats.format import Block, ReadableFormat
from service.formats.json_text import JSON
from service.numerics.tables import Document
from service.settings import Settings


@dataclass(frozen=True)
class Plan:
    """A planned response: its headers are known, and no table element has been computed.

    Attributes:
        job: the request, from which a child process makes the same plan.
    """

    job: Job
    representation: Representation
    head: ResponseHead


def plan_get(endpoint: Endpoint, job: Job, settings: Settings) -> Plan:
    """Plan the response to a GET or HEAD; raises PosrefError."""
    parameters = read_parameters(endpoint.parameters, parse_query(job.query))
    document = table_document(endpoint, parameters)
    request = replace(job.request, revision=revision_of(parameters))
    representation = represent(document, request)
    headers = representation.headers(request, job.path, job.query)
    content_headers, length_bytes = _content_of(representation)
    if length_bytes is None:
        # Without ranges HEAD has the limit of GET.
        check_answer_size(representation, settings)
    else:
        content_headers.append((b"accept-ranges", b"bytes"))
    head = ResponseHead(representation.tag, raw(headers), content_headers, length_bytes)
    return Plan(job, representation, head)


@dataclass(frozen=True)
class Posted:
    """The content of a POST: parameters and arrays, read and checked, and nothing computed yet.

    Attributes:
        job: the request.
    """

    endpoint: Endpoint
    job: Job
    parameters: Parameters
    arguments: tuple[Any, ...]

    def plan(self, settings: Settings) -> Plan | Answer:
        """Compute a report, or plan the response with a document; raises PosrefError.

        Neither is cached. A document is by default in the format of the request body. It has no
        entity tag: hashing a million positions would take a third of a second.
        """
        headers = {"Cache-Control": "no-store"}
        answer = self.endpoint.answer(self.parameters, *self.arguments)
        if not isinstance(answer, Document):
            headers = {"Content-Type": JSON.media_type} | headers
            return Answer(200, raw(headers), answer.json_bytes())
        revision = revision_of(self.parameters) if self.endpoint.has_get else None
        request = replace(self.job.request, revision=revision)
        representation = represent(answer, request)
        check_answer_size(representation, settings, has_ranges=False)
        headers |= array_headers(answer) | representation.vary(request)
        head = ResponseHead("", raw(headers), *_content_of(representation))
        return Plan(self.job, representation, head)


def read_post(endpoint: Endpoint, job: Job, form: ReadableFormat, body: Block) -> Posted:
    """Read the body of a POST in a format, and its query; raises PosrefError."""
    inputs = endpoint.inputs
    values, content = inputs.read(form, body)
    parameters = read_parameters(endpoint.parameters, _merged(parse_query(job.query), values))
    return Posted(endpoint, job, parameters, inputs.arguments(parameters, content))


def table_document(endpoint: Endpoint, parameters: Parameters) -> Document:
    """Return the document of an endpoint without inputs; raises InvalidParameters."""
    document = endpoint.answer(parameters)
    assert isinstance(document, Document)
    return document


def revision_of(parameters: Parameters) -> int | None:
    """Return the value of the parameter ``revision``; None if absent or not a parameter."""
    revision: int | None = getattr(parameters, "revision", None)
    return revision


def _content_of(representation: Representation) -> tuple[RawHeaders, int | None]:
    return raw(representation.content_headers()), representation.body.length_bytes


def _merged(query: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of query and body; raises InvalidParameters if one is in both."""
    for name in query:
        if name in values:
            places = ", in the query and in the body"
            raise InvalidParameters(given_twice(name, query[name], places))
    return {**query, **values}
