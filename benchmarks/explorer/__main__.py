"""The command line: measures the page in Chromium and prints the figures as Markdown."""

import argparse
import sys
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from benchmarks import machine
from benchmarks.explorer.measure import SIZE, jumping, launched, opening, panning
from benchmarks.markdown import line, rule
from benchmarks.processes import BenchmarkFailed
from benchmarks.servers import POSREF, running

_TABLE = "/rope?head_dim=128&rope_theta=500000&pack=concat&seq_len="
_LENGTHS = {"131,072": 131072, "2^53": 2**53}
_PANNED = 10**6


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.explorer", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="openings of each table")
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--jumps", type=int, default=900)
    options = parser.parse_args()
    try:
        _measure(options.rounds, options.frames, options.jumps)
    except BenchmarkFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _measure(rounds: int, frames: int, jumps: int) -> None:
    for about in machine.system():
        print(f"- {about}")
    print(f"- Chromium in a window of {SIZE['width']}×{SIZE['height']}\n")
    header = ["measure", "figure", "at most"]
    print(line(header), rule(header), sep="\n")
    with (
        TemporaryDirectory(prefix="posref-explorer-") as folder,
        running(POSREF, Path(folder)) as server,
        launched() as browser,
    ):
        print(line(["version of Chromium", browser.version, ""]))
        for name, length in _LENGTHS.items():
            opened = [opening(browser, f"{server.origin}{_TABLE}{length}") for _ in range(rounds)]
            seconds = [each.seconds for each in opened]
            figure = f"{median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
            print(line([f"first heat map of {name} positions, cold", figure, "1 s"]))
            print(line(["its requests of numbers", str(max(each.tiles for each in opened)), "10"]))
            print(line(["page, scripts, styles, catalogue", _kilobytes(opened[0].own_bytes), "80"]))
        page = browser.new_page(viewport=SIZE)
        page.goto(f"{server.origin}{_TABLE}{_PANNED}")
        panned = panning(page, frames)
        times = sorted(1e3 * each for each in panned.seconds)
        figure = f"{median(times):.2f} ms (95 %: {quantiles(times, n=20)[-1]:.2f} ms)"
        print(line([f"drawing, {frames} frames of 10^6×128", figure, "4 ms"]))
        print(line(["frames without all numbers", str(panned.unready), "0"]))
        jumped = jumping(page, jumps)
        print(line([f"kept tiles, {jumps} jumps", _kilobytes(jumped.kept_bytes), "64,000"]))
        print(line(["growth of the heap of scripts", _kilobytes(jumped.heap_bytes), "10,000"]))


def _kilobytes(size: int) -> str:
    return f"{size / 1e3:,.1f} kB"


if __name__ == "__main__":
    sys.exit(main())
