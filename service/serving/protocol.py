"""What is said of requests that do not come as far as an application.

A whole answer as bytes, for those that no application sends.

How the bytes of a connection go to the system: long blocks, and how many wait there.

Connections with limits: how much of a request may come, how slowly, over how many at once.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.delivery.negotiation import OPEN_HEADERS
from service.delivery.problems import refusal
from service.delivery.respond import STATE, Delivery
from service.delivery.responses import Answer
from service.errors import (
    HeadersTooLarge,
    MalformedRequest,
    Overloaded,
    PosrefError,
    RequestTimeout,
    URLTooLong,
)
from service.formats.format import Block
from service.settings import Settings


def url_too_long(limit_bytes: int) -> URLTooLong:
    """Refuse a URL."""
    return URLTooLong(
        f"the URL is longer than {limit_bytes} bytes (POSREF_MAX_URL_BYTES): "
        "send long lists in the body of a POST"
    )


def head_too_long(limit_bytes: int) -> HeadersTooLarge:
    """Refuse a request line and headers."""
    return HeadersTooLarge(
        f"the request line and headers are longer than {limit_bytes} bytes (POSREF_MAX_HEAD_BYTES)"
    )


def head_too_slow(limit_seconds: int) -> RequestTimeout:
    """Refuse to wait for the end of a head."""
    return _too_slow("head", limit_seconds, "POSREF_HEADER_SECONDS")


def body_too_slow(limit_seconds: int) -> RequestTimeout:
    """Refuse to wait for the end of a body."""
    return _too_slow("body", limit_seconds, "POSREF_BODY_SECONDS")


def too_many_connections(limit: int) -> Overloaded:
    """Refuse what comes over one connection too many."""
    return Overloaded(f"more than {limit} connections at once (POSREF_MAX_CONNECTIONS)")


def _too_slow(part: str, limit_seconds: int, name: str) -> RequestTimeout:
    return RequestTimeout(
        f"the {part} of the request took longer than {limit_seconds} s to come ({name})"
    )


def serialize_response(answer: Answer, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Spell an answer whose body is there, with more headers than its own, as the last one.

    Args:
        answer: the answer.
        headers: what else is said.
    """
    assert isinstance(answer.payload, bytes)
    said = [*headers, *answer.raw_headers, (b"connection", b"close")]
    lines = [b"%s: %s\r\n" % header for header in said]
    return b"".join([STATUS_LINE[answer.status_code], *lines, b"\r\n", answer.payload])


_LONG_BYTES = 64 * 1024

# What the system keeps for a connection beyond what is under way: more of it is colder memory for
# no gain. What is under way may be as much as the line holds.
_UNSENT_BYTES = 128 * 1024


# How long a client that is still sending may take to notice that it has been answered.
_LINGER_SECONDS = 5.0


def tuned(transport: asyncio.Transport, has_unread: Callable[[], bool]) -> Any:
    """Set a connection up for long answers; only one without TLS is written to past its transport.

    Args:
        transport: that of the connection.
        has_unread: tells whether the client may be sending yet what nobody reads.

    Returns:
        What stands for the transport.
    """
    _keep_little_unsent(transport.get_extra_info("socket"))
    is_plain = transport.get_extra_info("sslcontext") is None
    return FreeingTransport(transport, has_unread) if is_plain else transport


class FreeingTransport:
    """A transport that lets other threads run while a long block goes to the system.

    uvloop's own holds the interpreter as long as the system copies.

    It closes in two steps where the client may still be sending: a system that is sent more on a
    closed connection answers with a reset, which takes from the client the answer it has not read.

    Attributes:
        is_lingering: whether the first of them has been taken; nothing is read any more.
    """

    def __init__(self, transport: asyncio.Transport, has_unread: Callable[[], bool]) -> None:
        self.is_lingering = False
        self._has_unread = has_unread
        self._transport = transport
        # Asked at every answer, where the way through __getattr__ shows.
        self.is_closing = transport.is_closing
        self._socket: int = transport.get_extra_info("socket").fileno()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: Block) -> None:
        """Write what the system takes at once, and leave the rest to the transport."""
        if len(data) > _LONG_BYTES and self._is_clear():
            data = memoryview(data)[self._written(data) :]
        self._transport.write(data)

    def close(self) -> None:
        """Close, at once where the client has been heard out."""
        if self.is_lingering or self._transport.is_closing() or not self._has_unread():
            self._transport.close()
            return
        self.is_lingering = True
        self.is_closing = _yes
        self._transport.resume_reading()
        self._transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._transport.close)

    def _is_clear(self) -> bool:
        return not self.is_closing() and self._transport.get_write_buffer_size() == 0

    def _written(self, data: Block) -> int:
        try:
            return os.write(self._socket, data)
        # Whether it is full or gone, the transport finds out by itself.
        except OSError:
            return 0


def _yes() -> bool:
    return True


def _keep_little_unsent(connection: socket.socket) -> None:
    option: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, option, _UNSENT_BYTES)


PROBES = frozenset({b"/livez", b"/readyz"})
"""Paths that are answered on connections beyond their number, too."""

# Connections beyond the limit that are let in, so that probes among them are answered.
_BEYOND = 256

_NO_ROUTE = "other"


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits, and problem documents where one is passed; uvicorn 0.54.

    Time limits are held by whoever calls ``check`` now and then: a timer of its own for each
    request would cost a tenth of a small answer.
    """

    url = b""
    _fault: PosrefError | None = None
    _is_refused = False
    _segment_bytes = 0
    _head_bytes = 0
    _is_new_head = False
    _stalled: tuple[int, float] | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.delivery: Delivery = self.app_state[STATE]
        self.limits: Settings = self.delivery.settings
        self._max_url_bytes = self.limits.max_url_bytes
        self._max_head_bytes = self.limits.max_head_bytes
        self._begun = self.loop.time()
        self._in_head = True
        self._has_begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection; one far beyond their number is closed at once."""
        super().connection_made(tuned(transport, self._has_unread))
        self._is_beyond = len(self.connections) > self.limits.max_connections
        if len(self.connections) > self.limits.max_connections + _BEYOND:
            self.delivery.gate.refused("connections")
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read what came; what is no request, or too much of one, is refused."""
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self._segment_bytes = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return
        except httptools.HttpParserError:
            self._refuse(self._fault or MalformedRequest("the bytes that came are no HTTP request"))
            return
        if (self._in_head or self._has_unread()) and not self.transport.is_closing():
            self._hold_growing_head()

    def on_message_begin(self) -> None:
        """Begin a request; its scope is for requests that an application sees."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._begun = self.loop.time()
        self._in_head = self._has_begun = self._is_new_head = True
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Collect the URL of a request, up to its limit."""
        self.url += url
        limit = self._max_url_bytes
        if len(self.url) > limit:
            self._fault = url_too_long(limit)
            raise self._fault

    def on_headers_complete(self) -> None:
        """Start the application on a request, unless this is one connection too many."""
        self._end_head()
        self._start()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; what is counted as a head begins anew after it: trailers."""
        self._is_new_head, self._head_bytes = True, 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request, whether or not it has been answered before it had come."""
        self.cycle.more_body = False
        self.cycle.message_event.set()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser cannot read."""
        self._refuse(MalformedRequest(msg))

    def check(self, now: float) -> None:
        """Hold the time limits; to be called about once a second.

        Args:
            now: the time of the event loop.
        """
        if self._has_stalled(now):
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif self.pipeline or (self._in_head and not self.is_at_rest()):
            # Its sender need not send on, and may not be read, before it has the answer before.
            self._begun = now
        elif self._in_head:
            self._check_head(now)
        elif self._lacks_body():
            self._check_body(now)
        elif self.is_at_rest() and self.timeout_keep_alive_task is None:
            # Bytes came that began nothing, and stopped the clock of the idle connection.
            self._begun, self._in_head, self._has_begun = now, True, False

    def is_at_rest(self) -> bool:
        """Tell whether every request that came has been answered."""
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    def _start(self) -> None:
        path = self.url.partition(b"?")[0]
        if self._is_beyond and path not in PROBES:
            limit = self.limits.max_connections
            self.delivery.gate.refused("connections")
            self._fault = too_many_connections(limit)
            raise self._fault
        self._make_scope()
        super().on_headers_complete()
        # Trailers are no headers, and not kept.
        self.headers = []
        if self._is_beyond or self.delivery.readiness.is_draining:
            self.cycle.keep_alive = False

    def _make_scope(self) -> None:
        """Let uvicorn make its scope, which it does at the first byte, for every request."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.headers, self.expect_100_continue = url, headers, expects
        self.scope["headers"] = headers

    def _end_head(self) -> None:
        self._in_head = False
        if self._segment_bytes > self._max_head_bytes:
            head_bytes = len(self.url) + sum(len(n) + len(v) + 4 for n, v in self.headers)
            self._hold_head(head_bytes)

    def _hold_growing_head(self) -> None:
        """Hold a head that is not complete; of its first piece, what came before it is unknown."""
        if self._is_new_head:
            self._is_new_head = False
            return
        self._head_bytes += self._segment_bytes
        try:
            self._hold_head(self._head_bytes)
        except HeadersTooLarge as error:
            self._refuse(error)

    def _hold_head(self, head_bytes: int) -> None:
        limit = self._max_head_bytes
        if head_bytes > limit:
            self._fault = head_too_long(limit)
            raise self._fault

    def _check_head(self, now: float) -> None:
        limit = self.limits.header_seconds
        if now - self._begun <= limit:
            return
        if self._has_begun:
            self._refuse(head_too_slow(limit))
        else:
            self.transport.close()

    def _has_unread(self) -> bool:
        """Tell whether the client may be sending yet what nobody reads."""
        return self._is_refused or (self.cycle is not None and self.cycle.more_body)

    def _lacks_body(self) -> bool:
        """Tell whether a client owes a part of a body that is being read."""
        cycle = self.cycle
        return cycle is not None and cycle.more_body and not self.flow.read_paused

    def _check_body(self, now: float) -> None:
        limit = self.limits.body_seconds
        if now - self._begun > self.limits.header_seconds + limit:
            self._refuse(body_too_slow(limit))

    def _has_stalled(self, now: float) -> bool:
        """Tell whether nothing has been taken, of what waits to be, for too long."""
        waiting_bytes = self.transport.get_write_buffer_size()
        if waiting_bytes == 0:
            self._stalled = None
        elif self._stalled is None or self._stalled[0] != waiting_bytes:
            self._stalled = waiting_bytes, now
        return self._stalled is not None and now - self._stalled[1] > self.limits.stall_seconds

    def _refuse(self, error: PosrefError) -> None:
        """Answer with a problem, unless its request has an answer or one is sent, and close."""
        self._is_refused = True
        if self._may_answer():
            answer, request_id = refusal(error), self.delivery.log.request_id(None)
            named = (b"x-request-id", request_id.encode())
            headers = [*self.server_state.default_headers, named, *OPEN_HEADERS]
            self.transport.write(serialize_response(answer, headers))
            self._note(answer, request_id)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _may_answer(self) -> bool:
        cycle = self.cycle
        if self.pipeline or cycle is None:
            return not self.pipeline
        return not (cycle.more_body if cycle.response_complete else cycle.response_started)

    def _note(self, answer: Answer, request_id: str) -> None:
        """Count and log an answer that no application gave."""
        assert isinstance(answer.payload, bytes)
        body_bytes, seconds = len(answer.payload), max(0.0, self.loop.time() - self._begun)
        metrics, log = self.delivery.metrics, self.delivery.log
        tally = metrics.tally(_NO_ROUTE, answer.status_code, "problem", is_warm=False)
        tally.count(body_bytes, seconds)
        # The method may not have come, or be none.
        told = log.told("", self.url, tally.labels, body_bytes)
        log.write(told, request_id, self.client, seconds)
