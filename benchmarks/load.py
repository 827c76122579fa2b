"""Requests per second by wrk, the servers taking turns."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

from benchmarks.answers import check
from benchmarks.machine import pinned, server_and_client_cores
from benchmarks.servers import BenchmarkFailed, Case, Server, running

CONNECTIONS = 16
CASES = tuple(
    Case(seq_len, d_model, extension)
    for extension in ("npy", "json")
    for seq_len, d_model in ((4, 4), (50, 512), (512, 512))
)

_RATE = re.compile(r"^Requests/sec:\s*([0-9.]+)$", re.MULTILINE)
_TROUBLE = re.compile(r"^\s*(?:Non-2xx or 3xx responses|Socket errors):.*$", re.MULTILINE)
_INSTALL = (("apt-get", "update"), ("apt-get", "install", "-y", "--no-install-recommends", "wrk"))


@dataclass(frozen=True)
class Result:
    """Of one case, everything by server: bytes of a body, and requests/s in each round."""

    case: Case
    body_bytes: Sequence[int]
    rates: Sequence[Sequence[float]]

    def rate(self, server: int) -> float:
        return median(self.rates[server])

    def ratios(self, server: int) -> list[float]:
        """How many times as fast the first server was as another, in each round."""
        return [
            first / other for first, other in zip(self.rates[0], self.rates[server], strict=True)
        ]


def find_wrk() -> str:
    """Where wrk is; it is installed where that is possible."""
    if shutil.which("wrk") is None and shutil.which("apt-get") and os.geteuid() == 0:
        print("wrk is missing: installing it", file=sys.stderr)
        for command in _INSTALL:
            subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    found = shutil.which("wrk")
    if found is None:
        raise BenchmarkFailed(
            "wrk is missing and cannot be installed: apt-get install wrk, as root"
        )
    return found


def measure(servers: Sequence[Server], wrk: str, seconds: int, rounds: int) -> list[Result]:
    server_core, client_core = server_and_client_cores()
    with ExitStack() as stack:
        origins = [
            stack.enter_context(running(server, server_core, CASES[0])) for server in servers
        ]
        results = []
        for case in CASES:
            urls = [
                origin + server.path(case) for origin, server in zip(origins, servers, strict=True)
            ]
            body_bytes = [check(url, case) for url in urls]
            print(case, file=sys.stderr)
            with pinned(client_core):
                by_round = [_rates(wrk, urls, seconds, number) for number in range(rounds)]
            results.append(Result(case, body_bytes, list(zip(*by_round, strict=True))))
    return results


def _rates(wrk: str, urls: Sequence[str], seconds: int, number: int) -> list[float]:
    """Measure each URL once; every other round in the opposite order."""
    order = range(len(urls)) if number % 2 == 0 else reversed(range(len(urls)))
    rates = {index: _rate(wrk, urls[index], seconds) for index in order}
    return [rates[index] for index in range(len(urls))]


def _rate(wrk: str, url: str, seconds: int) -> float:
    command = [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout=30s", url]
    said = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=seconds + 60
    ).stdout
    trouble, rate = _TROUBLE.search(said), _RATE.search(said)
    if trouble or not rate:
        raise BenchmarkFailed(f"wrk {url}:\n{said}")
    return float(rate[1])
