"""Time of /rope/apply beside that of an echo endpoint with the same body."""

import io
import time
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import BASE
from benchmarks.figures import Measured, in_turns
from benchmarks.processes import BenchmarkFailed
from benchmarks.servers import HOST, PEER, POSREF, Running, running

Queries: TypeAlias = NDArray[np.float32]

SHAPE = (1, 32, 1024, 128)

_TOLERANCE = 1e-5
_TIMEOUT_SECONDS = 60.0


def measure(folder: Path, rounds: int) -> Measured:
    """Return the seconds from the first byte sent to the last received; not pinned."""
    queries = np.random.default_rng(1).standard_normal(SHAPE, dtype=np.float32)
    with running(POSREF, folder) as posref, running(PEER, folder) as peer:
        rotate = _Client(posref, "/rope/apply?axes=batch,head,seq,channel", queries)
        echo = _Client(peer, "/echo", queries)
        rotate.check(_rotated(queries))
        echo.check(queries)
        rotated, echoed = in_turns([rotate.seconds, echo.seconds], rounds)
        return Measured(rotated, echoed)


class _Client:
    """A connection that posts the same body repeatedly, with a buffer for the answer."""

    def __init__(self, server: Running, path: str, queries: Queries) -> None:
        file = io.BytesIO()
        np.save(file, queries)
        self._body = file.getvalue()
        self._room = memoryview(bytearray(len(self._body)))
        self._path = path
        self._connection = HTTPConnection(HOST, server.port, timeout=_TIMEOUT_SECONDS)

    def seconds(self, _number: int) -> float:
        before = time.perf_counter()
        headers = {"Content-Type": "application/x-npy"}
        self._connection.request("POST", self._path, self._body, headers)
        response = self._connection.getresponse()
        if response.status != HTTPStatus.OK or response.length != len(self._body):
            raise BenchmarkFailed(f"{self._path} answers {response.status}: {response.read(400)!r}")
        got_bytes = 0
        while part := response.readinto(self._room[got_bytes:]):
            got_bytes += part
        taken = time.perf_counter() - before
        if got_bytes != len(self._body):
            raise BenchmarkFailed(f"{self._path} answers {got_bytes} bytes")
        return taken

    def check(self, expected: Queries) -> None:
        self.seconds(0)
        answer = np.load(io.BytesIO(self._room), allow_pickle=False)
        if answer.shape != expected.shape or answer.dtype != expected.dtype:
            raise BenchmarkFailed(f"{self._path} answers {answer.dtype} of shape {answer.shape}")
        if not np.abs(answer - expected).max() <= _TOLERANCE:
            raise BenchmarkFailed(f"{self._path} answers wrong numbers")


def _rotated(queries: Queries) -> Queries:
    """Rotate pairs of adjacent channels by the formula, from position 0 on."""
    *_, length, width = queries.shape
    angles = np.outer(np.arange(length), float(BASE) ** (-np.arange(0, width, 2) / width))
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = queries[..., 0::2], queries[..., 1::2]
    rotated = np.empty_like(queries)
    rotated[..., 0::2] = even * cos - odd * sin
    rotated[..., 1::2] = odd * cos + even * sin
    return rotated
