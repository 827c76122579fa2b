"""One line of the log for each request, as JSON, cheap enough to stay on."""

from time import gmtime, strftime, time
from typing import TypeAlias

import orjson

from service.delivery.families import Labels
from service.delivery.log_lines import LineWriter
from service.delivery.request_ids import RequestIds
from service.settings import Settings

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

Told: TypeAlias = tuple[str, str]
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
    ) -> Told | None:
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
        told: Told | None,
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
