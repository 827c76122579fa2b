"""From a document to a response: limits, cache, and the lane in which a body is computed.

``Delivery`` has everything that the responses of one process share.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from starlette.types import Scope

from service.delivery.cache import BodyCache, CachedBody
from service.delivery.conditional import Preconditions, Span
from service.delivery.negotiation import RepresentationRequest, array_headers, raw
from service.delivery.response_cache import ResponseCache
from service.delivery.responses import (
    Answer,
    Representation,
    ResponseHead,
    check_answer_size,
    represent,
)
from service.delivery.telemetry.log import LineWriter, RequestLog
from service.delivery.telemetry.metrics import Metrics, SharedCounts, WorkerSlot
from service.delivery.workers import SHORT_WORK, Gate, WaitingClients, Workers
from service.formats.format import BLOCK_BYTES, Block, Body
from service.numerics.tables import Document
from service.settings import Settings


@dataclass
class Readiness:
    """The answer of a process to readiness probes.

    Attributes:
        is_draining: whether the process is about to end; it still answers requests.
    """

    is_draining: bool = False


STATE = "delivery"
"""The key of the delivery in the lifespan state, where the server finds it."""

MAX_BUILD_WORK = 2**24
MAX_HELD_BYTES = 4 * BLOCK_BYTES
"""The longest body that is sent at once: a slow reader keeps it in memory after its eviction."""


@dataclass(frozen=True)
class Plan:
    """A response before its body: nothing of the table has been computed.

    Attributes:
        representation: the representation.
        head: the response without its body.
        takes_chunks: whether the client accepts a body without Content-Length.
    """

    representation: Representation
    head: ResponseHead
    takes_chunks: bool


@dataclass(frozen=True)
class Delivery:
    """Everything that the responses of one process share."""

    settings: Settings
    cache: BodyCache
    answers: ResponseCache
    workers: Workers
    metrics: Metrics
    readiness: Readiness
    log: RequestLog
    gate: Gate
    waiting_clients: WaitingClients

    @classmethod
    def of(
        cls,
        settings: Settings,
        slot: WorkerSlot | None = None,
        writer: LineWriter | None = None,
    ) -> "Delivery":
        """Make the caches, lanes and counters; response headers get a sixteenth of the cache.

        Args:
            settings: the limits.
            slot: the number of this process among the workers of a server.
            writer: writes the request log, if there is one.
        """
        headers_bytes = settings.cache_bytes // 16
        cache = BodyCache(settings.cache_bytes - headers_bytes)
        gate = Gate(settings)
        workers = Workers(settings.threads, gate)
        shared = None if slot is None else SharedCounts(slot.directory, slot.slot)
        metrics = Metrics(cache, shared)
        metrics.watch("posref_waiting_work", workers.waiting_by_lane)
        metrics.watch("posref_refused", lambda: gate.refusals)
        metrics.watch("posref_held_body_bytes", lambda: gate.held_body_bytes)
        metrics.watch("posref_log_lines_dropped", lambda: writer.dropped if writer else 0)
        log = RequestLog(writer, settings)
        answers = ResponseCache(headers_bytes, cache, metrics, log)
        return cls(
            settings, cache, answers, workers, metrics, Readiness(), log, gate, WaitingClients()
        )

    def plan(self, scope: Scope, document: Document, request: RepresentationRequest) -> Plan:
        """Plan the response to a GET or HEAD, in any thread; raises PosrefError."""
        representation = represent(document, request)
        headers = representation.headers(request, scope["path"], scope["query_string"])
        has_ranges = representation.body.length_bytes is not None
        if not has_ranges:
            # Without ranges HEAD has the limit of GET.
            check_answer_size(representation, self.settings)
        ranges = {"Accept-Ranges": "bytes"} if has_ranges else {}
        head = _response_head(
            representation,
            representation.tag,
            headers,
            {**representation.content_headers(), **ranges},
        )
        return Plan(representation, head, request.takes_chunks)

    async def answer(self, scope: Scope, plan: Plan) -> Answer:
        """Return the response to a GET or HEAD; only a GET without 304 computes the body."""
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
            return await self._uncached(plan, span)
        body = await self._cached_body(representation)
        if len(body.body) > MAX_HELD_BYTES:
            part = span or Span(0, len(body.body))
            return head.cached(span, body, self._pieces(representation, part))
        if len(body.body) <= self.settings.max_response_bytes:
            self.answers.keep(scope, head, body)
        return head.cached(span, body)

    def plan_uncached(self, document: Document, request: RepresentationRequest) -> Plan:
        """Plan the response to a POST, by default in the format of the request.

        It has no tag: hashing a list of a million positions takes a third of a second.
        """
        representation = represent(document, request)
        check_answer_size(representation, self.settings, has_ranges=False)
        headers = {
            "Cache-Control": "no-store",
            **array_headers(document),
            **representation.vary(request),
        }
        head = _response_head(representation, "", headers, representation.content_headers())
        return Plan(representation, head, request.takes_chunks)

    async def answer_uncached(self, plan: Plan) -> Answer:
        """Return the response to a POST."""
        return await self._uncached(plan, None)

    async def _uncached(self, plan: Plan, span: Span | None) -> Answer:
        """Compute a body for one response: short ones at once, others while they are sent."""
        representation, head = plan.representation, plan.head
        blocks = representation.body.blocks(*((span.start, span.stop) if span else ()))
        cost = representation.cost(span)
        if cost <= SHORT_WORK:
            cost += representation.document.setup_work
            return head.streamed(span, await self.workers.run(lambda: b"".join(blocks), cost))
        is_drawn = representation.form.is_drawn
        first = await self.workers.begin(blocks, drawn=is_drawn)
        if representation.length_bytes is not None or plan.takes_chunks:
            return head.streamed(span, first, representation.length_bytes)
        # It is computed twice, for Content-Length and to be sent, and never kept in memory.
        again = self.workers.iterate(representation.body.blocks(), drawn=is_drawn)
        return head.streamed(span, again, counted=first)

    async def _pieces(
        self, representation: Representation, part: Span
    ) -> AsyncGenerator[Block, None]:
        """Yield a range of a body from the cache, and compute the rest after an eviction.

        A slow reader keeps only its current piece in memory.
        """
        for start in range(part.start, part.stop, BLOCK_BYTES):
            piece = self._cached_piece(
                representation, Span(start, min(start + BLOCK_BYTES, part.stop))
            )
            if piece is None:
                blocks = _rest(representation.body, start, part.stop)
                rest = self.workers.iterate(blocks, drawn=representation.form.is_drawn)
                async with aclosing(rest) as made:
                    async for block in made:
                        yield block
                        del block
                return
            yield piece
            del piece

    def _cached_piece(self, representation: Representation, piece: Span) -> Block | None:
        body = self.cache.get_uncounted(representation.tag)
        return None if body is None else body.body[piece.start : piece.stop]

    async def _cached_body(self, representation: Representation) -> CachedBody:
        build = partial(
            self.waiting_clients.make, representation.tag, partial(self._build, representation)
        )
        return await self.waiting_clients.wait(
            representation.tag, partial(self.cache.get, representation.tag, build)
        )

    def _is_cacheable(self, representation: Representation) -> bool:
        """Return whether a body is small and cheap enough to be built and cached whole."""
        limit_bytes = representation.file.limit_bytes
        return (
            limit_bytes <= self.settings.cache_entry_bytes
            and self.cache.has_room_for(representation.tag, limit_bytes)
            and representation.cost() <= MAX_BUILD_WORK
        )

    async def _build(self, representation: Representation) -> CachedBody:
        """Compute a body; a derived one from its source in the cache."""
        cost, before = representation.cost(), representation.document.setup_work
        if representation.transform is None:
            blocks = representation.file.blocks()
        else:
            file = await self._cached_body(representation.plain())
            blocks, cost, before = representation.transform([file.body]), len(file.body), 0
        if cost <= SHORT_WORK:
            return await self.workers.run(partial(CachedBody.of, blocks), before + cost)
        return await self.workers.collect(blocks, CachedBody.of, drawn=representation.form.is_drawn)


def _rest(body: Body, start: int, stop: int) -> Iterator[Block]:
    """Yield a body from start on; a body without parts is computed from its beginning."""
    if body.length_bytes is not None:
        yield from body.blocks(start, stop)
        return
    passed_bytes = 0
    for block in body.blocks():
        yield memoryview(block)[max(0, start - passed_bytes) :]
        passed_bytes += len(block)


def _response_head(
    representation: Representation,
    tag: str,
    headers: Mapping[str, str],
    content_headers: Mapping[str, str],
) -> ResponseHead:
    return ResponseHead(tag, raw(headers), raw(content_headers), representation.body.length_bytes)
