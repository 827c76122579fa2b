"""Finished answers written straight to the connection, before the request becomes a task.

What a server does for an application that might do anything (a task, a scope, events, a check of
every header) takes nine tenths of the time of a small answer that is there already.
"""

import asyncio
from types import SimpleNamespace
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.delivery.transport import tuned
from service.delivery.warm import FinishedAnswers, Spelling

STATE = "finished_answers"
"""The name under which the lifespan hands the finished answers to the server."""

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
    response_complete=True, message_event=SimpleNamespace(set=lambda: None)
)


class FinishedAnswersProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which asks for a finished answer first; uvicorn 0.54.

    It answers a plain GET of the whole on a connection that has nothing else to do; any other
    request takes the usual way. Time-outs, counts, shutdown and pipelining are uvicorn's own.
    """

    _running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(tuned(transport))
        self._direct = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered; uvicorn only tells the one that came last."""
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Answer a request whose headers are there, or start the application on it."""
        spelling = self._plain_spelling() if self._is_idle() else None
        answers: FinishedAnswers | None = self.app_state.get(STATE)
        found = answers.find(spelling) if answers and spelling else None
        if found is None:
            # It runs if the request before this one, in the same segment, was answered here.
            self._unset_keepalive_if_required()
            super().on_headers_complete()
            if self.parser.should_upgrade() and not self._should_upgrade():
                # What comes in one segment with it is not read: its sender is told to ask again.
                self.cycle.keep_alive = False
            return
        finished, built = found
        self.cycle = _ANSWERED
        self._write(finished.head, built.body)
        finished.tally.count(len(built.body))
        self.on_response_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _is_idle(self) -> bool:
        """Tell whether an answer may be written now, in the way that every setting asks for."""
        return not (
            (self.cycle is not None and not self.cycle.response_complete)
            or self.pipeline
            or self.flow.write_paused
            or self._direct.is_closing()
            or self.access_log
            or self.root_path
            or self.limit_concurrency is not None
        )

    def _plain_spelling(self) -> Spelling | None:
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
        return self.url, accept, accept_encoding

    def _write(self, head: bytes, body: bytes) -> None:
        lines = [_STATUS_LINE]
        for name, value in self.server_state.default_headers:
            lines += (name, b": ", value, b"\r\n")
        lines.append(head)
        if len(body) <= _JOINED_BYTES:
            lines.append(body)
            self._direct.write(b"".join(lines))
        else:
            self._direct.writelines((b"".join(lines), body))
