"""Latency of single warm answers, requested in turn with pauses on one connection each."""

import random
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.load.plan import HOST

_PAUSE_SECONDS = (0.002, 0.008)
_PATIENCE_SECONDS = 60.0
_READ_BYTES = 256 * 1024
_END_OF_HEAD = b"\r\n\r\n"
_OK = b"HTTP/1.1 200 "


@dataclass(frozen=True)
class Target:
    """A warm answer of a server.

    Attributes:
        name: its name in reports.
        data: all its bytes.
        body: of the right answer.
    """

    name: str
    port: int
    data: bytes
    body: bytes


@dataclass(frozen=True)
class Probe:
    """One answer: its start by the monotonic clock, and its duration."""

    target: str
    at: float
    seconds: float


@dataclass
class Probed:
    """The right answers, and a description of each failure."""

    probes: list[Probe] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def seconds(self, target: str) -> list[float]:
        return [probe.seconds for probe in self.probes if probe.target == target]


def probe(targets: Sequence[Target], seconds: float, seed: int) -> Probed:
    """Request each in turn for the duration."""
    chance, probed = random.Random(seed), Probed()
    connections = [_connected(target) for target in targets]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for index, target in enumerate(targets):
            time.sleep(chance.uniform(*_PAUSE_SECONDS))
            try:
                probed.probes.append(_ask(connections[index], target))
            except (OSError, ValueError) as error:
                probed.trouble.append(f"{target.name}: {type(error).__name__}: {error}")
                connections[index].close()
                connections[index] = _connected(target)
    for connection in connections:
        connection.close()
    return probed


def _connected(target: Target) -> socket.socket:
    return socket.create_connection((HOST, target.port), _PATIENCE_SECONDS)


def _ask(connection: socket.socket, target: Target) -> Probe:
    at = time.monotonic()
    connection.sendall(target.data)
    received = connection.recv(_READ_BYTES)
    while _END_OF_HEAD not in received:
        received += _more(connection)
    head, _, body = received.partition(_END_OF_HEAD)
    parts, left_bytes = [body], len(target.body) - len(body)
    while left_bytes > 0:
        parts.append(_more(connection))
        left_bytes -= len(parts[-1])
    seconds = time.monotonic() - at
    if not head.startswith(_OK) or b"".join(parts) != target.body:
        raise ValueError(f"{head.partition(_END_OF_HEAD[:2])[0]!r}")
    return Probe(target.name, at, seconds)


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(_READ_BYTES)
    if not received:
        raise ConnectionError("closed in the middle of an answer")
    return received
