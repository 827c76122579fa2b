"""Work on threads, never on the event loop, and no short work behind long work."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from service.delivery.workers import SHORT_WORK, Workers
from service.formats.format import BLOCK_BYTES, Block


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(1)
    yield made
    made.close()


def this_thread() -> str:
    return threading.current_thread().name


def test_work_runs_on_threads_by_its_cost(workers: Workers) -> None:
    assert asyncio.run(workers.run(this_thread, SHORT_WORK)).startswith("posref-short")
    assert asyncio.run(workers.run(this_thread, SHORT_WORK + 1)).startswith("posref-long")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process has one niceness")
def test_long_work_gives_way_to_the_loop_and_to_short_work(workers: Workers) -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async def scenario() -> None:
        loop = niceness()
        assert await workers.run(niceness, 1) == loop
        assert await workers.run(niceness, SHORT_WORK + 1) == min(loop + 3, 19)

    asyncio.run(scenario())


def test_short_work_passes_long_work(workers: Workers) -> None:
    async def scenario() -> None:
        end = threading.Event()
        long = [asyncio.ensure_future(workers.run(end.wait, SHORT_WORK + 1)) for _ in range(9)]
        await asyncio.sleep(0)

        assert await workers.run(this_thread, 1)
        assert not any(work.done() for work in long)
        assert workers.waiting == 8
        end.set()
        await asyncio.gather(*long)

    asyncio.run(scenario())


def test_a_drawing_is_waited_for_by_nothing_else(workers: Workers) -> None:
    begun, end = threading.Event(), threading.Event()

    def drawing() -> Iterator[Block]:
        begun.set()
        assert end.wait(10)
        yield this_thread().encode()

    async def scenario() -> None:
        drawn = asyncio.ensure_future(workers.collect(drawing(), drawn=True))
        await asyncio.to_thread(begun.wait)

        other = asyncio.ensure_future(workers.collect(drawing(), drawn=True))
        assert await workers.collect(iter([b"body"])) == [b"body"]
        assert [block async for block in workers.iterate(iter([b"stream"]))] == [b"stream"]
        assert await workers.run(this_thread, 1)

        assert not drawn.done()
        assert not other.done()
        end.set()
        (name,) = await drawn
        assert bytes(name).startswith(b"posref-drawing")
        await other

    asyncio.run(scenario())


def test_the_loop_gets_the_interpreter_sooner_while_something_is_drawn(workers: Workers) -> None:
    usual = sys.getswitchinterval()
    seen: list[float] = []

    def drawing() -> Iterator[Block]:
        seen.append(sys.getswitchinterval())
        yield b"picture"
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        asyncio.run(workers.collect(drawing(), drawn=True))

    assert seen == [pytest.approx(0.0005)]
    assert sys.getswitchinterval() == usual


def test_streams_take_turns_on_a_thread(workers: Workers) -> None:
    turns: list[str] = []

    def blocks(name: str) -> Iterator[Block]:
        for _ in range(4):
            turns.append(name)
            yield bytes(BLOCK_BYTES)

    async def exhaust(name: str) -> None:
        async for _ in workers.iterate(blocks(name)):
            pass

    async def scenario() -> None:
        await asyncio.gather(exhaust("a"), exhaust("b"))

    asyncio.run(scenario())

    assert turns == ["a", "b"] * 4


def test_bodies_are_made_one_after_the_other_while_a_stream_goes_on(workers: Workers) -> None:
    turns: list[str] = []

    def blocks(name: str) -> Iterator[Block]:
        for _ in range(3):
            turns.append(name)
            yield bytes(BLOCK_BYTES)

    async def exhaust() -> None:
        async for _ in workers.iterate(blocks("stream")):
            pass

    async def scenario() -> None:
        stream = asyncio.ensure_future(exhaust())
        bodies = await asyncio.gather(*(workers.collect(blocks(name)) for name in ("a", "b")))
        await stream
        assert [len(body) for body in bodies] == [3, 3]

    asyncio.run(scenario())

    of_bodies = [name for name in turns if name != "stream"]
    assert of_bodies == ["a", "a", "a", "b", "b", "b"]
    assert turns.index("stream") < turns.index("b")


def test_one_block_is_made_while_the_one_before_it_is_used(workers: Workers) -> None:
    made: list[int] = []

    def blocks() -> Iterator[Block]:
        for number in range(10):
            made.append(number)
            yield bytes([number]) * BLOCK_BYTES

    async def scenario() -> None:
        iterated = workers.iterate(blocks())
        assert await anext(iterated) == b"\0" * BLOCK_BYTES
        assert await anext(iterated) == b"\1" * BLOCK_BYTES
        await iterated.aclose()

    asyncio.run(scenario())
    workers.close()

    assert made in ([0, 1], [0, 1, 2])


def test_small_blocks_are_made_together(workers: Workers) -> None:
    async def scenario() -> list[Block]:
        return [block async for block in workers.iterate(iter([b"a", b"", b"b"]))]

    assert asyncio.run(scenario()) == [b"ab"]


def test_a_turn_ends_though_it_made_no_bytes(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.delivery.workers._TURN_SECONDS", 0)

    async def scenario() -> list[Block]:
        return [block async for block in workers.iterate(iter([b"", b"", b"end"]))]

    assert asyncio.run(scenario()) == [b"", b"", b"end"]


def test_a_failure_reaches_who_waits(workers: Workers) -> None:
    def fail() -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        asyncio.run(workers.run(fail, 1))
