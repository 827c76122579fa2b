"""Answer requests: read parameters and body, plan the response, and deliver it.

Short queries are parsed on the event loop; everything else runs on a worker thread, and its cost is
estimated before it begins. When a client disconnects, its request is cancelled.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.delivery.budget import Grant
from service.delivery.dispatch import Delivery
from service.delivery.endpoints import Endpoint
from service.delivery.negotiation import RepresentationRequest
from service.delivery.openapi.operations import get_operation, post_operation, with_extension
from service.delivery.parameters import NoParameters, parse_query, read_parameters
from service.delivery.plans import Plan, Posted, plan_get, read_post
from service.delivery.responses import Answer
from service.delivery.schedule import SHORT_SECONDS, cancel_on_disconnect
from service.errors import BodyTooLarge, UnsupportedMediaType, shortened
from service.formats.format import ReadableFormat
from service.formats.json_text import JSON
from service.settings import Settings

EXTENSION = ".{extension}"

# Parsing a longer query takes more than a few milliseconds of the event loop.
_SHORT_QUERY_BYTES = 4096

# The processor seconds of parsing a byte of a list of numbers, and of copying a byte.
_TEXT_BYTE_SECONDS = 2e-7
_BYTE_SECONDS = 5e-10

# Bytes of memory for each byte of a list of numbers, measured for "0.1,": the text, the Python
# objects and the elements of the array.
_TEXT_WEIGHT = 12

# The largest copy, in bytes, that is made on the event loop.
_SEGMENT_BYTES = 2**20


@dataclass(frozen=True)
class Handler:
    """Handles the GET, HEAD and POST requests of an endpoint."""

    endpoint: Endpoint
    delivery: Delivery

    async def get(self, request: Request) -> Response:
        delivery, scope = self.delivery, request.scope
        path, query = scope["path"], scope["query_string"]
        wanted, settings = RepresentationRequest.of(request), delivery.settings
        planned = partial(plan_get, self.endpoint, path, query, wanted, settings)

        async def answer() -> Response:
            if len(query) <= _SHORT_QUERY_BYTES:
                plan = planned()
            else:
                seconds = reading_seconds(len(query), is_text=True)
                plan = await delivery.scheduler.run(planned, seconds)
            return await delivery.answer(scope, plan)

        return await cancel_on_disconnect(request.receive, answer())

    async def post(self, request: Request) -> Response:
        inputs = self.endpoint.inputs
        wanted = RepresentationRequest.of(request)
        query = parse_query(request.scope["query_string"])
        if not inputs.has_parameters:
            read_parameters(self.endpoint.parameters, query)
        form = format_of_body(request, inputs.formats)
        grant = self.delivery.budget.grant("bodies", 0)
        try:
            body = await receive_body(request, form, self.delivery.settings, grant)
            answering = self._answered(request, form, body, replace(wanted, default=form))
            answer = await cancel_on_disconnect(request.receive, answering)
        except BaseException:
            grant.release()
            raise
        return _ReleasingResponse(answer, grant)

    async def _answered(
        self,
        request: Request,
        form: ReadableFormat,
        body: "ReceivedBody",
        wanted: RepresentationRequest,
    ) -> Response:
        """Return the response to a POST; a short answer is planned where the body is parsed."""
        scheduler, settings = self.delivery.scheduler, self.delivery.settings
        query = request.scope["query_string"]

        def read() -> tuple[Plan | Answer | None, Posted]:
            posted = read_post(self.endpoint, form, body.take(), query)
            is_short = posted.seconds <= SHORT_SECONDS
            return posted.plan(wanted, settings) if is_short else None, posted

        seconds = reading_seconds(body.length_bytes, is_text=form.is_text)
        plan, posted = await scheduler.run(read, seconds)
        body.grant.resize(max(body.grant.size_bytes, posted.held_bytes))
        if plan is None:
            plan = await scheduler.run(lambda: posted.plan(wanted, settings), posted.seconds)
        return await self.delivery.answer_uncached(plan) if isinstance(plan, Plan) else plan


class _ReleasingResponse(Response):
    """A response that releases the memory of its request after it has been sent."""

    def __init__(self, answer: Response, grant: Grant) -> None:
        self.background = None
        self._answer = answer
        self._grant = grant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        finally:
            self._grant.release()


def add_endpoint(app: FastAPI, endpoint: Endpoint, delivery: Delivery) -> None:
    """Add the routes of an endpoint; documents also have routes with an extension."""
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
    """Add GET and HEAD routes for a page without parameters."""

    async def get(request: Request) -> Response:
        read_parameters(NoParameters, parse_query(request.scope["query_string"]))
        return await page(request)

    app.add_api_route(path, get, methods=["GET"], **documentation)
    app.add_api_route(path, get, methods=["HEAD"], include_in_schema=False)


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


def reading_seconds(length_bytes: int, *, is_text: bool) -> float:
    """Return the processor seconds of parsing a query or a body."""
    return length_bytes * (_TEXT_BYTE_SECONDS if is_text else _BYTE_SECONDS)


class ReceivedBody:
    """A request body, received in segments; only a worker thread may join long ones."""

    def __init__(self, grant: Grant) -> None:
        self.grant = grant
        self.length_bytes = 0
        self._segments: list[bytes] = []
        self._newest = bytearray()

    def add(self, chunk: bytes) -> None:
        """Append received bytes; small chunks are joined to save memory."""
        self.length_bytes += len(chunk)
        self._newest += chunk
        if len(self._newest) >= _SEGMENT_BYTES:
            self._segments.append(bytes(self._newest))
            self._newest.clear()

    def take(self) -> bytes:
        """Return the whole body and release its segments."""
        segments, self._segments = [*self._segments, bytes(self._newest)], []
        self._newest = bytearray()
        return b"".join(segments)


async def receive_body(
    request: Request, form: ReadableFormat, settings: Settings, grant: Grant
) -> ReceivedBody:
    """Receive a request body and count its memory, in advance if Content-Length is sent.

    Raises:
        BodyTooLarge: the body is longer than the limit of its format.
        Overloaded: the bodies of other requests already use the allowed memory.
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
    grant.resize(int(announced) * weight)
    body = ReceivedBody(grant)
    async for chunk in request.stream():
        body.add(chunk)
        if body.length_bytes > limit:
            raise too_large
        grant.resize(max(grant.size_bytes, body.length_bytes * weight))
    return body
