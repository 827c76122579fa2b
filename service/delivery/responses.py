"""One way in which a document can be sent: in a format, perhaps compressed, or only its digest.

Answers whose body is there, is made while it is sent, or is only described.

Answers to GET and HEAD but for their body: the same whether that is there or yet to be made.

Limits on answers, held before a byte of them is made.
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
from service.errors import AnswerTooLarge, Fault, InvalidParameters, RevisionRetired
from service.formats.format import Block, Body, Format
from service.numerics.document import Document
from service.numerics.tables import size_bytes
from service.settings import Settings

MAX_TABLE_BYTES = 2**63 - 1

# How many times the work of a sine it is to spell a number out, and to digest its bytes.
_TEXT_WORK = 16
_DIGEST_WORK = 4

# What it is to draw a picture, whatever is on it: about a tenth of a second, which is waited for.
_DRAWING_WORK = 2**23

GZIP = "gzip"
DIGEST_MEDIA_TYPE = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Representation:
    """A document in a form in which it can be sent.

    Attributes:
        document: what is sent.
        form: the format it is written in.
        file: the bytes of that format.
        derive: makes what is sent of the bytes of the format, where that is not those themselves.
        coding: the content coding, or None.
        is_digest: whether only the digest is sent.
    """

    document: Document
    form: Format
    file: Body
    derive: BodyTransform | None = None
    coding: str | None = None
    is_digest: bool = False
    _tags: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def file_tag(self) -> str:
        """The entity tag of the bytes of the format."""
        return self._tag_of("")

    @property
    def tag(self) -> str:
        """The entity tag of what is sent."""
        if self.is_digest:
            return self._tag_of("sha256")
        # Two builds of zlib may compress the same bytes to different ones.
        return self.file_tag if self.coding is None else weak(self._tag_of(self.coding))

    def _tag_of(self, variant: str) -> str:
        """Make a tag for whoever asks, as what it names may be a long list.

        A ``cached_property`` has a lock before Python 3.12: one thread that makes a long one
        would keep all others from theirs.
        """
        if variant not in self._tags:
            self._tags[variant] = entity_tag(self.document, self.form, variant)
        return self._tags[variant]

    @property
    def body(self) -> Body:
        """What is sent."""
        return self.file if self.derive is None else DerivedBody(self.file, self.derive)

    @property
    def length_bytes(self) -> int | None:
        """The length of what is sent, where it is known before: digests are all of one length."""
        if self.is_digest and self.derive is not None:
            return sum(map(len, self.derive(())))
        return self.body.length_bytes

    @property
    def file_name(self) -> str:
        """What it is saved as; a content coding is taken off before."""
        name = file_name(self.document, self.form, self.file_tag)
        return f"{name}.sha256" if self.is_digest else name

    def plain(self) -> "Representation":
        """Give the bytes of the format, of which this is made."""
        return Representation(self.document, self.form, self.file)

    def cost(self, span: Span | None = None) -> int:
        """Estimate what making it takes, or a part of it, in sines, once that has been set up."""
        per_sine = _TEXT_WORK if self.form.is_text else _DIGEST_WORK if self.is_digest else 1
        whole = self.document.work * per_sine + (_DRAWING_WORK if self.form.is_drawn else 0)
        if span is None or self.file.length_bytes is None:
            return whole
        return -(-whole * span.length_bytes // self.file.length_bytes)

    def headers(self, wanted: RepresentationRequest, path: str, query: bytes) -> dict[str, str]:
        """Describe it whatever the status: what it is, how long it is good, where the others are.

        Args:
            wanted: what the request says about it.
            path: that of the URL as asked for.
            query: the raw query.
        """
        document, form, extension = self.document, self.form, wanted.extension
        place = {} if self.is_digest else place_headers(path, query, document, form, extension)
        return {
            "ETag": self.tag,
            "Cache-Control": cache_control(extension, wanted.revision),
            "Content-Disposition": f'inline; filename="{self.file_name}"',
            **array_headers(document),
            **place,
            **self.vary(wanted),
        }

    def vary(self, wanted: RepresentationRequest) -> dict[str, str]:
        """Name the request headers that chose it."""
        return {} if self.is_digest else vary_header(self.form, wanted.extension)

    def described(self) -> dict[str, str]:
        """Describe the body that is sent, but for its length."""
        media_type = DIGEST_MEDIA_TYPE if self.is_digest else self.form.media_type
        headers = {"Content-Type": media_type}
        if self.coding is not None:
            headers["Content-Encoding"] = self.coding
        return headers


def represent(document: Document, wanted: RepresentationRequest) -> Representation:
    """Choose how a document is sent; raises PosrefError where there is no way."""
    check_revision(document, wanted.revision)
    form = choose_format(document, wanted.extension, wanted.accept, wanted.default)
    file = form.body(document)
    check_countable(document, file)
    plain = Representation(document, form, file)
    is_compressible = form.is_text and not wanted.is_digest
    coding = choose_coding(wanted.accept_encoding, (GZIP,) if is_compressible else ())
    if wanted.is_digest:
        derive = partial(checksum_line, file_name=plain.file_name)
        return replace(plain, derive=derive, is_digest=True)
    return plain if coding is None else replace(plain, derive=gzipped, coding=coding)


def check_countable(document: Document, body: Body) -> None:
    """Refuse what takes more bytes than a file system, a client or a header can count."""
    tables_bytes = sum(size_bytes(table) for table in document.arrays.values())
    total_bytes = max(tables_bytes, body.length_bytes or 0)
    if total_bytes > MAX_TABLE_BYTES:
        rule = f"the table takes {total_bytes} bytes, and at most 2^63 - 1 are possible"
        raise InvalidParameters(Fault(None, None, rule))


def check_revision(document: Document, revision: int | None) -> None:
    """Refuse a revision other than the current one of a kind of table."""
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
    """An answer with just the headers it is given.

    Args:
        status: the status code.
        headers: all headers; Content-Length is added only where the body is there as bytes.
        body: bytes, blocks that are made one by one, or None for no body at all.
        counted: the same blocks once more, where they have to be counted first to tell the length.
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
    """Send blocks as they are made; stop making them when the client has gone.

    The server's ``send`` returns silently after a disconnect, so only ``receive`` tells. It waits
    for the block before it to be taken, so an empty one waits until the next may be made: a
    reader that is slow holds one block.
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
    """Count the bytes of blocks, holding none; None when the client has gone meanwhile."""
    count = 0
    async with _gone(receive) as gone, aclosing(blocks) as made:
        async for block in made:
            if gone.done():
                return None
            count += len(block)
    return count


@asynccontextmanager
async def _gone(receive: Receive) -> AsyncGenerator[asyncio.Future[None], None]:
    """Give what is done once the client has gone."""
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        yield gone
    finally:
        gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass(frozen=True)
class ResponseHead:
    """All that an answer is, but for its body.

    Attributes:
        tag: the entity tag; empty where nobody is told it.
        headers: those of every status.
        described: those of a body, but for its length.
        length_bytes: that of the body where it is known before the body is made; parts of such a
            body can be asked for.
    """

    tag: str
    headers: RawHeaders
    described: RawHeaders
    length_bytes: int | None

    def bare(self, asked: Preconditions) -> Answer | None:
        """Answer a request that takes no body; None for one that does.

        Raises:
            PreconditionFailed: the client wants to go on with other bytes.
        """
        if asked.is_known(self.tag):
            return Answer(HTTPStatus.NOT_MODIFIED, self.headers)
        if asked.method == "HEAD":
            length = {} if self.length_bytes is None else {"Content-Length": str(self.length_bytes)}
            return Answer(HTTPStatus.OK, [*self.headers, *self.described, *raw(length)])
        return None

    def span(self, asked: Preconditions) -> Span | None:
        """Find the part that is asked for, None for the whole; raises RangeNotSatisfiable."""
        if self.length_bytes is None:
            return None
        return asked.span(self.tag, self.length_bytes)

    def built(
        self,
        span: Span | None,
        built: CachedBody,
        pieces: AsyncGenerator[Block, None] | None = None,
    ) -> Answer:
        """Answer with a body that is there, or a part of it, sent at once or in pieces."""
        described = [*self.described, (b"repr-digest", built.repr_digest.encode())]
        if pieces is not None:
            return self._answer(described, span, pieces, len(built.body))
        body = built.body if span is None else memoryview(built.body)[span.start : span.stop]
        return self._answer(described, span, body)

    def made(
        self,
        span: Span | None,
        body: Block | AsyncGenerator[Block, None],
        length_bytes: int | None = None,
        counted: AsyncGenerator[Block, None] | None = None,
    ) -> Answer:
        """Answer with a body, or a part of it, that is only kept for this answer.

        Args:
            span: the part, or None for the whole.
            body: what is sent.
            length_bytes: that of a body of which no part can be asked for, where it is known.
            counted: the same body once more, where its length is to be counted.
        """
        length_bytes = self.length_bytes if length_bytes is None else length_bytes
        return self._answer(self.described, span, body, length_bytes, counted)

    def _answer(
        self,
        described: RawHeaders,
        span: Span | None,
        body: Block | AsyncGenerator[Block, None],
        length_bytes: int | None = None,
        counted: AsyncGenerator[Block, None] | None = None,
    ) -> Answer:
        headers = [*self.headers, *described]
        if span is not None:
            headers += raw({"Content-Range": span.content_range(self.length_bytes or 0)})
            length_bytes = span.length_bytes
        if length_bytes is not None and not isinstance(body, bytes | memoryview):
            headers += raw({"Content-Length": str(length_bytes)})
        status = HTTPStatus.OK if span is None else HTTPStatus.PARTIAL_CONTENT
        return Answer(status, headers, body, counted)


def check_answer_size(
    shown: Representation, settings: Settings, *, has_ranges: bool = True
) -> None:
    """Hold an answer that is sent whole, or described, to its limit; raises AnswerTooLarge.

    Args:
        shown: the answer.
        settings: the limits.
        has_ranges: whether a part of a binary one may be asked for.
    """
    limit_bytes = shown.file.limit_bytes
    if shown.is_digest:
        limit, name = settings.max_digest_bytes, "POSREF_MAX_DIGEST_BYTES"
        says, way_out = "the digest is of a file of up to", "ask for that of less of it"
    elif shown.form.is_text:
        limit, name = settings.max_text_bytes, "POSREF_MAX_TEXT_BYTES"
        says, way_out = "the answer may take up to", "ask for npy or safetensors, or for less of it"
    else:
        limit, name = settings.max_response_bytes, "POSREF_MAX_RESPONSE_BYTES"
        ranges = "ranges of it (Range), or for " if has_ranges else ""
        says, way_out = "the answer takes", f"ask for {ranges}less of it"
    if limit_bytes > limit:
        raise AnswerTooLarge(
            f"{says} {limit_bytes} bytes and the limit is {limit} ({name}): {way_out}"
        )
