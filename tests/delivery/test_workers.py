"""Work on threads, never on the event loop, no short work behind long work, bounded lines."""

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest

from service.delivery.gate import Gate
from service.delivery.workers import SHORT_WORK, Workers
from service.errors import Overloaded
from service.formats.format import BLOCK_BYTES, Block
from service.settings import default_settings


@pytest.fixture
def workers() -> Iterator[Workers]:
    with workers_with() as made:
        yield made


@contextmanager
def workers_with(**limits: float) -> Iterator[Workers]:
    """Make workers of one thread for long work, with limits in place of the usual ones."""
    made = Workers(1, Gate(default_settings().model_copy(update=limits)))
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
        assert workers.waiting_by_lane() == {"short": 0, "long": 8, "drawing": 0}
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
        drawn = asyncio.ensure_future(workers.collect(drawing(), list, drawn=True))
        await asyncio.to_thread(begun.wait)

        other = asyncio.ensure_future(workers.collect(drawing(), list, drawn=True))
        assert await workers.collect(iter([b"body"]), list) == [b"body"]
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
        asyncio.run(workers.collect(drawing(), list, drawn=True))

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
        bodies = await asyncio.gather(*(workers.collect(blocks(name), list) for name in ("a", "b")))
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


class Stuck:
    """Work that takes a thread until it is let go, and notes what begins."""

    def __init__(self) -> None:
        self.begun = 0
        self.taken, self._go = threading.Event(), threading.Event()

    def work(self) -> None:
        self.begun += 1
        self.taken.set()
        assert self._go.wait(10)

    def blocks(self) -> Iterator[Block]:
        self.work()
        yield b"block"

    async def take(self, workers: Workers, cost: int = SHORT_WORK + 1) -> asyncio.Task[None]:
        task = asyncio.ensure_future(workers.run(self.work, cost))
        await asyncio.to_thread(self.taken.wait, 10)
        return task

    def let_go(self) -> None:
        self._go.set()


async def ask_for_work(workers: Workers) -> None:
    await workers.run(this_thread, SHORT_WORK + 1)


async def ask_for_short_work(workers: Workers) -> None:
    await workers.run(this_thread, 1)


async def ask_for_a_stream(workers: Workers) -> None:
    await workers.begin(iter([b"block"]))


async def ask_for_a_body(workers: Workers) -> None:
    await workers.collect(iter([b"block"]), list)


async def ask_for_a_drawing(workers: Workers) -> None:
    await workers.collect(iter([b"block"]), list, drawn=True)


async def take_lane(workers: Workers, stuck: Stuck, lane: str) -> asyncio.Task[object]:
    """Keep the thread of a lane busy."""
    if lane != "drawing":
        return await stuck.take(workers, 1 if lane == "short" else SHORT_WORK + 1)
    drawing = asyncio.ensure_future(workers.collect(stuck.blocks(), list, drawn=True))
    await asyncio.to_thread(stuck.taken.wait, 10)
    return drawing


WHATEVER_IS_ASKED = pytest.mark.parametrize(
    ("ask", "lane"),
    [
        (ask_for_work, "long"),
        (ask_for_short_work, "short"),
        (ask_for_a_stream, "long"),
        (ask_for_a_body, "long"),
        (ask_for_a_drawing, "drawing"),
    ],
)


@WHATEVER_IS_ASKED
def test_what_comes_to_a_full_line_is_refused_and_what_waits_there_is_done(
    ask: Callable[[Workers], Awaitable[None]], lane: str
) -> None:
    async def scenario(workers: Workers) -> None:
        stuck = Stuck()
        running = await take_lane(workers, stuck, lane)
        waiting = [asyncio.ensure_future(ask(workers)) for _ in range(2)]
        await asyncio.sleep(0)
        assert workers.waiting_by_lane()[lane] == 2

        with pytest.raises(Overloaded, match="POSREF_MAX_WAITING"):
            await ask(workers)
        stuck.let_go()
        await asyncio.gather(running, *waiting)
        assert workers.waiting_by_lane()[lane] == 0
        await ask(workers)

    with workers_with(max_waiting=2) as workers:
        asyncio.run(scenario(workers))


@WHATEVER_IS_ASKED
def test_what_has_waited_too_long_is_refused(
    ask: Callable[[Workers], Awaitable[None]], lane: str
) -> None:
    async def scenario(workers: Workers) -> None:
        stuck = Stuck()
        running = await take_lane(workers, stuck, lane)

        with pytest.raises(Overloaded, match=f"^{lane} work .*POSREF_WAIT_SECONDS"):
            await ask(workers)
        assert workers.waiting_by_lane()[lane] == 0
        # What runs is past its own deadline, and is waited for none the less.
        assert not running.done()
        stuck.let_go()
        await running
        await ask(workers)

    with workers_with(wait_seconds=0.02) as workers:
        asyncio.run(scenario(workers))


class Large:
    """What a piece of work holds."""


@pytest.mark.parametrize("leaves", [True, False])
def test_what_is_taken_out_of_the_line_never_runs_and_is_let_go_of_at_once(leaves: bool) -> None:
    async def scenario(workers: Workers) -> None:
        stuck, other, large = Stuck(), Stuck(), Large()
        running = await stuck.take(workers)
        held = weakref.ref(large)

        def work(_: Large = large) -> None:
            other.work()

        waiting = asyncio.ensure_future(workers.run(work, SHORT_WORK + 1))
        del work, large
        await asyncio.sleep(0)
        if leaves:
            waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled() or isinstance(waiting.exception(), Overloaded)
        del waiting

        # The one thread is still taken, and the queue of the pool cannot have moved.
        assert held() is None
        stuck.let_go()
        await running
        await ask_for_work(workers)
        assert other.begun == 0

    with workers_with(wait_seconds=10 if leaves else 0.02) as workers:
        asyncio.run(scenario(workers))


def test_streams_that_have_begun_take_no_place_and_are_never_refused() -> None:
    async def scenario(workers: Workers) -> None:
        streams = [await workers.begin(iter([bytes(BLOCK_BYTES)] * 3)) for _ in range(5)]
        assert workers.waiting_by_lane()["long"] == 0
        for stream in streams:
            assert len(await anext(stream)) == BLOCK_BYTES
        await ask_for_work(workers)

        stuck = Stuck()
        running = await stuck.take(workers)
        waiting = asyncio.ensure_future(ask_for_work(workers))
        rest = [asyncio.ensure_future(_rest_of(stream)) for stream in streams]
        await asyncio.sleep(0.1)
        assert not any(task.done() for task in rest)
        stuck.let_go()
        assert await asyncio.gather(*rest) == [2] * 5
        await asyncio.gather(running, waiting)

    with workers_with(max_waiting=1, wait_seconds=5) as workers:
        asyncio.run(scenario(workers))


async def _rest_of(stream: AsyncIterator[Block]) -> int:
    return len([block async for block in stream])


def test_a_stream_goes_on_though_its_next_block_waits_longer_than_a_first_one_may() -> None:
    async def scenario(workers: Workers) -> None:
        stream = await workers.begin(iter([bytes(BLOCK_BYTES)] * 3))
        stuck = Stuck()
        running = await stuck.take(workers)
        rest = asyncio.ensure_future(_rest_of(stream))
        await asyncio.sleep(0.05)
        assert not rest.done()
        stuck.let_go()
        assert await rest == 3
        await running

    with workers_with(wait_seconds=0.01) as workers:
        asyncio.run(scenario(workers))


def test_a_stream_that_fails_at_its_first_block_fails_before_it_is_given(workers: Workers) -> None:
    def fail(_: int) -> Block:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        asyncio.run(workers.begin(map(fail, [0])))


def test_a_begun_stream_has_all_of_its_blocks(workers: Workers) -> None:
    async def scenario() -> list[int]:
        blocks = [bytes([number]) * BLOCK_BYTES for number in range(4)]
        return [block[0] async for block in await workers.begin(iter(blocks))]

    assert asyncio.run(scenario()) == [0, 1, 2, 3]


def test_a_body_is_put_together_before_the_next_one_is_begun(workers: Workers) -> None:
    turns: list[str] = []

    def blocks(name: str) -> Iterator[Block]:
        turns.append(f"{name} begun")
        yield name.encode()

    async def scenario() -> None:
        async def build(name: str) -> None:
            await workers.collect(blocks(name), lambda _: turns.append(f"{name} put together"))

        await asyncio.gather(build("a"), build("b"))

    asyncio.run(scenario())

    assert turns == ["a begun", "a put together", "b begun", "b put together"]


def test_a_body_whose_asker_leaves_gives_its_turn_to_the_next(workers: Workers) -> None:
    async def scenario() -> None:
        stuck = Stuck()
        left = asyncio.ensure_future(workers.collect(stuck.blocks(), list))
        await asyncio.to_thread(stuck.taken.wait, 10)
        other = asyncio.ensure_future(workers.collect(iter([b"other"]), list))
        left.cancel()
        stuck.let_go()

        assert await other == [b"other"]
        assert left.cancelled()

    asyncio.run(scenario())
