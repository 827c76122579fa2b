"""The start of a server: its listeners, its limits, and its process or processes.

The supervisor of several processes imports nothing else, so that they start at once.
"""

import logging
import os
import resource
import signal
import socket
import sys
import tempfile
from functools import partial
from pathlib import Path

from service import __version__
from service.delivery.budget import CONNECTION_BYTES, Budget
from service.delivery.telemetry.log import LineWriter, configure_logging, file_lock
from service.serving.supervisor import Supervisor
from service.settings import Settings

_BACKLOG = 2048

# The part of the memory that connections may take.
_CONNECTIONS_SHARE = 1 / 4

# Listeners, pipes, logs, libraries, and the accepted connections beyond the limit.
_OTHER_FILES = 512

_log = logging.getLogger("posref")


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
    required = settings.max_connections + _OTHER_FILES
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
    if settings.workers == 1:
        # Before anything listens: a client that connects would wait for the import.
        from service.serving.server import serve_alone
    with LineWriter(sys.stderr.fileno()) as writer:
        configure_logging(settings, writer)
        listeners = listen(settings)
        settings = fit_connections(settings)
        missing = raise_file_limit(settings)
        if missing:
            _log.warning(
                "the limit on open files is %d too low for POSREF_MAX_CONNECTIONS", missing
            )
        _log.info("posref %s serves on %s", __version__, ", ".join(urls_of(listeners)))
        if settings.workers == 1:
            return serve_alone(settings, listeners, writer)
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
    from service.app import create_app
    from service.delivery.telemetry.metrics import SharedCounts
    from service.serving.server import Server

    with LineWriter(sys.stderr.fileno(), partial(file_lock, folder / "log.lock")) as writer:
        configure_logging(settings, writer)
        app = create_app(settings, SharedCounts(folder, slot), writer)
        # Without duplicates: a worker that accepts several connections leaves few to the others.
        Server(app, settings, channel).run(listeners)


def _exit_on_signals() -> None:
    """Exit at once on a signal that arrives before the server handles signals."""
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda *_: sys.exit(0))
