"""Lines of the log on their way out: nothing that logs ever waits for whoever reads.

Names of requests, by which lines of several logs are found to be about one.

One line of the log for each request, as JSON, cheap enough to stay on.

Everything else that is logged, as JSON lines like those of requests.

Turns of processes that write to one place: a pipe takes only short pieces unbroken.
"""

import fcntl
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from itertools import chain, count
from pathlib import Path
from threading import Event, Thread
from time import gmtime, sleep, strftime, time
from types import TracebackType
from typing import Self, TypeAlias

import orjson

from service.delivery.telemetry.counters import Labels
from service.settings import Settings

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


HEADER = b"x-request-id"

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""That of the request which is being answered."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")


class RequestIds:
    """Give every request a name: its own, or one that no other process gives."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._numbers = count(1)

    def name(self, sent: bytes | None) -> str:
        """Give the name that was sent, if it is one, or a new one."""
        if sent is not None and _REQUEST_ID.fullmatch(sent):
            return sent.decode()
        return f"{self._prefix}-{next(self._numbers)}"


LEVELS = ("debug", "info", "warning", "error")
"""How grave a line may be, the least first."""

MAX_PATH_LENGTH = 512
MAX_QUERY_LENGTH = 512
MAX_FORWARDED_LENGTH = 256

_PROBES = frozenset({"/livez", "/readyz", "/metrics"})
_MAX_CLIENTS = 1024
_MAX_CLIENT_LENGTH = 64
_START = '{"time":"'
_MICROSECONDS = tuple(f"0.{number:06}" for number in range(1000))

LogFields: TypeAlias = tuple[str, str]
"""What a line says of an answer, before and after what is of one request."""


class Clock:
    """Spell the present as RFC 3339 does, in UTC with milliseconds."""

    def __init__(self) -> None:
        self._milliseconds = 0
        self._spelled = ""

    def now(self) -> str:
        """Spell it; many times in a millisecond cost little more than once."""
        milliseconds = int(time() * 1000)
        if milliseconds != self._milliseconds:
            second, rest = divmod(milliseconds, 1000)
            self._spelled = f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(second))}.{rest:03}Z"
            self._milliseconds = milliseconds
        return self._spelled


class RequestLog:
    """Log requests that were answered; belongs to one event loop.

    What a line says of an answer is spelled by itself: that of an answer which is kept is, too.

    Attributes:
        request_id: names a request, by what X-Request-Id says or anew.
    """

    def __init__(self, writer: LineWriter | None, settings: Settings) -> None:
        self.request_id = RequestIds().name
        self._writer = writer if settings.log_requests else None
        self._levels = LEVELS[LEVELS.index(settings.log_level) :]
        self._clock = Clock()
        self._clients: dict[str | None, str] = {}

    def told(
        self,
        method: str,
        target: bytes,
        labels: Labels,
        body_bytes: int,
        *,
        is_complete: bool = True,
    ) -> LogFields | None:
        """Spell what is to be said of an answer, None for nothing.

        Args:
            method: that of the request.
            target: path and query, as they came.
            labels: what the answer is counted by: route, status, source and format.
            body_bytes: how many bytes of a body were sent.
            is_complete: whether that is all of it.
        """
        route, status, source, form = labels
        level = _level(route, status)
        if self._writer is None or level not in self._levels:
            return None
        path, _, query = target.decode("latin-1").partition("?")
        # What was refused may be something that was pasted by mistake.
        is_told = query and status[0] in "23"
        said = {
            "method": method,
            "path": path[:MAX_PATH_LENGTH],
            **({"query": query[:MAX_QUERY_LENGTH]} if is_told else {}),
            "status": int(status) or None,
            "bytes": body_bytes,
            "route": route,
            "source": source,
            "format": form,
            **({} if is_complete else {"complete": False}),
        }
        before = f'","level":"{level}","message":"request","request_id":"'
        after = "," + orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE).decode()[1:]
        return before, after

    def write(
        self,
        told: LogFields | None,
        request_id: str,
        client: tuple[str, int] | None,
        seconds: float,
        forwarded_for: bytes | None = None,
    ) -> None:
        """Log a request.

        Args:
            told: what is said of its answer.
            request_id: its name.
            client: address and port that it came from.
            seconds: how long it took.
            forwarded_for: X-Forwarded-For, as it came.
        """
        if told is None or self._writer is None:
            return
        before, after = told
        host = None if client is None else client[0]
        spelled_client = self._clients.get(host) or self._spelled_client(host)
        microseconds = int(seconds * 1_000_000)
        spelled = _MICROSECONDS[microseconds] if microseconds < 1000 else f"{seconds:.6f}"
        if forwarded_for is not None:
            spelled += _forwarded(forwarded_for)
        now = self._clock.now()
        self._writer.write((_START, now, before, request_id, spelled_client, spelled, after))

    def _spelled_client(self, host: str | None) -> str:
        if len(self._clients) >= _MAX_CLIENTS:
            self._clients.clear()
        client = orjson.dumps(host and host[:_MAX_CLIENT_LENGTH]).decode()
        spelled = self._clients[host] = f'","client":{client},"seconds":'
        return spelled


def _level(route: str, status: str) -> str:
    if route in _PROBES:
        return "debug"
    return "error" if status[0] == "5" else "info"


def _forwarded(value: bytes) -> str:
    shown = value[:MAX_FORWARDED_LENGTH].decode("latin-1")
    return f',"forwarded_for":{orjson.dumps(shown).decode()}'


MAX_TEXT_LENGTH = 16 * 1024
"""How much of a message, or of the end of a traceback, is logged."""

# Libraries tell a great deal of themselves at this level.
_OURS = ("posref", "uvicorn")


def configure_logging(settings: Settings, writer: LineWriter) -> None:
    """Log everything, warnings of Python included, to one place, as lines of JSON."""
    level = getattr(logging, settings.log_level.upper())
    root = logging.getLogger()
    root.handlers[:] = [RecordHandler(writer)]
    root.setLevel(max(level, logging.INFO))
    for name in _OURS:
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(True)


class RecordHandler(logging.Handler):
    """Write records of the logging module as lines."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer
        self._clock = Clock()
        self._tracebacks = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; never raises."""
        try:
            self._writer.write((self._line(record),))
        except Exception:  # noqa: BLE001 - A line that cannot be written must not end what it is of.
            self.handleError(record)

    def _line(self, record: logging.LogRecord) -> str:
        said = {
            "time": self._clock.now(),
            "level": record.levelname.lower(),
            "message": _text(record.getMessage())[:MAX_TEXT_LENGTH],
            "logger": record.name,
        }
        request_id = REQUEST_ID.get()
        if request_id is not None:
            said["request_id"] = request_id
        if record.exc_info:
            traceback = self._tracebacks.formatException(record.exc_info)
            said["exception"] = _text(traceback)[-MAX_TEXT_LENGTH:]
        return orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE).decode()


def _text(text: str) -> str:
    """Replace what UTF-8 has no bytes for: a name of a file may hold such."""
    return text.encode(errors="replace").decode()


@contextmanager
def file_lock(file: Path) -> Iterator[None]:
    """Wait for a turn among those who name one file; one that is killed gives its turn back.

    Where there is no place for the file, turns are not taken.
    """
    try:
        held = file.open("wb")
    except OSError:
        yield
        return
    with held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
