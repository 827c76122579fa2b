"""Representations of a document, and the responses that carry them.

A representation is a document in a format, possibly compressed, or only its digest. Its headers,
tag and limits are known before any byte of the body is computed; the body comes from the cache, or
is computed while it is sent.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.delivery.cache import BodyTransform, CachedBody, DerivedBody, checksum_line, gzipped
from service.delivery.conditional import Preconditions, Span, entity_tag, weak
from service.delivery.negotiation import (
    RawHeaders,
    RepresentationRequest,
    array_headers,
    cache_control,
    choose_coding,
    choose_format,
    file_name,
    place_headers,
    raw,
    vary_header,
)
from service.delivery.workers import disconnected
from service.errors import AnswerTooLarge, Fault, InvalidParameters, RevisionRetired
from service.formats.format import Block, Body, Format
from service.numerics.tables import Document, size_bytes
from service.settings import Settings

MAX_TABLE_BYTES = 2**63 - 1

# The work of a decimal, and of the digest of a number, in sines.
_TEXT_WORK = 16
_DIGEST_WORK = 4

# The work of drawing any picture: about a tenth of a second.
_DRAWING_WORK = 2**23

GZIP = "gzip"
DIGEST_MEDIA_TYPE = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Representation:
    """A document in a format, possibly with a content coding, or its digest.

    Attributes:
        document: the document.
        form: the format.
        file: the bytes of that format.
        transform: makes the body from the bytes of the format; None where it is those bytes.
        coding: the content coding, or None.
        is_digest: whether the body is only the digest.
    """

    document: Document
    form: Format
    file: Body
    transform: BodyTransform | None = None
    coding: str | None = None
    is_digest: bool = False
    _tags: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def file_tag(self) -> str:
        """The entity tag of the bytes of the format."""
        return self._tag_of("")

    @property
    def tag(self) -> str:
        """The entity tag of the body."""
        if self.is_digest:
            return self._tag_of("sha256")
        # Two builds of zlib may compress the same bytes to different ones.
        return self.file_tag if self.coding is None else weak(self._tag_of(self.coding))

    def _tag_of(self, variant: str) -> str:
        """Return the tag of a variant of the body, computed once.

        ``cached_property`` has a lock before Python 3.12: one thread that hashes a long list of
        positions would block all others.
        """
        if variant not in self._tags:
            self._tags[variant] = entity_tag(self.document, self.form, variant)
        return self._tags[variant]

    @property
    def body(self) -> Body:
        """The body."""
        return self.file if self.transform is None else DerivedBody(self.file, self.transform)

    @property
    def length_bytes(self) -> int | None:
        """The length of the body, None where only computing it tells."""
        if self.is_digest and self.transform is not None:
            return sum(map(len, self.transform(())))
        return self.body.length_bytes

    @property
    def file_name(self) -> str:
        """The name to save it under, without a content coding."""
        name = file_name(self.document, self.form, self.file_tag)
        return f"{name}.sha256" if self.is_digest else name

    def plain(self) -> "Representation":
        """Return the representation without coding or digest."""
        return Representation(self.document, self.form, self.file)

    def cost(self, span: Span | None = None) -> int:
        """Return the work of the body, or of a part of it, in sines, without the setup work."""
        per_sine = _TEXT_WORK if self.form.is_text else _DIGEST_WORK if self.is_digest else 1
        whole = self.document.work * per_sine + (_DRAWING_WORK if self.form.is_drawn else 0)
        if span is None or self.file.length_bytes is None:
            return whole
        return -(-whole * span.length_bytes // self.file.length_bytes)

    def headers(self, request: RepresentationRequest, path: str, query: bytes) -> dict[str, str]:
        """Return the headers of every status: tag, caching, arrays, links.

        Args:
            request: the requested representation.
            path: the path of the request.
            query: the raw query.
        """
        document, form, extension = self.document, self.form, request.extension
        place = {} if self.is_digest else place_headers(path, query, document, form, extension)
        return {
            "ETag": self.tag,
            "Cache-Control": cache_control(extension, request.revision),
            "Content-Disposition": f'inline; filename="{self.file_name}"',
            **array_headers(document),
            **place,
            **self.vary(request),
        }

    def vary(self, request: RepresentationRequest) -> dict[str, str]:
        """Return Vary: the request headers that chose this representation."""
        return {} if self.is_digest else vary_header(self.form, request.extension)

    def content_headers(self) -> dict[str, str]:
        """Return the headers of the body, without Content-Length."""
        media_type = DIGEST_MEDIA_TYPE if self.is_digest else self.form.media_type
        headers = {"Content-Type": media_type}
        if self.coding is not None:
            headers["Content-Encoding"] = self.coding
        return headers


def represent(document: Document, request: RepresentationRequest) -> Representation:
    """Return the representation that a request chooses; raises PosrefError."""
    check_revision(document, request.revision)
    form = choose_format(document, request.extension, request.accept, request.default)
    file = form.body(document)
    check_countable(document, file)
    plain = Representation(document, form, file)
    is_compressible = form.is_text and not request.is_digest
    coding = choose_coding(request.accept_encoding, (GZIP,) if is_compressible else ())
    if request.is_digest:
        transform = partial(checksum_line, file_name=plain.file_name)
        return replace(plain, transform=transform, is_digest=True)
    return plain if coding is None else replace(plain, transform=gzipped, coding=coding)


def check_countable(document: Document, body: Body) -> None:
    """Refuse tables past 2^63 − 1 bytes, which no file system or client can count."""
    tables_bytes = sum(size_bytes(table) for table in document.arrays.values())
    total_bytes = max(tables_bytes, body.length_bytes or 0)
    if total_bytes > MAX_TABLE_BYTES:
        rule = f"the table takes {total_bytes} bytes, and at most 2^63 - 1 are possible"
        raise InvalidParameters(Fault(None, None, rule))


def check_revision(document: Document, revision: int | None) -> None:
    """Raise RevisionRetired or InvalidParameters unless a revision is the current one."""
    kind, current = document.kind, document.revision
    if revision is None or revision == current:
        return
    if 1 <= revision < current:
        raise RevisionRetired(
            f"revision {revision} of {kind} is no longer served; the current one is {current}"
        )
    rule = f"revision must be {current}, the current one of {kind}"
    raise InvalidParameters(Fault("revision", str(revision), rule))


class Answer(Response):
    """A response with exactly the given headers.

    Args:
        status: the status code.
        headers: all headers; Content-Length is added where the body is bytes.
        body: bytes, blocks, or None for no body.
        counted: the same blocks once more, where they are counted first for Content-Length.
    """

    def __init__(
        self,
        status: int,
        headers: RawHeaders,
        body: Block | AsyncGenerator[Block, None] | None = None,
        counted: AsyncGenerator[Block, None] | None = None,
    ) -> None:
        self.status_code = int(status)
        self.background = None
        self.payload = body
        self.counted = counted
        self.raw_headers = list(headers)
        if isinstance(body, bytes | memoryview):
            self.raw_headers.append((b"content-length", b"%d" % len(body)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        if self.counted is not None:
            length_bytes = await _count(self.counted, receive)
            if length_bytes is None:
                return
            self.raw_headers.append((b"content-length", b"%d" % length_bytes))
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        if self.payload is None or scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
        elif isinstance(self.payload, bytes | memoryview):
            await send({"type": "http.response.body", "body": self.payload})
        else:
            await _send_blocks(self.payload, receive, send)


async def _send_blocks(blocks: AsyncGenerator[Block, None], receive: Receive, send: Send) -> None:
    """Send blocks as they are computed; stop when the client disconnects.

    uvicorn's ``send`` returns silently after a disconnect: only ``receive`` reports it. ``send``
    waits until the previous block has been written, so sending an empty block delays the
    computation of the next one: a slow reader holds one block.
    """
    async with _gone(receive) as gone, aclosing(blocks) as made:
        async for block in made:
            if gone.done():
                return
            await send({"type": "http.response.body", "body": block, "more_body": True})
            del block
            await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _count(blocks: AsyncGenerator[Block, None], receive: Receive) -> int | None:
    """Count the bytes of blocks without keeping them; None if the client disconnects."""
    count = 0
    async with _gone(receive) as gone, aclosing(blocks) as made:
        async for block in made:
            if gone.done():
                return None
            count += len(block)
    return count


@asynccontextmanager
async def _gone(receive: Receive) -> AsyncGenerator[asyncio.Future[None], None]:
    """Yield a future that is done once the client disconnects."""
    gone = asyncio.ensure_future(disconnected(receive))
    try:
        yield gone
    finally:
        gone.cancel()


@dataclass(frozen=True)
class ResponseHead:
    """A response without its body.

    Attributes:
        tag: the entity tag; empty for answers to POST.
        headers: the headers of every status.
        content_headers: the headers of a body, without Content-Length.
        length_bytes: the length of the body where it is known in advance; such a body has ranges.
    """

    tag: str
    headers: RawHeaders
    content_headers: RawHeaders
    length_bytes: int | None

    def without_body(self, preconditions: Preconditions) -> Answer | None:
        """Return the response to HEAD, or 304; None for a request that needs a body.

        Raises:
            PreconditionFailed: If-Match names another tag.
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

    def cached(
        self,
        span: Span | None,
        body: CachedBody,
        pieces: AsyncGenerator[Block, None] | None = None,
    ) -> Answer:
        """Return the response with a cached body or a range of it, at once or in pieces."""
        content_headers = [*self.content_headers, (b"repr-digest", body.repr_digest.encode())]
        if pieces is not None:
            return self._answer(content_headers, span, pieces, len(body.body))
        whole = body.body
        part = whole if span is None else memoryview(whole)[span.start : span.stop]
        return self._answer(content_headers, span, part)

    def streamed(
        self,
        span: Span | None,
        body: Block | AsyncGenerator[Block, None],
        length_bytes: int | None = None,
        counted: AsyncGenerator[Block, None] | None = None,
    ) -> Answer:
        """Return the response with a body, or a range of it, that is not cached.

        Args:
            span: the range, None for the whole body.
            body: the bytes of the range, or its blocks.
            length_bytes: the length of a body without ranges, where it is known.
            counted: the same body once more, where its length has to be counted.
        """
        length_bytes = self.length_bytes if length_bytes is None else length_bytes
        return self._answer(self.content_headers, span, body, length_bytes, counted)

    def _answer(
        self,
        content_headers: RawHeaders,
        span: Span | None,
        body: Block | AsyncGenerator[Block, None],
        length_bytes: int | None = None,
        counted: AsyncGenerator[Block, None] | None = None,
    ) -> Answer:
        headers = [*self.headers, *content_headers]
        if span is not None:
            headers += raw({"Content-Range": span.content_range(self.length_bytes or 0)})
            length_bytes = span.length_bytes
        if length_bytes is not None and not isinstance(body, bytes | memoryview):
            headers += raw({"Content-Length": str(length_bytes)})
        status = HTTPStatus.OK if span is None else HTTPStatus.PARTIAL_CONTENT
        return Answer(status, headers, body, counted)


def check_answer_size(
    representation: Representation, settings: Settings, *, has_ranges: bool = True
) -> None:
    """Raise AnswerTooLarge if a body that is sent whole is past its limit.

    Args:
        representation: the representation.
        settings: the limits.
        has_ranges: whether ranges of a binary one may be requested.
    """
    limit_bytes = representation.file.limit_bytes
    if representation.is_digest:
        limit, name = settings.max_digest_bytes, "POSREF_MAX_DIGEST_BYTES"
        label, way_out = "the digest is of a file of up to", "ask for that of less of it"
    elif representation.form.is_text:
        limit, name = settings.max_text_bytes, "POSREF_MAX_TEXT_BYTES"
        label, way_out = (
            "the answer may take up to",
            "ask for npy or safetensors, or for less of it",
        )
    else:
        limit, name = settings.max_response_bytes, "POSREF_MAX_RESPONSE_BYTES"
        ranges = "ranges of it (Range), or for " if has_ranges else ""
        label, way_out = "the answer takes", f"ask for {ranges}less of it"
    if limit_bytes > limit:
        raise AnswerTooLarge(
            f"{label} {limit_bytes} bytes and the limit is {limit} ({name}): {way_out}"
        )
