"""What is made of the bytes of a file: the same bytes compressed, or their digest."""

import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from service.formats.format import Block, Body

# What the packer is given at a time: some builds of zlib make other bytes of other portions.
_PORTION_BYTES = 64 * 1024

# Level 1 takes a sixth of the time of level 6 and makes tables of numbers a tenth longer.
_GZIP_LEVEL = 1
_GZIP_WINDOW = zlib.MAX_WBITS | 16

Derive = Callable[[Iterable[Block]], Iterator[Block]]


@dataclass(frozen=True)
class DerivedBody:
    """A body that another one is the source of.

    Attributes:
        source: that body.
        derive: makes this one's blocks of that one's; some may be empty, so that whoever waits
            for them can stop.
    """

    source: Body
    derive: Derive

    @property
    def length_bytes(self) -> int | None:
        """Unknown until made."""
        return None

    @property
    def limit_bytes(self) -> int:
        """That of the source, which is what the work goes by."""
        return self.source.limit_bytes

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Make the whole of it, in blocks."""
        if start != 0 or stop is not None:
            raise ValueError("a derived body is only made whole")
        return self.derive(self.source.blocks())


def gzipped(blocks: Iterable[Block]) -> Iterator[Block]:
    """Compress blocks as one gzip member (RFC 1952) without a time in it."""
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    for portion in _portions(blocks):
        yield packer.compress(portion)
    yield packer.flush()


def _portions(blocks: Iterable[Block]) -> Iterator[Block]:
    """Cut the bytes of all blocks together into portions of one size, and a last one."""
    begun = b""
    for block in blocks:
        ready = memoryview(begun + block if begun else block)
        whole_bytes = len(ready) - len(ready) % _PORTION_BYTES
        for start in range(0, whole_bytes, _PORTION_BYTES):
            yield ready[start : start + _PORTION_BYTES]
        begun = bytes(ready[whole_bytes:])
    yield begun


def checksum_line(blocks: Iterable[Block], file_name: str) -> Iterator[Block]:
    """Write the SHA-256 of blocks the way that ``sha256sum --check`` reads it."""
    digest = sha256()
    for block in blocks:
        digest.update(block)
        yield b""
    yield f"{digest.hexdigest()}  {file_name}\n".encode()


def repr_digest(body: bytes) -> str:
    """Spell the digest of a body for a Repr-Digest header (RFC 9530)."""
    return f"sha-256=:{b64encode(sha256(body).digest()).decode()}:"
