"""Responses: conditional requests, range requests, and the sending of bodies.

They follow RFC 9110: ranges §14, entity tags §8.8.3, preconditions §13.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from gzip import compress
from hashlib import sha256
from http import HTTPStatus

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.delivery.budget import Grant, GrantedBytes
from service.delivery.negotiation import GZIP, RawHeaders, choose_coding, list_header, raw
from service.delivery.schedule import disconnected
from service.delivery.streams import STREAM, Stream
from service.errors import PreconditionFailed, RangeNotSatisfiable, shortened
from service.formats.format import Block

_SINGLE = re.compile(r"bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.ASCII | re.IGNORECASE)

# Larger than the length of any body; longer digit strings are not parsed.
_BEYOND_BYTES = 10**19
_MAX_DIGITS = 19


@dataclass(frozen=True)
class Span:
    """A range of a body: the bytes from start to stop, stop excluded; at least one byte."""

    start: int
    stop: int

    @property
    def length_bytes(self) -> int:
        return self.stop - self.start

    def within(self, limit_bytes: int) -> "Span":
        """Return the range cut to at most ``limit_bytes`` bytes."""
        return Span(self.start, min(self.stop, self.start + limit_bytes))

    def content_range(self, length_bytes: int) -> str:
        """Return the value of Content-Range, for a whole body of ``length_bytes`` bytes."""
        return f"bytes {self.start}-{self.stop - 1}/{length_bytes}"


def requested_span(value: str | None, length_bytes: int) -> Span | None:
    """Return the range that a Range header requests; None for the whole body.

    A header that is missing or malformed, or has another unit or several ranges, is ignored, as
    RFC 9110 permits.

    Args:
        value: the Range header, or None.
        length_bytes: the length of the whole body, at least 1.

    Raises:
        RangeNotSatisfiable: the range begins after the end of the body.
    """
    match = None if value is None else _SINGLE.fullmatch(value.strip())
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        start, stop = max(0, length_bytes - _number(match[2])), length_bytes
    else:
        start = _number(match[1])
        last = _number(match[2]) if match[2] else length_bytes - 1
        if match[2] and last < start:
            return None
        stop = min(last + 1, length_bytes)
    if start >= length_bytes:
        raise RangeNotSatisfiable(length_bytes)
    return Span(start, stop)


def _number(digits: str) -> int:
    """Return digits as an integer; too many digits become _BEYOND_BYTES."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= _MAX_DIGITS else _BEYOND_BYTES


_ENTITY_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def matches_any(if_match: str | None, tag: str) -> bool:
    """Return whether If-Match contains the strong tag ``tag``, or is absent or ``*``."""
    if if_match is None or if_match.strip() == "*":
        return True
    return any(not is_weak and match == tag for is_weak, match in _ENTITY_TAG.findall(if_match))


def matches_none(if_none_match: str | None, tag: str) -> bool:
    """Return whether If-None-Match is absent or does not contain ``tag``, compared weakly."""
    if if_none_match is None:
        return True
    if if_none_match.strip() == "*":
        return False
    opaque = tag.removeprefix("W/")
    return all(match != opaque for _, match in _ENTITY_TAG.findall(if_none_match))


@dataclass(frozen=True)
class Preconditions:
    """The conditional headers and the range of a request.

    Attributes:
        method: GET or HEAD.
        if_match, if_none_match, if_range, range: the header with this name, or None.
    """

    method: str
    if_match: str | None = None
    if_none_match: str | None = None
    if_range: str | None = None
    range: str | None = None

    @classmethod
    def of(cls, scope: Scope) -> "Preconditions":
        names = (b"if-match", b"if-none-match", b"if-range", b"range")
        return cls(scope["method"], *(list_header(scope, name) for name in names))

    def is_known(self, tag: str) -> bool:
        """Return whether If-None-Match contains the tag, so that the answer is 304.

        Raises PreconditionFailed if If-Match does not contain the tag.
        """
        if not matches_any(self.if_match, tag):
            raise PreconditionFailed(
                f"If-Match does not name the current tag: {shortened(self.if_match)}, "
                f"the current one is {tag}"
            )
        return not matches_none(self.if_none_match, tag)

    def span(self, tag: str, length_bytes: int) -> Span | None:
        """Return the requested range; None for the whole body.

        If If-Range is a date or another entity tag, Range is ignored.
        """
        if self.method != "GET" or self.if_range not in {None, tag}:
            return None
        return requested_span(self.range, length_bytes)


@dataclass(frozen=True)
class CachedBody:
    """A whole body, and the value of its Repr-Digest header (RFC 9530)."""

    body: GrantedBytes
    repr_digest: str

    @classmethod
    def of(cls, blocks: Iterable[Block], grant: Grant) -> "CachedBody":
        body = GrantedBytes.of(b"".join(blocks), grant)
        return cls(body, f"sha-256=:{b64encode(sha256(body).digest()).decode()}:")


class Answer(Response):
    """A response that sends the given headers, and Content-Length, but no others.

    Args:
        status: the status code.
        headers: all headers; Content-Length is added if the body is bytes.
        body: bytes, a stream, or None for no body.

    Attributes:
        closing: what is closed after the response has been sent, or has failed.
    """

    def __init__(
        self, status: int, headers: RawHeaders, body: Block | Stream | None = None
    ) -> None:
        self.status_code = int(status)
        self.background = None
        self.payload = body
        self.closing = ExitStack()
        if isinstance(body, Stream):
            self.closing.callback(body.close)
        self.raw_headers = list(headers)
        if isinstance(body, bytes | memoryview):
            self.raw_headers.append((b"content-length", b"%d" % len(body)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        with self.closing:
            await send({"type": "http.response.start", **start})
            if self.payload is None or scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b""})
            elif isinstance(self.payload, bytes | memoryview):
                await send({"type": "http.response.body", "body": self.payload})
            elif STREAM in scope.get("extensions", ()):
                await send({"type": STREAM, "stream": self.payload})
            else:
                await _send_pieces(self.payload, receive, send)


async def _send_pieces(stream: Stream, receive: Receive, send: Send) -> None:
    """Send a stream to a server that does not take streams; stop when the client disconnects.

    ``send`` may return silently after a disconnect: only ``receive`` reports it. ``send`` waits
    until the previous piece has been written, so sending an empty one delays the computation of
    the next.
    """
    disconnect = asyncio.ensure_future(disconnected(receive))
    try:
        while (piece := await stream.piece()) is not None:
            if disconnect.done():
                return
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            stream.take(len(piece), 0)
            del piece
            await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        disconnect.cancel()


@dataclass(frozen=True)
class ResponseHead:
    """The headers and the entity tag of a response.

    Attributes:
        tag: the entity tag; empty in responses to POST.
        headers: the headers of 200, 206 and 304 responses.
        content_headers: Content-Type and other headers of responses with a body, without
            Content-Length.
        length_bytes: the length of the whole body; None if unknown in advance, and then ranges
            are not supported.
    """

    tag: str
    headers: RawHeaders
    content_headers: RawHeaders
    length_bytes: int | None

    def without_body(self, preconditions: Preconditions) -> Answer | None:
        """Return the response 304, or to HEAD; None for a request that needs a body.

        Raises:
            PreconditionFailed: If-Match does not contain the tag.
        """
        if preconditions.is_known(self.tag):
            return Answer(HTTPStatus.NOT_MODIFIED, self.headers)
        if preconditions.method == "HEAD":
            length = {} if self.length_bytes is None else {"Content-Length": str(self.length_bytes)}
            return Answer(HTTPStatus.OK, [*self.headers, *self.content_headers, *raw(length)])
        return None

    def span(self, preconditions: Preconditions) -> Span | None:
        """Return the requested range, None for the whole body; raises RangeNotSatisfiable."""
        if self.length_bytes is None:
            return None
        return preconditions.span(self.tag, self.length_bytes)

    def cached(self, span: Span | None, cached: CachedBody, stream: Stream | None = None) -> Answer:
        """Return the response with a cached body, or with a range of it.

        Args:
            span: the range; None for the whole body.
            cached: the whole body.
            stream: sends the same bytes in pieces; None to send them at once.
        """
        body = cached.body if span is None else memoryview(cached.body)[span.start : span.stop]
        digest = [(b"repr-digest", cached.repr_digest.encode())]
        return self.streamed(span, stream or body, len(cached.body), digest=digest)

    def streamed(
        self,
        span: Span | None,
        body: Block | Stream,
        length_bytes: int | None = None,
        *,
        digest: RawHeaders | None = None,
    ) -> Answer:
        """Return the response with a body, or a range of it.

        Args:
            span: the range; None for the whole body.
            body: the bytes to send, or their stream.
            length_bytes: the length of the whole body; by default the length in this head.
            digest: the Repr-Digest header of a cached body.
        """
        headers = [*self.headers, *self.content_headers, *(digest or ())]
        length_bytes = self.length_bytes if length_bytes is None else length_bytes
        if span is not None:
            headers += raw({"Content-Range": span.content_range(self.length_bytes or 0)})
            length_bytes = span.length_bytes
        if length_bytes is not None and not isinstance(body, bytes | memoryview):
            headers += raw({"Content-Length": str(length_bytes)})
        status = HTTPStatus.OK if span is None else HTTPStatus.PARTIAL_CONTENT
        return Answer(status, headers, body)


class WholeFile:
    """A file of text that is sent whole: as it is, or compressed once.

    Args:
        body: the file.
        headers: the headers of 200 responses; those of 304 responses have no Content-Type.
    """

    def __init__(self, body: bytes, headers: Mapping[str, str]) -> None:
        self._plain = body
        self._headers = {name: value for name, value in headers.items() if name != "Content-Type"}
        self._content = {"Content-Type": headers["Content-Type"]}
        self._digest = sha256(body)

    @cached_property
    def compressed(self) -> bytes:
        return compress(self._plain, mtime=0)

    def response(self, accept_encoding: str | None) -> tuple[ResponseHead, bytes]:
        """Return the head and the body of a response; raises NotAcceptable."""
        coding = choose_coding(accept_encoding, (GZIP,))
        digest, body, content = self._digest.copy(), self._plain, self._content
        if coding is not None:
            digest.update(coding.encode())
            body, content = self.compressed, {**content, "Content-Encoding": coding}
        # Two builds of zlib may compress the same bytes to different ones.
        tag = f'{"" if coding is None else "W/"}"{digest.hexdigest()[:32]}"'
        return ResponseHead(tag, raw({"ETag": tag, **self._headers}), raw(content), len(body)), body

    def answer(self, scope: Scope) -> Answer:
        """Return the response to a GET or HEAD; raises NotAcceptable and PreconditionFailed."""
        head, body = self.response(list_header(scope, b"accept-encoding"))
        return head.without_body(Preconditions.of(scope)) or head.streamed(None, body)
