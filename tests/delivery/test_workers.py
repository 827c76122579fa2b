"""Work on threads, never on the event loop."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from service.delivery.workers import Workers


def test_work_runs_on_a_thread_of_its_own() -> None:
    workers = Workers(1)

    name = asyncio.run(workers.run(lambda: threading.current_thread().name))

    workers.close()
    assert name.startswith("posref-worker")


def test_blocks_are_made_one_at_a_time_when_asked_for() -> None:
    made: list[int] = []

    def blocks() -> Iterator[bytes]:
        for number in range(10):
            made.append(number)
            yield bytes([number])

    async def scenario() -> None:
        iterated = workers.iterate(blocks())
        assert await anext(iterated) == b"\0"
        assert await anext(iterated) == b"\1"
        await iterated.aclose()

    workers = Workers(2)
    asyncio.run(scenario())
    workers.close()
    assert made == [0, 1]


def test_a_failure_reaches_who_waits() -> None:
    def fail() -> None:
        raise ArithmeticError

    workers = Workers(1)

    with pytest.raises(ArithmeticError):
        asyncio.run(workers.run(fail))
    workers.close()
