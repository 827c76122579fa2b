"""What every format is: a name, and a way from a document to a body."""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

from service.formats.received import Input
from service.tables.document import Document

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
