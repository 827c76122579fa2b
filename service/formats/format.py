"""What every format is: a name, and a way from a document to a body."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from service.errors import InvalidBody, shortened
from service.tables.document import Document
from service.tables.table import StoredTable

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


@dataclass(frozen=True)
class Input:
    """What a request body holds.

    Attributes:
        arrays: arrays by name.
        parameters: what stands beside them, by name; only JSON has any.
    """

    arrays: Mapping[str, StoredTable]
    parameters: Mapping[str, Any] = field(default_factory=dict)


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
    def version(self) -> str:
        """Whatever changes the bytes beside the document: the version of an encoder, or empty."""

    def refusal(self, document: Document) -> str | None:
        """Tell why the document cannot be written this way, or None."""

    def body(self, document: Document) -> Body:
        """Describe the bytes of a document that is not refused."""


class ReadableFormat(Format, Protocol):
    """A format that request bodies may come in, too."""

    def read(self, body: bytes) -> Input:
        """Read arrays, trusting nothing; raises InvalidBody."""


MAX_RANK = 8


def check_shape(name: str, shape: tuple[object, ...]) -> None:
    """Refuse the shape of an array sent here unless it has positions, channels and elements.

    Whatever passes is as many elements as its product says, which may still be more than came.
    """
    if not 2 <= len(shape) <= MAX_RANK:
        raise InvalidBody(
            f"{shortened(name)} has {len(shape)} axes: 2 to {MAX_RANK} are possible, "
            "the last two of them positions and channels"
        )
    if not all(type(length) is int and length > 0 for length in shape):
        lengths = shortened(", ".join(map(str, shape)))
        raise InvalidBody(f"{shortened(name)} has no elements: its shape is ({lengths})")


def several_arrays(document: Document) -> str | None:
    """Tell how to get a document with several arrays in a format for one."""
    if len(document.arrays) == 1:
        return None
    hint = f": add part={'|'.join(document.arrays)}" if document.has_parts else ""
    return f"it holds one array and these are {len(document.arrays)}{hint}"
