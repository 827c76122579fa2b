"""``bin``: the elements alone, little-endian, in C order; and the body of every binary format."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from service.formats.format import BLOCK_BYTES, Block, Format
from service.numerics.tables import Document, Table, size_bytes


@dataclass(frozen=True, eq=False)
class BinaryBody:
    """Bytes and tables, one after the other; any range of them can be computed."""

    parts: tuple[bytes | Table, ...]

    @cached_property
    def length_bytes(self) -> int:
        return sum(_length(part) for part in self.parts)

    @property
    def limit_bytes(self) -> int:
        return self.length_bytes

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        end = self.length_bytes if stop is None else stop
        offset = 0
        for part in self.parts:
            length = _length(part)
            first, last = max(start - offset, 0), min(end - offset, length)
            if first < last:
                yield from _part_blocks(part, first, last)
            offset += length


def _length(part: bytes | Table) -> int:
    return len(part) if isinstance(part, bytes) else size_bytes(part)


def _part_blocks(part: bytes | Table, start: int, stop: int) -> Iterator[Block]:
    if isinstance(part, bytes):
        yield part[start:stop]
        return
    item = part.dtype.itemsize_bytes
    block_bytes = max(1, BLOCK_BYTES // part.work_per_element)
    while start < stop:
        end = min(stop, (start // block_bytes + 1) * block_bytes)
        first = start // item
        elements = part.read(first, -(-end // item))
        yield elements.view(np.uint8).data.toreadonly()[start - first * item : end - first * item]
        start = end


def _write(document: Document) -> BinaryBody:
    return BinaryBody(tuple(document.arrays.values()))


RAW = Format(extension="bin", media_type="application/octet-stream", name="bin", body=_write)
