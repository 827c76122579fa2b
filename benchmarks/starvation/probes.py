"""Latency of cheap requests, each kind one after another on a connection of its own."""

import math
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from random import SystemRandom
from statistics import median

from benchmarks.load.plan import HOST
from benchmarks.load.requests import get

JSON_TABLE, SMALL_TABLE, KEPT, PROBE = "50×512 JSON", "4×4 npy", "kept 4×4", "probes"
MOST_SECONDS: Mapping[str, float] = {JSON_TABLE: 1.0, SMALL_TABLE: 1.0, KEPT: 1.0, PROBE: 0.5}
MOST_RATIO = 10.0

_PATIENCE_SECONDS = 3.0
_PAUSE_SECONDS = 0.01
_READ_BYTES = 2**20
_POSITIONS = 2**50
_NUMBERS = count(SystemRandom().randrange(_POSITIONS))
_REQUESTS: Mapping[str, Callable[[int], bytes]] = {
    JSON_TABLE: lambda number: get(f"/encoding.json?seq_len=50&d_model=512&start={number}"),
    SMALL_TABLE: lambda number: get(f"/encoding.npy?seq_len=4&d_model=4&start={number}"),
    KEPT: lambda _: get("/encoding.npy?seq_len=4&d_model=4"),
    PROBE: lambda number: get("/readyz" if number % 2 else "/livez"),
}


@dataclass(frozen=True)
class Times:
    """The seconds of all answers to one kind of cheap request; inf for none or a refusal."""

    seconds: Sequence[float]

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def worst(self) -> float:
        return max(self.seconds)

    def keeps(self, name: str, quiet: "Times") -> bool:
        """Return whether the promise for this kind of request is kept."""
        return self.worst <= MOST_SECONDS[name] and (
            name == PROBE or self.median <= MOST_RATIO * quiet.median
        )


def measured(port: int, seconds: float) -> dict[str, Times]:
    """Request every kind for the duration, each at least once."""
    with ThreadPoolExecutor(len(_REQUESTS)) as threads:
        running = {name: threads.submit(_measure, port, name, seconds) for name in _REQUESTS}
    return {name: Times(each.result()) for name, each in running.items()}


def _measure(port: int, name: str, seconds: float) -> list[float]:
    found: list[float] = []
    end = time.monotonic() + seconds
    connection = _connected(port)
    while time.monotonic() < end or not found:
        request = _REQUESTS[name](next(_NUMBERS))
        start = time.monotonic()
        try:
            is_right = _ask(connection, request)
            found.append(time.monotonic() - start if is_right else math.inf)
        except OSError:
            found.append(math.inf)
            connection.close()
            connection = _connected(port)
        time.sleep(_PAUSE_SECONDS)
    connection.close()
    return found


def _connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), _PATIENCE_SECONDS)


def _ask(connection: socket.socket, request: bytes) -> bool:
    """Read a whole answer, and return whether it is 200."""
    connection.sendall(request)
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    _, _, after = head.lower().partition(b"\r\ncontent-length:")
    left = int(after.partition(b"\r\n")[0]) - len(body)
    while left > 0:
        left -= len(_more(connection))
    return head.startswith(b"HTTP/1.1 200 ")


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(_READ_BYTES)
    if not received:
        raise ConnectionError("closed in the middle of an answer")
    return received
