"""The command line: shows what costly requests do to others, for one or more checkouts."""

import argparse
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from benchmarks.processes import ROOT, BenchmarkFailed
from benchmarks.starvation import flood, memory
from benchmarks.starvation.kinds import KINDS
from benchmarks.starvation.pairs import NUMBERS, Pair, pair, quiet_times
from benchmarks.starvation.probes import MOST_SECONDS, Times
from benchmarks.starvation.server import serving

_SECONDS, _QUICK_SECONDS = 0.6, 0.4
_MEMORY_SECONDS, _QUICK_MEMORY_SECONDS = 120.0, 20.0
_PARTS = ("pairs", "flood", "memory")


def main() -> int:
    given = _parser().parse_args()
    signal.signal(signal.SIGTERM, _exit)
    try:
        broken = [each for checkout in given.checkout or [ROOT] for each in _show(checkout, given)]
    except BenchmarkFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.starvation", description=__doc__)
    add = parser.add_argument
    add("--checkout", type=Path, action="append", help="folder with a service; may be repeated")
    add("--part", choices=_PARTS, action="append", help="default: all")
    add("--only", default="", help="kinds of costly requests whose names contain this")
    add("--quick", action="store_true", help="16 requests under way only, and short")
    return parser


def _show(checkout: Path, given: argparse.Namespace) -> list[str]:
    print(f"\n## {checkout.resolve()}\n", flush=True)
    parts, broken = given.part or _PARTS, []
    if "pairs" in parts:
        broken += _show_pairs(checkout, given.only, is_quick=given.quick)
    if "flood" in parts:
        broken += flood.show(checkout, is_quick=given.quick)
    if "memory" in parts:
        seconds = _QUICK_MEMORY_SECONDS if given.quick else _MEMORY_SECONDS
        broken += memory.show(checkout, seconds)
    print(f"\n{len(broken)} promises broken: {'; '.join(broken) or 'none'}", flush=True)
    return broken


def _show_pairs(checkout: Path, only: str, *, is_quick: bool) -> list[str]:
    kinds = [kind for name, kind in KINDS.items() if only in name]
    numbers, seconds = (NUMBERS[-1:], _QUICK_SECONDS) if is_quick else (NUMBERS, _SECONDS)
    print("Milliseconds, median/worst; after: cores busy 0.5 s after all left.\n")
    print(f"| under way | n | {' | '.join(MOST_SECONDS)} | after | answers |")
    print(f"| --- | --- |{' --- |' * len(MOST_SECONDS)} --- | --- |")
    broken: list[str] = []
    with serving(checkout) as server:
        quiet = quiet_times(server, seconds)
        _print_row("nothing", 0, quiet.values(), "", "")
        for kind in kinds:
            for number in numbers:
                found = pair(server, kind, number, quiet, seconds)
                _print_pair(found)
                broken += [f"{kind.name} × {number}: {name}" for name in _broken(found)]
    return broken


def _broken(found: Pair) -> list[str]:
    return [*found.broken, *([] if found.left.is_nothing else ["left"])]


def _print_pair(found: Pair) -> None:
    shown = [
        f"**{_shown(times)}**" if name in found.broken else _shown(times)
        for name, times in found.times.items()
    ]
    after = f"{found.left.cores:.2f}" + f", {found.left.held_bytes / 2**20:.0f} MiB" * (
        found.left.held_bytes > 0
    )
    answers = ", ".join(f"{times} × {name}" for name, times in sorted(found.answers.items()))
    _print_cells([found.kind.name, str(found.number), *shown, after, answers])


def _print_row(name: str, number: int, times: Iterable[Times], after: str, answers: str) -> None:
    _print_cells([name, str(number), *map(_shown, times), after, answers])


def _print_cells(cells: Sequence[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def _shown(times: Times) -> str:
    return "/".join(
        "none" if seconds == float("inf") else f"{1000 * seconds:.3g}"
        for seconds in (times.median, times.worst)
    )


def _exit(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Close every context once, so that all processes are stopped."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
