"""A harness: the promises of a parser as a function of any bytes, with seeds."""

import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

Choice = TypeVar("Choice")


class Source:
    """Choices read from bytes; the first choice after their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def bytes(self, most: int) -> bytes:
        taken = self._data[self._place : self._place + most]
        self._place += len(taken)
        return taken

    def integer(self, low: int, high: int) -> int:
        width_bytes = -(-(high - low).bit_length() // 8)
        return low + int.from_bytes(self.bytes(width_bytes), "little") % (high - low + 1)

    def pick(self, choices: Sequence[Choice]) -> Choice:
        return choices[self.integer(0, len(choices) - 1)]

    def happens(self, one_in: int) -> bool:
        return self.integer(0, one_in - 1) == one_in - 1


@dataclass(frozen=True)
class Harness:
    """A parser and its promises.

    Attributes:
        check: fails if a promise does not hold for the bytes; returns whether they are accepted.
        build: builds nearly valid bytes.
        seeds: valid bytes, and bytes that were once misread.
        tokens: words of the format.
    """

    check: Callable[[bytes], bool]
    build: Callable[[Source], bytes]
    seeds: tuple[bytes, ...]
    tokens: tuple[bytes, ...] = ()

    def run(self, data: bytes) -> bool:
        """Check the bytes, or an input built from them, as the first byte selects."""
        is_built = bool(data) and data[0] % 2 == 1
        return self.check(self.build(Source(data[1:])) if is_built else data[1:])


def as_sent(seed: bytes) -> bytes:
    """Return the input of a harness that checks these bytes."""
    return b"\0" + seed


@contextmanager
def held_to(limit_bytes: int) -> Iterator[None]:
    """Fail if the block allocates more bytes in Python and NumPy, or warns."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        tracemalloc.start()
        try:
            yield
        finally:
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            # Refusals are checked too.
            assert peak_bytes <= limit_bytes, f"{peak_bytes} bytes: {limit_bytes} are plenty"
            assert not warned, f"warned: {warned[0].message}"
