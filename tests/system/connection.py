"""A client connection with raw requests and exact answers."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import BinaryIO

_PATIENCE_SECONDS = 60.0
_BLOCK_BYTES = 2**20


@dataclass(frozen=True)
class Answer:
    """A complete answer.

    Attributes:
        status: the status line.
        headers: lower-case names and values in the order of arrival.
        body: without the framing.
    """

    status: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)

    def lasting(self) -> list[tuple[str, str]]:
        """Return the headers without Date and X-Request-Id, sorted."""
        own = {"date", "x-request-id"}
        return sorted(header for header in self.headers if header[0] not in own)


class Connection:
    """A client connection."""

    def __init__(self, connected: socket.socket, file: BinaryIO) -> None:
        self._socket = connected
        self._file = file

    def send(self, *requests: bytes) -> None:
        """Send requests together without waiting for an answer."""
        self._socket.sendall(b"".join(requests))

    def ask(self, request: bytes) -> Answer:
        self.send(request)
        return self.answer()

    def answer(self) -> Answer:
        """Read the next answer."""
        head = self.head()
        if head.header("transfer-encoding") == "chunked":
            return replace(head, body=b"".join(self._chunks()))
        length = int(head.header("content-length") or 0)
        body = self._file.read(length)
        assert len(body) == length, f"{len(body)} bytes of {length} came"
        return replace(head, body=body)

    def head(self) -> Answer:
        """Read the next answer of a request whose answer has no body."""
        return Answer(self._line(), list(self._headers()), b"")

    def received(self, length: int) -> int:
        """Return how many of so many body bytes arrive, without keeping them."""
        left = length
        while left and (block := self._file.read(min(left, _BLOCK_BYTES))):
            left -= len(block)
        return length - left

    def is_closed(self) -> bool:
        """Wait until the server closes the connection; further bytes are an error."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def _line(self) -> str:
        line = self._file.readline()
        assert line.endswith(b"\r\n"), line
        return line[:-2].decode("latin-1")

    def _headers(self) -> Iterator[tuple[str, str]]:
        while line := self._line():
            name, _, value = line.partition(":")
            yield name.lower(), value.strip()

    def _chunks(self) -> Iterator[bytes]:
        while length := int(self._line(), 16):
            yield self._file.read(length)
            assert self._line() == ""
        assert self._line() == ""


@contextmanager
def connected(port: int) -> Iterator[Connection]:
    """Connect to a port of this machine, with a timeout of a minute."""
    with (
        socket.create_connection(("127.0.0.1", port), _PATIENCE_SECONDS) as opened,
        opened.makefile("rb") as file,
    ):
        yield Connection(opened, file)


def spelled(target: str, *headers: str, method: str = "GET", version: str = "1.1") -> bytes:
    """Return the bytes of a request without a body."""
    lines = [f"{method} {target} HTTP/{version}", "Host: posref.test", *headers, "", ""]
    return "\r\n".join(lines).encode()
