"""Many clients at once, on one event loop: what each asked for and what came of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from tests.system.connection import spelled

_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Reply:
    """What came of a request.

    Attributes:
        status: the status code; 0 where no answer came, or not the whole of one.
        headers: by names in lower case.
        body: its bytes, or what went wrong.
    """

    status: int
    headers: dict[str, str]
    body: bytes


class Caller:
    """A client that keeps its connection, or does not."""

    def __init__(self, port: int, *, is_kept: bool = True) -> None:
        self._port = port
        self._is_kept = is_kept
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> Reply:
        """Send a request and read the answer; what goes wrong is an answer, too."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await self._ask(request)
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            await self.leave()
            return Reply(0, {}, repr(error).encode())

    async def leave(self) -> None:
        """Close the connection, if there is one."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()

    async def _ask(self, request: bytes) -> Reply:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        await writer.drain()
        reply = await _read(reader)
        if not self._is_kept or reply.headers.get("connection") == "close":
            await self.leave()
        return reply


async def _read(reader: asyncio.StreamReader) -> Reply:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers["content-length"]))
    return Reply(int(head[0].split()[1]), headers, body)


async def at_once(port: int, target: str, clients: int) -> list[Reply]:
    """Let clients, each connected before, ask for one target at the same time."""
    callers = [Caller(port) for _ in range(clients)]
    await asyncio.gather(*(caller.ask(spelled("/edge/healthz")) for caller in callers))
    try:
        return await asyncio.gather(*(caller.ask(spelled(target)) for caller in callers))
    finally:
        await asyncio.gather(*(caller.leave() for caller in callers))


Requests: TypeAlias = Callable[[], Iterator[bytes]]
"""What one client asks for, one after the other."""


@dataclass
class Load:
    """What clients got so far."""

    replies: list[tuple[bytes, Reply]] = field(default_factory=list)

    def failed(self) -> list[tuple[bytes, Reply]]:
        """Give the requests that were not answered as they should be."""
        return [(asked[:80], reply) for asked, reply in self.replies if reply.status != 200]


@asynccontextmanager
async def under_load(callers: list[tuple[Caller, Requests]]) -> AsyncIterator[Load]:
    """Let clients ask and ask again, each with a little pause, until there is enough."""
    load, is_over = Load(), asyncio.Event()

    async def keep_asking(caller: Caller, requests: Iterator[bytes]) -> None:
        while not is_over.is_set():
            request = next(requests)
            load.replies.append((request, await caller.ask(request)))
            await asyncio.sleep(0.01)
        await caller.leave()

    tasks = [asyncio.create_task(keep_asking(caller, asked())) for caller, asked in callers]
    try:
        yield load
    finally:
        is_over.set()
        await asyncio.gather(*tasks)


def fetching(pattern: str) -> Requests:
    """Ask for ever new targets; ``{}`` in the pattern is a number that rises."""
    return lambda: (spelled(pattern.format(number)) for number in count(1))


def posting(target: str, body: bytes) -> Requests:
    """Post the same body for ever."""
    headers = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    request = spelled(target, *headers, method="POST") + body
    return lambda: iter(lambda: request, b"")
