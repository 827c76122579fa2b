"""The measured servers, and how to run them."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import httpx

from benchmarks import nginx
from benchmarks.cases import Case
from benchmarks.processes import BenchmarkFailed, started

HOST = "127.0.0.1"

_START_SECONDS = 30.0


@dataclass(frozen=True)
class Server:
    """A server that can be started.

    Attributes:
        name: its name in reports.
        command: returns the command for a port and a folder of files.
        path: path of the tables.
        extensions: the measured formats.
        is_copy: whether it serves files with the bytes that posref answered.
    """

    name: str
    command: Callable[[int, Path], Sequence[str]]
    path: Callable[[Case], str]
    extensions: Sequence[str] = ("npy", "json")
    is_copy: bool = False


@dataclass(frozen=True)
class Running:
    """A running server; pid is the id of the started process."""

    server: Server
    port: int
    pid: int

    @property
    def origin(self) -> str:
        return f"http://{HOST}:{self.port}"

    def url(self, case: Case) -> str:
        return self.origin + self.server.path(case)


def _posref(port: int, _folder: Path) -> list[str]:
    return [sys.executable, "-m", "service", "serve", "--host", HOST, "--port", str(port)]


def _peer(port: int, _folder: Path) -> list[str]:
    listen = ["--host", HOST, "--port", str(port), "--no-access-log"]
    return [sys.executable, "-m", "uvicorn", "benchmarks.peer_service:app", *listen]


def _nginx(name: str, *, sendfile: bool) -> Server:
    return Server(
        name,
        lambda port, folder: nginx.command(HOST, port, folder, sendfile=sendfile),
        lambda case: f"/{case.file_name}",
        extensions=("npy",),
        is_copy=True,
    )


POSREF = Server("posref", _posref, lambda case: f"/encoding.{case.extension}?{case.query}")
PEER = Server(
    "FastAPI + lru_cache", _peer, lambda case: f"/encoding?{case.query}&form={case.extension}"
)
NGINX = _nginx("nginx, sendfile on", sendfile=True)
NGINX_COPYING = _nginx("nginx, sendfile off", sendfile=False)

SERVERS = (POSREF, PEER, NGINX, NGINX_COPYING)


@contextmanager
def running(server: Server, folder: Path) -> Iterator[Running]:
    """Run a server with a folder on the cores of this process, and yield it when it answers."""
    port = free_port()
    with TemporaryFile() as log, started(server.command(port, folder), log) as process:
        instance = Running(server, port, process.pid)
        _wait_until_ready(process, instance.origin, log)
        yield instance


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: IO[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            httpx.get(url, trust_env=False)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    log.seek(0)
    raise BenchmarkFailed(f"{process.args!r} does not answer:\n{log.read().decode()}")
