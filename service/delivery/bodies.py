"""Request bodies: bounded while they arrive, read by their media type."""

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.delivery.gate import Held
from service.delivery.leaving import unless_gone
from service.delivery.respond import Delivery
from service.errors import BodyTooLarge, UnsupportedMediaType, shortened
from service.formats.format import ReadableFormat
from service.formats.json_text import JSON
from service.formats.npy import NPY
from service.formats.safetensors_file import SAFETENSORS
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
        answer = await unless_gone(request.receive, answered(body))
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
