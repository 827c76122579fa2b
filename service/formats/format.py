"""The base classes of formats, of the bodies that they write and of those that they read.

A format declares as data what it can hold, so that the formats of a document are found without
running any of them. Arrays of request bodies are checked here, too, whichever format they came in.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from importlib.metadata import version
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from service.errors import InvalidBody, shortened
from service.numerics.dtypes import (
    COMPLEX_DTYPES,
    INDEX_DTYPES,
    INT64,
    REAL_DTYPES,
    DType,
    Elements,
)
from service.numerics.setups import TURN_SECONDS, read_in_steps, setup_of
from service.numerics.tables import (
    Curves,
    Document,
    StoredTable,
    Table,
    is_finite,
    overflows,
    size,
    size_bytes,
    turn_elements,
)

Block: TypeAlias = bytes | memoryview

Part: TypeAlias = Block | Callable[[], Iterator[Block]]
"""A block, or a function that computes it, and can compute it again, after empty blocks."""

BLOCK_BYTES = 512 * 1024

REAL_AND_INTEGER = frozenset({*REAL_DTYPES, *INDEX_DTYPES})
EVERY_DTYPE = REAL_AND_INTEGER | {dtype.name for dtype in COMPLEX_DTYPES}


class Body(Protocol):
    """The bytes of a response, computed block by block."""

    @property
    def length_bytes(self) -> int | None:
        """The number of bytes, or None where it is not known before they are computed."""

    @property
    def limit_bytes(self) -> int:
        """An upper bound of the number of bytes."""

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Compute the bytes from start to stop in blocks of about BLOCK_BYTES.

        Only a body of known length has parts; others are computed whole.
        """


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
        offset, pieces = 0, []
        for part in self.parts:
            length = _length(part)
            first, last = max(start - offset, 0), min(end - offset, length)
            if first < last:
                pieces.append((part, first, last))
            offset += length
        yield from prepared(part for part, _, _ in pieces if not isinstance(part, bytes))
        for piece in pieces:
            yield from _part_blocks(*piece)


def prepared(tables: Iterable[Table]) -> Iterator[Block]:
    """Prepare tables whose setup is longer than a turn, with an empty block after each step.

    Bodies do it before their first byte: it is then part of the work that begins a stream, which
    has one tag, so that few setups are half made at a time.
    """
    for setup in map(setup_of, tables):
        if setup.seconds > TURN_SECONDS:
            for _ in setup.steps():
                yield b""


def _length(part: bytes | Table) -> int:
    return len(part) if isinstance(part, bytes) else size_bytes(part)


def _part_blocks(part: bytes | Table, start: int, stop: int) -> Iterator[Block]:
    if isinstance(part, bytes):
        yield part[start:stop]
        return
    item = part.dtype.itemsize_bytes
    block_bytes = min(BLOCK_BYTES, turn_elements(part, most=BLOCK_BYTES // item) * item)
    while start < stop:
        end = min(stop, (start // block_bytes + 1) * block_bytes)
        first = start // item
        elements = yield from read_in_steps(partial(part.read, first, -(-end // item)))
        yield elements.view(np.uint8).data.toreadonly()[start - first * item : end - first * item]
        start = end


class WholeBody(ABC):
    """A body whose length is not known before all of it is computed.

    Attributes:
        state_bytes: the memory that computing it holds between two blocks.
    """

    state_bytes: ClassVar[int] = 0

    @property
    def length_bytes(self) -> None:
        return None

    @property
    @abstractmethod
    def limit_bytes(self) -> int:
        """An upper bound of the number of bytes."""

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Return all bytes in blocks, or functions that compute these; the iterator keeps none."""

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        if start != 0 or stop is not None:
            raise ValueError("this body is only computed whole")
        for part in self.parts():
            yield from part() if callable(part) else (part,)


@lru_cache
def _installed(library: str) -> str:
    """Return the name and version of an installed library; the first one takes milliseconds."""
    return f"{library} {version(library)}"


@dataclass(frozen=True, kw_only=True)
class Format:
    """One way to write documents.

    Attributes:
        extension: the end of a URL that selects it, without the dot.
        name: its name in problems.
        body: describes the bytes of a document that the format can hold.
        is_text: whether it writes numbers as text, which a content coding makes shorter.
        is_drawn: whether a library draws it, in one long step; its bytes may change.
        number_seconds: the processor seconds of writing an element, once it is computed.
        drawing_seconds, curve_seconds: those of drawing a picture, and each of its curves.
        version: the version of the encoder, where it changes the bytes; else empty.
        library: the name of a library whose version does, too, asked for when it matters.
        ranks: the numbers of axes it holds; any unless given.
        panel_axis: the name of axes that are not counted: it shows their places side by side.
        has_infinity: whether it holds numbers that overflow their element type.
        has_nan: whether it holds NaN and infinity of an array that a client sent.
        max_elements, max_curve_elements: limits of a table, and of one drawn as curves.
    """

    extension: str
    media_type: str
    name: str
    body: Callable[[Document], Body]
    is_text: bool = False
    is_drawn: bool = False
    number_seconds: float = 0.0
    drawing_seconds: float = 0.0
    curve_seconds: float = 0.0
    version: str = ""
    library: str = ""
    has_several_arrays: bool = False
    has_details: bool = False
    dtypes: frozenset[str] = EVERY_DTYPE
    ranks: range | None = None
    panel_axis: str | None = None
    has_infinity: bool = True
    has_nan: bool = True
    max_elements: int | None = None
    max_curve_elements: int | None = None

    @property
    def encoder(self) -> str:
        """The versions of what makes the bytes."""
        return ", ".join([self.version, *([_installed(self.library)] if self.library else ())])

    def seconds(self, document: Document) -> float:
        """Estimate the processor seconds of writing a document whose elements are computed."""
        tables = document.arrays.values()
        writing = self.number_seconds * sum(map(size, tables)) + self.drawing_seconds
        return writing + self.curve_seconds * sum(_count_curves(each, document) for each in tables)

    def refusal(self, document: Document) -> str | None:
        """Return why the format cannot hold a document, or None."""
        tables = document.arrays.values()
        if len(tables) > 1 and not self.has_several_arrays:
            hint = f": add part={'|'.join(document.arrays)}" if document.has_parts else ""
            return f"it holds one array and these are {len(tables)}{hint}"
        if document.details and not self.has_details:
            return f"{self.name} cannot hold {' and '.join(document.details)}: request JSON"
        reasons = (self._refusal_of_table(table, document) for table in tables)
        return next(filter(None, reasons), None)

    def _refusal_of_table(self, table: Table, document: Document) -> str | None:
        if table.dtype.name not in self.dtypes:
            is_complex = table.dtype in COMPLEX_DTYPES
            return f"{self.name} has no {'complex numbers' if is_complex else table.dtype.name}"
        if not self.has_infinity and overflows(table):
            rule = f"numbers may be too large for {table.dtype.name}"
            return f"{rule}, and {self.name} has no infinity"
        if not self.has_nan and not is_finite(table):
            return f"{self.name} has no NaN and no infinity"
        rank = len(table.shape) - document.axes.count(self.panel_axis)
        if self.ranks is not None and rank not in self.ranks:
            return self._refusal_of_rank(rank, document)
        is_heat_map = curves_of(table, document) is None
        limit = self.max_elements if is_heat_map else self.max_curve_elements
        if limit is not None and size(table) > limit:
            return f"it shows up to {limit} elements, and these are {size(table)}: request fewer"
        return None

    def _refusal_of_rank(self, rank: int, document: Document) -> str:
        """Return why the format cannot hold so many axes, and how to request a table of two."""
        assert self.ranks is not None
        least = "at most" if 0 in self.ranks else f"{self.ranks[0]} or"
        counted = [axis for axis in document.axes if axis != self.panel_axis]
        axes = f": {', '.join(counted)}" if counted else ""
        ways = [document.removable[axis] for axis in counted if axis in document.removable]
        excess = rank - 2
        hint = f"; {' and '.join(ways[:excess])}" if 0 < excess <= len(ways) else ""
        return (
            f"it holds arrays of {least} {self.ranks[-1]} axes, and this one has {rank}{axes}{hint}"
        )


def curves_of(table: Table, document: Document) -> Curves | None:
    """Return what a picture of a table draws as curves; None for a heat map.

    A table of one axis is one column.
    """
    return "columns" if len(table.shape) == 1 else document.curves


def _count_curves(table: Table, document: Document) -> int:
    curves = curves_of(table, document)
    if curves is None:
        return 0
    return table.shape[0] if curves == "rows" else (*table.shape, 1)[1]


UNNAMED = "x"
"""The name of an array that has none."""

MAX_RANK = 8
_MAX_LENGTH = 2**63 - 1

MAX_INTEGERS = 2**23

_SAMPLE_BYTES = 2**16

INTEGER_STORAGES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8")
"""The NumPy types of integers and booleans that are read."""


@dataclass(frozen=True)
class Input:
    """The content of a request body.

    Attributes:
        arrays: arrays by name, of real types, of complex ones, or of int64.
        parameters: what else a JSON body has, by name.
        is_named: whether the client named the arrays; a format for one array has no names.
        integer_types: the names of the types that integers were sent in, by array.
        is_text: whether its numbers were text: that has no type, and they are float64 here.
        coordinates: the names of the axes of coordinates that an answer of /positions states.
        document: the bytes of a file about a model that is beside the arrays.
    """

    arrays: Mapping[str, StoredTable]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_named: bool = True
    integer_types: Mapping[str, str] = field(default_factory=dict)
    is_text: bool = False
    coordinates: str = ""
    document: bytes | None = None

    @classmethod
    def unnamed(cls, elements: Elements, dtype: DType | None) -> "Input":
        """Return the content of a body that is one array; a type of None is that of integers."""
        if dtype is not None:
            return cls({UNNAMED: StoredTable(elements, dtype)}, is_named=False)
        arrays, types = {UNNAMED: integers(UNNAMED, elements)}, {UNNAMED: elements.dtype.name}
        return cls(arrays, is_named=False, integer_types=types)


@dataclass(frozen=True)
class ArrayHeader:
    """The shape and element type of an array whose body has no header of its own."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class ReadableFormat(Format):
    """A format that request bodies may come in, too.

    Attributes:
        read: reads a body from an untrusted client, without copying the elements of binary
            formats; raises InvalidBody. It also takes the names of the possible arrays, which a
            JSON object has among other members.
        with_header: returns this format for bodies of a shape and type; None if bodies have a
            header of their own.
        byte_seconds: the processor seconds of reading a byte.
    """

    read: Callable[[Block, Sequence[str]], Input]
    with_header: "Callable[[ArrayHeader], ReadableFormat] | None" = None
    byte_seconds: float = 1e-10

    def count_elements(self, body: Block) -> int:
        """Return how many elements a body has by its header, or 0 where that is wrong.

        Of text it is an estimate from the commas at its beginning.
        """
        if self.is_text:
            sample = bytes(body[:_SAMPLE_BYTES])
            return 1 + len(body) * sample.count(b",") // max(1, len(sample))
        try:
            return sum(map(size, self.read(body, ()).arrays.values()))
        except InvalidBody:
            return 0


def check_shape(name: str, shape: tuple[object, ...], where: str = "") -> None:
    """Refuse the shape of a received array unless it has axes and elements.

    A shape that passes may still promise more elements than the body has.
    """
    if not 1 <= len(shape) <= MAX_RANK:
        rule = f"has {len(shape)} axes: 1 to {MAX_RANK} are possible"
    elif any(isinstance(length, int) and length > _MAX_LENGTH for length in shape):
        rule = "has an axis longer than 2^63 - 1"
    elif not all(type(length) is int and length > 0 for length in shape):
        lengths = shortened(", ".join(map(str, shape)))
        rule = f"has the shape ({lengths}): every axis needs a length of 1 or more"
    else:
        return
    value = shortened(",".join(map(str, shape))) if where else None
    raise InvalidBody(f"{shortened(name)} {rule}", where or f"/{shortened(name)}", value)


def integers(name: str, elements: Elements) -> StoredTable:
    """Return elements of any of INTEGER_STORAGES as a table of int64, at most 64 MiB of them."""
    shown, where = shortened(name), f"/{shortened(name)}"
    if elements.size > MAX_INTEGERS:
        rule = f"{shown} has {elements.size} integers: at most {MAX_INTEGERS} are possible"
        raise InvalidBody(rule, where)
    if elements.dtype.str == "<u8" and elements.max() > np.uint64(2**63 - 1):
        raise InvalidBody(f"{shown} holds integers beyond 2^63 - 1", where)
    if elements.dtype == np.bool_ and (wrong := elements.view(np.uint8) > 1).any():
        index = tuple(map(int, np.unravel_index(wrong.argmax(), wrong.shape)))
        byte = int(elements.view(np.uint8)[index])
        rule = f"{shown} holds the byte {byte} at index {list(index)}: a bool is 0 or 1"
        raise InvalidBody(rule, where, str(byte))
    return StoredTable(elements, INT64)
