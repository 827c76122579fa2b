"""Measurements and simulation as Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from math import isinf
from statistics import median

from benchmarks.markdown import print_table
from benchmarks.scaling import replicas
from benchmarks.scaling.costs import EDGE, POSREF, Cost
from benchmarks.scaling.many import Row
from benchmarks.scaling.needs import MIX, needs
from benchmarks.scaling.replicas import Traced
from benchmarks.scaling.site import Turn, median_cpu_seconds

Turns = Mapping[tuple[str, str], Sequence[Turn]]

_AT_LIMIT = 0.95
_RATES = (1e6, 1e7)
_FOUND = (0.67, 0.95, 0.99, 0.999)


def print_costs(costs: Mapping[str, Cost], waits: Mapping[str, Sequence[float]]) -> None:
    print("\nOne core: direct requests, and through an edge on the same core\n")
    header = ["request", "bytes", "posref's CPU", "of the rounds", "a core serves", "that is"]
    header += ["measured", "edge's CPU", "posref's CPU behind it", "measured at the edge"]
    print_table(header, (_cost_row(name, cost) for name, cost in costs.items()))
    print("\nOne client at a time, the median it waits\n")
    rows = ([name, *map(_microseconds, both)] for name, both in waits.items())
    print_table(["request", "direct", "through the edge"], rows)


def print_replicas(turns: Turns) -> None:
    print("\nOne and two: processor time of posref and the edge for a request; requests/s\n")
    rows = ([kind.name, *_compared(turns, kind.name)] for kind in replicas.KINDS)
    print_table(["request", *replicas.COMPARED], rows)


def print_traces(traces: Mapping[str, Traced]) -> None:
    print("\nThe same URLs for each layout, measured / simulated\n")
    header = ["layout", "requests", "replica hits", "computed", "posref's CPU a request"]
    print_table(header, (_trace_row(name, traced) for name, traced in traces.items()))


def print_upstreams(found: Mapping[tuple[int, int], float]) -> None:
    print("\nThe edge's CPU for a request that it passes on\n")
    header = ["replicas", "idle connections", "edge's CPU"]
    rows = ([str(number), str(kept), _microseconds(s)] for (number, kept), s in found.items())
    print_table(header, rows)


def print_many(rows: Iterable[Row]) -> None:
    print("\nSimulated\n")
    header = ["replicas", "edges", "routing", "requests/s", "edge hits"]
    header += ["replica hits", "computed per 1,000", "cores of posref", "busiest", "p99"]
    print_table(header, map(_many_row, rows))


def print_needs(costs: Mapping[str, Cost]) -> None:
    print("\nComputed: " + ", ".join(f"{part.share:.0%} {part.label}" for part in MIX) + "\n")
    header = ["requests/s", "edge hits", "edge cores", "posref cores"]
    header += ["to clients, Gbit/s", "replicas to edges, Gbit/s"]
    cases = [(rate, found) for rate in _RATES for found in _FOUND]
    print_table(header, (_needs_row(costs, rate, found) for rate, found in cases))


def _cost_row(name: str, cost: Cost) -> list[str]:
    mark = "†" if cost.client_load > _AT_LIMIT else ""
    spread = f"{_microseconds(min(cost.rounds))} to {_microseconds(max(cost.rounds))}"
    served = 1 / cost.posref_seconds
    return [
        name,
        f"{cost.body_bytes:,.0f}",
        _microseconds(cost.posref_seconds),
        spread,
        f"{served:,.0f}/s",
        f"{served * cost.body_bytes / 1e6:,.0f} MB/s",
        f"{cost.rate:,.0f}/s{mark}",
        _microseconds(cost.edge_seconds),
        _microseconds(cost.behind_seconds),
        f"{cost.edge_rate:,.0f}/s",
    ]


def _compared(turns: Turns, kind: str) -> list[str]:
    cells = []
    for name in replicas.COMPARED:
        found = turns[name, kind]
        rate = median(turn.load.rate for turn in found)
        edge = median_cpu_seconds(found, EDGE)
        also = f" + {_microseconds(edge)}" if edge else ""
        cells.append(f"{_microseconds(median_cpu_seconds(found, POSREF))}{also}; {rate:,.0f}/s")
    return cells


def _trace_row(name: str, traced: Traced) -> list[str]:
    seen = traced.simulated
    return [
        name,
        f"{traced.requests:,}",
        f"{traced.found:.1%} / {seen.replica_found:.1%}",
        f"{traced.built:.1%} / {seen.built:.1%}",
        f"{_microseconds(traced.cpu_seconds)} / {_microseconds(seen.cores)}",
    ]


def _many_row(row: Row) -> list[str]:
    scene, seen = row.scene, row.seen
    return [
        f"{scene.replicas:,}",
        str(scene.edges),
        scene.routing,
        f"{scene.rate:,.0f}",
        f"{seen.edge_found:.1%}",
        f"{seen.replica_found:.1%}",
        f"{1000 * seen.built:.1f}",
        f"{seen.cores:,.1f}",
        f"{seen.busiest:.2f}",
        "–" if isinf(seen.p99_seconds) else f"{1e3 * seen.p99_seconds:.1f} ms",
    ]


def _needs_row(costs: Mapping[str, Cost], rate: float, found: float) -> list[str]:
    taken = needs(costs, rate, found)
    return [
        f"{rate:,.0f}",
        f"{found:.1%}",
        f"{taken.edge_cores:,.0f}",
        f"{taken.posref_cores:,.0f}",
        f"{taken.sent_bits / 1e9:,.0f}",
        f"{taken.passed_bits / 1e9:,.0f}",
    ]


def _microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f} µs"
