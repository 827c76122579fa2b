"""One client of the load: a callback protocol without a task, for low overhead."""

import asyncio
import time
from collections.abc import Callable

import httptools

from benchmarks.load.answers import Answer, check, is_body_checked
from benchmarks.load.plan import HOST
from benchmarks.load.requests import LoadRequest, Mix
from benchmarks.load.tally import REFUSED, Tally

_PATIENCE_SECONDS = 60.0
_RETRY_SECONDS = 1.0
_NEVER = "connection"


class Client(asyncio.Protocol):
    """A client with one connection at a time."""

    def __init__(self, port: int, mix: Mix, tally: Tally, think_seconds: float) -> None:
        self._port = port
        self._mix = mix
        self._tally = tally
        self._think_seconds = think_seconds
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._pause: asyncio.Handle | None = None
        self._request: LoadRequest | None = None
        self._is_leaving = False

    @property
    def is_gone(self) -> bool:
        """True after leave(), once the connection is closed."""
        return self._is_leaving and self._transport is None and self._connecting is None

    def begin(self) -> None:
        """Start after a pause, so that clients do not start together."""
        self._pause_before(self.connect)

    def connect(self) -> None:
        """Open a connection."""
        if not self._is_leaving:
            self._connecting = self._loop.create_task(self._connect())

    def leave(self) -> None:
        """Send no more requests, and close after the running answer."""
        self._is_leaving = True
        if self._transport is not None and self._request is None:
            self._transport.close()

    def check(self) -> None:
        """Abort an answer that has timed out; called regularly."""
        if self._request is not None and time.monotonic() - self._sent_at > _PATIENCE_SECONDS:
            self._give_up("timeout")

    async def _connect(self) -> None:
        try:
            await self._loop.create_connection(lambda: self, HOST, self._port)
        except OSError as error:
            self._tally.fail(_NEVER, type(error).__name__, str(error))
            self._pause = self._loop.call_later(_RETRY_SECONDS, self.connect)
        finally:
            self._connecting = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Send a request at once."""
        self._transport = transport
        self._is_last = False
        self._parser = httptools.HttpResponseParser(self)
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """Reconnect, and count an interrupted answer or an unannounced close as a failure."""
        self._transport = None
        if self._pause is not None:
            self._pause.cancel()
        if self._request is not None:
            what = "short answer" if self._has_begun else type(exc or EOFError()).__name__
            self._fail(what, f"{self._body_bytes} bytes of the body came")
        elif not (self._is_last or self._is_leaving):
            self._fail("closed between answers", repr(exc))
        self.connect()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        if self._request is None:
            self._give_up("unasked bytes")
            return
        self._has_begun = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._give_up("malformed answer", str(error))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Decide whether to keep the body for a check."""
        assert self._request is not None
        self._is_checked = is_body_checked(self._request, self._parser.get_status_code())

    def on_body(self, body: bytes) -> None:
        """Count bytes of a body, and keep them if they are checked."""
        self._body_bytes += len(body)
        if self._is_checked:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Check a complete answer and continue."""
        request, status = self._request, self._parser.get_status_code()
        assert request is not None
        assert self._transport is not None
        kind = request.kind if status == request.status else REFUSED
        self._tally.seconds[kind].append(time.monotonic() - self._sent_at)
        answer = Answer(status, self._headers, self._body_bytes, b"".join(self._body))
        check(request, answer, self._tally)
        self._request = None
        self._is_last = self._is_leaving or not self._parser.should_keep_alive()
        if self._is_last:
            self._transport.close()
        else:
            self._pause_before(self._ask)

    def _pause_before(self, step: Callable[[], None]) -> None:
        if self._think_seconds:
            pause_seconds = self._mix.pause(self._think_seconds)
            self._pause = self._loop.call_later(pause_seconds, step)
        else:
            self._pause = self._loop.call_soon(step)

    def _ask(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_leaving:
            self._transport.close()
            return
        self._request = request = self._mix.next()
        self._has_begun, self._body_bytes = False, 0
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._sent_at = time.monotonic()
        self._transport.write(request.data)

    def _give_up(self, what: str, example: str = "") -> None:
        self._fail(what, example)
        assert self._transport is not None
        self._is_last = True
        self._transport.abort()

    def _fail(self, what: str, example: str) -> None:
        self._tally.fail(_NEVER if self._request is None else self._request.kind, what, example)
        self._request = None
