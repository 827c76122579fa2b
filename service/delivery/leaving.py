"""Clients that leave while they wait: what was to be made for them alone is made no more."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

Result = TypeVar("Result")


async def unless_gone(receive: Receive, answering: Coroutine[Any, Any, Result]) -> Result:
    """Wait for an answer to a request that has come whole, while its client does.

    Raises:
        ClientDisconnect: it has left; the answer is cancelled.
    """
    answer, gone = asyncio.ensure_future(answering), asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
        raise ClientDisconnect
    finally:
        answer.cancel()
        gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Askers:
    """Count who waits for what is made once for all who ask; belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        self._making: dict[str, asyncio.Task[Any]] = {}

    async def wait(self, key: str, get: Callable[[], Awaitable[Result]]) -> Result:
        """Wait for what is made under a key; whoever leaves last stops it.

        Args:
            key: its name.
            get: finds it, has it made or joins those who wait already.
        """
        self._waiting[key] += 1
        try:
            while True:
                try:
                    return await get()
                except asyncio.CancelledError:
                    if _current_task().cancelling():
                        raise
                    # It was being stopped when this one came; whoever keeps it forgets it first.
                    await asyncio.sleep(0)
        finally:
            self._leave(key)

    async def make(self, key: str, making: Callable[[], Awaitable[Result]]) -> Result:
        """Make it, in a task of its own, while anybody waits."""
        self._making[key] = _current_task()
        try:
            return await making()
        finally:
            del self._making[key]

    def _leave(self, key: str) -> None:
        self._waiting[key] -= 1
        if self._waiting[key]:
            return
        del self._waiting[key]
        if key in self._making:
            self._making[key].cancel()


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task
