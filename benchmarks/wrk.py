"""Load by wrk: one thread with a number of connections."""

import os
import re
import subprocess
from dataclasses import dataclass

from benchmarks.processes import BenchmarkFailed
from benchmarks.tools import find

_RATE = re.compile(r"^Requests/sec:\s*([0-9.]+)$", re.MULTILINE)
_P99 = re.compile(r"^\s*99%\s+([0-9.]+)(us|ms|s|m) *$", re.MULTILINE)
_TROUBLE = re.compile(r"^\s*(?:Non-2xx or 3xx responses|Socket errors):.*$", re.MULTILINE)
_UNIT_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


@dataclass(frozen=True)
class Load:
    """The result of a load and its costs.

    Attributes:
        rate: requests per second.
        p99_seconds: p99 of the latency.
        client_share: load of wrk's core, 0 to 1.
    """

    rate: float
    p99_seconds: float
    client_share: float


def load(url: str, connections: int, seconds: int) -> Load:
    options = ["-t1", f"-c{connections}", f"-d{seconds}s", "--timeout=30s", "--latency"]
    before = os.times()
    said = subprocess.run(
        [find("wrk"), *options, url],
        check=True,
        capture_output=True,
        text=True,
        timeout=seconds + 60,
    ).stdout
    after = os.times()
    rate, p99 = _RATE.search(said), _P99.search(said)
    if _TROUBLE.search(said) or not rate or not p99:
        raise BenchmarkFailed(f"wrk {url}:\n{said}")
    taken = after.children_user + after.children_system
    taken -= before.children_user + before.children_system
    return Load(
        float(rate[1]),
        float(p99[1]) * _UNIT_SECONDS[p99[2]],
        taken / (after.elapsed - before.elapsed),
    )
