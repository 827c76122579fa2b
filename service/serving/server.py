"""One process that serves: its signals, its drain, its watch over connections."""

import asyncio
import gc
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

import uvicorn
from fastapi import FastAPI

from service.delivery.respond import Delivery
from service.serving.connection import LimitedProtocol
from service.serving.wire import FinishedAnswersProtocol
from service.settings import Settings

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_TICKS_PER_SECOND = 10


class Server(uvicorn.Server):
    """A server that says it is not ready before it stops taking requests; uvicorn 0.54.

    SIGTERM makes it say so. For ``drain_seconds`` it goes on as before, but for asking each client
    to close its connection; then it takes no more, lets running answers end for
    ``shutdown_seconds``, and ends. SIGINT, and a second SIGTERM, leave the first part out; another
    SIGINT leaves out all of it.
    """

    def __init__(self, app: FastAPI, settings: Settings, line: socket.socket | None = None) -> None:
        super().__init__(_configuration(app, settings))
        self._delivery: Delivery = app.state.delivery
        self._drain_seconds = settings.drain_seconds
        self._line = line
        self._told_at: float | None = None
        connections = self.server_state.connections
        self._delivery.metrics.watch("posref_connections", lambda: len(connections))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals for as long as it serves, and end with no signal of its own."""
        before = {each: signal.signal(each, self.handle_exit) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end, or end sooner."""
        del frame
        if sig == signal.SIGINT and self.should_exit:
            self.force_exit = True
        if sig == signal.SIGINT or self._told_at is not None:
            self.should_exit = True
        self.drain()

    def drain(self) -> None:
        """Say that requests are not welcome any more, and stop taking them after a while."""
        self._delivery.readiness.is_draining = True
        if self._told_at is None:
            self._told_at = monotonic()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, and to listen to whoever started this process."""
        await super().startup(sockets)
        # What is there now stays: looking for garbage among it holds the loop for 60 ms and more.
        gc.collect()
        gc.freeze()
        if self._line is not None:
            self._line.setblocking(False)
            asyncio.get_running_loop().add_reader(self._line, self._left_alone)

    async def on_tick(self, counter: int) -> bool:
        """Do what is done ten times a second; tells whether to stop taking requests."""
        if counter % _TICKS_PER_SECOND == 0:
            self._watch()
        if self._told_at is not None and monotonic() - self._told_at >= self._drain_seconds:
            self.should_exit = True
        return await super().on_tick(counter)

    def _watch(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in list(self.server_state.connections):
            assert isinstance(connection, LimitedProtocol)
            connection.check(now)
        if self._line is not None:
            self._beat(self._line)

    def _beat(self, line: socket.socket) -> None:
        """Let whoever started this process know that the event loop turns."""
        try:
            line.send(b".")
        except BlockingIOError:
            # It has been stopped, or is slow: it hears of this process later.
            return
        except OSError:
            self.drain()

    def _left_alone(self) -> None:
        """Begin to end when whoever started this process is no more."""
        assert self._line is not None
        asyncio.get_running_loop().remove_reader(self._line)
        self.drain()


def _configuration(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=FinishedAnswersProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
