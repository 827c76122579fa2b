"""Answer requests: read parameters and body, plan the response, and deliver it.

Short queries are parsed on the event loop; everything else runs on a worker thread, and its cost is
estimated before it begins. When a client disconnects, its request is cancelled.
"""

import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from mmap import ACCESS_READ, mmap
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from service.delivery.budget import Budget
from service.delivery.children import memory_file
from service.delivery.clients import ordered_client
from service.delivery.dispatch import Delivery, needs_child
from service.delivery.endpoints import Endpoint
from service.delivery.negotiation import Job, RepresentationRequest
from service.delivery.parameters import NoParameters, parse_query, read_parameters
from service.delivery.plans import (
    Plan,
    Posted,
    named_arrays,
    plan_get,
    read_post,
    read_query,
    report_cost,
    report_get,
)
from service.delivery.responses import Answer, Preconditions
from service.delivery.schedule import SHORT_SECONDS, cancel_on_disconnect
from service.errors import BodyTooLarge, UnsupportedMediaType, shortened
from service.formats.format import Block, ReadableFormat
from service.formats.json_text import JSON
from service.lazily import MadeOnDemand
from service.settings import Settings

EXTENSION = ".{extension}"

# Parsing a longer query, as of ranges of positions, takes more than 2 ms of the event loop.
_SHORT_QUERY_BYTES = 2048

QUERY_BYTE_SECONDS = 2e-7
"""The processor seconds of planning for a byte of a query with a list of positions."""

# The processor seconds of parsing a byte of a list of numbers.
_TEXT_BYTE_SECONDS = 2e-7

# Bytes of memory for each byte of a list of numbers, measured for "0.1,": the text, the Python
# objects and the elements of the array.
_TEXT_WEIGHT = 12

# Longer planning, as of a million sent positions, is a child's, so that no stream waits for it.
_LONGEST_TURN_SECONDS = 0.2

# The usual length of a number, where only the length of a body is known.
_USUAL_ITEM_BYTES = 4

# Reading the header of a longer body, as of a thousand tensors, takes milliseconds.
_SHORT_HEADER_BYTES = 2048

# A longer body is kept in a file.
_SHORT_BODY_BYTES = 64 * 1024


@dataclass(frozen=True)
class Handler:
    """Handles the GET, HEAD and POST requests of an endpoint."""

    endpoint: Endpoint
    delivery: Delivery

    async def get(self, request: Request) -> Answer:
        delivery, job = self.delivery, self._job(request)
        if self.endpoint.by_get is not None:
            made_by_child = self._report_by_child(self.endpoint.by_get, job, request)
            return await cancel_on_disconnect(request.receive, made_by_child)
        if self.endpoint.report is not None:
            made = partial(report_get, self.endpoint, job, delivery.settings)
            head, body = await delivery.scheduler.run(made, SHORT_SECONDS)
            bodiless = head.without_body(Preconditions.of(request.scope))
            return bodiless or head.streamed(None, body)
        planned = partial(plan_get, self.endpoint, job, delivery.settings)

        async def answer() -> Answer:
            if len(job.query) <= _SHORT_QUERY_BYTES:
                plan = planned()
            else:
                plan = await delivery.scheduler.run(planned, len(job.query) * QUERY_BYTE_SECONDS)
            return await delivery.answer(request.scope, plan)

        return await cancel_on_disconnect(request.receive, answer())

    async def _report_by_child(self, endpoint: Endpoint, job: Job, request: Request) -> Answer:
        delivery, cost = self.delivery, partial(report_cost, endpoint, job)
        seconds, memory_bytes = await delivery.scheduler.run(cost, SHORT_SECONDS)
        answer = await delivery.answer_by_child(job, None, seconds, memory_bytes)
        tag = dict(answer.raw_headers).get(b"etag")
        if tag is None or not Preconditions.of(request.scope).is_known(tag.decode()):
            return answer
        lasting = [each for each in answer.raw_headers if not each[0].startswith(b"content-")]
        return Answer(304, lasting)

    async def post(self, request: Request) -> Answer:
        job = self._job(request)
        form = format_of_body(request, self.endpoint)
        job = replace(job, request=replace(job.request, default=form), media_type=form.media_type)
        query, form = read_query(self.endpoint, form, job.query)
        delivery, shorter = self.delivery, self.endpoint.inputs.shorter
        body = ReceivedBody(form, delivery.settings, delivery.budget, shorter)
        try:
            length_bytes = body.announced_bytes(request)
            self._check_wait(form, length_bytes)
            body.expect(length_bytes)
            await body.receive(request)
            with named_arrays(job):
                answering = self._answered(job, query, body)
                answer = await cancel_on_disconnect(request.receive, answering)
        except BaseException:
            body.close()
            raise
        answer.closing.callback(body.close)
        return answer

    def _check_wait(self, form: ReadableFormat, length_bytes: int) -> None:
        """Raise Overloaded before a long body is received, if a child would answer it too late."""
        is_report = self.endpoint.report is not None
        if length_bytes > _SHORT_BODY_BYTES and (is_report or form.is_text):
            seconds = reading_seconds(form, length_bytes)
            if is_report:
                seconds += self.endpoint.inputs.seconds_of(length_bytes // _USUAL_ITEM_BYTES)
            self.delivery.scheduler.children.check(ordered_client(), seconds)

    def _job(self, request: Request) -> Job:
        scope, wanted = request.scope, RepresentationRequest.of(request.scope)
        return Job(self.endpoint.path, scope["path"], scope["query_string"], wanted)

    async def _answered(self, job: Job, query: Mapping[str, str], body: "ReceivedBody") -> Answer:
        """Return the response to a POST, computed on threads in turns, or else by a child."""
        inputs, delivery, content = self.endpoint.inputs, self.delivery, body.content()
        form, reading = body.form, reading_seconds(body.form, body.length_bytes)
        count = partial(inputs.count_elements, form, content)
        is_counted_here = form.is_text or body.length_bytes <= _SHORT_HEADER_BYTES
        elements = (
            count() if is_counted_here else await delivery.scheduler.run(count, SHORT_SECONDS)
        )
        planning, held_bytes = inputs.seconds_of(elements), inputs.held_bytes_of(elements)
        seconds = max(form.byte_seconds * body.length_bytes + planning, reading)
        memory_bytes = held_bytes + (body.length_bytes * _TEXT_WEIGHT if form.is_text else 0)
        by_child = partial(delivery.answer_by_child, job, body.source, memory_bytes=memory_bytes)
        is_report = self.endpoint.report is not None
        if (seconds if is_report else reading) > SHORT_SECONDS or planning > _LONGEST_TURN_SECONDS:
            return await by_child(seconds=seconds)

        def read() -> Posted | Plan | Answer:
            posted = read_post(self.endpoint, job, query, form, content)
            own = posted.parameters.planning_seconds
            return posted.plan(delivery.settings) if planning + own <= SHORT_SECONDS else posted

        body.grant.resize(max(body.grant.size_bytes, held_bytes))
        plan = await delivery.scheduler.run(read, reading)
        if isinstance(plan, Posted):
            planning += plan.parameters.planning_seconds
            if planning > _LONGEST_TURN_SECONDS:
                return await by_child(seconds=seconds + planning)
            plan = await delivery.scheduler.run(partial(plan.plan, delivery.settings), planning)
        if not isinstance(plan, Plan):
            return plan
        seconds += plan.representation.seconds()
        if needs_child(plan.representation, seconds):
            return await by_child(seconds=seconds)
        return await delivery.answer_uncached(plan)


class RequestRoute(APIRoute):
    """A route whose function gets the request as it is.

    For other parameters FastAPI would parse the query first, on the event loop.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


def add_endpoint(
    app: FastAPI,
    path: str,
    endpoints: MadeOnDemand[Endpoint],
    delivery: Delivery,
    *,
    has_get: bool,
    has_post: bool,
    is_report: bool,
) -> None:
    """Add the routes of an endpoint; documents also have routes with an extension."""

    async def handler() -> Handler:
        return Handler(await delivery.scheduler.made(endpoints, path), delivery)

    async def get(request: Request) -> Answer:
        return await (await handler()).get(request)

    async def post(request: Request) -> Answer:
        return await (await handler()).post(request)

    for each in (path,) if is_report else (path, path + EXTENSION):
        if has_get:
            app.add_api_route(each, get, methods=["GET", "HEAD"])
        if has_post:
            app.add_api_route(each, post, methods=["POST"])


def add_page(app: FastAPI, path: str, page: Callable[[Request], Awaitable[Response]]) -> None:
    """Add GET and HEAD routes for a page without parameters."""

    async def get(request: Request) -> Response:
        read_parameters(NoParameters, parse_query(request.scope["query_string"]))
        return await page(request)

    app.add_api_route(path, get, methods=["GET", "HEAD"])


def format_of_body(request: Request, endpoint: Endpoint) -> ReadableFormat:
    """Return the format that Content-Type names; raises UnsupportedMediaType."""
    coding = request.headers.get("content-encoding", "identity")
    if coding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            f"Content-Encoding is {shortened(coding)}: send the body without a content coding"
        )
    header, formats = request.headers.get("content-type", ""), endpoint.inputs.formats
    media_type = header.partition(";")[0].strip().lower()
    form = formats.get(media_type)
    if form is None:
        wants = " or ".join(_choice(each, endpoint) for each in formats.values())
        raise UnsupportedMediaType(
            f"Content-Type is {shortened(header) or 'missing'}{_DEFAULTS.get(media_type, '')}: "
            f"send the header Content-Type: {wants}"
        )
    return form


def _choice(form: ReadableFormat, endpoint: Endpoint) -> str:
    """Return a media type, and what goes with it."""
    if form.with_header is None:
        return form.media_type
    query = "&".join(f"{name}={value}" for name, value in endpoint.raw_array.items())
    return f"{form.media_type} (elements alone, little-endian, with {query} in the query)"


_DEFAULTS = {"application/x-www-form-urlencoded": ", which curl, PHP and Ruby send by default"}


class ReceivedBody:
    """A request body: bytes while it is short, and a file in memory beyond.

    The file is not copied where it is read, nor where a child process gets it.

    Attributes:
        form: its format.
        grant: its memory.
        length_bytes: how much of it has been received.
    """

    def __init__(
        self, form: ReadableFormat, settings: Settings, budget: Budget, shorter: str
    ) -> None:
        self.form = form
        self._shorter = shorter
        self.grant = budget.grant("bodies", 0)
        self.length_bytes = 0
        self._settings = settings
        self._short = bytearray()
        self._file: int | None = None

    def announced_bytes(self, request: Request) -> int:
        """Return Content-Length, 0 without it; raises BodyTooLarge."""
        announced = int(request.headers.get("content-length", "0"))
        self._check(announced)
        return announced

    def expect(self, length_bytes: int) -> None:
        """Grant the memory of a body of this length; raises PosrefError."""
        is_read_here = self.form.is_text and length_bytes <= _SHORT_BODY_BYTES
        weight = _TEXT_WEIGHT if is_read_here else 1
        self.grant.resize(max(self.grant.size_bytes, length_bytes * weight))

    async def receive(self, request: Request) -> None:
        """Receive the body, whose memory is granted as it comes.

        Raises:
            TooLarge: the body is longer than the limit of its format, or than all memory.
            Overloaded: the bodies of other requests already use the allowed memory.
        """
        async for chunk in request.stream():
            self.add(chunk)
            self._check(self.length_bytes)
            self.expect(self.length_bytes)

    def _check(self, length_bytes: int) -> None:
        """Raise BodyTooLarge for a length beyond the limit of the format."""
        name = "max_json_body_bytes" if self.form is JSON else "max_body_bytes"
        limit: int = getattr(self._settings, name)
        if length_bytes > limit:
            rule = f"the body is longer than {limit} bytes (POSREF_{name.upper()})"
            raise BodyTooLarge(f"{rule}: send {self._shorter}")

    def add(self, chunk: bytes) -> None:
        """Append received bytes."""
        self.length_bytes += len(chunk)
        if self._file is None and self.length_bytes <= _SHORT_BODY_BYTES:
            self._short += chunk
            return
        rest = memoryview(chunk)
        if self._file is None:
            self._file = memory_file()
            rest = memoryview(self._short + chunk)
            self._short.clear()
        while rest:
            rest = rest[os.write(self._file, rest) :]

    @property
    def source(self) -> bytes | int:
        """The bytes, or the descriptor of the file."""
        return bytes(self._short) if self._file is None else self._file

    def content(self) -> Block:
        """Return all bytes; those of a file are mapped."""
        if self._file is None:
            return bytes(self._short)
        return memoryview(mmap(self._file, 0, access=ACCESS_READ))

    def close(self) -> None:
        """Close the file and end the grant; may be called twice."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self.grant.release()


def reading_seconds(form: ReadableFormat, length_bytes: int) -> float:
    """Return the processor seconds of parsing a body of this length."""
    return length_bytes * (_TEXT_BYTE_SECONDS if form.is_text else form.byte_seconds)
