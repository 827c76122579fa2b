"""Metrics for Prometheus: definitions, counts shared among processes, and exposition.

The worker processes of a server share their counts: each process writes its counts to a file once a
second, when it is scraped and when it ends. A scrape of any process reads all files. Therefore a
counter never decreases, whichever process is scraped, even after a killed process is replaced.
"""

import asyncio
import logging
import operator
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import TypeAlias

import orjson
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError, field_validator

from service.delivery.telemetry.traffic import BUCKET_SECONDS, Histogram, Labels, Tallies

ROW_LENGTH = len(BUCKET_SECONDS) + 2


Row: TypeAlias = list[float]
Counts: TypeAlias = dict[str, dict[Labels, Row]]
"""Rows by metric family and label values; a row is one number, or a histogram's buckets and sum."""


class Kind(Enum):
    """The kind of a metric; it determines how the values of several processes are combined."""

    COUNTER = "counter"
    GAUGE = "gauge"
    EARLIEST = "earliest"
    HISTOGRAM = "histogram"

    @property
    def outlives(self) -> bool:
        """True if the value is kept after its process has ended."""
        return self in {Kind.COUNTER, Kind.HISTOGRAM}


@dataclass(frozen=True)
class MetricDefinition:
    """The kind, the help text and the names of the labels of a metric family."""

    kind: Kind
    meaning: str
    labels: Labels = ()

    @property
    def row_length(self) -> int:
        """The number of values in a row."""
        return ROW_LENGTH if self.kind is Kind.HISTOGRAM else 1

    def joined(self, one: Row, other: Row) -> Row:
        """Return the combined row of two processes: the minimum or the sum of each value."""
        join = min if self.kind is Kind.EARLIEST else operator.add
        return [join(*pair) for pair in zip(one, other, strict=True)]

    def metric(self, name: str, rows: Mapping[Labels, Row]) -> Metric:
        """Return the rows as a metric of prometheus_client."""
        if self.kind is Kind.HISTOGRAM:
            return self._histogram(name, rows)
        of_kind = CounterMetricFamily if self.kind is Kind.COUNTER else GaugeMetricFamily
        metric = of_kind(name, self.meaning, labels=self.labels)
        for labels, (value,) in rows.items():
            metric.add_metric(labels, value)
        return metric

    def _histogram(self, name: str, rows: Mapping[Labels, Row]) -> Metric:
        metric = HistogramMetricFamily(name, self.meaning, labels=self.labels)
        bounds = [*map(floatToGoString, BUCKET_SECONDS), "+Inf"]
        for labels, (*buckets, sum_seconds) in rows.items():
            up_to = zip(bounds, accumulate(buckets), strict=True)
            metric.add_metric(labels, list(up_to), sum_seconds)
        return metric


_ANSWER = ("path", "status", "source", "format")
_LABELS = {
    "posref_answers": _ANSWER,
    "posref_answer_body_bytes": _ANSWER,
    "posref_answer_seconds": ("path", "source"),
    "posref_waiting_work": ("lane",),
    "posref_refused": ("reason",),
    "posref_memory_granted_bytes": ("kind",),
    "python_gc_objects_collected": ("generation",),
    "python_gc_objects_uncollectable": ("generation",),
    "python_gc_collections": ("generation",),
}
_MEANINGS = {
    Kind.COUNTER: {
        "posref_answers": "Responses sent.",
        "posref_answer_body_bytes": "Bytes of response bodies sent.",
        "posref_builds": "Bodies built for the cache.",
        "posref_cache_hits": "Bodies found in the cache.",
        "posref_cache_misses": "Bodies not found in the cache.",
        "posref_cache_evictions": "Bodies evicted from the cache.",
        "posref_refused": "Requests refused because of too much load.",
        "posref_log_lines_dropped": "Log lines that the reader of the log did not take in time.",
        "process_cpu_seconds": "User and system time spent.",
        "python_gc_objects_collected": "Objects that the garbage collector freed.",
        "python_gc_objects_uncollectable": "Objects that the garbage collector could not free.",
        "python_gc_collections": "Runs of the garbage collector.",
    },
    Kind.GAUGE: {
        "posref_cache_bytes": "Bytes in the cache.",
        "posref_cache_capacity_bytes": "Bytes the cache can hold.",
        "posref_waiting_work": "Requests that wait for a thread.",
        "posref_connections": "Open connections.",
        "posref_held_body_bytes": "Bytes of request bodies in memory.",
        "posref_memory_granted_bytes": "Bytes of memory granted, by what they are for.",
        "posref_memory_limit_bytes": "Bytes of memory that may be granted.",
        "posref_workers": "Processes that serve.",
        "process_virtual_memory_bytes": "Virtual memory.",
        "process_resident_memory_bytes": "Resident memory.",
        "process_open_fds": "Open file descriptors.",
        "process_max_fds": "File descriptors that may be open.",
    },
    Kind.EARLIEST: {
        "process_start_time_seconds": "Start of the oldest running process, in Unix time.",
    },
    Kind.HISTOGRAM: {
        "posref_answer_seconds": "Time from a request to the last byte of its response, written.",
        "posref_build_seconds": "Time from the request for a body to its last byte, with waits.",
    },
}
FAMILIES: Mapping[str, MetricDefinition] = MappingProxyType(
    {
        name: MetricDefinition(kind, meaning, _LABELS.get(name, ()))
        for kind, meanings in _MEANINGS.items()
        for name, meaning in meanings.items()
    }
)
"""All metric families by name; the names of counters lack the suffix ``_total``."""


def add(counts: Counts, others: Counts) -> None:
    """Add the counts of another process, in place."""
    for name, rows in others.items():
        own = counts.setdefault(name, {})
        for labels, row in rows.items():
            own[labels] = FAMILIES[name].joined(own[labels], row) if labels in own else row


def outliving(counts: Counts) -> Counts:
    """Return the counts that are kept after a process has ended."""
    return {name: rows for name, rows in counts.items() if FAMILIES[name].kind.outlives}


MAX_FILE_BYTES = 4 * 1024 * 1024
"""Longer count files are not read; all routes and statuses together need less."""

_SHARE_SECONDS = 1.0

# A process that has not written its file for this long has ended or hangs.
_FRESH_SECONDS = 5.0

_log = logging.getLogger("posref.counts")


class _Snapshot(BaseModel):
    """The content of a count file: the time of writing (monotonic clock), and all counts."""

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
    """The count file of one process, which the other processes of the server read.

    A process that replaces another one has the same slot, and continues its counts.
    """

    def __init__(self, directory: Path, slot: int) -> None:
        self._directory = directory
        self._file = directory / f"{slot}.counts"
        before = _read(self._file)
        self._inherited = outliving(before.counts) if before else {}
        self._has_failed = False

    def write(self, counts: Counts, *, is_last: bool = False) -> None:
        """Write the sum of these counts and the counts of earlier processes in the slot."""
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


Reading: TypeAlias = float | Mapping[str, float] | Histogram
"""A number, a number for each value of the family's only label, or a histogram."""


class Metrics(Collector):
    """Collects all metrics and formats them for Prometheus.

    Counts are numbers in memory, shared once a second. The multiprocess mode of prometheus_client
    takes a lock and writes to a mapped file for each response, which takes as long as a small
    response itself; it also has no gauges that are read at the time of a scrape.

    Args:
        tallies: the counts of responses.
        watched: functions that return the current values of other metrics, by metric name.
        shared: the count file of this process; None for a server of one process.
    """

    def __init__(
        self,
        tallies: Tallies,
        watched: Mapping[str, Callable[[], Reading]],
        shared: SharedCounts | None = None,
    ) -> None:
        self._tallies = tallies
        self._watched = {"posref_workers": lambda: 1, **watched}
        self._shared = shared
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)
        self._registry = CollectorRegistry()
        self._registry.register(self)
        PlatformCollector(registry=self._registry)

    def watch(self, name: str, read: Callable[[], Reading]) -> None:
        """Register a function that returns the current value of a metric."""
        self._watched[name] = read

    def counts(self) -> Counts:
        """Return the current values of all metrics of this process."""
        tallies = self._tallies.items()
        return {
            "posref_answers": {labels: [tally.number] for labels, tally in tallies},
            "posref_answer_body_bytes": {labels: [tally.body_bytes] for labels, tally in tallies},
            "posref_answer_seconds": self._durations(),
            **{name: _rows(read()) for name, read in self._watched.items()},
            **{
                metric.name: {tuple(each.labels.values()): [each.value] for each in metric.samples}
                for metric in self._process.collect()
            },
        }

    def _durations(self) -> dict[Labels, Row]:
        """Return the duration histograms by (path, source), summed over statuses and formats."""
        counts: Counts = {}
        for (path, _, source, _), tally in self._tallies.items():
            add(counts, {"posref_answer_seconds": {(path, source): tally.row}})
        return counts.get("posref_answer_seconds", {})

    def share(self, *, is_last: bool = False) -> None:
        """Write the count file for the other processes; do nothing if there are none.

        Args:
            is_last: whether this process is ending.
        """
        if self._shared is not None:
            self._shared.write(self.counts(), is_last=is_last)

    def collect(self) -> Iterable[Metric]:
        """Yield every metric, combined over all processes."""
        counts = self.counts()
        if self._shared is not None:
            counts = self._shared.combine(counts)
        for name, family in FAMILIES.items():
            yield family.metric(name, counts.get(name, {}))

    def exposition(self, accept: str | None) -> tuple[bytes, str]:
        """Return all metrics as text, in the format that Accept prefers, and the media type."""
        encode, media_type = choose_encoder(accept or "")
        return encode(self._registry), media_type


def _rows(reading: Reading) -> dict[Labels, Row]:
    if isinstance(reading, Histogram):
        return {(): reading.row}
    if isinstance(reading, Mapping):
        return {(label,): [value] for label, value in reading.items()}
    return {(): [reading]}
