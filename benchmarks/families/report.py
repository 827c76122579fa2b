"""The measurements of families, as tables."""

import re
from collections.abc import Iterator
from statistics import median

from benchmarks.families import comparisons
from benchmarks.families.comparisons import COMPARISONS
from benchmarks.families.every import Row, measure_family
from benchmarks.families.fresh import in_new_process
from benchmarks.families.libraries import CACHES, ENVIRONMENT, measure_caches
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
    for number, each in enumerate(COMPARISONS):
        if only.search(each.measure):
            measured = in_new_process(comparisons.measure, number, rounds)
            yield [each.measure, *beside(measured, _UNIT, each.peer.name, each.at_least, each.aim)]


def add_libraries(results: Results, only: re.Pattern[str], rounds: int) -> None:
    """Add whole caches beside those of libraries, if their environment is there."""
    if not (ENVIRONMENT / "venv.stamp").exists():
        print(f"\nNo caches of torch and transformers: make bench could not make {ENVIRONMENT}")
        return
    print("\nWhole caches of cosines and sines: elements a second of processor time, one thread\n")
    caches = [cache for cache in CACHES if only.search(cache.measure)]
    measured = zip(caches, in_new_process(measure_caches, caches, rounds), strict=True)
    rows = ([cache.measure, *beside(each, _UNIT, cache.library)[:3]] for cache, each in measured)
    results.add("libraries", ["cache", "posref", "library", "ratio"], rows)


def add_families(results: Results, only: re.Pattern[str], rounds: int) -> None:
    """Add a row for each family and element type."""
    print(
        "\nElements a second of processor time; what a table sets up once is part of the first "
        f"read alone.\nAt most {MOST_ELEMENTS:,} elements are read. Beyond {_IN_CACHE} MB/s a "
        "block stays in the core's\ncache: whoever takes it is slower\n"
    )
    header = ["family", "elements/s", "MB/s", "NumPy formula", "ratio", "÷ 32 bits", "first read"]
    results.add("families", header, _families(only, rounds))


def _families(only: re.Pattern[str], rounds: int) -> Iterator[list[Cell]]:
    for path in FAMILIES:
        if only.search(path):
            yield from map(_row, in_new_process(measure_family, path, rounds))


def _row(row: Row) -> list[Cell]:
    rate, peer, measured = median(row.measured.ours), row.measured.peer, row.measured
    return [
        f"`{row.path}` {row.dtype}".rstrip(),
        Number(rate, _UNIT),
        Number(rate * row.itemsize_bytes / 1e6, "count"),
        Number(median(peer), _UNIT) if peer else NOTHING,
        Ratio(measured.ratios if peer else ()),
        Ratio(row.to_32_bits),
        Number(row.first_seconds, "seconds"),
    ]
