"""Load by wrk with a Lua script that prints its own counts."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import BenchmarkFailed
from benchmarks.tools import find

CONNECTIONS = 8

_MORE_SECONDS = 60


@dataclass(frozen=True)
class Load:
    """The result of a load.

    Attributes:
        requests: number of answers.
        received_bytes: bytes of heads and bodies.
        seconds: duration.
        p50_seconds, p99_seconds: quantiles of the latency.
        client_seconds: processor time of wrk.
    """

    requests: int
    received_bytes: int
    seconds: float
    p50_seconds: float
    p99_seconds: float
    client_seconds: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


def load(url: str, script: Path, seconds: int, connections: int = CONNECTIONS) -> Load:
    """Send requests on some connections for a time; raise on an error answer."""
    options = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout=30s", "--latency"]
    before = os.times()
    said = _said([find("wrk"), *options, "-s", str(script), url], seconds + _MORE_SECONDS)
    after = os.times()
    counted = json.loads(said.splitlines()[-1])
    if counted["faults"] or not counted["requests"]:
        raise BenchmarkFailed(f"wrk {url}:\n{said}")
    taken = after.children_user + after.children_system
    return Load(
        counted["requests"],
        counted["received_bytes"],
        counted["microseconds"] / 1e6,
        counted["p50"] / 1e6,
        counted["p99"] / 1e6,
        taken - before.children_user - before.children_system,
    )


def _said(command: Sequence[str], seconds: int) -> str:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise BenchmarkFailed(f"{error}: {error.stdout!r}") from None
    return done.stdout
