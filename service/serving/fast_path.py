"""Finished answers written straight to the connection, before the request becomes a task.

What a server does for an application that might do anything (a task, a scope, events, a check of
every header) takes nine tenths of the time of a small answer that is there already.
"""

import asyncio
from time import perf_counter
from types import SimpleNamespace
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.delivery.cache import CachedBody
from service.delivery.response_cache import CachedResponse, RequestKey
from service.errors import PosrefError
from service.serving.protocol import LimitedProtocol

_STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
_JOINED_BYTES = 64 * 1024

# What may change an answer, or the way it is sent, beside what is part of a spelling.
_DECISIVE = frozenset(
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

# Stands for a request that has been answered.
_ANSWERED: Any = SimpleNamespace(
    response_complete=True, more_body=False, message_event=SimpleNamespace(set=lambda: None)
)


class CachedResponseProtocol(LimitedProtocol):
    """A protocol which asks for a finished answer first; uvicorn 0.54.

    It answers a plain GET of the whole on a connection that has nothing else to do; any other
    request takes the usual way. Time-outs, counts, shutdown and pipelining are uvicorn's own.
    """

    _running: RequestResponseCycle | None = None
    _sent_id: bytes | None = None
    _forwarded_for: bytes | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection; with keys, each request is the application's to look at."""
        super().connection_made(transport)
        self._direct = transport
        self._is_open = not (self._is_beyond or self.limits.keys)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered; uvicorn only tells the one that came last."""
        self._break_off()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Answer a request whose headers are there, or start the application on it."""
        begun_at = perf_counter()
        self._end_head()
        spelling = self._plain_spelling() if self._is_idle() else None
        found = self.delivery.answers.find(spelling) if spelling else None
        if found is None:
            # It runs if the request before this one, in the same segment, was answered here.
            self._unset_keepalive_if_required()
            self._start()
            if self.parser.should_upgrade():
                # What comes in one segment with it is not read: its sender is told to ask again.
                self.cycle.keep_alive = False
            return
        self._answer(*found, begun_at)
        self.on_response_complete()

    def _answer(self, finished: CachedResponse, built: CachedBody, begun_at: float) -> None:
        log = self.delivery.log
        request_id = log.request_id(self._sent_id)
        self.cycle = _ANSWERED
        self._write(request_id, finished.header_bytes, built.body)
        seconds = perf_counter() - begun_at
        finished.tally.count(len(built.body), seconds)
        if finished.told is not None:
            log.write(finished.told, request_id, self.client, seconds, self._forwarded_for)

    def _refuse(self, error: PosrefError) -> None:
        self._break_off()
        super()._refuse(error)

    def _break_off(self) -> None:
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _is_idle(self) -> bool:
        """Tell whether an answer may be written now, in the way that every setting asks for."""
        return self._is_open and not (
            (self.cycle is not None and not self.cycle.response_complete)
            or self.pipeline
            or self.flow.write_paused
            or self._direct.is_closing()
            or self.delivery.readiness.is_draining
        )

    def _plain_spelling(self) -> RequestKey | None:
        """Spell a request for the whole of something; None where there is more to it."""
        parser = self.parser
        is_plain = (
            parser.get_method() == b"GET"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
        )
        if not is_plain:
            return None
        accept = accept_encoding = None
        self._sent_id = self._forwarded_for = None
        for name, value in self.headers:
            if name in _DECISIVE:
                return None
            if name == b"accept":
                if accept is not None:
                    return None
                accept = value
            elif name == b"accept-encoding":
                if accept_encoding is not None:
                    return None
                accept_encoding = value
            elif name == b"x-request-id":
                self._sent_id = self._sent_id or value
            elif name == b"x-forwarded-for":
                self._forwarded_for = self._forwarded_for or value
        return self.url, accept, accept_encoding

    def _write(self, request_id: str, head: bytes, body: bytes) -> None:
        lines = [_STATUS_LINE]
        for name, value in self.server_state.default_headers:
            lines += (name, b": ", value, b"\r\n")
        lines += (b"x-request-id: ", request_id.encode(), b"\r\n", head)
        if len(body) <= _JOINED_BYTES:
            lines.append(body)
            self._direct.write(b"".join(lines))
        else:
            self._direct.writelines((b"".join(lines), body))
