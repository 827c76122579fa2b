"""Requests per second for warm tables, with servers alternating on one core."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.answers import check
from benchmarks.cases import Case
from benchmarks.figures import Measured, in_turns
from benchmarks.machine import pinned, server_and_client_cores
from benchmarks.processes import BenchmarkFailed
from benchmarks.servers import POSREF, SERVERS, Running, Server, running
from benchmarks.wrk import Load, load

CONNECTIONS = 16
CASES = tuple(
    Case(seq_len, d_model, extension)
    for extension in ("npy", "json")
    for seq_len, d_model in ((4, 4), (50, 512), (512, 512))
)


_LIMIT_SHARE = 0.95
_REMARKS = {
    (False, False): "",
    (False, True): "wrk at its limit with the peer",
    (True, False): "wrk at its limit with posref",
    (True, True): "wrk at its limit with both",
}


@dataclass(frozen=True)
class Result:
    """The result of a case: the body's length and the load of each round, by server."""

    body_bytes: Mapping[str, int]
    loads: Mapping[str, Sequence[Load]]

    def rates(self, server: Server) -> list[float]:
        return [load.rate for load in self.loads[server.name]]

    def is_at_limit(self, server: Server) -> bool:
        """True if the client's core was saturated, so that the server may be faster."""
        return median(load.client_share for load in self.loads[server.name]) > _LIMIT_SHARE

    def against(self, peer: Server) -> Measured:
        limited = (self.is_at_limit(POSREF), self.is_at_limit(peer))
        return Measured(self.rates(POSREF), self.rates(peer), _REMARKS[limited])


def measure(folder: Path, seconds: int, rounds: int) -> dict[Case, Result]:
    server_core, _ = server_and_client_cores()
    with ExitStack() as stack:
        with pinned(server_core):
            servers = [stack.enter_context(running(server, folder)) for server in SERVERS]
        return {case: _measure_case(servers, case, folder, seconds, rounds) for case in CASES}


def _measure_case(
    servers: Sequence[Running], case: Case, folder: Path, seconds: int, rounds: int
) -> Result:
    print(case, file=sys.stderr)
    able = [server for server in servers if case.extension in server.server.extensions]
    names = [server.server.name for server in able]
    body_bytes = _checked_bytes(able, case, folder)
    _, client_core = server_and_client_cores()
    with pinned(client_core):
        turns = [partial(_load, server.url(case), seconds) for server in able]
        loads = in_turns(turns, rounds)
    return Result(dict(zip(names, body_bytes, strict=True)), dict(zip(names, loads, strict=True)))


def _checked_bytes(servers: Sequence[Running], case: Case, folder: Path) -> list[int]:
    """Check all answers; the file servers serve posref's answer."""
    posref, *peers = servers
    body = check(posref, case)
    (folder / case.file_name).write_bytes(body)
    answers = [check(peer, case) for peer in peers]
    for peer, answer in zip(peers, answers, strict=True):
        if peer.server.is_copy and answer != body:
            raise BenchmarkFailed(f"{peer.url(case)} answers other bytes than posref")
    return [len(answer) for answer in (body, *answers)]


def _load(url: str, seconds: int, _number: int) -> Load:
    return load(url, CONNECTIONS, seconds)
