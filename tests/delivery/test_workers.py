"""Lanes of worker threads, the limits of their queues, the memory of bodies, disconnects."""

import asyncio
import gc
import os
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from service.delivery.workers import (
    REASONS,
    SHORT_SECONDS,
    BodyMemory,
    Gate,
    Workers,
    WorkLane,
    cancel_on_disconnect,
)
from service.errors import Overloaded
from service.formats.format import BLOCK_BYTES, Block
from service.settings import default_settings


def gate_of(**limits: float) -> Gate:
    return Gate(default_settings().model_copy(update=limits))


@pytest.fixture
def workers() -> Iterator[Workers]:
    with workers_with() as workers:
        yield workers


@contextmanager
def workers_with(**limits: float) -> Iterator[Workers]:
    """Make workers of one thread for long work, with limits in place of the usual ones."""
    workers = Workers(1, gate_of(**limits))
    yield workers
    workers.close()


def this_thread() -> str:
    return threading.current_thread().name


def test_cost_of_work_selects_its_lane(workers: Workers) -> None:
    assert asyncio.run(workers.run(this_thread, SHORT_SECONDS)).startswith("posref-short")
    assert asyncio.run(workers.run(this_thread, 2 * SHORT_SECONDS)).startswith("posref-long")


@pytest.mark.parametrize("cost", [0.0, 2 * SHORT_SECONDS])
def test_error_of_work_whose_client_has_left_is_not_logged(workers: Workers, cost: float) -> None:
    logged: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        begun, end = threading.Event(), threading.Event()

        def fail() -> None:
            begun.set()
            assert end.wait(10)
            raise ArithmeticError

        abandoned = asyncio.ensure_future(workers.run(fail, cost))
        await asyncio.to_thread(begun.wait)
        abandoned.cancel()
        await asyncio.wait({abandoned})
        del abandoned
        end.set()
        # The one thread of the lane is free again once the work has raised.
        await workers.run(this_thread, cost)

    asyncio.run(scenario())
    gc.collect()

    assert not logged


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process has one niceness")
def test_long_lane_has_a_lower_priority(workers: Workers) -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async def scenario() -> None:
        loop = niceness()
        assert await workers.run(niceness, 0.0) == loop
        assert await workers.run(niceness, 2 * SHORT_SECONDS) == min(loop + 3, 19)

    asyncio.run(scenario())


def test_short_work_does_not_wait_for_long_work(workers: Workers) -> None:
    async def scenario() -> None:
        end = threading.Event()
        long = [asyncio.ensure_future(workers.run(end.wait, 2 * SHORT_SECONDS)) for _ in range(9)]
        await asyncio.sleep(0)

        assert await workers.run(this_thread, 0.0)
        assert not any(work.done() for work in long)
        assert workers.waiting_by_lane() == {"short": 0, "long": 8, "drawing": 0}
        end.set()
        await asyncio.gather(*long)

    asyncio.run(scenario())


def test_no_other_work_waits_for_a_drawing(workers: Workers) -> None:
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
        assert await workers.run(this_thread, 0.0)

        assert not drawn.done()
        assert not other.done()
        end.set()
        (name,) = await drawn
        assert bytes(name).startswith(b"posref-drawing")
        await other

    asyncio.run(scenario())


def test_switch_interval_is_shorter_during_a_drawing(workers: Workers) -> None:
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


def test_streams_share_a_thread_in_turns(workers: Workers) -> None:
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


def test_bodies_are_built_one_after_the_other_beside_a_stream(workers: Workers) -> None:
    turns: list[str] = []

    def blocks(name: str) -> Iterator[Block]:
        for _ in range(3):
            turns.append(name)
            yield bytes(BLOCK_BYTES)

    async def build(name: str) -> None:
        await workers.collect(blocks(name), lambda _: turns.append("joined"))

    async def exhaust() -> None:
        async for _ in workers.iterate(blocks("stream")):
            pass

    async def scenario() -> None:
        stream = asyncio.ensure_future(exhaust())
        await asyncio.gather(build("a"), build("b"), stream)

    asyncio.run(scenario())

    of_bodies = [name for name in turns if name != "stream"]
    assert of_bodies == ["a", "a", "a", "joined", "b", "b", "b", "joined"]
    assert turns.index("stream") < turns.index("b")


def test_next_block_is_computed_while_the_previous_one_is_used(workers: Workers) -> None:
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


def test_small_blocks_are_joined_in_one_turn(workers: Workers) -> None:
    async def scenario() -> list[Block]:
        return [block async for block in workers.iterate(iter([b"a", b"", b"b"]))]

    assert asyncio.run(scenario()) == [b"ab"]


def test_turn_without_bytes_ends_in_time(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.delivery.workers._TURN_SECONDS", 0)

    async def scenario() -> list[Block]:
        return [block async for block in workers.iterate(iter([b"", b"", b"end"]))]

    assert asyncio.run(scenario()) == [b"", b"", b"end"]


class Stuck:
    """Work that takes a thread until it may end, and counts how often it begins."""

    def __init__(self) -> None:
        self.begun = 0
        self._is_running, self._may_end = threading.Event(), threading.Event()

    def work(self) -> None:
        self.begun += 1
        self._is_running.set()
        assert self._may_end.wait(10)

    def blocks(self) -> Iterator[Block]:
        self.work()
        yield b"block"

    async def take(self, workers: Workers, lane: str = "long") -> asyncio.Task[Any]:
        """Keep the thread of a lane busy."""
        task: asyncio.Task[Any]
        if lane == "drawing":
            task = asyncio.ensure_future(workers.collect(self.blocks(), list, drawn=True))
        else:
            cost = 0.0 if lane == "short" else 2 * SHORT_SECONDS
            task = asyncio.ensure_future(workers.run(self.work, cost))
        await asyncio.to_thread(self._is_running.wait, 10)
        return task

    def end(self) -> None:
        self._may_end.set()


Submit = Callable[[Workers, Iterator[Block]], Awaitable[Any]]


async def request_long_work(workers: Workers, blocks: Iterator[Block]) -> None:
    await workers.run(partial(next, blocks), 2 * SHORT_SECONDS)


SUBMISSIONS = pytest.mark.parametrize(
    ("submit", "lane"),
    [
        (request_long_work, "long"),
        (lambda workers, blocks: workers.run(partial(next, blocks), 0.0), "short"),
        (lambda workers, blocks: workers.begin(blocks), "long"),
        (lambda workers, blocks: workers.collect(blocks, list), "long"),
        (lambda workers, blocks: workers.collect(blocks, list, drawn=True), "drawing"),
    ],
)


def block() -> Iterator[Block]:
    return iter([b"block"])


def refusals_of(workers: Workers) -> dict[str, int]:
    return workers._long._gate.refusals


@SUBMISSIONS
def test_exception_of_work_reaches_its_caller(workers: Workers, submit: Submit, lane: str) -> None:
    def fail(_: int) -> Block:
        raise ArithmeticError(lane)

    async def scenario() -> None:
        with pytest.raises(ArithmeticError):
            await submit(workers, map(fail, [0]))

    asyncio.run(scenario())


@SUBMISSIONS
def test_full_queue_is_refused_with_the_setting_and_waiting_work_completes(
    submit: Submit, lane: str
) -> None:
    async def scenario(workers: Workers) -> None:
        stuck = Stuck()
        running = await stuck.take(workers, lane)
        waiting = [asyncio.ensure_future(submit(workers, block())) for _ in range(2)]
        await asyncio.sleep(0)
        assert workers.waiting_by_lane()[lane] == 2

        with pytest.raises(Overloaded, match=f"^2 .* for {lane} work .*POSREF_MAX_WAITING"):
            await submit(workers, block())
        stuck.end()
        await asyncio.gather(running, *waiting)
        assert workers.waiting_by_lane()[lane] == 0
        await submit(workers, block())
        assert refusals_of(workers) == dict.fromkeys(REASONS, 0) | {"waiting": 1}

    with workers_with(max_waiting=2) as workers:
        asyncio.run(scenario(workers))


@SUBMISSIONS
def test_work_that_waits_too_long_is_refused(submit: Submit, lane: str) -> None:
    async def scenario(workers: Workers) -> None:
        stuck = Stuck()
        running = await stuck.take(workers, lane)

        with pytest.raises(Overloaded, match=f"^{lane} work .*POSREF_WAIT_SECONDS"):
            await submit(workers, block())
        assert workers.waiting_by_lane()[lane] == 0
        # The running work is past its own deadline, which ended when it began.
        assert not running.done()
        stuck.end()
        await running
        await submit(workers, block())
        assert refusals_of(workers) == dict.fromkeys(REASONS, 0) | {"wait_time": 1}

    with workers_with(wait_seconds=0.02) as workers:
        asyncio.run(scenario(workers))


class Large:
    """An object that a piece of work refers to."""


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_withdrawn_work_never_runs_and_is_freed_at_once(is_cancelled: bool) -> None:
    async def scenario(workers: Workers) -> None:
        stuck, other, large = Stuck(), Stuck(), Large()
        running = await stuck.take(workers)
        reference = weakref.ref(large)

        def work(_: Large = large) -> None:
            other.work()

        waiting = asyncio.ensure_future(workers.run(work, 2 * SHORT_SECONDS))
        del work, large
        await asyncio.sleep(0)
        if is_cancelled:
            waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled() or isinstance(waiting.exception(), Overloaded)
        assert any(refusals_of(workers).values()) != is_cancelled
        del waiting

        # The only thread is still busy, so the queue of the pool cannot have moved.
        assert reference() is None
        stuck.end()
        await running
        await request_long_work(workers, block())
        assert other.begun == 0

    with workers_with(wait_seconds=10 if is_cancelled else 0.02) as workers:
        asyncio.run(scenario(workers))


def test_begun_streams_take_no_place_in_the_queue_and_are_never_refused() -> None:
    async def rest_of(stream: AsyncIterator[Block]) -> list[int]:
        return [block[0] async for block in stream]

    async def scenario(workers: Workers) -> None:
        blocks = [bytes([number]) * BLOCK_BYTES for number in range(3)]
        streams = [await workers.begin(iter(blocks)) for _ in range(5)]
        assert workers.waiting_by_lane()["long"] == 0
        await request_long_work(workers, block())

        stuck = Stuck()
        running = await stuck.take(workers)
        rest = [asyncio.ensure_future(rest_of(stream)) for stream in streams]
        await asyncio.sleep(0.1)
        assert not any(task.done() for task in rest)
        stuck.end()
        assert await asyncio.gather(*rest) == [[0, 1, 2]] * 5
        await running

    with workers_with(max_waiting=1, wait_seconds=0.05) as workers:
        asyncio.run(scenario(workers))


def test_cancelled_build_frees_its_thread(workers: Workers) -> None:
    async def scenario() -> None:
        stuck = Stuck()
        cancelled = await stuck.take(workers, "drawing")
        other = asyncio.ensure_future(workers.collect(block(), list, drawn=True))
        cancelled.cancel()
        stuck.end()

        assert await other == [b"block"]
        assert cancelled.cancelled()

    asyncio.run(scenario())


def test_refusal_has_the_estimated_wait() -> None:
    async def scenario() -> None:
        lane = WorkLane(gate_of(max_waiting=3), "long", threads=2)
        with lane.place():
            pass
        assert lane.work_seconds.value == 0.0
        lane.work_seconds.add(3.0)
        with lane.place(), lane.place(), lane.place():
            with pytest.raises(Overloaded) as refusal, lane.place():
                pass
            # Three times three seconds, by two threads.
            assert refusal.value.retry_seconds == 5

    asyncio.run(scenario())


def test_durations_of_work_are_measured(workers: Workers) -> None:
    asyncio.run(workers.run(this_thread, 0.0))

    assert workers._short.work_seconds.value > 0.0


def test_memory_of_bodies_is_limited_together() -> None:
    gate = gate_of(max_held_body_bytes=100)
    first, second = BodyMemory(gate), BodyMemory(gate)
    first.grow(60)
    second.grow(40)

    with pytest.raises(Overloaded, match=r"up 100 bytes .*POSREF_MAX_HELD_BODY_BYTES"):
        second.grow(41)
    with pytest.raises(Overloaded):
        BodyMemory(gate).grow(1)
    assert (gate.held_body_bytes, gate.refusals["bodies"]) == (100, 2)

    for _ in range(2):
        first.release()
    assert gate.held_body_bytes == 40
    assert gate.held_seconds.value > 0


async def stay_connected() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def disconnect() -> Message:
    await asyncio.sleep(0)
    return {"type": "http.disconnect"}


def test_connected_client_gets_its_answer_or_the_exception() -> None:
    async def scenario() -> None:
        assert await cancel_on_disconnect(stay_connected, asyncio.sleep(0, "answer")) == "answer"

        async def fail() -> None:
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            await cancel_on_disconnect(stay_connected, fail())

    asyncio.run(scenario())


@pytest.mark.parametrize("fails", [True, False])
def test_disconnect_cancels_the_answer(fails: bool) -> None:
    stopped: list[bool] = []

    async def answer() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(True)
            if fails:
                raise ArithmeticError from None
            raise

    with pytest.raises(ClientDisconnect):
        asyncio.run(cancel_on_disconnect(disconnect, answer()))

    assert stopped == [True]
