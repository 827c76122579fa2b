"""Request bodies: bounded while they arrive, read by their media type."""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.requests import Request

from service.errors import BodyTooLarge, InvalidBody, UnsupportedMediaType, shortened
from service.formats.format import Input, ReadableFormat
from service.formats.json_text import JSON
from service.formats.npy import NPY
from service.formats.safetensors_file import SAFETENSORS
from service.settings import Settings

MAX_RANK = 8

READABLE_FORMATS: Mapping[str, ReadableFormat] = MappingProxyType(
    {form.media_type: form for form in (NPY, SAFETENSORS, JSON)}
)
"""The formats that arrays are read from, by media type."""


def format_of_body(request: Request) -> ReadableFormat:
    """Find the format that a request says its body is in."""
    sent = request.headers.get("content-type", "")
    form = READABLE_FORMATS.get(sent.partition(";")[0].strip().lower())
    if form is None:
        raise UnsupportedMediaType(
            f"the body is said to be {shortened(sent) or 'nothing (no Content-Type)'}: "
            f"send one of {', '.join(READABLE_FORMATS)}"
        )
    return form


def require_json(request: Request) -> None:
    """Refuse a body that is not said to be JSON."""
    if format_of_body(request) is not JSON:
        raise UnsupportedMediaType(f"parameters are sent as {JSON.media_type}")


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


def read_arrays(form: ReadableFormat, body: bytes) -> Input:
    """Read the arrays of a body; each has 2 to MAX_RANK axes and at least one element."""
    content = form.read(body)
    for name, table in content.arrays.items():
        shape = table.shape
        if not 2 <= len(shape) <= MAX_RANK:
            raise InvalidBody(
                f"{shortened(name)} has {len(shape)} axes: 2 to {MAX_RANK} are possible, "
                "the last two of them positions and channels"
            )
        if 0 in shape:
            raise InvalidBody(f"{shortened(name)} has no element: its shape is {shape}")
    return content
