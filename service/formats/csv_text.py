"""``csv``: a line for each row of a matrix or number of a vector, and nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import prod

import numpy as np

from service.formats.format import Block, fewer_axes, several_arrays
from service.formats.json_text import (
    ENCODER,
    elements_of_block,
    no_spelling,
    spelled,
    spelled_limit_bytes,
)
from service.numerics.document import Document
from service.numerics.dtypes import decimal_view
from service.numerics.tables import Table


@dataclass(frozen=True)
class CsvFormat:
    """One array of one or two axes, numbers spelled as in JSON, no line of headings.

    As RFC 4180 has it, but for lines that end with LF alone.
    """

    extension: str = "csv"
    media_type: str = "text/csv"
    is_text: bool = True
    is_drawn: bool = False
    version: str = ENCODER

    def refusal(self, document: Document) -> str | None:
        """Refuse what has more axes, and what has no decimals."""
        several = several_arrays(document)
        if several is not None:
            return several
        (table,) = document.arrays.values()
        if len(table.shape) > 2:
            rule = f"it holds rows of numbers, and this array has {len(table.shape)} axes"
            return rule + fewer_axes(document)
        return no_spelling(document, "CSV")

    def body(self, document: Document) -> "CsvBody":
        """Write the rows."""
        (table,) = document.arrays.values()
        return CsvBody(table)


@dataclass(frozen=True, eq=False)
class CsvBody:
    """The bytes of a matrix, or of a vector as its one column, as CSV."""

    table: Table

    @property
    def length_bytes(self) -> int | None:
        """Unknown until written: numbers differ in length."""
        return None

    @property
    def limit_bytes(self) -> int:
        """As if every element had the longest spelling there is."""
        return spelled_limit_bytes(self.table)

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Write the whole of it: some rows at a time, or a part of one where rows are long."""
        if start != 0 or stop is not None:
            raise ValueError("a CSV body is only made whole")
        rows, width = self._rows_and_width
        block_elements = elements_of_block(self.table)
        step = block_elements // width
        if step == 0:
            for row in range(rows):
                yield from self._row(row, block_elements)
            return
        for first in range(0, rows, step):
            text = _spelled(self.table, first * width, (min(step, rows - first), width))
            yield text[2:-2].replace(b"],[", b"\n") + b"\n"

    @property
    def _rows_and_width(self) -> tuple[int, int]:
        rows, width, *_ = (*self.table.shape, 1, 1)
        return rows, width

    def _row(self, row: int, block_elements: int) -> Iterator[bytes]:
        _, width = self._rows_and_width
        for first in range(0, width, block_elements):
            count = min(block_elements, width - first)
            end = b"\n" if first + count == width else b","
            yield _spelled(self.table, row * width + first, (count,))[1:-1] + end


def _spelled(table: Table, start: int, shape: tuple[int, ...]) -> bytes:
    """Spell elements as nested lists, what is infinite (a wavelength) the way CSV readers do."""
    text = spelled(table, start, shape)
    if b"null" not in text:
        return text
    elements = decimal_view(table.read(start, start + prod(shape)), table.dtype)
    infinite = [b"-inf" if element < 0 else b"inf" for element in elements[np.isinf(elements)]]
    first, *others = text.split(b"null")
    return first + b"".join(chain.from_iterable(zip(infinite, others, strict=True)))


CSV = CsvFormat()
