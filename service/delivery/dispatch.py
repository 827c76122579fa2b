"""Delivery: how each answer is made: from the cache, whole on a thread, or as a stream.

A short body is computed whole and cached, a long one while it is sent. The costs are estimated
before any work begins.
"""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from math import ceil

from starlette.types import Scope

from service.delivery.budget import SHARES, Budget, Grant
from service.delivery.cache import BodyCache, ResponseCache, entry_bytes
from service.delivery.children import Children
from service.delivery.negotiation import Job
from service.delivery.plans import Plan
from service.delivery.representation import Representation, check_answer_size
from service.delivery.responses import Answer, CachedBody, Preconditions, Span
from service.delivery.schedule import SHORT_SECONDS, Scheduler, ThreadWork, Work
from service.delivery.streams import MAX_UNREAD_BYTES, BodyStream, PipedStream
from service.delivery.telemetry.log import LineWriter
from service.delivery.telemetry.metrics import Metrics, Reading, SharedCounts
from service.delivery.telemetry.traffic import RequestLog, Tallies
from service.errors import Refusals, RequestTooLarge
from service.formats.format import BLOCK_BYTES
from service.numerics.setups import TURN_SECONDS
from service.settings import MIB, Settings

STATE = "delivery"
"""The key of the Delivery in the ASGI lifespan state, where the server looks it up."""

MAX_BUILD_SECONDS = 0.5
"""The most processor seconds of a body that is built whole and cached."""
MAX_HELD_BYTES = 4 * BLOCK_BYTES
"""The longest body, in bytes, that the response cache sends in one piece.

A slow client keeps such a body in memory even after its eviction from the cache.
"""

# Digests of more seconds are computed by a child; other bodies are cut in turns.
_LONG_DIGEST_SECONDS = 0.25

# What a child takes beside its request's arrays. Where memory is short, no child takes more than
# the share of all.
_CHILD_BYTES = 96 * MIB


class Delivery:
    """The settings, budget, caches, scheduler, children, metrics and log of one process.

    Args:
        settings: the settings; the response cache gets 1/16 of ``cache_bytes``.
        shared: the counts of all processes of the server.
        writer: writes the log.

    Attributes:
        is_draining: whether the process is about to end: it is not ready, but answers requests.
    """

    def __init__(
        self,
        settings: Settings,
        shared: SharedCounts | None = None,
        writer: LineWriter | None = None,
    ) -> None:
        self.settings = settings
        self.refusals = refusals = Refusals()
        self.budget = budget = Budget.of(settings, refusals)
        self.scheduler = Scheduler(settings, refusals)
        self.children = Children(settings, refusals)
        self.tallies, self.log = Tallies(), RequestLog(writer, settings)
        self.is_draining = False
        cache_bytes = min(settings.cache_bytes, budget.most_cache_bytes)
        headers_bytes = cache_bytes // 16
        self.cache = cache = BodyCache(cache_bytes - headers_bytes, budget)
        self.response_cache = ResponseCache(headers_bytes, cache, self.tallies, self.log, budget)
        watched: dict[str, Callable[[], Reading]] = {
            "posref_builds": lambda: cache.builds,
            "posref_build_seconds": lambda: cache.build_durations,
            "posref_cache_hits": lambda: cache.hits,
            "posref_cache_misses": lambda: cache.misses,
            "posref_cache_evictions": lambda: cache.bodies.evictions,
            "posref_cache_bytes": lambda: cache.bodies.size_bytes,
            "posref_cache_capacity_bytes": lambda: cache.bodies.capacity_bytes,
            "posref_waiting_work": self.scheduler.waiting_by_lane,
            "posref_refused": lambda: refusals.counts,
            "posref_memory_granted_bytes": budget.granted,
            "posref_memory_limit_bytes": lambda: budget.limit_bytes,
            "posref_held_body_bytes": lambda: budget.granted()["bodies"],
            "posref_log_lines_dropped": lambda: writer.dropped if writer else 0,
        }
        self.metrics = Metrics(self.tallies, watched, shared)

    async def answer(self, scope: Scope, plan: Plan) -> Answer:
        """Return the response to a GET or HEAD; HEAD and 304 responses compute no body."""
        representation, head = plan.representation, plan.head
        preconditions = Preconditions.of(scope)
        bodiless = head.without_body(preconditions)
        if bodiless is not None:
            return bodiless
        span = head.span(preconditions)
        if span is None:
            check_answer_size(representation, self.settings, plan.job)
        else:
            span = span.within(self.settings.max_response_bytes)
        if not self._is_cacheable(representation):
            return await self.answer_uncached(plan, span)
        cached = await self._cached_body(representation, plan.job)
        length_bytes = len(cached.body)
        if length_bytes <= min(MAX_HELD_BYTES, self.settings.max_response_bytes):
            self.response_cache.keep(scope, head, cached)
        part = span or Span(0, length_bytes)
        # After its eviction a stream of a drawing would draw it again, on a thread.
        if part.length_bytes <= MAX_UNREAD_BYTES or representation.form.is_drawn:
            return head.cached(span, cached)
        return head.cached(span, cached, self._stream(representation, part, is_cached=True))

    async def answer_uncached(self, plan: Plan, span: Span | None = None) -> Answer:
        """Return a response that is not cached.

        A short body is computed whole first, a long one while it is sent.
        """
        representation, head = plan.representation, plan.head
        length_bytes = span.length_bytes if span else representation.body.length_bytes
        body_seconds = representation.seconds(span.length_bytes if span else None)
        seconds = body_seconds + representation.document.setup_seconds
        if needs_child(representation, seconds):
            body = await self._body_by_child(plan.job, seconds)
            return head.streamed(span, body[span.start : span.stop] if span else body)
        is_small = (length_bytes or representation.body.limit_bytes) <= MAX_UNREAD_BYTES
        if is_small:
            blocks = representation.body.blocks(*((span.start, span.stop) if span else ()))
            return head.streamed(span, await self.scheduler.collect(blocks, b"".join, seconds))
        first = self._stream(representation, span)
        if body_seconds <= SHORT_SECONDS and length_bytes is not None:
            await first.begin(self.scheduler.work(seconds), length_bytes)
        else:
            first_seconds = representation.document.setup_seconds + TURN_SECONDS
            await first.begin(ThreadWork(self.scheduler.long, first_seconds))
        if representation.length_bytes is not None or plan.job.request.takes_chunks:
            return head.streamed(span, first, representation.length_bytes)
        # The body is computed twice, first for Content-Length, so that it is never whole in memory.
        while (piece := await first.piece()) is not None:
            first.take(len(piece), len(piece))
        first.close()
        return head.streamed(span, self._stream(representation), first.sent_bytes)

    def _stream(
        self, representation: Representation, span: Span | None = None, *, is_cached: bool = False
    ) -> BodyStream:
        """Return the stream of a body or a range; a cached body is read from the cache."""
        work = self.scheduler.stream()
        start, stop = (span.start, span.stop) if span else (0, None)
        cached = partial(self._found_body, representation.tag) if is_cached else None
        return BodyStream(
            representation.body,
            work.turn,
            self.budget,
            start,
            stop,
            cached=cached,
            is_awaited=work.is_awaited,
        )

    def _found_body(self, tag: str) -> bytes | None:
        found = self.cache.bodies.get(tag)
        return None if found is None else found.body

    async def answer_by_child(
        self, job: Job, body: bytes | int | None, seconds: float, memory_bytes: int
    ) -> Answer:
        """Return the response to a job that a child process computes; raises PosrefError.

        Args:
            job: the request.
            body: its body, or the descriptor of a file with it; None for a GET.
            seconds: the estimated processor time.
            memory_bytes: the memory of the child for what it reads, beside what every child takes.
        """
        limit_seconds = self.settings.max_request_seconds
        if seconds > limit_seconds:
            raise RequestTooLarge(
                f"the request takes about {ceil(seconds)} seconds of a processor, and at most "
                f"{limit_seconds} are possible (POSREF_MAX_REQUEST_SECONDS): send a smaller one"
            )
        memory_bytes += min(_CHILD_BYTES, int(self.budget.limit_bytes * SHARES["children"]))
        work = Work(self.scheduler.children, seconds)
        try:
            async with work.slot():
                grant = self.budget.grant("children", memory_bytes)
                turn = self.scheduler.stream_of_child()
                made = await self.children.run(
                    job, body, seconds=seconds, memory_bytes=memory_bytes, turn=turn
                )
                work.spend(made.seconds)
        finally:
            work.end()
        if isinstance(made.body, bytes):
            return Answer(made.status, made.headers, made.body)
        return Answer(made.status, made.headers, PipedStream(made.body, grant))

    async def _body_by_child(self, job: Job, seconds: float) -> bytes:
        """Return the whole body of the response to a GET, a drawing or a digest."""
        answer = await self.answer_by_child(job, None, seconds, memory_bytes=0)
        assert answer.status_code == HTTPStatus.OK
        if isinstance(answer.payload, PipedStream):
            return await answer.payload.whole()
        assert isinstance(answer.payload, bytes)
        return answer.payload

    async def _cached_body(self, representation: Representation, job: Job) -> CachedBody:
        build = partial(self._build, representation, job)
        return await self.cache.get(representation.tag, build)

    def _is_cacheable(self, representation: Representation) -> bool:
        """Return whether a body is small and cheap enough to be built and cached whole."""
        limit_bytes = representation.file.limit_bytes
        return (
            limit_bytes <= self.settings.cache_entry_bytes
            and self.cache.has_room_for(representation.tag, limit_bytes)
            and representation.seconds() <= MAX_BUILD_SECONDS
        )

    async def _build(self, representation: Representation, job: Job, grant: Grant) -> CachedBody:
        """Compute a body; gzip and digest read the plain body from the cache."""
        if representation.transform is None:
            blocks = representation.file.blocks()
            seconds = representation.seconds() + representation.document.setup_seconds
        else:
            file = await self._cached_body(representation.plain(), job.plain())
            blocks = representation.transform([file.body])
            seconds = representation.transform_seconds(len(file.body))
        limit_bytes = entry_bytes(representation.tag, representation.file.limit_bytes)
        begin = partial(grant.resize, limit_bytes)
        put_together = partial(CachedBody.of, grant=grant)
        if representation.transform is None and needs_child(representation, seconds):
            begin()
            return put_together([await self._body_by_child(job, seconds)])
        return await self.scheduler.collect(blocks, put_together, seconds, begin)


def needs_child(representation: Representation, seconds: float) -> bool:
    """Return whether a body is computed by a child: it is drawn in one step, or a long digest."""
    is_long_digest = representation.is_digest and seconds > _LONG_DIGEST_SECONDS
    return representation.form.is_drawn or is_long_digest
