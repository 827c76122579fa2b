"""Whether requests are welcome: until the process is told to end.

From a document to an answer: limits, cache, and how its body is made.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from starlette.types import Scope

from service.delivery.cache import BodyCache, CachedBody
from service.delivery.conditional import Preconditions, Span
from service.delivery.negotiation import RepresentationRequest, array_headers, raw
from service.delivery.response_cache import FinishedAnswers
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
from service.numerics.document import Document
from service.settings import Settings


@dataclass
class Readiness:
    """What a process says to those who ask whether to send it requests.

    Attributes:
        is_draining: whether it is about to end; it answers, and asks for no more.
    """

    is_draining: bool = False


STATE = "delivery"
"""The name under which the lifespan hands what its answers share to the server."""

MAX_BUILD_WORK = 2**24
MAX_HELD_BYTES = 4 * BLOCK_BYTES
"""The longest body that is sent whole, so that a slow reader holds it though it is forgotten."""


@dataclass(frozen=True)
class Plan:
    """An answer of which everything is known that takes no number of a table.

    Attributes:
        shown: what is sent.
        prepared: the answer but for its body.
        takes_chunks: whether the length of the body may be left open.
    """

    shown: Representation
    prepared: ResponseHead
    takes_chunks: bool


@dataclass(frozen=True)
class Delivery:
    """Everything that the answers of one process share."""

    settings: Settings
    cache: BodyCache
    answers: FinishedAnswers
    workers: Workers
    metrics: Metrics
    readiness: Readiness
    log: RequestLog
    gate: Gate
    askers: WaitingClients

    @classmethod
    def of(
        cls,
        settings: Settings,
        slot: WorkerSlot | None = None,
        writer: LineWriter | None = None,
    ) -> "Delivery":
        """Share out what the settings allow: a sixteenth of the cache is for finished headers.

        Args:
            settings: the limits.
            slot: the place of this process among those of a server that has several.
            writer: where requests are logged, if anywhere.
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
        answers = FinishedAnswers(headers_bytes, cache, metrics, log)
        return cls(
            settings, cache, answers, workers, metrics, Readiness(), log, gate, WaitingClients()
        )

    def plan(self, scope: Scope, document: Document, wanted: RepresentationRequest) -> Plan:
        """Plan the answer to a GET or HEAD, in any thread; raises PosrefError."""
        shown = represent(document, wanted)
        headers = shown.headers(wanted, scope["path"], scope["query_string"])
        has_ranges = shown.body.length_bytes is not None
        if not has_ranges:
            # There is no part of it, either, that HEAD could describe.
            check_answer_size(shown, self.settings)
        ranges = {"Accept-Ranges": "bytes"} if has_ranges else {}
        prepared = _prepared(shown, shown.tag, headers, {**shown.described(), **ranges})
        return Plan(shown, prepared, wanted.takes_chunks)

    async def answer(self, scope: Scope, plan: Plan) -> Answer:
        """Answer a GET or HEAD; only a GET that has to makes a byte of the document."""
        shown, prepared, asked = plan.shown, plan.prepared, Preconditions.by(scope)
        bare = prepared.bare(asked)
        if bare is not None:
            return bare
        span = prepared.span(asked)
        if span is None:
            check_answer_size(shown, self.settings)
        else:
            span = span.within(self.settings.max_response_bytes)
        if not self._is_kept(shown):
            return await self._made(plan, span)
        built = await self._kept(shown)
        if len(built.body) > MAX_HELD_BYTES:
            part = span or Span(0, len(built.body))
            return prepared.built(span, built, self._pieces(shown, part))
        if len(built.body) <= self.settings.max_response_bytes:
            self.answers.keep(scope, prepared, built)
        return prepared.built(span, built)

    def plan_uncached(self, document: Document, wanted: RepresentationRequest) -> Plan:
        """Plan the answer to a POST, by itself in the format that the request came in.

        It names no tag: that of a list of a million positions takes a third of a second.
        """
        shown = represent(document, wanted)
        check_answer_size(shown, self.settings, has_ranges=False)
        headers = {
            "Cache-Control": "no-store",
            **array_headers(document),
            **shown.vary(wanted),
        }
        prepared = _prepared(shown, "", headers, shown.described())
        return Plan(shown, prepared, wanted.takes_chunks)

    async def answer_uncached(self, plan: Plan) -> Answer:
        """Answer a POST."""
        return await self._made(plan, None)

    async def _made(self, plan: Plan, span: Span | None) -> Answer:
        """Make a body for one answer: all at once where that is short, or else while it is sent."""
        shown, prepared = plan.shown, plan.prepared
        blocks = shown.body.blocks(*((span.start, span.stop) if span else ()))
        cost = shown.cost(span)
        if cost <= SHORT_WORK:
            cost += shown.document.setup_work
            return prepared.made(span, await self.workers.run(lambda: b"".join(blocks), cost))
        is_drawn = shown.form.is_drawn
        first = await self.workers.begin(blocks, drawn=is_drawn)
        if shown.length_bytes is not None or plan.takes_chunks:
            return prepared.made(span, first, shown.length_bytes)
        # It is made twice, to be counted and to be sent, and never held.
        again = self.workers.iterate(shown.body.blocks(), drawn=is_drawn)
        return prepared.made(span, again, counted=first)

    async def _pieces(self, shown: Representation, part: Span) -> AsyncGenerator[Block, None]:
        """Give a part of a body piece by piece from the cache, and what is forgotten made anew.

        Nothing else of the body is held for a reader who is slow.
        """
        for start in range(part.start, part.stop, BLOCK_BYTES):
            piece = self._found_piece(shown, Span(start, min(start + BLOCK_BYTES, part.stop)))
            if piece is None:
                blocks = _rest(shown.body, start, part.stop)
                rest = self.workers.iterate(blocks, drawn=shown.form.is_drawn)
                async with aclosing(rest) as made:
                    async for block in made:
                        yield block
                        del block
                return
            yield piece
            del piece

    def _found_piece(self, shown: Representation, piece: Span) -> Block | None:
        built = self.cache.peek(shown.tag)
        return None if built is None else built.body[piece.start : piece.stop]

    async def _kept(self, shown: Representation) -> CachedBody:
        build = partial(self.askers.make, shown.tag, partial(self._build, shown))
        return await self.askers.wait(shown.tag, partial(self.cache.get, shown.tag, build))

    def _is_kept(self, shown: Representation) -> bool:
        """Tell whether a body is built whole and kept: long work stops with its client."""
        limit_bytes = shown.file.limit_bytes
        return (
            limit_bytes <= self.settings.cache_entry_bytes
            and self.cache.has_room_for(shown.tag, limit_bytes)
            and shown.cost() <= MAX_BUILD_WORK
        )

    async def _build(self, shown: Representation) -> CachedBody:
        """Build a body; one that is made of another, of that one in the cache."""
        cost, before = shown.cost(), shown.document.setup_work
        if shown.derive is None:
            blocks = shown.file.blocks()
        else:
            file = await self._kept(shown.plain())
            blocks, cost, before = shown.derive([file.body]), len(file.body), 0
        if cost <= SHORT_WORK:
            return await self.workers.run(partial(CachedBody.of, blocks), before + cost)
        return await self.workers.collect(blocks, CachedBody.of, drawn=shown.form.is_drawn)


def _rest(body: Body, start: int, stop: int) -> Iterator[Block]:
    """Make a body from a place on; one that is only made whole is made to be passed over first."""
    if body.length_bytes is not None:
        yield from body.blocks(start, stop)
        return
    passed_bytes = 0
    for block in body.blocks():
        yield memoryview(block)[max(0, start - passed_bytes) :]
        passed_bytes += len(block)


def _prepared(
    shown: Representation, tag: str, headers: Mapping[str, str], described: Mapping[str, str]
) -> ResponseHead:
    return ResponseHead(tag, raw(headers), raw(described), shown.body.length_bytes)
