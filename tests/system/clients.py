"""Clients that send requests in a loop on their own connections, and a tally of the outcomes."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

from tests.system.servers import KIB

CLIENTS_EACH = 8

_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True)
class Request:
    """A request of a kind, its bytes, and the body of the right answer (None: any)."""

    kind: str
    data: bytes
    expected: bytes | None = None


Requests = Iterator[Request]


@dataclass
class Outcome:
    """The outcomes of all requests of a set of clients.

    Attributes:
        right: right answers, by kind.
        refused: problem documents, by kind and status.
        wrong: starts of the requests that got other answers.
        broken: kinds of requests without an answer, by the client's port.
        cut: kinds of requests with a part of an answer, by the client's port.
        closed: ports of idle connections that the server closed.
        unconnected: failed attempts to connect.
    """

    right: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, int]] = field(default_factory=Counter)
    wrong: list[bytes] = field(default_factory=list)
    broken: dict[int, str] = field(default_factory=dict)
    cut: dict[int, str] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    unconnected: int = 0
    longest_seconds: float = 0.0

    @property
    def failures(self) -> list[object]:
        """Everything but right answers."""
        parts = (self.refused, self.wrong, self.broken, self.cut, self.closed, self.unconnected)
        return [part for part in parts if part]

    @property
    def ended_ports(self) -> set[int]:
        """Client ports of all connections that the server ended."""
        return {*self.broken, *self.cut, *self.closed}

    def grows_by(self, kinds: Sequence[str], times: int) -> Callable[[], bool]:
        """Return a condition: there are so many more right answers of each kind."""
        before = Counter(self.right)
        return lambda: all(self.right[kind] - before[kind] >= times for kind in kinds)


class _Client:
    """A client and its connection."""

    def __init__(
        self, port: int, requests: Requests, outcome: Outcome, *, keep_alive: bool
    ) -> None:
        self._port = port
        self._requests = requests
        self._outcome = outcome
        self._keep_alive = keep_alive
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._own_port = 0

    async def run(self, is_over: Event) -> None:
        while not is_over.is_set():
            try:
                reader, writer = await self._connect()
            except OSError:
                self._outcome.unconnected += 1
            else:
                await self._send(reader, writer, next(self._requests))
            await asyncio.sleep(_PAUSE_SECONDS)
        self._close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and self._has_ended(self._streams[0]):
            self._outcome.closed.add(self._own_port)
            self._close()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            self._own_port = self._streams[1].get_extra_info("sockname")[1]
        return self._streams

    def _has_ended(self, reader: asyncio.StreamReader) -> bool:
        return reader.at_eof() or reader.exception() is not None

    async def _send(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request
    ) -> None:
        begun = asyncio.get_running_loop().time()
        received: list[bytes] = []
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                writer.write(request.data)
                await self._read(reader, received)
        except (OSError, EOFError, TimeoutError):
            ended = self._outcome.cut if received else self._outcome.broken
            ended[self._own_port] = request.kind
            self._close()
        else:
            self._record(request, received[0], b"".join(received[1:]))
        took = asyncio.get_running_loop().time() - begun
        self._outcome.longest_seconds = max(self._outcome.longest_seconds, took)

    async def _read(self, reader: asyncio.StreamReader, received: list[bytes]) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        received.append(head)
        left = int(_header(head, b"content-length"))
        while left:
            block = await reader.read(min(left, 256 * KIB))
            if not block:
                raise EOFError
            received.append(block)
            left -= len(block)

    def _record(self, request: Request, head: bytes, body: bytes) -> None:
        status = int(head.split(maxsplit=2)[1])
        if status < 300 and request.expected in {None, body}:
            self._outcome.right[request.kind] += 1
        elif status >= 400 and b"urn:posref:problem:" in body:
            self._outcome.refused[request.kind, status] += 1
        else:
            self._outcome.wrong.append(request.data[:200])
        if not self._keep_alive or _header(head, b"connection") == b"close":
            self._close()

    def _close(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()


def _header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        found, _, value = line.partition(b":")
        if found.lower() == name:
            return value.strip()
    return b""


@contextmanager
def running_clients(
    port: int,
    requests: Sequence[Requests],
    clients_each: int = CLIENTS_EACH,
    *,
    keep_alive: bool = True,
) -> Iterator[Outcome]:
    """Run clients during a context, each kind of endless requests shared by some of them.

    Requests that are under way at the end of the context are completed.
    """
    outcome, is_over = Outcome(), Event()
    clients = [
        _Client(port, each, outcome, keep_alive=keep_alive)
        for each in requests
        for _ in range(clients_each)
    ]

    async def run_all() -> None:
        await asyncio.gather(*(client.run(is_over) for client in clients))

    thread = Thread(target=lambda: asyncio.run(run_all()))
    thread.start()
    try:
        yield outcome
    finally:
        is_over.set()
        thread.join()
