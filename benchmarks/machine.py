"""The machine of a run, and the cores of its processes."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from benchmarks import tools

_PACKAGES = ("numpy", "fastapi", "uvicorn", "uvloop", "httptools", "orjson")


def describe() -> list[str]:
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return [
        *system(),
        tools.versions(),
        f"{platform.python_implementation()} {platform.python_version()}, {packages}",
    ]


def system() -> list[str]:
    """Return lines about the processor and the kernel."""
    load = ", ".join(f"{average:.2f}" for average in os.getloadavg())
    # What follows names the build of one machine.
    release, _, _ = platform.release().partition("-")
    return [
        f"{_cpu_model()}, {len(os.sched_getaffinity(0))} cores, {platform.machine()}",
        f"{platform.system()} {release}, load average before the run {load}",
    ]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or "unknown processor"


def server_and_client_cores() -> tuple[int, int]:
    """The cores of servers and client: two, or the only one twice."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[1 % len(cores)]


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Run on one core, which child processes inherit."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
