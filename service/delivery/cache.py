"""Finished bodies, kept up to a number of bytes, each built once however many ask at once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from service.delivery.derived import repr_digest
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
        builds: how many bodies were built.
        hits: how many were found.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._bodies: ByteBoundedLRU[str, Built] = ByteBoundedLRU(capacity_bytes)
        self._building: dict[str, asyncio.Task[Built]] = {}
        self.builds = 0
        self.hits = 0

    @property
    def size_bytes(self) -> int:
        """What the bodies, their keys and the books on them take."""
        return self._bodies.size_bytes

    def has_room_for(self, key: str, body_bytes: int) -> bool:
        """Tell whether a body is kept at all once it is built."""
        return _entry_bytes(key, body_bytes) <= self._bodies.capacity_bytes

    def find(self, key: str) -> Built | None:
        """Return the body of a key, if it is there."""
        found = self._bodies.get(key)
        self.hits += found is not None
        return found

    async def get(self, key: str, build: Callable[[], Awaitable[Built]]) -> Built:
        """Return the body of a key, building it unless it is there or being built.

        The build is nobody's own: a client that leaves does not take it away from the others. One
        that fails fails for all who wait, and is tried again by the next.
        """
        found = self.find(key)
        if found is not None:
            return found
        task = self._building.get(key)
        if task is None:
            task = asyncio.ensure_future(self._build(key, build))
            self._building[key] = task
            task.add_done_callback(lambda _: self._building.pop(key, None))
        return await asyncio.shield(task)

    async def _build(self, key: str, build: Callable[[], Awaitable[Built]]) -> Built:
        self.builds += 1
        built = await build()
        self._bodies.put(key, built, _entry_bytes(key, len(built.body)))
        return built


def _entry_bytes(key: str, body_bytes: int) -> int:
    return len(key) + body_bytes + _OVERHEAD_BYTES
