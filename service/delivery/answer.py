"""Answers whose body is there, is made while it is sent, or is only described."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.delivery.headers import RawHeaders
from service.formats.format import Block


class Answer(Response):
    """An answer with just the headers it is given.

    Args:
        status: the status code.
        headers: all headers; Content-Length is added only where the body is there as bytes.
        body: bytes, blocks that are made one by one, or None for no body at all.
        counted: the same blocks once more, where they have to be counted first to tell the length.
    """

    def __init__(
        self,
        status: int,
        headers: RawHeaders,
        body: Block | AsyncGenerator[Block, None] | None = None,
        counted: AsyncGenerator[Block, None] | None = None,
    ) -> None:
        self.status_code = int(status)
        self.background = None
        self.payload = body
        self.counted = counted
        self.raw_headers = list(headers)
        if isinstance(body, bytes | memoryview):
            self.raw_headers.append((b"content-length", b"%d" % len(body)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        if self.counted is not None:
            length_bytes = await _count(self.counted, receive)
            if length_bytes is None:
                return
            self.raw_headers.append((b"content-length", b"%d" % length_bytes))
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        if self.payload is None or scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
        elif isinstance(self.payload, bytes | memoryview):
            await send({"type": "http.response.body", "body": self.payload})
        else:
            await _send_blocks(self.payload, receive, send)


async def _send_blocks(blocks: AsyncGenerator[Block, None], receive: Receive, send: Send) -> None:
    """Send blocks as they are made; stop making them when the client has gone.

    The server's ``send`` returns silently after a disconnect, so only ``receive`` tells. It waits
    for the block before it to be taken, so an empty one waits until the next may be made: a
    reader that is slow holds one block.
    """
    async with _gone(receive) as gone, aclosing(blocks) as made:
        async for block in made:
            if gone.done():
                return
            await send({"type": "http.response.body", "body": block, "more_body": True})
            del block
            await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _count(blocks: AsyncGenerator[Block, None], receive: Receive) -> int | None:
    """Count the bytes of blocks, holding none; None when the client has gone meanwhile."""
    count = 0
    async with _gone(receive) as gone, aclosing(blocks) as made:
        async for block in made:
            if gone.done():
                return None
            count += len(block)
    return count


@asynccontextmanager
async def _gone(receive: Receive) -> AsyncGenerator[asyncio.Future[None], None]:
    """Give what is done once the client has gone."""
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        yield gone
    finally:
        gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
