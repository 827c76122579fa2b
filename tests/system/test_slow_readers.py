"""Clients that read a little of a huge table and stop: memory and work held for them."""

import gzip
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httptools
import httpx
import pytest

from service.delivery.budget import CONNECTION_BYTES
from service.delivery.representation import DerivedBody
from service.delivery.streams import MAX_UNREAD_BYTES
from tests.system.processes import wait_until
from tests.system.servers import KIB, MIB, Server, running

pytestmark = pytest.mark.system

READERS = 50
GROWTH_BYTES = 72 * MIB
HUGE = f"/encoding.npy?seq_len={2**40}&d_model=512"
SMALL = "/encoding.npy?seq_len=4&d_model=4&base=100"
KEPT_BYTES = 32 * MIB
HELD_SECONDS = 3.0
TAKEN_BYTES = 4 * KIB
# The server looks each second, and gives back what was freed if nothing changed since.
GIVEN_BACK_SECONDS = 3.0


@pytest.fixture
def server() -> Iterator[Server]:
    with running(max_response_bytes=2**63 - 1, shutdown_seconds=2) as server:
        server.get("/encoding.npy?seq_len=32768&d_model=512")
        yield server


@contextmanager
def slow_readers(
    server: Server, target: str = HUGE, *, is_warm: bool = False
) -> Iterator[list[socket.socket]]:
    """Begin to read tables with distinct URLs, and stop reading."""
    with ExitStack() as stack:
        readers = [stack.enter_context(socket.socket()) for _ in range(READERS)]
        for number, reader in enumerate(readers):
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TAKEN_BYTES)
            reader.settimeout(60)
            reader.connect(("127.0.0.1", server.port))
            if is_warm:
                reader.sendall(_request(target, number))
                _read_answer(reader)
            reader.sendall(_request(target, number))
        for reader in readers:
            assert reader.recv(TAKEN_BYTES).startswith(b"HTTP/1.1 200 OK\r\n")
        wait_until("nothing is made for nobody", lambda: is_at_rest(server))
        yield readers


def _request(target: str, number: int) -> bytes:
    return f"GET {target}&start={number} HTTP/1.1\r\nHost: posref.test\r\n\r\n".encode()


def _read_answer(reader: socket.socket) -> None:
    received = bytearray()
    while b"\r\n\r\n" not in received:
        received += reader.recv(MIB)
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    left = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) - len(body)
    while left:
        left -= len(reader.recv(min(left, MIB)))


def _resident(server: Server) -> int:
    return server.memory_bytes("VmRSS")


def is_at_rest(server: Server) -> bool:
    """Return whether it uses less than a tenth of a second of CPU."""
    before = server.cpu_seconds()
    time.sleep(1)
    return server.cpu_seconds() - before < 0.1


def test_slow_reader_holds_one_block(server: Server) -> None:
    before = _resident(server)
    server.forget_peak()

    with slow_readers(server):
        time.sleep(HELD_SECONDS)

        assert server.memory_bytes("VmHWM") - before <= GROWTH_BYTES


@pytest.mark.parametrize(
    ("rows", "is_warm", "held_bytes"),
    [
        (1023, True, READERS * 2 * MIB),
        (1023, False, READERS * 160 * KIB),
        (2**13 - 1, False, READERS * 160 * KIB),
    ],
    ids=["sent whole", "sent in pieces", "long"],
)
def test_slow_reader_of_an_evicted_table_holds_one_block(
    rows: int, is_warm: bool, held_bytes: int
) -> None:
    kept = f"/encoding.npy?seq_len={rows}&d_model=512"
    with running(cache_bytes=KEPT_BYTES) as server:
        before = _resident(server)

        with slow_readers(server, kept, is_warm=is_warm):
            most_bytes = before + held_bytes + 2 * KEPT_BYTES
            wait_until("what was freed is given back", lambda: _resident(server) <= most_bytes)

        assert server.count("posref_builds_total") == READERS


def test_evicted_tables_stay_granted_until_their_slow_readers_leave() -> None:
    with running(cache_bytes=KEPT_BYTES, memory_bytes=512 * MIB) as server:

        def granted_bytes(kind: str) -> int:
            return server.count("posref_memory_granted_bytes", kind=kind)

        with slow_readers(server, "/encoding.npy?seq_len=1023&d_model=512", is_warm=True):
            unread_bytes = granted_bytes("cache") + granted_bytes("results")
            assert granted_bytes("cache") <= KEPT_BYTES
            assert unread_bytes > (READERS - 1) * 1023 * 512 * 4
        wait_until("no answer is granted", lambda: granted_bytes("results") == 0)


def test_slow_readers_delay_no_other_client(server: Server) -> None:
    with slow_readers(server):
        assert len(server.get(SMALL).content) == 192
        assert len(server.range(HUGE, 2**50, 2**50 + 99_999)) == 100_000
        assert server.get("/readyz").status_code == httpx.codes.OK


def test_slow_reader_continues_with_the_right_bytes(server: Server) -> None:
    with slow_readers(server) as readers:
        reader = readers[READERS // 2]
        received = bytearray()
        while len(received) < 3 * MIB:
            received += reader.recv(MIB)

    whole = server.range(f"{HUGE}&start={READERS // 2}", 0, 4 * MIB)
    assert bytes(received) in whole


def test_disconnect_of_slow_readers_ends_their_work(server: Server) -> None:
    with slow_readers(server):
        pass

    wait_until("nothing is made for those who left", lambda: is_at_rest(server))
    assert server.get(SMALL).status_code == httpx.codes.OK
    assert server.end() == 0


def test_disconnect_with_pipelined_requests_ends_the_work(server: Server) -> None:
    with slow_readers(server) as readers:
        for number, reader in enumerate(readers):
            reader.sendall(_request(SMALL.removesuffix("&base=100"), number))

    wait_until("nothing is made for those who left", lambda: is_at_rest(server))
    assert server.end() == 0
    assert "Traceback" not in server.log.read_text()


def test_slow_readers_do_not_delay_shutdown(server: Server) -> None:
    with slow_readers(server):
        assert server.end() == 0


ENCODINGS = f"seq_len={2**40}&d_model=512"
MANY = 200
UNREAD_BYTES = MAX_UNREAD_BYTES + CONNECTION_BYTES
# The allocator keeps what is free between the blocks in use, and returns it late: how much that is
# depends on the moment, not on the number of streams. 200 more of them add 45 to 160 KiB each.
FREE_HEAP_BYTES = 8 * MIB
GZIP = "Accept-Encoding: gzip\r\n"


@pytest.mark.parametrize(
    ("target", "headers", "state_bytes"),
    [
        (f"/encoding.npy?{ENCODINGS}", "", 0),
        (f"/encoding.bin?{ENCODINGS}", "", 0),
        (f"/rope.safetensors?seq_len={2**34}&head_dim=128&pack=half", "", 0),
        (f"/encoding.npy?{ENCODINGS}", f"Range: bytes={2**30}-{2**30 + MIB}\r\n", 0),
        ("/encoding.npy?seq_len=2000&d_model=512", "", 0),
        ("/encoding.json?seq_len=8000&d_model=512&dtype=float64", "", 0),
        ("/encoding.csv?seq_len=8000&d_model=512", "", 0),
        ("/encoding.json?seq_len=8000&d_model=512", GZIP, DerivedBody.state_bytes),
    ],
)
def test_many_unread_streams_hold_little_memory(
    target: str, headers: str, state_bytes: int
) -> None:
    limits = {"max_response_bytes": 2**63 - 1, "cache_bytes": KEPT_BYTES}
    with running(**limits) as server, ExitStack() as stack:
        _unread(server, stack, target, headers, range(MANY))
        time.sleep(GIVEN_BACK_SECONDS)
        before = _resident(server)
        _unread(server, stack, target, headers, range(MANY, 3 * MANY))
        most_bytes = before + 2 * MANY * (UNREAD_BYTES + state_bytes) + FREE_HEAP_BYTES
        wait_until("what was freed is given back", lambda: _resident(server) <= most_bytes)


class Answer:
    """The body of an answer, without the frames of its chunks."""

    def __init__(self) -> None:
        self.body = bytearray()

    def on_body(self, part: bytes) -> None:
        self.body += part


def _unread(
    server: Server, stack: ExitStack, target: str, headers: str, numbers: range
) -> list[socket.socket]:
    """Begin to read tables, and stop."""
    readers = [stack.enter_context(socket.socket()) for _ in numbers]
    for number, reader in zip(numbers, readers, strict=True):
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TAKEN_BYTES)
        reader.settimeout(60)
        reader.connect(("127.0.0.1", server.port))
        reader.sendall(_request(target, number).replace(b"\r\n\r\n", f"\r\n{headers}\r\n".encode()))
    for reader in readers:
        assert reader.recv(TAKEN_BYTES).startswith(b"HTTP/1.1 20")
    wait_until("nothing is made for nobody", lambda: is_at_rest(server))
    return readers


@pytest.mark.parametrize(
    ("target", "version", "headers"),
    [
        ("/encoding.npy?seq_len=9001&d_model=512", "1.1", ""),
        ("/encoding.csv?seq_len=2001&d_model=512", "1.0", ""),
        ("/encoding.csv?seq_len=2001&d_model=512", "1.1", ""),
        ("/encoding.json?seq_len=2001&d_model=512&dtype=float64", "1.1", ""),
        ("/encoding.json?seq_len=2001&d_model=512", "1.1", GZIP),
    ],
)
def test_reader_that_stops_and_goes_on_gets_every_byte(
    server: Server, target: str, version: str, headers: str
) -> None:
    request = f"GET {target} HTTP/{version}\r\nHost: posref.test\r\nConnection: close\r\n"
    answer, steps = Answer(), 0
    parser = httptools.HttpResponseParser(answer)
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TAKEN_BYTES)
        reader.settimeout(60)
        reader.connect(("127.0.0.1", server.port))
        reader.sendall(f"{request}{headers}\r\n".encode())
        while part := reader.recv(MIB):
            parser.feed_data(part)
            steps += 1
            if steps % 100 == 1 and steps < 1000:
                time.sleep(0.2)

    assert parser.get_status_code() == httpx.codes.OK
    body = gzip.decompress(answer.body) if headers else bytes(answer.body)
    assert body == server.get(target).content
