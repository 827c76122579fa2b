"""Threads for everything that computes: the event loop only waits."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from service.formats.format import BLOCK_BYTES, Block

Result = TypeVar("Result")

SHORT_WORK = 2**18
"""The sines, or as much work, that count as short: about a millisecond."""

_SHORT_LANE_THREADS = 1
_DRAWING_LANE_THREADS = 1

# Enough that the system lets the event loop go first where a core is wanted by both, and little
# enough that streams go on under any number of small requests; measured, see docs/performance.md.
_LONG_LANE_NICENESS = 3
_TURN_SECONDS = 0.004

# How long Python lets whoever draws go on while the event loop waits for the interpreter, in place
# of its own ten times as much: drawing is a tenth of a second of Python and little else.
_DRAWING_SWITCH_SECONDS = 0.0005


@dataclass(frozen=True)
class _Lane:
    """Threads that take turns at work, and leave to build so many bodies at a time."""

    threads: ThreadPoolExecutor
    building: asyncio.Semaphore

    @classmethod
    def of(cls, threads: int, name: str) -> "_Lane":
        """Make a lane that lets everything else go before."""
        pool = ThreadPoolExecutor(threads, f"posref-{name}", initializer=_give_way)
        return cls(pool, asyncio.Semaphore(threads))


class Workers:
    """Run work in lanes: short work never waits for long work, and none waits for a drawing.

    Each lane takes turns in the order in which work comes. Long work comes block by block, so all
    streams and builds share the threads of their lane evenly, however long they are. A drawing is
    one block that takes long.
    """

    def __init__(self, threads: int) -> None:
        self._long = _Lane.of(threads, "long")
        self._drawing = _Lane.of(_DRAWING_LANE_THREADS, "drawing")
        self._short = ThreadPoolExecutor(_SHORT_LANE_THREADS, thread_name_prefix="posref-short")

    async def run(self, work: Callable[[], Result], cost: int) -> Result:
        """Do work on a thread and wait for it.

        Args:
            work: what to do.
            cost: how much it is, in sines.
        """
        lane = self._short if cost <= SHORT_WORK else self._long.threads
        return await asyncio.get_running_loop().run_in_executor(lane, work)

    async def iterate(
        self, blocks: Iterator[Block], *, drawn: bool = False
    ) -> AsyncGenerator[Block, None]:
        """Make blocks in turns of bounded time and size, each while the one before it is used.

        Args:
            blocks: makes them.
            drawn: whether there is a drawing among them, which has no bounds.
        """
        loop = asyncio.get_running_loop()
        lane, turn = (self._drawing, _drawing_turn) if drawn else (self._long, _turn)
        ahead = loop.run_in_executor(lane.threads, turn, blocks)
        try:
            while (block := await ahead) is not None:
                ahead = loop.run_in_executor(lane.threads, turn, blocks)
                yield block
                del block
        finally:
            ahead.cancel()

    async def collect(self, blocks: Iterator[Block], *, drawn: bool = False) -> list[Block]:
        """Make all blocks of a body, of as many bodies at a time as there are threads.

        Bodies wait for their turn as a whole: those that are half made would take room.
        """
        lane = self._drawing if drawn else self._long
        async with lane.building:
            return [block async for block in self.iterate(blocks, drawn=drawn)]

    @property
    def waiting(self) -> int:
        """Count the pieces of work that wait for a thread."""
        return sum(pool._work_queue.qsize() for pool in self._pools)  # noqa: SLF001

    def close(self) -> None:
        """Finish what is running and drop what waits."""
        for pool in self._pools:
            pool.shutdown(wait=True, cancel_futures=True)

    @property
    def _pools(self) -> tuple[ThreadPoolExecutor, ...]:
        return self._long.threads, self._drawing.threads, self._short


def _give_way() -> None:
    """Let other threads go before this one; only Linux has a niceness for each thread."""
    if sys.platform == "linux":
        os.nice(_LONG_LANE_NICENESS)


def _drawing_turn(blocks: Iterator[Block]) -> Block | None:
    """Take a turn in which the event loop gets the interpreter sooner than Python would have it."""
    usual_seconds = sys.getswitchinterval()
    sys.setswitchinterval(_DRAWING_SWITCH_SECONDS)
    try:
        return _turn(blocks)
    finally:
        sys.setswitchinterval(usual_seconds)


def _turn(blocks: Iterator[Block]) -> Block | None:
    """Take blocks until they are many bytes or some time has passed; None where there are none."""
    taken: list[Block] = []
    taken_bytes, end = 0, monotonic() + _TURN_SECONDS
    for block in blocks:
        taken.append(block)
        taken_bytes += len(block)
        if taken_bytes >= BLOCK_BYTES // 2 or monotonic() >= end:
            break
    if len(taken) == 1:
        return taken[0]
    return b"".join(taken) if taken else None
