"""Work on threads, never on the event loop, no short work behind long work, bounded lines.

The gate: bounds on what waits, on how long it does, and on what is held of request bodies.

Clients that leave: what nobody waits for is made no more, and what others wait for is.
"""

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from service.delivery.workers import (
    REASONS,
    SHORT_WORK,
    BodyMemory,
    Gate,
    Line,
    Recent,
    Workers,
    cancel_on_disconnect,
)
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


def test_cost_of_work_selects_its_lane(workers: Workers) -> None:
    assert asyncio.run(workers.run(this_thread, SHORT_WORK)).startswith("posref-short")
    assert asyncio.run(workers.run(this_thread, SHORT_WORK + 1)).startswith("posref-long")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process has one niceness")
def test_long_lane_has_a_lower_priority(workers: Workers) -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async def scenario() -> None:
        loop = niceness()
        assert await workers.run(niceness, 1) == loop
        assert await workers.run(niceness, SHORT_WORK + 1) == min(loop + 3, 19)

    asyncio.run(scenario())


def test_short_work_does_not_wait_for_long_work(workers: Workers) -> None:
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
        assert await workers.run(this_thread, 1)

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


def test_bodies_are_built_one_at_a_time_beside_a_stream(workers: Workers) -> None:
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


def test_exception_of_work_reaches_its_caller(workers: Workers) -> None:
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
def test_full_queue_refuses_new_work_and_completes_waiting_work(
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
def test_work_that_waits_too_long_is_refused(
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
def test_withdrawn_work_never_runs_and_is_freed_at_once(leaves: bool) -> None:
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


def test_begun_streams_take_no_place_in_the_queue_and_are_never_refused() -> None:
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


def test_begun_stream_may_wait_longer_than_the_deadline() -> None:
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


def test_exception_of_the_first_block_is_raised_by_begin(workers: Workers) -> None:
    def fail(_: int) -> Block:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        asyncio.run(workers.begin(map(fail, [0])))


def test_begun_stream_has_all_blocks(workers: Workers) -> None:
    async def scenario() -> list[int]:
        blocks = [bytes([number]) * BLOCK_BYTES for number in range(4)]
        return [block[0] async for block in await workers.begin(iter(blocks))]

    assert asyncio.run(scenario()) == [0, 1, 2, 3]


def test_body_is_complete_before_the_next_one_begins(workers: Workers) -> None:
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


def test_cancelled_body_frees_its_turn(workers: Workers) -> None:
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


def gate_of(**limits: float) -> Gate:
    return Gate(default_settings().model_copy(update=limits))


def test_newest_duration_has_the_largest_weight() -> None:
    recent = Recent()
    recent.add(1.0)
    assert recent.seconds == 1.0

    recent.add(9.0)
    assert recent.seconds == 2.0
    recent.add(2.0)
    assert recent.seconds == 2.0


@pytest.mark.parametrize(("seconds", "told"), [(0.0, 1), (1.0, 1), (1.1, 2), (59.5, 60), (1e9, 60)])
def test_retry_after_is_whole_seconds_up_to_a_minute(seconds: float, told: int) -> None:
    assert gate_of().overloaded("waiting", "too many", seconds).retry_seconds == told


def test_refusals_are_counted_by_reason() -> None:
    gate = gate_of()
    assert gate.refusals == dict.fromkeys(REASONS, 0)

    gate.refused("connections")
    gate.overloaded("bodies", "too many", 1)

    assert gate.refusals == {"waiting": 0, "wait_time": 0, "bodies": 1, "connections": 1}


def in_line(scenario: Callable[[Line], Any], **limits: float) -> Gate:
    """Run something with a line of two threads."""
    gate = gate_of(**limits)

    async def run() -> None:
        result = scenario(Line(gate, "long", 2))
        if result is not None:
            await result

    asyncio.run(run())
    return gate


def test_full_queue_is_refused_with_the_setting() -> None:
    def scenario(line: Line) -> None:
        with line.place(), line.place():
            assert len(line) == 2
            with pytest.raises(Overloaded, match=r"2 .* for long work .*POSREF_MAX_WAITING"):
                line.place().__enter__()
        with line.place():
            assert len(line) == 1

    assert in_line(scenario, max_waiting=2).refusals["waiting"] == 1


def test_served_work_frees_its_place_in_the_queue() -> None:
    def scenario(line: Line) -> None:
        with line.place() as first:
            first.serve()
            with line.place():
                assert len(line) == 1

    assert in_line(scenario, max_waiting=1).refusals["waiting"] == 0


def test_refusal_has_the_estimated_wait() -> None:
    def scenario(line: Line) -> None:
        line.served_for.add(3.0)
        with line.place(), line.place(), line.place():
            with pytest.raises(Overloaded) as refusal:
                line.place().__enter__()
            # Three times three seconds, by two threads.
            assert refusal.value.retry_seconds == 5

    in_line(scenario, max_waiting=3)


def test_only_served_work_counts_for_the_estimated_wait() -> None:
    def scenario(line: Line) -> None:
        with line.place():
            pass
        assert line.served_for.seconds == 0.0
        with line.place() as place:
            place.serve()
        assert line.served_for.seconds > 0.0

    in_line(scenario)


@pytest.mark.parametrize("had_begun", [True, False])
def test_work_that_has_not_begun_at_its_deadline_is_withdrawn(had_begun: bool) -> None:
    async def scenario(line: Line) -> None:
        done = asyncio.get_running_loop().create_future()

        def withdraw() -> bool:
            if had_begun:
                done.set_result("made")
            return not had_begun and done.cancel()

        with line.place() as place, place.limited(withdraw):
            assert await done == "made"

    if had_begun:
        assert in_line(scenario, wait_seconds=0.01).refusals["wait_time"] == 0
        return
    with pytest.raises(Overloaded, match="POSREF_WAIT_SECONDS"):
        in_line(scenario, wait_seconds=0.01)


def test_cancellation_before_the_deadline_is_no_refusal() -> None:
    async def scenario(line: Line) -> None:
        async def wait() -> None:
            with line.place() as place, place.limited(lambda: True):
                await asyncio.Event().wait()

        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        assert len(line) == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(line) == 0

    assert not any(in_line(scenario).refusals.values())


def test_semaphore_wait_ends_at_the_deadline() -> None:
    async def scenario(line: Line) -> None:
        turns = asyncio.Semaphore(1)
        with line.place() as first, line.place() as second:
            await first.turn(turns)
            with pytest.raises(Overloaded, match="POSREF_WAIT_SECONDS"):
                async with asyncio.timeout(5):
                    await second.turn(turns)
        turns.release()
        with line.place() as third:
            await third.turn(turns)

    assert in_line(scenario, wait_seconds=0.01).refusals["wait_time"] == 1


def test_body_past_the_shared_limit_is_refused() -> None:
    gate = gate_of(max_held_body_bytes=100)
    first, second = BodyMemory(gate), BodyMemory(gate)
    first.grow(60)
    second.grow(40)

    with pytest.raises(Overloaded, match=r"up 100 bytes .*POSREF_MAX_HELD_BODY_BYTES"):
        second.grow(41)
    with pytest.raises(Overloaded):
        BodyMemory(gate).grow(1)

    assert gate.held_body_bytes == 100
    first.release()
    second.grow(100)
    assert (gate.held_body_bytes, gate.refusals["bodies"]) == (100, 2)


def test_single_body_of_any_size_is_accepted() -> None:
    gate = gate_of(max_held_body_bytes=100)
    alone = BodyMemory(gate)

    alone.grow(101)
    alone.grow(1000)
    alone.grow(500)

    assert gate.held_body_bytes == 1000
    alone.release()
    assert gate.held_body_bytes == 0


def test_memory_of_a_body_is_released_once() -> None:
    gate = gate_of(max_held_body_bytes=100)
    first, second = BodyMemory(gate), BodyMemory(gate)
    first.grow(10)
    second.grow(20)

    for _ in range(2):
        first.release()

    assert gate.held_body_bytes == 20
    assert gate.held_for.seconds > 0


class Connection:
    """What a server tells an application of its client."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})

    def leave(self) -> None:
        self.messages.put_nowait({"type": "http.disconnect"})


def test_connected_client_gets_its_answer() -> None:
    async def scenario() -> None:
        async def answering() -> str:
            await asyncio.sleep(0)
            return "answer"

        assert await cancel_on_disconnect(Connection().messages.get, answering()) == "answer"

    asyncio.run(scenario())


def test_exception_reaches_a_connected_client() -> None:
    async def scenario() -> None:
        async def failing() -> None:
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            await cancel_on_disconnect(Connection().messages.get, failing())

    asyncio.run(scenario())


@pytest.mark.parametrize("fails", [True, False])
def test_disconnect_cancels_the_answer(fails: bool) -> None:
    stopped: list[bool] = []

    async def answering() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(True)
            if fails:
                raise ArithmeticError from None
            raise

    async def scenario() -> None:
        connection = Connection()
        waiting = asyncio.ensure_future(cancel_on_disconnect(connection.messages.get, answering()))
        await asyncio.sleep(0)
        connection.leave()

        with pytest.raises(ClientDisconnect):
            async with asyncio.timeout(5):
                await waiting

    asyncio.run(scenario())
    assert stopped == [True]
