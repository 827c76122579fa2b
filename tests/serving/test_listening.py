"""Sockets to listen on, and room for connections."""

import asyncio
import resource
import socket
from contextlib import ExitStack, closing

import pytest
import uvloop

from service.serving.listening import CannotListen, addresses, allow_files, listen, repeated
from service.settings import default_settings


def test_port_0_picks_one_and_the_address_says_which() -> None:
    (listener,) = listen(default_settings().model_copy(update={"port": 0}))

    with closing(listener):
        port = listener.getsockname()[1]
        assert addresses([listener]) == [f"http://127.0.0.1:{port}"]
        with socket.create_connection(("127.0.0.1", port)):
            pass


def test_an_address_of_version_6_is_spelled_in_brackets() -> None:
    (listener,) = listen(default_settings().model_copy(update={"host": "::1", "port": 0}))

    with closing(listener):
        assert addresses([listener])[0].startswith("http://[::1]:")


def test_an_address_that_is_taken_is_named_with_its_settings() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        settings = default_settings().model_copy(update={"port": port})

        with pytest.raises(CannotListen, match=rf"127.0.0.1 \(POSREF_HOST\), port {port}"):
            listen(settings)


def test_a_host_that_does_not_exist_is_named() -> None:
    settings = default_settings().model_copy(update={"host": "300.1.1.1"})

    with pytest.raises(CannotListen, match=r"300\.1\.1\.1"):
        listen(settings)


def test_room_is_made_for_as_many_connections_as_are_let_in() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        lacking = allow_files(default_settings())

        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(4608, hard)
        assert lacking == max(0, 4608 - hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_room_that_cannot_be_made_is_told() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = default_settings().model_copy(update={"max_connections": hard})

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert allow_files(wanted) == 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def taken_in_two_turns(listeners: list[socket.socket], waiting: int) -> int:
    """Let clients connect, and tell how many connections two turns of the event loop take."""
    taken: list[asyncio.BaseTransport] = []

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            taken.append(transport)

    loop, address = asyncio.get_running_loop(), listeners[0].getsockname()
    servers = [await loop.create_server(Protocol, sock=each) for each in listeners]
    with ExitStack() as clients:
        for _ in range(waiting):
            clients.enter_context(closing(socket.create_connection(address)))
        for _ in range(4):
            await asyncio.sleep(0)
        count = len(taken)
        for transport in taken:
            transport.close()
        for server in servers:
            server.close()
            await server.wait_closed()
    return count


def test_a_turn_of_the_event_loop_takes_several_connections() -> None:
    (listener,) = listen(default_settings().model_copy(update={"port": 0}))
    listeners = repeated([listener])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        count = runner.run(taken_in_two_turns(listeners, 40))
    for each in listeners:
        each.close()

    assert count > 10
