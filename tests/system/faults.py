"""Injected faults: killed and stopped processes, full disks."""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.system.processes import run, wait_until
from tests.system.servers import KIB, ROOT, Server

_END_SECONDS = 60

# A connected socket, seen from the other side.
_NOBODY = 0


def workers_of(server: Server) -> set[int]:
    """Return the worker processes of a server."""
    return {pid for pid in children_of(server.process.pid) if b"spawn_main" in _command(pid)}


def children_of(pid: int) -> set[int]:
    """Return the child processes of a process, which any of its threads may have started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return {int(child) for children in lists for child in children.read_text().split()}


def _command(pid: int) -> bytes:
    # A process may end after it was listed.
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def clients_of(pid: int, port: int) -> set[int]:
    """Return the client ports of the connections that a process has accepted."""
    links = " ".join(_links(pid))
    sockets = set(re.findall(r"socket:\[(\d+)\]", links))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ports = {_port(row[2]) for row in rows if row[9] in sockets and _port(row[1]) == port}
    return ports - {_NOBODY}


def _links(pid: int) -> Iterator[str]:
    """Yield the targets of a process's open file descriptors, which change meanwhile."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            yield str(link.readlink())


def _port(address: str) -> int:
    return int(address.partition(":")[2], 16)


def memory_bytes(pids: set[int]) -> int:
    """Return the memory of processes together, with shared memory counted once (PSS)."""
    parts = "".join(Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids)
    return sum(int(each) * KIB for each in re.findall(r"^Pss:\s*(\d+) kB", parts, re.MULTILINE))


def killed(pid: int, port: int) -> set[int]:
    """Kill a process, and return the client ports of its connections."""
    os.kill(pid, signal.SIGSTOP)
    ports = clients_of(pid, port)
    os.kill(pid, signal.SIGKILL)
    return ports


@contextmanager
def held(server: Server) -> Iterator[None]:
    """Stop a server (SIGSTOP): it accepts connections and answers nothing."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


@contextmanager
def come_back(server: Server) -> Iterator[None]:
    """Restart an ended server on its port."""
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(server.process.args, cwd=ROOT, stderr=log) as process,
    ):
        try:
            wait_until("it is back", lambda: Server(process, server.port, server.log).is_ready())
            yield
        finally:
            process.terminate()
            process.wait(_END_SECONDS)


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[None]:
    """Mount a small disk at a folder."""
    folder.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", folder)
    try:
        yield
    finally:
        run("umount", folder)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill the disk of a folder."""
    ballast = folder / "ballast"
    try:
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(bytes(64 * KIB)):
                pass
        yield
    finally:
        ballast.unlink()
