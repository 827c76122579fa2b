"""A server in a group of 512 MiB: unread streams, large bodies and examinations at once."""

import asyncio
import random
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import httptools

from benchmarks.load.generator import allow_files
from benchmarks.load.plan import HOST
from benchmarks.load.requests import KIB, MIB, get, post
from benchmarks.processes import ROOT
from benchmarks.starvation.group import Group, limited
from benchmarks.starvation.kinds import NPY, STREAMS, examination, noise
from benchmarks.starvation.server import Served, serving
from service.__main__ import find_body

LIMIT_BYTES = 512 * MIB
MOST_GROWTH_BYTES = 64 * MIB
MOST_SECONDS = 1.0

_READERS, _SENDERS, _EXAMINED = 1000, 16, 16
_OTHER_FILES = 200
_TAKEN_BYTES = 4 * KIB
_COMPARED_BYTES = 64 * KIB
_COMPARED_SHARE = 0.1
_LIVES_SECONDS = (10.0, 40.0)
_PAUSE_SECONDS = 1.0
_LEAVING_SECONDS = 5.0
_PATIENCE_SECONDS = 120.0
_NUMBERS = 100_000
_ROWS = (50, 1024, 8192)
_ALLOWED = {200, 413, 503}
_CHEAP = "/encoding.json?seq_len=50&d_model=512&start={}"


@dataclass
class Outcome:
    """The outcome of a crowd.

    Attributes:
        answers: the number of answers of each status to each sort of request; 0 is none.
        wrong: the requests that were answered with other bytes than the right ones.
        compared: the number of answers compared with the right bytes.
        cheap_seconds: of fresh small tables meanwhile.
        is_alive: whether the server was alive at the end.
        kills: the number of processes of the server that the kernel killed.
        grown_bytes: resident memory five seconds after all left, beyond that before.
        peak_bytes: the most memory that the group held.
        traceback: of the server, if there is one.
    """

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    compared: int = 0
    cheap_seconds: list[float] = field(default_factory=list)
    is_alive: bool = True
    kills: int = 0
    grown_bytes: float = float("inf")
    peak_bytes: int = 0
    traceback: str = ""

    @property
    def broken(self) -> list[str]:
        """The broken promises."""
        rules = {
            "the server ended": not self.is_alive,
            "answers of other statuses, or none": any(
                status not in _ALLOWED for _, status in self.answers
            ),
            "wrong bytes": bool(self.wrong),
            "memory kept after all left": self.grown_bytes > MOST_GROWTH_BYTES,
            "traceback": bool(self.traceback),
        }
        return [name for name, is_broken in rules.items() if is_broken]


class _Crowd:
    """All clients of one run."""

    def __init__(self, server: Served, right: Mapping[bytes, bytes], seconds: float) -> None:
        self._server = server
        self._right = right
        self._seconds = seconds
        self._end = 0.0
        self._chance = random.Random(1)
        self.outcome = Outcome()

    @property
    def _is_over(self) -> bool:
        return time.monotonic() > self._end or not self._server.is_alive

    async def run(self) -> None:
        self._end = time.monotonic() + self._seconds
        readers = [self._read_nothing(number) for number in range(_READERS)]
        senders = [self._send("body", [_body()]) for _ in range(_SENDERS)]
        examined = [self._send("examination", _examinations(), each) for each in range(_EXAMINED)]
        await asyncio.gather(*readers, *senders, *examined, self._watch())

    async def _read_nothing(self, number: int) -> None:
        """Hold streams that are not read, one after another; compare what has come of some."""
        template = STREAMS[number % len(STREAMS)]
        await asyncio.sleep(self._chance.random())
        while not self._is_over:
            target = template.format(_NUMBERS + self._chance.randrange(_NUMBERS))
            status = await self._hold(target)
            self.outcome.answers["stream", status] += 1
            if status != 200:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _hold(self, target: str) -> int:
        loop = asyncio.get_running_loop()
        answer = _Answer()
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _TAKEN_BYTES)
            connection.setblocking(False)
            try:
                await loop.sock_connect(connection, (HOST, self._server.port))
                await loop.sock_sendall(connection, get(target))
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    while not answer.status:
                        answer.feed(await loop.sock_recv(connection, _TAKEN_BYTES))
            except (OSError, EOFError, TimeoutError):
                return 0
            if answer.status == 200:
                left = max(0.0, self._end - time.monotonic())
                await asyncio.sleep(min(left, self._chance.uniform(*_LIVES_SECONDS)))
                if self._chance.random() < _COMPARED_SHARE and self._server.is_alive:
                    await self._compare(connection, answer, target)
        return answer.status

    async def _compare(self, connection: socket.socket, answer: "_Answer", target: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while len(answer.body) < _COMPARED_BYTES and not answer.is_complete:
                    answer.feed(await loop.sock_recv(connection, 4 * _TAKEN_BYTES))
        except (OSError, EOFError, TimeoutError) as error:
            self.outcome.wrong.append(f"{target}: {error!r} after {len(answer.body)} bytes")
            return
        self.outcome.compared += 1
        if not _start_of(target).startswith(answer.body[:_COMPARED_BYTES]):
            self.outcome.wrong.append(target)

    async def _send(self, sort: str, requests: Sequence[bytes], first: int = 0) -> None:
        """Send the requests in turn, and compare the answers."""
        number = first
        while not self._is_over:
            request = requests[number % len(requests)]
            answer = await self.ask(request)
            self.outcome.answers[sort, answer.status] += 1
            if answer.status == 200:
                self.outcome.compared += 1
                if answer.body != self._right[request]:
                    self.outcome.wrong.append(request[:100].decode(errors="replace"))
            else:
                await asyncio.sleep(_PAUSE_SECONDS)
            number += 1

    async def _watch(self) -> None:
        """Request a fresh small table now and then."""
        while not self._is_over:
            start = time.monotonic()
            answer = await self.ask(get(_CHEAP.format(self._chance.randrange(2**50))))
            self.outcome.cheap_seconds.append(time.monotonic() - start)
            self.outcome.answers["small table", answer.status] += 1
            await asyncio.sleep(_PAUSE_SECONDS / 4)

    async def ask(self, request: bytes) -> "_Answer":
        answer = _Answer()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                reader, writer = await asyncio.open_connection(HOST, self._server.port)
                try:
                    writer.write(request)
                    while not answer.is_complete:
                        answer.feed(await reader.read(MIB))
                finally:
                    writer.close()
        except (OSError, EOFError, TimeoutError):
            return _Answer()
        return answer


class _Answer:
    """What has come of an answer; without a status if its head has not come."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()
        self.is_complete = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """Add received bytes; raise EOFError if there are none."""
        if not data:
            raise EOFError
        self._parser.feed_data(data)

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True


def _body() -> bytes:
    return post("/rope/apply", NPY, noise(8192))


@cache
def _examinations() -> Sequence[bytes]:
    return [
        examination(what, rows) for rows in _ROWS for what in ("compare", "identify", "diagnose")
    ]


def _start_of(target: str) -> bytes:
    """Return the first bytes of an answer, computed by the library."""
    start = bytearray()
    for block in find_body(target).blocks():
        start += block
        if len(start) >= _COMPARED_BYTES:
            break
    return bytes(start)


def right_answers(checkout: Path) -> dict[bytes, bytes]:
    """Return the answers of a server without a limit that has nothing else to do."""
    requests = [_body(), *_examinations()]

    async def all_of(server: Served) -> dict[bytes, bytes]:
        crowd = _Crowd(server, {}, 0.0)
        return {each: bytes((await crowd.ask(each)).body) for each in requests}

    with serving(checkout) as server:
        return asyncio.run(all_of(server))


def crowd(checkout: Path, seconds: float) -> Outcome:
    """Run the crowd on a server with default settings in a group of 512 MiB."""
    allow_files(_READERS + _OTHER_FILES)
    right = right_answers(checkout)
    with limited(LIMIT_BYTES) as group, serving(checkout, group=group) as server:
        return _run(server, group, right, seconds)


def _run(server: Served, group: Group, right: Mapping[bytes, bytes], seconds: float) -> Outcome:
    clients = _Crowd(server, right, seconds)
    asyncio.run(_warm_up(clients))
    server.rests_within(_LEAVING_SECONDS)
    before_bytes = server.resident_bytes()
    asyncio.run(clients.run())
    outcome = clients.outcome
    time.sleep(_LEAVING_SECONDS)
    outcome.is_alive = server.is_alive
    if outcome.is_alive:
        outcome.grown_bytes = server.resident_bytes() - before_bytes
    outcome.kills, outcome.peak_bytes = group.kills, group.peak_bytes
    _, mark, after = server.errors().partition("Traceback")
    outcome.traceback = mark + after[:2000]
    return outcome


async def _warm_up(clients: _Crowd) -> None:
    """Have one examination and one table computed, which start what the server starts once."""
    await clients.ask(examination("compare", 50))
    await clients.ask(get(_CHEAP.format(0)))


def show(checkout: Path = ROOT, seconds: float = 120.0) -> list[str]:
    """Print the outcome of a crowd; return the broken promises."""
    outcome = crowd(checkout, seconds)
    print(f"\n{_READERS} unread streams, {_SENDERS} bodies of 16 MiB and {_EXAMINED} examinations")
    print(f"at once in {LIMIT_BYTES // MIB} MiB, for {seconds:g} s:\n")
    lines = {
        "answers": ", ".join(
            f"{times} × {sort} {status or 'none'}"
            for (sort, status), times in sorted(outcome.answers.items())
        ),
        "compared with the right bytes": f"{outcome.compared}, {len(outcome.wrong)} wrong",
        "small tables meanwhile, worst": f"{max(outcome.cheap_seconds):.2f} s",
        "server": "alive" if outcome.is_alive else "ended",
        "processes killed by the kernel": str(outcome.kills),
        "memory at most": f"{outcome.peak_bytes / MIB:.0f} MiB",
        "resident after all left": f"{outcome.grown_bytes / MIB:+.0f} MiB",
        "wrong": "; ".join(outcome.wrong[:5]),
        "traceback": outcome.traceback,
    }
    print("\n".join(f"- {name}: {value}" for name, value in lines.items() if value), flush=True)
    return [f"memory: {each}" for each in outcome.broken]
