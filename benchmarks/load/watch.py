"""CPU, memory and metrics of a server, second by second."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.load.plan import HOST

CACHE_BYTES = "posref_cache_bytes"
WAITING = "posref_waiting_work"
WATCHED = (CACHE_BYTES, WAITING, "posref_connections", "posref_held_body_bytes")

_METRICS_EVERY = 5
_KIB = 1024


@dataclass(frozen=True)
class Usage:
    """One second of a server and its descendants.

    Attributes:
        at: seconds of the monotonic clock.
        resident_bytes: memory of all processes; shared pages count once per process.
        cpu_seconds: processor time since the processes started.
    """

    at: float
    resident_bytes: int
    cpu_seconds: float


@dataclass
class Watch:
    """The usage of a server in every second, and its metrics from time to time."""

    usages: list[Usage] = field(default_factory=list)
    metrics: list[tuple[float, dict[str, float]]] = field(default_factory=list)

    def resident_bytes(self, start: float, stop: float) -> float:
        """Return the median of resident_bytes between two times."""
        return median(each.resident_bytes for each in self.usages if start <= each.at <= stop)

    def cores(self, start: float, stop: float) -> float:
        """Return the CPU time between two times as a share of a core."""
        usages = [each for each in self.usages if start <= each.at <= stop]
        return (usages[-1].cpu_seconds - usages[0].cpu_seconds) / (usages[-1].at - usages[0].at)

    def filled_after(self, start: float) -> float | None:
        """Return the seconds from a time until the cache had nine tenths of its final size."""
        most = max((metrics[CACHE_BYTES] for _, metrics in self.metrics), default=0.0)
        full = (at for at, metrics in self.metrics if metrics[CACHE_BYTES] >= 0.9 * most)
        first = next(full, None)
        return None if first is None else first - start


@contextmanager
def watching(port: int, pid: int) -> Iterator[Watch]:
    """Watch a server during a context."""
    watch, is_over = Watch(), threading.Event()
    thread = threading.Thread(target=_watch, args=(watch, is_over, port, pid))
    thread.start()
    try:
        yield watch
    finally:
        is_over.set()
        thread.join()


def usage_of(pid: int) -> Usage:
    """Read the usage of a process and its descendants."""
    processes = list(tree(pid))
    return Usage(
        time.monotonic(), sum(map(_resident_bytes, processes)), sum(map(_cpu_seconds, processes))
    )


def metrics_of(client: httpx.Client) -> dict[str, float]:
    """Return the metrics in WATCHED, each summed over its labels; 0 if missing."""
    text = client.get("/metrics").raise_for_status().text
    metrics = dict.fromkeys(WATCHED, 0.0)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in metrics:
                metrics[sample.name] += sample.value
    return metrics


def _watch(watch: Watch, is_over: threading.Event, port: int, pid: int) -> None:
    with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=60.0, trust_env=False) as client:
        while not is_over.wait(1.0):
            watch.usages.append(usage_of(pid))
            if len(watch.usages) % _METRICS_EVERY == 1:
                watch.metrics.append((time.monotonic(), metrics_of(client)))


def tree(pid: int) -> Iterator[Path]:
    process = Path(f"/proc/{pid}")
    yield process
    for task in (process / "task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            yield from tree(int(child))


def _resident_bytes(process: Path) -> int:
    lines = (process / "status").read_text(encoding="utf-8").splitlines()
    # A process that has ended, and is not reaped yet, has no memory.
    resident = dict(line.split(":", 1) for line in lines).get("VmRSS", "0 kB")
    return _KIB * int(resident.split()[0])


def _cpu_seconds(process: Path) -> float:
    stat = (process / "stat").read_text(encoding="utf-8")
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
