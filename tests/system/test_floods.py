"""Floods of idle connections, and requests that arrive byte by byte: others are served."""

import asyncio
import re
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from statistics import median
from time import monotonic, sleep

import httpx
import pytest

from tests.system.connection import Connection, spelled
from tests.system.servers import Server, running

pytestmark = pytest.mark.system

OK = "HTTP/1.1 200 OK"
FLOOD = 5000
SMALL = "/encoding.npy?seq_len=4&d_model=4"


@contextmanager
def connected_from(address: str, port: int) -> Iterator[Connection]:
    with (
        socket.create_connection(("127.0.0.1", port), 60, source_address=(address, 0)) as opened,
        opened.makefile("rb") as file,
    ):
        yield Connection(opened, file)


@pytest.fixture
def open_files() -> Iterator[None]:
    """Allow as many open files as a flood needs."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], FLOOD + 1000), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("open_files")
@pytest.mark.parametrize("sent", [b"", spelled(SMALL)[:20]], ids=["nothing", "part of a head"])
def test_idle_connections_of_one_address_shut_nobody_out(sent: bytes) -> None:
    with running(header_seconds=3600) as server, ExitStack() as stack:
        of_another = stack.enter_context(connected_from("127.0.0.3", server.port))
        assert of_another.ask(spelled(SMALL)).status == OK
        for _ in range(FLOOD):
            flood = socket.create_connection(("127.0.0.1", server.port), 60)
            stack.enter_context(closing(flood)).sendall(sent)
        # A head that has begun keeps its connection for a second.
        sleep(1.5)
        for address in ("127.0.0.1", "127.0.0.2"):
            for target in ("/livez", SMALL):
                with connected_from(address, server.port) as connection:
                    assert connection.ask(spelled(target)).status == OK

        assert of_another.ask(spelled(SMALL)).status == OK
        # A connection beyond the limit is closed after an answer.
        assert of_another.ask(spelled(SMALL)).header("connection") is None
        assert server.count("posref_connections") <= 4096 + 256


BODY = b'{"x": [[1, 2, 3, 4]], "positions": [3]}'
POST = spelled("/rope/apply", "Content-Type: application/json", method="POST")[:-2]
CHUNKS = b"".join(b"%x\r\n%c\r\n" % (1, byte) for byte in BODY) + b"0\r\n\r\n"
DRIBBLED = [
    spelled(SMALL, "X-Long: " + "x" * 1000),
    POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
    POST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    spelled(SMALL) * 3 + POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
]
"""Requests that are sent byte by byte: a long head, bodies, and several in a row."""
CLIENTS = 40


async def dribble(port: int, request: bytes, going_on: asyncio.Event) -> bytes:
    """Send a request byte by byte, the last after an event; return the body of the last answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in request[:-1]:
        writer.write(bytes((byte,)))
        await asyncio.sleep(0.002)
    await going_on.wait()
    writer.write(request[-1:])
    body = b""
    for _ in range(request.count(b" HTTP/1.1\r\n")):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
        (length,) = re.findall(rb"content-length: (\d+)", head)
        body = await reader.readexactly(int(length))
    writer.close()
    return body


async def median_seconds(server: Server) -> float:
    """Return the median time of requests for a cached table."""
    seconds = []
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        for _ in range(40):
            begun = monotonic()
            assert (await client.get(server.url(SMALL))).is_success
            seconds.append(monotonic() - begun)
            await asyncio.sleep(0.01)
    return median(seconds)


@pytest.mark.parametrize("fast_path", ["true", "false"])
def test_requests_sent_byte_by_byte_are_answered_and_delay_nobody(fast_path: str) -> None:
    requests = [DRIBBLED[each % len(DRIBBLED)] for each in range(CLIENTS)]

    async def run(server: Server) -> list[bytes]:
        quiet_seconds = await median_seconds(server)
        going_on = asyncio.Event()
        dribbling = asyncio.gather(*(dribble(server.port, each, going_on) for each in requests))
        await asyncio.sleep(0.1)
        # None of them ends meanwhile.
        assert await median_seconds(server) < 50 * quiet_seconds
        going_on.set()
        return await dribbling

    with running(fast_path=fast_path) as server:
        with connected_from("127.0.0.1", server.port) as whole:
            expected = []
            for request in DRIBBLED:
                whole.send(request)
                answers = [whole.answer() for _ in range(request.count(b" HTTP/1.1\r\n"))]
                expected.append(answers[-1].body)

        answered = asyncio.run(run(server))

    assert answered == [expected[each % len(expected)] for each in range(CLIENTS)]
