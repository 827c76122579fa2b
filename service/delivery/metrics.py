"""What this process has answered, counted for Prometheus, and with it what its like have."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from service.delivery.cache import BodyCache
from service.delivery.families import FAMILIES, Counts, Labels, Row, add
from service.delivery.histogram import Histogram
from service.delivery.labels import source_of
from service.delivery.shared_counts import SharedCounts

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
