"""Time of /diagnose beside that of a new table of the same shape."""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import BASE
from benchmarks.figures import Measured, in_turns
from benchmarks.processes import BenchmarkFailed
from benchmarks.servers import HOST, POSREF, Running, running

Numbers: TypeAlias = NDArray[np.float64]

_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Diagnosis:
    """An array, float32 and packed as cosines and then sines, that is diagnosed.

    Attributes:
        name: what is wrong with it.
        rows, width: its shape.
        verdict: what the answer says.
        made: returns its numbers.
    """

    name: str
    rows: int
    width: int
    verdict: str
    made: Callable[[int, int], Numbers]

    def __str__(self) -> str:
        return f"{self.rows}×{self.width}, {self.name}"

    @property
    def url(self) -> str:
        return f"/rope?head_dim={self.width}&rope_theta={BASE}&pack=concat&seq_len={self.rows}"


def _waves(rows: int, frequencies: Numbers) -> Numbers:
    angles = np.arange(rows)[:, None] * frequencies
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def _of_base(base: float) -> Callable[[int, int], Numbers]:
    return lambda rows, width: _waves(rows, base ** (-np.arange(0, width, 2) / width))


def _noise(rows: int, width: int) -> Numbers:
    return np.random.default_rng(1).standard_normal((rows, width))


def _of_no_rule(rows: int, width: int) -> Numbers:
    return _waves(rows, np.sort(np.random.default_rng(1).uniform(0, 1, width // 2))[::-1])


DIAGNOSES = {
    "equal": Diagnosis("equal", 4096, 128, "equal", _of_base(BASE)),
    "base": Diagnosis("another base", 4096, 128, "diagnosed", _of_base(5e5)),
    "noise": Diagnosis("noise", 4096, 128, "none", _noise),
    "no rule": Diagnosis("frequencies of no rule", 4096, 128, "none", _of_no_rule),
    "long": Diagnosis("another base", 131072, 128, "diagnosed", _of_base(5e5)),
    "eight": Diagnosis("another base", 2, 4, "diagnosed", _of_base(5e5)),
}


def measure(folder: Path, name: str, rounds: int) -> Measured:
    """Return the seconds of the diagnosis, and of a new table of its shape; not pinned."""
    diagnosis, file = DIAGNOSES[name], io.BytesIO()
    np.save(file, diagnosis.made(diagnosis.rows, diagnosis.width).astype(np.float32))
    body, to = file.getvalue(), quote(diagnosis.url, safe="")
    with running(POSREF, folder) as posref:

        def diagnosed(_number: int) -> float:
            seconds, answer = _timed(posref, "POST", f"/diagnose?to={to}", body)
            if f'"verdict":"{diagnosis.verdict}"'.encode() not in answer:
                raise BenchmarkFailed(f"{diagnosis} is diagnosed as {answer[:200]!r}")
            return seconds

        def made(number: int) -> float:
            path, _, query = diagnosis.url.partition("?")
            return _timed(posref, "GET", f"{path}.npy?{query}&start={number + 1}")[0]

        diagnosed(0)
        ours, tables = in_turns([diagnosed, made], rounds)
        return Measured(ours, tables)


def _timed(server: Running, method: str, path: str, body: bytes = b"") -> tuple[float, bytes]:
    """Return the time from the first byte sent to the last received, and the answer."""
    connection = HTTPConnection(HOST, server.port, timeout=_TIMEOUT_SECONDS)
    connection.connect()
    before = time.perf_counter()
    connection.request(method, path, body or None, {"Content-Type": "application/x-npy"})
    response = connection.getresponse()
    answer = response.read()
    taken = time.perf_counter() - before
    connection.close()
    if response.status != HTTPStatus.OK:
        raise BenchmarkFailed(f"{path} answers {response.status}: {answer[:400]!r}")
    return taken, answer
