"""The server of one process, and the start of all processes: listeners, signals, drain."""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import cast

import uvicorn
from fastapi import FastAPI

from service import __version__
from service.app import create_app
from service.delivery.budget import CONNECTION_BYTES, Budget, setups_bytes
from service.delivery.dispatch import Delivery
from service.delivery.telemetry.log import LineWriter, configure_logging, file_lock
from service.delivery.telemetry.metrics import SharedCounts
from service.lru import shrink_shared
from service.memory import give_back_freed
from service.serving.connections import LimitedProtocol
from service.serving.fast_path import CachedResponseProtocol
from service.serving.supervisor import START_FAILED, Supervisor, handle_signals
from service.settings import MIB, Settings

_TICKS_PER_SECOND = 10

# How long a response that is cut off may take to end.
_CUT_SECONDS = 2
_BACKLOG = 2048
_ACCEPTS_PER_ITERATION = 8

# Freed memory below this is left to the heap, which uses it again.
_FALLEN_BYTES = 32 * MIB

# The part of the memory that connections may take.
_CONNECTIONS_SHARE = 1 / 4

# Listeners, pipes, logs, libraries, and the accepted connections beyond the limit.
_OTHER_FILES = 512

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
        # Startup objects are never freed; freeze them, because scanning them blocks the event loop
        # for 60 ms.
        gc.collect()
        gc.freeze()
        if self._channel is not None:
            self._channel.setblocking(False)
            asyncio.get_running_loop().add_reader(self._channel, self._lose_supervisor)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for running responses, cut off those that take too long, and end."""
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


class CannotListen(Exception):
    """The server cannot listen on the address; the message names the settings."""


def listen(settings: Settings) -> list[socket.socket]:
    """Listen on every address of a host; raises CannotListen."""
    try:
        infos = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        addresses = dict.fromkeys((family, address[:2]) for family, *_, address in infos)
        return [
            socket.create_server(address, family=family, backlog=_BACKLOG)
            for family, address in addresses
        ]
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {settings.host} (POSREF_HOST), port {settings.port} "
            f"(POSREF_PORT): {error.strerror or error}"
        ) from error


def duplicate_listeners(listeners: list[socket.socket]) -> list[socket.socket]:
    """Return the listeners with duplicates, so that each iteration accepts several connections.

    uvloop 0.23 accepts one connection per listener and iteration of the event loop. Under load
    iterations are long, and new clients would wait for many of them.
    """
    copies = range(_ACCEPTS_PER_ITERATION - 1)
    return [*listeners, *(listener.dup() for listener in listeners for _ in copies)]


def urls_of(listeners: list[socket.socket]) -> list[str]:
    """Return the URLs of the listeners."""
    names = (listener.getsockname()[:2] for listener in listeners)
    return [f"http://{f'[{host}]' if ':' in host else host}:{port}" for host, port in names]


def fit_connections(settings: Settings) -> Settings:
    """Return the settings with as many connections as a quarter of the memory holds."""
    share_bytes = int(Budget.of(settings).limit_bytes * _CONNECTIONS_SHARE)
    most = share_bytes // CONNECTION_BYTES
    if settings.max_connections <= most:
        return settings
    _log.warning(
        "POSREF_MAX_CONNECTIONS=%d is lowered to %d, for which POSREF_MEMORY_BYTES=%d suffices",
        settings.max_connections,
        most,
        settings.memory_bytes,
    )
    return settings.model_copy(update={"max_connections": most})


def raise_file_limit(settings: Settings) -> int:
    """Raise the limit on open files to what max_connections needs; return the shortfall or 0."""
    # A thread that writes to a connection has a duplicate of its descriptor.
    required = 2 * settings.max_connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < required:
        soft = required if hard == resource.RLIM_INFINITY else min(required, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return 0 if soft == resource.RLIM_INFINITY else max(0, required - soft)


def serve(settings: Settings) -> int:
    """Serve until a signal arrives; return the exit code.

    Raises:
        CannotListen: another process has the address, or there is no such address.
    """
    _exit_on_signals()
    with LineWriter(sys.stderr.fileno()) as writer:
        configure_logging(settings, writer)
        return _serve(settings, writer)


def _serve(settings: Settings, writer: LineWriter) -> int:
    listeners = listen(settings)
    settings = fit_connections(settings)
    missing = raise_file_limit(settings)
    if missing:
        _log.warning("the limit on open files is %d too low for POSREF_MAX_CONNECTIONS", missing)
    _log.info("posref %s serves on %s", __version__, ", ".join(urls_of(listeners)))
    if settings.workers == 1:
        server = Server(create_app(settings, writer=writer), settings)
        server.run(duplicate_listeners(listeners))
        return 0 if server.started else START_FAILED
    with tempfile.TemporaryDirectory(prefix="posref-") as folder:
        return Supervisor(settings, listeners, Path(folder), _serve_as_worker).run()


def _serve_as_worker(
    settings: Settings,
    listeners: list[socket.socket],
    channel: socket.socket,
    folder: Path,
    slot: int,
) -> None:
    """Serve as a worker, in its own process group: a terminal signals the supervisor alone."""
    _exit_on_signals()
    os.setpgid(0, 0)
    with LineWriter(sys.stderr.fileno(), partial(file_lock, folder / "log.lock")) as writer:
        configure_logging(settings, writer)
        app = create_app(settings, SharedCounts(folder, slot), writer)
        # Without duplicates: a worker that accepts several connections leaves few to the others.
        Server(app, settings, channel).run(listeners)


def _exit_on_signals() -> None:
    """Exit at once on a signal that arrives before the server handles signals."""
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: sys.exit(0))
