"""``bin``: the elements without a header, little-endian, in C order."""

from service.formats.format import BinaryBody, Format

RAW = Format(
    extension="bin",
    media_type="application/octet-stream",
    name="bin",
    body=lambda document: BinaryBody(tuple(document.arrays.values())),
)
