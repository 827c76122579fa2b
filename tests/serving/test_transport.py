"""The transport for long blocks, and its connection lent to threads."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import httptools
import pytest

from service.delivery.streams import FIRST_BYTES
from service.serving.protocol import DirectWriter, FreeingTransport
from tests.serving.connections import until, with_opened

# Longer than any kernel accepts at once.
LONG = bytes(range(256)) * 2**16


@dataclass(frozen=True)
class Ends:
    """A transport and the other end of its connection, which is not read."""

    transport: FreeingTransport
    far: socket.socket


@asynccontextmanager
async def both_ends() -> AsyncIterator[Ends]:
    loop = asyncio.get_running_loop()
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as far,
    ):
        near, _ = listener.accept()
        near.setblocking(False)
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, near)
        try:
            yield Ends(FreeingTransport(transport, lambda: False), far)
        finally:
            transport.abort()


on_transport = with_opened(both_ends, "ends")


def read(far: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        received += far.recv(2**20)
    return bytes(received)


@on_transport
async def test_bytes_that_the_kernel_does_not_accept_follow(ends: Ends) -> None:
    ends.transport.write(LONG)

    assert 0 < ends.transport.get_write_buffer_size() < len(LONG)
    assert await asyncio.to_thread(read, ends.far, len(LONG)) == LONG


@on_transport
async def test_a_long_block_follows_buffered_bytes(ends: Ends) -> None:
    ends.transport.write(LONG)
    sent_bytes = len(LONG) - ends.transport.get_write_buffer_size()
    # Now the kernel accepts more, before the event loop has sent the buffered bytes.
    received = read(ends.far, sent_bytes)
    ends.transport.write(LONG[::-1])

    rest = await asyncio.to_thread(read, ends.far, 2 * len(LONG) - len(received))
    assert received + rest == LONG + LONG[::-1]


@pytest.mark.parametrize("data", [b"short", LONG])
@on_transport
async def test_nothing_is_written_after_close(ends: Ends, data: bytes) -> None:
    ends.transport.close()
    ends.transport.write(data)

    await asyncio.sleep(0)
    assert await asyncio.to_thread(ends.far.recv, 1) == b""


@on_transport
async def test_writing_after_a_reset_does_not_raise_and_closes_the_transport(ends: Ends) -> None:
    ends.far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    ends.far.close()
    while not ends.transport.is_closing():
        ends.transport.write(LONG)
        await asyncio.sleep(0.01)


@on_transport
async def test_a_thread_that_writes_to_a_closed_connection_writes_to_no_other(ends: Ends) -> None:
    descriptor = ends.transport._socket
    with ends.transport.lent(is_chunked=False) as writer:
        assert writer is not None
        ends.transport.abort()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            opened = []
            for _ in range(20):
                await asyncio.sleep(0.01)
                opened.append(socket.create_connection(listener.getsockname()))
                opened.append(listener.accept()[0])
            assert descriptor in {each.fileno() for each in opened}

            await asyncio.to_thread(writer.write, b"of the closed connection")

            for each in opened:
                each.setblocking(False)
                with suppress(BlockingIOError):
                    assert not each.recv(1)
                each.close()
    assert ends.far.recv(100) in {b"of the closed connection", b""}


@on_transport
async def test_a_connection_is_not_lent_while_the_transport_writes(ends: Ends) -> None:
    with ends.transport.lent(is_chunked=False) as writer:
        assert writer is not None
    ends.transport.write(LONG)

    with ends.transport.lent(is_chunked=False) as writer:
        assert writer is None


@on_transport
async def test_a_closed_connection_is_not_lent(ends: Ends) -> None:
    ends.transport.close()

    with ends.transport.lent(is_chunked=False) as writer:
        assert writer is None


@on_transport
async def test_a_connection_is_not_lent_where_no_descriptor_is_free(ends: Ends) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as probe:
        lowest = probe.fileno()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
        with ends.transport.lent(is_chunked=False) as writer:
            assert writer is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@on_transport
async def test_a_lent_connection_leaves_no_descriptor_open(ends: Ends) -> None:
    with socket.socket() as probe:
        lowest = probe.fileno()
    with suppress(asyncio.CancelledError), ends.transport.lent(is_chunked=False):
        raise asyncio.CancelledError

    with socket.socket() as probe:
        assert probe.fileno() == lowest


class Answer:
    """The body of an answer, without the frames of its chunks."""

    def __init__(self) -> None:
        self.body = b""

    def on_body(self, part: bytes) -> None:
        self.body += part


@pytest.mark.parametrize("read_bytes", [20_000, 2**20])
@pytest.mark.parametrize("is_chunked", [False, True])
@on_transport
async def test_what_a_full_connection_has_not_taken_follows(
    ends: Ends, read_bytes: int, *, is_chunked: bool
) -> None:
    kind = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % len(LONG)
    answer, left = Answer(), memoryview(LONG)
    parser = httptools.HttpResponseParser(answer)
    ends.transport.write(b"HTTP/1.1 200 OK\r\n%s\r\n\r\n" % kind)
    await until(lambda: not ends.transport.get_write_buffer_size())
    while left:
        with ends.transport.lent(is_chunked=is_chunked) as writer:
            if isinstance(writer, DirectWriter):
                # An odd length, so that some pieces end with a short chunk.
                piece = left[: 5 * FIRST_BYTES + 1]
                await asyncio.to_thread(writer.write, piece)
                assert writer.rest == piece[writer.taken_bytes :]
                assert writer.is_full or not writer.rest
                left = left[writer.taken_bytes :]
                ends.transport.write(writer.begun_chunk)
        parser.feed_data(await asyncio.to_thread(ends.far.recv, read_bytes))
    if is_chunked:
        ends.transport.write(b"0\r\n\r\n")
    while len(answer.body) < len(LONG):
        parser.feed_data(await asyncio.to_thread(ends.far.recv, 2**20))

    assert answer.body == LONG
