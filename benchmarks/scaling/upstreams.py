"""The edge's cost of a request by the number of replicas."""

import getpass
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx

from benchmarks.figures import in_turns
from benchmarks.machine import pinned, server_and_client_cores
from benchmarks.processes import BenchmarkFailed, started
from benchmarks.scaling import edge
from benchmarks.scaling.costs import EDGE
from benchmarks.scaling.kinds import COLD_SMALL
from benchmarks.scaling.site import Site, Turn, median_cpu_seconds
from benchmarks.servers import HOST
from benchmarks.tools import find

NUMBERS = (1, 16, 256, 1024)
KEEPALIVES = (64, 2048)

# Cheap substitutes for replicas: an answer of constant length at every port.
_STANDING_IN = """\
daemon off;
user {user};
worker_processes 1;
worker_rlimit_nofile 16384;
pid standing-in.pid;
error_log stderr;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    keepalive_requests 1000000;
    client_body_temp_path standing-body;
    proxy_temp_path standing-proxy;
    fastcgi_temp_path standing-fastcgi;
    uwsgi_temp_path standing-uwsgi;
    scgi_temp_path standing-scgi;
    server {{
        {listens}
        return 200 "{answer}";
    }}
}}
"""
_FIRST_PORTS = range(20_000, 30_000, 1_024)
_TRIES = 100


def measure(folder: Path, seconds: int, rounds: int) -> Mapping[tuple[int, int], float]:
    """Return the edge's CPU time for a request that it forwards.

    Returns:
        Seconds, by (number of replicas, number of idle connections to them).
    """
    core, client_core = server_and_client_cores()
    with ExitStack() as stack:
        ports = stack.enter_context(_standing_in(folder, max(NUMBERS)))
        cases = [(number, kept) for number in NUMBERS for kept in KEEPALIVES]
        sites = []
        with pinned(core):
            for number, kept in cases:
                where = folder / f"edge-{number}-{kept}"
                front = edge.running(ports[:number], where, keeps=False, keepalive=kept)
                running = stack.enter_context(front)
                sites.append(Site(running.origin, {EDGE: [running.pid]}, folder))
        with pinned(client_core):
            turns = [partial(_turn, site, seconds) for site in sites]
            found = in_turns(turns, rounds)
    return {case: median_cpu_seconds(turns, EDGE) for case, turns in zip(cases, found, strict=True)}


def _turn(site: Site, seconds: int, _number: int) -> Turn:
    return site.turn(COLD_SMALL, seconds)


@contextmanager
def _standing_in(folder: Path, number: int) -> Iterator[Sequence[int]]:
    """Answer on consecutive ports, and yield them."""
    ports = _free_ports(number)
    configuration = folder / "standing-in.conf"
    listens = "".join(f"listen {HOST}:{port};\n        " for port in ports)
    configuration.write_text(
        _STANDING_IN.format(user=getpass.getuser(), listens=listens, answer="0" * 192)
    )
    command = [find("nginx"), "-e", "stderr", "-p", f"{folder}/", "-c", str(configuration)]
    with started(command):
        _wait_until_answered(ports[-1])
        yield ports


def _free_ports(number: int) -> Sequence[int]:
    for first in _FIRST_PORTS:
        ports = range(first, first + number)
        if all(map(_is_free, ports)):
            return ports
    raise BenchmarkFailed(f"there are no {number} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
        return True


def _wait_until_answered(port: int) -> None:
    transport = httpx.HTTPTransport(retries=_TRIES)
    with httpx.Client(transport=transport, trust_env=False) as client:
        client.get(f"http://{HOST}:{port}/").raise_for_status()
