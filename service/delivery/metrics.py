"""What this process has answered, counted for Prometheus."""

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.delivery.cache import BodyCache
from service.delivery.workers import Workers

WARM_PATH = "posref.warm_path"
"""Where a scope holds the path that a finished answer was kept for."""

_NO_ROUTE = "other"
_LABELS = ("path", "status", "source")


@dataclass
class Tally:
    """Count answers of one kind, on one event loop."""

    answers: int = 0
    body_bytes: int = 0

    def count(self, body_bytes: int) -> None:
        """Count an answer."""
        self.answers += 1
        self.body_bytes += body_bytes


class Metrics(Collector):
    """Count every answer, and show the state of cache and threads when asked."""

    def __init__(self, cache: BodyCache, workers: Workers) -> None:
        self._cache = cache
        self._workers = workers
        self._tallies: dict[tuple[str, str, str], Tally] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def tally(self, path: str, status: int, *, is_warm: bool) -> Tally:
        """Find what counts answers of one kind.

        Args:
            path: the path of a route, with ``{extension}`` for any.
            status: the status code.
            is_warm: whether they are answers that were kept.
        """
        labels = (path, str(int(status)), "kept" if is_warm else "made")
        return self._tallies.setdefault(labels, Tally())

    def collect(self) -> Iterable[Metric]:
        """Give every count."""
        answers = CounterMetricFamily("posref_answers", "Answers sent.", labels=_LABELS)
        body_bytes = CounterMetricFamily(
            "posref_answer_body_bytes", "Bytes of bodies sent.", labels=_LABELS
        )
        for labels, tally in self._tallies.items():
            answers.add_metric(labels, tally.answers)
            body_bytes.add_metric(labels, tally.body_bytes)
        return (
            answers,
            body_bytes,
            CounterMetricFamily("posref_builds", "Bodies built.", value=self._cache.builds),
            CounterMetricFamily("posref_cache_hits", "Bodies found.", value=self._cache.hits),
            GaugeMetricFamily("posref_cache_bytes", "Bytes kept.", value=self._cache.size_bytes),
            GaugeMetricFamily(
                "posref_waiting_work", "Work that waits for a thread.", value=self._workers.waiting
            ),
        )

    def exposition(self, accept: str | None) -> tuple[bytes, str]:
        """Spell every count the way that Accept prefers; gives text and its media type."""
        encode, media_type = choose_encoder(accept or "")
        return encode(self._registry), media_type


@dataclass(frozen=True)
class Counted:
    """Count every answer of an application."""

    app: ASGIApp
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count its answer when that has ended."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, body_bytes = 0, 0

        async def send_counted(message: Message) -> None:
            nonlocal status, body_bytes
            status = message.get("status", status)
            body_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, send_counted)
        finally:
            warm_path = scope.get(WARM_PATH)
            path = warm_path or path_of(scope)
            self.metrics.tally(path, status, is_warm=warm_path is not None).count(body_bytes)


def path_of(scope: Scope) -> str:
    """Give the path of the route that a request has met."""
    return getattr(scope.get("route"), "path", _NO_ROUTE)
