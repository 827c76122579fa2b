"""What goes wrong while many ask: what clients see of it, counted."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.system import nginx
from tests.system.clients import CLIENTS_EACH, Questions, asking
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
from tests.system.questions import fresh_tables, kept_tables, ranges, rotations
from tests.system.servers import MIB, Server, running
from tests.system.slow import SlowHeads, slow_heads, slow_readers

pytestmark = pytest.mark.system

HUGE = f"/encoding.npy?seq_len={2**40}&d_model=512"
KEPT = "/encoding.npy?seq_len=50&d_model=512&revision=1"
FRESH = "/encoding.npy?seq_len=30&d_model=64&base=100"
READERS = 50
READERS_BYTES = READERS * 3 * MIB
KINDS = ("kept", "fresh", "range", "apply")

# Many clients at once take their time where there is little of it.
reach = partial(wait_until, seconds=120)

Tell = Callable[[str], None]


@pytest.fixture
def tell(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Tell:
    """Write a line to the terminal though output is kept from it."""

    def write(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{request.node.name}: {line}\n")

    return write


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(header_seconds=5, max_response_bytes=2**63 - 1) as server:
        yield server


def of_every_kind(server: Server) -> list[Questions]:
    return [
        kept_tables(server),
        fresh_tables(server),
        ranges(server),
        rotations(server),
    ]


def test_killed_worker_breaks_only_its_own_connections(tell: Tell) -> None:
    with running(workers=2) as server:
        told = [server.count("posref_answers_total")]

        def are_two() -> bool:
            told.append(server.count("posref_answers_total"))
            return server.count("posref_workers") == 2

        with (
            asking(server.port, of_every_kind(server)) as seen,
            asking(server.port, [kept_tables(server)], kept=False) as strangers,
        ):
            reach("all are answered", seen.asked_again(KINDS, 8))
            before = workers_of(server)
            busiest = max(before, key=lambda pid: len(clients_of(pid, server.port)))
            its_clients = killed(busiest, server.port)
            reach("the others are answered", seen.asked_again(KINDS, 8))
            reach("there are two", lambda: workers_of(server) != before and are_two())
            (new,) = workers_of(server) - before
            reach("the new one serves", lambda: bool(clients_of(new, server.port)))
        tell(f"connections of the killed one: {len(its_clients)}; {seen}")
        tell(f"a connection for each request: {strangers}")

        assert not [*seen.wrong, *strangers.wrong, *seen.refused, *strangers.refused]
        assert set() < seen.ended_ports | strangers.ended_ports <= its_clients
        assert not seen.unconnected + strangers.unconnected
        assert told == sorted(told)


def test_stopping_server_cuts_off_no_answer(tell: Tell) -> None:
    with running(drain_seconds=1) as server:
        with asking(server.port, of_every_kind(server)) as seen:
            reach("all are answered", seen.asked_again(KINDS, 8))
            assert server.end() == 0
        tell(str(seen))

        assert not [*seen.wrong, *seen.refused, *seen.cut]
        assert seen.unconnected


def test_killed_replica_breaks_only_running_answers(
    server: Server, tell: Tell, tmp_path: Path
) -> None:
    with running() as other, nginx.before([server, other], tmp_path) as edge:
        questions = of_every_kind(server)
        with asking(edge.port, questions) as seen:
            reach("all are answered", seen.asked_again(KINDS, 8))
            other.process.kill()
            other.process.wait()
            reach("all are answered without it", seen.asked_again(KINDS, 8))
        tell(f"one of two is killed: {seen}")
        with asking(edge.port, questions) as back_seen, come_back(other):
            reach("it is asked again", lambda: other.count("posref_builds_total") > 0)
            reach("all are answered", back_seen.asked_again(KINDS, 8))
            tell(f"it comes back: {back_seen}")

    assert not [*seen.wrong, *seen.refused, *seen.closed]
    # What it had begun to send, to each client one answer at most.
    assert len(seen.ended_ports) <= len(KINDS) * CLIENTS_EACH
    assert not [*back_seen.wrong, *back_seen.refused, *back_seen.broken, *back_seen.cut]


def test_hung_replica_delays_but_loses_no_answer(
    server: Server, tell: Tell, tmp_path: Path
) -> None:
    changes = {"proxy_read_timeout 30s": "proxy_read_timeout 5s"}
    with running() as other, nginx.before([server, other], tmp_path, changes=changes) as edge:
        with asking(edge.port, of_every_kind(server), 2) as seen:
            reach("all are answered", seen.asked_again(KINDS, 4))
            with held(other):
                reach("all are answered meanwhile", seen.asked_again(KINDS, 8))
        tell(str(seen))

    assert not [*seen.wrong, *seen.refused, *seen.closed]
    assert len(seen.ended_ports) <= len(KINDS) * 2


def test_full_disk_at_the_edge_fails_only_new_cacheable_answers(
    server: Server, tell: Tell, tmp_path: Path
) -> None:
    questions = [kept_tables(server), rotations(server), fresh_tables(server, 1024)]
    with ExitStack() as stack:
        stack.enter_context(small_disk(tmp_path, 16 * MIB))
        edge = stack.enter_context(nginx.before([server], tmp_path))
        edge.get(KEPT)
        with filled(tmp_path), asking(edge.port, questions) as seen:
            reach("what is kept is answered", seen.asked_again(["kept", "apply"], 32))
            reach("others are not", lambda: len(seen.ended_ports) > 8)
            own = edge.get(FRESH, Authorization="Bearer nobody")
        tell(str(seen))
        with asking(edge.port, questions, 1) as after:
            reach("all are answered", after.asked_again(["kept", "apply", "fresh"], 4))

    assert own.content == server.get(FRESH).content
    for each in (seen, after):
        assert not [*each.wrong, *each.refused, *each.closed]
    assert {*seen.broken.values(), *seen.cut.values()} == {"fresh"}
    assert not after.ended_ports


def ask_meanwhile(server: Server | Edge, heads: SlowHeads) -> float:
    """Ask for what must be answered while others are slow; gives how long the longest took."""
    took = [0.0]
    for number in range(5):
        assert heads.waiting
        for target in ("/readyz", KEPT, f"{FRESH}&start={number}"):
            answer = server.get(target)
            assert answer.is_success
            took.append(answer.elapsed.total_seconds())
    return max(took)


def test_slow_clients_delay_no_other(server: Server, tell: Tell) -> None:
    before = server.memory_bytes("VmRSS")
    with slow_readers(server.port, HUGE, READERS), slow_heads(server.port, 500) as heads:
        reach("all are waited for", lambda: heads.waiting == 500)
        took = ask_meanwhile(server, heads)
        reach("the first are given up", lambda: heads.ended >= 500)
        grown = server.memory_bytes("VmRSS") - before
    tell(f"{grown / MIB:.0f} MiB; heads: {dict(heads.ends)}; longest: {took:.2f} s")

    assert set(heads.ends) == {b"HTTP/1.1 408 Request Timeout"}
    assert grown <= READERS_BYTES


def test_slow_clients_at_the_edge_delay_no_other(
    server: Server, tell: Tell, tmp_path: Path
) -> None:
    changes = {"client_header_timeout 10s": "client_header_timeout 5s"}
    with nginx.before([server], tmp_path, changes=changes) as edge:
        processes = children_of(edge.process.pid)
        before = memory_bytes(processes), server.memory_bytes("VmRSS")
        with slow_readers(edge.port, HUGE, READERS), slow_heads(edge.port, 500) as heads:
            reach("all are waited for", lambda: heads.waiting == 500)
            took = ask_meanwhile(edge, heads)
            reach("the first are given up", lambda: heads.ended >= 500)
            after = memory_bytes(processes), server.memory_bytes("VmRSS")
    grown = [(now - then) / MIB for now, then in zip(after, before, strict=True)]
    tell(
        f"nginx {grown[0]:.0f} MiB, posref {grown[1]:.0f} MiB; "
        f"heads: {dict(heads.ends)}; longest: {took:.2f} s"
    )

    assert set(heads.ends) == {b""}
    assert max(grown) * MIB <= READERS_BYTES
