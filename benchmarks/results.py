"""The tables of a run: printed as they are measured, saved, and merged with those of other runs."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from benchmarks.markdown import NOTHING, line, rule

UNITS: Mapping[str, Callable[[float], str]] = {
    "count": lambda value: f"{value:,.0f}",
    "requests/s": lambda rate: f"{rate:,.0f} requests/s",
    "elements/s": lambda rate: f"{rate / 1e6:,.0f} M" if rate >= 1e7 else f"{rate / 1e6:.1f} M",
    "bytes/s": lambda rate: f"{rate / 1e6:,.0f} MB/s",
    "bytes": lambda size: f"{size / 2**20:.1f} MiB",
    "seconds": lambda seconds: f"{1e3 * seconds:.1f} ms",
    "microseconds": lambda seconds: f"{1e6 * seconds:,.0f} µs",
    "seconds/MiB": lambda seconds: f"{1e3 * seconds:.2f} ms a MiB",
    "element": lambda seconds: f"{1e9 * seconds:.2f} ns",
    "error": lambda error: f"{error:.1e}",
}
"""How a figure is written, by its unit."""


@dataclass(frozen=True)
class Number:
    """A figure.

    Attributes:
        value: its median in a run.
        unit: a key of UNITS.
        note: what is written after it.
    """

    value: float
    unit: str
    note: str = ""

    def __str__(self) -> str:
        return UNITS[self.unit](self.value) + self.note

    def merged(self, others: "Sequence[Number]") -> str:
        """Write the median of several runs."""
        return str(Number(median(each.value for each in others), self.unit, self.note))


@dataclass(frozen=True)
class Ratio:
    """A ratio in each round, and the limit of it, or none.

    Attributes:
        values: the ratios.
        at_least: the limit, as in ``0.9`` or ``≤ 1/6``.
    """

    values: Sequence[float]
    at_least: str = ""

    def __str__(self) -> str:
        if not self.values:
            return NOTHING
        low, high = min(self.values), max(self.values)
        return f"{self._text(median(self.values))} ({self._text(low)} to {self._text(high)})"

    def _text(self, ratio: float) -> str:
        """Write a ratio as its limit is written: as a fraction, or with three digits."""
        if "1/" in self.at_least:
            return f"1/{1 / ratio:.1f}"
        return f"{ratio:.2f}" if ratio >= 1 else f"{ratio:.3g}"

    @property
    def misses(self) -> bool:
        """Whether the median misses the limit."""
        most = self.at_least.startswith("≤")
        limit = self.at_least.removeprefix("≤").strip()
        if not limit or not self.values:
            return False
        numerator, _, denominator = limit.partition("/")
        bound = float(numerator) / float(denominator or 1)
        return median(self.values) > bound if most else median(self.values) < bound

    def merged(self, others: "Sequence[Ratio]") -> str:
        """Write the median of each run, in bold if the median of these misses the limit."""
        if not self.values:
            return NOTHING
        medians = [median(each.values) for each in others]
        text = ", ".join(map(self._text, medians))
        return f"**{text}**" if Ratio(medians, self.at_least).misses else text


Cell: TypeAlias = str | Number | Ratio


@dataclass(frozen=True)
class Table:
    """A table: the names of its columns, and its rows."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Results:
    """All that a run has measured.

    Attributes:
        machine: lines that describe where.
        tables: by name.
    """

    machine: list[str] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)

    def add(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """Keep a table, and print each row once it is measured."""
        kept: list[Sequence[Cell]] = []
        print(line(header), rule(header), sep="\n", flush=True)
        for row in rows:
            kept.append(row)
            print(line(map(str, row)), flush=True)
        self.tables[name] = Table(header, kept)

    def save(self, path: Path) -> None:
        """Write a file that ``load`` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")


def load(path: Path) -> Results:
    """Return the results of a run from a file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    tables = {
        name: Table(table["header"], [[_cell(cell) for cell in row] for row in table["rows"]])
        for name, table in content["tables"].items()
    }
    return Results(content["machine"], tables)


def _cell(cell: Any) -> Cell:
    if isinstance(cell, str):
        return cell
    return Ratio(**cell) if "values" in cell else Number(**cell)


def merged(tables: Sequence[Table]) -> list[str]:
    """Return the lines of a table of several runs, which have the same rows."""
    header = tables[0].header
    rows = zip(*(table.rows for table in tables), strict=True)
    return [line(header), rule(header), *(line(_merged_row(row)) for row in rows)]


def _merged_row(rows: Sequence[Sequence[Cell]]) -> list[str]:
    return [_merged_cell(cells) for cells in zip(*rows, strict=True)]


def _merged_cell(cells: Sequence[Any]) -> str:
    first, *_ = cells
    return first if isinstance(first, str) else first.merged(cells)
