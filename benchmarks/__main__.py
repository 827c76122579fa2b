"""The command line: runs the measurements and prints them as Markdown."""

import argparse
import re
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NoReturn

from benchmarks import machine, report, tools
from benchmarks.bench import FULL, QUICK, Bench
from benchmarks.families import report as of_families
from benchmarks.processes import BenchmarkFailed
from benchmarks.results import Results

_EVERY = re.compile("")


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure posref and peers.")
    parser.add_argument("--quick", action="store_true", help="in two minutes: a rough idea only")
    parser.add_argument("--save", type=Path, metavar="FILE", help="for benchmarks.page")
    options = parser.parse_args()
    plan, results = QUICK if options.quick else FULL, Results()
    signal.signal(signal.SIGTERM, _exit)
    try:
        tools.install_missing()
        with TemporaryDirectory(prefix="posref-bench-") as folder:
            bench = Bench(plan, Path(folder))
            report.add_machine(results)
            report.add_kernel(results, bench)
            with machine.pinned(machine.server_and_client_cores()[0]):
                of_families.add_comparisons(results, _EVERY, plan.family_rounds)
                of_families.add_libraries(results, _EVERY, plan.family_rounds)
                of_families.add_families(results, _EVERY, plan.family_rounds)
            report.add_growth(results, bench)
            report.add_warm(results, bench)
            report.add_targets(results, bench)
        if options.save:
            results.save(options.save)
    except BenchmarkFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _exit(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Close every context once, so that all processes are stopped."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
