"""The fast path: cached responses are written to the connection without the application.

For a small cached response, the application spends nine tenths of its time on the task, the scope,
the events and the header checks, which the fast path avoids.
"""

import asyncio
from time import perf_counter

from service.delivery.cache import CachedResponse, RequestKey
from service.delivery.clients import FORWARDED_FOR
from service.delivery.responses import CachedBody
from service.delivery.telemetry.traffic import REQUEST_ID_HEADER
from service.serving.connections import LimitedProtocol

_STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
# A longer body is not copied: what the client does not read is the memory of the cache.
_JOINED_BYTES = 16 * 1024

# Requests with these headers go to the application: they can change the response.
_DECISIVE_HEADERS = frozenset(
    {
        b"authorization",
        b"content-length",
        b"expect",
        b"if-match",
        b"if-none-match",
        b"if-range",
        b"range",
        b"transfer-encoding",
    }
)


class CachedResponseProtocol(LimitedProtocol):
    """A protocol that looks up a request in the response cache before it starts the application.

    It answers a GET without conditions or ranges, on an idle connection; every other request goes
    to the application. uvicorn handles time-outs, shutdown and pipelining.
    """

    _request_id: bytes | None = None
    _forwarded_for: bytes | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection; with API keys, or without fast path, the application answers all."""
        super().connection_made(transport)
        self._own_transport = transport
        self._is_cache_allowed = self.limits.fast_path and not (self.is_beyond or self.limits.keys)

    def on_headers_complete(self) -> None:
        """Answer a request from the cache, or start the application on it."""
        begun_at = perf_counter()
        if self._end_head():
            return
        key = self._request_key() if self._may_use_cache() else None
        cached = self.delivery.response_cache.find(key) if key else None
        if cached is None:
            # The timer runs if the previous request, in the same segment, was answered here.
            self._unset_keepalive_if_required()
            self._start()
            return
        self._answer(*cached, begun_at)
        self.on_response_complete()

    def _answer(self, response: CachedResponse, cached: CachedBody, begun_at: float) -> None:
        log = self.delivery.log
        request_id = log.request_id(self._request_id)
        self.answer_without_application()
        self._write(request_id, response.header_bytes, cached.body)
        seconds = perf_counter() - begun_at
        response.tally.count(len(cached.body), seconds)
        if response.log_fields is not None:
            log.write(response.log_fields, request_id, self.client, seconds, self._forwarded_for)

    def _may_use_cache(self) -> bool:
        return (
            self._is_cache_allowed
            and self.can_write_now(self._own_transport)
            and not self.delivery.is_draining
        )

    def _request_key(self) -> RequestKey | None:
        """Return the cache key of a GET without conditions or ranges; None for other requests."""
        parser = self.parser
        is_plain = (
            parser.get_method() == b"GET"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
        )
        if not is_plain:
            return None
        accept = accept_encoding = None
        self._request_id = self._forwarded_for = None
        for name, value in self.headers:
            if name in _DECISIVE_HEADERS:
                return None
            if name == b"accept":
                if accept is not None:
                    return None
                accept = value
            elif name == b"accept-encoding":
                if accept_encoding is not None:
                    return None
                accept_encoding = value
            elif name == REQUEST_ID_HEADER:
                self._request_id = self._request_id or value
            elif name == FORWARDED_FOR:
                self._forwarded_for = self._forwarded_for or value
        return self.url, accept, accept_encoding

    def _write(self, request_id: str, head: bytes, body: bytes) -> None:
        lines = [_STATUS_LINE]
        for name, value in self.server_state.default_headers:
            lines += (name, b": ", value, b"\r\n")
        lines += (REQUEST_ID_HEADER, b": ", request_id.encode(), b"\r\n", head)
        if len(body) <= _JOINED_BYTES:
            lines.append(body)
            self._own_transport.write(b"".join(lines))
        else:
            self._own_transport.writelines((b"".join(lines), body))
