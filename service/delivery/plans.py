"""Plans: what a request asks for, with its headers, before a table element is computed.

The functions here are synchronous and know no connection, so that the event loop, a worker thread
and a child process plan in the same way.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from service.delivery.endpoints import Endpoint, RawArray, Report, revision_of, table_document
from service.delivery.negotiation import (
    TEXT_MEDIA_TYPE,
    Job,
    RawHeaders,
    prefers_text,
    raw,
)
from service.delivery.parameters import given_twice, parse_query, read_parameters
from service.delivery.representation import (
    Representation,
    array_headers,
    cache_control,
    check_answer_size,
    represent,
)
from service.delivery.responses import Answer, ResponseHead, WholeFile
from service.encodings.family import Parameters, refuse
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.formats.format import MAX_RANK, ArrayHeader, Block, ReadableFormat
from service.formats.json_text import JSON
from service.formats.raw import RAW
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
    headers = representation.headers(request, job.path, job.query, settings)
    content_headers, length_bytes = _content_of(representation)
    if length_bytes is None:
        # Without ranges HEAD has the limit of GET.
        check_answer_size(representation, settings, job)
    else:
        content_headers.append((b"accept-ranges", b"bytes"))
    head = ResponseHead(representation.tag, raw(headers), content_headers, length_bytes)
    return Plan(job, representation, head)


def report_cost(endpoint: Endpoint, job: Job) -> tuple[float, int]:
    """Return the processor seconds and the memory of a GET of a report; raises PosrefError."""
    parameters = read_parameters(endpoint.parameters, parse_query(job.query))
    return parameters.planning_seconds, parameters.planning_bytes


def report_get(endpoint: Endpoint, job: Job, settings: Settings) -> tuple[ResponseHead, bytes]:
    """Return the response to a GET or HEAD of a report, and its body; raises PosrefError."""
    parameters = read_parameters(endpoint.parameters, parse_query(job.query))
    body, media_type = _sent(endpoint.answer_to(parameters, (), settings), job)
    headers = {"Content-Type": media_type, "Cache-Control": cache_control(None, None)}
    file = WholeFile(body, {**headers, "Vary": "Accept, Accept-Encoding"})
    return file.response(job.request.accept_encoding)


def _sent(report: Document | Report, job: Job) -> tuple[bytes, str]:
    """Return a report and its media type: JSON, or text where Accept prefers it."""
    assert isinstance(report, Report)
    if prefers_text(job.request.accept):
        return report.text().encode(), TEXT_MEDIA_TYPE
    return report.json_bytes(), JSON.media_type


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

        Neither is cached. A report is JSON, or text where Accept prefers it. A document is by
        default in the format of the request body. It has no entity tag: hashing a million positions
        would take a third of a second.
        """
        headers = {"Cache-Control": "no-store"}
        answer = self.endpoint.answer_to(self.parameters, self.arguments, settings)
        if not isinstance(answer, Document):
            body, headers["Content-Type"] = _sent(answer, self.job)
            return Answer(200, raw(headers), body)
        revision = revision_of(self.parameters) if self.endpoint.has_get else None
        request = replace(self.job.request, revision=revision)
        representation = represent(answer, request)
        check_answer_size(representation, settings, self.job)
        headers |= array_headers(answer) | representation.vary(request)
        head = ResponseHead("", raw(headers), *_content_of(representation))
        return Plan(self.job, representation, head)


def read_post(
    endpoint: Endpoint, job: Job, query: Mapping[str, str], form: ReadableFormat, body: Block
) -> Posted:
    """Read the body of a POST, with what ``read_query`` returned of it; raises PosrefError."""
    inputs = endpoint.inputs
    values, content = inputs.read(form, body)
    parameters = read_parameters(endpoint.parameters, _merged(query, values))
    return Posted(endpoint, job, parameters, inputs.arguments(parameters, content))


@contextmanager
def named_arrays(job: Job) -> Iterator[None]:
    """Make problems name arrays of a body that is not JSON, and so has no pointers."""
    try:
        yield
    except InvalidBody as error:
        if job.media_type != JSON.media_type:
            error.faults = tuple(
                replace(fault, where=fault.where[1:], in_body=False) if fault.where else fault
                for fault in error.faults
            )
        raise


def read_query(
    endpoint: Endpoint, form: ReadableFormat, text: bytes
) -> tuple[Mapping[str, str], ReadableFormat]:
    """Return the parameters in the query of a POST, and the format with the header from the query.

    Raises InvalidParameters, also where the query has a header and the body has one of its own.
    """
    query = parse_query(text)
    if not endpoint.inputs.has_parameters:
        read_parameters(endpoint.parameters, query)
    own, header = endpoint.parameters.model_fields, endpoint.raw_array
    given = {name: value for name, value in query.items() if name in header}
    if form.with_header is None:
        rule = f"goes with Content-Type {RAW.media_type}, and the body is {form.name}: leave it out"
        unused = [name for name in given if not (form.is_text and name in own)]
        if form.is_text and "shape" in unused:
            rule += " (the shape of a flat x goes into the JSON)"
        refuse([Fault(name, shortened(given[name]), f"{name} {rule}") for name in unused])
        return query, form
    missing = (name for name in header if name not in given)
    refuse([Fault(name, None, _required(name, header[name])) for name in missing])
    # To parse 64 kB of numbers takes 50 ms of the event loop.
    if given["shape"].count(",") >= MAX_RANK:
        rule = f"shape must be at most {MAX_RANK} lengths, with commas between them"
        refuse([Fault("shape", shortened(given["shape"]), rule)])
    array = read_parameters(RawArray, given)
    rest = {name: value for name, value in query.items() if name not in given}
    return rest, form.with_header(ArrayHeader(array.shape, str(array.x_dtype or array.dtype)))


def _required(name: str, example: str) -> str:
    meaning = str(RawArray.model_fields[name].description).removesuffix(".")
    return f"{name} is required, as in {name}={example}: {meaning[0].lower()}{meaning[1:]}"


def _content_of(representation: Representation) -> tuple[RawHeaders, int | None]:
    return raw(representation.content_headers()), representation.body.length_bytes


def _merged(query: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of query and body; raises InvalidParameters if one is in both."""
    for name in query:
        if name in values:
            places = ", in the query and in the body"
            raise InvalidParameters(given_twice(name, query[name], places))
    return {**query, **values}
