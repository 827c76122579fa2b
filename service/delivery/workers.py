"""The gate: how much may wait for threads, for how long, and what of request bodies is held.

Only what has not begun waits in line. A stream that has begun is never refused, and holds no
place: its number is bounded by that of connections.

Threads for everything that computes: the event loop only waits.

Clients that leave while they wait: what was to be made for them alone is made no more.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from math import ceil
from time import monotonic
from typing import Any, Generic, TypeAlias, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from service.errors import Overloaded
from service.formats.format import BLOCK_BYTES, Block
from service.settings import Settings

REASONS = ("waiting", "wait_time", "bodies", "connections")
"""Why requests are refused though nothing is wrong with them."""

_MIN_RETRY_SECONDS = 1
_MAX_RETRY_SECONDS = 60

# How much of a mean the newest number is.
_NEWEST_SHARE = 1 / 8


class Recent:
    """The mean of a time, in which the newest ones count the most."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Take one more into account."""
        self.seconds += (seconds - self.seconds) * (_NEWEST_SHARE if self.seconds else 1)


class Gate:
    """The limits that all requests of a process share; belongs to one event loop.

    Attributes:
        max_waiting: how many may wait in each line.
        wait_seconds: how long each may.
        max_held_body_bytes: the memory that request bodies may take at once.
        held_body_bytes: what they take.
        held_for: how long bodies were held of late.
        refusals: how many requests were refused, by reason.
    """

    def __init__(self, settings: Settings) -> None:
        self.max_waiting = settings.max_waiting
        self.wait_seconds = settings.wait_seconds
        self.max_held_body_bytes = settings.max_held_body_bytes
        self.held_body_bytes = 0
        self.held_for = Recent()
        self.refusals = dict.fromkeys(REASONS, 0)

    def refused(self, reason: str) -> None:
        """Count a request that is refused for one of the reasons."""
        self.refusals[reason] += 1

    def overloaded(self, reason: str, detail: str, seconds: float) -> Overloaded:
        """Count a refusal, and make the error of it.

        Args:
            reason: one of the reasons.
            detail: what there is too much of, and the setting that says so.
            seconds: when it may be less, as far as one can tell.
        """
        self.refused(reason)
        retry_seconds = min(max(ceil(seconds), _MIN_RETRY_SECONDS), _MAX_RETRY_SECONDS)
        return Overloaded(detail, retry_seconds)


class Line:
    """Those who wait for threads of one kind, in order."""

    def __init__(self, gate: Gate, name: str, threads: int) -> None:
        self.gate = gate
        self.name = name
        self.served_for = Recent()
        self._threads = threads
        self._waiting: set[QueuePlace] = set()

    def __len__(self) -> int:
        """Count who waits."""
        return len(self._waiting)

    @property
    def wait_seconds(self) -> float:
        """How long whoever comes now will wait, as far as one can tell."""
        return len(self) * self.served_for.seconds / self._threads

    @contextmanager
    def place(self) -> Iterator["QueuePlace"]:
        """Wait in line, until served or away; raises Overloaded where too many wait."""
        if len(self) >= self.gate.max_waiting:
            detail = f"{len(self)} requests wait already for {self.name} work (POSREF_MAX_WAITING)"
            raise self.gate.overloaded("waiting", detail, self.wait_seconds)
        place = QueuePlace(self)
        self._waiting.add(place)
        try:
            yield place
        finally:
            self._waiting.discard(place)
            if place.served_at is not None:
                self.served_for.add(monotonic() - place.served_at)

    def leave(self, place: "QueuePlace") -> None:
        """Take somebody out; in any thread."""
        self._waiting.discard(place)


class QueuePlace:
    """A place in a line, to be left before a deadline.

    Attributes:
        served_at: when the wait was over.
    """

    def __init__(self, line: Line) -> None:
        self.served_at: float | None = None
        self._line = line
        self._deadline = asyncio.get_running_loop().time() + line.gate.wait_seconds
        self._is_late = False

    def serve(self) -> None:
        """End the wait; to be called by the thread that begins the work."""
        self.served_at = monotonic()
        self._line.leave(self)

    async def turn(self, turns: asyncio.Semaphore) -> None:
        """Wait for one of several turns; raises Overloaded at the deadline."""
        try:
            async with asyncio.timeout_at(self._deadline):
                await turns.acquire()
        except TimeoutError:
            raise self._late() from None

    @contextmanager
    def limited(self, withdraw: Callable[[], bool]) -> Iterator[None]:
        """Hold to its deadline what waits for a thread; raises Overloaded.

        Args:
            withdraw: cancels the work, and tells whether it had not begun.
        """
        timer = asyncio.get_running_loop().call_at(self._deadline, self._expire, withdraw)
        try:
            yield
        except asyncio.CancelledError:
            if self._is_late:
                raise self._late() from None
            raise
        finally:
            timer.cancel()

    def _expire(self, withdraw: Callable[[], bool]) -> None:
        self._is_late = withdraw()

    def _late(self) -> Overloaded:
        line, limit = self._line, self._line.gate.wait_seconds
        detail = f"{line.name} work did not begin within {limit} seconds (POSREF_WAIT_SECONDS)"
        return line.gate.overloaded("wait_time", detail, line.wait_seconds)


class Held:
    """The memory that one request body takes, from when it comes until its answer has gone."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._bytes = 0
        self._since = monotonic()

    def grow(self, held_bytes: int) -> None:
        """Hold so much in all, or more; raises Overloaded where others leave no room for it.

        Where nothing else is held any body has room: each is bounded by limits of its own.
        """
        if held_bytes <= self._bytes:
            return
        gate = self._gate
        others_bytes = gate.held_body_bytes - self._bytes
        if others_bytes and others_bytes + held_bytes > gate.max_held_body_bytes:
            limit = gate.max_held_body_bytes
            detail = f"request bodies take up {limit} bytes already (POSREF_MAX_HELD_BODY_BYTES)"
            raise gate.overloaded("bodies", detail, gate.held_for.seconds)
        gate.held_body_bytes = others_bytes + held_bytes
        self._bytes = held_bytes

    def release(self) -> None:
        """Hold nothing any more."""
        if self._bytes:
            self._gate.held_body_bytes -= self._bytes
            self._bytes = 0
            self._gate.held_for.add(monotonic() - self._since)


Result = TypeVar("Result")

SHORT_WORK = 2**18
"""The sines, or as much work, that count as short: about a millisecond."""

_SHORT_LANE_THREADS = 1
_DRAWING_LANE_THREADS = 1

# Enough that the system lets the event loop go first where a core is wanted by both, and little
# enough that streams go on under any number of small requests; measured, see docs/performance.md.
_LONG_LANE_NICENESS = 3
_TURN_SECONDS = 0.004

# How long Python lets whoever draws go on while the event loop waits for the interpreter, in place
# of its own ten times as much: drawing is a tenth of a second of Python and little else.
_DRAWING_SWITCH_SECONDS = 0.0005


class _Piece(Generic[Result]):
    """A piece of work in the queue of a lane; what is withdrawn is let go of at once.

    The queue itself keeps what is cancelled until a thread comes to it.
    """

    def __init__(
        self, threads: ThreadPoolExecutor, work: Callable[[], Result], place: QueuePlace | None
    ) -> None:
        self._work: Callable[[], Result] | None = work
        self._place = place
        self._future = threads.submit(self._do)
        self._done = asyncio.wrap_future(self._future)

    async def result(self) -> Result:
        """Wait until it is done; it is withdrawn where nobody waits any more."""
        try:
            return await self._done
        finally:
            self.withdraw()

    def withdraw(self) -> bool:
        """Take it out of the queue, and tell whether it was still there."""
        is_withdrawn = self._future.cancel()
        if is_withdrawn:
            self._work = None
        return is_withdrawn

    def _do(self) -> Result:
        work, self._work = self._work, None
        assert work is not None
        if self._place is not None:
            self._place.serve()
        return work()


_Turn: TypeAlias = Callable[[], Block | None]


class _Lane:
    """Threads that take turns at work, the line before them, and turns to build whole bodies."""

    def __init__(self, gate: Gate, name: str, threads: int, *, gives_way: bool = True) -> None:
        self.line = Line(gate, name, threads)
        self.building = asyncio.Semaphore(threads)
        self.threads = ThreadPoolExecutor(
            threads, f"posref-{name}", initializer=_give_way if gives_way else None
        )

    def begin(self, work: Callable[[], Result], place: QueuePlace | None = None) -> _Piece[Result]:
        """Put a piece of work into the queue."""
        return _Piece(self.threads, work, place)

    async def first(self, work: Callable[[], Result], place: QueuePlace) -> _Piece[Result]:
        """Do the first piece of work of whoever waits at a place; raises Overloaded."""
        piece = self.begin(work, place)
        with place.limited(piece.withdraw):
            await piece.result()
        return piece

    async def blocks(
        self, turn: _Turn, ahead: _Piece[Block | None] | None = None
    ) -> AsyncGenerator[Block, None]:
        """Give the blocks of all turns, each made while the one before it is used.

        Args:
            turn: makes the next one.
            ahead: the first one, where that has begun.
        """
        ahead = ahead or self.begin(turn)
        try:
            while (block := await ahead.result()) is not None:
                ahead = self.begin(turn)
                yield block
                del block
        finally:
            ahead.withdraw()


class Workers:
    """Run work in lanes: short work never waits for long work, and none waits for a drawing.

    Each lane takes turns in the order in which work comes. Long work comes block by block, so all
    streams and builds share the threads of their lane evenly, however long they are. A drawing is
    one block that takes long.

    What has not begun is refused where too much waits already, or when it has waited for too long.
    """

    def __init__(self, threads: int, gate: Gate) -> None:
        self._long = _Lane(gate, "long", threads)
        self._drawing = _Lane(gate, "drawing", _DRAWING_LANE_THREADS)
        self._short = _Lane(gate, "short", _SHORT_LANE_THREADS, gives_way=False)

    async def run(self, work: Callable[[], Result], cost: int) -> Result:
        """Do work on a thread and wait for it; raises Overloaded.

        Args:
            work: what to do.
            cost: how much it is, in sines.
        """
        lane = self._short if cost <= SHORT_WORK else self._long
        with lane.line.place() as place:
            piece = await lane.first(work, place)
            return await piece.result()

    def iterate(
        self, blocks: Iterator[Block], *, drawn: bool = False
    ) -> AsyncGenerator[Block, None]:
        """Make blocks in turns of bounded time and size, each while the one before it is used.

        It is never refused: it is for what goes on.

        Args:
            blocks: makes them.
            drawn: whether there is a drawing among them, which has no bounds.
        """
        lane, turn = self._turns(blocks, drawn=drawn)
        return lane.blocks(turn)

    async def begin(
        self, blocks: Iterator[Block], *, drawn: bool = False
    ) -> AsyncGenerator[Block, None]:
        """Make blocks as ``iterate`` does, the first of them before this returns.

        Raises:
            Overloaded: too much else waits.
        """
        lane, turn = self._turns(blocks, drawn=drawn)
        with lane.line.place() as place:
            return lane.blocks(turn, await lane.first(turn, place))

    async def collect(
        self,
        blocks: Iterator[Block],
        put_together: Callable[[list[Block]], Result],
        *,
        drawn: bool = False,
    ) -> Result:
        """Make all blocks of a body, of as many bodies at a time as there are threads.

        Bodies wait for their turn as a whole: those that are half made would take room.

        Args:
            blocks: makes them.
            put_together: makes the body of them.
            drawn: whether there is a drawing among them.

        Raises:
            Overloaded: too much else waits.
        """
        lane, turn = self._turns(blocks, drawn=drawn)
        with lane.line.place() as place:
            await place.turn(lane.building)
            try:
                first = await lane.first(turn, place)
                made = [block async for block in lane.blocks(turn, first)]
                return await lane.begin(partial(put_together, made)).result()
            finally:
                lane.building.release()

    def waiting_by_lane(self) -> Mapping[str, int]:
        """Count those who wait for work to begin."""
        return {lane.line.name: len(lane.line) for lane in self._lanes}

    def close(self) -> None:
        """Finish what is running and drop what waits."""
        for lane in self._lanes:
            lane.threads.shutdown(wait=True, cancel_futures=True)

    @property
    def _lanes(self) -> tuple[_Lane, ...]:
        return self._short, self._long, self._drawing

    def _turns(self, blocks: Iterator[Block], *, drawn: bool) -> tuple[_Lane, _Turn]:
        """Choose the lane of blocks, and how turns are taken there."""
        if drawn:
            return self._drawing, partial(_drawing_turn, blocks)
        return self._long, partial(_turn, blocks)


def _give_way() -> None:
    """Let other threads go before this one; only Linux has a niceness for each thread."""
    if sys.platform == "linux":
        os.nice(_LONG_LANE_NICENESS)


def _drawing_turn(blocks: Iterator[Block]) -> Block | None:
    """Take a turn in which the event loop gets the interpreter sooner than Python would have it."""
    usual_seconds = sys.getswitchinterval()
    sys.setswitchinterval(_DRAWING_SWITCH_SECONDS)
    try:
        return _turn(blocks)
    finally:
        sys.setswitchinterval(usual_seconds)


def _turn(blocks: Iterator[Block]) -> Block | None:
    """Take blocks until they are many bytes or some time has passed; None where there are none."""
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


async def cancel_on_disconnect(receive: Receive, answering: Coroutine[Any, Any, Result]) -> Result:
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


class WaitingClients:
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
