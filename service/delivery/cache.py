"""Finished bodies, kept up to a number of bytes, each built once however many ask at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from time import perf_counter

from service.delivery.derived import repr_digest
from service.delivery.histogram import Histogram
from service.formats.format import Block
from service.lru import ByteBoundedLRU

_OVERHEAD_BYTES = 512


@dataclass(frozen=True)
class Built:
    """A body that is there, and its digest as Repr-Digest spells it."""

    body: bytes
    repr_digest: str

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> "Built":
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
        self._bodies: ByteBoundedLRU[str, Built] = ByteBoundedLRU(capacity_bytes)
        self._building: dict[str, asyncio.Task[Built]] = {}
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

    def find(self, key: str) -> Built | None:
        """Return the body of a key, if it is there."""
        found = self._bodies.get(key)
        self.hits += found is not None
        return found

    def peek(self, key: str) -> Built | None:
        """Return the body of a key, if it is there, for an answer that has found it before."""
        return self._bodies.get(key)

    async def get(self, key: str, build: Callable[[], Awaitable[Built]]) -> Built:
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

    async def _build(self, key: str, build: Callable[[], Awaitable[Built]]) -> Built:
        self.builds += 1
        begun_at = perf_counter()
        built = await build()
        self.build_durations.observe(perf_counter() - begun_at)
        self._bodies.put(key, built, _entry_bytes(key, len(built.body)))
        return built


def _entry_bytes(key: str, body_bytes: int) -> int:
    return len(key) + body_bytes + _OVERHEAD_BYTES
