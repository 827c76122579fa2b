"""The body cache, and the bodies that are made from others: compressed ones and digests.

Each body is built once, however many requests wait for it.
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

# Some builds of zlib make different bytes from different portions: portions have a fixed size.
_PORTION_BYTES = 64 * 1024

# Level 1 takes a sixth of the time of level 6, and its output is a tenth longer for tables.
_GZIP_LEVEL = 1
_GZIP_WINDOW = zlib.MAX_WBITS | 16

BodyTransform = Callable[[Iterable[Block]], Iterator[Block]]


@dataclass(frozen=True)
class DerivedBody:
    """A body that is made from another one.

    Attributes:
        source: the other body.
        transform: makes the blocks from those of the source; some may be empty, so that the
            consumer can stop in between.
    """

    source: Body
    transform: BodyTransform

    @property
    def length_bytes(self) -> int | None:
        """None: only computing the body tells."""
        return None

    @property
    def limit_bytes(self) -> int:
        """The limit of the source, which determines the work."""
        return self.source.limit_bytes

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Yield the blocks of the whole body; raises ValueError for a part."""
        if start != 0 or stop is not None:
            raise ValueError("a derived body has no parts")
        return self.transform(self.source.blocks())


def gzipped(blocks: Iterable[Block]) -> Iterator[Block]:
    """Compress blocks as one gzip member (RFC 1952) without a modification time."""
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    for portion in _portions(blocks):
        yield packer.compress(portion)
    yield packer.flush()


def _portions(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the bytes of all blocks in portions of a fixed size, and the rest."""
    begun = b""
    for block in blocks:
        ready = memoryview(begun + block if begun else block)
        whole_bytes = len(ready) - len(ready) % _PORTION_BYTES
        for start in range(0, whole_bytes, _PORTION_BYTES):
            yield ready[start : start + _PORTION_BYTES]
        begun = bytes(ready[whole_bytes:])
    yield begun


def checksum_line(blocks: Iterable[Block], file_name: str) -> Iterator[Block]:
    """Yield the SHA-256 of blocks as a line for ``sha256sum --check``."""
    digest = sha256()
    for block in blocks:
        digest.update(block)
        yield b""
    yield f"{digest.hexdigest()}  {file_name}\n".encode()


def repr_digest(body: bytes) -> str:
    """Return the value of Repr-Digest (RFC 9530) for a body."""
    return f"sha-256=:{b64encode(sha256(body).digest()).decode()}:"


_OVERHEAD_BYTES = 512


@dataclass(frozen=True)
class CachedBody:
    """A body, and the value of its Repr-Digest header."""

    body: bytes
    repr_digest: str

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> "CachedBody":
        body = b"".join(blocks)
        return cls(body, repr_digest(body))


class BodyCache:
    """Bodies by entity tag; belongs to one event loop.

    Attributes:
        builds: the number of builds that were started.
        build_durations: the durations of those that succeeded.
        hits: the number of bodies found.
        misses: the number of bodies that had to be built or waited for.
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
        """The memory of the bodies, their keys and their entries."""
        return self._bodies.size_bytes

    @property
    def capacity_bytes(self) -> int:
        """The limit of that memory."""
        return self._bodies.capacity_bytes

    @property
    def evictions(self) -> int:
        """The number of bodies that were removed to make room."""
        return self._bodies.evictions

    def has_room_for(self, key: str, body_bytes: int) -> bool:
        """Return whether the cache can keep a body of this length."""
        return _entry_bytes(key, body_bytes) <= self.capacity_bytes

    def find(self, key: str) -> CachedBody | None:
        """Return the body of a key if it is cached, and count the hit."""
        body = self._bodies.get(key)
        self.hits += body is not None
        return body

    def get_uncounted(self, key: str) -> CachedBody | None:
        """Like ``find``, without counting a hit: for a response that has found it before."""
        return self._bodies.get(key)

    async def get(self, key: str, build: Callable[[], Awaitable[CachedBody]]) -> CachedBody:
        """Return the body of a key; build it unless it is cached or being built.

        The build does not belong to one request: cancelling a request leaves it running for the
        others. A build that fails raises for all that wait, and the next request builds again.
        """
        cached = self.find(key)
        if cached is not None:
            return cached
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
