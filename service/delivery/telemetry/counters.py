"""How long things took, in buckets.

What is counted: the name, the meaning and the labels of every number that /metrics shows.
"""

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
"""The longest time of each bucket but the last, which has no end."""

ROW_LENGTH = len(BUCKET_SECONDS) + 2

_SHORTEST_SECONDS = BUCKET_SECONDS[0]


class Histogram:
    """Count durations by bucket, on one event loop.

    What is shorter than all bounds is what is left of the number of all: most things are.

    Attributes:
        number: how many there were.
        sum_seconds: how long they were together.
    """

    __slots__ = ("_longer", "number", "sum_seconds")

    def __init__(self) -> None:
        self.number = 0
        self.sum_seconds = 0.0
        self._longer = [0] * (len(BUCKET_SECONDS) + 1)

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self.number += 1
        self.sum_seconds += seconds
        if seconds > _SHORTEST_SECONDS:
            self._longer[bisect_left(BUCKET_SECONDS, seconds)] += 1

    @property
    def row(self) -> list[float]:
        """How many there were in each bucket, and at its end the sum of all in seconds."""
        shortest = self.number - sum(self._longer)
        return [shortest, *self._longer[1:], self.sum_seconds]


Labels: TypeAlias = tuple[str, ...]
Row: TypeAlias = list[float]
Counts: TypeAlias = dict[str, dict[Labels, Row]]
"""Rows by family and values of its labels: one number, or those of a histogram."""


class Kind(Enum):
    """How numbers of several processes, and of one that took another's place, go together."""

    COUNTER = "counter"
    GAUGE = "gauge"
    EARLIEST = "earliest"
    HISTOGRAM = "histogram"

    @property
    def outlives(self) -> bool:
        """Whether a number counts when its process has ended."""
        return self in {Kind.COUNTER, Kind.HISTOGRAM}


@dataclass(frozen=True)
class MetricDefinition:
    """Numbers of one meaning.

    Attributes:
        kind: how they go together.
        meaning: what they are, in a line.
        labels: what tells them apart.
    """

    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def row_length(self) -> int:
        """How many numbers there are for each set of labels."""
        return ROW_LENGTH if self.kind is Kind.HISTOGRAM else 1

    def joined(self, one: Row, other: Row) -> Row:
        """Put the rows of two processes together."""
        join = min if self.kind is Kind.EARLIEST else _added
        return [join(*pair) for pair in zip(one, other, strict=True)]

    def metric(self, name: str, rows: Mapping[Labels, Row]) -> Metric:
        """Give what prometheus_client spells."""
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


def _added(one: float, other: float) -> float:
    return one + other


_ANSWER = ("path", "status", "source", "format")

FAMILIES: Mapping[str, MetricDefinition] = MappingProxyType(
    {
        "posref_answers": MetricDefinition(Kind.COUNTER, "Answers sent.", _ANSWER),
        "posref_answer_body_bytes": MetricDefinition(
            Kind.COUNTER, "Bytes of bodies sent.", _ANSWER
        ),
        "posref_answer_seconds": MetricDefinition(
            Kind.HISTOGRAM,
            "From a request to the last byte of its answer given to the system.",
            ("path", "source"),
        ),
        "posref_builds": MetricDefinition(Kind.COUNTER, "Bodies that were begun to be kept."),
        "posref_build_seconds": MetricDefinition(
            Kind.HISTOGRAM, "From the wish for a body to the whole of it, waits included."
        ),
        "posref_cache_hits": MetricDefinition(Kind.COUNTER, "Bodies asked for that were kept."),
        "posref_cache_misses": MetricDefinition(
            Kind.COUNTER, "Bodies asked for that were yet to be built."
        ),
        "posref_cache_evictions": MetricDefinition(Kind.COUNTER, "Bodies forgotten to make room."),
        "posref_cache_bytes": MetricDefinition(Kind.GAUGE, "Bytes kept."),
        "posref_cache_capacity_bytes": MetricDefinition(Kind.GAUGE, "Bytes that may be kept."),
        "posref_waiting_work": MetricDefinition(
            Kind.GAUGE, "Requests that wait for a thread.", ("lane",)
        ),
        "posref_refused": MetricDefinition(
            Kind.COUNTER, "Requests refused because there was too much at once.", ("reason",)
        ),
        "posref_connections": MetricDefinition(Kind.GAUGE, "Open connections."),
        "posref_held_body_bytes": MetricDefinition(
            Kind.GAUGE, "Bytes held for bodies of requests."
        ),
        "posref_log_lines_dropped": MetricDefinition(
            Kind.COUNTER, "Lines of the log that nobody took in time."
        ),
        "posref_workers": MetricDefinition(Kind.GAUGE, "Processes that answer."),
        "process_virtual_memory_bytes": MetricDefinition(Kind.GAUGE, "Virtual memory."),
        "process_resident_memory_bytes": MetricDefinition(Kind.GAUGE, "Resident memory."),
        "process_start_time_seconds": MetricDefinition(
            Kind.EARLIEST, "When the first process that runs was started, in Unix time."
        ),
        "process_cpu_seconds": MetricDefinition(Kind.COUNTER, "User and system time spent."),
        "process_open_fds": MetricDefinition(Kind.GAUGE, "Open file descriptors."),
        "process_max_fds": MetricDefinition(Kind.GAUGE, "File descriptors that may be open."),
        "python_gc_objects_collected": MetricDefinition(
            Kind.COUNTER, "Objects that the garbage collector freed.", ("generation",)
        ),
        "python_gc_objects_uncollectable": MetricDefinition(
            Kind.COUNTER, "Objects that it could not free.", ("generation",)
        ),
        "python_gc_collections": MetricDefinition(
            Kind.COUNTER, "How often it ran.", ("generation",)
        ),
    }
)
"""Every family by name; of a counter without ``_total``."""


def add(counts: Counts, others: Counts) -> None:
    """Add the counts of another process."""
    for name, rows in others.items():
        kept = counts.setdefault(name, {})
        for labels, row in rows.items():
            have = kept.get(labels)
            kept[labels] = row if have is None else FAMILIES[name].joined(have, row)


def outliving(counts: Counts) -> Counts:
    """Give the counts that stay when a process has ended."""
    return {name: rows for name, rows in counts.items() if FAMILIES[name].kind.outlives}
