"""Connections: limits on the size, duration and number of requests, and the transport.

A request that exceeds a limit does not reach the application; the protocol answers it with a
problem. The transport lets other threads run while it writes a long block.
"""

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from service.delivery.clients import UNKNOWN, name_of_address
from service.delivery.dispatch import STATE, Delivery
from service.delivery.middleware import PROBES
from service.delivery.negotiation import OPEN_HEADERS
from service.delivery.problems import refusal
from service.delivery.responses import Answer
from service.delivery.telemetry.traffic import REQUEST_ID_HEADER
from service.errors import (
    HeadersTooLarge,
    MalformedRequest,
    NotReady,
    Overloaded,
    PosrefError,
    RequestTimeout,
    URLTooLong,
)
from service.formats.format import Block
from service.settings import Settings

_LONG_BYTES = 64 * 1024

# The most unsent bytes that the kernel buffers for a connection; more would only use memory.
_UNSENT_BYTES = 128 * 1024

# How long the server waits before it closes a connection whose client is still sending.
_LINGER_SECONDS = 5.0


def tune(transport: asyncio.Transport, has_unread: Callable[[], bool]) -> Any:
    """Configure a connection for long responses; return a wrapped transport, or the same for TLS.

    Args:
        transport: the transport of the connection; a TLS transport is not wrapped, because it must
            encrypt every byte.
        has_unread: returns whether the client may still send bytes that the server has not read.
    """
    _limit_unsent_bytes(transport.get_extra_info("socket"))
    is_plain = transport.get_extra_info("sslcontext") is None
    return FreeingTransport(transport, has_unread) if is_plain else transport


class FreeingTransport:
    """A transport that releases the interpreter lock while it copies a long block to the kernel.

    uvloop's own transport holds the lock.

    Where the client may still be sending, it first closes its own direction only, and the
    connection after a while: a kernel that receives bytes on a closed connection sends a reset,
    which deletes the response that the client has not read.

    Attributes:
        is_lingering: whether its own direction is closed; received bytes are not parsed.
    """

    def __init__(self, transport: asyncio.Transport, has_unread: Callable[[], bool]) -> None:
        self.is_lingering = False
        self._has_unread = has_unread
        self._transport = transport
        # Called for every response, where __getattr__ takes measurable time.
        self.is_closing = transport.is_closing
        self._socket: int = transport.get_extra_info("socket").fileno()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: Block) -> None:
        """Write what the kernel accepts at once; the transport writes the rest."""
        if len(data) > _LONG_BYTES and not (self.is_closing() or self.get_write_buffer_size()):
            # If the socket is full or closed, the transport handles it.
            with suppress(OSError):
                data = memoryview(data)[os.write(self._socket, data) :]
        self._transport.write(data)

    def close(self) -> None:
        """Close the connection: at once, or later if the client may still be sending."""
        if self.is_lingering or self._transport.is_closing() or not self._has_unread():
            self._transport.close()
            return
        self.is_lingering = True
        self.is_closing = lambda: True
        self._transport.resume_reading()
        self._transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._transport.close)


def _limit_unsent_bytes(connection: socket.socket) -> None:
    option: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, option, _UNSENT_BYTES)


# Replaces uvicorn's cycle object for a request that was answered without the application.
_ANSWERED: Any = SimpleNamespace(
    response_complete=True, more_body=False, message_event=SimpleNamespace(set=lambda: None)
)


class HeldFlow(FlowControl):
    """uvicorn's control of a connection; reading stays paused while it is held."""

    _is_held = False

    def hold(self) -> None:
        """Read nothing until ``release``."""
        if not (self._is_held or self.read_paused):
            self._transport.pause_reading()
        self._is_held = True

    def release(self) -> None:
        """Let reading go on, unless it is paused."""
        if self._is_held and not self.read_paused:
            self._transport.resume_reading()
        self._is_held = False

    def pause_reading(self) -> None:
        """Pause reading, for a request that waits or whose body is not taken yet."""
        if self._is_held:
            self.read_paused = True
        else:
            super().pause_reading()

    def resume_reading(self) -> None:
        """Resume reading, once it is not held."""
        if self._is_held:
            self.read_paused = False
        else:
            super().resume_reading()


class UvicornProtocol(HttpToolsProtocol):
    """uvicorn's protocol; its scope is made for requests that reach the application only.

    uvicorn is pinned below 0.55 because this package relies on undocumented parts of 0.54:

    - attributes of ``HttpToolsProtocol``: ``parser``, ``transport``, ``flow`` (a ``FlowControl``:
      ``read_paused``, ``write_paused``, ``_transport``), ``cycle``, ``pipeline``, ``connections``,
      ``headers``, ``scope``, ``expect_100_continue``, ``client``, ``app_state``,
      ``server_state.default_headers``, ``timeout_keep_alive_task``;
    - its methods: ``on_message_begin`` (makes the scope), ``on_headers_complete`` (starts the
      application), ``on_response_complete`` (starts the next request or the keep-alive timer),
      ``_unset_keepalive_if_required``, ``_start_asgi_task``;
    - of ``RequestResponseCycle``: ``response_started``, ``response_complete``, ``more_body``,
      ``keep_alive``, ``disconnected``, ``message_event``.

    Only this class changes a cycle; subclasses call its methods and read the attributes above.
    """

    url = b""
    flow: HeldFlow
    _running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(transport)
        self.flow = HeldFlow(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the running request; uvicorn only cancels the one that came last."""
        self.cancel_running()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin a request without a scope."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_message_complete(self) -> None:
        """Mark the request body as complete and wake the application."""
        self.cycle.more_body = False
        self.cycle.message_event.set()

    def start_application(self, *, keep_alive: bool) -> None:
        """Create the scope, which uvicorn does at the first byte, and start the application."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.headers, self.expect_100_continue = url, headers, expects
        self.scope["headers"] = headers
        super().on_headers_complete()
        # Trailers are not headers of the request.
        self.headers = []
        if not keep_alive:
            self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def answer_without_application(self) -> None:
        """Mark the request as answered; ``on_response_complete`` follows."""
        self.cycle = _ANSWERED

    def cancel_running(self) -> None:
        """Notify the running request that its client has disconnected."""
        for cycle in (self._running, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def is_idle(self) -> bool:
        """Return whether every received request is answered."""
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    def has_unread_body(self) -> bool:
        """Return whether the client may still send a body."""
        return self.cycle is not None and self.cycle.more_body

    def may_answer(self) -> bool:
        """Return whether an error response can be written: no other is queued or in progress."""
        cycle = self.cycle
        if self.pipeline or cycle is None:
            return not self.pipeline
        return not (cycle.more_body if cycle.response_complete else cycle.response_started)

    def can_write_now(self, transport: asyncio.Transport) -> bool:
        """Return whether a response may be written at once."""
        return self.is_idle() and not (self.flow.write_paused or transport.is_closing())


# Paths that are answered on connections beyond the limit, too.
_PROBES = frozenset(path.encode() for path in PROBES)

# Connections beyond the limit that are accepted, so that probes among them are answered.
_EXTRA_CONNECTIONS = 256

# The key of the idle connections in the state that all connections share.
_IDLE = "posref.idle_connections"

# A head that arrives for longer than this does not keep its connection open beyond the limit.
_PROMPT_SECONDS = 1.0

# A search through all connections takes milliseconds, and must not be made for each new one.
_SEARCH_SECONDS = 0.1
_MAX_FOUND = 512


class IdleConnections:
    """The connections that are closed to make room for new ones; belongs to one event loop.

    They are idle connections of the address that holds the most, the longest idle first.
    """

    def __init__(self) -> None:
        self._found: list[tuple[LimitedProtocol, float]] = []
        self._searched_at = -_SEARCH_SECONDS

    def close_one(
        self, connections: Iterable["LimitedProtocol"], now: float
    ) -> "LimitedProtocol | None":
        """Close an idle connection and return it, if there is one.

        Args:
            connections: those that may be closed.
            now: the time of the event loop.
        """
        if now - self._searched_at >= _SEARCH_SECONDS:
            self._searched_at = now
            self._found = _idle(connections, now)
        while self._found:
            connection, since = self._found.pop()
            if connection.idle_since(now) == since:
                connection.transport.close()
                return connection
        return None


def _idle(
    connections: Iterable["LimitedProtocol"], now: float
) -> list[tuple["LimitedProtocol", float]]:
    """Return idle connections and since when, in the reverse of the order to close them.

    None is returned whose address holds half as many as another: before it should be closed, the
    other may hold more again.
    """
    held: Counter[str] = Counter()
    idle: list[tuple[float, LimitedProtocol, str]] = []
    for connection in connections:
        address = connection.address
        held[address] += 1
        since = connection.idle_since(now)
        if since is not None:
            idle.append((since, connection, address))
    idle.sort(key=lambda each: each[0])
    ranked: list[tuple[int, float, LimitedProtocol]] = []
    for since, connection, address in idle:
        ranked.append((held[address], since, connection))
        held[address] -= 1
    most = max((number for number, _, _ in ranked), default=0)
    ranked = [each for each in ranked if each[0] > most // 2]
    ranked.sort(key=lambda each: (each[0], -each[1]))
    return [(connection, since) for _, since, connection in ranked[-_MAX_FOUND:]]


# A parsed request takes several KiB, and a segment may contain thousands: while one waits for the
# response before it, at most this much behind it is parsed.
_PORTION_BYTES = 512

# The most received bytes that wait to be parsed before reading is paused.
_MAX_UNPARSED_BYTES = 16 * 1024

# The longest time for which one connection is parsed while others wait.
_PARSE_SECONDS = 0.002


class LimitedProtocol(UvicornProtocol):
    """A protocol with limits; a request that exceeds one is answered with a problem.

    The server calls ``check`` about once a second to enforce the time limits: a timer for each
    request would cost a tenth of a small response.

    Attributes:
        is_beyond: whether the connection is beyond the limit: it answers a probe and closes.
    """

    _fault: PosrefError | None = None
    _is_refused = False
    _unparsed = b""
    _body_bytes = 0
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
        """Begin a connection; abort it if far too many connections are open."""
        super().connection_made(tune(transport, self._has_unread))
        self.is_beyond = False
        excess = len(self.connections) - self.limits.max_connections
        if excess > 0:
            closed = self._close_another(is_full=excess > _EXTRA_CONNECTIONS)
            self.is_beyond = closed is None or closed.is_beyond
            if closed is None and excess > _EXTRA_CONNECTIONS:
                self.delivery.refusals.count("connections")
                transport.abort()

    @property
    def address(self) -> str:
        """The address of the peer, as it counts for the order of clients."""
        return name_of_address(self.client[0]) if self.client else UNKNOWN

    def idle_since(self, now: float) -> float | None:
        """Return since when the connection has been idle, None if it is in use.

        A connection beyond the limit is in use only while a request is answered.
        """
        transport = self.transport
        if transport.is_closing():
            is_lingering = self.is_beyond and getattr(transport, "is_lingering", False)
            return self._begun if is_lingering else None
        if not self.is_idle() or self.has_unread_body() or transport.get_write_buffer_size():
            return None
        if self.timeout_keep_alive_task is not None:
            return self.timeout_keep_alive_task.when() - self.timeout_keep_alive
        is_prompt = self._has_begun and now - self._begun < _PROMPT_SECONDS
        return None if is_prompt and not self.is_beyond else self._begun

    def _close_another(self, *, is_full: bool) -> "LimitedProtocol | None":
        """Close an idle connection whose place this one takes, and return it.

        Connections beyond the limit are only closed if it is full of them, too.
        """
        idle: IdleConnections = self.app_state.setdefault(_IDLE, IdleConnections())
        connections = cast("Iterable[LimitedProtocol]", self.connections)
        others = (
            each for each in connections if each is not self and (is_full or not each.is_beyond)
        )
        return idle.close_one(others, self.loop.time())

    def data_received(self, data: bytes) -> None:
        """Parse a segment; a long one, or one behind a request that waits, in portions."""
        if len(data) > _PORTION_BYTES or self._unparsed or self.pipeline:
            self._unparsed += data
            self._parse_unparsed()
        elif not self.transport.is_closing():
            self._parse(data)

    def on_response_complete(self) -> None:
        """Start the next request that waits; parse more of them if none does."""
        super().on_response_complete()
        if self._unparsed:
            self._parse_unparsed()

    def _parse_unparsed(self) -> None:
        """Parse portions until a request waits, or other connections should have a turn."""
        # Responses from the cache complete meanwhile, and would parse, too.
        unparsed, self._unparsed = self._unparsed, b""
        parsed_bytes, end = 0, self.loop.time() + _PARSE_SECONDS
        while parsed_bytes < len(unparsed) and not self.pipeline and self.loop.time() < end:
            if self.transport.is_closing():
                return
            start = parsed_bytes
            parsed_bytes += max(_PORTION_BYTES, self._body_bytes)
            self._parse(unparsed[start:parsed_bytes])
        self._unparsed = unparsed[parsed_bytes:]
        if len(self._unparsed) > _MAX_UNPARSED_BYTES:
            self.flow.hold()
        else:
            # Reading goes on, so that a disconnect is noticed.
            self.flow.release()
        if self._unparsed and not self.pipeline:
            self.loop.call_soon(self._parse_unparsed)

    def _parse(self, data: bytes) -> None:
        """Parse bytes; refuse invalid requests and those beyond a limit."""
        self._unset_keepalive_if_required()
        self._segment_bytes = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return
        except httptools.HttpParserError:
            self._refuse(self._fault or MalformedRequest("the bytes are not an HTTP request"))
            return
        if (self._in_head or self._has_unread()) and not self.transport.is_closing():
            self._check_growing_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun = self.loop.time()
        self._in_head = self._has_begun = self._is_new_head = True
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Collect the URL of a request, up to its limit."""
        self.url += url
        limit = self._max_url_bytes
        if len(self.url) > limit:
            self._fail(
                URLTooLong(
                    f"the URL is longer than {limit} bytes (POSREF_MAX_URL_BYTES): "
                    "send long lists in the body of a POST"
                )
            )

    def on_body(self, body: bytes) -> None:
        """Receive a part of a body, and reset the count of header bytes for the trailers."""
        self._is_new_head, self._head_bytes = True, 0
        self._body_bytes -= len(body)
        super().on_body(body)

    def check(self, now: float) -> None:
        """Enforce the time limits; called about once a second.

        Args:
            now: the time of the event loop.
        """
        passed_seconds = now - self._begun
        head_seconds, body_seconds = self.limits.header_seconds, self.limits.body_seconds
        if self._has_stalled(now):
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif self.pipeline or (self._in_head and not self.is_idle()):
            # A pipelined request waits for the previous response; do not count that as slowness.
            self._begun = now
        elif self._in_head:
            if passed_seconds > head_seconds and self._has_begun:
                self._refuse(_too_slow("head", head_seconds, "POSREF_HEADER_SECONDS"))
            elif passed_seconds > head_seconds:
                self.transport.close()
        elif self.has_unread_body() and not self.flow.read_paused:
            if passed_seconds > head_seconds + body_seconds:
                self._refuse(_too_slow("body", body_seconds, "POSREF_BODY_SECONDS"))
        elif self.is_idle() and self.timeout_keep_alive_task is None:
            # Stray bytes cancelled uvicorn's keep-alive timer; start our own.
            self._begun, self._in_head, self._has_begun = now, True, False

    def cut_off(self) -> None:
        """End the running request because the process ends: with 503, or in the middle."""
        if self.may_answer():
            self._refuse(NotReady("this process has ended: send the request to another"))
        else:
            self.cancel_running()
            self.transport.abort()

    def _fail(self, error: PosrefError) -> NoReturn:
        """Store an error and raise it in a parser callback; httptools would hide it."""
        self._fault = error
        raise error

    def _start(self) -> None:
        if self.is_beyond and self.url.partition(b"?")[0] not in _PROBES:
            limit = self.limits.max_connections
            self.delivery.refusals.count("connections")
            self._fail(
                Overloaded(f"more than {limit} connections at once (POSREF_MAX_CONNECTIONS)")
            )
        lengths = [value for name, value in self.headers if name == b"content-length"]
        self._body_bytes = int(lengths[0]) if lengths else 0
        is_last = self.is_beyond or self.delivery.readiness.is_draining
        self.start_application(keep_alive=not is_last)

    def _end_head(self) -> None:
        self._in_head = False
        # The portions with its start and its end are not counted yet.
        if self._head_bytes + 2 * _PORTION_BYTES > self._max_head_bytes:
            head_bytes = len(self.url) + sum(len(n) + len(v) + 4 for n, v in self.headers)
            self._check_head_length(head_bytes)

    def _check_growing_head(self) -> None:
        """Refuse an incomplete head or trailers beyond the limit.

        The first segment is not counted: it may begin with the end of the previous request.
        """
        if self._is_new_head:
            self._is_new_head = False
            return
        self._head_bytes += self._segment_bytes
        try:
            self._check_head_length(self._head_bytes)
        except HeadersTooLarge as error:
            self._refuse(error)

    def _check_head_length(self, head_bytes: int) -> None:
        limit = self._max_head_bytes
        if head_bytes > limit:
            self._fail(
                HeadersTooLarge(
                    f"the request line and headers are longer than {limit} bytes "
                    "(POSREF_MAX_HEAD_BYTES)"
                )
            )

    def _has_unread(self) -> bool:
        """Return whether the client may still send bytes that the server has not read."""
        return self._is_refused or bool(self._unparsed) or self.has_unread_body()

    def _has_stalled(self, now: float) -> bool:
        """Return whether the client has read no bytes of a response for ``stall_seconds``."""
        waiting_bytes = self.transport.get_write_buffer_size()
        if waiting_bytes == 0:
            self._stalled = None
        elif self._stalled is None or self._stalled[0] != waiting_bytes:
            self._stalled = waiting_bytes, now
        return self._stalled is not None and now - self._stalled[1] > self.limits.stall_seconds

    def _refuse(self, error: PosrefError) -> None:
        """Send a problem response, unless a response has begun, and close the connection."""
        self._is_refused = True
        if self.may_answer():
            self._respond(refusal(error))
        self.cancel_running()
        self.transport.close()

    def _respond(self, answer: Answer) -> None:
        """Write, count and log the last response of the connection."""
        assert isinstance(answer.payload, bytes)
        tallies, log = self.delivery.tallies, self.delivery.log
        request_id = log.request_id(None)
        headers = [
            *self.server_state.default_headers,
            (REQUEST_ID_HEADER, request_id.encode()),
            *OPEN_HEADERS,
            *answer.raw_headers,
            (b"connection", b"close"),
        ]
        lines = [b"%s: %s\r\n" % header for header in headers]
        head = b"".join([STATUS_LINE[answer.status_code], *lines, b"\r\n"])
        self.transport.write(head + answer.payload)

        body_bytes, seconds = len(answer.payload), max(0.0, self.loop.time() - self._begun)
        tally = tallies.of("other", answer.status_code, "problem", is_warm=False)
        tally.count(body_bytes, seconds)
        # The method may be missing or invalid.
        fields = log.log_fields("", self.url, tally.labels, body_bytes)
        log.write(fields, request_id, self.client, seconds)


def _too_slow(part: str, limit_seconds: int, setting: str) -> RequestTimeout:
    return RequestTimeout(
        f"the {part} of the request took longer than {limit_seconds} s to arrive ({setting})"
    )
