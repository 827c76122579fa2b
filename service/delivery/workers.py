"""Threads for everything that computes: the event loop only waits."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class Workers:
    """Run work on a bounded number of threads, in the order in which it comes."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="posref-worker")

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do work on a thread and wait for it."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def iterate(self, blocks: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Make one block at a time, each when it is asked for."""
        while (block := await self.run(lambda: next(blocks, None))) is not None:
            yield block

    def close(self) -> None:
        """Finish what is running and drop what waits."""
        self._pool.shutdown(wait=True, cancel_futures=True)
