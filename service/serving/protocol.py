"""The protocol of a connection, as uvicorn's, and its transport.

The transport lets other threads run while it writes a long block.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from types import SimpleNamespace
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.delivery.clients import PIPELINED
from service.delivery.streams import STREAM, UNSENT_BYTES, PieceWriter, Stream
from service.formats.format import Block

_LONG_BYTES = 64 * 1024

# The most bytes of a stream that the transport holds: once they are written, it wakes the stream.
_WAKING_BYTES = 64 * 1024
_CHUNK_BYTES = len(b"%x\r\n\r\n" % _WAKING_BYTES) + _WAKING_BYTES

# How long a stream keeps what is computed while its client does not read.
_KEPT_SECONDS = 0.05

# How long the server waits before it closes a connection whose client is still sending.
_LINGER_SECONDS = 5.0


class FreeingTransport:
    """A transport that releases the interpreter lock while it copies a long block to the kernel.

    uvloop's own transport holds the lock.

    Where the client may still be sending, it first closes its own direction only, and the
    connection after a while: a kernel that receives bytes on a closed connection sends a reset,
    which deletes the response that the client has not read.

    Args:
        transport: the transport of a connection without TLS.
        has_unread: returns whether the client may still send bytes that the server has not read.

    Attributes:
        is_lingering: whether its own direction is closed; received bytes are not parsed.
    """

    def __init__(self, transport: asyncio.Transport, has_unread: Callable[[], bool]) -> None:
        self.is_lingering = False
        self._has_unread = has_unread
        self._transport = transport
        # Called for every response, where __getattr__ takes measurable time.
        self.is_closing = transport.is_closing
        self._connection: socket.socket = transport.get_extra_info("socket")
        self._socket = self._connection.fileno()
        self._writer: DirectWriter | None = None
        self._unsent_bytes = 0
        self.limit_unsent(UNSENT_BYTES)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def limit_unsent(self, most_bytes: int) -> None:
        """Let the kernel buffer at most this many bytes that it has not sent."""
        if most_bytes != self._unsent_bytes:
            self._unsent_bytes = most_bytes
            # Not every system, and no Unix socket, has this option.
            with suppress(AttributeError, OSError):
                self._connection.setsockopt(
                    socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, most_bytes
                )

    def write(self, data: Block) -> None:
        """Write what the kernel accepts at once; the transport writes the rest."""
        if len(data) > _LONG_BYTES:
            data = memoryview(data)[self.write_now(data) :]
        self._transport.write(data)

    def write_now(self, data: Block) -> int:
        """Write what the kernel accepts at once; return how many bytes."""
        if not (self.is_closing() or self.get_write_buffer_size()):
            return _write_until_full(self._socket, data)
        return 0

    @contextmanager
    def lent(self, *, is_chunked: bool) -> Iterator["DirectWriter | None"]:
        """Lend the connection to a thread, which alone writes to it during the context.

        It is not lent while the transport has bytes to write.
        """
        if not (self.is_closing() or self.get_write_buffer_size()):
            self._writer = DirectWriter(self._socket, is_chunked=is_chunked)
        try:
            yield self._writer
        finally:
            self.take_back()

    def take_back(self) -> None:
        """Keep the thread from writing to the connection, which is lent no longer.

        This comes before the connection is closed: the system may then give the number of its
        descriptor to another one, which would receive what the thread writes.
        """
        if self._writer is not None:
            self._writer.end()
            self._writer = None

    def close(self) -> None:
        """Close the connection: at once, or later if the client may still be sending."""
        if self.is_lingering or self._transport.is_closing() or not self._has_unread():
            self._transport.close()
            return
        self.is_lingering = True
        self.is_closing = lambda: True
        self._transport.resume_reading()
        self._transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._transport.close)


class DirectWriter(PieceWriter):
    """A writer to the descriptor of a connection, which it does not close.

    Attributes:
        begun_chunk: the rest of a chunk that has begun, for the transport to write.
    """

    def __init__(self, descriptor: int, *, is_chunked: bool) -> None:
        super().__init__()
        self.begun_chunk: Block = b""
        self._descriptor = descriptor
        self._is_chunked = is_chunked
        self._is_ended = False
        self._lock = Lock()

    def write(self, piece: Block) -> None:
        data = _chunked(piece) if self._is_chunked else piece
        with self._lock:
            count = 0 if self._is_ended else _write_until_full(self._descriptor, data)
        self.is_full = count < len(data)
        if self._is_chunked:
            chunks = -(-count // _CHUNK_BYTES)
            self.begun_chunk = data[count : chunks * _CHUNK_BYTES]
            count = min(chunks * _WAKING_BYTES, len(piece))
        self.taken_bytes += count
        self.rest = memoryview(piece)[count:]

    def end(self) -> None:
        """Wait for a write that has begun, which never waits itself, and allow no other."""
        with self._lock:
            self._is_ended = True


def _write_until_full(descriptor: int, data: Block) -> int:
    """Write what a socket accepts; return how many bytes.

    After a short write it often accepts more: it is full when it accepts little.
    """
    count = taken = 0
    # If the connection is closed, the transport handles it.
    with suppress(OSError):
        while count < len(data) and (not count or taken >= _LONG_BYTES):
            taken = os.write(descriptor, memoryview(data)[count:])
            count += taken
    return count


def _chunked(piece: Block) -> bytes:
    """Return a piece as chunks, each of _WAKING_BYTES but the last one."""
    framed: list[Block] = []
    for start in range(0, len(piece), _WAKING_BYTES):
        chunk = memoryview(piece)[start : start + _WAKING_BYTES]
        framed += (b"%x\r\n" % len(chunk), chunk, b"\r\n")
    return b"".join(framed)


# The parser takes no body after an offer to upgrade, which RFC 9110 lets a server ignore.
_OFFER = frozenset({b"upgrade", b"http2-settings"})

# Replaces uvicorn's cycle object for a request that was answered without the application.
_ANSWERED: Any = SimpleNamespace(
    response_complete=True, more_body=False, message_event=SimpleNamespace(set=lambda: None)
)


class HeldFlow(FlowControl):
    """uvicorn's control of a connection; reading stays paused while it is held."""

    _is_held = False

    def hold(self) -> None:
        """Read nothing until ``release``."""
        if not (self._is_held or self.read_paused):
            self._transport.pause_reading()
        self._is_held = True

    def release(self) -> None:
        """Let reading go on, unless it is paused."""
        if self._is_held and not self.read_paused:
            self._transport.resume_reading()
        self._is_held = False

    def pause_reading(self) -> None:
        """Pause reading, for a request that waits or whose body is not taken yet."""
        if not (self.read_paused or self._is_held):
            self._transport.pause_reading()
        self.read_paused = True

    def resume_reading(self) -> None:
        """Resume reading, once it is not held."""
        if self.read_paused and not self._is_held:
            self._transport.resume_reading()
        self.read_paused = False


class UvicornProtocol(HttpToolsProtocol):
    """uvicorn's protocol; its scope is made for requests that reach the application only.

    uvicorn is pinned below 0.55 because this package relies on undocumented parts of 0.54:

    - attributes of ``HttpToolsProtocol``: ``parser``, ``transport``, ``flow`` (a ``FlowControl``:
      ``read_paused``, ``write_paused``, ``drain``, ``_transport``), ``cycle``, ``pipeline``,
      ``connections``, ``headers``, ``scope``, ``expect_100_continue``, ``client``, ``app_state``,
      ``server_state.default_headers``, ``timeout_keep_alive_task``;
    - its methods: ``on_message_begin`` (makes the scope), ``on_headers_complete`` (starts the
      application), ``on_response_complete`` (starts the next request or the keep-alive timer),
      ``_unset_keepalive_if_required``, ``_start_asgi_task``;
    - of ``RequestResponseCycle``: ``response_started``, ``response_complete``, ``more_body``,
      ``keep_alive``, ``disconnected``, ``message_event``, ``scope``, ``send``,
      ``chunked_encoding``, ``expected_content_length``, ``waiting_for_100_continue``.

    Only this class changes a cycle; subclasses call its methods and read the attributes above.

    Attributes:
        is_pipelined: whether a request that starts now came before the last response.
    """

    url = b""
    transport: Any
    flow: HeldFlow
    stream: Stream | None = None
    is_pipelined = False
    _running: RequestResponseCycle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin a connection with a FreeingTransport."""
        super().connection_made(transport)
        self.flow = HeldFlow(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the running request; uvicorn only cancels the one that came last.

        uvloop and asyncio close the descriptor after this.
        """
        self.transport.take_back()
        self.cancel_running()
        super().connection_lost(exc)

    def feed(self, data: bytes) -> None:
        """Parse bytes; read a head that offers an upgrade once more, without the offer."""
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as end:
                data = self._without_offer() + data[end.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            else:
                return

    def _without_offer(self) -> bytes:
        """Return the head that was read last, without its offer to upgrade."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%s: %s\r\n" % header for header in self.headers if header[0] not in _OFFER]
        return b"".join([b"%s %s HTTP/%s\r\n" % (method, self.url, version), *lines, b"\r\n"])

    def on_message_begin(self) -> None:
        """Begin a request without a scope."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_message_complete(self) -> None:
        """Mark the request body as complete and wake the application."""
        if not self.parser.should_upgrade():
            # Trailers may end the connection; the parser then reads nothing more.
            if not self.parser.should_keep_alive():
                if self.cycle.response_complete:
                    self.transport.close()
                else:
                    self.cycle.keep_alive = False
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def start_application(self, *, keep_alive: bool) -> None:
        """Create the scope, which uvicorn does at the first byte, and start the application."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.headers = url, headers
        self.expect_100_continue = expects and self.parser.get_http_version() != "1.0"
        self.scope["headers"] = headers
        super().on_headers_complete()
        # Trailers are not headers of the request.
        self.headers = []
        if not keep_alive:
            self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        names = (STREAM, PIPELINED) if self.is_pipelined else (STREAM,)
        cycle.scope["extensions"] = {name: {} for name in names}

        async def send(message: Any) -> None:
            if message["type"] == STREAM:
                await self._send_stream(cycle, message["stream"])
            else:
                if cycle.waiting_for_100_continue and cycle.more_body:
                    # The client may leave out the body, and send its next request.
                    cycle.keep_alive = False
                await cycle.send(message)

        async def with_streams(scope: Any, receive: Any, _send: Any) -> None:
            await app(scope, receive, send)

        super()._start_asgi_task(cycle, with_streams)

    async def _send_stream(self, cycle: RequestResponseCycle, stream: Stream) -> None:
        """Send a stream as fast as the client reads it, until its end or a disconnect."""
        self.stream = stream
        try:
            if not self.transport.is_closing():
                # The transport reports every byte that it could not write at once.
                self.transport.set_write_buffer_limits(1, 0)
            while not cycle.disconnected:
                if self.flow.write_paused:
                    await self._wait_until_written(stream)
                    continue
                self.transport.limit_unsent(stream.unsent_bytes)
                with self.transport.lent(is_chunked=bool(cycle.chunked_encoding)) as writer:
                    piece = await stream.piece(writer)
                if piece is None or cycle.disconnected:
                    break
                if writer and writer.begun_chunk:
                    self.transport.write(writer.begun_chunk)
                elif piece:
                    self._write_piece(piece, stream, is_chunked=bool(cycle.chunked_encoding))
                # What the client does not read now is dropped while it waits.
                del piece, writer
        finally:
            self.stream = None
            if not self.transport.is_closing():
                self.transport.set_write_buffer_limits()
                self.transport.limit_unsent(UNSENT_BYTES)
        if stream.is_complete:
            if not cycle.chunked_encoding:
                cycle.expected_content_length -= stream.sent_bytes
            await cycle.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _wait_until_written(self, stream: Stream) -> None:
        """Wait until the transport has written all bytes, and drop the others after a while."""
        forgetting = self.loop.call_later(_KEPT_SECONDS, stream.forget)
        try:
            await self.flow.drain()
        finally:
            forgetting.cancel()

    def _write_piece(self, piece: Block, stream: Stream, *, is_chunked: bool) -> None:
        """Write what the kernel accepts, and a little more if the stream can forget the rest."""
        data = _chunked(piece) if is_chunked else piece
        at_once = self.transport.write_now(data)
        count = taken_bytes = len(data)
        if stream.can_forget and is_chunked:
            # A chunk that has begun is sent to its end.
            chunks = at_once // _CHUNK_BYTES + 1
            count, taken_bytes = min(chunks * _CHUNK_BYTES, len(data)), chunks * _WAKING_BYTES
        elif stream.can_forget:
            count = taken_bytes = min(at_once + _WAKING_BYTES, len(data))
        if at_once < count:
            # A copy: a view would keep the whole piece.
            self.transport.write(bytes(memoryview(data)[at_once:count]))
            if not self.flow.write_paused:
                at_once = count
        stream.take(min(taken_bytes, len(piece)), at_once)

    def answer_without_application(self) -> None:
        """Mark the request as answered; ``on_response_complete`` follows."""
        self.cycle = _ANSWERED

    def on_response_complete(self) -> None:
        """Start the next request; an idle connection keeps nothing of the last one."""
        if self.cycle is not _ANSWERED and not (self.pipeline or self.cycle.more_body):
            self.cycle, self._running, self.scope = _ANSWERED, None, None  # type: ignore[assignment]
        super().on_response_complete()

    def cancel_running(self) -> None:
        """Notify the running request that its client has disconnected."""
        for cycle in (self._running, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def is_idle(self) -> bool:
        """Return whether every received request is answered."""
        return not self.pipeline and (self.cycle is None or self.cycle.response_complete)

    def has_unread_body(self) -> bool:
        """Return whether the client may still send a body."""
        return self.cycle is not None and self.cycle.more_body

    def may_answer(self) -> bool:
        """Return whether an error response can be written: no other is queued or in progress."""
        cycle = self.cycle
        if self.pipeline or cycle is None:
            return not self.pipeline
        return not (cycle.more_body if cycle.response_complete else cycle.response_started)

    def can_write_now(self, transport: asyncio.Transport) -> bool:
        """Return whether a response may be written at once."""
        return self.is_idle() and not (self.flow.write_paused or transport.is_closing())
