"""Threads for everything that computes: the event loop only waits."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeVar

from service.formats.format import BLOCK_BYTES, Block

Result = TypeVar("Result")

SHORT_WORK = 2**18
"""The sines, or as much work, that count as short: about a millisecond."""

_SHORT_LANE_THREADS = 1

# Enough that the system lets the event loop go first where a core is wanted by both, and little
# enough that streams go on under any number of small requests; measured, see docs/performance.md.
_LONG_LANE_NICENESS = 3
_TURN_SECONDS = 0.004


class Workers:
    """Run work in two lanes, by its cost: short work never waits for long work.

    Each lane takes turns in the order in which work comes. Long work comes block by block, so all
    streams and builds share the threads of their lane evenly, however long they are.
    """

    def __init__(self, threads: int) -> None:
        self._long = ThreadPoolExecutor(
            threads, thread_name_prefix="posref-long", initializer=_give_way
        )
        self._collecting = asyncio.Semaphore(threads)
        self._short = ThreadPoolExecutor(_SHORT_LANE_THREADS, thread_name_prefix="posref-short")

    async def run(self, work: Callable[[], Result], cost: int) -> Result:
        """Do work on a thread and wait for it.

        Args:
            work: what to do.
            cost: how much it is, in sines.
        """
        lane = self._short if cost <= SHORT_WORK else self._long
        return await asyncio.get_running_loop().run_in_executor(lane, work)

    async def iterate(self, blocks: Iterator[Block]) -> AsyncGenerator[Block, None]:
        """Make blocks in turns of bounded time and size, each while the one before it is used."""
        loop = asyncio.get_running_loop()
        ahead = loop.run_in_executor(self._long, _turn, blocks)
        try:
            while (block := await ahead) is not None:
                ahead = loop.run_in_executor(self._long, _turn, blocks)
                yield block
                del block
        finally:
            ahead.cancel()

    async def collect(self, blocks: Iterator[Block]) -> list[Block]:
        """Make all blocks of a body, of as many bodies at a time as there are threads.

        Bodies wait for their turn as a whole: those that are half made would take room.
        """
        async with self._collecting:
            return [block async for block in self.iterate(blocks)]

    @property
    def waiting(self) -> int:
        """Count the pieces of work that wait for a thread."""
        return self._long._work_queue.qsize() + self._short._work_queue.qsize()  # noqa: SLF001

    def close(self) -> None:
        """Finish what is running and drop what waits."""
        for lane in (self._long, self._short):
            lane.shutdown(wait=True, cancel_futures=True)


def _give_way() -> None:
    """Let other threads go before this one; only Linux has a niceness for each thread."""
    if sys.platform == "linux":
        os.nice(_LONG_LANE_NICENESS)


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
