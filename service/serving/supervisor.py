"""The supervisor: starts, watches, replaces and stops worker processes on shared sockets.

uvicorn has a supervisor of its own, which does less. Of uvicorn 0.54, a thread of the worker
answers the pings, so that a blocked event loop is never noticed; here the event loop itself sends
the heartbeats. There, workers whose parent is killed continue as orphans that hold the port, a
second signal is not passed on, and a worker that does not end is waited for without limit.
"""

import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from types import FrameType

from service.settings import Settings

START_FAILED = 3
"""The exit code of a server that cannot start to serve."""

_POLL_SECONDS = 0.2
_MAX_FAILED_STARTS = 3
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

# A worker without a heartbeat for this time has a blocked event loop: it cannot answer probes.
_HUNG_SECONDS = 30.0
_START_SECONDS = 120.0
_MARGIN_SECONDS = 5.0

_log = logging.getLogger("posref.supervisor")


def longest_end_seconds(settings: Settings) -> float:
    """Return after how long a signal has ended every worker, which is killed if need be.

    Whatever starts the server must wait longer before it kills the server itself.
    """
    return settings.drain_seconds + settings.shutdown_seconds + _MARGIN_SECONDS


Serve = Callable[[Settings, list[socket.socket], socket.socket, Path, int], None]
"""The main function of a worker process: (settings, listeners, channel, folder, slot).

It serves on the listeners, sends a heartbeat byte over the channel each second and ends when the
channel closes. All workers share the folder; the slot is the index of the worker.
"""


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle SIGTERM and SIGINT; afterwards restore the previous handlers."""
    before = {sig: signal.signal(sig, handler) for sig in _SIGNALS}
    try:
        yield
    finally:
        for sig, previous in before.items():
            signal.signal(sig, previous)


@dataclass
class _Worker:
    slot: int
    process: BaseProcess
    channel: socket.socket
    heartbeat_at: float = field(default_factory=monotonic)
    has_served: bool = False

    def read_heartbeats(self) -> None:
        try:
            while self.channel.recv(4096):
                self.heartbeat_at, self.has_served = monotonic(), True
        except OSError:
            return

    @property
    def is_hung(self) -> bool:
        limit_seconds = _HUNG_SECONDS if self.has_served else _START_SECONDS
        return monotonic() - self.heartbeat_at > limit_seconds

    def send(self, sig: int) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, sig)


class Supervisor:
    """Keeps ``settings.workers`` worker processes running until a signal arrives."""

    def __init__(
        self, settings: Settings, listeners: list[socket.socket], folder: Path, serve: Serve
    ) -> None:
        self._settings = settings
        self._listeners = listeners
        self._folder = folder
        self._serve = serve
        self._workers: list[_Worker] = []
        self._signals: list[int] = []
        self._failed_starts = 0
        self._watched_at = monotonic()

    def run(self) -> int:
        """Run the workers until a signal arrives; return the exit code."""
        with handle_signals(self._receive):
            try:
                self._workers = [self._start(slot) for slot in range(self._settings.workers)]
                while not self._signals and self._failed_starts < _MAX_FAILED_STARTS:
                    self._watch()
                return self._end()
            finally:
                for worker in self._workers:
                    worker.channel.close()

    def _receive(self, sig: int, frame: FrameType | None) -> None:
        del frame
        self._signals.append(sig)

    def _start(self, slot: int) -> _Worker:
        channel, worker_end = socket.socketpair()
        channel.setblocking(False)
        process = get_context("spawn").Process(
            target=self._serve,
            args=(self._settings, self._listeners, worker_end, self._folder, slot),
        )
        process.start()
        worker_end.close()
        return _Worker(slot, process, channel)

    def _watch(self) -> None:
        """Wait a moment or until a worker ends; replace workers that have ended or hang."""
        connection.wait([worker.process.sentinel for worker in self._workers], _POLL_SECONDS)
        was_paused = self._was_paused()
        for worker in self._workers:
            worker.read_heartbeats()
            if was_paused:
                worker.heartbeat_at = monotonic()
            if worker.is_hung:
                _log.error("a worker process hangs and is replaced: %s", worker.process.pid)
                worker.send(signal.SIGKILL)
                worker.process.join()
            if not worker.process.is_alive() and not self._signals:
                self._replace(worker)

    def _was_paused(self) -> bool:
        """Return whether this process, and probably the whole machine, was paused."""
        before, self._watched_at = self._watched_at, monotonic()
        return self._watched_at - before > _HUNG_SECONDS / 2

    def _replace(self, worker: _Worker) -> None:
        worker.process.join()
        worker.channel.close()
        self._failed_starts = 0 if worker.has_served else self._failed_starts + 1
        _log.warning(
            "a worker process ended with code %s and is replaced: %s",
            worker.process.exitcode,
            worker.process.pid,
        )
        if self._failed_starts < _MAX_FAILED_STARTS:
            self._workers[worker.slot] = self._start(worker.slot)

    def _end(self) -> int:
        """Stop every worker; forward further signals.

        The listeners of this process are closed first: while any is open, the kernel accepts
        connections that no worker serves.
        """
        for listener in self._listeners:
            listener.close()
        received = self._signals or [signal.SIGTERM]
        deadline = monotonic() + longest_end_seconds(self._settings)
        forwarded = 0
        while any(worker.process.is_alive() for worker in self._workers):
            for sig in received[forwarded:]:
                for worker in self._workers:
                    worker.send(sig)
            forwarded = len(received)
            if monotonic() > deadline:
                for worker in self._workers:
                    worker.send(signal.SIGKILL)
            alive = [worker.process for worker in self._workers if worker.process.is_alive()]
            connection.wait([process.sentinel for process in alive], _POLL_SECONDS)
        return self._exit_code()

    def _exit_code(self) -> int:
        if self._failed_starts >= _MAX_FAILED_STARTS:
            _log.error("no worker process starts to serve")
            return START_FAILED
        # A worker that has just started does not handle the signal yet.
        codes = {worker.process.exitcode for worker in self._workers}
        return 0 if codes <= {0, -signal.SIGTERM, -signal.SIGINT} else 1
