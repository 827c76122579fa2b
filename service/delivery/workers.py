"""Worker threads for all computations, with bounded queues and bounded memory.

Only work that has not begun waits in a queue, and only such work is refused. A stream that has
begun is not in a queue; the limit on connections also limits streams. Work is cancelled when no
connected client waits for it.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Generic, TypeAlias, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from service.delivery.budget import MovingMean, overloaded
from service.errors import Overloaded
from service.formats.format import BLOCK_BYTES, Block
from service.settings import Settings

REASONS = ("waiting", "wait_time", "bodies", "connections")
"""The reasons to refuse a valid request: names in the metric posref_refused."""


class Gate:
    """The limits that all requests of a process share; belongs to one event loop.

    Attributes:
        max_waiting: the most requests that may wait in each queue.
        wait_seconds: the longest wait in a queue.
        max_held_body_bytes: the most memory that all request bodies together may use.
        held_body_bytes: the memory that they use now.
        held_seconds: the mean time that a request body stays in memory.
        refusals: the number of refused requests, by reason.
    """

    def __init__(self, settings: Settings) -> None:
        self.max_waiting = settings.max_waiting
        self.wait_seconds = settings.wait_seconds
        self.max_held_body_bytes = settings.max_held_body_bytes
        self.held_body_bytes = 0
        self.held_seconds = MovingMean()
        self.refusals = dict.fromkeys(REASONS, 0)

    def count_refusal(self, reason: str) -> None:
        self.refusals[reason] += 1

    def overloaded(self, reason: str, detail: str, seconds: float) -> Overloaded:
        """Count a refusal, and return its error.

        Args:
            reason: one of REASONS.
            detail: the limit that was reached, and the name of its setting.
            seconds: the estimated time until a request is accepted again, for Retry-After.
        """
        self.count_refusal(reason)
        return overloaded(detail, seconds)


class BodyMemory:
    """Counts the memory of one request body, from arrival until the response has been sent."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._bytes = 0
        self._since = monotonic()

    def grow(self, held_bytes: int) -> None:
        """Set the memory of this body to ``held_bytes``, if that is more than before.

        Raises Overloaded if all bodies together would use too much memory. A body that is alone in
        memory is never refused here; it has a limit of its own.
        """
        if held_bytes <= self._bytes:
            return
        gate = self._gate
        others_bytes = gate.held_body_bytes - self._bytes
        if others_bytes and others_bytes + held_bytes > gate.max_held_body_bytes:
            limit = gate.max_held_body_bytes
            detail = f"request bodies take up {limit} bytes already (POSREF_MAX_HELD_BODY_BYTES)"
            raise gate.overloaded("bodies", detail, gate.held_seconds.value)
        gate.held_body_bytes = others_bytes + held_bytes
        self._bytes = held_bytes

    def release(self) -> None:
        """Subtract the memory of this body from the total; may be called twice."""
        if self._bytes:
            self._gate.held_body_bytes -= self._bytes
            self._bytes = 0
            self._gate.held_seconds.add(monotonic() - self._since)


Result = TypeVar("Result")

SHORT_SECONDS = 0.005
"""The most processor seconds of short work."""

_SHORT_LANE_THREADS = 1
_DRAWING_LANE_THREADS = 1

# Large enough that the event loop wins a contended core, and small enough that streams proceed
# under any number of small requests; measured, see docs/performance.md.
_LONG_LANE_NICENESS = 3
_TURN_SECONDS = 0.004

# The switch interval while a picture is drawn, a tenth of Python's: drawing is a tenth of a second
# of Python code, for which the event loop would wait.
_DRAWING_SWITCH_SECONDS = 0.0005


@dataclass(eq=False)
class _Place:
    """A place in the queue of a lane.

    Attributes:
        deadline: the event-loop time until which the work must have begun.
        begun_at: the monotonic time at which the work began; None before.
    """

    deadline: float
    begun_at: float | None = None


class _Piece(Generic[Result]):
    """A function that a thread of a lane calls; withdrawing it frees its memory at once.

    The executor's own queue keeps cancelled functions until a thread reaches them.
    """

    def __init__(self, threads: ThreadPoolExecutor, work: Callable[[], Result]) -> None:
        self._work: Callable[[], Result] | None = work
        self._future = threads.submit(self._do)
        self._done = asyncio.wrap_future(self._future)

    async def wait(self, seconds: float) -> None:
        """Wait until the work is done, at most ``seconds``."""
        try:
            await asyncio.wait({self._done}, timeout=seconds)
        except asyncio.CancelledError:
            # Otherwise asyncio logs the exception of work whose result nothing awaits.
            self._done.cancel()
            raise

    async def result(self) -> Result:
        """Return the result of the work; if the caller is cancelled, withdraw the work."""
        try:
            return await self._done
        finally:
            self.withdraw()

    def withdraw(self) -> bool:
        """Cancel the work unless it has begun; return whether it was cancelled."""
        is_withdrawn = self._future.cancel()
        if is_withdrawn:
            self._work = None
        return is_withdrawn

    def _do(self) -> Result:
        work, self._work = self._work, None
        assert work is not None
        return work()


_Turn: TypeAlias = Callable[[], Block | None]


class WorkLane:
    """The threads of one kind of work, and their queue: first come, first served.

    Attributes:
        name: the name in metrics and errors.
        work_seconds: the mean duration of work.
        building: a semaphore: at most one body for each thread is built at the same time.
        threads: the executor.
    """

    def __init__(self, gate: Gate, name: str, threads: int, *, gives_way: bool = True) -> None:
        self.name = name
        self.work_seconds = MovingMean()
        self.building = asyncio.Semaphore(threads)
        self.threads = ThreadPoolExecutor(
            threads, f"posref-{name}", initializer=_give_way if gives_way else None
        )
        self._gate = gate
        self._thread_count = threads
        self._waiting: set[_Place] = set()

    def __len__(self) -> int:
        """Return the number of pieces of work that wait."""
        return len(self._waiting)

    @contextmanager
    def place(self) -> Iterator[_Place]:
        """Hold a place in the queue until the work begins; raises Overloaded if it is full."""
        if len(self) >= self._gate.max_waiting:
            rule = f"{len(self)} requests wait already for {self.name} work (POSREF_MAX_WAITING)"
            raise self._overloaded("waiting", rule)
        place = _Place(asyncio.get_running_loop().time() + self._gate.wait_seconds)
        self._waiting.add(place)
        try:
            yield place
        finally:
            self._waiting.discard(place)
            if place.begun_at is not None:
                self.work_seconds.add(monotonic() - place.begun_at)

    async def begin_body(self, place: _Place) -> None:
        """Acquire ``building``; raises Overloaded at the deadline."""
        try:
            async with asyncio.timeout_at(place.deadline):
                await self.building.acquire()
        except TimeoutError:
            raise self._late() from None

    async def first(self, work: Callable[[], Result], place: _Place) -> _Piece[Result]:
        """Do the first work of a place and return it; raises Overloaded at the deadline."""

        def begin() -> Result:
            place.begun_at = monotonic()
            self._waiting.discard(place)
            return work()

        piece = _Piece(self.threads, begin)
        try:
            await piece.wait(place.deadline - asyncio.get_running_loop().time())
            if piece.withdraw():
                raise self._late()
            await piece.result()
        finally:
            piece.withdraw()
        return piece

    async def blocks(
        self, turn: _Turn, ahead: _Piece[Block | None] | None = None
    ) -> AsyncGenerator[Block, None]:
        """Yield the blocks of all turns; each is computed while the previous one is consumed.

        Args:
            turn: computes the next block, None at the end.
            ahead: the work that computes the first block, if it has begun already.
        """
        ahead = ahead or _Piece(self.threads, turn)
        try:
            while (block := await ahead.result()) is not None:
                ahead = _Piece(self.threads, turn)
                yield block
                del block
        finally:
            ahead.withdraw()

    def _late(self) -> Overloaded:
        seconds = self._gate.wait_seconds
        rule = f"{self.name} work did not begin within {seconds} seconds (POSREF_WAIT_SECONDS)"
        return self._overloaded("wait_time", rule)

    def _overloaded(self, reason: str, rule: str) -> Overloaded:
        wait_seconds = len(self) * self.work_seconds.value / self._thread_count
        return self._gate.overloaded(reason, rule, wait_seconds)


class Workers:
    """Three lanes of worker threads: for short work, for long work and for drawings.

    Work of one lane never waits for another lane. Each lane serves turns in order of arrival. A
    turn of long work computes one block, so all streams and builds share the threads of their lane
    evenly. A drawing is one long turn.

    ``run``, ``begin`` and ``collect`` raise Overloaded if the queue is full, or after
    POSREF_WAIT_SECONDS in the queue.
    """

    def __init__(self, threads: int, gate: Gate) -> None:
        self._short = WorkLane(gate, "short", _SHORT_LANE_THREADS, gives_way=False)
        self._long = WorkLane(gate, "long", threads)
        self._drawing = WorkLane(gate, "drawing", _DRAWING_LANE_THREADS)
        self._lanes = (self._short, self._long, self._drawing)

    async def run(self, work: Callable[[], Result], seconds: float) -> Result:
        """Do work on a thread and return its result.

        Args:
            work: the function to call.
            seconds: its estimated processor seconds; up to SHORT_SECONDS it runs in the short lane.
        """
        lane = self._short if seconds <= SHORT_SECONDS else self._long
        with lane.place() as place:
            piece = await lane.first(work, place)
            return await piece.result()

    def iterate(
        self, blocks: Iterator[Block], *, drawn: bool = False
    ) -> AsyncGenerator[Block, None]:
        """Yield blocks, computed in turns of bounded time and size; never refused.

        Args:
            blocks: the iterator that computes the blocks.
            drawn: whether the body is a drawing, whose turn has no time limit.
        """
        lane, turn = self._turns(blocks, drawn=drawn)
        return lane.blocks(turn)

    async def begin(
        self, blocks: Iterator[Block], *, drawn: bool = False
    ) -> AsyncGenerator[Block, None]:
        """Like ``iterate``, with the first block computed before this returns."""
        lane, turn = self._turns(blocks, drawn=drawn)
        with lane.place() as place:
            return lane.blocks(turn, await lane.first(turn, place))

    async def collect(
        self,
        blocks: Iterator[Block],
        put_together: Callable[[list[Block]], Result],
        *,
        drawn: bool = False,
    ) -> Result:
        """Compute all blocks of a body and return ``put_together`` of their list.

        At most one body for each thread is built at a time, because half-built bodies use memory.
        """
        lane, turn = self._turns(blocks, drawn=drawn)
        with lane.place() as place:
            await lane.begin_body(place)
            try:
                first = await lane.first(turn, place)
                computed = [block async for block in lane.blocks(turn, first)]
                return await _Piece(lane.threads, partial(put_together, computed)).result()
            finally:
                lane.building.release()

    def waiting_by_lane(self) -> Mapping[str, int]:
        """Return the number of waiting requests, by the name of the lane."""
        return {lane.name: len(lane) for lane in self._lanes}

    def close(self) -> None:
        """Finish running work and drop waiting work."""
        for lane in self._lanes:
            lane.threads.shutdown(wait=True, cancel_futures=True)

    def _turns(self, blocks: Iterator[Block], *, drawn: bool) -> tuple[WorkLane, _Turn]:
        """Return the lane that computes the blocks, and the function that computes one turn."""
        if drawn:
            return self._drawing, partial(_drawing_turn, blocks)
        return self._long, partial(_turn, blocks)


def _give_way() -> None:
    """Lower the priority of this thread; only Linux has a niceness for each thread."""
    if sys.platform == "linux":
        os.nice(_LONG_LANE_NICENESS)


def _drawing_turn(blocks: Iterator[Block]) -> Block | None:
    """Compute a drawing with a short switch interval, so that the event loop is not delayed."""
    usual_seconds = sys.getswitchinterval()
    sys.setswitchinterval(_DRAWING_SWITCH_SECONDS)
    try:
        return _turn(blocks)
    finally:
        sys.setswitchinterval(usual_seconds)


def _turn(blocks: Iterator[Block]) -> Block | None:
    """Compute blocks for a limited size and time; return them joined, None at the end."""
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
