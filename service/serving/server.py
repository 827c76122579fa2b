"""The server of one process: signals, drain, and what it does while it serves."""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import cast

import uvicorn
from fastapi import FastAPI

from service.app import create_app
from service.delivery.budget import setups_bytes
from service.delivery.dispatch import Delivery
from service.delivery.telemetry.log import LineWriter
from service.lru import shrink_shared
from service.memory import give_back_freed
from service.routes import ENDPOINTS
from service.serving.connections import LimitedProtocol
from service.serving.fast_path import CachedResponseProtocol
from service.serving.supervisor import START_FAILED, handle_signals
from service.settings import MIB, Settings

_TICKS_PER_SECOND = 10

# How long a response that is cut off may take to end.
_CUT_SECONDS = 2
_ACCEPTS_PER_ITERATION = 8

# Freed memory below this is left to the heap, which uses it again.
_FALLEN_BYTES = 32 * MIB

_log = logging.getLogger("posref")


class Server(uvicorn.Server):
    """A server that reports not ready before it stops accepting requests; uvicorn 0.54.

    On SIGTERM it reports not ready. For ``drain_seconds`` it continues to serve, and asks each
    client to close its connection; then it accepts no more requests, waits ``shutdown_seconds`` for
    running responses, and exits. SIGINT and a second SIGTERM skip the drain; another SIGINT skips
    the wait, too.

    Args:
        app: the application.
        settings: the settings of the application.
        channel: the socket to the supervisor, for heartbeats; None without supervisor.
    """

    def __init__(
        self, app: FastAPI, settings: Settings, channel: socket.socket | None = None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=CachedResponseProtocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=settings.keep_alive_seconds,
                # For requests that do not end when their connection does.
                timeout_graceful_shutdown=settings.shutdown_seconds + _CUT_SECONDS,
            )
        )
        self._delivery: Delivery = app.state.delivery
        self._settings = settings
        self._channel = channel
        self._signalled_at: float | None = None
        connections = self.server_state.connections
        self._delivery.metrics.watch("posref_connections", lambda: len(connections))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install the signal handlers while serving; do not raise the signals again afterwards."""
        with handle_signals(self.handle_exit):
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del frame
        if sig == signal.SIGINT and self.should_exit:
            self.force_exit = True
        if sig == signal.SIGINT or self._signalled_at is not None:
            self.should_exit = True
        self.drain()

    def drain(self) -> None:
        """Report not ready, and stop accepting requests after ``drain_seconds``."""
        self._delivery.is_draining = True
        if self._signalled_at is None:
            self._signalled_at = monotonic()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and to watch the channel to the supervisor."""
        try:
            self._delivery.scheduler.start()
            self._delivery.children.start()
        except RuntimeError as error:
            _log.critical(
                "the server cannot start: %s (ulimit -u, or pids.max of its group)", error
            )
            self.should_exit = True
            return
        await super().startup(sockets)
        _freeze()
        self._importing = asyncio.create_task(self._import_all())
        if self._channel is not None:
            self._channel.setblocking(False)
            asyncio.get_running_loop().add_reader(self._channel, self._lose_supervisor)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for running responses, cut off those that take too long, and end."""
        self._importing.cancel()
        cutting = asyncio.create_task(self._cut_later())
        await super().shutdown(sockets)
        cutting.cancel()
        # They still run after a third signal.
        self._cut_off()

    async def _cut_later(self) -> None:
        """Cut off the responses that take longer than ``shutdown_seconds``."""
        await asyncio.sleep(self._settings.shutdown_seconds)
        self._cut_off()
        await asyncio.sleep(_CUT_SECONDS / 2)
        for connection in self._connections():
            connection.transport.abort()

    def _cut_off(self) -> None:
        """End every connection whose response has not ended."""
        running = [each for each in self._connections() if not each.is_idle()]
        if running:
            _log.warning("the process ends before the responses on %d connections", len(running))
        for connection in running:
            connection.cut_off()

    async def on_tick(self, counter: int) -> bool:
        """Run periodic checks, ten times a second; return whether to stop accepting requests."""
        shrink_shared(setups_bytes(self._settings))
        if counter % _TICKS_PER_SECOND == 0:
            self._watch()
        begun_at, drain_seconds = self._signalled_at, self._settings.drain_seconds
        if begun_at is not None and monotonic() - begun_at >= drain_seconds:
            self.should_exit = True
        return await super().on_tick(counter)

    async def _import_all(self) -> None:
        """Import the endpoints while no request runs, which would import its own itself."""
        paths = [*ENDPOINTS]
        while not self._delivery.is_draining:
            await asyncio.sleep(1 / _TICKS_PER_SECOND)
            if not all(each.is_idle() for each in self._connections()):
                continue
            if not paths:
                _freeze()
                return
            path = paths.pop(0)
            try:
                await self._delivery.scheduler.made(ENDPOINTS, path)
            except Exception:  # noqa: BLE001 - it is logged, and a request raises it again.
                _log.exception("the endpoint %s cannot be imported", path)

    def _connections(self) -> list[LimitedProtocol]:
        return cast(list[LimitedProtocol], list(self.server_state.connections))

    def _watch(self) -> None:
        """Check the connections, give freed memory back, and send the supervisor a heartbeat."""
        now = asyncio.get_running_loop().time()
        for connection in self._connections():
            connection.check(now)
        if self._delivery.budget.take_fall(_FALLEN_BYTES):
            # Another executor would start a thread, which may be refused.
            self._delivery.scheduler.long.executor.submit(give_back_freed)
        if self._channel is not None:
            try:
                self._channel.send(b".")
            except BlockingIOError:
                # The supervisor is stopped or slow.
                return
            except OSError:
                self.drain()

    def _lose_supervisor(self) -> None:
        """Shut down when the supervisor has ended."""
        assert self._channel is not None
        asyncio.get_running_loop().remove_reader(self._channel)
        self.drain()


def _freeze() -> None:
    """Keep all objects out of collections: scanning them would block the event loop for 60 ms."""
    gc.collect()
    gc.freeze()


def serve_alone(settings: Settings, listeners: list[socket.socket], writer: LineWriter) -> int:
    """Serve in this process; return the exit code."""
    server = Server(create_app(settings, writer=writer), settings)
    server.run(duplicate_listeners(listeners))
    return 0 if server.started else START_FAILED


def duplicate_listeners(listeners: list[socket.socket]) -> list[socket.socket]:
    """Return the listeners with duplicates, so that each iteration accepts several connections.

    uvloop 0.23 accepts one connection per listener and iteration of the event loop. Under load
    iterations are long, and new clients would wait for many of them.
    """
    copies = range(_ACCEPTS_PER_ITERATION - 1)
    return [*listeners, *(listener.dup() for listener in listeners for _ in copies)]
