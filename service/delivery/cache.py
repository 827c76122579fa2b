"""What is made of the bytes of a file: the same bytes compressed, or their digest.

Finished bodies, kept up to a number of bytes, each built once however many ask at once.
"""

import asyncio
import zlib
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from time import perf_counter

from service.delivery.telemetry.counters import Histogram
from service.formats.format import Block, Body
from service.lru import ByteBoundedLRU

# What the packer is given at a time: some builds of zlib make other bytes of other portions.
_PORTION_BYTES = 64 * 1024

# Level 1 takes a sixth of the time of level 6 and makes tables of numbers a tenth longer.
_GZIP_LEVEL = 1
_GZIP_WINDOW = zlib.MAX_WBITS | 16

BodyTransform = Callable[[Iterable[Block]], Iterator[Block]]


@dataclass(frozen=True)
class DerivedBody:
    """A body that another one is the source of.

    Attributes:
        source: that body.
        derive: makes this one's blocks of that one's; some may be empty, so that whoever waits
            for them can stop.
    """

    source: Body
    derive: BodyTransform

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


_OVERHEAD_BYTES = 512


@dataclass(frozen=True)
class CachedBody:
    """A body that is there, and its digest as Repr-Digest spells it."""

    body: bytes
    repr_digest: str

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> "CachedBody":
        """Put blocks together."""
        body = b"".join(blocks)
        return cls(body, repr_digest(body))


class BodyCache:
    """Keep bodies by entity tag; belongs to one event loop.

    Attributes:
        builds: how many bodies were begun to be built.
        build_durations: how long those took that were.
        hits: how many were found.
        misses: how many had to be waited for.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._bodies: ByteBoundedLRU[str, CachedBody] = ByteBoundedLRU(capacity_bytes)
        self._building: dict[str, asyncio.Task[CachedBody]] = {}
        self.builds = 0
        self.build_durations = Histogram()
        self.hits = 0
        self.misses = 0

    @property
    def size_bytes(self) -> int:
        """What the bodies, their keys and the books on them take."""
        return self._bodies.size_bytes

    @property
    def capacity_bytes(self) -> int:
        """What they may take."""
        return self._bodies.capacity_bytes

    @property
    def evictions(self) -> int:
        """How many bodies were forgotten to make room."""
        return self._bodies.evictions

    def has_room_for(self, key: str, body_bytes: int) -> bool:
        """Tell whether a body is kept at all once it is built."""
        return _entry_bytes(key, body_bytes) <= self.capacity_bytes

    def find(self, key: str) -> CachedBody | None:
        """Return the body of a key, if it is there."""
        found = self._bodies.get(key)
        self.hits += found is not None
        return found

    def peek(self, key: str) -> CachedBody | None:
        """Return the body of a key, if it is there, for an answer that has found it before."""
        return self._bodies.get(key)

    async def get(self, key: str, build: Callable[[], Awaitable[CachedBody]]) -> CachedBody:
        """Return the body of a key, building it unless it is there or being built.

        The build is nobody's own: a client that leaves does not take it away from the others. One
        that fails fails for all who wait, and is tried again by the next.
        """
        found = self.find(key)
        if found is not None:
            return found
        self.misses += 1
        task = self._building.get(key)
        if task is None:
            task = asyncio.ensure_future(self._build(key, build))
            self._building[key] = task
            task.add_done_callback(lambda _: self._building.pop(key, None))
        return await asyncio.shield(task)

    async def _build(self, key: str, build: Callable[[], Awaitable[CachedBody]]) -> CachedBody:
        self.builds += 1
        begun_at = perf_counter()
        built = await build()
        self.build_durations.observe(perf_counter() - begun_at)
        self._bodies.put(key, built, _entry_bytes(key, len(built.body)))
        return built


def _entry_bytes(key: str, body_bytes: int) -> int:
    return len(key) + body_bytes + _OVERHEAD_BYTES
