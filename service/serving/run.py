"""From settings to processes that serve."""

import logging
import os
import signal
import socket
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

from service import __version__
from service.app import create_app
from service.delivery.file_turns import file_turn
from service.delivery.log_lines import LineWriter
from service.delivery.log_records import configure_logging
from service.delivery.shared_counts import WorkerSlot
from service.serving.listening import addresses, allow_files, listen, repeated
from service.serving.server import Server
from service.serving.supervisor import START_FAILED, Supervisor
from service.settings import Settings

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
    with LineWriter(sys.stderr.fileno(), partial(file_turn, folder / "log.turns")) as writer:
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
