"""The order of work: fair tags, kept slots, turns on threads, refusals and their Retry-After."""

import asyncio
import gc
import os
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager
from functools import partial
from time import sleep, thread_time
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from service.delivery.clients import CLIENT, IS_PIPELINED
from service.delivery.schedule import (
    SHORT_SECONDS,
    Scheduler,
    ThreadWork,
    Work,
    WorkLane,
    cancel_on_disconnect,
    joined_blocks,
)
from service.errors import Overloaded, Refusals
from service.formats.format import BLOCK_BYTES, Block
from service.lazily import MadeOnDemand
from service.numerics.setups import TURN_SECONDS
from service.settings import default_settings

LONG = 2 * SHORT_SECONDS
HALF = BLOCK_BYTES // 2


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    settings = default_settings().model_copy(update={"threads": 1})
    scheduler = Scheduler(settings, Refusals())
    yield scheduler
    scheduler.close()


def lane_of(slots: int = 1, wait_seconds: float = 1e9, **options: float) -> WorkLane:
    return WorkLane("child", slots, wait_seconds, Refusals(), **options)  # type: ignore[arg-type]


def this_thread() -> str:
    return threading.current_thread().name


class Order:
    """Works of several clients in a lane, which note the order in which they get their slots."""

    def __init__(self, lane: WorkLane) -> None:
        self.lane = lane
        self.begun: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def submit(self, name: str, client: str, seconds: float) -> None:
        CLIENT.set(client)
        self.tasks.append(asyncio.create_task(self._do(name, seconds)))
        await asyncio.sleep(0)

    async def _do(self, name: str, seconds: float) -> None:
        work = Work(self.lane, seconds)
        async with work.slot():
            self.begun.append(name)
            await asyncio.sleep(0)


@asynccontextmanager
async def busy(lane: WorkLane, seconds: float = 1.0) -> Any:
    """Hold a slot of a lane, as work of a client of its own."""
    CLIENT.set("busy")
    async with Work(lane, seconds).slot() as turn:
        yield turn


def test_work_of_another_client_overtakes_a_flood() -> None:
    async def scenario() -> list[str]:
        order = Order(lane_of())
        async with busy(order.lane):
            for number in range(5):
                await order.submit(f"flood {number}", "flood", 10)
            await order.submit("other", "other", 10)
        await asyncio.gather(*order.tasks)
        return order.begun

    begun = asyncio.run(scenario())

    assert begun == ["flood 0", "other", *(f"flood {number}" for number in range(1, 5))]


def test_work_of_a_client_overtakes_its_own_pipelined_requests() -> None:
    async def scenario() -> list[str]:
        order = Order(lane_of())
        async with busy(order.lane):
            IS_PIPELINED.set(True)
            for number in range(5):
                await order.submit(f"pipelined {number}", "one", 1)
            IS_PIPELINED.set(False)
            await order.submit("awaited", "one", 1)
        await asyncio.gather(*order.tasks)
        return order.begun

    assert asyncio.run(scenario()).index("awaited") == 1


def test_the_shortest_work_of_strangers_is_first_and_that_of_one_client_in_order() -> None:
    async def scenario() -> list[str]:
        order = Order(lane_of())
        async with busy(order.lane):
            for name, client, seconds in (
                ("long", "a", 9), ("medium", "b", 3), ("short", "c", 1), ("second", "c", 0.1)
            ):  # fmt: skip
                await order.submit(name, client, seconds)
        await asyncio.gather(*order.tasks)
        return order.begun

    assert asyncio.run(scenario()) == ["short", "second", "medium", "long"]


@pytest.mark.parametrize("seed", range(5))
def test_every_work_gets_a_slot_and_no_more_slots_are_held_than_there_are(seed: int) -> None:
    chance = random.Random(seed)
    lane = lane_of(3, reserved=1, brief_seconds=2)
    held: list[bool] = []

    async def do(seconds: float) -> None:
        async with Work(lane, seconds).slot():
            held.append(seconds <= 2)
            assert len(held) <= 3
            assert held.count(False) <= 2
            try:
                await asyncio.sleep(chance.random() / 1000)
            finally:
                held.remove(seconds <= 2)

    async def scenario() -> None:
        tasks = []
        for _ in range(200):
            CLIENT.set(chance.choice("abc"))
            tasks.append(asyncio.create_task(do(chance.choice((0.1, 1, 5, 20)))))
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() / 1000)
            if chance.random() < 0.1:
                chance.choice(tasks).cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert outcome is None or isinstance(outcome, asyncio.CancelledError)

    asyncio.run(scenario())

    assert (held, len(lane)) == ([], 0)


def test_the_shortest_work_of_one_client_is_first_where_work_is_put_off() -> None:
    async def scenario() -> list[str]:
        order = Order(lane_of(penalty=100))
        async with busy(order.lane):
            for number in range(5):
                await order.submit(f"medium {number}", "a", 0.004)
            await order.submit("short", "a", 0.0001)
        await asyncio.gather(*order.tasks)
        return order.begun

    assert asyncio.run(scenario())[0] == "short"


def test_a_slot_is_kept_for_brief_work() -> None:
    async def scenario() -> list[str]:
        order = Order(lane_of(2, reserved=1, brief_seconds=2))
        async with busy(order.lane, 10):
            await order.submit("long", "a", 3)
            await order.submit("brief", "a", 2)
            await asyncio.sleep(0)
            assert order.begun == ["brief"]
        await asyncio.gather(*order.tasks)
        return order.begun

    assert asyncio.run(scenario()) == ["brief", "long"]


def test_work_is_refused_at_once_if_its_estimated_wait_is_too_long() -> None:
    async def scenario() -> None:
        lane = lane_of(wait_seconds=15)
        order = Order(lane)
        async with busy(lane, 10):
            await order.submit("fits", "a", 4)
            await order.submit("last", "a", 20)
            with pytest.raises(Overloaded, match="POSREF_WAIT_SECONDS") as refused:
                async with Work(lane, 1).slot():
                    pass
            assert refused.value.retry_seconds == 34
            # The next request of this client is told a later time; another client is not.
            with pytest.raises(Overloaded) as refused:
                async with Work(lane, 1).slot():
                    pass
            assert refused.value.retry_seconds == 35
            await order.submit("stranger", "b", 1)
        await asyncio.gather(*order.tasks)
        assert order.begun == ["stranger", "fits", "last"]
        assert lane.refusals.counts["waiting"] == 2

    asyncio.run(scenario())


def test_work_that_waits_too_long_is_refused_and_never_begins() -> None:
    async def scenario() -> None:
        lane = lane_of(wait_seconds=0.01)
        async with busy(lane, 0):
            order = Order(lane)
            await order.submit("late", "a", 1)
            (late,) = order.tasks
            with pytest.raises(Overloaded, match=r"did not begin within 0\.01 seconds"):
                await late
            assert (len(lane), order.begun) == (0, [])
        assert lane.refusals.counts["wait_time"] == 1

    asyncio.run(scenario())


def test_client_is_charged_what_its_work_took() -> None:
    async def scenario() -> None:
        lane = lane_of()
        CLIENT.set("a")
        work = Work(lane, 100)
        async with work.slot():
            work.spend(1)
        work.end()
        order = Order(lane)
        async with busy(lane):
            # Without the correction its tag would be 100 seconds later.
            await order.submit("a", "a", 2)
            await order.submit("b", "b", 50)
        await asyncio.gather(*order.tasks)
        assert order.begun == ["a", "b"]

    asyncio.run(scenario())


def test_waiting_work_that_is_cancelled_never_begins() -> None:
    async def scenario() -> None:
        order = Order(lane_of())
        async with busy(order.lane):
            await order.submit("left", "a", 1)
            await order.submit("stays", "b", 2)
            order.tasks[0].cancel()
            await asyncio.sleep(0)
            assert len(order.lane) == 1
        await asyncio.gather(*order.tasks, return_exceptions=True)
        assert order.begun == ["stays"]

    asyncio.run(scenario())


def test_waiting_work_of_clients_that_left_is_not_kept() -> None:
    async def scenario() -> None:
        order = Order(lane_of())
        async with busy(order.lane):
            await order.submit("stays", "b", 1)
            for _ in range(100):
                await order.submit("left", "a", 2)
                order.tasks[-1].cancel()
            await asyncio.gather(*order.tasks[1:], return_exceptions=True)
            # Each arrival looks at all that wait.
            assert sum(map(len, order.lane._waiting.values())) == 1
        await asyncio.gather(order.tasks[0])

    asyncio.run(scenario())


def test_estimated_time_of_work_selects_its_thread(scheduler: Scheduler) -> None:
    assert asyncio.run(scheduler.run(this_thread, SHORT_SECONDS)).startswith("posref-short")
    assert asyncio.run(scheduler.run(this_thread, LONG)).startswith("posref-long")


def test_scheduler_that_has_started_needs_no_further_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def scenario(scheduler: Scheduler) -> set[str]:
        works = (LONG, LONG, LONG, SHORT_SECONDS)
        return set(
            await asyncio.gather(*(scheduler.run(meet, seconds) for seconds in works)),
        )

    def meet() -> str:
        everybody.wait(10)
        return this_thread()

    settings = default_settings().model_copy(update={"threads": 3})
    started, refused = (Scheduler(settings, Refusals()) for _ in range(2))
    everybody = threading.Barrier(4)
    started.start()
    monkeypatch.setattr(threading, "_start_new_thread", refuse)

    assert len(asyncio.run(scenario(started))) == 4
    with pytest.raises(RuntimeError, match="thread"):
        refused.start()
    started.close()
    refused.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process has one niceness")
def test_threads_of_long_work_have_a_lower_priority(scheduler: Scheduler) -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async def scenario() -> None:
        loop = niceness()
        assert await scheduler.run(niceness, 0) == loop
        assert await scheduler.run(niceness, LONG) == min(loop + 3, 19)

    asyncio.run(scenario())


def test_short_work_does_not_wait_for_long_work(scheduler: Scheduler) -> None:
    async def scenario() -> None:
        end = threading.Event()
        long = [asyncio.ensure_future(scheduler.run(end.wait, LONG)) for _ in range(9)]
        await asyncio.sleep(0)

        assert await scheduler.run(this_thread, 0)
        assert scheduler.waiting_by_lane() == {"short": 0, "long": 8, "child": 0}
        assert not any(work.done() for work in long)
        end.set()
        await asyncio.gather(*long)

    asyncio.run(scenario())


def noted(name: str, turns: list[str], count: int) -> Iterator[Block]:
    for _ in range(count):
        turns.append(name)
        yield name.encode() * HALF


async def consume(scheduler: Scheduler, blocks: Iterator[Block]) -> int:
    work, sent_bytes = scheduler.stream(), 0
    while block := await work.turn(partial(joined_blocks, blocks, HALF)):
        sent_bytes += len(block)
    return sent_bytes


def test_streams_of_clients_have_turns_alternately(scheduler: Scheduler) -> None:
    turns: list[str] = []

    async def scenario() -> None:
        streams = []
        for name in "ab":
            CLIENT.set(name)
            streams.append(asyncio.ensure_future(consume(scheduler, noted(name, turns, 8))))
        await asyncio.gather(*streams)

    asyncio.run(scenario())

    assert turns.count("a") == turns.count("b") == 8
    assert abs("".join(turns[:8]).count("a") - 4) <= 2


def test_a_stream_that_has_begun_is_never_refused() -> None:
    settings = default_settings().model_copy(update={"threads": 1, "wait_seconds": 0.01})
    scheduler, end = Scheduler(settings, Refusals()), threading.Event()

    async def scenario() -> None:
        running = asyncio.ensure_future(scheduler.run(lambda: end.wait(10), LONG))
        await asyncio.sleep(0)
        begun = asyncio.ensure_future(scheduler.stream().turn(lambda: "next"))
        with pytest.raises(Overloaded):
            await scheduler.work(LONG).turn(lambda: "first")
        assert not begun.done()
        end.set()
        assert await begun == "next"
        await running

    asyncio.run(scenario())
    scheduler.close()


def test_a_stream_goes_on_beside_the_setups_of_another_client(scheduler: Scheduler) -> None:
    turns: list[str] = []

    def set_up() -> Iterator[Block]:
        for _ in range(5):
            turns.append("setup")
            end = thread_time() + TURN_SECONDS
            while thread_time() < end:
                pass
            yield b""

    async def scenario() -> None:
        CLIENT.set("setups")
        setups = [
            asyncio.ensure_future(scheduler.collect(set_up(), len, 5 * TURN_SECONDS))
            for _ in range(4)
        ]
        await asyncio.sleep(0)
        CLIENT.set("stream")
        await consume(scheduler, noted("stream", turns, 8))
        await asyncio.gather(*setups)

    asyncio.run(scenario())

    assert turns.count("setup") == 20
    # One setup may be finished first.
    assert turns.index("stream") <= 6
    assert turns[-5:] == ["setup"] * 5


def test_few_bodies_of_many_clients_are_half_built_at_a_time(scheduler: Scheduler) -> None:
    turns: list[str] = []

    async def build(name: str) -> None:
        CLIENT.set(name)
        await scheduler.collect(noted(name, turns, 4), len, 1.0)

    async def scenario() -> None:
        await asyncio.gather(*(build(f"client {number}") for number in range(8)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.delivery.schedule.TURN_SECONDS", 0)
        asyncio.run(scenario())

    half_built = [set(turns[:at]) & set(turns[at:]) for at in range(len(turns))]
    assert len(turns) == 32
    assert max(map(len, half_built)) <= 2


@pytest.mark.parametrize("is_repeated", [False, True])
def test_few_setups_of_one_client_are_half_made_at_a_time(
    scheduler: Scheduler, *, is_repeated: bool
) -> None:
    steps: list[int] = []

    async def set_up(number: int) -> None:
        left = iter([b"", b"", b"", b"x"])
        work = scheduler.stream() if is_repeated else ThreadWork(scheduler.long, 0.02)
        while not await work.turn(partial(next, left)):
            steps.append(number)
        steps.append(number)
        work.end()

    async def scenario() -> None:
        await asyncio.gather(*(set_up(number) for number in range(8)))

    asyncio.run(scenario())

    begun_before = [set(steps[:at]) & set(steps[at:]) for at in range(len(steps))]
    assert len(steps) == 32
    assert max(map(len, begun_before)) <= 3


def test_few_bodies_of_one_client_are_half_built_at_a_time(scheduler: Scheduler) -> None:
    turns: list[str] = []

    async def scenario() -> list[int]:
        builds = [
            scheduler.collect(noted(name, turns, 5), len, seconds, bool)
            for name, seconds in (("a", 1.0), ("b", 1.0), ("c", 1.0))
        ]
        return await asyncio.gather(*builds)

    assert asyncio.run(scenario()) == [5, 5, 5]
    # Between two turns of one build, the next build may have one: never more than two go on.
    assert turns[-4:] == ["c"] * 4


@pytest.mark.parametrize("seconds", [0, LONG])
def test_cancelled_work_ends_before_its_caller_and_its_error_is_not_logged(
    scheduler: Scheduler, seconds: float
) -> None:
    logged: list[dict[str, Any]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        begun, end = threading.Event(), threading.Event()

        def fail() -> None:
            begun.set()
            assert end.wait(10)
            raise ArithmeticError

        abandoned = asyncio.ensure_future(scheduler.run(fail, seconds))
        await asyncio.to_thread(begun.wait)
        abandoned.cancel()
        await asyncio.sleep(0.01)
        assert not abandoned.done()
        end.set()
        await asyncio.wait({abandoned})
        assert abandoned.cancelled()
        # The thread is free.
        await scheduler.run(this_thread, seconds)

    asyncio.run(scenario())
    gc.collect()

    assert not logged


@pytest.mark.parametrize("seconds", [0, LONG])
def test_exception_of_work_reaches_its_caller(scheduler: Scheduler, seconds: float) -> None:
    def fail() -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        asyncio.run(scheduler.run(fail, seconds))


def test_small_blocks_are_joined_in_one_turn() -> None:
    blocks = iter([b"a", b"b" * BLOCK_BYTES, b"c"])

    assert joined_blocks(blocks, HALF) == b"a" + b"b" * BLOCK_BYTES
    assert joined_blocks(blocks, HALF) == b"c"
    assert joined_blocks(blocks, HALF) is None


def test_turn_without_bytes_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr("service.delivery.schedule.monotonic", lambda: next(clock) / 1000)

    assert joined_blocks(iter([b""] * 50), HALF) == b""
    assert next(clock) < 10


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


def test_what_many_ask_for_at_once_is_made_once() -> None:
    names: list[str] = []

    def make(name: str) -> str:
        names.append(name)
        sleep(0.01)
        return name.upper()

    values = MadeOnDemand(["a"], make)
    scheduler = Scheduler(default_settings(), Refusals())

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*(scheduler.made(values, "a") for _ in range(200)))

    # As so many imports one after the other, the last would not begin in time.
    found = asyncio.run(all_at_once())
    scheduler.close()

    assert (found, names) == (["A"] * 200, ["a"])
