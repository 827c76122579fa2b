"""Telemetry of each request: its id, its counter and its log line.

The log fields that all responses with the same cached body share are serialized once, so that a log
line costs little time for each request.
"""

import re
import secrets
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from types import MappingProxyType
from typing import TypeAlias

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.delivery.clients import (
    CLIENT,
    FORWARDED_FOR,
    IS_PIPELINED,
    PIPELINED,
    ClientAddresses,
)
from service.delivery.streams import STREAM, Stream
from service.delivery.telemetry.log import REQUEST_ID, Clock, LineWriter
from service.formats import FORMATS
from service.settings import Settings

Labels: TypeAlias = tuple[str, ...]

BUCKET_SECONDS = (
    *(0.0001, 0.00025, 0.0005),
    *(0.001, 0.0025, 0.005),
    *(0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0),
    *(10.0, 30.0, 60.0),
)
"""The upper bounds of the histogram buckets, in seconds; the last bucket has no bound."""


class Histogram:
    """Counts durations by bucket; belongs to one event loop.

    Most durations fall into the first bucket. To save time it has no counter: its count is the
    total minus all other buckets.

    Attributes:
        number: how many durations were observed.
        sum_seconds: the sum of all durations.
    """

    __slots__ = ("_longer", "number", "sum_seconds")

    def __init__(self) -> None:
        self.number = 0
        self.sum_seconds = 0.0
        self._longer = [0] * (len(BUCKET_SECONDS) + 1)

    def observe(self, seconds: float) -> None:
        self.number += 1
        self.sum_seconds += seconds
        if seconds > BUCKET_SECONDS[0]:
            self._longer[bisect_left(BUCKET_SECONDS, seconds)] += 1

    @property
    def row(self) -> list[float]:
        """The count of each bucket, followed by the sum of all durations in seconds."""
        shortest = self.number - sum(self._longer)
        return [shortest, *self._longer[1:], self.sum_seconds]


class Tally(Histogram):
    """Counts the responses with the same labels, and their durations; belongs to one event loop.

    Attributes:
        labels: (route, status, source, format); source is ``kept`` (cached) or ``made``.
        body_bytes: how many bytes of response bodies were sent.
    """

    __slots__ = ("body_bytes", "labels")

    def __init__(self, labels: Labels) -> None:
        super().__init__()
        self.labels = labels
        self.body_bytes = 0

    def count(self, body_bytes: int, seconds: float) -> None:
        self.body_bytes += body_bytes
        self.observe(seconds)


class Tallies(dict[Labels, Tally]):
    """The tallies of all responses, by their labels."""

    def of(self, path: str, status: int, form: str, *, is_warm: bool) -> Tally:
        """Return the tally with these labels; create it if missing.

        Args:
            path: the route's path, with ``{extension}`` as a placeholder.
            status: the status code; 0 if there was no response.
            form: the format of the bodies, as ``format_of`` returns it.
            is_warm: whether the responses came from the cache.
        """
        labels = (path, str(int(status)), "kept" if is_warm else "made", form)
        tally = self.get(labels)
        if tally is None:
            tally = self[labels] = Tally(labels)
        return tally


REQUEST_ID_HEADER = b"x-request-id"

WARM_PATH = "posref.warm_path"
"""The key in an ASGI scope for the route's path, set if the response came from the cache."""

_OTHER = "other"
_NONE = "none"

_FORMATS = MappingProxyType(
    {
        **{form.media_type.encode(): form.extension for form in FORMATS.values()},
        b"application/problem+json": "problem",
    }
)


def path_of(scope: Scope) -> str:
    """Return the path of the route that matched a request, ``other`` if none did."""
    return getattr(scope.get("route"), "path", _OTHER)


def target_of(scope: Scope) -> bytes:
    """Return the path and the query of a request, still percent-encoded."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


def format_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the extension of a response's format; ``problem``, ``other`` or ``none``."""
    for name, value in headers:
        if name == b"content-type":
            return _FORMATS.get(value.partition(b";")[0], _OTHER)
    return _NONE


LEVELS = ("debug", "info", "warning", "error")
"""The log levels, the lowest first."""

MAX_PATH_LENGTH = 512
MAX_QUERY_LENGTH = 512
MAX_FORWARDED_LENGTH = 256

_PROBES = frozenset({"/livez", "/readyz", "/metrics"})
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_MAX_CLIENTS = 1024
_MAX_CLIENT_LENGTH = 64
_START = b'{"time":"'
_MICROSECONDS = tuple(b"0.%06d" % number for number in range(1000))

LogFields: TypeAlias = tuple[bytes, bytes]
"""Two parts of a serialized log line: the text before and after the fields of the request."""


class RequestLog:
    """Logs the requests of one event loop.

    The fields of the response are serialized separately from the fields of the request, so that a
    cached response can keep them.
    """

    def __init__(self, writer: LineWriter | None, settings: Settings) -> None:
        self._writer = writer if settings.log_requests else None
        self._levels = LEVELS[LEVELS.index(settings.log_level) :]
        self._clock = Clock()
        self._clients: dict[str | None, bytes] = {}
        self._process_id = secrets.token_hex(8).encode()
        self._numbers = count(1)

    def request_id(self, sent: bytes | None) -> bytes:
        """Return the id that a client sent, if it is valid, or a new one."""
        if sent is not None and _REQUEST_ID.fullmatch(sent):
            return sent
        return b"%s-%d" % (self._process_id, next(self._numbers))

    def log_fields(
        self,
        method: str,
        target: bytes,
        labels: Labels,
        body_bytes: int,
        *,
        is_complete: bool = True,
    ) -> LogFields | None:
        """Serialize the log fields of a response; return None if its level is not logged.

        Args:
            method: the method of the request.
            target: the path and query of the request, percent-encoded.
            labels: the labels of the response's tally.
            body_bytes: how many bytes of the body were sent.
            is_complete: whether the whole body was sent.
        """
        route, status, source, form = labels
        level = _level(route, status)
        if self._writer is None or level not in self._levels:
            return None
        path, _, query = target.decode("latin-1").partition("?")
        # The query of a refused request may be a secret that was pasted by mistake.
        has_query = query and status[0] in "23"
        fields = {
            "method": method,
            "path": path[:MAX_PATH_LENGTH],
            **({"query": query[:MAX_QUERY_LENGTH]} if has_query else {}),
            "status": int(status) or None,
            "bytes": body_bytes,
            "route": route,
            "source": source,
            "format": form,
            **({} if is_complete else {"complete": False}),
        }
        before = f'","level":"{level}","message":"request","request_id":"'.encode()
        after = b"," + orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)[1:]
        return before, after

    def write(
        self,
        fields: LogFields | None,
        request_id: bytes,
        client: tuple[str, int] | None,
        seconds: float,
        forwarded_for: bytes | None = None,
    ) -> None:
        """Write the log line of a request.

        Args:
            fields: the serialized fields of the response; None writes no line.
            request_id: the id of the request.
            client: the IP address and port of the client, if known.
            seconds: the duration of the request.
            forwarded_for: the header X-Forwarded-For, or None.
        """
        if fields is None or self._writer is None:
            return
        before, after = fields
        host = None if client is None else client[0]
        client_field = self._clients.get(host) or self._serialize_client(host)
        microseconds = int(seconds * 1_000_000)
        rest = _MICROSECONDS[microseconds] if microseconds < 1000 else b"%.6f" % seconds
        if forwarded_for is not None:
            shown = forwarded_for[:MAX_FORWARDED_LENGTH].decode("latin-1")
            rest += b',"forwarded_for":' + orjson.dumps(shown)
        now = self._clock.now()
        self._writer.write((_START, now, before, request_id, client_field, rest, after))

    def _serialize_client(self, host: str | None) -> bytes:
        if len(self._clients) >= _MAX_CLIENTS:
            self._clients.clear()
        client = orjson.dumps(host and host[:_MAX_CLIENT_LENGTH])
        field = self._clients[host] = b'","client":%s,"seconds":' % client
        return field


def _level(route: str, status: str) -> str:
    if route in _PROBES:
        return "debug"
    if status == "503":
        # A refusal, as the server is meant to answer.
        return "warning"
    return "error" if status[0] == "5" else "info"


@dataclass(frozen=True)
class TelemetryMiddleware:
    """Assigns request ids, names the client, and counts and logs every response."""

    app: ASGIApp
    tallies: Tallies
    log: RequestLog
    addresses: ClientAddresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun_at = perf_counter()
        request_id = self.log.request_id(_header(scope, REQUEST_ID_HEADER))
        # Log records that are written during this request contain its id.
        REQUEST_ID.set(request_id.decode())
        CLIENT.set(self.addresses.name_of(scope))
        IS_PIPELINED.set(PIPELINED in scope.get("extensions", {}))
        response = _ResponseObserver(send, request_id)
        try:
            await self.app(scope, receive, response.send)
        finally:
            self._note(scope, response, perf_counter() - begun_at)

    def _note(self, scope: Scope, response: "_ResponseObserver", seconds: float) -> None:
        warm_path = scope.get(WARM_PATH)
        path, is_warm = warm_path or path_of(scope), warm_path is not None
        tally = self.tallies.of(path, response.status, response.form, is_warm=is_warm)
        tally.count(response.body_bytes, seconds)
        fields = self.log.log_fields(
            scope["method"],
            target_of(scope),
            tally.labels,
            response.body_bytes,
            is_complete=response.is_complete,
        )
        forwarded_for = _header(scope, FORWARDED_FOR)
        self.log.write(fields, response.request_id, scope.get("client"), seconds, forwarded_for)


@dataclass
class _ResponseObserver:
    """Records status, format and length of a response; adds the request id to its headers."""

    to_server: Send
    request_id: bytes
    status: int = 0
    form: str = "none"
    body_bytes: int = 0
    is_complete: bool = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            self.status, self.form = message["status"], format_of(headers)
            message["headers"] = [*headers, (REQUEST_ID_HEADER, self.request_id)]
        elif message["type"] == "http.response.body":
            self.body_bytes += len(message.get("body", b""))
        elif message["type"] == STREAM:
            await self._send_stream(message)
            return
        await self.to_server(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_complete = True

    async def _send_stream(self, message: Message) -> None:
        stream: Stream = message["stream"]
        try:
            await self.to_server(message)
        finally:
            self.body_bytes += stream.sent_bytes
            self.is_complete = stream.is_complete


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for known, value in scope["headers"] if known == name), None)
