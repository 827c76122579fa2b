"""The log: lines that a thread writes, and the records of ``logging`` as lines of JSON.

``LineWriter`` takes the place of the standard library's ``QueueListener``, which writes one record
at a time, keeps no bound, and waits for a stuck reader without limit when it stops.
"""

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from time import gmtime, sleep, strftime, time
from types import TracebackType
from typing import Self

import orjson

from service.settings import Settings

MAX_WAITING_LINES = 8192
"""The most lines that wait for a reader, usually two or three MiB; further lines are dropped."""

# Lines are written this often: a system call for each would cost more than the line.
_WRITE_SECONDS = 0.05
_FULL_PIPE_SECONDS = 0.02
_CLOSE_SECONDS = 2.0


class LineWriter:
    """Write lines from a thread, in large pieces, without ever blocking the threads that log.

    The lines wait in a list, whose operations are atomic; a queue with a lock would make each line
    10 % slower.

    Args:
        descriptor: the file or pipe.
        lock: is held while a piece is written, where several processes write to one pipe.
        max_waiting_lines: how many may wait, beside those that are being written.

    Attributes:
        dropped: the number of lines that found the queue full, or the pipe closed.
    """

    def __init__(
        self,
        descriptor: int,
        lock: Callable[[], AbstractContextManager[None]] = nullcontext,
        max_waiting_lines: int = MAX_WAITING_LINES,
    ) -> None:
        self.dropped = 0
        self._descriptor = descriptor
        self._lock = lock
        self._max_waiting_lines = max_waiting_lines
        self._lines: list[tuple[str, ...]] = []
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
        """Write the waiting lines and end the thread, unless its reader is stuck."""
        self._closing.set()
        self._thread.join(_CLOSE_SECONDS)

    def write(self, line: tuple[str, ...]) -> None:
        """Add the parts of a line, the last with its line feed; drop it if too many lines wait."""
        if len(self._lines) >= self._max_waiting_lines:
            self.dropped += 1
        else:
            self._lines.append(line)

    def _run(self) -> None:
        while not self._closing.wait(_WRITE_SECONDS) or self._lines:
            lines = self._lines[:]
            if not lines:
                continue
            del self._lines[: len(lines)]
            try:
                self._write("".join(chain.from_iterable(lines)).encode(errors="replace"))
            except OSError:
                self.dropped += len(lines)

    def _write(self, piece: bytes) -> None:
        rest = memoryview(piece)
        with self._lock():
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    sleep(_FULL_PIPE_SECONDS)


@contextmanager
def file_lock(file: Path) -> Iterator[None]:
    """Hold a lock file: writes above PIPE_BUF would interleave between processes.

    A process that is killed releases it. Where the file cannot be made, nothing is locked.
    """
    try:
        opened = file.open("wb")
    except OSError:
        yield
        return
    with opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield


class Clock:
    """The present as RFC 3339 text, in UTC with milliseconds."""

    def __init__(self) -> None:
        self._milliseconds = 0
        self._text = ""

    def now(self) -> str:
        """Format the present; many calls in a millisecond cost little more than one."""
        milliseconds = int(time() * 1000)
        if milliseconds != self._milliseconds:
            second, rest = divmod(milliseconds, 1000)
            self._text = f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(second))}.{rest:03}Z"
            self._milliseconds = milliseconds
        return self._text


REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered."""

MAX_TEXT_LENGTH = 16 * 1024
"""The length of a message, or of the end of a traceback, in the log."""

# Libraries log many details at the level debug: only these loggers get it.
_OWN_LOGGERS = ("posref", "uvicorn")


def configure_logging(settings: Settings, writer: LineWriter) -> None:
    """Send every log record, warnings of Python included, to a writer as lines of JSON."""
    level = getattr(logging, settings.log_level.upper())
    root = logging.getLogger()
    root.handlers[:] = [RecordHandler(writer)]
    root.setLevel(max(level, logging.INFO))
    for name in _OWN_LOGGERS:
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(True)


class RecordHandler(logging.Handler):
    """Write log records as lines of JSON; an error in one is reported on stderr, never raised."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer
        self._clock = Clock()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write((self.format(record),))
        except Exception:  # noqa: BLE001 - A log line must not break what it is about.
            self.handleError(record)

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self._clock.now(),
            "level": record.levelname.lower(),
            "message": _encodable(record.getMessage())[:MAX_TEXT_LENGTH],
            "logger": record.name,
        }
        request_id = REQUEST_ID.get()
        if request_id is not None:
            fields["request_id"] = request_id
        if record.exc_info:
            traceback = logging.Formatter().formatException(record.exc_info)
            fields["exception"] = _encodable(traceback)[-MAX_TEXT_LENGTH:]
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE).decode()


def _encodable(text: str) -> str:
    """Replace what UTF-8 cannot encode: the name of a file may hold lone surrogates."""
    return text.encode(errors="replace").decode()
