"""Every family and element type, beside NumPy's formula in the same type."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.families.formulas import FORMULAS, evaluate
from benchmarks.families.requests import MOST_ELEMENTS, Request, read, request_of
from benchmarks.families.timing import Repeated
from benchmarks.figures import Measured, in_turns
from service.encodings.registry import FAMILIES
from service.lru import shrink_shared
from service.numerics.tables import size, size_bytes


@dataclass(frozen=True)
class Row:
    """The figures of a family in an element type.

    Attributes:
        path: that of the family.
        dtype: the element type; empty if the family has only one.
        itemsize_bytes: the bytes of one; the mean of several tables.
        measured: elements a second, ours and NumPy's.
        to_32_bits: the rates ÷ those of float32 or int32, by round; empty for that type itself.
        first_seconds: the time of the first read, before which nothing was set up.
    """

    path: str
    dtype: str
    itemsize_bytes: float
    measured: Measured
    to_32_bits: Sequence[float]
    first_seconds: float


def measure_family(path: str, rounds: int) -> list[Row]:
    """Return a row for each element type; all are measured in turns."""
    request = request_of(FAMILIES[path])
    dtypes = request.dtypes or ("",)
    reads = [_Read(request, dtype) for dtype in dtypes]
    rows, has_formula = [], path in FORMULAS
    formulas = [Repeated(partial(evaluate, request, dtype)) for dtype in dtypes if has_formula]
    # Each first read dropped what the others had set up.
    for each in reads:
        each.work(0)
    elements = sum(map(size, request.tables(dtypes[0])))
    times = in_turns([*(each.work for each in reads), *formulas], rounds)
    for number, (dtype, each) in enumerate(zip(dtypes, reads, strict=True)):
        ours = times[number]
        peer = times[len(reads) + number] if has_formula else []
        measured = Measured(
            [each.elements / taken for taken in ours],
            [elements / taken for taken in peer],
        )
        ratios = [one / other for one, other in zip(times[0], ours, strict=True)] if number else []
        first = each.work.first_seconds
        rows.append(Row(path, dtype, each.itemsize_bytes, measured, ratios, first))
    return rows


class _Read:
    """The reading of tables, whose setups are computed anew for the first one.

    Attributes:
        elements, itemsize_bytes: as in Row.
        work: reads the tables.
    """

    def __init__(self, request: Request, dtype: str) -> None:
        shrink_shared(0)
        tables = request.tables(dtype)
        self.elements = min(sum(map(size, tables)), MOST_ELEMENTS)
        self.itemsize_bytes = sum(map(size_bytes, tables)) / sum(map(size, tables))
        self.work = Repeated(lambda: read(tables))
