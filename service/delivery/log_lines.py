"""Lines of the log on their way out: nothing that logs ever waits for whoever reads."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from threading import Event, Thread
from time import sleep
from types import TracebackType
from typing import Self, TypeAlias

Line: TypeAlias = tuple[str, ...]
"""The parts of a line: whoever logs leaves it to the writer to put them together."""

MAX_WAITING_LINES = 8192
"""How many wait for a reader: two or three MiB as a rule. Those on top are dropped, and counted."""

# Long enough for large pieces under load; nobody reads sooner.
_GATHER_SECONDS = 0.05
_FULL_SECONDS = 0.02
_CLOSE_SECONDS = 2.0


class LineWriter:
    """Write lines from a thread of its own, in large pieces; safe to use from any thread.

    There is no lock, which would be a tenth of what a line costs: a list is added to at its end
    and taken from at its start, and each of that is one step for all threads.

    Args:
        descriptor: where they go.
        turn: gives what lasts as long as a piece is written, where several processes write to one
            place.
        max_waiting_lines: how many may wait, beside those that are being written.

    Attributes:
        dropped: how many lines came when as many as that were waiting, or met a closed pipe.
    """

    def __init__(
        self,
        descriptor: int,
        turn: Callable[[], AbstractContextManager[None]] = nullcontext,
        max_waiting_lines: int = MAX_WAITING_LINES,
    ) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._turn = turn
        self._max_waiting_lines = max_waiting_lines
        self._lines: list[Line] = []
        self._is_idle = False
        self._called = Event()
        self._closing = Event()
        self._thread = Thread(target=self._run, name="posref-log", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write what waits, unless its reader is stuck, and end."""
        self._closing.set()
        self._called.set()
        self._thread.join(_CLOSE_SECONDS)

    def write(self, line: Line) -> None:
        """Write a line, which ends with its line feed, some time soon."""
        lines = self._lines
        if len(lines) >= self._max_waiting_lines:
            self.dropped += 1
            return
        lines.append(line)
        if self._is_idle:
            self._called.set()

    def _run(self) -> None:
        while self._lines or not self._closing.is_set():
            lines = self._gathered()
            try:
                self._write("".join(chain.from_iterable(lines)).encode(errors="replace"))
            except OSError:
                self.dropped += len(lines)

    def _gathered(self) -> list[Line]:
        """Wait for lines and for some more; gives none where it was called for nothing."""
        self._is_idle = True
        # One that comes before this is seen here, and one that comes later sees who is idle.
        if not self._lines:
            self._called.wait()
        self._is_idle = False
        if not self._closing.is_set():
            self._called.clear()
        self._closing.wait(_GATHER_SECONDS)
        lines = self._lines[:]
        del self._lines[: len(lines)]
        return lines

    def _write(self, piece: bytes) -> None:
        rest = memoryview(piece)
        with self._turn():
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    sleep(_FULL_SECONDS)
