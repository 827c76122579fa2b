"""Streams: bodies that are sent in pieces, each made when the connection can take it.

While a client does not read, its stream is a position in a body: what was computed beyond it is
dropped, and computed again once the client reads on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Protocol, TypeVar

from service.delivery.schedule import joined_blocks
from service.formats.format import BLOCK_BYTES, Block, Body

STREAM = "posref.stream"
"""The type of the ASGI message with a Stream, and the name of the extension that takes it."""

FIRST_BYTES = 64 * 1024
"""The size of the first piece, and of all pieces while the client reads slowly."""

Result = TypeVar("Result")


class Turn(Protocol):
    """Calls a function on a worker thread."""

    def __call__(self, work: Callable[[], Result], /) -> Awaitable[Result]: ...


class Stream:
    """A body, or a range of it, that is sent in pieces.

    Pieces grow from FIRST_BYTES to BLOCK_BYTES while the connection takes each one at once; only
    then the next piece is computed while one is sent. A body of unknown length cannot be computed
    from the middle, so its stream keeps an iterator in place of a position.

    Args:
        body: the body.
        turn: calls a function on a worker thread; only the first turn may be refused.
        start, stop: the range to send; by default the whole body.
        cached: returns the whole body while it is in the cache, else None.
        is_tight: returns whether memory is scarce: then all pieces are small.

    Attributes:
        sent_bytes: how many bytes the connection has taken.
        is_complete: whether it has taken all of them.
    """

    def __init__(
        self,
        body: Body,
        turn: Turn,
        start: int = 0,
        stop: int | None = None,
        *,
        cached: Callable[[], bytes | None] = lambda: None,
        is_tight: Callable[[], bool] = lambda: False,
    ) -> None:
        self.sent_bytes = 0
        self.is_complete = False
        self._body, self._turn = body, turn
        self._cached, self._is_tight = cached, is_tight
        self._has_parts = body.length_bytes is not None
        self._position = start
        self._stop = body.length_bytes if stop is None else stop
        self._piece_bytes = FIRST_BYTES
        self._is_fast = self._was_whole = False
        self._rest: Block = b""
        self._blocks: Iterator[Block] | None = None
        self._ahead: asyncio.Future[Block | None] | None = None

    @property
    def can_forget(self) -> bool:
        """Whether dropped bytes can be computed, or read from the cache, again."""
        return self._has_parts or self._blocks is None

    async def begin(self, turn: Turn | None = None, piece_bytes: int = FIRST_BYTES) -> None:
        """Compute the first piece, which may be refused; by another turn than the rest if given."""
        self._piece_bytes = min(piece_bytes, BLOCK_BYTES)
        self._rest = await (turn or self._turn)(self._work(self._position)) or b""

    async def piece(self) -> Block | None:
        """Return the bytes that follow those sent; None at the end, which an empty piece is not."""
        if self._rest:
            return self._rest
        if self.is_complete:
            return None
        piece = self._cached_piece() or await self._computed_piece()
        self._rest = piece or b""
        self.is_complete = piece is None
        return piece

    def take(self, count: int, at_once: int) -> None:
        """Move on by bytes that the connection has taken.

        Args:
            count: the number of bytes, at most as many as ``piece`` returned.
            at_once: how many of them the kernel accepted without waiting for the client.
        """
        was_whole, self._was_whole = self._was_whole, at_once >= len(self._rest)
        # Every writable connection accepts a first piece, which does not show that it is fast.
        self._is_fast = self._was_whole and (was_whole or self._piece_bytes > FIRST_BYTES)
        self._position += count
        self.sent_bytes += count
        self.is_complete = self._position == self._stop
        self._rest = memoryview(self._rest)[count:] if count < len(self._rest) else b""
        if self._is_fast:
            self._piece_bytes = min(2 * self._piece_bytes, BLOCK_BYTES)
        elif not self._was_whole and self._is_tight():
            self.forget()

    def forget(self) -> None:
        """Drop what is computed beyond the position, where it can be computed again."""
        self._piece_bytes, self._is_fast, self._was_whole = FIRST_BYTES, False, False
        if self.can_forget:
            self.close()

    def close(self) -> None:
        """Drop everything that is computed, and cancel what is being computed."""
        self._rest, self._blocks = b"", None
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None

    def _cached_piece(self) -> Block | None:
        body = None if self._blocks or self._ahead else self._cached()
        if body is None:
            return None
        stop = min(self._position + BLOCK_BYTES, self._stop or len(body))
        return memoryview(body)[self._position : stop]

    async def _computed_piece(self) -> Block | None:
        making, self._ahead = self._ahead or self._turn(self._work(self._position)), None
        piece = await making
        if piece is not None and self._is_fast and not self._is_tight():
            after = self._position + len(piece)
            if after != self._stop:
                self._ahead = asyncio.ensure_future(self._turn(self._work(after)))
        return piece

    def _work(self, position: int) -> Callable[[], Block | None]:
        """Return the function that computes the next piece, which begins at the position."""
        piece_bytes = FIRST_BYTES if self._is_tight() else self._piece_bytes
        if self._has_parts and self._stop is not None and piece_bytes < BLOCK_BYTES:
            # The iterator of a part ends with it, and so does the memory of its tables.
            self._blocks = None
            part = self._body.blocks(position, min(position + piece_bytes, self._stop))
            return partial(joined_blocks, part, piece_bytes)
        if self._blocks is None:
            self._blocks = _rest(self._body, position, self._stop)
        return partial(joined_blocks, self._blocks, piece_bytes // 2)


def _rest(body: Body, start: int, stop: int | None) -> Iterator[Block]:
    """Yield the bytes of a body from start on; without known length, compute all before them."""
    if body.length_bytes is not None:
        yield from body.blocks(start, stop)
        return
    passed_bytes = 0
    for block in body.blocks():
        yield memoryview(block)[max(0, start - passed_bytes) :]
        passed_bytes += len(block)
