"""Answers whose body is there, is made while it is sent, or is only described."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class Answer(Response):
    """An answer with just the headers it is given.

    Args:
        status: the status code.
        headers: all headers; Content-Length is added only where the body is there as bytes.
        body: bytes, blocks that are made one by one, or None for no body at all.
    """

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes | AsyncGenerator[bytes, None] | None = None,
    ) -> None:
        self.status_code = status
        self.background = None
        self.payload = body
        length = {"Content-Length": str(len(body))} if isinstance(body, bytes) else {}
        self.raw_headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in {**headers, **length}.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        if self.payload is None or scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
        elif isinstance(self.payload, bytes):
            await send({"type": "http.response.body", "body": self.payload})
        else:
            await _send_blocks(self.payload, receive, send)


async def _send_blocks(blocks: AsyncGenerator[bytes, None], receive: Receive, send: Send) -> None:
    """Send blocks as they are made; stop making them when the client has gone.

    The server's ``send`` returns silently after a disconnect, so only ``receive`` tells.
    """
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        async with aclosing(blocks) as made:
            async for block in made:
                if gone.done():
                    return
                await send({"type": "http.response.body", "body": block, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
