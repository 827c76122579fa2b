"""One process that serves: its signals, its drain, its watch over connections.

The sockets that a server listens on, and how many files it may have open.

From settings to processes that serve.
"""

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
from service.delivery.respond import Delivery
from service.delivery.telemetry.log import LineWriter, configure_logging, file_lock
from service.delivery.telemetry.metrics import WorkerSlot
from service.serving.fast_path import CachedResponseProtocol
from service.serving.protocol import LimitedProtocol
from service.serving.supervisor import START_FAILED, Supervisor
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
_TAKEN_A_TURN = 8

# Listeners, pipes, logs, libraries; and connections beyond their number that are let in.
_OTHER_FILES = 512


class CannotListen(Exception):
    """An address that cannot be listened on; the message names its settings."""


def listen(settings: Settings) -> list[socket.socket]:
    """Listen on every address of a host; raises CannotListen."""
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        addresses = dict.fromkeys((family, address[:2]) for family, *_, address in found)
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
    """Name every listener several times: an event loop takes one connection a turn from each.

    A turn is long where many requests are answered, and whoever comes then would wait for as many
    turns as others came before (uvloop 0.23).
    """
    return [*listeners, *(each.dup() for each in listeners for _ in range(_TAKEN_A_TURN - 1))]


def addresses(listeners: list[socket.socket]) -> list[str]:
    """Spell where requests can be sent."""
    named = (listener.getsockname()[:2] for listener in listeners)
    return [f"http://{f'[{host}]' if ':' in host else host}:{port}" for host, port in named]


def allow_files(settings: Settings) -> int:
    """Raise the number of files that a process may have open to what its settings ask for.

    Returns:
        How many connections that is too few for; 0 where it is enough.
    """
    if sys.platform == "win32":
        return 0
    wanted = settings.max_connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return 0 if soft == resource.RLIM_INFINITY else max(0, wanted - soft)


_log = logging.getLogger("posref")


def serve(settings: Settings) -> int:
    """Serve until told to end; returns the exit code.

    Raises:
        CannotListen: another process has the address, or there is no such one.
    """
    _end_quietly()
    with LineWriter(sys.stderr.fileno()) as writer:
        configure_logging(settings, writer)
        return _serve(settings, writer)


def _serve(settings: Settings, writer: LineWriter) -> int:
    listeners = listen(settings)
    lacking = allow_files(settings)
    if lacking:
        _log.warning("the limit on open files is %d too low for POSREF_MAX_CONNECTIONS", lacking)
    _log.info("posref %s serves on %s", __version__, ", ".join(addresses(listeners)))
    if settings.workers == 1:
        return _serve_alone(settings, listeners, writer)
    with tempfile.TemporaryDirectory(prefix="posref-") as folder:
        return Supervisor(settings, listeners, Path(folder), _serve_as_one).run()


def _serve_alone(settings: Settings, listeners: list[socket.socket], writer: LineWriter) -> int:
    server = Server(create_app(settings, writer=writer), settings)
    server.run(repeated(listeners))
    return 0 if server.started else START_FAILED


def _serve_as_one(
    settings: Settings, listeners: list[socket.socket], line: socket.socket, folder: Path, slot: int
) -> None:
    """Serve as one of several processes, in a group of its own: a terminal tells one."""
    _end_quietly()
    os.setpgid(0, 0)
    with LineWriter(sys.stderr.fileno(), partial(file_lock, folder / "log.turns")) as writer:
        configure_logging(settings, writer)
        app = create_app(settings, WorkerSlot(folder, slot), writer)
        # One that takes several connections a turn would leave few to the others.
        Server(app, settings, line).run(listeners)


def _end_quietly() -> None:
    """End at once when told to before there is anything to end."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, _exit)


def _exit(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)
