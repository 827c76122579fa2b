"""Writes the tables of ``docs/performance.md`` and its plot, from the files of several runs.

    python -m benchmarks.page RUN...

A table lies between two comments with its name, as in ``<!-- targets -->`` and
``<!-- end of targets -->``; the text around it is written by hand.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.growth import plot
from benchmarks.processes import ROOT
from benchmarks.results import Number, Results, load, merged

PAGE = ROOT / "docs/performance.md"
PLOT = ROOT / "docs/pictures/growth.svg"

_UNIT = "ns of processor time for an element of float32"
_PLACE = re.compile(r"(<!-- ([a-z]+) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.page", description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a file of --save")
    runs = [load(path) for path in parser.parse_args().runs]
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), runs), encoding="utf-8")
    PLOT.write_text(drawn(runs), encoding="utf-8")
    return 0


def filled(page: str, runs: Sequence[Results]) -> str:
    """Return a page with its tables made anew; each shows the median or each ratio of the runs."""

    def table(place: re.Match[str]) -> str:
        begin, name, end = place.groups()
        return "\n".join([begin, *_lines(name, runs), "", end])

    return _PLACE.sub(table, page)


def _lines(name: str, runs: Sequence[Results]) -> list[str]:
    if name == "machine":
        return [f"- {line}" for line in runs[0].machine]
    return merged([run.tables[name] for run in runs])


def drawn(runs: Sequence[Results]) -> str:
    """Return the plot of growth: at each point the median of the runs."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for rows in zip(*(run.tables["growth"].rows for run in runs), strict=True):
        axis, series, at, _ = rows[0]
        costs = [cost.value for *_, cost in rows if isinstance(cost, Number)]
        assert isinstance(axis, str)
        assert isinstance(series, str)
        assert isinstance(at, Number)
        points = panels.setdefault(axis, {}).setdefault(series, [])
        points.append((at.value, 1e9 * median(costs)))
    return plot.drawn(panels, _UNIT)


if __name__ == "__main__":
    sys.exit(main())
