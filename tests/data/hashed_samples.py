"""What tables that are hashed are made of: positions and numbers, the same on every machine."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from service.encodings.family import Family, TableFamily
from service.encodings.relative.distance import QueryKey
from service.numerics.document import Document
from service.numerics.dtypes import DType, round_into
from service.numerics.positions import Positions, Run
from service.numerics.real_positions import AnyPositions, RealPositions
from service.numerics.tables import StoredTable, Table

WEYL_STEP = 0x9E3779B97F4A7C15
_SCATTERED_COUNT = 300

SEQUENCE = Positions.contiguous(0, 500)

NEAR = QueryKey(Positions.contiguous(0, 48), Positions.contiguous(-16, 80))
FAR = QueryKey(
    Positions.of_runs([Run(2**61 - 2, 1, 3), Run(-5, 1, 2), Run(-(10**9), 0, 1)]),
    Positions.of_runs([Run(-(2**61), 1, 3), Run(-400, 77, 11), Run(10**15, 0, 1)]),
)
PAIRS = {"near": NEAR, "far": FAR}


def pair_parameters(pairs: QueryKey) -> dict[str, Any]:
    """Make the parameters of families of distances that name these queries and keys."""
    return {"query_positions": str(pairs.queries), "key_positions": str(pairs.keys)}


def position_parameter(positions: AnyPositions) -> Any:
    """Return positions as the parameter of a family."""
    return list(positions.values) if isinstance(positions, RealPositions) else str(positions)


def named(kind: str, name: str, arrays: Mapping[str, Table]) -> Iterator[tuple[str, Table]]:
    revisions = {family.kind(): family.revision_of_bytes for family in Family.registered}
    for part, table in arrays.items():
        yield f"{kind} revision {revisions[kind]}: {name}, {table.dtype.name} {part}", table


def of_document(name: str, document: Document) -> Iterator[tuple[str, Table]]:
    """Name the tables of a document by its kind."""
    yield from named(document.kind, name, document.arrays)


def of_family(name: str, family: TableFamily) -> Iterator[tuple[str, Table]]:
    """Name the table of a family."""
    yield from of_document(name, family.document())


def scattered() -> Positions:
    numbers = (WEYL_STEP * index % 2**64 for index in range(1, _SCATTERED_COUNT + 1))
    return Positions.of_runs(Run(number // 2 - 2**62, 1, 1) for number in numbers)


def fractional() -> RealPositions:
    """Make fractions of every unit, small and large, and whole numbers among them."""
    steps = [
        (WEYL_STEP * index % 2**64 / 2**64, 2.0 ** (7 * (index % 16) - 53))
        for index in range(1, 49)
    ]
    return RealPositions((0.0, 0.5, -17.25, 1e-30, 2.0**62, 3.0, -4.0, *(a * b for a, b in steps)))


def special(shape: tuple[int, ...], dtype: DType) -> StoredTable:
    """Make rows in which every value that is not like others meets every other."""
    values = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -6e4, 3e38, 5e-324, 1e-40])
    row, column = np.indices(shape)
    elements = np.empty(shape, dtype=dtype.storage)
    with np.errstate(over="ignore"):
        round_into(values[(column + row * (column // 2)) % len(values)], elements, dtype)
    return StoredTable(elements, dtype)


def pseudo_random(shape: tuple[int, ...], dtype: DType) -> StoredTable:
    """Make numbers within ±2^11 by integer arithmetic, the same on every machine."""
    numbers = np.arange(np.prod(shape), dtype=np.uint64) * np.uint64(WEYL_STEP)
    values = (numbers.view(np.int64) >> np.int64(11)).astype(np.float64) * 2.0**-41
    elements = np.empty(shape, dtype=dtype.storage)
    round_into(values.reshape(shape), elements, dtype)
    return StoredTable(elements, dtype)
