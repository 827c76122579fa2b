"""One ASGI exchange, message by message, with control over reading and disconnecting."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message


class Exchange:
    """Send a request in chunks, and receive the answer as fast as allowed.

    Attributes:
        scope: the ASGI scope, before the request is sent.
        messages: of the answer so far.
        is_answered: set with the first of them.
        may_send: clear it to stop reading.
    """

    def __init__(
        self,
        app: ASGIApp,
        method: str,
        url: str,
        chunks: Sequence[bytes] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        self.messages: list[Message] = []
        self.is_answered = asyncio.Event()
        self.may_send = asyncio.Event()
        self.may_send.set()
        self._app = app
        self._given: asyncio.Queue[Message] = asyncio.Queue()
        self.scope = _scope(method, url, headers or {})
        for chunk in chunks:
            self.give(chunk)

    def give(self, chunk: bytes, *, more: bool = True) -> None:
        """Send a part of the body."""
        self._given.put_nowait({"type": "http.request", "body": chunk, "more_body": more})

    def end(self) -> None:
        """End the body."""
        self.give(b"", more=False)

    def leave(self) -> None:
        """Disconnect."""
        self._given.put_nowait({"type": "http.disconnect"})

    async def run(self) -> "Exchange":
        """Run the application until it returns."""
        await self._app(self.scope, self._given.get, self._send)
        return self

    @property
    def status(self) -> int:
        """The status code of the answer; 0 before it."""
        return self.messages[0]["status"] if self.messages else 0

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer."""
        return {
            name.decode().lower(): value.decode() for name, value in self.messages[0]["headers"]
        }

    @property
    def body(self) -> bytes:
        """The body received so far."""
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    def json(self) -> Any:
        """Parse the body."""
        return json.loads(self.body)

    async def _send(self, message: Message) -> None:
        self.is_answered.set()
        await self.may_send.wait()
        self.messages.append(message)


def _scope(method: str, url: str, headers: dict[str, str]) -> dict[str, Any]:
    split = urlsplit(url)
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": split.path,
        "raw_path": split.path.encode(),
        "query_string": split.query.encode("utf-8", "surrogateescape"),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("posref.test", 80),
        "state": {},
    }
