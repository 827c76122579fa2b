"""The command line: runs the measurements and prints them as Markdown."""

import argparse
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NoReturn

from benchmarks import report, tools
from benchmarks.bench import FULL, QUICK, Bench
from benchmarks.processes import BenchmarkFailed


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure posref and peers.")
    parser.add_argument("--quick", action="store_true", help="under a minute: a rough idea only")
    plan = QUICK if parser.parse_args().quick else FULL
    signal.signal(signal.SIGTERM, _exit)
    try:
        tools.install_missing()
        with TemporaryDirectory(prefix="posref-bench-") as folder:
            bench = Bench(plan, Path(folder))
            report.print_machine()
            report.print_kernel(bench)
            report.print_warm(bench)
            report.print_targets(bench)
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
