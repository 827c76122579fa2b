"""Answers to GET and HEAD but for their body: the same whether that is there or yet to be made."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from http import HTTPStatus

from service.delivery.answer import Answer
from service.delivery.cache import Built
from service.delivery.conditional import Asked
from service.delivery.headers import RawHeaders, raw
from service.delivery.ranges import Span
from service.formats.format import Block


@dataclass(frozen=True)
class Prepared:
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

    def bare(self, asked: Asked) -> Answer | None:
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

    def span(self, asked: Asked) -> Span | None:
        """Find the part that is asked for, None for the whole; raises RangeNotSatisfiable."""
        if self.length_bytes is None:
            return None
        return asked.span(self.tag, self.length_bytes)

    def built(
        self, span: Span | None, built: Built, pieces: AsyncGenerator[Block, None] | None = None
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
