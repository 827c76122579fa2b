"""A posref server in a process of its own, its metrics and its memory."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.system.processes import free_port, wait_until

ROOT = Path(__file__).parents[2]
KIB, MIB, GIB = 2**10, 2**20, 2**30

_ANSWER_SECONDS = 60.0
_END_SECONDS = 60.0


@dataclass(frozen=True)
class Server:
    """A server on a port of this machine."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def url(self, target: str) -> str:
        return f"http://127.0.0.1:{self.port}{target}"

    def request(self, method: str, target: str, **headers: str) -> httpx.Response:
        """GET on a new connection, with exactly these headers."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.request(
            method, self.url(target), headers=named, timeout=_ANSWER_SECONDS, trust_env=False
        )

    def get(self, target: str, **headers: str) -> httpx.Response:
        return self.request("GET", target, **headers)

    def range(self, target: str, first: int, last: int) -> bytes:
        """GET a range, which must be answered with 206."""
        answer = self.get(target, Range=f"bytes={first}-{last}")
        assert answer.status_code == httpx.codes.PARTIAL_CONTENT, answer.text
        assert answer.headers["Content-Range"].startswith(f"bytes {first}-{last}/")
        return answer.content

    def count(self, name: str, **labels: str) -> int:
        """Return the sum of the server's metrics with a name and labels."""
        return counted(self.url(""), name, labels)

    def memory_bytes(self, line: str) -> int:
        """Return a field of /proc/PID/status in bytes: VmRSS, or VmHWM for its peak."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        values = dict(entry.split(":", 1) for entry in status.splitlines())
        return int(values[line].removesuffix("kB")) * KIB

    def forget_peak(self) -> None:
        """Reset VmHWM to the current value."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def cpu_seconds(self) -> float:
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def end(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_END_SECONDS)

    def is_ready(self) -> bool:
        if self.process.poll() is not None:
            pytest.fail(f"the server ended with code {self.process.returncode}")
        try:
            return self.get("/readyz").is_success
        except httpx.TransportError:
            return False


def counted(url: str, name: str, labels: Mapping[str, str]) -> int:
    """Return the sum of a server's metrics with a name and labels."""
    text = httpx.get(f"{url}/metrics", timeout=_ANSWER_SECONDS, trust_env=False).text
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    return sum(
        int(sample.value)
        for sample in samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def running(**settings: int | str) -> AbstractContextManager[Server]:
    """Run a server of the source tree with default settings but for these (POSREF_NAME by name).

    It stops without the time in which a balancer learns of it, unless a test sets that time.
    """
    changed = {"drain_seconds": 0, **settings}
    return running_program((sys.executable, "-m", "service"), ROOT, changed)


@contextmanager
def running_program(
    program: Sequence[str | Path], folder: Path, settings: Mapping[str, int | str]
) -> Iterator[Server]:
    """Run a server by the first words of its command line, in a working directory."""
    port = free_port()
    removed = ("POSREF_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    given = {f"POSREF_{name.upper()}": str(value) for name, value in settings.items()}
    words = [*program, "serve", "--host=127.0.0.1", f"--port={port}"]
    with (
        NamedTemporaryFile() as log,
        subprocess.Popen(words, cwd=folder, env={**kept, **given}, stderr=log) as process,
    ):
        server = Server(process, port, Path(log.name))
        try:
            wait_until("the server answers", server.is_ready, seconds=60)
            yield server
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def posref_get(target: str, file: Path) -> Path:
    """Write a table to a file with `posref get`."""
    words = [sys.executable, "-m", "service", "get", target, f"--output={file}"]
    subprocess.run(words, cwd=ROOT, check=True, timeout=600)
    return file
