"""What answers are told apart by when they are counted: a bounded number of values for each.

Counts of several processes that serve together, each in a file of its own.

A process writes all that it counts once a second, when it is asked for the counts of all, and when
it ends. So what was told once is never more than what is in the files: whoever is asked next, and
whoever takes the place of a process that was killed, tells no less.

What this process has answered, counted for Prometheus, and with it what its like have.

What every answer gets, whoever gives it: a name, a place in the counts, a line in the log.
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
from service.delivery.telemetry.log import HEADER, REQUEST_ID, RequestLog
from service.formats import FORMATS

WARM_PATH = "posref.warm_path"
"""Where a scope holds the path that a finished answer was kept for."""

_OTHER = "other"
_NONE = "none"

_FORMATS = MappingProxyType(
    {
        **{form.media_type.encode(): form.extension for form in FORMATS.values()},
        b"application/problem+json": "problem",
    }
)


def path_of(scope: Scope) -> str:
    """Give the path of the route that a request has met."""
    return getattr(scope.get("route"), "path", _OTHER)


def source_of(*, is_warm: bool) -> str:
    """Say whether an answer was kept or made."""
    return "kept" if is_warm else "made"


def format_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Give the extension of the format that the headers of an answer say its body has."""
    for name, value in headers:
        if name == b"content-type":
            return _FORMATS.get(value.partition(b";")[0], _OTHER)
    return _NONE


MAX_FILE_BYTES = 4 * 1024 * 1024
"""The longest file that is read: more than all routes and statuses there are take."""

_SHARE_SECONDS = 1.0

# A process that has written nothing for so long is not alive, or as good as that.
_FRESH_SECONDS = 5.0

_log = logging.getLogger("posref.counts")


@dataclass(frozen=True)
class WorkerSlot:
    """The place of a process among those of a server.

    Attributes:
        directory: what they share.
        slot: its number, which a process that takes its place has, too.
    """

    directory: Path
    slot: int


class _Snapshot(BaseModel):
    """What is in a file: the clock of the machine and all counts at that time."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    written_seconds: FiniteFloat
    rows: dict[str, list[tuple[Labels, list[FiniteFloat]]]]

    @field_validator("rows")
    @classmethod
    def _are_of_families(
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
    """Keep the counts of one process where the others find them, and find theirs."""

    def __init__(self, directory: Path, slot: int) -> None:
        self._directory = directory
        self._file = directory / f"{slot}.counts"
        before = _read(self._file)
        self._inherited = outliving(before.counts) if before else {}
        self._has_failed = False

    def write(self, counts: Counts, *, is_last: bool = False) -> None:
        """Write what this process counts, on top of what those in its slot did before it."""
        own = self._own(counts)
        self._replace(outliving(own) if is_last else own)

    def together(self, counts: Counts) -> Counts:
        """Write what this process counts; gives that of all, and their states if they are alive."""
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
    """Share counts each second for as long as a context lasts."""

    async def always() -> None:
        while True:
            share()
            await asyncio.sleep(_SHARE_SECONDS)

    task = asyncio.create_task(always())
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
"""A number, or one for each value of the only label."""


class Tally(Histogram):
    """Count answers of one kind, and how long they took, on one event loop.

    Attributes:
        labels: what tells them from others: route, status, source, format.
        body_bytes: how much of their bodies was sent.
    """

    __slots__ = ("body_bytes", "labels")

    def __init__(self, labels: Labels) -> None:
        super().__init__()
        self.labels = labels
        self.body_bytes = 0

    @property
    def answers(self) -> int:
        """How many there were."""
        return self.number

    def count(self, body_bytes: int, seconds: float) -> None:
        """Count an answer."""
        self.body_bytes += body_bytes
        self.observe(seconds)


class Metrics(Collector):
    """Count every answer, and show everything else when asked.

    Counts are numbers in memory. The multi-process mode of prometheus_client would take a lock and
    write to a mapped file for each of them, which is as long as a small answer takes, and has no
    place for numbers that are read when asked for; what is shared here is all counts, once a
    second.
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
        """Find what counts answers of one kind.

        Args:
            path: the path of a route, with ``{extension}`` for any.
            status: the status code, 0 where there was no answer.
            form: the extension of the format of their bodies, as ``format_of`` gives it.
            is_warm: whether they are answers that were kept.
        """
        source = source_of(is_warm=is_warm)
        labels = (path, str(int(status)), source, form)
        tally = self._tallies.get(labels)
        if tally is None:
            tally = self._tallies[labels] = Tally(labels)
        return tally

    def watch(self, name: str, read: Callable[[], Reading]) -> None:
        """Show a number of a family, or those of its only label, as it is when asked for."""
        self._watched[name] = read

    def counts(self) -> Counts:
        """Give every number of this process."""
        tallies = self._tallies.items()
        return {
            "posref_answers": {labels: [tally.answers] for labels, tally in tallies},
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
        """Put the durations of a path and a source together, whatever the status and the format."""
        counts: Counts = {}
        for (path, _, source, _), tally in self._tallies.items():
            add(counts, {"posref_answer_seconds": {(path, source): tally.row}})
        return counts.get("posref_answer_seconds", {})

    def share(self, *, is_last: bool = False) -> None:
        """Let the other processes of a server know; does nothing where there are none.

        Args:
            is_last: whether this one ends.
        """
        if self._shared is not None:
            self._shared.write(self.counts(), is_last=is_last)

    def collect(self) -> Iterable[Metric]:
        """Give every number, of all processes together."""
        counts = self.counts()
        if self._shared is not None:
            counts = self._shared.together(counts)
        for name, family in FAMILIES.items():
            yield family.metric(name, counts.get(name, {}))

    def exposition(self, accept: str | None) -> tuple[bytes, str]:
        """Spell every number the way that Accept prefers; gives text and its media type."""
        encode, media_type = choose_encoder(accept or "")
        return encode(self._registry), media_type


def _rows(reading: Reading) -> dict[Labels, Row]:
    if isinstance(reading, Mapping):
        return {(label,): [value] for label, value in reading.items()}
    return {(): [reading]}


@dataclass(frozen=True)
class TelemetryMiddleware:
    """Name, count and log every answer of an application."""

    app: ASGIApp
    metrics: Metrics
    log: RequestLog

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count and log its answer when that has ended."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun_at = perf_counter()
        request_id = self.log.request_id(_header(scope, HEADER))
        # A line that is logged meanwhile bears it, too.
        REQUEST_ID.set(request_id)
        answer = _Sent(send, request_id)
        try:
            await self.app(scope, receive, answer.send)
        finally:
            self._note(scope, answer, perf_counter() - begun_at)

    def _note(self, scope: Scope, answer: "_Sent", seconds: float) -> None:
        warm_path = scope.get(WARM_PATH)
        path, is_warm = warm_path or path_of(scope), warm_path is not None
        tally = self.metrics.tally(path, answer.status, answer.form, is_warm=is_warm)
        tally.count(answer.body_bytes, seconds)
        told = self.log.told(
            scope["method"],
            _target(scope),
            tally.labels,
            answer.body_bytes,
            is_complete=answer.is_complete,
        )
        forwarded_for = _header(scope, b"x-forwarded-for")
        self.log.write(told, answer.request_id, scope.get("client"), seconds, forwarded_for)


@dataclass
class _Sent:
    """An answer on its way."""

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
            message["headers"] = [*headers, (HEADER, self.request_id.encode())]
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
