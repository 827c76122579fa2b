"""Clients with costly requests under way, in a process of their own that can leave at once."""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import httptools

from benchmarks.load.generator import allow_files
from benchmarks.load.plan import HOST
from benchmarks.processes import ROOT, BenchmarkFailed
from benchmarks.starvation.kinds import KINDS, Kind

_NICENESS = 10
_OTHER_FILES = 100
_PAUSE_SECONDS = 0.1
_SLOW_PARTS = 240
_SLOW_PAUSE_SECONDS = 0.25
_LEAVING_SECONDS = 10.0
_FIRST_NUMBERS = 2**40


class _Client(asyncio.Protocol):
    """A client that asks again as soon as it has an answer."""

    def __init__(self, port: int, kind: Kind, numbers: Iterator[int], tally: Counter[str]) -> None:
        self._port = port
        self._kind = kind
        self._numbers = numbers
        self._tally = tally
        self._sending: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, _error: Exception | None) -> None:
        """Connect again."""
        if self._sending is not None:
            self._sending.cancel()
        asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._connect)

    def on_headers_complete(self) -> None:
        """Count the status, and read nothing more if that is the kind."""
        self._tally[str(self._parser.get_status_code())] += 1
        if self._kind.is_unread:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if not self._parser.should_keep_alive():
            self._transport.close()
        elif self._parser.get_status_code() == 200:
            self._ask()
        else:
            asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._ask)

    def _connect(self) -> None:
        self._connecting = asyncio.ensure_future(self.connect())

    async def connect(self) -> None:
        """Connect; try again until it succeeds."""
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self, HOST, self._port)
        except OSError:
            self._tally["no connection"] += 1
            loop.call_later(_PAUSE_SECONDS, self._connect)

    def _ask(self) -> None:
        if self._transport.is_closing():
            return
        request = self._kind.request(next(self._numbers))
        self._tally["sent"] += 1
        if self._kind.is_slow:
            self._sending = asyncio.ensure_future(self._send_slowly(request))
        else:
            self._transport.write(request)

    async def _send_slowly(self, request: bytes) -> None:
        step = -(-len(request) // _SLOW_PARTS)
        for start in range(0, len(request), step):
            self._transport.write(request[start : start + step])
            await asyncio.sleep(_SLOW_PAUSE_SECONDS)


@contextmanager
def under_way(port: int, kind: Kind, number: int) -> Iterator[Counter[str]]:
    """Keep so many requests of a kind under way; yield the statuses, counted when all have left.

    Leaving kills the process of the clients, so that all connections end at the same time.
    """
    command = [sys.executable, "-m", "benchmarks.starvation.clients", str(port), kind.name]
    process = subprocess.Popen([*command, str(number)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    tally: Counter[str] = Counter()
    try:
        if process.stdout.readline() != "under way\n":
            raise BenchmarkFailed(f"the clients of {kind.name} did not begin")
        yield tally
    finally:
        process.terminate()
        for line in process.stdout:
            name, _, times = line.rstrip().rpartition(" ")
            tally[name] += int(times)
        process.stdout.close()
        process.wait(_LEAVING_SECONDS)


async def _run(port: int, kind: Kind, number: int) -> None:
    tally: Counter[str] = Counter()
    numbers = count(random.SystemRandom().randrange(_FIRST_NUMBERS) * 2**16)

    def leave() -> None:
        lines = [f"{name} {times}\n" for name, times in tally.items()]
        os.write(sys.stdout.fileno(), "".join(lines).encode())
        os._exit(0)

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave)
    kind.request(0)
    clients = [_Client(port, kind, numbers, tally) for _ in range(number)]
    for client in clients:
        await client.connect()
    print("under way", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.starvation.clients")
    parser.add_argument("port", type=int)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("number", type=int)
    given = parser.parse_args()
    os.nice(_NICENESS)
    allow_files(given.number + _OTHER_FILES)
    asyncio.run(_run(given.port, KINDS[given.kind], given.number))


if __name__ == "__main__":
    main()
