"""Several processes that serve on the same sockets: started, watched, replaced, ended together."""

import logging
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from types import FrameType

from service.settings import Settings

START_FAILED = 3
"""The exit code of a server none of whose processes gets as far as serving."""

_LOOK_SECONDS = 0.2
_MAX_FAILED_STARTS = 3

# A process whose event loop has stood still for so long answers nobody, not even a probe.
_STANDSTILL_SECONDS = 30.0
_START_SECONDS = 120.0
_MARGIN_SECONDS = 10.0

_log = logging.getLogger("posref.supervisor")

Serve = Callable[[Settings, list[socket.socket], socket.socket, Path, int], None]
"""What a process does: it serves on sockets, sends a byte over its line each second and ends when
that does, shares a folder with the others, and takes the place of those before it in its slot."""


@dataclass
class _Worker:
    slot: int
    process: BaseProcess
    line: socket.socket
    heard_at: float = field(default_factory=monotonic)
    has_served: bool = False

    def listen(self) -> None:
        """Note that it has sent a sign of life."""
        try:
            while self.line.recv(4096):
                self.heard_at, self.has_served = monotonic(), True
        except OSError:
            return

    @property
    def is_stuck(self) -> bool:
        patience = _STANDSTILL_SECONDS if self.has_served else _START_SECONDS
        return monotonic() - self.heard_at > patience

    def send(self, sig: int) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, sig)


class Supervisor:
    """Keep a number of processes serving until told to end."""

    def __init__(
        self, settings: Settings, listeners: list[socket.socket], folder: Path, serve: Serve
    ) -> None:
        self._settings = settings
        self._listeners = listeners
        self._folder = folder
        self._serve = serve
        self._workers: list[_Worker] = []
        self._told: list[int] = []
        self._failed_starts = 0
        self._looked_at = monotonic()

    def run(self) -> int:
        """Serve; returns the exit code."""
        before = {each: signal.signal(each, self._tell) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._workers = [self._started(slot) for slot in range(self._settings.workers)]
            while not self._told and self._failed_starts < _MAX_FAILED_STARTS:
                self._look()
            return self._end()
        finally:
            for worker in self._workers:
                worker.line.close()
            for each, handler in before.items():
                signal.signal(each, handler)

    def _tell(self, sig: int, frame: FrameType | None) -> None:
        del frame
        self._told.append(sig)

    def _started(self, slot: int) -> _Worker:
        ours, its = socket.socketpair()
        ours.setblocking(False)
        process = get_context("spawn").Process(
            target=self._serve, args=(self._settings, self._listeners, its, self._folder, slot)
        )
        process.start()
        its.close()
        return _Worker(slot, process, ours)

    def _look(self) -> None:
        """Wait a little, for a process to end at most, and replace those that have."""
        connection.wait([worker.process.sentinel for worker in self._workers], _LOOK_SECONDS)
        has_slept = self._has_slept()
        for worker in self._workers:
            worker.listen()
            if has_slept:
                worker.heard_at = monotonic()
            if worker.is_stuck:
                _log.error("a process stands still and is replaced: %s", worker.process.pid)
                worker.send(signal.SIGKILL)
                worker.process.join()
            if not worker.process.is_alive() and not self._told:
                self._replace(worker)

    def _has_slept(self) -> bool:
        """Tell whether this process stood still: a machine that is paused stops all of them."""
        before, self._looked_at = self._looked_at, monotonic()
        return self._looked_at - before > _STANDSTILL_SECONDS / 2

    def _replace(self, worker: _Worker) -> None:
        worker.process.join()
        worker.line.close()
        self._failed_starts = 0 if worker.has_served else self._failed_starts + 1
        _log.warning(
            "a process ended with code %s and is replaced: %s",
            worker.process.exitcode,
            worker.process.pid,
        )
        if self._failed_starts < _MAX_FAILED_STARTS:
            self._workers[worker.slot] = self._started(worker.slot)

    def _end(self) -> int:
        """Let every process end; passes on what it is told meanwhile.

        Its own sockets go first: while any is open, connections come that nobody takes.
        """
        for listener in self._listeners:
            listener.close()
        told = self._told or [signal.SIGTERM]
        limit_seconds = self._settings.drain_seconds + self._settings.shutdown_seconds
        deadline = monotonic() + limit_seconds + _MARGIN_SECONDS
        passed = 0
        while any(worker.process.is_alive() for worker in self._workers):
            for sig in told[passed:]:
                for worker in self._workers:
                    worker.send(sig)
            passed = len(told)
            if monotonic() > deadline:
                for worker in self._workers:
                    worker.send(signal.SIGKILL)
            alive = [worker.process for worker in self._workers if worker.process.is_alive()]
            connection.wait([process.sentinel for process in alive], _LOOK_SECONDS)
        return self._exit_code()

    def _exit_code(self) -> int:
        if self._failed_starts >= _MAX_FAILED_STARTS:
            _log.error("no process gets as far as serving")
            return START_FAILED
        # One that has only just begun does not take the signal by itself yet.
        codes = {worker.process.exitcode for worker in self._workers}
        return 0 if codes <= {0, -signal.SIGTERM, -signal.SIGINT} else 1
