"""A store bounded by bytes that forgets what was used least recently."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ByteBoundedLRU(Generic[Key, Value]):
    """Keep values up to a sum of sizes; safe to use from any thread.

    Attributes:
        capacity_bytes: that sum.
        size_bytes: the sum at present.
        evictions: how many values were forgotten to make room.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.size_bytes = 0
        self.evictions = 0
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, now the most recently used, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Key, value: Value, size_bytes: int) -> None:
        """Keep a value, forgetting others as needed; one larger than the whole store is not kept.

        Args:
            key: what it is found under; a value already there is replaced.
            value: anything.
            size_bytes: what it counts for, key and overhead included.
        """
        with self._lock:
            self._forget(key)
            if size_bytes > self.capacity_bytes:
                return
            self._entries[key] = (value, size_bytes)
            self.size_bytes += size_bytes
            while self.size_bytes > self.capacity_bytes:
                self._forget(next(iter(self._entries)))
                self.evictions += 1

    def _forget(self, key: Key) -> None:
        _, size_bytes = self._entries.pop(key, (None, 0))
        self.size_bytes -= size_bytes
