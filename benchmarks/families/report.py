"""The measurements of families, as tables."""

import re
from collections.abc import Iterator
from statistics import median

from benchmarks.families import comparisons, libraries
from benchmarks.families.comparisons import COMPARISONS
from benchmarks.families.every import Row, measure_family
from benchmarks.families.libraries import CACHES, PYTHON, Library, running_library
from benchmarks.families.requests import MOST_ELEMENTS
from benchmarks.markdown import NOTHING
from benchmarks.report import beside
from benchmarks.results import Cell, Number, Ratio, Results
from service.encodings.registry import FAMILIES

_UNIT = "elements/s"

# Bytes a second that one core of usual machines writes to memory and reads again.
_IN_CACHE = "10,000"


def add_comparisons(results: Results, only: re.Pattern[str], rounds: int) -> None:
    """Add the ratios that have targets, and others of that kind."""
    print("\nElements a second of processor time, ours ÷ theirs\n")
    header = ["measure", "posref", "peer", "ratio", "at least / aim"]
    results.add("comparisons", header, _comparisons(only, rounds))


def _comparisons(only: re.Pattern[str], rounds: int) -> Iterator[list[Cell]]:
    for each in COMPARISONS:
        if only.search(each.measure):
            measured = comparisons.measure(each, rounds)
            yield [each.measure, *beside(measured, _UNIT, each.peer.name, each.at_least, each.aim)]


def add_libraries(results: Results, only: re.Pattern[str], rounds: int) -> None:
    """Add whole caches beside those of libraries, if their environment is there."""
    if not PYTHON.exists():
        print(f"\nNo caches of torch and transformers: {PYTHON} is missing; make bench makes it")
        return
    print("\nWhole caches of cosines and sines: elements a second of processor time, one thread\n")
    with running_library() as library:
        rows = _libraries(library, only, rounds)
        results.add("libraries", ["cache", "posref", "library", "ratio"], rows)


def _libraries(library: Library, only: re.Pattern[str], rounds: int) -> Iterator[list[Cell]]:
    for cache in CACHES:
        if only.search(cache.measure):
            measured = libraries.measure(library, cache, rounds)
            yield [cache.measure, *beside(measured, _UNIT, cache.library)[:3]]


def add_families(results: Results, only: re.Pattern[str], rounds: int) -> None:
    """Add a row for each family and element type."""
    print(
        "\nElements a second of processor time; what a table sets up once is part of the first "
        f"read alone.\nAt most {MOST_ELEMENTS:,} elements are read. Beyond {_IN_CACHE} MB/s a "
        "block stays in the core's\ncache: whoever takes it is slower\n"
    )
    header = ["family", "elements/s", "MB/s", "NumPy formula", "ratio", "÷ float32", "first read"]
    results.add("families", header, _families(only, rounds))


def _families(only: re.Pattern[str], rounds: int) -> Iterator[list[Cell]]:
    for family in FAMILIES:
        if only.search(family.path):
            yield from map(_row, measure_family(family, rounds))


def _row(row: Row) -> list[Cell]:
    rate, peer, measured = median(row.measured.ours), row.measured.peer, row.measured
    return [
        f"`{row.path}` {row.dtype}",
        Number(rate, _UNIT),
        Number(rate * row.itemsize_bytes / 1e6, "count"),
        Number(median(peer), _UNIT) if peer else NOTHING,
        Ratio(measured.ratios if peer else ()),
        Ratio(row.to_float32),
        Number(row.first_seconds, "seconds"),
    ]
