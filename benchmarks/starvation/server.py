"""A posref server of any checkout in a process of its own, in a memory limit if asked."""

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import httpx
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.load.plan import HOST
from benchmarks.load.watch import tree, usage_of
from benchmarks.processes import ROOT, BenchmarkFailed, started
from benchmarks.servers import free_port
from benchmarks.starvation.group import Group

_START_SECONDS = 60.0
_STOP_SECONDS = 60.0
_REST_CORES = 0.1
_REST_SECONDS = 0.5


@dataclass(frozen=True)
class Served:
    """A running server.

    Attributes:
        process: of the server, which may have children.
        port: on the loopback interface.
        log: its standard error.
        group: the memory limit that holds it, if any.
    """

    process: "subprocess.Popen[bytes]"
    port: int
    log: IO[bytes]
    group: Group | None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def cores(self, seconds: float) -> float:
        """Return the processor time that it and its descendants use, as a share of a core."""
        before = usage_of(self.process.pid)
        time.sleep(seconds)
        after = usage_of(self.process.pid)
        return (after.cpu_seconds - before.cpu_seconds) / (after.at - before.at)

    def resident_bytes(self) -> int:
        """Return the resident memory of it and its descendants; shared pages count once."""
        return sum(map(_proportional_bytes, tree(self.process.pid)))

    def metrics(self, prefix: str) -> dict[str, float]:
        """Return its metrics whose names begin so, by name and labels."""
        text = httpx.get(f"{self.url}/metrics", timeout=30.0, trust_env=False).text
        families = text_string_to_metric_families(text)
        return {
            " ".join([sample.name, *sample.labels.values()]): sample.value
            for family in families
            for sample in family.samples
            if sample.name.startswith(prefix)
        }

    def rests_within(self, seconds: float) -> bool:
        """Wait until it uses next to no processor time, and return whether it does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.cores(_REST_SECONDS) < _REST_CORES:
                return True
        return False

    def errors(self) -> str:
        """Return what it wrote to standard error."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")


@contextmanager
def serving(
    checkout: Path = ROOT,
    settings: Mapping[str, str] | None = None,
    group: Group | None = None,
) -> Iterator[Served]:
    """Run a server of a checkout; a group holds it from its first instruction on.

    Args:
        checkout: the folder with the service; its .venv is used if there is one.
        settings: POSREF_* variables; all others have their defaults.
        group: a memory limit.
    """
    port = free_port()
    environment = {"PYTHONPATH": str(checkout), **(settings or {})}
    python = str(checkout / ".venv" / "bin" / "python")
    command = [python, "-m", "service", "serve", "--host", HOST, "--port", str(port)]
    if group is not None:
        command = group.command(command)
    with (
        TemporaryFile() as log,
        started(
            command, log, folder=checkout, settings=environment, stop_seconds=_STOP_SECONDS
        ) as process,
    ):
        served = Served(process, port, log, group)
        _wait_until_ready(served)
        yield served


def _proportional_bytes(process: Path) -> int:
    """Return the memory of a process, 0 if it has ended; it has a part of what others share."""
    try:
        text = (process / "smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    (kibibytes,) = re.findall(r"^Pss: +(\d+) kB$", text, re.MULTILINE)
    return 1024 * int(kibibytes)


def _wait_until_ready(served: Served) -> None:
    end = time.monotonic() + _START_SECONDS
    while served.is_alive and time.monotonic() < end:
        try:
            if httpx.get(f"{served.url}/readyz", trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise BenchmarkFailed(f"the server does not answer:\n{served.errors()}")
