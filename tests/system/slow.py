"""Slow clients: readers that stop reading, and requests sent byte by byte."""

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event, Thread

from tests.system.connection import spelled
from tests.system.servers import KIB

_PAUSE_SECONDS = 0.5
_PATIENCE_SECONDS = 60.0
_TAKEN_BYTES = 4 * KIB
_HEADS_PER_ADDRESS = 100


@contextmanager
def slow_readers(port: int, target: str, number: int) -> Iterator[None]:
    """Begin to read tables from an address of their own, and stop reading."""
    with ExitStack() as stack:
        readers = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each, reader in enumerate(readers):
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _TAKEN_BYTES)
            reader.settimeout(_PATIENCE_SECONDS)
            reader.bind((_address(0), 0))
            reader.connect(("127.0.0.1", port))
            reader.sendall(spelled(f"{target}&start={each}"))
        for reader in readers:
            assert reader.recv(_TAKEN_BYTES).startswith(b"HTTP/1.1 200 OK\r\n")
        yield


@dataclass
class SlowHeads:
    """The outcomes of request heads that never end.

    Attributes:
        waiting: the number of heads being sent.
        ends: the number that the server ended, by the status line that it sent.
    """

    waiting: int = 0
    ends: Counter[bytes] = field(default_factory=Counter)

    @property
    def ended(self) -> int:
        return self.ends.total()


@contextmanager
def slow_heads(port: int, number: int) -> Iterator[SlowHeads]:
    """Send request heads byte by byte, and begin again when refused."""
    heads, is_over = SlowHeads(), Event()

    async def all_of_them() -> None:
        addresses = (_address(1 + each // _HEADS_PER_ADDRESS) for each in range(number))
        await asyncio.gather(*(_dribble(port, each, heads, is_over) for each in addresses))

    thread = Thread(target=lambda: asyncio.run(all_of_them()))
    thread.start()
    try:
        yield heads
    finally:
        is_over.set()
        thread.join()


async def _dribble(port: int, address: str, heads: SlowHeads, is_over: Event) -> None:
    while not is_over.is_set():
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        heads.waiting += 1
        answer = asyncio.create_task(_first_line(reader))
        writer.write(spelled("/readyz", "X-Slow: ")[:-4])
        while not is_over.is_set() and not answer.done():
            writer.write(b"x")
            await asyncio.wait([answer], timeout=_PAUSE_SECONDS)
        heads.waiting -= 1
        if answer.done():
            heads.ends[answer.result()] += 1
        answer.cancel()
        writer.close()


async def _first_line(reader: asyncio.StreamReader) -> bytes:
    with suppress(ConnectionError):
        return (await reader.readline()).rstrip()
    return b""


def _address(number: int) -> str:
    return f"127.0.1.{1 + number}"
