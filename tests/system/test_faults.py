"""Faults under load, and what clients see of them."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.system import nginx
from tests.system.clients import CLIENTS_EACH, Requests, running_clients
from tests.system.faults import (
    children_of,
    clients_of,
    come_back,
    filled,
    held,
    killed,
    memory_bytes,
    small_disk,
    workers_of,
)
from tests.system.nginx import Edge
from tests.system.processes import wait_until
from tests.system.requests import cached_tables, fresh_tables, ranges, rotations
from tests.system.servers import MIB, Server, running
from tests.system.slow import SlowHeads, slow_heads, slow_readers

pytestmark = pytest.mark.system

HUGE = f"/encoding.npy?seq_len={2**40}&d_model=512"
KEPT = "/encoding.npy?seq_len=50&d_model=512&revision=1"
FRESH = "/encoding.npy?seq_len=30&d_model=64&base=100"
READERS = 50
READERS_BYTES = READERS * 3 * MIB
KINDS = ("cached", "fresh", "range", "apply")

# Many clients are slow on few cores.
reach = partial(wait_until, seconds=120)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(header_seconds=5, max_response_bytes=2**63 - 1) as server:
        yield server


def of_every_kind(server: Server) -> list[Requests]:
    return [cached_tables(server), fresh_tables(server), ranges(server), rotations(server)]


def test_killed_worker_breaks_only_its_own_connections() -> None:
    with running(workers=2) as server:
        told = [server.count("posref_answers_total")]

        def are_two() -> bool:
            told.append(server.count("posref_answers_total"))
            return server.count("posref_workers") == 2

        with (
            running_clients(server.port, of_every_kind(server)) as outcome,
            running_clients(server.port, [cached_tables(server)], keep_alive=False) as strangers,
        ):
            reach("all are answered", outcome.grows_by(KINDS, 8))
            before = workers_of(server)
            busiest = max(before, key=lambda pid: len(clients_of(pid, server.port)))
            its_clients = killed(busiest, server.port)
            reach("the others are answered", outcome.grows_by(KINDS, 8))
            reach("there are two", lambda: workers_of(server) != before and are_two())
            (new,) = workers_of(server) - before
            reach("the new one serves", lambda: bool(clients_of(new, server.port)))

        assert not [*outcome.wrong, *strangers.wrong, *outcome.refused, *strangers.refused]
        assert set() < outcome.ended_ports | strangers.ended_ports <= its_clients
        assert not outcome.unconnected + strangers.unconnected
        assert told == sorted(told)


def test_stopping_server_cuts_off_no_answer() -> None:
    with running(drain_seconds=1) as server:
        with running_clients(server.port, of_every_kind(server)) as outcome:
            reach("all are answered", outcome.grows_by(KINDS, 8))
            assert server.end() == 0

        assert not [*outcome.wrong, *outcome.refused, *outcome.cut]
        assert outcome.unconnected


def test_killed_replica_breaks_only_running_answers(server: Server, tmp_path: Path) -> None:
    with running() as other, nginx.before([server, other], tmp_path) as edge:
        requests = of_every_kind(server)
        with running_clients(edge.port, requests) as outcome:
            reach("all are answered", outcome.grows_by(KINDS, 8))
            other.process.kill()
            other.process.wait()
            reach("all are answered without it", outcome.grows_by(KINDS, 8))
        with running_clients(edge.port, requests) as back_outcome, come_back(other):
            reach("it is asked again", lambda: other.count("posref_builds_total") > 0)
            reach("all are answered", back_outcome.grows_by(KINDS, 8))

    assert not [*outcome.wrong, *outcome.refused, *outcome.closed]
    # At most one running answer to each client.
    assert len(outcome.ended_ports) <= len(KINDS) * CLIENTS_EACH
    assert not [*back_outcome.wrong, *back_outcome.refused, *back_outcome.broken, *back_outcome.cut]


def test_hung_replica_delays_but_loses_no_answer(server: Server, tmp_path: Path) -> None:
    timeouts = ("proxy_read_timeout 20s", "proxy_read_timeout 100s")
    changes = dict.fromkeys(timeouts, "proxy_read_timeout 5s")
    with (
        running() as other,
        nginx.before([server, other], tmp_path, changes=changes) as edge,
        running_clients(edge.port, of_every_kind(server), 2) as outcome,
    ):
        reach("all are answered", outcome.grows_by(KINDS, 4))
        with held(other):
            reach("all are answered meanwhile", outcome.grows_by(KINDS, 8))

    assert not [*outcome.wrong, *outcome.refused, *outcome.closed]
    assert len(outcome.ended_ports) <= len(KINDS) * 2


def test_full_disk_at_the_edge_fails_only_new_cacheable_answers(
    server: Server, tmp_path: Path
) -> None:
    requests = [cached_tables(server), rotations(server), fresh_tables(server, 1024)]
    with ExitStack() as stack:
        stack.enter_context(small_disk(tmp_path, 16 * MIB))
        edge = stack.enter_context(nginx.before([server], tmp_path))
        edge.get(KEPT)
        with filled(tmp_path), running_clients(edge.port, requests) as outcome:
            reach("what is kept is answered", outcome.grows_by(["cached", "apply"], 32))
            reach("others are not", lambda: len(outcome.ended_ports) > 8)
            own = edge.get(FRESH, Authorization="Bearer nobody")
        with running_clients(edge.port, requests, 1) as after:
            reach("all are answered", after.grows_by(["cached", "apply", "fresh"], 4))

    assert own.content == server.get(FRESH).content
    for each in (outcome, after):
        assert not [*each.wrong, *each.refused, *each.closed]
    assert {*outcome.broken.values(), *outcome.cut.values()} == {"fresh"}
    assert not after.ended_ports


def check_answers(server: Server | Edge, heads: SlowHeads) -> None:
    """Check that other requests are answered while slow heads are sent."""
    for number in range(5):
        assert heads.waiting
        for target in ("/readyz", KEPT, f"{FRESH}&start={number}"):
            assert server.get(target).is_success


def test_slow_clients_delay_no_other(server: Server) -> None:
    before = server.memory_bytes("VmRSS")
    with slow_readers(server.port, HUGE, READERS), slow_heads(server.port, 500) as heads:
        reach("all are waited for", lambda: heads.waiting == 500)
        check_answers(server, heads)
        reach("the first are given up", lambda: heads.ended >= 500)
        grown = server.memory_bytes("VmRSS") - before

    assert set(heads.ends) == {b"HTTP/1.1 408 Request Timeout"}
    assert grown <= READERS_BYTES


def test_slow_clients_at_the_edge_delay_no_other(server: Server, tmp_path: Path) -> None:
    changes = {"client_header_timeout 10s": "client_header_timeout 5s"}
    with nginx.before([server], tmp_path, changes=changes) as edge:
        processes = children_of(edge.process.pid)
        before = memory_bytes(processes), server.memory_bytes("VmRSS")
        with slow_readers(edge.port, HUGE, READERS), slow_heads(edge.port, 500) as heads:
            reach("all are waited for", lambda: heads.waiting == 500)
            check_answers(edge, heads)
            reach("the first are given up", lambda: heads.ended >= 500)
            after = memory_bytes(processes), server.memory_bytes("VmRSS")
    grown = [(now - then) / MIB for now, then in zip(after, before, strict=True)]

    assert set(heads.ends) == {b""}
    assert max(grown) * MIB <= READERS_BYTES
