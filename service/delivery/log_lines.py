"""Lines of the log on their way out: nothing that logs ever waits for whoever reads."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from threading import Condition, Event, Lock, Thread
from time import sleep
from types import TracebackType
from typing import Self, TypeAlias

Line: TypeAlias = tuple[str, ...]
"""The parts of a line: whoever logs leaves it to the writer to put them together."""

MAX_WAITING_BYTES = 8 * 1024 * 1024
"""How much waits for a reader; what comes on top of that is dropped, and counted."""

# Long enough for large pieces under load; nobody reads sooner.
_GATHER_SECONDS = 0.05
_FULL_SECONDS = 0.02
_CLOSE_SECONDS = 2.0


class LineWriter:
    """Write lines from a thread of its own, in large pieces; safe to use from any thread.

    Args:
        descriptor: where they go.
        turn: gives what lasts as long as a piece is written, where several processes write to one
            place.
        max_waiting_bytes: how much may wait.

    Attributes:
        dropped: how many lines came when as much as that was waiting, or met a closed pipe.
    """

    def __init__(
        self,
        descriptor: int,
        turn: Callable[[], AbstractContextManager[None]] = nullcontext,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._turn = turn
        self._max_waiting_bytes = max_waiting_bytes
        self._lines: list[Line] = []
        self._waiting_bytes = 0
        self._taken_bytes = 0
        self._lock = Lock()
        self._has_lines = Condition(self._lock)
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
        with self._lock:
            self._has_lines.notify()
        self._thread.join(_CLOSE_SECONDS)

    def write(self, line: Line, size_bytes: int) -> None:
        """Write a line some time soon.

        Args:
            line: what it is put together of, a line feed at its end.
            size_bytes: about how long that is.
        """
        with self._lock:
            if self._waiting_bytes + size_bytes > self._max_waiting_bytes:
                self.dropped += 1
                return
            self._waiting_bytes += size_bytes
            self._lines.append(line)
            if len(self._lines) == 1:
                self._has_lines.notify()

    def _run(self) -> None:
        while lines := self._gathered():
            lost = 0
            try:
                self._write("".join(chain.from_iterable(lines)).encode(errors="replace"))
            except OSError:
                lost = len(lines)
            with self._lock:
                self._waiting_bytes -= self._taken_bytes
                self.dropped += lost

    def _gathered(self) -> list[Line]:
        """Wait for lines and for some more; gives none when there are no more to come."""
        with self._lock:
            while not self._lines and not self._closing.is_set():
                self._has_lines.wait()
        self._closing.wait(_GATHER_SECONDS)
        with self._lock:
            lines, self._lines = self._lines, []
            self._taken_bytes = self._waiting_bytes
        return lines

    def _write(self, piece: bytes) -> None:
        rest = memoryview(piece)
        with self._turn():
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    sleep(_FULL_SECONDS)
