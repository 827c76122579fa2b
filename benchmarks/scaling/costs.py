"""The throughput of one core, with and without the edge, and the cost of each kind of request."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.figures import in_turns
from benchmarks.machine import pinned, server_and_client_cores
from benchmarks.scaling import edge
from benchmarks.scaling.kinds import COLD_SMALL, KINDS, UNCHANGED, WARM_SMALL, WARM_TABLE, Kind
from benchmarks.scaling.site import Site, Turn, median_cpu_seconds, posref

POSREF, EDGE = "posref", "edge"

LATENCY_KINDS = (WARM_SMALL, WARM_TABLE, COLD_SMALL)


@dataclass(frozen=True)
class Cost:
    """The cost of a kind of request, as medians of the rounds.

    Attributes:
        body_bytes: received bytes per request, including heads.
        rate: direct requests per second of a posref on one core.
        client_load: load of wrk's core, 0 to 1.
        posref_seconds: processor time of posref per direct request.
        edge_rate: requests per second through the edge, which shares that core.
        edge_seconds: processor time of the edge.
        behind_seconds: processor time of posref behind the edge.
        rounds: posref_seconds of each round.
    """

    body_bytes: float
    rate: float
    client_load: float
    posref_seconds: float
    edge_rate: float
    edge_seconds: float
    behind_seconds: float
    rounds: Sequence[float]


@contextmanager
def sites(folder: Path) -> Iterator[tuple[Site, Site]]:
    """Run a posref, and another one behind the edge, all on one core."""
    core, _ = server_and_client_cores()
    with ExitStack() as stack:
        alone = stack.enter_context(posref(folder, core=core))
        behind = stack.enter_context(posref(folder, core=core))
        with pinned(core):
            front = stack.enter_context(edge.running([behind.port], folder / "edge"))
        direct = Site(alone.origin, {POSREF: [alone.pid]}, folder)
        watched = {POSREF: [behind.pid], EDGE: [front.pid]}
        yield direct, Site(front.origin, watched, folder)


def measure(
    direct: Site, through: Site, seconds: int, rounds: int
) -> tuple[Mapping[str, Cost], Mapping[str, Sequence[float]]]:
    """Return costs by kind, and latencies of one client by kind, directly and through the edge."""
    _, client_core = server_and_client_cores()
    for site in (direct, through):
        for kind in KINDS:
            site.check(kind)
    with pinned(client_core):
        turns = [
            partial(_turn, site, kind, seconds) for kind in KINDS for site in (direct, through)
        ]
        found = in_turns(turns, rounds)
        costs = {
            kind.name: _cost(*found[2 * index : 2 * index + 2]) for index, kind in enumerate(KINDS)
        }
        return costs, _latencies(direct, through, rounds)


def _turn(site: Site, kind: Kind, seconds: int, _number: int) -> Turn:
    if kind is UNCHANGED:
        site.check(WARM_TABLE)
    return site.turn(kind, seconds)


def _cost(direct: Sequence[Turn], through: Sequence[Turn]) -> Cost:
    return Cost(
        body_bytes=median(turn.load.received_bytes / turn.load.requests for turn in direct),
        rate=median(turn.load.rate for turn in direct),
        client_load=median(turn.load.client_seconds / turn.load.seconds for turn in direct),
        posref_seconds=median_cpu_seconds(direct, POSREF),
        edge_rate=median(turn.load.rate for turn in through),
        edge_seconds=median_cpu_seconds(through, EDGE),
        behind_seconds=median_cpu_seconds(through, POSREF),
        rounds=[turn.cpu_seconds[POSREF] for turn in direct],
    )


def _latencies(direct: Site, through: Site, rounds: int) -> Mapping[str, Sequence[float]]:
    """Return the median latencies of one client at a time, in seconds."""
    pairs = [(kind, site) for kind in LATENCY_KINDS for site in (direct, through)]
    found = in_turns([partial(_wait, site, kind) for kind, site in pairs], rounds)
    medians = [median(waits) for waits in found]
    return {
        kind.name: medians[2 * index : 2 * index + 2] for index, kind in enumerate(LATENCY_KINDS)
    }


def _wait(site: Site, kind: Kind, _number: int) -> float:
    return site.turn(kind, 1, connections=1).load.p50_seconds
