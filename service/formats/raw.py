"""``bin``: the elements alone, little-endian, in C order."""

from dataclasses import dataclass

from service.formats.binary import BinaryBody
from service.formats.format import several_arrays
from service.tables.document import Document


@dataclass(frozen=True)
class RawFormat:
    """The bytes of one array."""

    extension: str = "bin"
    media_type: str = "application/octet-stream"
    is_text: bool = False
    is_drawn: bool = False
    version: str = ""

    def refusal(self, document: Document) -> str | None:
        """Refuse several arrays: nothing would tell one from the next."""
        return several_arrays(document)

    def body(self, document: Document) -> BinaryBody:
        """Write the array."""
        return BinaryBody(tuple(document.arrays.values()))


RAW = RawFormat()
