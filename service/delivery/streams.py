"""Streams: bodies that are sent in pieces, each made when the connection can take it.

While a client does not read, its stream is a position in a body: what was computed beyond it is
dropped, and computed again once the client reads on.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from functools import partial
from time import monotonic
from typing import Protocol, TypeVar

from service.delivery.budget import Budget, Grant
from service.delivery.schedule import ThreadWork, joined_blocks
from service.formats.format import BLOCK_BYTES, Block, Body, Part, WholeBody
from service.numerics.setups import TURN_SECONDS

STREAM = "posref.stream"
"""The type of the ASGI message with a Stream, and the name of the extension that takes it."""

FIRST_BYTES = 64 * 1024
"""The size of the first piece, and of all pieces while the client reads slowly."""

MAX_UNREAD_BYTES = 128 * 1024
"""The most memory of an answer that its client does not read."""

UNAWAITED_TURN_SECONDS = 0.02
"""The length of a turn that writes, while nobody waits for its thread."""

UNSENT_BYTES = 128 * 1024
"""The most unsent bytes that the kernel buffers for a connection; more would only use memory."""

# The same for a client that has read.
_MOST_UNSENT_BYTES = 256 * 1024

Result = TypeVar("Result")


class Turn(Protocol):
    """Calls a function on a worker thread."""

    def __call__(self, work: Callable[[], Result], /) -> Awaitable[Result]: ...


class PieceWriter(ABC):
    """Writes pieces to a connection on the thread that computes them, for one turn.

    Attributes:
        taken_bytes: how many bytes of the pieces the connection has taken.
        rest: the bytes of the last piece that it has not taken.
        is_full: whether it did not take a piece at once; nothing more may be written then.
    """

    def __init__(self) -> None:
        self.taken_bytes = 0
        self.rest: Block = b""
        self.is_full = False

    @abstractmethod
    def write(self, piece: Block) -> None:
        """Write what the connection takes at once."""


class Stream(ABC):
    """A body that is sent in pieces.

    Args:
        grant: its memory.

    Attributes:
        sent_bytes: how many bytes the connection has taken.
        is_complete: whether it has taken all of them.
        can_forget: whether bytes that the client has not taken may be dropped, because they can be
            computed or read from the cache again.
        unsent_bytes: the most bytes that the kernel should buffer before it sends them.
    """

    can_forget = False
    unsent_bytes = UNSENT_BYTES

    def __init__(self, grant: Grant) -> None:
        self.sent_bytes = 0
        self.is_complete = False
        self._grant = grant
        self._rest: Block = b""

    async def piece(self, writer: PieceWriter | None = None) -> Block | None:
        """Return the bytes that follow those sent, or None at the end.

        An empty piece is a step of what is set up before the first byte, or follows pieces that
        were written.

        Args:
            writer: may write pieces; what it has written is sent.
        """
        if self._rest:
            return self._rest
        if self.is_complete:
            return None
        piece = await self._next_piece(writer)
        self._rest = piece or b""
        self.is_complete |= piece is None
        return piece

    def take(self, count: int, at_once: int) -> None:  # noqa: ARG002
        """Move on by bytes that the connection has taken.

        Args:
            count: the number of bytes, at most as many as ``piece`` returned.
            at_once: how many of them the kernel accepted without waiting for the client.
        """
        self.sent_bytes += count
        self._rest = memoryview(self._rest)[count:] if count < len(self._rest) else b""

    @abstractmethod
    def forget(self) -> None:
        """Drop what is computed beyond the position, where it can be computed again."""

    def close(self) -> None:
        """Drop everything that is computed, and end what is being computed."""
        self._rest = b""
        self._grant.release()

    @abstractmethod
    async def _next_piece(self, writer: PieceWriter | None) -> Block | None:
        """Return the bytes after the last piece; None at the end."""


class BodyStream(Stream):
    """The stream of a body, or of a range of it, that worker threads compute.

    Pieces grow from FIRST_BYTES to BLOCK_BYTES while the connection takes each one at once. With a
    writer, a turn computes and writes as many as there is time for, so that threads are seldom
    switched; while nobody waits for the thread, a turn is longer. A body of unknown length is not
    computed from any byte on, but from the part on that has it (Replay).

    Args:
        body: the body.
        turn: calls a function on a worker thread, and is never refused.
        budget: grants the memory of the pieces; while it is tight, only a client that reads at
            once gets large ones.
        start, stop: the range to send; by default the whole body.
        cached: returns the whole body while it is in the cache, else None; only for bodies that
            were there.
        is_awaited: returns whether others wait for the thread of a turn; any thread may call it.

    Raises Overloaded if there is no memory for small pieces.
    """

    def __init__(
        self,
        body: Body,
        turn: Turn,
        budget: Budget,
        start: int = 0,
        stop: int | None = None,
        *,
        cached: Callable[[], bytes | None] | None = None,
        is_awaited: Callable[[], bool] = lambda: True,
    ) -> None:
        # A cached body has its memory already.
        is_cached = cached is not None
        self._body, self._turn = body, turn
        self._state_bytes = body.state_bytes if isinstance(body, WholeBody) else 0
        held_bytes = _held_bytes(FIRST_BYTES, self._state_bytes)
        super().__init__(budget.grant("streams", held_bytes, from_reserve=is_cached))
        self._cached, self._budget, self._is_awaited = cached, budget, is_awaited
        self._position = start
        self._stop = body.length_bytes if stop is None else stop
        self._piece_bytes = FIRST_BYTES
        self._was_whole = False
        self._blocks: Iterator[Block] | None = None
        self._work: Callable[[], Block | None] | None = None

    @property
    def can_forget(self) -> bool:  # type: ignore[override]
        """True unless an iterator holds state that cannot be computed from the position."""
        return not self._state_bytes or self._blocks is None

    @property
    def unsent_bytes(self) -> int:  # type: ignore[override]
        """The most bytes that the kernel should buffer, more for a client that has read.

        Writing a long piece in several parts takes half as long again.
        """
        is_long = self._piece_bytes >= _MOST_UNSENT_BYTES and self._is_granted(self._piece_bytes)
        return _MOST_UNSENT_BYTES if is_long and self.sent_bytes >= BLOCK_BYTES else UNSENT_BYTES

    async def begin(self, work: ThreadWork, piece_bytes: int = FIRST_BYTES) -> None:
        """Compute the first piece by work that may be refused; raises Overloaded."""
        self._grow(piece_bytes)
        try:
            while not self._rest and (piece := await self._computed(work.turn)) is not None:
                self._rest = piece
        finally:
            work.end()

    def take(self, count: int, at_once: int) -> None:
        is_whole = at_once >= len(self._rest)
        super().take(count, at_once)
        self._move(count, is_whole=is_whole)

    def _move(self, count: int, *, is_whole: bool) -> None:
        """Move the position on; choose the size of the next piece."""
        was_whole, self._was_whole = self._was_whole, is_whole
        self._position += count
        if isinstance(self._blocks, Replay):
            self._blocks.take(count)
        self.is_complete = self._position == self._stop
        if not is_whole:
            if self._budget.is_tight or not self._is_granted(self._piece_bytes):
                self.forget()
        # Every writable connection accepts a first piece, which does not show that it is fast.
        elif was_whole or self._piece_bytes > FIRST_BYTES:
            self._grow(2 * self._piece_bytes)

    def forget(self) -> None:
        self._piece_bytes, self._was_whole = FIRST_BYTES, False
        self._rest, self._work = b"", None
        if isinstance(self._blocks, Replay):
            self._blocks.rewind()
        else:
            self._blocks = None
        self._grant.resize(_held_bytes(FIRST_BYTES, self._state_bytes))

    def close(self) -> None:
        self._blocks = self._work = None
        super().close()

    def _grow(self, piece_bytes: int) -> None:
        """Make larger pieces, and have them granted unless memory is scarce.

        Those that are not granted are dropped if the connection does not take them at once, and
        are half the largest at most.
        """
        piece_bytes = min(piece_bytes, BLOCK_BYTES)
        if self.can_forget and piece_bytes > self._piece_bytes:
            if not self._budget.is_tight:
                self._grant.grow_if_free(_held_bytes(piece_bytes, self._state_bytes))
            is_granted = self._is_granted(piece_bytes)
            self._piece_bytes = piece_bytes if is_granted else min(piece_bytes, BLOCK_BYTES // 2)

    def _is_granted(self, piece_bytes: int) -> bool:
        return self._grant.size_bytes >= _held_bytes(piece_bytes, self._state_bytes)

    async def _next_piece(self, writer: PieceWriter | None) -> Block | None:
        piece = self._cached_piece()
        if piece is None:
            return await self._computed(self._turn, writer)
        # A fast reader does not keep the event loop from others.
        await asyncio.sleep(0)
        return piece

    def _cached_piece(self) -> Block | None:
        body = self._cached() if self._cached and not self._blocks else None
        if body is None:
            return None
        # What a step was computed for is sent now.
        self._work = None
        stop = min(self._position + BLOCK_BYTES, self._stop or len(body))
        return memoryview(body)[self._position : stop]

    async def _computed(self, turn: Turn, writer: PieceWriter | None = None) -> Block | None:
        """Compute the next piece, or with an empty one a step of the setup before it.

        What a writer has written is not returned.
        """
        # Not kept meanwhile: it refers to this stream, whose memory a cancellation gives back.
        work, self._work = self._work or self._next_work(), None
        if writer is None:
            piece = await turn(work)
        else:
            try:
                piece = await turn(partial(_write_pieces, work, writer, self._is_awaited))
            finally:
                self.sent_bytes += writer.taken_bytes
            if writer.taken_bytes:
                self._rest = piece or b""
                self._move(writer.taken_bytes, is_whole=not writer.is_full)
                return self._rest
        if piece is not None and not piece:
            self._work = work
        return piece

    def _next_work(self) -> Callable[[], Block | None]:
        """Return the function that computes the next piece, by a call or several."""
        position = self._position
        most_bytes = BLOCK_BYTES // 2 if self._budget.is_tight else BLOCK_BYTES
        piece_bytes = min(self._piece_bytes, most_bytes)
        if isinstance(self._body, WholeBody):
            self._blocks = self._blocks or Replay(self._body.parts(), position)
        elif self._stop is not None and piece_bytes < BLOCK_BYTES:
            # The iterator of a part ends with it, and so does the memory of its tables.
            self._blocks = None
            part = self._body.blocks(position, min(position + piece_bytes, self._stop))
            return partial(joined_blocks, part, piece_bytes)
        elif self._blocks is None:
            self._blocks = self._body.blocks(position, self._stop)
        return partial(joined_blocks, self._blocks, piece_bytes // 2)


def _write_pieces(
    compute: Callable[[], Block | None], writer: PieceWriter, is_awaited: Callable[[], bool]
) -> Block | None:
    """Compute and write pieces for a turn, while the connection takes each at once.

    Returns the rest of the last one, None if there is none; if nothing is written, what was
    computed.
    """
    begun = last = monotonic()
    while piece := compute():
        writer.write(piece)
        now = monotonic()
        most_seconds = TURN_SECONDS if is_awaited() else UNAWAITED_TURN_SECONDS
        # The next one may take as long.
        if writer.is_full or 2 * now - last > begun + most_seconds:
            break
        # Not kept meanwhile: memory is granted for the next one.
        last, piece = now, b""
    return (writer.rest or None) if writer.taken_bytes else piece


class PipedStream(Stream):
    """The stream of a body that a child process computes and sends.

    Args:
        blocks: receives the body from the child, which waits while nothing is received; the child
            is killed when the generator is dropped.
        grant: the memory of the child.
    """

    def __init__(self, blocks: AsyncGenerator[Block, None], grant: Grant) -> None:
        super().__init__(grant)
        self._blocks: AsyncGenerator[Block, None] | None = blocks

    def forget(self) -> None:
        """Keep everything: the child does not compute it again."""

    async def whole(self) -> bytes:
        """Return the whole body."""
        assert self._blocks is not None
        body = b"".join([block async for block in self._blocks])
        self.close()
        return body

    def close(self) -> None:
        self._blocks = None
        super().close()

    async def _next_piece(self, writer: PieceWriter | None) -> Block | None:  # noqa: ARG002
        return None if self._blocks is None else await anext(self._blocks, None)


def _held_bytes(piece_bytes: int, state_bytes: int = 0) -> int:
    """Return the memory of a stream: its pieces, what waits to be sent or joined, and its state."""
    pieces = 2 if piece_bytes == BLOCK_BYTES else 1
    return pieces * piece_bytes + max(piece_bytes, FIRST_BYTES) // 2 + state_bytes


class Replay(Iterator[Block]):
    """The blocks of a body from a position on, which can go back to what is not taken.

    Args:
        parts: of the body. Those that are functions are called again, others are kept until they
            are taken.
        start: the position; all before it is computed, too.
    """

    def __init__(self, parts: Iterator[Part], start: int) -> None:
        self._parts = parts
        self._again: deque[Part] = deque()
        self._begun: tuple[Part, Iterator[Block]] | None = None
        self._untaken: deque[tuple[Part, int]] = deque()
        # Those of the first untaken part; before any is computed, all up to the position.
        self._taken_bytes = start

    def __next__(self) -> Block:
        if self._begun is None:
            part = self._again.popleft() if self._again else next(self._parts)
            self._begun = part, part() if callable(part) else iter((part,))
        part, blocks = self._begun
        block = next(blocks)
        if callable(part) and not block:
            return block
        self._begun = None
        taken_bytes = 0 if self._untaken else self._taken_bytes
        self._untaken.append((part, len(block)))
        self.take(0)
        return memoryview(block)[taken_bytes:]

    def take(self, count: int) -> None:
        """Move the position on, by bytes that were computed."""
        self._taken_bytes += count
        while self._untaken and self._taken_bytes >= self._untaken[0][1]:
            self._taken_bytes -= self._untaken.popleft()[1]

    def rewind(self) -> None:
        """Go back to the position."""
        begun = (self._begun,) if self._begun else ()
        self._again.extendleft(part for part, _ in reversed((*self._untaken, *begun)))
        self._untaken.clear()
        self._begun = None
