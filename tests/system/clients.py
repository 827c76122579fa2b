"""Clients that ask and ask again on connections that they keep, and what they saw."""

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
class Question:
    """A request, and the only body that is right.

    Attributes:
        kind: what it is called in numbers.
        request: its bytes.
        expected: the body of the answer.
    """

    kind: str
    request: bytes
    expected: bytes


Questions = Iterator[Question]


@dataclass
class Seen:
    """What clients saw, all of them together.

    Attributes:
        whole: right answers, by kind.
        refused: answers that are problems, by kind and status.
        wrong: other answers, each with what was asked.
        broken: own ports of connections that ended before an answer, and what was asked.
        cut: the same, where a part of the answer had come.
        closed: own ports of connections that ended while nothing was asked.
        unconnected: attempts to connect that failed.
    """

    whole: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, int]] = field(default_factory=Counter)
    wrong: list[bytes] = field(default_factory=list)
    broken: dict[int, str] = field(default_factory=dict)
    cut: dict[int, str] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    unconnected: int = 0
    longest_seconds: float = 0.0

    def __str__(self) -> str:
        """Say it in one line."""
        whole = ", ".join(f"{number} {kind}" for kind, number in sorted(self.whole.items()))
        refused = ", ".join(
            f"{number} {kind} {status}" for (kind, status), number in sorted(self.refused.items())
        )
        broken, cut = (dict(Counter(each.values())) for each in (self.broken, self.cut))
        return (
            f"whole: {whole or 0}; refused: {refused or 0}; wrong: {len(self.wrong)}; "
            f"broken unanswered: {broken or 0}; cut off: {cut or 0}; "
            f"closed idle: {len(self.closed)}; connects refused: {self.unconnected}; "
            f"longest: {self.longest_seconds:.2f} s"
        )

    @property
    def ended_ports(self) -> set[int]:
        """Own ports of all connections that the other side ended."""
        return {*self.broken, *self.cut, *self.closed}

    def asked_again(self, kinds: Sequence[str], times: int) -> Callable[[], bool]:
        """Give what tells whether so many more answers of each kind have come."""
        before = Counter(self.whole)
        return lambda: all(self.whole[kind] - before[kind] >= times for kind in kinds)


class _Client:
    """One client, and its connection."""

    def __init__(self, port: int, questions: Questions, seen: Seen, *, is_kept: bool) -> None:
        self._port = port
        self._questions = questions
        self._seen = seen
        self._is_kept = is_kept
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._own_port = 0

    async def run(self, is_over: Event) -> None:
        while not is_over.is_set():
            try:
                reader, writer = await self._connected()
            except OSError:
                self._seen.unconnected += 1
            else:
                await self._ask(reader, writer, next(self._questions))
            await asyncio.sleep(_PAUSE_SECONDS)
        self._leave()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and self._has_ended(self._streams[0]):
            self._seen.closed.add(self._own_port)
            self._leave()
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            self._own_port = self._streams[1].get_extra_info("sockname")[1]
        return self._streams

    def _has_ended(self, reader: asyncio.StreamReader) -> bool:
        return reader.at_eof() or reader.exception() is not None

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, question: Question
    ) -> None:
        begun = asyncio.get_running_loop().time()
        received: list[bytes] = []
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                writer.write(question.request)
                await self._read(reader, received)
        except (OSError, EOFError, TimeoutError):
            ended = self._seen.cut if received else self._seen.broken
            ended[self._own_port] = question.kind
            self._leave()
        else:
            self._note(question, received[0], b"".join(received[1:]))
        took = asyncio.get_running_loop().time() - begun
        self._seen.longest_seconds = max(self._seen.longest_seconds, took)

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

    def _note(self, question: Question, head: bytes, body: bytes) -> None:
        status = int(head.split(maxsplit=2)[1])
        if status < 300 and body == question.expected:
            self._seen.whole[question.kind] += 1
        elif status >= 400 and b"urn:posref:problem:" in body:
            self._seen.refused[question.kind, status] += 1
        else:
            self._seen.wrong.append(question.request[:200])
        if not self._is_kept or _header(head, b"connection") == b"close":
            self._leave()

    def _leave(self) -> None:
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
def asking(
    port: int,
    questions: Sequence[Questions],
    clients_each: int = CLIENTS_EACH,
    *,
    kept: bool = True,
) -> Iterator[Seen]:
    """Let clients ask for as long as a context lasts; what is being answered then is read.

    Args:
        port: whom they ask.
        questions: what they ask, without end.
        clients_each: how many share the questions of one kind.
        kept: whether they keep their connections.
    """
    seen, is_over = Seen(), Event()
    clients = [
        _Client(port, each, seen, is_kept=kept) for each in questions for _ in range(clients_each)
    ]

    async def all_of_them() -> None:
        await asyncio.gather(*(client.run(is_over) for client in clients))

    thread = Thread(target=lambda: asyncio.run(all_of_them()))
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()
