"""Floods of idle connections, and requests that arrive byte by byte: others are served."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from tests.system.connection import Connection, spelled
from tests.system.servers import running

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
        for address in ("127.0.0.1", "127.0.0.2"):
            for target in ("/livez", SMALL):
                with connected_from(address, server.port) as connection:
                    assert connection.ask(spelled(target)).status == OK

        assert of_another.ask(spelled(SMALL)).status == OK
        # A connection beyond the limit is closed after an answer.
        assert of_another.ask(spelled(SMALL)).header("connection") is None
        assert server.count("posref_connections") <= 4096 + 256
