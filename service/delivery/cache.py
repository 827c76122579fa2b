"""The caches of a process: bodies by entity tag, and responses by request.

A cached response holds headers and the tag of its body. All spellings of a request share the body:
a response whose body has been evicted is a miss.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from time import perf_counter
from typing import TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from service.delivery.budget import Budget, Grant
from service.delivery.negotiation import OPEN_HEADERS, list_header
from service.delivery.responses import Answer, CachedBody, Preconditions, ResponseHead
from service.delivery.telemetry.traffic import (
    WARM_PATH,
    Histogram,
    LogFields,
    RequestLog,
    Tallies,
    Tally,
    format_of,
    path_of,
    target_of,
)
from service.errors import PosrefError
from service.lru import ByteBoundedLRU

_BODY_OVERHEAD_BYTES = 512
_RESPONSE_OVERHEAD_BYTES = 1024


class BodyCache:
    """Bodies by entity tag; belongs to one event loop.

    The budget grants each entry, and shrinks the cache. A body that is evicted while responses with
    it are being sent stays granted until the last one has been sent.

    Attributes:
        bodies: the cached bodies; direct lookups here do not count as hits.
        builds: the number of builds started.
        build_durations: a histogram of the durations of successful builds, in seconds.
        hits: the number of requests whose body was cached.
        misses: the number of requests that started a build or waited for one.
    """

    def __init__(self, capacity_bytes: int, budget: Budget) -> None:
        self._budget = budget
        budget.shrink_cache = lambda by_bytes: _disown(self.bodies.shrink(by_bytes))
        self.bodies: ByteBoundedLRU[str, CachedBody] = ByteBoundedLRU(capacity_bytes)
        self._building: dict[str, asyncio.Task[CachedBody]] = {}
        self._waiting: Counter[asyncio.Task[CachedBody]] = Counter()
        self.builds = 0
        self.build_durations = Histogram()
        self.hits = 0
        self.misses = 0

    def has_room_for(self, key: str, body_bytes: int) -> bool:
        """Return whether an entry with a body of ``body_bytes`` bytes fits into the cache."""
        return entry_bytes(key, body_bytes) <= self.bodies.capacity_bytes

    def find(self, key: str) -> CachedBody | None:
        """Return the body of a key if it is cached, and count the hit."""
        body = self.bodies.get(key)
        self.hits += body is not None
        return body

    async def get(self, key: str, build: Callable[[Grant], Awaitable[CachedBody]]) -> CachedBody:
        """Return the body of a key; build it unless it is cached or being built.

        All concurrent requests for a key wait for one build; it is cancelled when the last waiting
        request is cancelled. If the build fails, every waiting request gets its exception, and
        the next request starts a new build.

        Args:
            key: the entity tag.
            build: computes the body. It gets an empty grant, which it resizes to the most memory of
                the entry before it allocates any.
        """
        cached = self.find(key)
        if cached is not None:
            return cached
        self.misses += 1
        task = self._building.get(key)
        if task is None or task.done():
            task = self._building[key] = asyncio.create_task(self._build(key, build))
        self._waiting[task] += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting[task] -= 1
            if not self._waiting[task]:
                del self._waiting[task]
                task.cancel()
                if self._building.get(key) is task:
                    del self._building[key]

    async def _build(self, key: str, build: Callable[[Grant], Awaitable[CachedBody]]) -> CachedBody:
        self.builds += 1
        begun_at = perf_counter()
        grant = self._budget.grant("results", 0, from_reserve=True)
        try:
            built = await build(grant)
            grant.resize(entry_bytes(key, len(built.body)))
        except BaseException:
            grant.release()
            raise
        self.build_durations.observe(perf_counter() - begun_at)
        _disown(self.bodies.put(key, built, grant.size_bytes))
        if grant.size_bytes <= self.bodies.capacity_bytes:
            grant.move("cache")
        return built


def _disown(evicted: list[CachedBody]) -> None:
    """Count the memory of bodies that have left the cache as results, while they are in use."""
    for body in evicted:
        body.body.grant.move("results")


def entry_bytes(key: str, body_bytes: int) -> int:
    """Return the memory of a cached body with its key."""
    return len(key) + body_bytes + _BODY_OVERHEAD_BYTES


RequestKey: TypeAlias = tuple[bytes, bytes | None, bytes | None]
"""The target, Accept and Accept-Encoding of a request."""


@dataclass(frozen=True)
class CachedResponse:
    """A response without its body.

    Attributes:
        head: the status-independent headers and the entity tag.
        header_bytes: the end of the head of the 200 response, from the end of the request id on.
        path: the path of the route, with ``{extension}`` as a placeholder.
        tally: the counter of cached 200 responses for this route and format.
        log_fields: the serialized log fields of the 200 response; None if it is not logged.
        size_bytes: its memory, with that of its key.
    """

    head: ResponseHead
    header_bytes: bytes
    path: str
    tally: Tally
    log_fields: LogFields | None
    size_bytes: int


class ResponseCache:
    """LRU caches of responses, by request key and by the bytes of a whole request.

    They are limited to ``capacity_bytes`` granted bytes together.
    """

    def __init__(
        self,
        capacity_bytes: int,
        bodies: BodyCache,
        tallies: Tallies,
        log: RequestLog,
        budget: Budget,
    ) -> None:
        self._grant = budget.grant("cache", capacity_bytes)
        received_bytes = capacity_bytes // 4
        self._responses: ByteBoundedLRU[RequestKey, CachedResponse]
        self._responses = ByteBoundedLRU(capacity_bytes - received_bytes)
        self._received: ByteBoundedLRU[bytes, CachedResponse] = ByteBoundedLRU(received_bytes)
        self._bodies = bodies
        self._tallies = tallies
        self._log = log

    def find(self, key: RequestKey) -> tuple[CachedResponse, CachedBody] | None:
        """Return the response of a key and its body, if both are cached."""
        return self._with_body(self._responses.get(key))

    def find_received(self, request: bytes) -> tuple[CachedResponse, CachedBody] | None:
        """Like ``find``, for the bytes of a request as ``keep_received`` got them."""
        return self._with_body(self._received.get(request))

    def _with_body(
        self, response: CachedResponse | None
    ) -> tuple[CachedResponse, CachedBody] | None:
        body = None if response is None else self._bodies.find(response.head.tag)
        return None if response is None or body is None else (response, body)

    def keep_received(self, request: bytes, response: CachedResponse) -> None:
        """Cache the response to all requests with the same bytes."""
        self._received.put(request, response, len(request) + response.size_bytes)

    def keep(self, scope: Scope, head: ResponseHead, body: CachedBody) -> None:
        """Cache the response to a request; its whole body must be in the body cache."""
        key = request_key(scope)
        headers = [*head.cached(None, body).raw_headers, *OPEN_HEADERS]
        header_bytes = b"".join(b"\r\n%s: %s" % header for header in headers) + b"\r\n\r\n"
        path = path_of(scope)
        tally = self._tallies.of(path, HTTPStatus.OK, format_of(headers), is_warm=True)
        fields = self._log.log_fields("GET", key[0], tally.labels, len(body.body))
        key_bytes = sum(len(part or b"") for part in key)
        size_bytes = 3 * len(header_bytes) + key_bytes + _RESPONSE_OVERHEAD_BYTES
        size_bytes += len(fields[1]) if fields else 0
        response = CachedResponse(head, header_bytes, path, tally, fields, size_bytes)
        self._responses.put(key, response, size_bytes)


def request_key(scope: Scope) -> RequestKey:
    """Return the cache key of a request.

    Range and conditional headers are not part of it: they are applied to the cached response.
    """
    accept, accept_encoding = (
        value if value is None else value.encode("latin-1")
        for value in (list_header(scope, name) for name in (b"accept", b"accept-encoding"))
    )
    return target_of(scope), accept, accept_encoding


@dataclass(frozen=True)
class ResponseCacheMiddleware:
    """Sends cached responses; passes requests without a cached response to ``app``."""

    app: ASGIApp
    cache: ResponseCache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._response(scope) or self.app)(scope, receive, send)

    def _response(self, scope: Scope) -> Answer | None:
        if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
            return None
        match = self.cache.find(request_key(scope))
        if match is None:
            return None
        response, body = match
        head, preconditions = response.head, Preconditions.of(scope)
        scope[WARM_PATH] = response.path
        try:
            bodiless = head.without_body(preconditions)
            return bodiless or head.cached(head.span(preconditions), body)
        # The route handles the request again and turns the error into a problem response.
        except PosrefError:
            del scope[WARM_PATH]
            return None
