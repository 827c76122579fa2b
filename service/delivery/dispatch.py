"""Delivery: how each answer is made: from the cache, whole on a thread, or as a stream.

A short body is computed whole and cached, a long one while it is sent. The costs are estimated
before any work begins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.types import Scope

from service.delivery.budget import Budget, Grant
from service.delivery.cache import BodyCache, ResponseCache, entry_bytes
from service.delivery.plans import Plan
from service.delivery.representation import Representation, check_answer_size
from service.delivery.responses import Answer, CachedBody, Preconditions, Span
from service.delivery.schedule import SHORT_SECONDS, Refusals, Scheduler
from service.delivery.streams import FIRST_BYTES, Stream
from service.delivery.telemetry.log import LineWriter
from service.delivery.telemetry.metrics import Metrics, Reading, SharedCounts
from service.delivery.telemetry.traffic import RequestLog, Tallies
from service.formats.format import BLOCK_BYTES
from service.settings import Settings

STATE = "delivery"
"""The key of the Delivery in the ASGI lifespan state, where the server looks it up."""

MAX_BUILD_SECONDS = 0.5
"""The most processor seconds of a body that is built whole and cached."""
MAX_HELD_BYTES = 4 * BLOCK_BYTES
"""The longest body, in bytes, that the response cache sends in one piece.

A slow client keeps such a body in memory even after its eviction from the cache.
"""


@dataclass
class Readiness:
    """The answer to readiness probes: a draining process is not ready, but it answers requests."""

    is_draining: bool = False


@dataclass(frozen=True)
class Delivery:
    """The settings, caches, workers, metrics and log of one process."""

    settings: Settings
    cache: BodyCache
    response_cache: ResponseCache
    scheduler: Scheduler
    tallies: Tallies
    metrics: Metrics
    readiness: Readiness
    log: RequestLog
    refusals: Refusals
    budget: Budget

    @classmethod
    def of(
        cls,
        settings: Settings,
        shared: SharedCounts | None = None,
        writer: LineWriter | None = None,
    ) -> "Delivery":
        """Create the Delivery of a process; the response cache gets 1/16 of ``cache_bytes``."""
        budget = Budget.of(settings)
        cache_bytes = min(settings.cache_bytes, budget.most_cache_bytes)
        headers_bytes = cache_bytes // 16
        cache = BodyCache(cache_bytes - headers_bytes, budget)
        refusals = Refusals()
        scheduler = Scheduler.of(settings, refusals)
        watched: dict[str, Callable[[], Reading]] = {
            "posref_builds": lambda: cache.builds,
            "posref_build_seconds": lambda: cache.build_durations,
            "posref_cache_hits": lambda: cache.hits,
            "posref_cache_misses": lambda: cache.misses,
            "posref_cache_evictions": lambda: cache.bodies.evictions,
            "posref_cache_bytes": lambda: cache.bodies.size_bytes,
            "posref_cache_capacity_bytes": lambda: cache.bodies.capacity_bytes,
            "posref_waiting_work": scheduler.waiting_by_lane,
            "posref_refused": lambda: {**refusals.counts, **budget.refusals},
            "posref_memory_granted_bytes": budget.granted,
            "posref_memory_limit_bytes": lambda: budget.limit_bytes,
            "posref_held_body_bytes": lambda: budget.granted()["bodies"],
            "posref_log_lines_dropped": lambda: writer.dropped if writer else 0,
        }
        tallies, log = Tallies(), RequestLog(writer, settings)
        metrics = Metrics(tallies, watched, shared)
        response_cache = ResponseCache(headers_bytes, cache, tallies, log, budget)
        return cls(
            settings,
            cache,
            response_cache,
            scheduler,
            tallies,
            metrics,
            Readiness(),
            log,
            refusals,
            budget,
        )

    async def answer(self, scope: Scope, plan: Plan) -> Answer:
        """Return the response to a GET or HEAD; HEAD and 304 responses compute no body."""
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
            return await self.answer_uncached(plan, span)
        cached = await self._cached_body(representation)
        length_bytes = len(cached.body)
        if length_bytes <= min(MAX_HELD_BYTES, self.settings.max_response_bytes):
            self.response_cache.keep(scope, head, cached)
        part = span or Span(0, length_bytes)
        if part.length_bytes <= FIRST_BYTES:
            return head.cached(span, cached)
        return head.cached(span, cached, self._stream(representation, part, is_cached=True))

    async def answer_uncached(self, plan: Plan, span: Span | None = None) -> Answer:
        """Return a response that is not cached.

        A short body is computed whole first, a long one while it is sent.
        """
        representation, head = plan.representation, plan.head
        length_bytes = span.length_bytes if span else representation.body.length_bytes
        seconds = representation.seconds(span.length_bytes if span else None)
        seconds += representation.document.setup_seconds
        is_short = seconds <= SHORT_SECONDS
        if is_short and (length_bytes is None or length_bytes <= FIRST_BYTES):
            blocks = representation.body.blocks(*((span.start, span.stop) if span else ()))
            return head.streamed(span, await self.scheduler.run(lambda: b"".join(blocks), seconds))
        first = self._stream(representation, span)
        if is_short and length_bytes is not None:
            await first.begin(partial(self.scheduler.run, seconds=seconds), length_bytes)
        else:
            await first.begin()
        if representation.length_bytes is not None or plan.takes_chunks:
            return head.streamed(span, first, representation.length_bytes)
        # The body is computed twice, first for Content-Length, so that it is never whole in memory.
        return head.streamed(span, self._stream(representation), counted=first)

    def _stream(
        self, representation: Representation, span: Span | None = None, *, is_cached: bool = False
    ) -> Stream:
        """Return the stream of a body or a range; a cached body is read from the cache."""
        turn = self.scheduler.stream().turn
        start, stop = (span.start, span.stop) if span else (0, None)
        cached = partial(self._found_body, representation.tag) if is_cached else _uncached
        return Stream(
            *(representation.body, turn, start, stop), cached=cached, is_tight=self._is_tight
        )

    def _is_tight(self) -> bool:
        return self.budget.is_tight

    def _found_body(self, tag: str) -> bytes | None:
        found = self.cache.bodies.get(tag)
        return None if found is None else found.body

    async def _cached_body(self, representation: Representation) -> CachedBody:
        return await self.cache.get(representation.tag, partial(self._build, representation))

    def _is_cacheable(self, representation: Representation) -> bool:
        """Return whether a body is small and cheap enough to be built and cached whole."""
        limit_bytes = representation.file.limit_bytes
        return (
            limit_bytes <= self.settings.cache_entry_bytes
            and self.cache.has_room_for(representation.tag, limit_bytes)
            and representation.seconds() <= MAX_BUILD_SECONDS
        )

    async def _build(self, representation: Representation, grant: Grant) -> CachedBody:
        """Compute a body; gzip and digest read the plain body from the cache."""
        if representation.transform is None:
            blocks = representation.file.blocks()
            seconds = representation.seconds() + representation.document.setup_seconds
        else:
            file = await self._cached_body(representation.plain())
            blocks = representation.transform([file.body])
            seconds = representation.transform_seconds(len(file.body))
        grant.resize(entry_bytes(representation.tag, representation.file.limit_bytes))
        put_together = partial(CachedBody.of, grant=grant)
        if seconds <= SHORT_SECONDS:
            return await self.scheduler.run(lambda: put_together(blocks), seconds)
        return await self.scheduler.collect(blocks, put_together, seconds)


def _uncached() -> None:
    """Return None: the body is not cached, and its entity tag may be costly to compute."""
