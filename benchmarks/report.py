"""The measurements of the server and the kernel, as tables."""

from statistics import median

from benchmarks import kernel, machine, warm
from benchmarks.bench import Bench
from benchmarks.figures import Measured
from benchmarks.growth import measure as growth
from benchmarks.markdown import NOTHING
from benchmarks.results import Cell, Number, Ratio, Results
from benchmarks.servers import POSREF, SERVERS, Server
from benchmarks.targets import TARGETS, Target

_AT_LIMIT = "†"


def add_machine(results: Results) -> None:
    results.machine[:] = machine.describe()
    for line in results.machine:
        print(f"- {line}")


def add_targets(results: Results, bench: Bench) -> None:
    rows = (_target_row(target, bench) for target in TARGETS)
    print("\nPosref beside its peers; the ratio is that of the figures, ours ÷ theirs\n")
    results.add("targets", ["measure", "posref", "peer", "ratio", "at least / aim"], rows)


def _target_row(target: Target, bench: Bench) -> list[Cell]:
    measured = target.measured(bench)
    measure = f"{target.measure} ({measured.remark})" if measured.remark else target.measure
    return [measure, *beside(measured, target.unit, target.peer, target.at_least, target.aim)]


def beside(
    measured: Measured, unit: str, peer: str, at_least: str = "", aim: str = ""
) -> list[Cell]:
    """Return the cells of ours, of a peer, of the ratio, and of its limits."""
    wanted = f"{at_least} / {aim}" if at_least else NOTHING
    ours = Number(median(measured.ours), unit)
    if not measured.peer:
        return [ours, NOTHING, NOTHING, wanted]
    theirs = Number(median(measured.peer), unit, f" ({peer})")
    return [ours, theirs, Ratio(measured.ratios, at_least), wanted]


def add_kernel(results: Results, bench: Bench) -> None:
    far = [f"error from {start:g}" for start in kernel.FAR_STARTS]
    print(
        f"\n{kernel.ROWS}×{kernel.WIDTH} float32 on one core: medians of {bench.plan.turns} turns, "
        f"and the largest error\nin rows {kernel.CHECKED_ROWS} of a table that starts at a "
        "position\n"
    )
    header = ["made by", "time", f"÷ {kernel.BASELINE.name}", *far]
    results.add("kernel", header, map(_kernel_row, bench.kernel))


def _kernel_row(result: kernel.Result) -> list[Cell]:
    time = Number(median(result.seconds.ours), "seconds")
    errors = [Number(error, "error") for error in result.errors]
    return [result.name, time, Ratio(result.seconds.ratios), *errors]


def add_growth(results: Results, bench: Bench) -> None:
    print("\nProcessor time of an element of float32, from the request of a new table on\n")
    points = growth.measure(bench.folder, bench.plan.family_rounds)
    header = ["what grows", "made by", "to", "an element"]
    results.add("growth", header, (point.cells() for point in points))


def add_warm(results: Results, bench: Bench) -> None:
    server_core, client_core = machine.server_and_client_cores()
    plan = bench.plan
    print(
        f"\nwrk -t1 -c{warm.CONNECTIONS} -d{plan.seconds}s on core {client_core}, servers on core "
        f"{server_core}: medians of {plan.rounds} rounds (lowest to highest ratio).\n"
        f"{_AT_LIMIT} wrk's core had no time left: the server might do more\n"
    )
    header = ["warm table", "bytes", *(f"{server.name}, requests/s" for server in SERVERS)]
    header += [f"{POSREF.name} ÷ {server.name}" for server in SERVERS[1:]]
    rows = (_warm_row(str(case), result) for case, result in bench.warm.items())
    results.add("warm", header, rows)


def _warm_row(case: str, result: warm.Result) -> list[Cell]:
    lengths = " / ".join(dict.fromkeys(f"{length:,}" for length in result.body_bytes.values()))
    rates = [_rate(result, server) for server in SERVERS]
    ratios = [
        Ratio(result.against(server).ratios) if server.name in result.loads else NOTHING
        for server in SERVERS[1:]
    ]
    return [case, lengths, *rates, *ratios]


def _rate(result: warm.Result, server: Server) -> Cell:
    if server.name not in result.loads:
        return NOTHING
    mark = _AT_LIMIT if result.is_at_limit(server) else ""
    return Number(median(result.rates(server)), "count", mark)
