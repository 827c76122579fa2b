"""Servers under load: CPU time and latency of each request."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from statistics import median

import httpx
import numpy as np

from benchmarks import servers
from benchmarks.load.watch import usage_of
from benchmarks.machine import pinned
from benchmarks.processes import BenchmarkFailed
from benchmarks.scaling.client import CONNECTIONS, Load, load
from benchmarks.scaling.kinds import Kind, script
from service.__main__ import find_body

# More than the requests of any turn.
_STEP = 10**6
_NUMBERS = count(1)
_POSTED_SHAPE = (1, 32, 64, 128)


@dataclass(frozen=True)
class Turn:
    """One turn of load.

    Attributes:
        load: the counts of the client.
        cpu_seconds: processor time per request, by process name.
    """

    load: Load
    cpu_seconds: Mapping[str, float]

    @property
    def client_seconds(self) -> float:
        """CPU time of the client for each request."""
        return self.load.client_seconds / self.load.requests


@dataclass(frozen=True)
class Site:
    """The URL under load, and the processes whose CPU time is counted.

    Attributes:
        origin: scheme, host and port of the requests.
        watched: process ids by name; child processes are included.
        folder: folder for scripts.
    """

    origin: str
    watched: Mapping[str, Sequence[int]]
    folder: Path

    def turn(self, kind: Kind, seconds: int, connections: int = CONNECTIONS) -> Turn:
        """Send requests of a kind."""
        return self.run(self._scripted(kind), self.origin + kind.numbered(0), seconds, connections)

    def run(self, told: Path, url: str, seconds: int, connections: int = CONNECTIONS) -> Turn:
        """Send the requests of a wrk script."""
        before = self._cpu_seconds()
        done = load(url, told, seconds, connections)
        after = self._cpu_seconds()
        return Turn(done, {name: (after[name] - before[name]) / done.requests for name in before})

    def check(self, kind: Kind) -> None:
        """Compare one answer of a kind with the bytes computed in this process."""
        if kind.is_posted:
            self._check_posted(kind)
            return
        target = kind.numbered(next(_NUMBERS) * _STEP)
        headers = {"Range": f"bytes=0-{kind.range_bytes - 1}"} if kind.range_bytes else {}
        got = httpx.get(self.origin + target, headers=headers, timeout=60, trust_env=False)
        blocks = find_body(target).blocks(*((0, kind.range_bytes) if kind.range_bytes else ()))
        if not got.is_success or got.content != b"".join(blocks):
            raise BenchmarkFailed(f"{self.origin}{target} answers {got.status_code}, other bytes")

    def _check_posted(self, kind: Kind) -> None:
        body = self._posted().read_bytes()
        headers = {"Content-Type": "application/x-npy"}
        got = httpx.post(self.origin + kind.target, content=body, headers=headers, trust_env=False)
        if not got.is_success or len(got.content) != len(body):
            raise BenchmarkFailed(f"{self.origin}{kind.target} answers {got.status_code}")

    def _cpu_seconds(self) -> dict[str, float]:
        return {
            name: sum(usage_of(pid).cpu_seconds for pid in pids)
            for name, pids in self.watched.items()
        }

    def _scripted(self, kind: Kind) -> Path:
        tag = ""
        if kind.is_conditional:
            tag = httpx.head(self.origin + kind.target, trust_env=False).headers["ETag"]
        body = self._posted() if kind.is_posted else None
        written = self.folder / "kind.lua"
        written.write_text(script(kind, next(_NUMBERS) * _STEP, tag=tag, body=body))
        return written

    def _posted(self) -> Path:
        path = self.folder / "posted.npy"
        if not path.exists():
            np.save(path, np.random.default_rng(1).standard_normal(_POSTED_SHAPE, np.float32))
        return path


@contextmanager
def posref(
    folder: Path, *, core: int | None = None, workers: int = 1, cache_bytes: int | None = None
) -> Iterator[servers.Running]:
    """Run a posref with these settings, on one core or on all."""
    settings = [] if cache_bytes is None else [f"POSREF_CACHE_BYTES={cache_bytes}"]

    def command(port: int, where: Path) -> list[str]:
        words = ["env", *settings, *servers.POSREF.command(port, where)]
        return [*words, "--workers", str(workers)]

    server = replace(servers.POSREF, command=command)
    with on(core), servers.running(server, folder) as running:
        yield running


@contextmanager
def on(core: int | None) -> Iterator[None]:
    """Run on a core, if given, which child processes inherit."""
    if core is None:
        yield
        return
    with pinned(core):
        yield


def median_cpu_seconds(turns: Sequence[Turn], name: str) -> float:
    """Return the median over turns of the CPU seconds per request of a process."""
    return median(turn.cpu_seconds[name] for turn in turns)
