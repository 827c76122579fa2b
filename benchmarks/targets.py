"""The performance targets: one entry for each row of the report."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import diagnoses, kernel, latency, memory, positions, startup, transform
from benchmarks.bench import Bench
from benchmarks.cases import Case
from benchmarks.figures import Measured
from benchmarks.servers import NGINX, NGINX_COPYING, PEER, Server


@dataclass(frozen=True)
class Target:
    """A row of the report.

    Attributes:
        measure: name of the measurement.
        peer: name of the compared server or formula.
        at_least, aim: limits of the ratio to the peer, or of the figure if there is no peer.
        unit: that of the figures, a key of ``results.UNITS``.
        measured: runs the measurement.
    """

    measure: str
    peer: str
    at_least: str
    aim: str
    unit: str
    measured: Callable[[Bench], Measured]


def _warm(case: Case, peer: Server, at_least: str, aim: str) -> Target:
    return Target(
        f"warm {case}",
        peer.name,
        at_least,
        aim,
        "requests/s",
        lambda bench: bench.warm[case].against(peer),
    )


def _diagnosis(name: str, at_least: str, aim: str) -> Target:
    diagnosis = diagnoses.DIAGNOSES[name]
    return Target(
        f"time of `/diagnose` of {diagnosis}",
        "posref, a new table of that shape",
        at_least,
        aim,
        "seconds",
        lambda bench: diagnoses.measure(bench.folder, name, bench.plan.turns),
    )


def _startup(what: str, url: str, at_least: str, aim: str) -> Target:
    return Target(
        f"processor time of `posref get` of {what}",
        startup.PEER,
        at_least,
        aim,
        "seconds",
        lambda bench: startup.measure(bench.folder, url, bench.plan.unpinned_rounds),
    )


TARGETS = (
    _warm(Case(4, 4), NGINX, "0.6", "1.1"),
    _warm(Case(4, 4), NGINX_COPYING, "0.6", "1.1"),
    _warm(Case(50, 512), NGINX, "1.0", "1.2"),
    _warm(Case(50, 512), NGINX_COPYING, "1.0", "1.2"),
    _warm(Case(512, 512), NGINX, "1.5", "2.0"),
    _warm(Case(512, 512), NGINX_COPYING, "1.5", "2.0"),
    Target(
        "first-ever table of 512 MiB streamed to curl",
        NGINX.name,
        "0.6",
        "0.75",
        "bytes/s",
        lambda bench: bench.cold.rates,
    ),
    Target(
        "its processor time, of all threads of the server",
        kernel.BASELINE.name,
        "≤ 0.22",
        "≤ 0.19",
        "seconds/MiB",
        lambda bench: bench.cold.costs,
    ),
    _startup("a small table", startup.SMALL, "≤ 4.5", "≤ 3"),
    _startup("a picture", startup.PICTURE, "≤ 5", "≤ 4"),
    Target(
        "growth of memory, at its peak (VmHWM), while a huge table streams",
        "",
        "≤ 16 MiB",
        "–",
        "bytes",
        lambda bench: memory.measure(bench.folder, bench.plan.streamed_gibibytes),
    ),
    Target(
        f"time of {kernel.ROWS}×{kernel.WIDTH} float32",
        kernel.BASELINE.name,
        "≤ 1/6.5",
        "≤ 1/10",
        "seconds",
        lambda bench: bench.kernel[0].seconds,
    ),
    _warm(Case(50, 512, "json"), PEER, "8", "15"),
    Target(
        "time of `/rope/apply` to 16 MiB float32",
        "FastAPI, the same body back",
        "≤ 1.3",
        "≤ 1.15",
        "seconds",
        lambda bench: transform.measure(bench.folder, bench.plan.turns),
    ),
    Target(
        f"time of a rotary table of {positions.BATCH}×{positions.LENGTH:,} positions, "
        f"{positions.DISTINCT:,} of them distinct",
        "posref, all distinct",
        "≤ 1/4",
        "≤ 1/10",
        "seconds",
        lambda bench: positions.measure_table(bench.plan.turns),
    ),
    Target(
        f"time of `/positions` of {positions.BATCH}×{positions.LENGTH:,} tokens with media",
        "",
        "≤ 20 ms",
        "≤ 10 ms",
        "seconds",
        lambda bench: positions.measure_ids(bench.folder, bench.plan.turns),
    ),
    _diagnosis("equal", "≤ 4", "≤ 2"),
    _diagnosis("base", "≤ 4", "≤ 3"),
    _diagnosis("noise", "≤ 10", "≤ 6"),
    _diagnosis("no rule", "≤ 20", "≤ 12"),
    _diagnosis("long", "≤ 8", "≤ 4"),
    _diagnosis("eight", "≤ 10", "≤ 5"),
    Target(
        f"p99 of {latency.CONNECTIONS} clients at warm {latency.SMALL} "
        f"while {latency.STREAMS} others stream huge tables",
        "posref, no streams",
        "≤ 3",
        "≤ 2",
        "microseconds",
        lambda bench: latency.measure(bench.folder, bench.plan.seconds, bench.plan.unpinned_rounds),
    ),
)
