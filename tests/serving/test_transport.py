"""The transport for long blocks, and its connection lent to threads."""

import asyncio
import select
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httptools
import pytest
import uvloop

from service.delivery.streams import FIRST_BYTES
from service.formats.format import BLOCK_BYTES
from service.serving.protocol import DirectWriter, FreeingTransport
from tests.serving.connections import connected, until, with_opened

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


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_thread_that_writes_to_a_closed_connection_writes_to_no_other(
    run: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def scenario() -> None:
        async with connected() as connection:
            transport = (await connection.protocol()).transport
            with transport.lent(is_chunked=False) as writer:
                transport.abort()
                assert await connection.is_closed()
                opened = [each for _ in range(10) for each in socket.socketpair()]
                assert transport._socket in {each.fileno() for each in opened}

                await asyncio.to_thread(writer.write, b"of the closed connection")

            assert (writer.taken_bytes, writer.is_full) == (0, True)
            readable, _, _ = select.select(opened, [], [], 0)
            for each in opened:
                each.close()
            assert not readable

    run(scenario())


def test_the_connection_is_taken_back_after_a_write_that_has_begun() -> None:
    # A write to a blocking socket ends when all is read.
    near, far = socket.socketpair()
    writer = DirectWriter(near.fileno(), is_chunked=False)
    with ThreadPoolExecutor(2) as threads, near, far:
        writing = threads.submit(writer.write, LONG)
        received = far.recv(1)
        ending = threads.submit(writer.end)
        assert not wait([ending], timeout=0.1).done

        assert received + read(far, len(LONG) - 1) == LONG
        writing.result()
        ending.result()
        writer.write(b"more")
        assert (writer.taken_bytes, writer.rest) == (len(LONG), b"more")


@on_transport
async def test_the_kernel_buffers_as_much_unsent_as_allowed(ends: Ends) -> None:
    taken: list[int] = []
    for most_bytes in (FIRST_BYTES, BLOCK_BYTES):
        ends.transport.limit_unsent(most_bytes)
        taken.append(ends.transport.write_now(LONG))

    assert 0 < taken[0] < taken[1] < len(LONG)


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
async def test_nothing_is_written_to_a_connection_that_is_no_longer_lent(ends: Ends) -> None:
    with suppress(asyncio.CancelledError), ends.transport.lent(is_chunked=False) as writer:
        raise asyncio.CancelledError

    assert writer is not None
    writer.write(b"late")
    assert writer.taken_bytes == 0


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
