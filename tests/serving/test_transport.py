"""What stands for a connection's transport: the same bytes in the same order, sooner."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ssl import create_default_context

import pytest

from service.serving.transport import FreeingTransport, tuned

# Longer than any system takes at once.
LONG = bytes(range(256)) * 2**16

Scenario = Callable[[FreeingTransport, socket.socket], Awaitable[None]]


def run(scenario: Scenario) -> None:
    """Run with a tuned transport and the other end of its connection, which nobody reads."""

    async def whole() -> None:
        loop = asyncio.get_running_loop()
        listener = socket.create_server(("127.0.0.1", 0))
        far = socket.create_connection(listener.getsockname())
        near, _ = listener.accept()
        near.setblocking(False)
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, near)
        try:
            await scenario(tuned(transport, lambda: False), far)
        finally:
            transport.abort()
            for opened in (far, listener):
                opened.close()

    asyncio.run(whole())


def read(far: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        received += far.recv(2**20)
    return bytes(received)


def test_what_the_system_does_not_take_at_once_comes_after_it() -> None:
    async def scenario(transport: FreeingTransport, far: socket.socket) -> None:
        transport.write(LONG)

        assert 0 < transport.get_write_buffer_size() < len(LONG)
        assert await asyncio.to_thread(read, far, len(LONG)) == LONG

    run(scenario)


def test_a_long_block_does_not_pass_what_waits() -> None:
    async def scenario(transport: FreeingTransport, far: socket.socket) -> None:
        transport.write(LONG)
        taken_bytes = len(LONG) - transport.get_write_buffer_size()
        # Now the system would take more at once, while the loop has not run to send what waits.
        received = read(far, taken_bytes)
        transport.write(LONG[::-1])

        rest = await asyncio.to_thread(read, far, 2 * len(LONG) - len(received))
        assert received + rest == LONG + LONG[::-1]

    run(scenario)


@pytest.mark.parametrize("data", [b"short", LONG])
def test_nothing_is_written_once_it_closes(data: bytes) -> None:
    async def scenario(transport: FreeingTransport, far: socket.socket) -> None:
        transport.close()
        transport.write(data)

        await asyncio.sleep(0)
        assert await asyncio.to_thread(far.recv, 1) == b""

    run(scenario)


def test_a_client_that_has_gone_is_the_transports_to_find() -> None:
    async def scenario(transport: FreeingTransport, far: socket.socket) -> None:
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        far.close()
        while not transport.is_closing():
            transport.write(LONG)
            await asyncio.sleep(0.01)

    run(scenario)


class Encrypted(asyncio.Transport):
    def __init__(self, connection: socket.socket) -> None:
        super().__init__({"socket": connection, "sslcontext": create_default_context()})


def test_an_encrypted_connection_is_never_written_to_past_its_transport() -> None:
    with socket.socket() as connection:
        transport = Encrypted(connection)

        assert tuned(transport, lambda: False) is transport
