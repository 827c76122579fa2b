"""Time of /rope/apply beside that of an echo endpoint with the same body."""

import io
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import BASE
from benchmarks.figures import Measured, in_turns
from benchmarks.posting import Posting
from benchmarks.processes import BenchmarkFailed
from benchmarks.servers import PEER, POSREF, Running, running

Queries: TypeAlias = NDArray[np.float32]

SHAPE = (1, 32, 1024, 128)

_TOLERANCE = 1e-5


def measure(folder: Path, rounds: int) -> Measured:
    """Return the seconds of each request; not pinned."""
    queries = np.random.default_rng(1).standard_normal(SHAPE, dtype=np.float32)
    with running(POSREF, folder) as posref, running(PEER, folder) as peer:
        rotate = _posting(posref, "/rope/apply?axes=batch,head,seq,channel", queries)
        echo = _posting(peer, "/echo", queries)
        _check(rotate, _rotated(queries))
        _check(echo, queries)
        rotated, echoed = in_turns([rotate.seconds, echo.seconds], rounds)
        return Measured(rotated, echoed)


def _posting(server: Running, path: str, queries: Queries) -> Posting:
    file = io.BytesIO()
    np.save(file, queries)
    body = file.getvalue()
    return Posting(server, path, body, "application/x-npy", len(body))


def _check(posting: Posting, expected: Queries) -> None:
    posting.seconds(0)
    answer = np.load(io.BytesIO(posting.answer), allow_pickle=False)
    if answer.shape != expected.shape or answer.dtype != expected.dtype:
        raise BenchmarkFailed(f"an answer is {answer.dtype} of shape {answer.shape}")
    if not np.abs(answer - expected).max() <= _TOLERANCE:
        raise BenchmarkFailed("an answer has wrong numbers")


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
