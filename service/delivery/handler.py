"""The handler of every endpoint: read a request, resolve it, plan the answer, and answer.

Short work runs on the event loop; everything else runs on a worker thread, at a price that is
known before it begins. A body is bounded while it arrives, and its memory is counted until its
answer has been sent. A request whose client disconnects is cancelled.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.delivery.endpoints import Endpoint, revision_of, table_document
from service.delivery.negotiation import RepresentationRequest, raw
from service.delivery.openapi.operations import get_operation, post_operation, with_extension
from service.delivery.parameters import NoParameters, given_twice, parse_query, read_parameters
from service.delivery.reports import Report
from service.delivery.respond import Delivery, Plan
from service.delivery.responses import Answer
from service.delivery.workers import SHORT_WORK, Held, cancel_on_disconnect
from service.encodings.family import Parameters
from service.errors import BodyTooLarge, InvalidParameters, UnsupportedMediaType, shortened
from service.formats.format import ReadableFormat
from service.formats.json_text import JSON
from service.numerics.tables import Document
from service.settings import Settings

EXTENSION = ".{extension}"

# Parsing a longer query takes more than a few milliseconds of the event loop.
_SHORT_QUERY_BYTES = 4096

# The work of parsing a byte of a list of numbers, in sines.
_TEXT_WORK = 16

# The memory that a byte of such a list takes, measured for "0.1,": as text, as an object in a list
# and as an element of an array.
_TEXT_WEIGHT = 12

# The most that is copied at once on the event loop.
_SEGMENT_BYTES = 2**20


@dataclass(frozen=True)
class Handler:
    """Answers the requests to an endpoint."""

    endpoint: Endpoint
    delivery: Delivery

    async def get(self, request: Request) -> Response:
        delivery, length_bytes = self.delivery, len(request.scope["query_string"])

        async def answer() -> Response:
            if length_bytes <= _SHORT_QUERY_BYTES:
                plan = self._planned_get(request)
            else:
                planned = partial(self._planned_get, request)
                work = reading_work(length_bytes, is_text=True)
                plan = await delivery.workers.run(planned, work)
            return await delivery.answer(request.scope, plan)

        return await cancel_on_disconnect(request.receive, answer())

    def _planned_get(self, request: Request) -> Plan:
        representation = RepresentationRequest.of(request)
        parameters = read_parameters(self.endpoint.parameters, query_of(request))
        document = table_document(self.endpoint, parameters)
        representation = replace(representation, revision=revision_of(parameters))
        return self.delivery.plan(request.scope, document, representation)

    async def post(self, request: Request) -> Response:
        inputs = self.endpoint.inputs
        representation, query = RepresentationRequest.of(request), query_of(request)
        if not inputs.has_parameters:
            read_parameters(self.endpoint.parameters, query)
        form = format_of_body(request, inputs.formats)
        representation = replace(representation, default=form)
        held = Held(self.delivery.gate)
        try:
            body = await receive_body(request, form, self.delivery.settings, held)
            answering = self._answered(form, body, query, representation)
            answer = await cancel_on_disconnect(request.receive, answering)
        except BaseException:
            held.release()
            raise
        return _ReleasingResponse(answer, held)

    async def _answered(
        self,
        form: ReadableFormat,
        body: "ReceivedBody",
        query: Mapping[str, str],
        representation: RepresentationRequest,
    ) -> Response:
        """Answer a body: what it holds decides whether the answer is planned with the reading."""
        workers, inputs = self.delivery.workers, self.endpoint.inputs

        def resolve() -> tuple[Plan | Response | Callable[[], Plan | Response], int]:
            values, content = inputs.read(form, body.take())
            parameters = read_parameters(self.endpoint.parameters, _merged(query, values))
            arguments = inputs.arguments(parameters, content)
            plan = partial(self._planned_post, parameters, arguments, representation)
            is_short = inputs.cost(content) <= SHORT_WORK
            return plan() if is_short else plan, inputs.held_bytes(content)

        work = reading_work(body.length_bytes, is_text=form.is_text)
        plan, held_bytes = await workers.run(resolve, work)
        body.held.grow(held_bytes)
        if not isinstance(plan, Plan | Response):
            plan = await workers.run(plan, SHORT_WORK + 1)
        return await self.delivery.answer_uncached(plan) if isinstance(plan, Plan) else plan

    def _planned_post(
        self,
        parameters: Parameters,
        arguments: tuple[Any, ...],
        representation: RepresentationRequest,
    ) -> Plan | Response:
        answer = self.endpoint.answer(parameters, *arguments)
        if not isinstance(answer, Document):
            return report_response(answer)
        revision = revision_of(parameters) if self.endpoint.has_get else None
        return self.delivery.plan_uncached(answer, replace(representation, revision=revision))


def report_response(report: Report) -> Answer:
    """Return the response with a report as JSON; it is never cached."""
    headers = {"Content-Type": JSON.media_type, "Cache-Control": "no-store"}
    return Answer(200, raw(headers), report.json_bytes())


def add_endpoint(app: FastAPI, endpoint: Endpoint, delivery: Delivery) -> None:
    """Add the routes of an endpoint; those of documents exist with and without an extension."""
    handler = Handler(endpoint, delivery)
    get = get_operation(endpoint) if endpoint.has_get else None
    post = post_operation(endpoint)
    for suffix in ("", EXTENSION) if endpoint.report is None else ("",):
        path = endpoint.path + suffix
        if get is not None:
            shown = with_extension(endpoint, get) if suffix else get
            app.add_api_route(path, handler.get, methods=["GET"], **shown)
            app.add_api_route(path, handler.get, methods=["HEAD"], include_in_schema=False)
        shown = with_extension(endpoint, post) if suffix else post
        app.add_api_route(path, handler.post, methods=["POST"], **shown)


def add_page(
    app: FastAPI,
    path: str,
    page: Callable[[Request], Awaitable[Response]],
    **documentation: Any,
) -> None:
    """Add the routes of a page, which takes no parameters: GET and HEAD."""

    async def get(request: Request) -> Response:
        read_parameters(NoParameters, query_of(request))
        return await page(request)

    app.add_api_route(path, get, methods=["GET"], **documentation)
    app.add_api_route(path, get, methods=["HEAD"], include_in_schema=False)


def query_of(request: Request) -> dict[str, str]:
    """Return the parameters of the query; raises InvalidParameters."""
    return parse_query(request.scope["query_string"])


def _merged(query: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Join the parameters of the query and of the body; none may be in both."""
    for name in query:
        if name in values:
            places = ", in the query and in the body"
            raise InvalidParameters(given_twice(name, query[name], places))
    return {**query, **values}


def format_of_body(request: Request, formats: Mapping[str, ReadableFormat]) -> ReadableFormat:
    """Return the format that Content-Type names; raises UnsupportedMediaType."""
    coding = request.headers.get("content-encoding", "identity")
    if coding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            f"Content-Encoding is {shortened(coding)}: send the body without a content coding"
        )
    media_type = request.headers.get("content-type", "")
    form = formats.get(media_type.partition(";")[0].strip().lower())
    if form is None:
        raise UnsupportedMediaType(
            f"Content-Type is {shortened(media_type) or 'missing'}: send {' or '.join(formats)}"
        )
    return form


def reading_work(length_bytes: int, *, is_text: bool) -> int:
    """Return the work of reading a query or a body, in sines."""
    return length_bytes * (_TEXT_WORK if is_text else 1)


class ReceivedBody:
    """A body in segments: only a worker thread joins megabytes.

    Attributes:
        held: counts the memory of the body.
        length_bytes: the bytes received so far.
    """

    def __init__(self, held: Held) -> None:
        self.held = held
        self.length_bytes = 0
        self._segments: list[bytes] = []
        self._newest = bytearray()

    def add(self, chunk: bytes) -> None:
        """Add received bytes; small chunks take no more memory than their bytes."""
        self.length_bytes += len(chunk)
        self._newest += chunk
        if len(self._newest) >= _SEGMENT_BYTES:
            self._segments.append(bytes(self._newest))
            self._newest.clear()

    def take(self) -> bytes:
        """Return the whole body, and forget it."""
        segments, self._segments = [*self._segments, bytes(self._newest)], []
        self._newest = bytearray()
        return b"".join(segments)


async def receive_body(
    request: Request, form: ReadableFormat, settings: Settings, held: Held
) -> ReceivedBody:
    """Receive a body; refuse it as soon as it is known to be too long.

    Args:
        request: the request.
        form: the format of the body.
        settings: the limits.
        held: counts the memory of the body, in advance where Content-Length announces it.

    Raises:
        BodyTooLarge: the body is longer than the limit of its format.
        Overloaded: other bodies leave no room for it.
    """
    if form is JSON:
        limit, name = settings.max_json_body_bytes, "POSREF_MAX_JSON_BODY_BYTES"
    else:
        limit, name = settings.max_body_bytes, "POSREF_MAX_BODY_BYTES"
    too_large = BodyTooLarge(f"the body is longer than {limit} bytes ({name})")
    announced = request.headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit() or int(announced) > limit:
        raise too_large
    weight = _TEXT_WEIGHT if form.is_text else 1
    held.grow(int(announced) * weight)
    body = ReceivedBody(held)
    async for chunk in request.stream():
        body.add(chunk)
        if body.length_bytes > limit:
            raise too_large
        held.grow(body.length_bytes * weight)
    return body


class _ReleasingResponse(Response):
    """A response that releases the memory counted for its request once it has been sent."""

    def __init__(self, answer: Response, held: Held) -> None:
        self.background = None
        self._answer = answer
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        finally:
            self._held.release()
