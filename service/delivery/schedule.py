"""The order of work: fair tags of client and cost, turns on worker threads, slots for children.

A lane has slots: worker threads, or places for child processes. Work that finds no free slot waits;
the waiting work with the smallest tag is next. A tag is ``max(now, last tag of the client) +
estimated processor seconds``, where now is the largest tag of the lane that had a slot: short work
of one client overtakes a flood of another, the work of one client is done in order, and nothing
waits for ever, because later work gets later tags. This is self-clocked fair queueing with the
processor second as its unit. The time of day is no substitute: it would run ahead of the tags in a
busy lane, and a stream, which gets a tag for each turn, would wait for all other work.

Work on threads is done in turns of a few milliseconds, with one tag unless it is a stream: a long
setup is finished, and its memory freed, before one with a later tag goes on. Only work that has not
begun is refused.
"""

import asyncio
import os
import sys
from bisect import insort
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import count
from math import inf
from operator import itemgetter
from threading import Barrier
from time import monotonic, thread_time
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from service.delivery.clients import ordered_client
from service.errors import Overloaded, Refusals
from service.formats.format import Block
from service.lazily import MadeOnDemand, Value
from service.numerics.setups import TURN_SECONDS
from service.settings import Settings

Result = TypeVar("Result")

SHORT_SECONDS = 0.006
"""The most processor seconds of short work, which has a thread of its own."""

IMPORT_SECONDS = 0.3
"""The processor seconds of what a first request imports: from 0.02 to 0.5, 0.9 for all."""

# A child's work up to this many seconds has a slot that longer work cannot take.
_BRIEF_SECONDS = 2.0

# Large enough that the event loop wins a contended core, and small enough that streams proceed
# under any number of small requests; measured, see docs/performance.md.
_LONG_LANE_NICENESS = 3

# It delays the longest of the short work by half a second.
_SHORT_LANE_PENALTY = 100.0

# Tags and bookings of the past are forgotten when there are more than this.
_MAX_CLIENTS = 4096


class LatestTimes:
    """The last tag, or the last booked time, of each client; those of the past are forgotten."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}

    def next(self, client: str, earliest: float) -> float:
        """Return the time of a client, or ``earliest`` if that is later."""
        return max(earliest, self._times.get(client, 0.0))

    def keep(self, client: str, time: float, now: float) -> None:
        if len(self._times) >= _MAX_CLIENTS:
            self._times = {name: latest for name, latest in self._times.items() if latest > now}
        self._times[client] = time

    def move(self, client: str, seconds: float) -> None:
        """Correct the time of a client."""
        if client in self._times:
            self._times[client] += seconds


@dataclass(eq=False)
class _Turn:
    """A piece of work that waits for a slot, or holds it.

    Attributes:
        tag: the tag of the work, and a number that distinguishes equal ones.
        order: the tag, later by a penalty; the smallest is next.
        seconds: the estimated time for which it holds the slot.
        has_begun: whether it is not the first turn of the work, which alone is refused.
        is_brief: whether it may take a slot that is reserved for brief work.
        slot: done when a turn that waits gets its slot, or is cancelled.
        begun_at: the monotonic time at which it got the slot.
    """

    tag: tuple[float, int]
    order: tuple[float, int]
    seconds: float
    has_begun: bool
    is_brief: bool
    slot: asyncio.Future[None]
    begun_at: float = 0.0

    def __lt__(self, other: "_Turn") -> bool:
        return self.order < other.order

    def remaining_seconds(self, now: float) -> float:
        return max(0.0, self.seconds - (now - self.begun_at))


@dataclass(eq=False)
class WorkLane:
    """A kind of work, with slots that are given out in the order of tags.

    Attributes:
        name: the name in metrics and errors.
        slots: how much work is done at the same time.
        wait_seconds: the longest wait of work that has not begun.
        refusals: counts the refusals.
        reserved: how many of the slots only brief work takes.
        brief_seconds: the longest brief work.
        penalty: how many seconds are added to a tag for each second of the work, so that the
            shortest work of one client is done first.
        tags: the last tag of each client.
    """

    name: str
    slots: int
    wait_seconds: float
    refusals: Refusals
    _: KW_ONLY
    reserved: int = 0
    brief_seconds: float = inf
    penalty: float = 0.0

    def __post_init__(self) -> None:
        self.tags = LatestTimes()
        self._now = 0.0
        self._bookings = LatestTimes()
        self._numbers = count()
        self._running: set[_Turn] = set()
        self._waiting: dict[bool, list[_Turn]] = {True: [], False: []}

    def __len__(self) -> int:
        """Return the number of pieces of work that wait and have not begun."""
        waiting = (*self._waiting[True], *self._waiting[False])
        return sum(not turn.has_begun for turn in waiting)

    @property
    def is_awaited(self) -> bool:
        """True if work waits for a slot, whether or not it has begun."""
        return any(self._waiting.values())

    def tag(self, client: str, seconds: float) -> tuple[float, int]:
        """Return the next tag of a client, for work of so many processor seconds."""
        tag = self._next_tag(client, seconds)
        self.tags.keep(client, tag[0], self._now)
        return tag

    def _next_tag(self, client: str, seconds: float) -> tuple[float, int]:
        return self.tags.next(client, self._now) + seconds, next(self._numbers)

    def turn(self, tag: tuple[float, int], seconds: float, *, has_begun: bool = False) -> _Turn:
        order = tag[0] + self.penalty * seconds, tag[1]
        slot = asyncio.get_running_loop().create_future()
        return _Turn(tag, order, seconds, has_begun, seconds <= self.brief_seconds, slot)

    async def acquire(self, turn: _Turn, client: str) -> None:
        """Wait for a slot.

        Raises Overloaded, if the work has not begun: at once if the estimated wait is longer than
        ``wait_seconds``, or after that time.
        """
        if self._has_slot(is_brief=turn.is_brief):
            self._begin(turn)
            return
        if not turn.has_begun:
            self._check(turn, client)
        waiting = self._waiting[turn.is_brief]
        insort(waiting, turn)
        try:
            async with asyncio.timeout(None if turn.has_begun else self.wait_seconds):
                await turn.slot
        except TimeoutError:
            raise self._refusal(turn, client, "wait_time", "did not begin") from None
        finally:
            if turn in waiting:
                waiting.remove(turn)

    def check(self, client: str, seconds: float) -> None:
        """Raise Overloaded if work of so many seconds would wait too long."""
        turn = self.turn(self._next_tag(client, seconds), seconds)
        if not self._has_slot(is_brief=turn.is_brief):
            self._check(turn, client)

    def _check(self, turn: _Turn, client: str) -> None:
        if self._wait_of(turn) > self.wait_seconds:
            raise self._refusal(turn, client, "waiting", "would not begin")

    def release(self, turn: _Turn) -> None:
        """End the use of a slot, if the turn has one; the next work begins."""
        self._running.discard(turn)
        while (following := self._next()) is not None:
            # It may have been cancelled a moment ago.
            if not following.slot.done():
                following.slot.set_result(None)
                self._begin(following)

    def _begin(self, turn: _Turn) -> None:
        turn.begun_at = monotonic()
        self._now = max(self._now, turn.tag[0])
        self._running.add(turn)

    def _has_slot(self, *, is_brief: bool) -> bool:
        if is_brief or len(self._running) >= self.slots:
            return len(self._running) < self.slots
        return sum(not turn.is_brief for turn in self._running) < self.slots - self.reserved

    def _next(self) -> _Turn | None:
        """Remove and return the waiting turn with the smallest tag that may have a slot."""
        ready = [
            turns
            for is_brief, turns in self._waiting.items()
            if turns and self._has_slot(is_brief=is_brief)
        ]
        return min(ready, key=itemgetter(0)).pop(0) if ready else None

    def _wait_of(self, turn: _Turn) -> float:
        """Return the estimated seconds until a turn gets a slot."""
        now, alike = monotonic(), self._waiting[turn.is_brief]
        running = [each for each in self._running if each.is_brief == turn.is_brief]
        ahead = sum(each.seconds for each in alike if each < turn)
        ahead += sum(each.remaining_seconds(now) for each in running)
        return ahead / self._slots_of(turn)

    def _slots_of(self, turn: _Turn) -> int:
        """Return how many slots no work of the other kind can take, at least one."""
        is_reserved = turn.is_brief and self.reserved
        return max(1, self.reserved if is_reserved else self.slots - self.reserved)

    def _refusal(self, turn: _Turn, client: str, reason: str, what: str) -> Overloaded:
        """Count a refusal, and return its error.

        Retry-After is the time at which the work would begin. Each refusal books its time, so that
        the next request of the same client is told a later one.
        """
        now = monotonic()
        begins_at = self._bookings.next(client, now + self._wait_of(turn))
        self._bookings.keep(client, begins_at + turn.seconds / self._slots_of(turn), now)
        rule = f"{self.name} work {what} within {self.wait_seconds} seconds (POSREF_WAIT_SECONDS)"
        return self.refusals.overloaded(reason, rule, begins_at - now)


class Work:
    """The work of one request in a lane.

    Args:
        lane: the lane.
        seconds: the estimated processor seconds of all of it.
        is_endless: whether each turn is charged by itself, as those of a stream, whose reader sets
            the pace. Other work keeps the tag of all its seconds, so that what has begun ends
            before the next begins.
        begin: called before the first turn; may raise what refuses the request.

    Attributes:
        has_begun: whether a turn has been requested; only work that has not begun is refused.
        is_set_up: false after a turn that returned an empty block, a step of a setup: the next turn
            keeps its tag, so that a setup is finished before one with a later tag goes on.
    """

    def __init__(
        self,
        lane: WorkLane,
        seconds: float,
        *,
        is_endless: bool = False,
        begin: Callable[[], object] = lambda: None,
    ) -> None:
        self._lane = lane
        self._client = ordered_client()
        self._seconds = seconds
        self._left_seconds = 0.0
        self._is_endless = is_endless
        self.has_begun, self.is_set_up = False, True
        self._begin = begin
        self._tag: tuple[float, int] | None = None

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[_Turn]:
        """Hold a slot for a turn; raises Overloaded if it is the first one."""
        has_begun, self.has_begun = self.has_begun, True
        if self._tag is None or (self._is_endless and self.is_set_up):
            self._tag = self._lane.tag(self._client, self._seconds)
            self._left_seconds = self._seconds
        turn = self._lane.turn(self._tag, self._left_seconds, has_begun=has_begun)
        try:
            await self._lane.acquire(turn, self._client)
            if not has_begun:
                self._begin()
            yield turn
        except BaseException:
            self.end()
            raise
        finally:
            self._lane.release(turn)

    def spend(self, seconds: float) -> None:
        """Note measured processor time; what exceeds the estimate is charged at once."""
        self._left_seconds -= seconds
        if self._left_seconds < 0 or self._is_endless:
            self.end()
        if self._is_endless:
            self._seconds = seconds

    def end(self) -> None:
        """Charge the client for what was measured, in place of what was estimated."""
        self._lane.tags.move(self._client, -self._left_seconds)
        self._left_seconds = 0.0


@dataclass(eq=False)
class ThreadLane(WorkLane):
    """A lane whose slots are worker threads; ``nice`` lowers their priority."""

    nice: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.executor = ThreadPoolExecutor(
            self.slots, f"posref-{self.name}", initializer=partial(_give_way, self.nice)
        )

    def start(self) -> None:
        """Start all threads; raises RuntimeError if the system refuses one."""
        # An executor starts a thread only while no other is idle.
        gate = Barrier(self.slots + 1)
        try:
            for _ in range(self.slots):
                self.executor.submit(gate.wait)
            gate.wait()
        except RuntimeError:
            gate.abort()
            raise


class ThreadWork(Work):
    """Work of one request that threads do, turn by turn."""

    _lane: ThreadLane

    def is_awaited(self) -> bool:
        """Return whether other work waits for a thread of the lane; any thread may call this."""
        return self._lane.is_awaited

    async def turn(self, function: Callable[[], Result]) -> Result:
        """Call a function on a thread, and return its result.

        If the caller is cancelled while the function runs, this still waits for its end, so that
        nothing it uses is given back before.
        """
        async with self.slot():
            result = await self._on_thread(function)
        self.is_set_up = not isinstance(result, bytes | memoryview) or len(result) > 0
        return result

    async def _on_thread(self, function: Callable[[], Result]) -> Result:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        seconds = 0.0

        def timed() -> Result:
            nonlocal seconds
            begun = thread_time()
            try:
                return function()
            finally:
                seconds = thread_time() - begun

        def end(_: Future[Result]) -> None:
            # The loop is closed where a process ends while its threads still work.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(ended.set)

        submitted = self._lane.executor.submit(timed)
        submitted.add_done_callback(end)
        try:
            await ended.wait()
        except asyncio.CancelledError:
            # A function that has not begun never will, also after ``Scheduler.close``.
            submitted.cancel()
            while not submitted.done():
                with suppress(asyncio.CancelledError):
                    await ended.wait()
            raise
        finally:
            self.spend(seconds)
        return submitted.result()


class Scheduler:
    """The lanes of a process: threads for short and for long work, and slots for children.

    Short work never waits for long work, and both never wait for children.
    """

    def __init__(self, settings: Settings, refusals: Refusals) -> None:
        threads, wait = settings.threads, settings.wait_seconds
        self.short = ThreadLane("short", 1, wait, refusals, penalty=_SHORT_LANE_PENALTY)
        self.long = ThreadLane("long", threads, wait, refusals, nice=_LONG_LANE_NICENESS)
        self._making: dict[tuple[int, str], asyncio.Future[object]] = {}
        self.children = WorkLane(
            "child", threads + 1, wait, refusals, reserved=1, brief_seconds=_BRIEF_SECONDS
        )

    def start(self) -> None:
        """Start all threads, which no request needs then; raises RuntimeError if one is refused."""
        self.short.start()
        self.long.start()

    async def run(self, function: Callable[[], Result], seconds: float) -> Result:
        """Call a function on a thread and return its result; raises Overloaded.

        Args:
            function: the function.
            seconds: its estimated processor time.

        If the caller is cancelled, this waits for the end of a function that runs, so that nothing
        it uses is given back before.
        """
        work = self.work(seconds)
        try:
            return await work.turn(function)
        finally:
            work.end()

    async def made(self, values: MadeOnDemand[Value], name: str) -> Value:
        """Return a value, made on a thread at first; raises Overloaded.

        It may import modules: the event loop would stop for too long, and short work wait. However
        many ask for a value at once, it is made once.
        """
        if name not in values.made:
            key = id(values), name
            making = self._making.get(key)
            if making is None:
                work = self.run(partial(values.__getitem__, name), IMPORT_SECONDS)
                making = self._making[key] = asyncio.ensure_future(work)
                making.add_done_callback(lambda _: self._making.pop(key, None))
            await asyncio.shield(making)
        return values.made[name]

    def work(self, seconds: float, begin: Callable[[], object] = lambda: None) -> ThreadWork:
        """Return the work of a request whose turns take so many processor seconds together."""
        lane = self.short if seconds <= SHORT_SECONDS else self.long
        return ThreadWork(lane, seconds, begin=begin)

    def stream(self) -> ThreadWork:
        """Return the work of a response that has begun: no turn is refused, each is charged."""
        work = ThreadWork(self.long, TURN_SECONDS, is_endless=True)
        work.has_begun = True
        return work

    def stream_of_child(self) -> Callable[[], AbstractAsyncContextManager[None]]:
        """Return the turns of a child for a response that has begun, as those of ``stream``."""
        work = Work(self.children, TURN_SECONDS, is_endless=True)
        work.has_begun = True

        @asynccontextmanager
        async def turn() -> AsyncIterator[None]:
            async with work.slot() as held:
                yield
                work.spend(monotonic() - held.begun_at)

        return turn

    async def collect(
        self,
        blocks: Iterator[Block],
        put_together: Callable[[list[Block]], Result],
        seconds: float,
        begin: Callable[[], object] = lambda: None,
    ) -> Result:
        """Compute all blocks of a body in turns; return ``put_together`` of them.

        Args:
            blocks: computes the blocks.
            put_together: called in the last turn.
            seconds: the estimated processor time of all blocks.
            begin: called before the first turn, after the work has waited; may raise.
        """
        work = self.work(seconds, begin)
        computed: list[Block] = []
        results: list[Result] = []

        def turn() -> None:
            end = monotonic() + TURN_SECONDS
            for block in blocks:
                computed.append(block)
                if monotonic() >= end:
                    return
            results.append(put_together(computed))

        try:
            while not results:
                await work.turn(turn)
        finally:
            work.end()
        return results[0]

    def waiting_by_lane(self) -> Mapping[str, int]:
        """Return the number of waiting requests, by the name of the lane."""
        return {lane.name: len(lane) for lane in (self.short, self.long, self.children)}

    def close(self) -> None:
        """Finish running work and drop waiting work."""
        for lane in (self.short, self.long):
            lane.executor.shutdown(wait=True, cancel_futures=True)


def _give_way(nice: int) -> None:
    """Lower the priority of this thread, where threads have their own (Linux)."""
    if sys.platform == "linux":
        os.nice(nice)


def joined_blocks(blocks: Iterator[Block], least_bytes: int) -> Block | None:
    """Compute blocks for up to a turn or ``least_bytes``; return them joined, None at the end."""
    taken: list[Block] = []
    taken_bytes, end = 0, monotonic() + TURN_SECONDS
    for block in blocks:
        taken.append(block)
        taken_bytes += len(block)
        if taken_bytes >= least_bytes or monotonic() >= end:
            break
    if len(taken) == 1:
        return taken[0]
    return b"".join(taken) if taken else None


async def disconnected(receive: Receive) -> None:
    """Return once the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def cancel_on_disconnect(receive: Receive, answering: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine, or cancel it if the client disconnects first.

    Raises ClientDisconnect.
    """
    answer = asyncio.ensure_future(answering)
    disconnect = asyncio.ensure_future(disconnected(receive))
    try:
        await asyncio.wait({answer, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
        raise ClientDisconnect
    finally:
        answer.cancel()
        disconnect.cancel()
