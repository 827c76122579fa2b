"""From settings to processes that serve: listeners, signals, drain, the watch over connections."""

import asyncio
import gc
import logging
import os
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
from typing import NoReturn

import uvicorn
from fastapi import FastAPI

from service import __version__
from service.app import create_app
from service.delivery.handler import Delivery
from service.delivery.telemetry.log import LineWriter, configure_logging, file_lock
from service.delivery.telemetry.metrics import WorkerSlot
from service.serving.fast_path import CachedResponseProtocol
from service.serving.protocol import LimitedProtocol
from service.serving.supervisor import START_FAILED, Supervisor
from service.settings import Settings

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_TICKS_PER_SECOND = 10


class Server(uvicorn.Server):
    """A server that reports not ready before it stops taking requests; uvicorn 0.54.

    On SIGTERM it reports not ready. For ``drain_seconds`` it serves on, and asks each client to
    close its connection; then it takes no more requests, lets running responses end for
    ``shutdown_seconds``, and exits. SIGINT, and a second SIGTERM, skip the first part; another
    SIGINT skips all of it.
    """

    def __init__(self, app: FastAPI, settings: Settings, line: socket.socket | None = None) -> None:
        super().__init__(_configuration(app, settings))
        self._delivery: Delivery = app.state.delivery
        self._drain_seconds = settings.drain_seconds
        self._line = line
        self._signalled_at: float | None = None
        connections = self.server_state.connections
        self._delivery.metrics.watch("posref_connections", lambda: len(connections))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install the signal handlers while serving; do not raise the signals again afterwards."""
        before = {each: signal.signal(each, self.handle_exit) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del frame
        if sig == signal.SIGINT and self.should_exit:
            self.force_exit = True
        if sig == signal.SIGINT or self._signalled_at is not None:
            self.should_exit = True
        self.drain()

    def drain(self) -> None:
        """Report not ready, and stop taking requests after a while."""
        self._delivery.readiness.is_draining = True
        if self._signalled_at is None:
            self._signalled_at = monotonic()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, and to watch the line to the supervisor."""
        await super().startup(sockets)
        # The objects of the start stay for good: collecting among them stops the loop for 60 ms.
        gc.collect()
        gc.freeze()
        if self._line is not None:
            self._line.setblocking(False)
            asyncio.get_running_loop().add_reader(self._line, self._lose_supervisor)

    async def on_tick(self, counter: int) -> bool:
        """Do the work of every tenth of a second; return whether to stop taking requests."""
        if counter % _TICKS_PER_SECOND == 0:
            self._watch()
        if (
            self._signalled_at is not None
            and monotonic() - self._signalled_at >= self._drain_seconds
        ):
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
        """Send the supervisor a heartbeat: the event loop runs."""
        try:
            line.send(b".")
        except BlockingIOError:
            # The supervisor is stopped or slow.
            return
        except OSError:
            self.drain()

    def _lose_supervisor(self) -> None:
        """Shut down when the supervisor has ended."""
        assert self._line is not None
        asyncio.get_running_loop().remove_reader(self._line)
        self.drain()


def _configuration(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=CachedResponseProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )


if sys.platform != "win32":
    import resource

_BACKLOG = 2048
_ACCEPTS_A_TURN = 8

# Listeners, pipes, logs, libraries, and the connections beyond the limit that are accepted.
_OTHER_FILES = 512


class CannotListen(Exception):
    """An address cannot be listened on; the message names its settings."""


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


def repeated(listeners: list[socket.socket]) -> list[socket.socket]:
    """Return every listener several times: an event loop accepts one connection a turn from each.

    A turn is long where many requests are answered; a new client would wait one turn for each
    connection before its own (uvloop 0.23).
    """
    return [*listeners, *(each.dup() for each in listeners for _ in range(_ACCEPTS_A_TURN - 1))]


def addresses(listeners: list[socket.socket]) -> list[str]:
    """Return the URLs of the listeners."""
    names = (listener.getsockname()[:2] for listener in listeners)
    return [f"http://{f'[{host}]' if ':' in host else host}:{port}" for host, port in names]


def allow_files(settings: Settings) -> int:
    """Raise the limit on open files to what the settings need.

    Returns:
        The number of connections that it is too low for; 0 where it suffices.
    """
    if sys.platform == "win32":
        return 0
    required = settings.max_connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < required:
        soft = required if hard == resource.RLIM_INFINITY else min(required, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return 0 if soft == resource.RLIM_INFINITY else max(0, required - soft)


_log = logging.getLogger("posref")


def serve(settings: Settings) -> int:
    """Serve until a signal comes; return the exit code.

    Raises:
        CannotListen: another process has the address, or there is no such address.
    """
    _exit_on_signals()
    with LineWriter(sys.stderr.fileno()) as writer:
        configure_logging(settings, writer)
        return _serve(settings, writer)


def _serve(settings: Settings, writer: LineWriter) -> int:
    listeners = listen(settings)
    missing = allow_files(settings)
    if missing:
        _log.warning("the limit on open files is %d too low for POSREF_MAX_CONNECTIONS", missing)
    _log.info("posref %s serves on %s", __version__, ", ".join(addresses(listeners)))
    if settings.workers == 1:
        return _serve_alone(settings, listeners, writer)
    with tempfile.TemporaryDirectory(prefix="posref-") as folder:
        return Supervisor(settings, listeners, Path(folder), _serve_as_worker).run()


def _serve_alone(settings: Settings, listeners: list[socket.socket], writer: LineWriter) -> int:
    server = Server(create_app(settings, writer=writer), settings)
    server.run(repeated(listeners))
    return 0 if server.started else START_FAILED


def _serve_as_worker(
    settings: Settings, listeners: list[socket.socket], line: socket.socket, folder: Path, slot: int
) -> None:
    """Serve as a worker, in its own process group: a terminal signals the supervisor alone."""
    _exit_on_signals()
    os.setpgid(0, 0)
    with LineWriter(sys.stderr.fileno(), partial(file_lock, folder / "log.turns")) as writer:
        configure_logging(settings, writer)
        app = create_app(settings, WorkerSlot(folder, slot), writer)
        # A worker that accepts several connections a turn would leave few to the others.
        Server(app, settings, line).run(listeners)


def _exit_on_signals() -> None:
    """Exit at once on a signal that comes before the server handles it."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, _exit)


def _exit(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)
