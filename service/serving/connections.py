"""Connections: limits on the size, duration and number of requests, and room for new ones.

A request that exceeds a limit does not reach the application; the protocol answers it with a
problem.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NoReturn, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from service.delivery.budget import CONNECTION_BYTES
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
    PosrefError,
    RequestTimeout,
    URLTooLong,
    VersionNotSupported,
)
from service.serving.protocol import FreeingTransport, UvicornProtocol
from service.settings import Settings

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
    """Chooses the connections to close for new ones; belongs to one event loop.

    These are idle connections of the address that holds the most, the longest idle first.
    """

    def __init__(self) -> None:
        self._found: list[tuple[float, LimitedProtocol]] = []
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
            since, connection = self._found.pop()
            if connection.idle_since(now) == since:
                connection.transport.close()
                return connection
        return None


def _idle(
    connections: Iterable["LimitedProtocol"], now: float
) -> list[tuple[float, "LimitedProtocol"]]:
    """Return idle connections, and since when they are; those to close first come last.

    Those of an address that holds at most half as many as another are left out: before they should
    be closed, the other may hold more again.
    """
    held: Counter[str] = Counter()
    idle: list[tuple[float, LimitedProtocol]] = []
    for connection in connections:
        held[connection.address] += 1
        since = connection.idle_since(now)
        if since is not None:
            idle.append((since, connection))
    ranked: list[tuple[int, float, LimitedProtocol]] = []
    for since, connection in sorted(idle, key=itemgetter(0)):
        ranked.append((held[connection.address], -since, connection))
        held[connection.address] -= 1
    ranked.sort(key=itemgetter(0, 1))
    least = ranked[-1][0] // 2 if ranked else 0
    return [(-since, each) for number, since, each in ranked[-_MAX_FOUND:] if number > least]


# A parsed request takes several KiB, and a segment may contain thousands: while one waits for the
# response before it, at most this much behind it is parsed.
_PORTION_BYTES = 512

# The most received bytes that wait to be parsed before reading is paused.
_MAX_UNPARSED_BYTES = 16 * 1024

# The longest time for which one connection is parsed while others wait.
_PARSE_SECONDS = 0.002

# A host and a port as RFC 3986 spells them, and a URL as the target of a request.
_HOST = rb"(?:\[[\w.~!$&'()*+,;=:-]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-fA-F]{2})*)(?::\d*)?"
_SLASH = ord("/")
_is_host = re.compile(_HOST).fullmatch
_absolute = re.compile(rb"(?i:https?)://(?![/?:])" + _HOST + rb"(/[^?]*)?(\?.*)?").fullmatch


class LimitedProtocol(UvicornProtocol):
    """A protocol with limits; a request that exceeds one is answered with a problem.

    The server calls ``check`` about once a second to enforce the time limits: a timer for each
    request would cost a tenth of a small response.

    Attributes:
        is_beyond: whether the connection is beyond the limit, of connections or of memory: it
            answers a probe and closes.
    """

    _fault: PosrefError | None = None
    _shortage: PosrefError | None = None
    _is_refused = False
    _unparsed = b""
    _body_bytes = 0
    _segment_bytes = 0
    _head_bytes = 0
    _is_new_head = False
    _hosts: list[bytes] | None = None
    _stalled: tuple[int, float] | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.delivery: Delivery = self.app_state[STATE]
        self.limits: Settings = self.delivery.settings
        self._max_url_bytes = self.limits.max_url_bytes
        self._max_head_bytes = self.limits.max_head_bytes
        self._grant = self.delivery.budget.grant("connections", 0, from_reserve=True)
        self._unparsed_grant = self.delivery.budget.grant("connections", 0)
        self._begun = self.loop.time()
        self._in_head = True
        self._has_begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection; abort it if far too many connections are open."""
        super().connection_made(FreeingTransport(transport, self._has_unread))
        self.is_beyond = False
        excess = len(self.connections) - self.limits.max_connections
        if excess > 0:
            closed = self._close_another(is_full=excess > _EXTRA_CONNECTIONS)
            self.is_beyond = closed is None or closed.is_beyond
            if closed is None and excess > _EXTRA_CONNECTIONS:
                self.delivery.refusals.count("connections")
                transport.abort()
        try:
            self._grant.resize(CONNECTION_BYTES)
        except PosrefError as shortage:
            self.is_beyond, self._shortage = True, shortage

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection, and give back its memory."""
        self._grant.release()
        self._unparsed_grant.release()
        super().connection_lost(exc)

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
            return self._begun if self.is_beyond and transport.is_lingering else None
        if not self.is_idle() or self.has_unread_body() or transport.get_write_buffer_size():
            return None
        if self.timeout_keep_alive_task is not None:
            since = self.timeout_keep_alive_task.when() - self.timeout_keep_alive
            return max(since, self._begun)
        is_prompt = self._has_begun and now - self._begun < _PROMPT_SECONDS
        return None if is_prompt and not self.is_beyond else self._begun

    def stay_idle(self) -> None:
        """Restart the idle time, for a request that was answered without being parsed."""
        self.server_state.total_requests += 1
        self._begun = self.loop.time()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, or wait on if its idle time was restarted.

        A new timer for each request would cost a tenth of a small response.
        """
        left_seconds = self._begun + self.timeout_keep_alive - self.loop.time()
        if left_seconds > 0:
            self.timeout_keep_alive_task = self.loop.call_later(
                left_seconds, self.timeout_keep_alive_handler
            )
        else:
            super().timeout_keep_alive_handler()

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
        if self.transport.is_closing():
            return
        if len(data) > _PORTION_BYTES or self._unparsed or self.pipeline:
            self._unparsed += data
            self._parse_unparsed()
        else:
            self._parse(data)

    def on_response_complete(self) -> None:
        """Start the next request that waits; parse more of them if none does."""
        self.is_pipelined = True
        super().on_response_complete()
        if self._unparsed:
            self._parse_unparsed()
        self.is_pipelined = False

    def _parse_unparsed(self) -> None:
        """Parse portions until a request waits, or other connections should have a turn."""
        if self.transport.is_closing():
            return
        # Responses from the cache complete meanwhile, and would parse, too.
        unparsed, self._unparsed = self._unparsed, b""
        parsed_bytes, end = 0, self.loop.time() + _PARSE_SECONDS
        while parsed_bytes < len(unparsed) and not self.pipeline and self.loop.time() < end:
            start = parsed_bytes
            parsed_bytes += max(_PORTION_BYTES, self._body_bytes)
            self._parse(unparsed[start:parsed_bytes])
            if self.transport.is_closing():
                return
        self._unparsed = unparsed[parsed_bytes:]
        if len(self._unparsed) > _MAX_UNPARSED_BYTES:
            self._hold()
        else:
            # Reading goes on, so that a disconnect is noticed.
            self.flow.release()
            self._unparsed_grant.release()
        if self._unparsed and not self.pipeline:
            self.loop.call_soon(self._parse_unparsed)

    def _hold(self) -> None:
        """Read nothing until the unparsed bytes are fewer; drop them if memory is short."""
        self.flow.hold()
        try:
            self._unparsed_grant.resize(len(self._unparsed))
        except PosrefError:
            # The client sends the requests without an answer again.
            self._unparsed = b""
            self.shutdown()

    def _parse(self, data: bytes) -> None:
        """Parse bytes; refuse invalid requests and those beyond a limit."""
        self._unset_keepalive_if_required()
        self._segment_bytes = len(data)
        try:
            self.feed(data)
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
            error = NotReady("this process has ended: send the request to another")
            self._respond(refusal(error))
            self.transport.close()
        else:
            self.transport.abort()
        self.cancel_running()

    def _fail(self, error: PosrefError) -> NoReturn:
        """Store an error and raise it in a parser callback; httptools would hide it."""
        self._fault = error
        raise error

    def _start(self) -> None:
        if self.is_beyond and self.url.partition(b"?")[0] not in _PROBES:
            if self._shortage is not None:
                self._fail(self._shortage)
            limit = self.limits.max_connections
            detail = f"more than {limit} connections at once (POSREF_MAX_CONNECTIONS)"
            self._fail(self.delivery.refusals.overloaded("connections", detail))
        codings = [
            value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"
        ]
        if codings and codings != [b"chunked"]:
            self._fail(MalformedRequest("Transfer-Encoding is not chunked alone"))
        lengths = [value for name, value in self.headers if name == b"content-length"]
        self._body_bytes = int(lengths[0]) if lengths else 0
        is_last = self.is_beyond or self.delivery.is_draining
        self.start_application(keep_alive=not is_last)

    def _end_head(self) -> bool:
        """Check a head; return whether it offers an upgrade, and so is read once more."""
        self._in_head = False
        if (version := self.parser.get_http_version()) not in {"1.0", "1.1"}:
            self._fail(VersionNotSupported(f"HTTP/{version} is not spoken here: send HTTP/1.1"))
        is_offer = self.parser.should_upgrade()
        if is_offer and self.parser.get_method() == b"CONNECT":
            self._fail(MalformedRequest("CONNECT is for proxies: send GET or POST"))
        if b"#" in self.url:
            self._fail(MalformedRequest("the target has a fragment: send what is before the #"))
        if self.url[0] != _SLASH and self.url != b"*":
            self._make_relative()
        hosts = [value for name, value in self.headers if name == b"host"]
        if hosts != self._hosts:
            self._check_hosts(hosts)
        # The portions with its start and its end are not counted yet.
        if self._head_bytes + 2 * _PORTION_BYTES > self._max_head_bytes:
            head_bytes = len(self.url) + sum(len(n) + len(v) + 4 for n, v in self.headers)
            self._check_head_length(head_bytes)
        return is_offer

    def _make_relative(self) -> None:
        """Reduce an absolute target, as for a proxy, to its path and query."""
        parts = _absolute(self.url)
        if parts is None:
            self._fail(MalformedRequest("the target is neither a path nor an http or https URL"))
        self.url = (parts[1] or b"/") + (parts[2] or b"")

    def _check_hosts(self, hosts: list[bytes]) -> None:
        """Refuse what RFC 9112 refuses: no Host, unless in HTTP/1.0; several, or an invalid one."""
        if len(hosts) == 1 and _is_host(hosts[0]):
            self._hosts = hosts
        elif hosts or self.parser.get_http_version() != "1.0":
            sent = b", ".join(hosts).decode("latin-1") if hosts else "missing"
            self._fail(
                MalformedRequest(
                    f"Host is {sent[:64]}: send one, a name or an address, like localhost:8000"
                )
            )

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
        # A stream leaves as many bytes to the transport again and again.
        unread_bytes = waiting_bytes - (self.stream.sent_bytes if self.stream else 0)
        if waiting_bytes == 0:
            self._stalled = None
        elif self._stalled is None or self._stalled[0] != unread_bytes:
            self._stalled = unread_bytes, now
        return self._stalled is not None and now - self._stalled[1] > self.limits.stall_seconds

    def _refuse(self, error: PosrefError) -> None:
        """Send a problem response, unless another has begun, and close the connection.

        Nothing is sent while an earlier request waits: it would be taken for the answer to that.
        """
        self._is_refused = True
        if self.may_answer() and (self.is_idle() or self.has_unread_body()):
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
            (REQUEST_ID_HEADER, request_id),
            *OPEN_HEADERS,
            *answer.raw_headers,
            (b"connection", b"close"),
        ]
        lines = [b"%s: %s\r\n" % header for header in headers]
        head = b"".join([STATUS_LINE[answer.status_code], *lines, b"\r\n"])
        # Until a target has begun, the parser has the method of the request before.
        is_head = bool(self.url) and self.parser.get_method() == b"HEAD"
        body = b"" if is_head else answer.payload
        self.transport.write(head + body)

        body_bytes, seconds = len(body), max(0.0, self.loop.time() - self._begun)
        tally = tallies.of("other", answer.status_code, "problem", is_warm=False)
        tally.count(body_bytes, seconds)
        # The method may be missing or invalid.
        fields = log.log_fields("", self.url, tally.labels, body_bytes)
        log.write(fields, request_id, self.client, seconds)


def _too_slow(part: str, limit_seconds: int, setting: str) -> RequestTimeout:
    return RequestTimeout(
        f"the {part} of the request took longer than {limit_seconds} s to arrive ({setting})"
    )
