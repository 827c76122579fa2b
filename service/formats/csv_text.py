"""``csv``: a line for each row of a matrix or number of a vector, without headings.

Numbers are written as in JSON, infinities as ``inf`` and ``-inf``. The format is that of RFC 4180,
but lines end with LF.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import prod

import numpy as np

from service.formats.format import REAL_AND_INTEGER, Block, Format, Part, WholeBody, prepared
from service.formats.json_text import (
    ENCODER,
    NUMBER_SECONDS,
    block_elements,
    nested_lists,
    text_limit_bytes,
)
from service.numerics.dtypes import decimal_view
from service.numerics.tables import Document, Table


@dataclass(frozen=True, eq=False)
class CsvBody(WholeBody):
    """The bytes of a matrix, or of a vector as its one column, as CSV."""

    table: Table

    @property
    def limit_bytes(self) -> int:
        return text_limit_bytes(self.table)

    def parts(self) -> Iterator[Part]:
        """Write some rows at a time, or a part of one where rows are long."""
        rows, width, *_ = (*self.table.shape, 1, 1)
        elements = block_elements(self.table)
        yield from prepared([self.table])
        step = elements // width
        if step == 0:
            for row in range(rows):
                yield from self._row(row * width, width, elements)
            return
        for first in range(0, rows, step):
            yield partial(self._lines, first * width, (min(step, rows - first), width))

    def _row(self, offset: int, width: int, elements: int) -> Iterator[Part]:
        for first in range(0, width, elements):
            count = min(elements, width - first)
            end = b"\n" if first + count == width else b","
            yield partial(self._lines, offset + first, (1, count), end)

    def _lines(self, start: int, shape: tuple[int, int], end: bytes = b"\n") -> Iterator[Block]:
        # As in JSON, no name refers to the text.
        yield (yield from _lists(self.table, start, shape))[2:-2].replace(b"],[", b"\n") + end


def _lists(table: Table, start: int, shape: tuple[int, ...]) -> Generator[Block, None, bytes]:
    """Return elements as nested lists, with inf or -inf instead of null, after empty blocks."""
    text = yield from nested_lists(table, start, shape)
    if b"null" not in text:
        return text
    elements = decimal_view(table.read(start, start + prod(shape)), table.dtype)
    infinite = [b"-inf" if element < 0 else b"inf" for element in elements[np.isinf(elements)]]
    first, *others = text.split(b"null")
    return first + b"".join(chain.from_iterable(zip(infinite, others, strict=True)))


def _write(document: Document) -> CsvBody:
    (table,) = document.arrays.values()
    return CsvBody(table)


CSV = Format(
    extension="csv",
    media_type="text/csv",
    name="CSV",
    body=_write,
    is_text=True,
    number_seconds=1.5 * NUMBER_SECONDS,
    version=ENCODER,
    dtypes=REAL_AND_INTEGER,
    ranks=range(3),
    has_nan=False,
)
