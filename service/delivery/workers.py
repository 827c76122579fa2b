"""Threads for everything that computes: the event loop only waits."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Generic, TypeAlias, TypeVar

from service.delivery.gate import Gate, Line, Place
from service.formats.format import BLOCK_BYTES, Block

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
        self, threads: ThreadPoolExecutor, work: Callable[[], Result], place: Place | None
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

    def begin(self, work: Callable[[], Result], place: Place | None = None) -> _Piece[Result]:
        """Put a piece of work into the queue."""
        return _Piece(self.threads, work, place)

    async def first(self, work: Callable[[], Result], place: Place) -> _Piece[Result]:
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
