"""One and two replicas: the cost of requests, and a test of the simulation."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.figures import in_turns
from benchmarks.machine import server_and_client_cores
from benchmarks.scaling import edge
from benchmarks.scaling.costs import EDGE, POSREF
from benchmarks.scaling.demand import Catalogue
from benchmarks.scaling.kinds import (
    APPLY,
    COLD_LARGE,
    COLD_SMALL,
    COLD_TABLE,
    MIB,
    WARM_LARGE,
    WARM_SMALL,
    WARM_TABLE,
    Kind,
    trace_script,
)
from benchmarks.scaling.simulation import HASH, IN_TURN, Scene, Seen, Service, simulate
from benchmarks.scaling.site import Site, Turn, median_cpu_seconds, posref
from benchmarks.servers import HOST, Running

CACHE_BYTES = 32 * MIB
TRACED = Catalogue(
    2000, 0.9, (102_528,), (1.0,), target="/encoding.npy?seq_len=50&d_model=512&start={}"
)

SIZES = ((WARM_SMALL, COLD_SMALL), (WARM_TABLE, COLD_TABLE), (WARM_LARGE, COLD_LARGE))
"""Cached and new tables of three sizes."""

DIRECT = "1 replica, direct"
WORKERS = "1 posref with 2 workers, direct"
BEHIND_ONE = "edge, 1 replica"
BEHIND_TWO = "edge, 2 replicas, by hash"
COMPARED = (DIRECT, WORKERS, BEHIND_ONE, BEHIND_TWO)

KINDS = (*(kind for pair in SIZES for kind in pair), APPLY)
_TRACE_REQUESTS = 400_000
# posref's overhead for a cached body, and the share of its cache for bodies.
_ENTRY_BYTES = 512 + 34
_BODIES_SHARE = 15 / 16


@dataclass(frozen=True)
class Layout:
    """Servers and the edge in front of them.

    Attributes:
        site: where the load is sent.
        servers: the replicas.
        scene: its parameters in the simulation; None if it is not simulated.
    """

    site: Site
    servers: Sequence[Running]
    scene: Scene | None = None

    @property
    def addresses(self) -> list[str]:
        """The addresses of the servers as the edge has them."""
        return [f"{HOST}:{server.port}" for server in self.servers]

    def counted(self, name: str) -> int:
        """Return the sum of a metric over all servers."""
        texts = [httpx.get(f"{each.origin}/metrics", trust_env=False).text for each in self.servers]
        families = [family for text in texts for family in text_string_to_metric_families(text)]
        samples = [sample for family in families for sample in family.samples]
        return sum(int(sample.value) for sample in samples if sample.name == name)


@dataclass(frozen=True)
class Traced:
    """The result of a trace.

    Attributes:
        requests: number of answers.
        found: hit rate of the replicas' caches.
        built: share of all requests whose body was computed.
        cpu_seconds: processor time of all replicas per request.
        simulated: the simulated result; its cores are seconds per request.
    """

    requests: int
    found: float
    built: float
    cpu_seconds: float
    simulated: Seen


@contextmanager
def layouts(folder: Path) -> Iterator[Mapping[str, Layout]]:
    """Run the compared layouts: the first replica on one core, the second on the other."""
    cores = server_and_client_cores()
    with ExitStack() as stack:
        start = partial(posref, folder, cache_bytes=CACHE_BYTES)
        first, second = (stack.enter_context(start(core=core)) for core in cores)
        pair = stack.enter_context(start(workers=2))

        def behind(servers: Sequence[Running], name: str, *, hashes: bool, keeps: bool) -> Layout:
            ports = [server.port for server in servers]
            front = stack.enter_context(
                edge.running(ports, folder / name, hashes=hashes, keeps=keeps)
            )
            watched = {POSREF: [server.pid for server in servers], EDGE: [front.pid]}
            layout = Layout(Site(front.origin, watched, folder), servers)
            routing = HASH if hashes else IN_TURN
            return replace(layout, scene=_scene(routing, layout.addresses, keeps=keeps))

        def alone(server: Running) -> Layout:
            return Layout(Site(server.origin, {POSREF: [server.pid], EDGE: []}, folder), [server])

        both = [first, second]
        yield {
            DIRECT: alone(first),
            WORKERS: alone(pair),
            BEHIND_ONE: behind([first], "one", hashes=True, keeps=False),
            BEHIND_TWO: behind(both, "hash", hashes=True, keeps=False),
            "edge, 2 replicas, in turn": behind(both, "turns", hashes=False, keeps=False),
            "edge with its cache, 2 replicas, by hash": behind(
                both, "keeping", hashes=True, keeps=True
            ),
        }


def measure(
    run: Mapping[str, Layout], seconds: int, rounds: int
) -> Mapping[tuple[str, str], Sequence[Turn]]:
    """Return the turns of the compared layouts, by layout and kind."""
    pairs = [(name, kind) for kind in KINDS for name in COMPARED]
    turns = [partial(_turn, run[name].site, kind, seconds) for name, kind in pairs]
    found = in_turns(turns, rounds)
    return {(name, kind.name): turns for (name, kind), turns in zip(pairs, found, strict=True)}


def trace(
    run: Mapping[str, Layout],
    measured: Mapping[tuple[str, str], Sequence[Turn]],
    seconds: int,
    folder: Path,
) -> Mapping[str, Traced]:
    """Send the same URLs to each layout, and simulate them."""
    numbers = count(1)
    return {
        name: _traced(layout, _like(layout, measured), seconds, folder, next(numbers))
        for name, layout in run.items()
        if layout.scene
    }


def _turn(site: Site, kind: Kind, seconds: int, _number: int) -> Turn:
    return site.turn(kind, seconds)


def _scene(routing: str, addresses: Sequence[str], *, keeps: bool) -> Scene:
    kept_bytes = int(CACHE_BYTES * _BODIES_SHARE)
    edges, edge_bytes = (1, 2**40) if keeps else (0, 0)
    return Scene(
        len(addresses), routing, kept_bytes, edges, edge_bytes, is_fresh=True, servers=addresses
    )


def _like(layout: Layout, measured: Mapping[tuple[str, str], Sequence[Turn]]) -> Service:
    """Return the cost of tables of the traced size in a layout with as many replicas."""
    every = service(measured, BEHIND_ONE if len(layout.servers) == 1 else BEHIND_TWO)
    return Service(every.found[1:2], every.built[1:2])


def service(measured: Mapping[tuple[str, str], Sequence[Turn]], name: str) -> Service:
    """Return the cost of tables of three sizes in a layout."""
    return Service(
        [median_cpu_seconds(measured[name, kept.name], POSREF) for kept, _ in SIZES],
        [median_cpu_seconds(measured[name, new.name], POSREF) for _, new in SIZES],
    )


def _traced(layout: Layout, service: Service, seconds: int, folder: Path, number: int) -> Traced:
    """Request URLs that are new to all layouts."""
    assert layout.scene
    catalogue = replace(TRACED, target=TRACED.target.replace("{}", f"7{number}00000{{}}000"))
    spelled = catalogue.spelled()
    urls = folder / "urls.txt"
    urls.write_text("\n".join(spelled[url] for url in catalogue.requests(_TRACE_REQUESTS)) + "\n")
    script = folder / "trace.lua"
    script.write_text(trace_script(urls))
    names = ("posref_cache_hits_total", "posref_cache_misses_total", "posref_builds_total")
    before = [layout.counted(each) for each in names]
    turn = layout.site.run(script, layout.site.origin, seconds)
    hits, misses, builds = (
        layout.counted(each) - earlier for each, earlier in zip(names, before, strict=True)
    )
    scene = replace(layout.scene, requests=turn.load.requests)
    entries = replace(catalogue, body_bytes=(catalogue.body_bytes[0] + _ENTRY_BYTES,))
    seen = simulate(scene, entries, service)
    asked = turn.load.requests
    return Traced(asked, hits / (hits + misses), builds / asked, turn.cpu_seconds[POSREF], seen)
