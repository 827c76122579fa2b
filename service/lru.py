"""A cache bounded by bytes that evicts the least recently used value."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ByteBoundedLRU(Generic[Key, Value]):
    """Cache values up to a sum of sizes; safe to use from any thread.

    Attributes:
        capacity_bytes: the largest sum.
        size_bytes: the current sum.
        evictions: the number of values evicted to make room.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.size_bytes = 0
        self.evictions = 0
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        """Return whether a key has a value; this does not count as a use."""
        return key in self._entries

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, now the most recently used, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Key, value: Value, size_bytes: int) -> list[Value]:
        """Add or replace a value; return the replaced value and those evicted to make room.

        A value larger than the cache is not kept. The size should include key and overhead.
        """
        with self._lock:
            replaced = self._remove(key) if key in self._entries else []
            if size_bytes > self.capacity_bytes:
                return replaced
            self._entries[key] = (value, size_bytes)
            self.size_bytes += size_bytes
            return replaced + self._evict(self.capacity_bytes)

    def shrink(self, by_bytes: int) -> list[Value]:
        """Evict values of at least ``by_bytes`` bytes, or all; return them."""
        with self._lock:
            return self._evict(self.size_bytes - by_bytes)

    def _evict(self, most_bytes: int) -> list[Value]:
        evicted: list[Value] = []
        while self._entries and self.size_bytes > most_bytes:
            evicted += self._remove(next(iter(self._entries)))
            self.evictions += 1
        return evicted

    def _remove(self, key: Key) -> list[Value]:
        value, size_bytes = self._entries.pop(key)
        self.size_bytes -= size_bytes
        return [value]


_shared: list[ByteBoundedLRU[Any, Any]] = []


def shared(cache: ByteBoundedLRU[Key, Value]) -> ByteBoundedLRU[Key, Value]:
    """Register a cache of this process for ``shrink_shared``, and return it."""
    _shared.append(cache)
    return cache


def shrink_shared(most_bytes: int) -> None:
    """Shrink all shared caches to their parts of ``most_bytes``, in proportion to capacity."""
    sum_bytes = sum(cache.capacity_bytes for cache in _shared)
    for cache in _shared:
        cache.shrink(cache.size_bytes - most_bytes * cache.capacity_bytes // sum_bytes)
