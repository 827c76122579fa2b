"""The servers that are measured, each one entry, and how one is run."""

import os
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

from benchmarks.machine import pinned

HOST = "127.0.0.1"

_ROOT = Path(__file__).resolve().parent.parent
_START_SECONDS = 30.0
_STOP_SECONDS = 10.0


class BenchmarkFailed(Exception):
    """Something that has to work for numbers to mean anything does not."""


@dataclass(frozen=True)
class Case:
    """A table of float32 in a format."""

    seq_len: int
    d_model: int
    extension: str

    def __str__(self) -> str:
        return f"{self.seq_len}×{self.d_model} .{self.extension}"


@dataclass(frozen=True)
class Server:
    """Attributes: its name, the command that serves on a port, and the path of a table."""

    name: str
    command: Callable[[int], Sequence[str]]
    path: Callable[[Case], str]


def _posref(port: int) -> list[str]:
    return [sys.executable, "-m", "service", "serve", "--host", HOST, "--port", str(port)]


def _peer(port: int) -> list[str]:
    listen = ["--host", HOST, "--port", str(port), "--no-access-log"]
    return [sys.executable, "-m", "uvicorn", "benchmarks.peer_service:app", *listen]


SERVERS = (
    Server(
        "posref",
        _posref,
        lambda case: f"/encoding.{case.extension}?seq_len={case.seq_len}&d_model={case.d_model}",
    ),
    Server(
        "FastAPI + lru_cache",
        _peer,
        lambda case: (
            f"/encoding?seq_len={case.seq_len}&d_model={case.d_model}&form={case.extension}"
        ),
    ),
)


@contextmanager
def running(server: Server, core: int, ready: Case) -> Iterator[str]:
    """Run a server on a core; gives its origin as soon as it answers a case."""
    port = _free_port()
    origin = f"http://{HOST}:{port}"
    settings = {name: value for name, value in os.environ.items() if not _is_setting(name)}
    with TemporaryFile() as log:
        with pinned(core):
            process = subprocess.Popen(
                server.command(port), cwd=_ROOT, env=settings, stdout=log, stderr=log
            )
        try:
            _wait_until_ready(process, origin + server.path(ready), log)
            yield origin
        finally:
            _stop(process)


def _is_setting(name: str) -> bool:
    return name.startswith(("POSREF_", "UVICORN_", "WEB_CONCURRENCY"))


def _free_port() -> int:
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


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
