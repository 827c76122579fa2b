"""Cached responses, found by the request alone, before the framework routes it.

An entry holds headers and the tag of a body. The body is in the body cache, which all spellings of
a table share: an entry whose body has been evicted is a miss.
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
"""The target, Accept and Accept-Encoding of a request."""

_OVERHEAD_BYTES = 1024


@dataclass(frozen=True)
class CachedResponse:
    """A response without its body.

    Attributes:
        head: the response.
        header_bytes: the headers of the whole response as they are sent, without Date.
        path: the path of its route.
        tally: the counter of whole responses of this route and format.
        log_fields: the log fields of such a response.
    """

    head: ResponseHead
    header_bytes: bytes
    path: str
    tally: Tally
    log_fields: LogFields | None


class ResponseCache:
    """Cached responses by request key, up to a number of bytes."""

    def __init__(
        self, capacity_bytes: int, cache: BodyCache, metrics: Metrics, log: RequestLog
    ) -> None:
        self._responses: ByteBoundedLRU[RequestKey, CachedResponse] = ByteBoundedLRU(capacity_bytes)
        self._cache = cache
        self._metrics = metrics
        self._log = log

    def find(self, key: RequestKey) -> tuple[CachedResponse, CachedBody] | None:
        """Return the response of a key and its body, if both are cached."""
        response = self._responses.get(key)
        body = None if response is None else self._cache.find(response.head.tag)
        return None if response is None or body is None else (response, body)

    def keep(self, scope: Scope, head: ResponseHead, body: CachedBody) -> None:
        """Keep the response to a request whose whole body is cached."""
        key = request_key(scope)
        headers = [*head.cached(None, body).raw_headers, *OPEN_HEADERS]
        header_bytes = b"".join(b"%s: %s\r\n" % header for header in headers) + b"\r\n"
        path = path_of(scope)
        tally = self._metrics.tally(path, HTTPStatus.OK, format_of(headers), is_warm=True)
        fields = self._log.log_fields("GET", key[0], tally.labels, len(body.body))
        size_bytes = 3 * len(header_bytes) + sum(len(part or b"") for part in key) + _OVERHEAD_BYTES
        size_bytes += len(fields[1]) if fields else 0
        self._responses.put(
            key, CachedResponse(head, header_bytes, path, tally, fields), size_bytes
        )


def request_key(scope: Scope) -> RequestKey:
    """Return the cache key; Range and conditional headers are applied to the cached response."""
    query: bytes = scope["query_string"]
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    accept, accept_encoding = (
        value if value is None else value.encode("latin-1")
        for value in (list_header(scope, name) for name in (b"accept", b"accept-encoding"))
    )
    return path + b"?" + query if query else path, accept, accept_encoding


@dataclass(frozen=True)
class ResponseCacheMiddleware:
    """Sends cached responses; passes any other request on."""

    app: ASGIApp
    answers: ResponseCache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._response(scope) or self.app)(scope, receive, send)

    def _response(self, scope: Scope) -> Answer | None:
        if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
            return None
        found = self.answers.find(request_key(scope))
        if found is None:
            return None
        response, body = found
        head, preconditions = response.head, Preconditions.of(scope)
        scope[WARM_PATH] = response.path
        try:
            bodiless = head.without_body(preconditions)
            return bodiless or head.cached(head.span(preconditions), body)
        # The routes answer every faulty request, so that there is one place for problems.
        except PosrefError:
            del scope[WARM_PATH]
            return None
