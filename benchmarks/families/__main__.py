"""The command line: every family and element type beside NumPy, as Markdown."""

import argparse
import re
import sys

from benchmarks import machine
from benchmarks.families import report
from benchmarks.results import Results


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.families", description=__doc__)
    parser.add_argument("--only", default="", metavar="RE", help="rows whose name it matches")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each row")
    options = parser.parse_args()
    only, (core, _) = re.compile(options.only), machine.server_and_client_cores()
    with machine.pinned(core):
        results = Results()
        report.add_comparisons(results, only, options.rounds)
        report.add_libraries(results, only, options.rounds)
        report.add_families(results, only, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
