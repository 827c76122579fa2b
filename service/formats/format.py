"""Arrays as they are received: shapes that can be trusted, integers of every type as one.

What every format is: a name, and a way from a document to a body.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from service.errors import InvalidBody, shortened
from service.numerics.document import Document
from service.numerics.dtypes import INT64, Elements
from service.numerics.tables import StoredTable

MAX_RANK = 8
_MAX_LENGTH = 2**63 - 1

MAX_INTEGERS = 2**23

INTEGER_STORAGES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8")
"""How integers and truth values may be stored."""


@dataclass(frozen=True)
class Input:
    """What a request body holds.

    Attributes:
        arrays: arrays by name, of real types, of complex ones, or of int64.
        parameters: what stands beside them, by name; only JSON has any.
        is_named: whether the names are the sender's: a format for one array has none.
        integer_types: the names of the types that integers were sent in, by array.
        is_text: whether its numbers were text: that has no type, and they are float64 here.
    """

    arrays: Mapping[str, StoredTable]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_named: bool = True
    integer_types: Mapping[str, str] = field(default_factory=dict)
    is_text: bool = False


def check_shape(name: str, shape: tuple[object, ...]) -> None:
    """Refuse the shape of an array sent here unless it has axes and elements.

    Whatever passes is as many elements as its product says, which may still be more than came.
    """
    if not 1 <= len(shape) <= MAX_RANK:
        raise InvalidBody(f"{shortened(name)} has {len(shape)} axes: 1 to {MAX_RANK} are possible")
    if any(isinstance(length, int) and length > _MAX_LENGTH for length in shape):
        raise InvalidBody(f"{shortened(name)} has an axis longer than 2^63 - 1")
    if not all(type(length) is int and length > 0 for length in shape):
        lengths = shortened(", ".join(map(str, shape)))
        raise InvalidBody(f"{shortened(name)} has no elements: its shape is ({lengths})")


def integers(name: str, elements: Elements) -> StoredTable:
    """Hold elements of any of INTEGER_STORAGES as int64, no more than fit into 64 MiB."""
    if elements.size > MAX_INTEGERS:
        raise InvalidBody(
            f"{shortened(name)} has {elements.size} integers: at most {MAX_INTEGERS} are possible"
        )
    if elements.dtype.str == "<u8" and (elements > np.uint64(2**63 - 1)).any():
        raise InvalidBody(f"{shortened(name)} holds integers beyond 2^63 - 1")
    return StoredTable(elements.astype(np.int64), INT64)


Block: TypeAlias = bytes | memoryview


class Body(Protocol):
    """The bytes of an answer, known by their number and made when asked for."""

    @property
    def length_bytes(self) -> int | None:
        """How many bytes there are, or None where only making them tells."""

    @property
    def limit_bytes(self) -> int:
        """A number of bytes that the body does not exceed."""

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Make the bytes from start to stop in blocks of about BLOCK_BYTES.

        Only a body of known length can be entered in the middle or left early.
        """


BLOCK_BYTES = 512 * 1024


class Format(Protocol):
    """One way to write documents."""

    @property
    def extension(self) -> str:
        """What a URL ends with to ask for it, without the dot."""

    @property
    def media_type(self) -> str:
        """Its name in Accept and Content-Type."""

    @property
    def is_text(self) -> bool:
        """Whether it spells numbers out, which a content coding makes shorter."""

    @property
    def is_drawn(self) -> bool:
        """Whether a library draws it: in one long step, to bytes that no promise is made of."""

    @property
    def version(self) -> str:
        """Whatever changes the bytes beside the document: the version of an encoder, or empty."""

    def refusal(self, document: Document) -> str | None:
        """Tell why the document cannot be written this way, or None."""

    def body(self, document: Document) -> Body:
        """Describe the bytes of a document that is not refused."""


class ReadableFormat(Format, Protocol):
    """A format that request bodies may come in, too."""

    def read(self, body: bytes, names: Sequence[str]) -> Input:
        """Read arrays, trusting nothing; raises InvalidBody.

        Args:
            body: the bytes.
            names: of the arrays there may be, where they stand among other things.
        """


def several_arrays(document: Document) -> str | None:
    """Tell how to get a document with several arrays in a format for one."""
    if len(document.arrays) == 1:
        return None
    hint = f": add part={'|'.join(document.arrays)}" if document.has_parts else ""
    return f"it holds one array and these are {len(document.arrays)}{hint}"


def fewer_axes(document: Document) -> str:
    """Tell how to get a table with two axes in place of one with more, where there is a way."""
    (table,) = document.arrays.values()
    ways = [document.removable[axis] for axis in document.axes if axis in document.removable]
    excess = len(table.shape) - 2
    return f": {' and '.join(ways[:excess])}" if 0 < excess <= len(ways) else ""
