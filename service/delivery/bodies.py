"""Request bodies: bounded while they arrive, read by their media type."""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.requests import Request

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


def reading_work(sent: bytes, *, is_text: bool) -> int:
    """Count what reading a query or a body takes, in sines: a byte of text is the work of many."""
    return len(sent) * (_TEXT_WORK if is_text else 1)


async def receive_body(request: Request, form: ReadableFormat, settings: Settings) -> bytes:
    """Collect a body, giving up as soon as it is known to be too long."""
    if form is JSON:
        limit, name = settings.max_json_body_bytes, "POSREF_MAX_JSON_BODY_BYTES"
    else:
        limit, name = settings.max_body_bytes, "POSREF_MAX_BODY_BYTES"
    too_large = BodyTooLarge(f"the body is longer than {limit} bytes ({name})")
    announced = request.headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit() or int(announced) > limit:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise too_large
    return bytes(body)
