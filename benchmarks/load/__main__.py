"""The command line: runs a server under load and prints the result as Markdown."""

import argparse
import json
import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NoReturn

from benchmarks.load import plan as plans
from benchmarks.load.picture import draw
from benchmarks.load.plan import Plan
from benchmarks.load.report import print_outcome
from benchmarks.load.run import Measured, Outcome, run
from benchmarks.load.summary import document, failures
from benchmarks.processes import ROOT, BenchmarkFailed
from benchmarks.servers import POSREF, running

_PICTURE = ROOT / "docs" / "pictures" / "load.png"


def main() -> int:
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, _exit)
    try:
        outcome = _run(_plan(arguments), arguments.workers)
    except BenchmarkFailed as error:
        print(error, file=sys.stderr)
        return 1
    print_outcome(outcome)
    if arguments.json:
        arguments.json.write_text(json.dumps(document(outcome), indent=1) + "\n")
    if arguments.picture:
        draw(outcome, arguments.picture)
    found = failures(outcome)
    print("\n" + "\n".join(f"**{each}**" for each in found))
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.load", description="Load a posref.")
    add = parser.add_argument
    add("--connections", type=int, default=plans.CONNECTIONS)
    add("--seconds", type=int, default=plans.SECONDS)
    add("--think", type=float, default=plans.THINK_SECONDS, help="mean pause in seconds; 0: none")
    add("--unloaded-seconds", type=int, default=plans.UNLOADED_SECONDS)
    add("--workers", type=int, default=1, help="processes of the server")
    add("--generators", type=int, default=1, help="processes of the clients")
    add("--seed", type=int, default=1)
    add("--json", type=Path, help="where to write every figure")
    add("--picture", type=Path, nargs="?", const=_PICTURE, help="where to draw the run")
    return parser


def _plan(given: argparse.Namespace) -> Plan:
    return Plan(
        connections=given.connections,
        seconds=given.seconds,
        think_seconds=given.think,
        unloaded_seconds=given.unloaded_seconds,
        generators=given.generators,
        seed=given.seed,
    )


def _run(plan: Plan, workers: int) -> Outcome:
    several = replace(
        POSREF, command=lambda *where: [*POSREF.command(*where), "--workers", str(workers)]
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="posref-load-")))
        server = stack.enter_context(running(several, folder))
        beside = stack.enter_context(running(POSREF, folder))
        return run(Measured(server.port, server.pid, beside.port), plan)


def _exit(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Close every context once, so that all processes are stopped."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
