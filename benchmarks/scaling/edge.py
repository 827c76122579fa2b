"""The edge of deploy/ in front of servers on this machine."""

import getpass
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import httpx

from benchmarks.processes import ROOT, BenchmarkFailed, started
from benchmarks.servers import HOST
from benchmarks.tools import find

_DEPLOYED = ROOT / "deploy" / "edge"
_OF_COMPOSE = {"plain.conf", "tls.conf"}
_START_SECONDS = 30.0

# One worker, since one core is measured, and no limits per address. With loopback's segments of
# 64 KiB, tcp_nopush would delay the last segment of some answers by the 40 ms of a delayed
# acknowledgement.
_ALWAYS = {
    "tcp_nopush on;": "tcp_nopush off;",
    "worker_processes auto;": "worker_processes 1;",
    "rate=500r/s": "rate=1000000r/s",
    "burst=2000": "burst=1000000",
}


@dataclass(frozen=True)
class Edge:
    """A running nginx; pid is the id of its master process."""

    port: int
    pid: int

    @property
    def origin(self) -> str:
        return f"http://{HOST}:{self.port}"


@contextmanager
def running(
    ports: Sequence[int],
    folder: Path,
    *,
    keeps: bool = True,
    hashes: bool = True,
    keepalive: int = 64,
) -> Iterator[Edge]:
    """Run the edge on the cores of this process, and yield it when it answers.

    Args:
        ports: ports of the replicas.
        folder: an empty folder for its files.
        keeps: whether the cache is on.
        hashes: whether replicas are chosen by the hash of the URL, not round robin.
        keepalive: number of idle connections to replicas.
    """
    port = free_port()
    changes = dict(_ALWAYS) if keeps else {**_ALWAYS, "proxy_cache tables;": "proxy_cache off;"}
    if not hashes:
        changes["hash $replica_key consistent;"] = ""
    changes["keepalive 64;"] = f"keepalive {keepalive};"
    _write(folder, port, ports, changes)
    command = [find("nginx"), "-e", "stderr", "-p", f"{folder}/", "-c", f"{folder}/nginx.conf"]
    command += ["-g", f"user {getpass.getuser()};"]
    with TemporaryFile() as log, started(command, log) as process:
        edge = Edge(port, process.pid)
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(f"{edge.origin}/edge/healthz"):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise BenchmarkFailed(f"the edge does not answer:\n{log.read().decode()}")
            time.sleep(0.05)
        yield edge


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


def _write(folder: Path, port: int, upstreams: Sequence[int], changes: Mapping[str, str]) -> None:
    """Copy the deployed configuration with other ports, upstreams and changes."""
    (folder / "listeners").mkdir(parents=True)
    texts = [path for path in _DEPLOYED.glob("*.conf") if path.name not in _OF_COMPOSE]
    copies = [Path(shutil.copy(path, folder)) for path in texts]
    for old, new in changes.items():
        _change(copies, old, new)
    replicas = folder / "replicas.conf"
    servers = " ".join(f"server {HOST}:{each} max_fails=0;" for each in upstreams)
    text = re.sub(r"server posref:8000 [^;]+;", servers, replicas.read_text())
    replicas.write_text(_moved(text))
    listener = f"server {{ listen {HOST}:{port} default_server; include locations.conf; }}\n"
    (folder / "listeners" / "plain.conf").write_text(listener)


def _moved(text: str) -> str:
    """Reserve the edge's internal ports, use no DNS server, and make room for more servers."""
    text = re.sub(r"resolver [^;]+;", "", text)
    text = re.sub(r"zone (\w+) 512k;", r"zone \1 4m;", text)
    for own in set(re.findall(r"listen 127\.0\.0\.1:(\d+);", text)):
        text = text.replace(f":{own}", f":{free_port()}")
    return text


def _change(paths: Sequence[Path], old: str, new: str) -> None:
    found = [path for path in paths if old in path.read_text()]
    if not found:
        raise BenchmarkFailed(f"the edge's configuration has no {old!r}")
    for path in found:
        path.write_text(path.read_text().replace(old, new))


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.TransportError:
        return False
