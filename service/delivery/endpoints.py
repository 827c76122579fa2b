"""Request bodies: bounded while they arrive, read by their media type.

Resources and transforms as endpoints of an application: every method, every spelling.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.delivery.negotiation import RepresentationRequest
from service.delivery.openapi.operations import (
    examination_operation,
    get_operation,
    post_operation,
    posted_operation,
    report_operation,
)
from service.delivery.parameters import NoParameters, given_twice, parse_query, read_parameters
from service.delivery.resources import (
    Composition,
    Examination,
    Report,
    Resource,
    Transform,
    report_answer,
)
from service.delivery.respond import Delivery, Plan
from service.delivery.workers import SHORT_WORK, Held, cancel_on_disconnect
from service.errors import BodyTooLarge, InvalidParameters, UnsupportedMediaType, shortened
from service.formats.format import Input, ReadableFormat
from service.formats.json_text import JSON, read_object
from service.formats.npy import NPY
from service.formats.safetensors_file import SAFETENSORS
from service.numerics.tables import size_bytes
from service.settings import Settings

READABLE_FORMATS: Mapping[str, ReadableFormat] = MappingProxyType(
    {form.media_type: form for form in (NPY, SAFETENSORS, JSON)}
)
"""The formats that arrays are read from, by media type."""


# How many times the work of a sine it is to read a byte of a list of numbers.
_TEXT_WORK = 16

# How many bytes of memory it takes to read a byte of such a list, measured for "0.1,": its text as
# a string, each number as an object in a list, and as an element of an array.
_TEXT_WEIGHT = 12

# The most that is copied at once on the event loop.
_SEGMENT_BYTES = 2**20


def format_of_body(request: Request) -> ReadableFormat:
    """Find the format that a request says its arrays are in."""
    return _said_format(request, READABLE_FORMATS)


def require_json(request: Request) -> None:
    """Refuse parameters that are not said to be JSON."""
    _said_format(request, {JSON.media_type: JSON})


def _said_format(request: Request, known: Mapping[str, ReadableFormat]) -> ReadableFormat:
    coding = request.headers.get("content-encoding", "identity")
    if coding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            f"the body is said to be {shortened(coding)}-coded: send it as it is, uncoded"
        )
    sent = request.headers.get("content-type", "")
    form = known.get(sent.partition(";")[0].strip().lower())
    if form is None:
        raise UnsupportedMediaType(
            f"the body is said to be {shortened(sent) or 'nothing (no Content-Type)'}: "
            f"send {' or '.join(known)}"
        )
    return form


def reading_work(length_bytes: int, *, is_text: bool) -> int:
    """Count what reading a query or a body takes, in sines: a byte of text is the work of many."""
    return length_bytes * (_TEXT_WORK if is_text else 1)


class ReceivedBody:
    """A body that has come, in segments: to put megabytes together takes a thread.

    Attributes:
        held: counts the memory that it takes.
        length_bytes: how long it is so far.
    """

    def __init__(self, held: Held) -> None:
        self.held = held
        self.length_bytes = 0
        self._segments: list[bytes] = []
        self._newest = bytearray()

    def add(self, chunk: bytes) -> None:
        """Add what has come; however little that is, it takes no room but its own."""
        self.length_bytes += len(chunk)
        self._newest += chunk
        if len(self._newest) >= _SEGMENT_BYTES:
            self._segments.append(bytes(self._newest))
            self._newest.clear()

    def take(self) -> bytes:
        """Give the whole, once, and hold it no more."""
        segments, self._segments = [*self._segments, bytes(self._newest)], []
        self._newest = bytearray()
        return b"".join(segments)


async def receive_body(
    request: Request, form: ReadableFormat, settings: Settings, held: Held
) -> ReceivedBody:
    """Collect a body, giving up as soon as it is known to be too long.

    Args:
        request: what it comes with.
        form: the format that it is in.
        settings: how long it may be.
        held: counts the memory that it takes, before it comes where its length is announced.

    Raises:
        BodyTooLarge: it is past the limit of its format.
        Overloaded: there is no room for it beside other bodies.
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


async def answer_body(
    request: Request,
    form: ReadableFormat,
    delivery: Delivery,
    answered: Callable[[ReceivedBody], Coroutine[Any, Any, Response]],
) -> Response:
    """Receive a body and answer it; it is counted as held until its answer has gone.

    Args:
        request: what it comes with.
        form: the format that it is in.
        delivery: where it is counted, and its limits.
        answered: makes the answer.
    """
    held = Held(delivery.gate)
    try:
        body = await receive_body(request, form, delivery.settings, held)
        answer = await cancel_on_disconnect(request.receive, answered(body))
    except BaseException:
        held.release()
        raise
    return _Releasing(answer, held)


class _Releasing(Response):
    """An answer that gives back what was held for it."""

    def __init__(self, answer: Response, held: Held) -> None:
        self.background = None
        self._answer = answer
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        try:
            await self._answer(scope, receive, send)
        finally:
            self._held.release()


Endpoint = Callable[[Request], Awaitable[Response]]

EXTENSION = ".{extension}"

# Reading a longer one keeps the event loop for more than some milliseconds.
_SHORT_QUERY_BYTES = 4096


def add_resource(app: FastAPI, resource: Resource, delivery: Delivery) -> None:
    """Serve a resource: GET and HEAD by query, POST by JSON object, with and without extension."""

    async def get(request: Request) -> Response:
        def planned() -> Plan:
            wanted = RepresentationRequest.by(request)
            parameters = read_parameters(resource.parameters, _query(request))
            wanted = replace(wanted, revision=parameters.revision)
            return delivery.plan(request.scope, resource.resolve(parameters), wanted)

        query: bytes = request.scope["query_string"]
        if len(query) <= _SHORT_QUERY_BYTES:
            return await cancel_on_disconnect(
                request.receive, delivery.answer(request.scope, planned())
            )

        async def answered() -> Response:
            plan = await delivery.workers.run(planned, reading_work(len(query), is_text=True))
            return await delivery.answer(request.scope, plan)

        return await cancel_on_disconnect(request.receive, answered())

    async def post(request: Request) -> Response:
        wanted, query = RepresentationRequest.by(request), _query(request)
        require_json(request)

        def planned(body: ReceivedBody) -> Plan:
            values = _merged(query, read_object(body.take()))
            parameters = read_parameters(resource.parameters, values)
            document = resource.resolve(parameters)
            return delivery.plan_uncached(document, replace(wanted, revision=parameters.revision))

        async def answered(body: ReceivedBody) -> Response:
            work = reading_work(body.length_bytes, is_text=True)
            plan = await delivery.workers.run(partial(planned, body), work)
            return await delivery.answer_uncached(plan)

        return await answer_body(request, JSON, delivery, answered)

    for suffix in ("", EXTENSION):
        path = resource.path + suffix
        app.add_api_route(path, get, methods=["GET"], **get_operation(resource, suffix))
        app.add_api_route(path, get, methods=["HEAD"], include_in_schema=False)
        app.add_api_route(path, post, methods=["POST"], **post_operation(resource, suffix))


def add_posted(app: FastAPI, posted: Transform | Composition, delivery: Delivery) -> None:
    """Serve what is made of arrays: POST of them, with and without extension."""

    async def post(request: Request) -> Response:
        wanted, query = RepresentationRequest.by(request), _query(request)
        form = format_of_body(request)

        def planned(content: Input) -> Plan:
            parameters = read_parameters(posted.parameters, _merged(query, content.parameters))
            document = posted.resolve(parameters, content)
            return delivery.plan_uncached(document, replace(wanted, default=form))

        def begun(body: ReceivedBody) -> tuple[Plan | Callable[[], Plan], int]:
            """Read the body, and go on unless what is in it shows that it takes long.

            Returns:
                Also the bytes of its arrays, which may be more than have come.
            """
            content = form.read(body.take(), posted.names)
            posted.check(content)
            rest = partial(planned, content)
            is_short = posted.work(content.arrays) <= SHORT_WORK
            return rest() if is_short else rest, sum(map(size_bytes, content.arrays.values()))

        async def answered(body: ReceivedBody) -> Response:
            work = reading_work(body.length_bytes, is_text=form.is_text)
            plan, array_bytes = await delivery.workers.run(partial(begun, body), work)
            body.held.grow(array_bytes)
            if not isinstance(plan, Plan):
                plan = await delivery.workers.run(plan, SHORT_WORK + 1)
            return await delivery.answer_uncached(plan)

        return await answer_body(request, form, delivery, answered)

    for suffix in ("", EXTENSION):
        path = posted.path + suffix
        app.add_api_route(path, post, methods=["POST"], **posted_operation(posted, suffix))


def add_report(app: FastAPI, report: Report, delivery: Delivery) -> None:
    """Serve a report: POST of a JSON object."""

    async def post(request: Request) -> Response:
        parameters = read_parameters(report.parameters, _query(request))
        require_json(request)

        def reported(body: ReceivedBody) -> Response:
            return report_answer(report.report(parameters, read_object(body.take())))

        async def answered(body: ReceivedBody) -> Response:
            # Numbers of high precision are made on the way, however short the object.
            return await delivery.workers.run(partial(reported, body), SHORT_WORK + 1)

        return await answer_body(request, JSON, delivery, answered)

    app.add_api_route(report.path, post, methods=["POST"], **report_operation(report))


def add_examination(app: FastAPI, examination: Examination, delivery: Delivery) -> None:
    """Serve an examination: POST of arrays."""

    async def post(request: Request) -> Response:
        query, form = _query(request), format_of_body(request)

        def begun(body: ReceivedBody) -> tuple[Callable[[], Response], int]:
            content = form.read(body.take(), examination.names)
            parameters = read_parameters(examination.parameters, _merged(query, content.parameters))
            examination.check(content)
            arrays = content.arrays
            held_bytes = sum(map(size_bytes, arrays.values())) + examination.copied_bytes(arrays)
            return lambda: report_answer(examination.examine(parameters, content)), held_bytes

        async def answered(body: ReceivedBody) -> Response:
            work = reading_work(body.length_bytes, is_text=form.is_text)
            examined, held_bytes = await delivery.workers.run(partial(begun, body), work)
            body.held.grow(held_bytes)
            return await delivery.workers.run(examined, SHORT_WORK + 1)

        return await answer_body(request, form, delivery, answered)

    documentation = examination_operation(examination)
    app.add_api_route(examination.path, post, methods=["POST"], **documentation)


def add_page(app: FastAPI, path: str, page: Endpoint, **documentation: Any) -> None:
    """Serve a page that takes no parameters, by GET and HEAD."""

    async def get(request: Request) -> Response:
        read_parameters(NoParameters, _query(request))
        return await page(request)

    app.add_api_route(path, get, methods=["GET"], **documentation)
    app.add_api_route(path, get, methods=["HEAD"], include_in_schema=False)


def _query(request: Request) -> dict[str, str]:
    return parse_query(request.scope["query_string"])


def _merged(query: Mapping[str, str], content: Mapping[str, Any]) -> dict[str, Any]:
    """Join the parameters of the query and of the body; none may be in both."""
    for name in query:
        if name in content:
            places = ", in the query and in the body"
            raise InvalidParameters(given_twice(name, query[name], places))
    return {**query, **content}
