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

# Longer segments are not looked up, because that takes as long as they are.
_MAX_REQUEST_BYTES = 2048
_HEAD_END = b"\r\n\r\n"

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

    A segment with exactly the bytes of a request that was answered so is not parsed again.
    """

    _request_id: bytes | None = None
    _forwarded_for: bytes | None = None
    _whole_request: bytes | None = None
    _default_headers: list[tuple[bytes, bytes]] | None = None
    _head_start = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection; with API keys, or without fast path, the application answers all."""
        super().connection_made(transport)
        self._own_transport = transport
        self._is_cache_allowed = self.limits.fast_path and not (self.is_beyond or self.limits.keys)

    def data_received(self, data: bytes) -> None:
        """Answer a segment with the bytes of a request that is known; parse others."""
        if len(data) <= _MAX_REQUEST_BYTES and self._is_between_requests():
            begun_at = perf_counter()
            match = self.delivery.response_cache.find_received(data)
            if match is not None:
                self._answer(*match, begun_at)
                self.stay_idle()
                return
            # Otherwise it may be several requests.
            if data.find(_HEAD_END) == len(data) - len(_HEAD_END):
                self._whole_request = data
        super().data_received(data)
        self._whole_request = None

    def _is_between_requests(self) -> bool:
        """Return whether the next byte begins a request that may be answered from the cache."""
        # The timer runs from a response to the next bytes, but for those in the request's segment.
        return self.timeout_keep_alive_task is not None and not (
            self._in_head
            or self._unparsed
            or self.cycle.more_body
            or self.flow.write_paused
            or self.transport.is_closing()
            or self.delivery.is_draining
        )

    def on_headers_complete(self) -> None:
        """Answer a request from the cache, or start the application on it."""
        begun_at = perf_counter()
        if self._end_head():
            return
        key = self._request_key() if self._may_use_cache() else None
        match = self.delivery.response_cache.find(key) if key else None
        if match is None:
            # The timer runs if the previous request, in the same segment, was answered here.
            self._unset_keepalive_if_required()
            self._start()
            return
        self.answer_without_application()
        self._answer(*match, begun_at, self._request_id, self._forwarded_for)
        if self._whole_request and self._request_id is None and self._forwarded_for is None:
            self.delivery.response_cache.keep_received(self._whole_request, match[0])
        self.on_response_complete()

    def _answer(
        self,
        response: CachedResponse,
        cached: CachedBody,
        begun_at: float,
        request_id: bytes | None = None,
        forwarded_for: bytes | None = None,
    ) -> None:
        log = self.delivery.log
        own_id = log.request_id(request_id)
        self._write(own_id, response.header_bytes, cached.body)
        seconds = perf_counter() - begun_at
        response.tally.count(len(cached.body), seconds)
        if response.log_fields is not None:
            log.write(response.log_fields, own_id, self.client, seconds, forwarded_for)

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

    def _write(self, request_id: bytes, head: bytes, body: bytes) -> None:
        # Replaced once a second, with another Date.
        headers = self.server_state.default_headers
        if headers is not self._default_headers:
            lines = [b"%s: %s\r\n" % header for header in headers]
            self._head_start = b"".join([_STATUS_LINE, *lines, REQUEST_ID_HEADER, b": "])
            self._default_headers = headers
        start = self._head_start
        if len(body) <= _JOINED_BYTES:
            self._own_transport.write(b"".join((start, request_id, head, body)))
        else:
            self._own_transport.writelines((b"".join((start, request_id, head)), body))
