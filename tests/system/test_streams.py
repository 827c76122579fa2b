"""Streams at full speed, and clients that disconnect in the middle of one."""

import hashlib
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from struct import pack

import httpx
import pytest

from tests.system.connection import connected, spelled
from tests.system.processes import wait_until
from tests.system.servers import KIB, MIB, Server, running

pytestmark = pytest.mark.system

ENDLESS = f"/encoding.npy?seq_len={2**28}&d_model=512"
STREAMED = "/encoding.npy?seq_len=1500&d_model=512"
SMALL = "/encoding.npy?seq_len=50&d_model=512"
CLIENTS, ROUNDS = 4, 100
RESET = pack("ii", 1, 0)


@pytest.fixture
def server() -> Iterator[Server]:
    # No answer comes from the cache: all are written by the threads that compute them.
    with running(cache_entry_bytes=MIB, shutdown_seconds=2) as server:
        yield server


def received(connection: socket.socket, least_bytes: int) -> int:
    """Receive at least so many bytes; return how many."""
    total = 0
    while total < least_bytes and (part := connection.recv(64 * KIB)):
        total += len(part)
    return total


def socket_to(server: Server) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.settimeout(60)
    return connection


def test_no_answer_gets_bytes_of_a_connection_that_was_closed_before(server: Server) -> None:
    expected = {target: server.get(target).content for target in (STREAMED, SMALL)}

    def leave_and_come_back(number: int) -> list[str]:
        wrong = []
        for turn in range(ROUNDS):
            target = (STREAMED, SMALL)[(turn + number) % 2]
            with socket_to(server) as leaving:
                leaving.sendall(spelled(ENDLESS))
                received(leaving, MIB * (1 + turn % 4))
                if turn % 2:
                    leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            # The system gives the descriptor that was just closed to the next connection.
            with connected(server.port) as client:
                if client.ask(spelled(target)).body != expected[target]:
                    wrong.append(target)
        return wrong

    with ThreadPoolExecutor(CLIENTS) as clients:
        wrong = [*clients.map(leave_and_come_back, range(CLIENTS))]

    assert not any(wrong), wrong
    assert server.end() == 0
    assert "Traceback" not in server.log.read_text()


def test_disconnects_in_the_middle_free_every_descriptor(server: Server) -> None:
    server.get(SMALL)
    before = server.count("process_open_fds")
    for _ in range(2 * CLIENTS):
        with socket_to(server) as leaving:
            leaving.sendall(spelled(ENDLESS))
            received(leaving, 4 * MIB)

    wait_until("no connection is open", lambda: server.count("process_open_fds") <= before)


def test_signal_during_a_stream_at_full_speed_ends_the_process(server: Server) -> None:
    with socket_to(server) as reader:
        reader.sendall(spelled(ENDLESS))
        received(reader, 4 * MIB)
        server.process.send_signal(signal.SIGTERM)
        # The reader goes on, and the server cuts it off.
        try:
            while reader.recv(MIB):
                pass
        except ConnectionResetError:
            pass

    assert server.process.wait(30) == 0
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize(
    "target",
    [
        "/encoding.npy?seq_len=20000&d_model=512",
        "/encoding.csv?seq_len=2001&d_model=512",
        "/encoding.json?seq_len=2001&d_model=512",
    ],
)
def test_connection_is_used_again_after_a_stream(server: Server, target: str) -> None:
    digests = set()
    with httpx.Client(base_url=server.url(""), trust_env=False, timeout=60) as client:
        for _ in range(3):
            digests.add(hashlib.sha256(client.get(target).content).hexdigest())
            assert len(client.get(SMALL).content) == 128 + 50 * 512 * 4

    assert len(digests) == 1
    assert server.count("posref_answers_total", path="/encoding.{extension}") == 6


def test_requests_behind_a_stream_are_answered_in_order(server: Server) -> None:
    bodies = [server.get(target).content for target in (STREAMED, SMALL, STREAMED)]
    with socket_to(server) as client:
        client.sendall(b"".join(map(spelled, (STREAMED, SMALL, STREAMED))))
        file = client.makefile("rb")
        for body in bodies:
            while file.readline() != b"\r\n":
                pass
            assert file.read(len(body)) == body
