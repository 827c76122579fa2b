"""The command line: measures, simulates, and prints the results as Markdown."""

import argparse
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NoReturn

from benchmarks import machine, tools
from benchmarks.processes import BenchmarkFailed
from benchmarks.scaling import costs, many, replicas, report, upstreams


@dataclass(frozen=True)
class Plan:
    """The extent of a run.

    Attributes:
        rounds: number of rounds of all measurements.
        seconds: duration of the load in each turn.
        trace_seconds: duration of the trace of URLs for each layout.
        numbers: simulated numbers of replicas.
    """

    rounds: int
    seconds: int
    trace_seconds: int
    numbers: tuple[int, ...]


FULL = Plan(rounds=5, seconds=2, trace_seconds=15, numbers=many.NUMBERS)
QUICK = Plan(rounds=1, seconds=2, trace_seconds=4, numbers=(1, 4, 16))


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.scaling", description="What many take.")
    parser.add_argument("--quick", action="store_true", help="a rough idea only")
    plan = QUICK if parser.parse_args().quick else FULL
    signal.signal(signal.SIGTERM, _exit)
    try:
        tools.install_missing()
        with TemporaryDirectory(prefix="posref-scaling-") as folder:
            _report(plan, Path(folder))
    except BenchmarkFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _report(plan: Plan, folder: Path) -> None:
    for line in machine.describe():
        print(f"- {line}")
    with costs.sites(folder) as sites:
        measured, waits = costs.measure(*sites, plan.seconds, plan.rounds)
    report.print_costs(measured, waits)
    report.print_upstreams(upstreams.measure(folder, plan.seconds, plan.rounds))
    with replicas.layouts(folder) as layouts:
        turns = replicas.measure(layouts, plan.seconds, plan.rounds)
        report.print_replicas(turns)
        report.print_traces(replicas.trace(layouts, turns, plan.trace_seconds, folder))
    service = replicas.service(turns, replicas.BEHIND_ONE)
    report.print_many(many.rows(service, plan.numbers))
    report.print_needs(measured)


def _exit(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Close every context once, so that all processes are stopped."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
