"""The edge of deploy/ in front of posref servers on this machine."""

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.system import debian
from tests.system.processes import free_port, wait_until
from tests.system.servers import ROOT, Server

CONFIGURATION = ROOT / "deploy" / "edge"

_NGINX = "/usr/sbin/nginx"
_OF_COMPOSE = {"cache.conf", "plain.conf", "tls.conf"}
_RELAY = """\
daemon off;
pid nginx.pid;
error_log stderr;
events {{ }}
http {{
    access_log off;
    server {{
        listen 127.0.0.1:{port};
        {rule}
        location / {{ proxy_pass http://127.0.0.1:{server}; proxy_http_version 1.1; }}
        location = /edge/healthz {{ return 200; }}
    }}
}}
"""
_STOP_SECONDS = 60
_ANSWER_SECONDS = 60
_STARTS = count(1)


@dataclass(frozen=True)
class Edge:
    """A running nginx.

    Attributes:
        process: the master process.
        folder: with configuration, logs and cache.
    """

    process: subprocess.Popen[bytes]
    port: int
    folder: Path

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

    def head(self, target: str) -> httpx.Response:
        return self.request("HEAD", target)

    def kept_bytes(self) -> int:
        """Return the size of the cache, whose files change meanwhile."""
        walked = os.fwalk(self.folder / "cache")
        return sum(entry for _, _, files, at in walked for entry in _sizes(files, at))

    def requests(self) -> str:
        """Return the access log."""
        return (self.folder / "access.log").read_text()

    def errors(self) -> str:
        """Return the error log."""
        return (self.folder / "error.log").read_text()

    def end(self) -> None:
        """Kill it with all its connections."""
        self.process.terminate()
        self.process.wait(_STOP_SECONDS)

    def answers(self) -> bool:
        try:
            return self.get("/edge/healthz").is_success
        except httpx.TransportError:
            return False

    def has_ended(self) -> bool:
        return self.process.poll() is not None


def _sizes(files: list[str], folder: int) -> Iterator[int]:
    for file in files:
        try:
            yield os.stat(file, dir_fd=folder).st_size
        except FileNotFoundError:
            continue


@contextmanager
def before(
    servers: Sequence[Server | int],
    folder: Path,
    *,
    max_size: str = "1g",
    changes: Mapping[str, str] | None = None,
) -> Iterator[Edge]:
    """Run the edge in a folder.

    Args:
        servers: the replicas, or their ports.
        folder: an empty folder for its files.
        max_size: the approximate size of its cache.
        changes: replacements in limits.conf, locations.conf and replicas.conf.
    """
    port = free_port()
    ports = [server if isinstance(server, int) else server.port for server in servers]
    _write_configuration(folder, port, ports, max_size, changes or {})
    with _running(folder, port) as edge:
        yield edge


@contextmanager
def behind_relay(server: Server, folder: Path, rule: str) -> Iterator[tuple[Edge, Edge]]:
    """Run the edge with another nginx, which follows a rule, between it and a server."""
    relayed, kept = folder / "relay", folder / "edge"
    port = free_port()
    (relayed / "configuration").mkdir(parents=True)
    kept.mkdir()
    (relayed / "configuration" / "nginx.conf").write_text(
        _RELAY.format(port=port, server=server.port, rule=rule)
    )
    with _running(relayed, port) as relay, before([port], kept) as edge:
        yield edge, relay


@contextmanager
def _running(folder: Path, port: int) -> Iterator[Edge]:
    debian.install(["nginx"])
    with (
        (folder / "access.log").open("wb") as requests,
        (folder / "error.log").open("wb") as errors,
        subprocess.Popen(_command(folder), stdout=requests, stderr=errors) as process,
    ):
        edge = Edge(process, port, folder)
        try:
            wait_until("nginx answers or ends", lambda: edge.answers() or edge.has_ended())
            if edge.has_ended():
                pytest.fail(f"nginx ended:\n{edge.errors()[-4000:]}")
            yield edge
        finally:
            _stop(process)


def unseen(target: str) -> str:
    """Return a new URL of a target."""
    return f"{target}&start={next(_STARTS)}"


def _command(folder: Path) -> list[str]:
    user = pwd.getpwuid(os.geteuid()).pw_name
    configuration = str(folder / "configuration" / "nginx.conf")
    return [_NGINX, "-e", "stderr", "-p", f"{folder}/", "-c", configuration, "-g", f"user {user};"]


def _write_configuration(
    folder: Path, port: int, ports: Sequence[int], max_size: str, changes: Mapping[str, str]
) -> None:
    """Copy the mounted configuration with other ports, cache paths and upstreams."""
    configuration = folder / "configuration"
    listeners = configuration / "listeners"
    listeners.mkdir(parents=True)
    for file in CONFIGURATION.glob("*.conf"):
        if file.name not in _OF_COMPOSE:
            shutil.copy(file, configuration)
    changed = [configuration / f"{name}.conf" for name in ("limits", "locations", "replicas")]
    for old, new in changes.items():
        _change(changed, old, new)
    (listeners / "plain.conf").write_text(
        f"server {{ listen 127.0.0.1:{port} default_server; include locations.conf; }}\n"
    )
    (configuration / "cache.conf").write_text(
        f"proxy_cache_path cache keys_zone=tables:4m max_size={max_size} use_temp_path=off;\n"
    )
    _write_replicas(configuration, ports)


def _write_replicas(configuration: Path, ports: Sequence[int]) -> None:
    """Name the replicas without a DNS server, and reserve the ports of the inner server."""
    replicas, limits = configuration / "replicas.conf", configuration / "limits.conf"
    first, second = free_port(), free_port()
    text = replicas.read_text().replace(":8101", f":{first}").replace(":8102", f":{second}")
    text = re.sub(r"resolver [^;]+;", "", text)
    servers = "\n".join(rf"server 127.0.0.1:{each}\1;" for each in ports)
    text, named = re.subn(r"server posref:8000 resolve([^;]+);", servers, text)
    assert named == 1
    replicas.write_text(text)
    _change([limits], "810[12]", f"(?:{first}|{second})")


def _change(files: Sequence[Path], old: str, new: str) -> None:
    """Replace a text that one of the files has, once."""
    counts = {file: file.read_text().count(old) for file in files}
    assert sorted(counts.values()) == [0] * (len(files) - 1) + [1], old
    (file,) = (each for each, count in counts.items() if count)
    file.write_text(file.read_text().replace(old, new))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
