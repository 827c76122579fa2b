"""nginx in front of a posref, keeping slices of what passes through it."""

import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.system import debian
from tests.system.processes import free_port, wait_until
from tests.system.servers import Server

_NGINX = "/usr/sbin/nginx"
_STOP_SECONDS = 30
_ANSWER_SECONDS = 60
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_CONFIGURATION = """\
daemon off;
user {user};
pid {folder}/nginx.pid;
worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log off;
    {temporary}
    proxy_cache_path {folder}/cache keys_zone=slices:1m max_size={max_size} inactive=1d
        use_temp_path=off;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            slice 1m;
            proxy_pass http://127.0.0.1:{upstream};
            proxy_http_version 1.1;
            proxy_set_header Range $slice_range;
            proxy_cache slices;
            proxy_cache_key $uri$is_args$args$slice_range;
            proxy_cache_valid 200 206 1d;
            add_header X-Cache $upstream_cache_status always;
        }}
    }}
}}
"""


@dataclass(frozen=True)
class Edge:
    """A running nginx."""

    port: int
    cache: Path

    def url(self, target: str) -> str:
        return f"http://127.0.0.1:{self.port}{target}"

    def get(self, target: str, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.get(self.url(target), headers=named, timeout=_ANSWER_SECONDS, trust_env=False)

    def head(self, target: str) -> httpx.Response:
        return httpx.head(self.url(target), timeout=_ANSWER_SECONDS, trust_env=False)

    def kept_bytes(self) -> int:
        """Count what the cache takes; files come and go meanwhile."""
        listed = (entry for _, _, files, at in os.fwalk(self.cache) for entry in _sizes(files, at))
        return sum(listed)

    def answers(self) -> bool:
        try:
            return self.get("/readyz").is_success
        except httpx.TransportError:
            return False


def _sizes(files: list[str], folder: int) -> Iterator[int]:
    for file in files:
        try:
            yield os.stat(file, dir_fd=folder).st_size
        except FileNotFoundError:
            continue


@contextmanager
def before(server: Server, folder: Path, *, max_size: str) -> Iterator[Edge]:
    """Run nginx in a folder, with a cache of about a size, until it is no longer wanted."""
    debian.install(["nginx"])
    port = free_port()
    configuration = folder / "nginx.conf"
    temporary = [f"{name}_temp_path {folder}/{name};" for name in _TEMPORARY]
    configuration.write_text(
        _CONFIGURATION.format(
            user=pwd.getpwuid(os.geteuid()).pw_name,
            folder=folder,
            temporary="\n    ".join(temporary),
            max_size=max_size,
            port=port,
            upstream=server.port,
        )
    )
    log = folder / "error.log"
    words = [_NGINX, "-e", str(log), "-p", str(folder), "-c", str(configuration)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        try:
            edge = Edge(port, folder / "cache")
            wait_until("nginx answers or ends", lambda: edge.answers() or ended(process))
            if ended(process):
                pytest.fail(f"nginx ended:\n{log.read_text()[-4000:]}")
            yield edge
        finally:
            process.terminate()
            process.wait(_STOP_SECONDS)


def ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None
