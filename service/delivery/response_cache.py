"""Finished answers, found by the request alone: what was answered once never meets the framework.

An entry holds headers and the tag of a body, not the body: that is in the cache of bodies, where
all spellings of a table share it. An entry whose body has been forgotten finds nothing.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from service.delivery.cache import BodyCache, CachedBody
from service.delivery.conditional import Preconditions
from service.delivery.negotiation import OPEN_HEADERS, list_header
from service.delivery.responses import Answer, ResponseHead
from service.delivery.telemetry.log import LogFields, RequestLog
from service.delivery.telemetry.metrics import WARM_PATH, Metrics, Tally, format_of, path_of
from service.errors import PosrefError
from service.lru import ByteBoundedLRU

RequestKey: TypeAlias = tuple[bytes, bytes | None, bytes | None]
"""A request: its target, Accept and Accept-Encoding."""

_OVERHEAD_BYTES = 1024


@dataclass(frozen=True)
class CachedResponse:
    """An answer that was sent once.

    Attributes:
        prepared: the answer but for its body.
        head: headers of the whole answer as they go over the wire, without a date.
        path: that of the route which gave it.
        tally: what counts whole answers of that route and format.
        told: what is logged of such an answer.
    """

    prepared: ResponseHead
    head: bytes
    path: str
    tally: Tally
    told: LogFields | None


class FinishedAnswers:
    """Keep finished answers by the spelling of their request, up to a number of bytes."""

    def __init__(
        self, capacity_bytes: int, cache: BodyCache, metrics: Metrics, log: RequestLog
    ) -> None:
        self._answers: ByteBoundedLRU[RequestKey, CachedResponse] = ByteBoundedLRU(capacity_bytes)
        self._cache = cache
        self._metrics = metrics
        self._log = log

    def find(self, spelling: RequestKey) -> tuple[CachedResponse, CachedBody] | None:
        """Return the answer of a spelling and its body, if both are there."""
        finished = self._answers.get(spelling)
        built = None if finished is None else self._cache.find(finished.prepared.tag)
        return None if finished is None or built is None else (finished, built)

    def keep(self, scope: Scope, prepared: ResponseHead, built: CachedBody) -> None:
        """Keep the answer to a request that was answered with the whole of a body."""
        spelling = spelling_of(scope)
        whole = [*prepared.built(None, built).raw_headers, *OPEN_HEADERS]
        head = b"".join(b"%s: %s\r\n" % header for header in whole) + b"\r\n"
        path = path_of(scope)
        tally = self._metrics.tally(path, HTTPStatus.OK, format_of(whole), is_warm=True)
        told = self._log.told("GET", spelling[0], tally.labels, len(built.body))
        size_bytes = 3 * len(head) + sum(len(part or b"") for part in spelling) + _OVERHEAD_BYTES
        size_bytes += len(told[1]) if told else 0
        self._answers.put(spelling, CachedResponse(prepared, head, path, tally, told), size_bytes)


def spelling_of(scope: Scope) -> RequestKey:
    """Give what the answer to a request may depend on, but for what it asks about bytes."""
    query: bytes = scope["query_string"]
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    accept, accept_encoding = (
        value if value is None else value.encode("latin-1")
        for value in (list_header(scope, name) for name in (b"accept", b"accept-encoding"))
    )
    return path + b"?" + query if query else path, accept, accept_encoding


@dataclass(frozen=True)
class ResponseCacheMiddleware:
    """Answer what has been answered before; pass any other request on."""

    app: ASGIApp
    answers: FinishedAnswers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a finished answer, if there is one."""
        await (self._answer(scope) or self.app)(scope, receive, send)

    def _answer(self, scope: Scope) -> Answer | None:
        if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
            return None
        found = self.answers.find(spelling_of(scope))
        if found is None:
            return None
        finished, built = found
        asked = Preconditions.by(scope)
        scope[WARM_PATH] = finished.path
        try:
            bare = finished.prepared.bare(asked)
            return bare or finished.prepared.built(finished.prepared.span(asked), built)
        # What is wrong with a request is said in one place, and not here.
        except PosrefError:
            del scope[WARM_PATH]
            return None
