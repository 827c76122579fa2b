"""How the bytes of a connection go to the system: long blocks, and how many wait there."""

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any

from service.formats.format import Block

_LONG_BYTES = 64 * 1024

# What the system keeps for a connection beyond what is under way: more of it is colder memory for
# no gain. What is under way may be as much as the line holds.
_UNSENT_BYTES = 128 * 1024


def tuned(transport: asyncio.Transport) -> Any:
    """Set a connection up for long answers; only one without TLS is written to past its transport.

    Returns:
        What stands for the transport.
    """
    _keep_little_unsent(transport.get_extra_info("socket"))
    is_plain = transport.get_extra_info("sslcontext") is None
    return FreeingTransport(transport) if is_plain else transport


class FreeingTransport:
    """A transport that lets other threads run while a long block goes to the system.

    uvloop's own holds the interpreter as long as the system copies.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
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

    def _is_clear(self) -> bool:
        return not self.is_closing() and self._transport.get_write_buffer_size() == 0

    def _written(self, data: Block) -> int:
        try:
            return os.write(self._socket, data)
        # Whether it is full or gone, the transport finds out by itself.
        except OSError:
            return 0


def _keep_little_unsent(connection: socket.socket) -> None:
    option: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, option, _UNSENT_BYTES)
