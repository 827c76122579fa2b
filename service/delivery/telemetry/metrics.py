"""Metrics of all responses, for Prometheus, and the middleware that counts and logs each response.

Processes that serve together share their counts: each writes all of its own to a file once a
second, when it is scraped, and when it ends. A scrape of any process reads the files of all. So a
counter never goes backwards, whichever process is scraped next, and whichever takes the place of
one that was killed.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter
from types import MappingProxyType
from typing import TypeAlias

import orjson
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError, field_validator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.delivery.cache import BodyCache
from service.delivery.telemetry.counters import (
    FAMILIES,
    Counts,
    Histogram,
    Labels,
    Row,
    add,
    outliving,
)
from service.delivery.telemetry.log import REQUEST_ID, REQUEST_ID_HEADER, RequestLog
from service.formats import FORMATS

WARM_PATH = "posref.warm_path"
"""The key of a scope for the route of a response that came from the cache."""

_OTHER = "other"
_NONE = "none"

_FORMATS = MappingProxyType(
    {
        **{form.media_type.encode(): form.extension for form in FORMATS.values()},
        b"application/problem+json": "problem",
    }
)


def path_of(scope: Scope) -> str:
    """Return the path of the route that matched a request."""
    return getattr(scope.get("route"), "path", _OTHER)


def format_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the extension of the format that the headers of a response name."""
    for name, value in headers:
        if name == b"content-type":
            return _FORMATS.get(value.partition(b";")[0], _OTHER)
    return _NONE


MAX_FILE_BYTES = 4 * 1024 * 1024
"""The longest file that is read: more than all routes and statuses need."""

_SHARE_SECONDS = 1.0

# A process that has written nothing for so long does not run, or hangs.
_FRESH_SECONDS = 5.0

_log = logging.getLogger("posref.counts")


@dataclass(frozen=True)
class WorkerSlot:
    """The slot of a process among those of a server.

    Attributes:
        directory: what they share.
        slot: its number, which a process that replaces it gets, too.
    """

    directory: Path
    slot: int


class _Snapshot(BaseModel):
    """The content of a file: the clock of the machine, and all counts at that time."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    written_seconds: FiniteFloat
    rows: dict[str, list[tuple[Labels, list[FiniteFloat]]]]

    @field_validator("rows")
    @classmethod
    def _check_families(
        cls, rows: dict[str, list[tuple[Labels, Row]]]
    ) -> dict[str, list[tuple[Labels, Row]]]:
        for name, pairs in rows.items():
            family = FAMILIES.get(name)
            shape = family and (len(family.labels), family.row_length)
            if any((len(labels), len(row)) != shape for labels, row in pairs):
                raise ValueError(f"{name} is not counted in this way")
        return rows

    @property
    def counts(self) -> Counts:
        return {name: dict(pairs) for name, pairs in self.rows.items()}


class SharedCounts:
    """The counts of one process, in a file that the other processes read."""

    def __init__(self, directory: Path, slot: int) -> None:
        self._directory = directory
        self._file = directory / f"{slot}.counts"
        before = _read(self._file)
        self._inherited = outliving(before.counts) if before else {}
        self._has_failed = False

    def write(self, counts: Counts, *, is_last: bool = False) -> None:
        """Write the counts of this process, added to those of the earlier ones in its slot."""
        own = self._own(counts)
        self._replace(outliving(own) if is_last else own)

    def combine(self, counts: Counts) -> Counts:
        """Write the counts of this process; return those of all, and the gauges of live ones."""
        own = self._own(counts)
        self._replace(own)
        for file in self._directory.glob("*.counts"):
            other = _read(file) if file != self._file else None
            if other is not None:
                is_fresh = monotonic() - other.written_seconds < _FRESH_SECONDS
                add(own, other.counts if is_fresh else outliving(other.counts))
        return own

    def _own(self, counts: Counts) -> Counts:
        own: Counts = {}
        add(own, self._inherited)
        add(own, counts)
        return own

    def _replace(self, counts: Counts) -> None:
        rows = {name: list(rows.items()) for name, rows in counts.items()}
        draft = self._file.with_suffix(".draft")
        try:
            draft.write_bytes(orjson.dumps({"written_seconds": monotonic(), "rows": rows}))
            draft.replace(self._file)
        except OSError as error:
            if not self._has_failed:
                _log.warning("counts cannot be shared between processes: %s", error)
            self._has_failed = True
            return
        self._has_failed = False


@asynccontextmanager
async def sharing(share: Callable[[], None]) -> AsyncGenerator[None, None]:
    """Share counts each second while the context lasts."""

    async def repeat() -> None:
        while True:
            share()
            await asyncio.sleep(_SHARE_SECONDS)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _read(file: Path) -> _Snapshot | None:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ValueError("it is too long")
        return _Snapshot.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        _log.warning("counts of another process cannot be read: %s: %s", file.name, reason)
        return None


Reading: TypeAlias = float | Mapping[str, float]
"""A number, or one for each value of the family's only label."""


class Tally(Histogram):
    """Count the responses with one set of labels, and their durations, on one event loop.

    Attributes:
        labels: route, status, source, format.
        body_bytes: the bytes of their bodies that were sent.
    """

    __slots__ = ("body_bytes", "labels")

    def __init__(self, labels: Labels) -> None:
        super().__init__()
        self.labels = labels
        self.body_bytes = 0

    def count(self, body_bytes: int, seconds: float) -> None:
        self.body_bytes += body_bytes
        self.observe(seconds)


class Metrics(Collector):
    """Count every response, and expose these and all other numbers.

    Counts are numbers in memory. The multiprocess mode of prometheus_client would take a lock and
    write to a mapped file for each response, which takes as long as a small response itself, and
    has no gauges that are read when they are scraped. Here all counts are shared once a second.
    """

    def __init__(self, cache: BodyCache, shared: SharedCounts | None = None) -> None:
        self._shared = shared
        self._tallies: dict[Labels, Tally] = {}
        self._build_durations = cache.build_durations
        self._watched: dict[str, Callable[[], Reading]] = {}
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)
        self._registry = CollectorRegistry()
        self._registry.register(self)
        PlatformCollector(registry=self._registry)
        self.watch("posref_workers", lambda: 1)
        self.watch("posref_builds", lambda: cache.builds)
        self.watch("posref_cache_hits", lambda: cache.hits)
        self.watch("posref_cache_misses", lambda: cache.misses)
        self.watch("posref_cache_evictions", lambda: cache.evictions)
        self.watch("posref_cache_bytes", lambda: cache.size_bytes)
        self.watch("posref_cache_capacity_bytes", lambda: cache.capacity_bytes)

    def tally(self, path: str, status: int, form: str, *, is_warm: bool) -> Tally:
        """Return the tally of one set of labels.

        Args:
            path: the path of a route, with ``{extension}`` for any.
            status: the status code, 0 where there was no response.
            form: the extension of the format of their bodies, as ``format_of`` returns it.
            is_warm: whether the responses came from the cache.
        """
        labels = (path, str(int(status)), "kept" if is_warm else "made", form)
        tally = self._tallies.get(labels)
        if tally is None:
            tally = self._tallies[labels] = Tally(labels)
        return tally

    def watch(self, name: str, read: Callable[[], Reading]) -> None:
        """Read a metric, or its values by its only label, whenever metrics are scraped."""
        self._watched[name] = read

    def counts(self) -> Counts:
        """Return every number of this process."""
        tallies = self._tallies.items()
        return {
            "posref_answers": {labels: [tally.number] for labels, tally in tallies},
            "posref_answer_body_bytes": {labels: [tally.body_bytes] for labels, tally in tallies},
            "posref_answer_seconds": self._durations(),
            "posref_build_seconds": {(): self._build_durations.row},
            **{name: _rows(read()) for name, read in self._watched.items()},
            **{
                metric.name: {tuple(each.labels.values()): [each.value] for each in metric.samples}
                for metric in self._process.collect()
            },
        }

    def _durations(self) -> dict[Labels, Row]:
        """Add the durations of a path and a source, whatever the status and the format."""
        counts: Counts = {}
        for (path, _, source, _), tally in self._tallies.items():
            add(counts, {"posref_answer_seconds": {(path, source): tally.row}})
        return counts.get("posref_answer_seconds", {})

    def share(self, *, is_last: bool = False) -> None:
        """Write the counts for the other processes of a server; does nothing where there are none.

        Args:
            is_last: whether this process ends.
        """
        if self._shared is not None:
            self._shared.write(self.counts(), is_last=is_last)

    def collect(self) -> Iterable[Metric]:
        """Return every metric, of all processes together."""
        counts = self.counts()
        if self._shared is not None:
            counts = self._shared.combine(counts)
        for name, family in FAMILIES.items():
            yield family.metric(name, counts.get(name, {}))

    def exposition(self, accept: str | None) -> tuple[bytes, str]:
        """Return all metrics as text in the format that Accept prefers, and its media type."""
        encode, media_type = choose_encoder(accept or "")
        return encode(self._registry), media_type


def _rows(reading: Reading) -> dict[Labels, Row]:
    if isinstance(reading, Mapping):
        return {(label,): [value] for label, value in reading.items()}
    return {(): [reading]}


@dataclass(frozen=True)
class TelemetryMiddleware:
    """Middleware that assigns request ids, and counts and logs every response."""

    app: ASGIApp
    metrics: Metrics
    log: RequestLog

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun_at = perf_counter()
        request_id = self.log.request_id(_header(scope, REQUEST_ID_HEADER))
        # Log records of this request carry it, too.
        REQUEST_ID.set(request_id)
        response = _ResponseObserver(send, request_id)
        try:
            await self.app(scope, receive, response.send)
        finally:
            self._note(scope, response, perf_counter() - begun_at)

    def _note(self, scope: Scope, response: "_ResponseObserver", seconds: float) -> None:
        warm_path = scope.get(WARM_PATH)
        path, is_warm = warm_path or path_of(scope), warm_path is not None
        tally = self.metrics.tally(path, response.status, response.form, is_warm=is_warm)
        tally.count(response.body_bytes, seconds)
        fields = self.log.log_fields(
            scope["method"],
            _target(scope),
            tally.labels,
            response.body_bytes,
            is_complete=response.is_complete,
        )
        forwarded_for = _header(scope, b"x-forwarded-for")
        self.log.write(fields, response.request_id, scope.get("client"), seconds, forwarded_for)


@dataclass
class _ResponseObserver:
    """Note the status, format and length of a response, and add the request id to its headers."""

    to_server: Send
    request_id: str
    status: int = 0
    form: str = "none"
    body_bytes: int = 0
    is_complete: bool = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            self.status, self.form = message["status"], format_of(headers)
            message["headers"] = [*headers, (REQUEST_ID_HEADER, self.request_id.encode())]
        elif message["type"] == "http.response.body":
            self.body_bytes += len(message.get("body", b""))
        await self.to_server(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_complete = True


def _header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for known, value in scope["headers"] if known == name), None)


def _target(scope: Scope) -> bytes:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path
