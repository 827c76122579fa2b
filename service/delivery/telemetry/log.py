"""The log: a thread that writes lines, and ``logging`` records formatted as JSON lines.

``LineWriter`` replaces the standard library's ``QueueListener``, which writes one record at a time,
has an unbounded queue, and never stops if the reader of the log is stuck.
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
"""The most lines that wait to be written, usually 2 to 3 MiB; further lines are dropped."""

# Lines are written this often: a system call for each would cost more than the line.
_WRITE_SECONDS = 0.05
_FULL_PIPE_SECONDS = 0.02
_CLOSE_SECONDS = 2.0


class LineWriter:
    """Writes lines on a thread, many in one system call; the threads that log never block.

    The lines wait in a list, whose operations are atomic; a queue with a lock would make each line
    10 % slower.

    Args:
        descriptor: the file descriptor of the file or pipe.
        lock: returns a context manager that is held during each write; needed if several processes
            write to one pipe.
        max_waiting_lines: the most lines that may wait, not counting the lines being written.

    Attributes:
        dropped: the number of lines lost because too many waited or the pipe was closed.
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
        self._lines: list[tuple[bytes, ...]] = []
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
        """Write the waiting lines and end the thread; give up after _CLOSE_SECONDS."""
        self._closing.set()
        self._thread.join(_CLOSE_SECONDS)

    def write(self, line: tuple[bytes, ...]) -> None:
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
                self._write(b"".join(chain.from_iterable(lines)))
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
    """Hold an exclusive lock on a file, so that the writes of several processes do not interleave.

    The lock of a killed process is released. If the file cannot be created, nothing is locked.
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
    """Formats the current time as RFC 3339 text, in UTC with milliseconds."""

    def __init__(self) -> None:
        self._milliseconds = 0
        self._text = b""

    def now(self) -> bytes:
        """Return the current time; the text is cached for a millisecond."""
        milliseconds = int(time() * 1000)
        if milliseconds != self._milliseconds:
            second, rest = divmod(milliseconds, 1000)
            text = strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))
            self._text = f"{text}.{rest:03}Z".encode()
            self._milliseconds = milliseconds
        return self._text


REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the current request; None outside of requests."""

MAX_TEXT_LENGTH = 16 * 1024
"""Longer messages are cut to this many first characters, tracebacks to the last ones."""

# Only these loggers may write debug lines: other libraries write too many.
_OWN_LOGGERS = ("posref", "uvicorn")


def configure_logging(settings: Settings, writer: LineWriter) -> None:
    """Send every log record and Python warning to a writer, as JSON lines."""
    level = getattr(logging, settings.log_level.upper())
    root = logging.getLogger()
    root.handlers[:] = [RecordHandler(writer)]
    root.setLevel(max(level, logging.INFO))
    for name in _OWN_LOGGERS:
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(True)


class RecordHandler(logging.Handler):
    """Writes log records as JSON lines; formatting errors go to stderr and are never raised."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer
        self._clock = Clock()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write((self.format(record).encode(),))
        except Exception:  # noqa: BLE001 - A log line must not break what it is about.
            self.handleError(record)

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self._clock.now().decode(),
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
    """Replace characters that UTF-8 cannot encode, such as lone surrogates in file names."""
    return text.encode(errors="replace").decode()
