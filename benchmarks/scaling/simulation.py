"""Simulation of requests to edges and replicas with caches: hits, builds and waits."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.scaling.demand import Catalogue, Shares, asked_before
from benchmarks.scaling.ring import Numbers, replicas_of

HASH, IN_TURN = "hash", "in turn"

_LEAST_SHARE = 1e-100


@dataclass(frozen=True)
class Service:
    """Seconds of a core for a body of each size.

    Attributes:
        found: if the body is cached.
        built: if it must be computed.
    """

    found: Sequence[float]
    built: Sequence[float]


@dataclass(frozen=True)
class Scene:
    """The parameters of a simulation.

    Attributes:
        replicas: servers of one core each.
        routing: HASH of the URL, or IN_TURN.
        replica_bytes: cache size of each replica.
        edges: number of edges; each request reaches a random one.
        edge_bytes: cache size of each edge.
        rate: requests per second, of all clients.
        requests: number of simulated requests.
        is_fresh: whether caches start empty, not in their long-term state.
        servers: addresses for the hash; invented if empty.
    """

    replicas: int
    routing: str
    replica_bytes: int
    edges: int = 0
    edge_bytes: int = 0
    rate: float = 1.0
    requests: int = 400_000
    is_fresh: bool = False
    servers: Sequence[str] = ()

    @property
    def addresses(self) -> Sequence[str]:
        """The address of each replica."""
        made_up = [f"10.0.{each // 250}.{each % 250 + 1}:8000" for each in range(self.replicas)]
        return self.servers or made_up


@dataclass(frozen=True)
class Seen:
    """The result of a simulation.

    Attributes:
        edge_found: the share of requests that an edge answered.
        replica_found: hit rate of the requests that reached a replica.
        built: share of all requests whose body was computed.
        cores: number of busy cores of all replicas.
        busiest: load of the busiest replica; above 1 it is overloaded.
        mean_busy: mean load of the replicas.
        p99_seconds: p99 of the latency at a replica; infinite if one is overloaded.
    """

    edge_found: float
    replica_found: float
    built: float
    cores: float
    busiest: float
    mean_busy: float
    p99_seconds: float


class LruCache:
    """An LRU cache of URLs, bounded by the sum of body sizes."""

    def __init__(self, capacity_bytes: int, body_bytes: Numbers) -> None:
        self._urls: OrderedDict[int, int] = OrderedDict()
        self._body_bytes = body_bytes
        self._left_bytes = capacity_bytes

    def fill(self, urls: Numbers) -> None:
        """Insert recently requested URLs, given oldest first, as far as they fit."""
        newest = np.cumsum(self._body_bytes[urls[::-1]])
        number = int(np.searchsorted(newest, self._left_bytes, side="right"))
        for url in urls[len(urls) - number :].tolist():
            self.is_hit(url)

    def is_hit(self, url: int) -> bool:
        """Return True if a URL is cached; otherwise cache it and return False."""
        if url in self._urls:
            self._urls.move_to_end(url)
            return True
        self._urls[url] = int(self._body_bytes[url])
        self._left_bytes -= self._urls[url]
        while self._left_bytes < 0:
            self._left_bytes += self._urls.popitem(last=False)[1]
        return False


def simulate(scene: Scene, catalogue: Catalogue, service: Service) -> Seen:
    """Run the simulation, which is deterministic."""
    urls = catalogue.requests(scene.requests)
    reaching = _past_edges(scene, catalogue, urls)
    owner = replicas_of(catalogue.spelled(), scene.addresses)
    found, replica = _at_replicas(scene, catalogue, urls[reaching], owner)
    size = catalogue.sizes[urls[reaching]]
    seconds = np.where(found, np.array(service.found)[size], np.array(service.built)[size])
    duration = scene.requests / scene.rate
    busy = np.bincount(replica, seconds, scene.replicas) / duration
    return Seen(
        edge_found=1 - len(reaching) / scene.requests,
        replica_found=float(found.mean()),
        built=float((~found).sum()) / scene.requests,
        cores=float(busy.sum()),
        busiest=float(busy.max()),
        mean_busy=float(busy.mean()),
        p99_seconds=_p99_seconds(scene, reaching, replica, seconds, busy),
    )


def waits(arrivals: Shares, seconds: Shares) -> Shares:
    """Return the waiting and service time of each request in a FIFO queue."""
    # Lindley's recursion, solved: the wait is the work left, above its minimum so far.
    left = np.concatenate([[0.0], np.cumsum(seconds)[:-1]]) - arrivals
    found: Shares = left - np.minimum.accumulate(left) + seconds
    return found


def _past_edges(scene: Scene, catalogue: Catalogue, urls: Numbers) -> Numbers:
    """Return the indices of the requests that miss at the edges."""
    if not scene.edges:
        return np.arange(len(urls))
    every = np.arange(catalogue.urls)
    caches = [LruCache(scene.edge_bytes, catalogue.url_bytes) for _ in range(scene.edges)]
    for number, each in enumerate(caches if not scene.is_fresh else ()):
        each.fill(asked_before(catalogue, every, number, catalogue.shares))
    at = np.random.default_rng((catalogue.seed, 4)).integers(scene.edges, size=len(urls))
    answered = [
        caches[edge].is_hit(url) for edge, url in zip(at.tolist(), urls.tolist(), strict=True)
    ]
    return np.flatnonzero(~np.array(answered))


def _at_replicas(
    scene: Scene, catalogue: Catalogue, urls: Numbers, owner: Numbers
) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], Numbers]:
    """Return whether each request is a hit, and its replica."""
    replica = owner[urls] if scene.routing == HASH else np.arange(len(urls)) % scene.replicas
    caches = [LruCache(scene.replica_bytes, catalogue.url_bytes) for _ in range(scene.replicas)]
    if not scene.is_fresh:
        _fill(scene, catalogue, caches, owner)
    asked = zip(replica.tolist(), urls.tolist(), strict=True)
    return np.array([caches[number].is_hit(url) for number, url in asked]), replica


def _fill(scene: Scene, catalogue: Catalogue, caches: Sequence[LruCache], owner: Numbers) -> None:
    """Fill every replica's cache with its steady state behind the edges."""
    shares = _unanswered(scene, catalogue)
    order = np.argsort(owner, kind="stable")
    owned = np.split(order, np.searchsorted(owner[order], np.arange(1, scene.replicas)))
    for number, each in enumerate(caches):
        urls = owned[number] if scene.routing == HASH else np.arange(catalogue.urls)
        each.fill(asked_before(catalogue, urls, scene.edges + number, shares))


def _unanswered(scene: Scene, catalogue: Catalogue) -> Shares:
    """Return the miss rate of each URL at the edges, by Che's approximation."""
    if not scene.edges:
        return catalogue.shares
    sizes = catalogue.url_bytes
    age = _solved(
        lambda age: float((sizes * -np.expm1(-catalogue.shares * age)).sum()), scene.edge_bytes
    )
    found: Shares = catalogue.shares * np.exp(-catalogue.shares * age)
    return np.maximum(found, _LEAST_SHARE)


def _solved(rising: Callable[[float], float], wanted: float) -> float:
    """Solve f(x) = value for an increasing function with f(0) = 0; a large x if there is none."""
    low, high = 0.0, 1.0
    while rising(high) < wanted and high < 1e15:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return high


def _p99_seconds(
    scene: Scene, reaching: Numbers, replica: Numbers, seconds: Shares, busy: Shares
) -> float:
    if busy.max() >= 1:
        return float("inf")
    gaps = np.random.default_rng((scene.replicas, 5)).standard_exponential(scene.requests)
    arrivals = np.cumsum(gaps)[reaching] / scene.rate
    order = np.argsort(replica, kind="stable")
    bounds = np.searchsorted(replica[order], np.arange(1, scene.replicas))
    each = [waits(arrivals[own], seconds[own]) for own in np.split(order, bounds) if len(own)]
    return float(np.quantile(np.concatenate(each), 0.99))
