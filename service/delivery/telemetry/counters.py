"""Metric definitions: name, meaning and labels of every number of /metrics, and their sums."""

import operator
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from types import MappingProxyType
from typing import TypeAlias

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

BUCKET_SECONDS = (
    *(0.0001, 0.00025, 0.0005),
    *(0.001, 0.0025, 0.005),
    *(0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0),
    *(10.0, 30.0, 60.0),
)
"""The upper bound of each bucket but the last, which has none."""

ROW_LENGTH = len(BUCKET_SECONDS) + 2


class Histogram:
    """Count durations by bucket, on one event loop.

    Most durations fall into the first bucket, which is not counted: it is the total minus the rest.

    Attributes:
        number: the number of durations.
        sum_seconds: their sum.
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
        """The number in each bucket, and at the end the sum of all in seconds."""
        shortest = self.number - sum(self._longer)
        return [shortest, *self._longer[1:], self.sum_seconds]


Labels: TypeAlias = tuple[str, ...]
Row: TypeAlias = list[float]
Counts: TypeAlias = dict[str, dict[Labels, Row]]
"""Rows by family and label values: one number, or those of a histogram."""


class Kind(Enum):
    """The rule that combines the values of several processes, or of one and its successor."""

    COUNTER = "counter"
    GAUGE = "gauge"
    EARLIEST = "earliest"
    HISTOGRAM = "histogram"

    @property
    def outlives(self) -> bool:
        """True if the value still counts after its process has ended."""
        return self in {Kind.COUNTER, Kind.HISTOGRAM}


@dataclass(frozen=True)
class MetricDefinition:
    """The definition of a metric family.

    Attributes:
        kind: how its numbers are combined.
        meaning: its help text.
        labels: the names of its labels.
    """

    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def row_length(self) -> int:
        """The number of values for each set of labels."""
        return ROW_LENGTH if self.kind is Kind.HISTOGRAM else 1

    def joined(self, one: Row, other: Row) -> Row:
        """Combine the rows of two processes."""
        join = min if self.kind is Kind.EARLIEST else operator.add
        return [join(*pair) for pair in zip(one, other, strict=True)]

    def metric(self, name: str, rows: Mapping[Labels, Row]) -> Metric:
        """Convert to the metric of prometheus_client."""
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

FAMILIES: Mapping[str, MetricDefinition] = MappingProxyType(
    {
        "posref_answers": MetricDefinition(Kind.COUNTER, "Responses sent.", _ANSWER),
        "posref_answer_body_bytes": MetricDefinition(
            Kind.COUNTER, "Bytes of response bodies sent.", _ANSWER
        ),
        "posref_answer_seconds": MetricDefinition(
            Kind.HISTOGRAM,
            "Time from a request to the last byte of its response, written to the socket.",
            ("path", "source"),
        ),
        "posref_builds": MetricDefinition(Kind.COUNTER, "Bodies built for the cache."),
        "posref_build_seconds": MetricDefinition(
            Kind.HISTOGRAM, "Time from the request for a body to its last byte, waits included."
        ),
        "posref_cache_hits": MetricDefinition(Kind.COUNTER, "Bodies found in the cache."),
        "posref_cache_misses": MetricDefinition(Kind.COUNTER, "Bodies not found in the cache."),
        "posref_cache_evictions": MetricDefinition(Kind.COUNTER, "Bodies evicted from the cache."),
        "posref_cache_bytes": MetricDefinition(Kind.GAUGE, "Bytes in the cache."),
        "posref_cache_capacity_bytes": MetricDefinition(Kind.GAUGE, "Bytes the cache can hold."),
        "posref_waiting_work": MetricDefinition(
            Kind.GAUGE, "Requests that wait for a thread.", ("lane",)
        ),
        "posref_refused": MetricDefinition(
            Kind.COUNTER, "Requests refused because of too much load.", ("reason",)
        ),
        "posref_connections": MetricDefinition(Kind.GAUGE, "Open connections."),
        "posref_held_body_bytes": MetricDefinition(
            Kind.GAUGE, "Bytes of request bodies in memory."
        ),
        "posref_log_lines_dropped": MetricDefinition(
            Kind.COUNTER, "Log lines that the reader of the log did not take in time."
        ),
        "posref_workers": MetricDefinition(Kind.GAUGE, "Processes that serve."),
        "process_virtual_memory_bytes": MetricDefinition(Kind.GAUGE, "Virtual memory."),
        "process_resident_memory_bytes": MetricDefinition(Kind.GAUGE, "Resident memory."),
        "process_start_time_seconds": MetricDefinition(
            Kind.EARLIEST, "Start of the oldest running process, in Unix time."
        ),
        "process_cpu_seconds": MetricDefinition(Kind.COUNTER, "User and system time spent."),
        "process_open_fds": MetricDefinition(Kind.GAUGE, "Open file descriptors."),
        "process_max_fds": MetricDefinition(Kind.GAUGE, "File descriptors that may be open."),
        "python_gc_objects_collected": MetricDefinition(
            Kind.COUNTER, "Objects that the garbage collector freed.", ("generation",)
        ),
        "python_gc_objects_uncollectable": MetricDefinition(
            Kind.COUNTER, "Objects that the garbage collector could not free.", ("generation",)
        ),
        "python_gc_collections": MetricDefinition(
            Kind.COUNTER, "Runs of the garbage collector.", ("generation",)
        ),
    }
)
"""Every family by name; that of a counter without ``_total``."""


def add(counts: Counts, others: Counts) -> None:
    """Add the counts of another process, in place."""
    for name, rows in others.items():
        own = counts.setdefault(name, {})
        for labels, row in rows.items():
            own[labels] = FAMILIES[name].joined(own[labels], row) if labels in own else row


def outliving(counts: Counts) -> Counts:
    """Return the counts that remain when a process has ended."""
    return {name: rows for name, rows in counts.items() if FAMILIES[name].kind.outlives}
