"""Answer requests: read parameters and body, plan the response, and send it from cache or worker.

Short queries are parsed on the event loop; everything else runs on a worker thread, and its cost is
estimated before it begins. The length of a request body is limited while it is received, and its
memory is counted until the response has been sent. When a client disconnects, its request is
cancelled.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.delivery.cache import BodyCache, ResponseCache
from service.delivery.endpoints import Endpoint, Report
from service.delivery.negotiation import RawHeaders, RepresentationRequest, raw
from service.delivery.openapi.operations import get_operation, post_operation, with_extension
from service.delivery.parameters import NoParameters, given_twice, parse_query, read_parameters
from service.delivery.representation import (
    Representation,
    array_headers,
    check_answer_size,
    represent,
)
from service.delivery.responses import Answer, CachedBody, Preconditions, ResponseHead, Span
from service.delivery.telemetry.log import LineWriter
from service.delivery.telemetry.metrics import Metrics, Reading, SharedCounts
from service.delivery.telemetry.traffic import RequestLog, Tallies
from service.delivery.workers import SHORT_WORK, BodyMemory, Gate, Workers, cancel_on_disconnect
from service.encodings.family import Parameters
from service.errors import BodyTooLarge, InvalidParameters, UnsupportedMediaType, shortened
from service.formats.format import BLOCK_BYTES, Block, Body, ReadableFormat
from service.formats.json_text import JSON
from service.numerics.tables import Document
from service.settings import Settings

EXTENSION = ".{extension}"

# Parsing a longer query takes more than a few milliseconds of the event loop.
_SHORT_QUERY_BYTES = 4096

# The cost of parsing one byte of a list of numbers, in sines.
_TEXT_WORK = 16

# Bytes of memory for each byte of a list of numbers, measured for "0.1,": the text, the Python
# objects and the elements of the array.
_TEXT_WEIGHT = 12

# The largest copy, in bytes, that is made on the event loop.
_SEGMENT_BYTES = 2**20


STATE = "delivery"
"""The key of the Delivery in the ASGI lifespan state, where the server looks it up."""

MAX_BUILD_WORK = 2**24
"""The highest cost, in sines, of a body that is built whole and cached."""
MAX_HELD_BYTES = 4 * BLOCK_BYTES
"""The longest body, in bytes, that is sent in one piece.

A slow client keeps such a body in memory even after its eviction from the cache.
"""


@dataclass
class Readiness:
    """The answer to readiness probes: a draining process is not ready, but it answers requests."""

    is_draining: bool = False


@dataclass(frozen=True)
class Plan:
    """A planned response: its headers are known, and no table element has been computed.

    Attributes:
        takes_chunks: whether the client accepts a body without Content-Length.
    """

    representation: Representation
    head: ResponseHead
    takes_chunks: bool


@dataclass(frozen=True)
class Delivery:
    """The settings, caches, workers, metrics and log of one process."""

    settings: Settings
    cache: BodyCache
    response_cache: ResponseCache
    workers: Workers
    tallies: Tallies
    metrics: Metrics
    readiness: Readiness
    log: RequestLog
    gate: Gate

    @classmethod
    def of(
        cls,
        settings: Settings,
        shared: SharedCounts | None = None,
        writer: LineWriter | None = None,
    ) -> "Delivery":
        """Create the Delivery of a process; the response cache gets 1/16 of ``cache_bytes``."""
        headers_bytes = settings.cache_bytes // 16
        cache = BodyCache(settings.cache_bytes - headers_bytes)
        gate = Gate(settings)
        workers = Workers(settings.threads, gate)
        watched: dict[str, Callable[[], Reading]] = {
            "posref_builds": lambda: cache.builds,
            "posref_build_seconds": lambda: cache.build_durations,
            "posref_cache_hits": lambda: cache.hits,
            "posref_cache_misses": lambda: cache.misses,
            "posref_cache_evictions": lambda: cache.bodies.evictions,
            "posref_cache_bytes": lambda: cache.bodies.size_bytes,
            "posref_cache_capacity_bytes": lambda: cache.bodies.capacity_bytes,
            "posref_waiting_work": workers.waiting_by_lane,
            "posref_refused": lambda: gate.refusals,
            "posref_held_body_bytes": lambda: gate.held_body_bytes,
            "posref_log_lines_dropped": lambda: writer.dropped if writer else 0,
        }
        tallies, log = Tallies(), RequestLog(writer, settings)
        metrics = Metrics(tallies, watched, shared)
        response_cache = ResponseCache(headers_bytes, cache, tallies, log)
        return cls(
            settings, cache, response_cache, workers, tallies, metrics, Readiness(), log, gate
        )

    def plan(self, scope: Scope, document: Document, request: RepresentationRequest) -> Plan:
        """Plan the response to a GET or HEAD, in any thread; raises PosrefError."""
        representation = represent(document, request)
        headers = representation.headers(request, scope["path"], scope["query_string"])
        content_headers, length_bytes = _content_of(representation)
        if length_bytes is None:
            # Without ranges HEAD has the limit of GET.
            check_answer_size(representation, self.settings)
        else:
            content_headers.append((b"accept-ranges", b"bytes"))
        head = ResponseHead(representation.tag, raw(headers), content_headers, length_bytes)
        return Plan(representation, head, request.takes_chunks)

    def plan_uncached(self, document: Document, request: RepresentationRequest) -> Plan:
        """Plan the response to a POST, by default in the format of the request body.

        It has no entity tag: hashing a million positions would take a third of a second.
        """
        representation = represent(document, request)
        check_answer_size(representation, self.settings, has_ranges=False)
        headers = {
            "Cache-Control": "no-store",
            **array_headers(document),
            **representation.vary(request),
        }
        head = ResponseHead("", raw(headers), *_content_of(representation))
        return Plan(representation, head, request.takes_chunks)

    async def answer(self, scope: Scope, plan: Plan) -> Answer:
        """Return the response to a GET or HEAD; HEAD and 304 responses compute no body."""
        representation, head = plan.representation, plan.head
        preconditions = Preconditions.of(scope)
        bodiless = head.without_body(preconditions)
        if bodiless is not None:
            return bodiless
        span = head.span(preconditions)
        if span is None:
            check_answer_size(representation, self.settings)
        else:
            span = span.within(self.settings.max_response_bytes)
        if not self._is_cacheable(representation):
            return await self.answer_uncached(plan, span)
        cached = await self._cached_body(representation)
        length_bytes = len(cached.body)
        if length_bytes > MAX_HELD_BYTES:
            part = span or Span(0, length_bytes)
            return head.cached(span, cached, self._pieces(representation, part))
        if length_bytes <= self.settings.max_response_bytes:
            self.response_cache.keep(scope, head, cached)
        return head.cached(span, cached)

    async def answer_uncached(self, plan: Plan, span: Span | None = None) -> Answer:
        """Return a response that is not cached.

        A short body is computed whole first, a long one while it is sent.
        """
        representation, head = plan.representation, plan.head
        blocks = representation.body.blocks(*((span.start, span.stop) if span else ()))
        cost = representation.cost(span.length_bytes if span else None)
        if cost <= SHORT_WORK:
            cost += representation.document.setup_work
            return head.streamed(span, await self.workers.run(lambda: b"".join(blocks), cost))
        is_drawn = representation.form.is_drawn
        first = await self.workers.begin(blocks, drawn=is_drawn)
        if representation.length_bytes is not None or plan.takes_chunks:
            return head.streamed(span, first, representation.length_bytes)
        # The body is computed twice, first for Content-Length, so that it is never whole in memory.
        again = self.workers.iterate(representation.body.blocks(), drawn=is_drawn)
        return head.streamed(span, again, counted=first)

    async def _pieces(
        self, representation: Representation, part: Span
    ) -> AsyncGenerator[Block, None]:
        """Yield a range of a cached body in pieces; after its eviction, compute the rest.

        A slow client keeps only one piece in memory.
        """
        for start in range(part.start, part.stop, BLOCK_BYTES):
            piece = self._cached_piece(representation.tag, start, part.stop)
            if piece is None:
                blocks = _rest(representation.body, start, part.stop)
                rest = self.workers.iterate(blocks, drawn=representation.form.is_drawn)
                async with aclosing(rest) as computed:
                    async for block in computed:
                        yield block
                        del block
                return
            yield piece
            del piece

    def _cached_piece(self, tag: str, start: int, stop: int) -> Block | None:
        cached = self.cache.bodies.get(tag)
        return None if cached is None else cached.body[start : min(start + BLOCK_BYTES, stop)]

    async def _cached_body(self, representation: Representation) -> CachedBody:
        return await self.cache.get(representation.tag, partial(self._build, representation))

    def _is_cacheable(self, representation: Representation) -> bool:
        """Return whether a body is small and cheap enough to be built and cached whole."""
        limit_bytes = representation.file.limit_bytes
        return (
            limit_bytes <= self.settings.cache_entry_bytes
            and self.cache.has_room_for(representation.tag, limit_bytes)
            and representation.cost() <= MAX_BUILD_WORK
        )

    async def _build(self, representation: Representation) -> CachedBody:
        """Compute a body; gzip and digest read the plain body from the cache."""
        cost, before = representation.cost(), representation.document.setup_work
        if representation.transform is None:
            blocks = representation.file.blocks()
        else:
            file = await self._cached_body(representation.plain())
            blocks, cost, before = representation.transform([file.body]), len(file.body), 0
        if cost <= SHORT_WORK:
            return await self.workers.run(partial(CachedBody.of, blocks), before + cost)
        return await self.workers.collect(blocks, CachedBody.of, drawn=representation.form.is_drawn)


def _content_of(representation: Representation) -> tuple[RawHeaders, int | None]:
    return raw(representation.content_headers()), representation.body.length_bytes


def _rest(body: Body, start: int, stop: int) -> Iterator[Block]:
    """Yield the bytes start to stop of a body; without known length, yield start to the end.

    A body without known length is computed from its beginning.
    """
    if body.length_bytes is not None:
        yield from body.blocks(start, stop)
        return
    passed_bytes = 0
    for block in body.blocks():
        yield memoryview(block)[max(0, start - passed_bytes) :]
        passed_bytes += len(block)


@dataclass(frozen=True)
class Handler:
    """Handles the GET, HEAD and POST requests of an endpoint."""

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
        memory = BodyMemory(self.delivery.gate)
        try:
            body = await receive_body(request, form, self.delivery.settings, memory)
            answering = self._answered(form, body, query, representation)
            answer = await cancel_on_disconnect(request.receive, answering)
        except BaseException:
            memory.release()
            raise
        return _ReleasingResponse(answer, memory)

    async def _answered(
        self,
        form: ReadableFormat,
        body: "ReceivedBody",
        query: Mapping[str, str],
        representation: RepresentationRequest,
    ) -> Response:
        """Return the response to a POST; a short answer is planned where the body is parsed."""
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
        body.memory.grow(held_bytes)
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
            return _report_response(answer)
        revision = revision_of(parameters) if self.endpoint.has_get else None
        return self.delivery.plan_uncached(answer, replace(representation, revision=revision))


def table_document(endpoint: Endpoint, parameters: Parameters) -> Document:
    """Return the document of an endpoint without inputs; raises InvalidParameters."""
    document = endpoint.answer(parameters)
    assert isinstance(document, Document)
    return document


def revision_of(parameters: Parameters) -> int | None:
    """Return the value of the parameter ``revision``; None if absent or not a parameter."""
    revision: int | None = getattr(parameters, "revision", None)
    return revision


def _report_response(report: Report) -> Answer:
    """Return the response with a report as JSON; it is never cached."""
    headers = {"Content-Type": JSON.media_type, "Cache-Control": "no-store"}
    return Answer(200, raw(headers), report.json_bytes())


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
        read_parameters(NoParameters, query_of(request))
        return await page(request)

    app.add_api_route(path, get, methods=["GET"], **documentation)
    app.add_api_route(path, get, methods=["HEAD"], include_in_schema=False)


def query_of(request: Request) -> dict[str, str]:
    """Return the parameters of the query; raises InvalidParameters."""
    return parse_query(request.scope["query_string"])


def _merged(query: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of query and body; raises InvalidParameters if one is in both."""
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
    """Return the cost of parsing a query or a body, in sines."""
    return length_bytes * (_TEXT_WORK if is_text else 1)


class ReceivedBody:
    """A request body, received in segments; only a worker thread may join long ones."""

    def __init__(self, memory: BodyMemory) -> None:
        self.memory = memory
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
    request: Request, form: ReadableFormat, settings: Settings, memory: BodyMemory
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
    memory.grow(int(announced) * weight)
    body = ReceivedBody(memory)
    async for chunk in request.stream():
        body.add(chunk)
        if body.length_bytes > limit:
            raise too_large
        memory.grow(body.length_bytes * weight)
    return body


class _ReleasingResponse(Response):
    """A response that releases the BodyMemory of its request after it has been sent."""

    def __init__(self, answer: Response, memory: BodyMemory) -> None:
        self.background = None
        self._answer = answer
        self._memory = memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        finally:
            self._memory.release()
