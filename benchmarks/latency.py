"""Latency of a small warm answer with and without clients that stream huge tables."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.answers import check
from benchmarks.cases import BASE, Case
from benchmarks.curl import downloading
from benchmarks.figures import Measured, in_turns
from benchmarks.servers import POSREF, running
from benchmarks.wrk import load

STREAMS = 4

# As many as stream. A single idle client is answered so fast that the ratio would measure the
# system's scheduler; many clients wait for each other with or without streams.
CONNECTIONS = STREAMS
SMALL = Case(4, 4)
_HUGE_ROWS = 2**28


@dataclass(frozen=True)
class _Turn:
    p99_seconds: float
    streamed_rate: float


def measure(folder: Path, seconds: int, rounds: int) -> Measured:
    """Return the p99 of small answers in seconds, with and without streams of huge tables."""
    turns = [partial(_turn, folder, seconds, streams) for streams in (STREAMS, 0)]
    loaded, unloaded = in_turns(turns, rounds)
    rate = median(turn.streamed_rate for turn in loaded)
    return Measured(
        [turn.p99_seconds for turn in loaded],
        [turn.p99_seconds for turn in unloaded],
        f"{rate / 1e6:,.0f} MB/s",
    )


def _turn(folder: Path, seconds: int, streams: int, _number: int) -> _Turn:
    """Measure a new server, without work left from an earlier turn."""
    with running(POSREF, folder) as posref:
        check(posref, SMALL)
        huge = [Case(_HUGE_ROWS, 512, base=BASE + number) for number in range(streams)]
        urls = [posref.url(case) for case in huge]
        with downloading(urls) if urls else nullcontext(lambda: 0) as streamed_bytes:
            start, start_bytes = time.monotonic(), streamed_bytes()
            p99_seconds = load(posref.url(SMALL), CONNECTIONS, seconds).p99_seconds
            rate = (streamed_bytes() - start_bytes) / (time.monotonic() - start)
        return _Turn(p99_seconds, rate)
