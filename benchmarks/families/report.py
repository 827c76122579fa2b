"""The measurements of families as Markdown."""

import re
from collections.abc import Iterator
from statistics import median

from benchmarks.families.comparisons import COMPARISONS, measure
from benchmarks.families.every import Row, measure_family
from benchmarks.families.requests import MOST_ELEMENTS
from benchmarks.figures import spread
from benchmarks.markdown import NOTHING, print_table
from service.encodings.registry import FAMILIES

# Bytes a second of memory that one core of the usual machine writes and reads again.
_IN_CACHE = "10,000"


def print_comparisons(only: re.Pattern[str], rounds: int) -> None:
    """Print the ratios that have targets, and others of that kind."""
    print("\nElements a second of processor time, ours ÷ theirs\n")
    print_table(["measure", "ours", "peer", "ratio", "at least / aim"], _comparisons(only, rounds))


def _comparisons(only: re.Pattern[str], rounds: int) -> Iterator[list[str]]:
    for each in COMPARISONS:
        if only.search(each.measure):
            measured = measure(each, rounds)
            limits = f"{each.at_least} / {each.aim}" if each.at_least else NOTHING
            peer = f"{rate(median(measured.peer))} ({each.peer.name})"
            ratio = spread(measured.ratios)
            yield [each.measure, rate(median(measured.ours)), peer, ratio, limits]


def print_families(only: re.Pattern[str], rounds: int) -> None:
    """Print a row for each family and element type."""
    header = ["family", "elements", "elements/s", "MB/s", "NumPy formula", "ratio", "÷ float32"]
    print(
        "\nElements a second of processor time; what a table sets up once is part of the first "
        f"read alone.\nAt most {MOST_ELEMENTS:,} elements are read. Beyond {_IN_CACHE} MB/s a block stays "
        "in the core's cache:\nwhoever takes it is slower\n"
    )
    print_table([*header, "first read"], _families(only, rounds))


def _families(only: re.Pattern[str], rounds: int) -> Iterator[list[str]]:
    for family in FAMILIES:
        if only.search(family.path):
            yield from map(_row, measure_family(family, rounds))


def _row(row: Row) -> list[str]:
    is_known = bool(row.measured.peer)
    return [
        f"`{row.name}`",
        f"{row.elements:,}",
        rate(median(row.measured.ours)),
        f"{median(row.measured.ours) * row.itemsize_bytes / 1e6:,.0f}",
        rate(median(row.measured.peer)) if is_known else NOTHING,
        spread(row.measured.ratios) if is_known else NOTHING,
        spread(row.to_float32) if row.to_float32 else NOTHING,
        f"{1e3 * row.first_seconds:.1f} ms",
    ]


def rate(elements: float) -> str:
    """Format elements a second, in millions."""
    return f"{elements / 1e6:,.0f} M" if elements >= 1e7 else f"{elements / 1e6:.1f} M"
