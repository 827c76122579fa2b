"""The command line: measures, and prints what it found as Markdown."""

import argparse
import signal
import sys
from collections.abc import Iterable, Sequence
from statistics import median
from types import FrameType
from typing import NoReturn

from benchmarks import kernel, load, machine
from benchmarks.servers import SERVERS, BenchmarkFailed


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure posref and peers.")
    parser.add_argument("--quick", action="store_true", help="half a minute: a rough idea only")
    quick: bool = parser.parse_args().quick
    repeats, seconds, rounds = (5, 1, 2) if quick else (21, 3, 3)
    signal.signal(signal.SIGTERM, _exit)
    try:
        wrk = load.find_wrk()
        _print_list(machine.describe())
        core, _ = machine.server_and_client_cores()
        with machine.pinned(core):
            _print_kernel(kernel.measure(repeats), repeats)
        _print_load(load.measure(SERVERS, wrk, seconds, rounds), seconds, rounds)
    except BenchmarkFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _exit(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(1)


def _print_kernel(results: Iterable[kernel.Result], repeats: int) -> None:
    far = [f"error from {start:g}" for start in kernel.FAR_STARTS]
    rows = [
        [
            result.name,
            f"{result.milliseconds:.1f} ms",
            f"{result.share:.2f} (1/{1 / result.share:.1f})",
            *(f"{error:.1e}" for error in result.errors),
        ]
        for result in results
    ]
    print(
        f"\n{kernel.ROWS}×{kernel.WIDTH} float32 on one core: medians of {repeats} turns, and the "
        f"largest error\nin rows {kernel.CHECKED_ROWS} of a table that starts at a position\n"
    )
    _print_table(["made by", "time", "÷ NumPy in float64", *far], rows)


def _print_load(results: Iterable[load.Result], seconds: int, rounds: int) -> None:
    names = [server.name for server in SERVERS]
    header = ["warm table", "bytes", *(f"{name}, requests/s" for name in names)]
    header += [f"{names[0]} ÷ {name}" for name in names[1:]]
    rows = [
        [
            str(result.case),
            " / ".join(dict.fromkeys(f"{length:,}" for length in result.body_bytes)),
            *(f"{result.rate(index):,.0f}" for index in range(len(names))),
            *(_ratio(result.ratios(index)) for index in range(1, len(names))),
        ]
        for result in results
    ]
    server_core, client_core = machine.server_and_client_cores()
    print(
        f"\nwrk -t1 -c{load.CONNECTIONS} -d{seconds}s on core {client_core}, servers on core "
        f"{server_core}: medians of {rounds} rounds (lowest to highest ratio)\n"
    )
    _print_table(header, rows)


def _ratio(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _print_list(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"- {line}")


def _print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    rule = ["---", *("---:" for _ in header[1:])]
    for row in (header, rule, *rows):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
