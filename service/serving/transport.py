"""How the bytes of a connection go to the system: long blocks, and how many wait there."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from service.formats.format import Block

_LONG_BYTES = 64 * 1024

# What the system keeps for a connection beyond what is under way: more of it is colder memory for
# no gain. What is under way may be as much as the line holds.
_UNSENT_BYTES = 128 * 1024


# How long a client that is still sending may take to notice that it has been answered.
_LINGER_SECONDS = 5.0


def tuned(transport: asyncio.Transport, has_unread: Callable[[], bool]) -> Any:
    """Set a connection up for long answers; only one without TLS is written to past its transport.

    Args:
        transport: that of the connection.
        has_unread: tells whether the client may be sending yet what nobody reads.

    Returns:
        What stands for the transport.
    """
    _keep_little_unsent(transport.get_extra_info("socket"))
    is_plain = transport.get_extra_info("sslcontext") is None
    return FreeingTransport(transport, has_unread) if is_plain else transport


class FreeingTransport:
    """A transport that lets other threads run while a long block goes to the system.

    uvloop's own holds the interpreter as long as the system copies.

    It closes in two steps where the client may still be sending: a system that is sent more on a
    closed connection answers with a reset, which takes from the client the answer it has not read.

    Attributes:
        is_lingering: whether the first of them has been taken; nothing is read any more.
    """

    def __init__(self, transport: asyncio.Transport, has_unread: Callable[[], bool]) -> None:
        self.is_lingering = False
        self._has_unread = has_unread
        self._transport = transport
        # Asked at every answer, where the way through __getattr__ shows.
        self.is_closing = transport.is_closing
        self._socket: int = transport.get_extra_info("socket").fileno()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: Block) -> None:
        """Write what the system takes at once, and leave the rest to the transport."""
        if len(data) > _LONG_BYTES and self._is_clear():
            data = memoryview(data)[self._written(data) :]
        self._transport.write(data)

    def close(self) -> None:
        """Close, at once where the client has been heard out."""
        if self.is_lingering or self._transport.is_closing() or not self._has_unread():
            self._transport.close()
            return
        self.is_lingering = True
        self.is_closing = _yes
        self._transport.resume_reading()
        self._transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._transport.close)

    def _is_clear(self) -> bool:
        return not self.is_closing() and self._transport.get_write_buffer_size() == 0

    def _written(self, data: Block) -> int:
        try:
            return os.write(self._socket, data)
        # Whether it is full or gone, the transport finds out by itself.
        except OSError:
            return 0


def _yes() -> bool:
    return True


def _keep_little_unsent(connection: socket.socket) -> None:
    option: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, option, _UNSENT_BYTES)
