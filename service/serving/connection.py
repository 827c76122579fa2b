"""Connections with limits: how much of a request may come, how slowly, over how many at once."""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.delivery.answer import Answer
from service.delivery.headers import OPEN_HEADERS
from service.delivery.problems import refusal
from service.delivery.respond import STATE, Delivery
from service.errors import HeadersTooLarge, MalformedRequest, PosrefError
from service.serving.refusals import (
    body_too_slow,
    head_too_long,
    head_too_slow,
    too_many_connections,
    url_too_long,
)
from service.serving.transport import tuned
from service.serving.whole import spelled
from service.settings import Settings

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
            self.transport.write(spelled(answer, headers))
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
