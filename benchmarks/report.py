"""The measurements as Markdown."""

from statistics import median

from benchmarks import kernel, machine, warm
from benchmarks.bench import Bench
from benchmarks.figures import spread
from benchmarks.markdown import NOTHING, print_table
from benchmarks.servers import POSREF, SERVERS, Server
from benchmarks.targets import TARGETS, Target

_AT_LIMIT = "†"


def print_machine() -> None:
    for line in machine.describe():
        print(f"- {line}")


def print_targets(bench: Bench) -> None:
    rows = (_target_row(target, bench) for target in TARGETS)
    print("\nPosref beside its peers; the ratio is that of the figures, ours ÷ theirs\n")
    print_table(["measure", "posref", "peer", "ratio", "at least / aim"], rows)


def _target_row(target: Target, bench: Bench) -> list[str]:
    measured = target.measured(bench)
    measure = f"{target.measure} ({measured.remark})" if measured.remark else target.measure
    ours, wanted = target.written(median(measured.ours)), f"{target.at_least} / {target.aim}"
    if not measured.peer:
        return [measure, ours, NOTHING, NOTHING, wanted]
    peer = f"{target.written(median(measured.peer))} ({target.peer})"
    return [measure, ours, peer, spread(measured.ratios), wanted]


def print_kernel(bench: Bench) -> None:
    far = [f"error from {start:g}" for start in kernel.FAR_STARTS]
    rows = [_kernel_row(result) for result in bench.kernel]
    print(
        f"\n{kernel.ROWS}×{kernel.WIDTH} float32 on one core: medians of {bench.plan.turns} turns, "
        f"and the largest error\nin rows {kernel.CHECKED_ROWS} of a table that starts at a "
        "position\n"
    )
    print_table(["made by", "time", f"÷ {kernel.BASELINE.name}", *far], rows)


def _kernel_row(result: kernel.Result) -> list[str]:
    milliseconds, share = 1e3 * median(result.seconds.ours), median(result.seconds.ratios)
    errors = [f"{error:.1e}" for error in result.errors]
    return [result.name, f"{milliseconds:.1f} ms", f"{share:.2f} (1/{1 / share:.1f})", *errors]


def print_warm(bench: Bench) -> None:
    server_core, client_core = machine.server_and_client_cores()
    plan = bench.plan
    print(
        f"\nwrk -t1 -c{warm.CONNECTIONS} -d{plan.seconds}s on core {client_core}, servers on core "
        f"{server_core}: medians of {plan.rounds} rounds (lowest to highest ratio).\n"
        f"{_AT_LIMIT} wrk's core had no time left: the server might do more\n"
    )
    header = ["warm table", "bytes", *(f"{server.name}, requests/s" for server in SERVERS)]
    header += [f"{POSREF.name} ÷ {server.name}" for server in SERVERS[1:]]
    print_table(header, (_warm_row(str(case), result) for case, result in bench.warm.items()))


def _warm_row(case: str, result: warm.Result) -> list[str]:
    lengths = " / ".join(dict.fromkeys(f"{length:,}" for length in result.body_bytes.values()))
    rates = [_rate(result, server) for server in SERVERS]
    ratios = [
        spread(result.against(server).ratios) if server.name in result.loads else NOTHING
        for server in SERVERS[1:]
    ]
    return [case, lengths, *rates, *ratios]


def _rate(result: warm.Result, server: Server) -> str:
    if server.name not in result.loads:
        return NOTHING
    mark = _AT_LIMIT if result.is_at_limit(server) else ""
    return f"{median(result.rates(server)):,.0f}{mark}"
