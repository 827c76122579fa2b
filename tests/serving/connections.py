"""A client connection to a protocol in this event loop, and access to its server side."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from service.app import create_app
from service.delivery.dispatch import STATE, Delivery
from service.delivery.telemetry.log import LineWriter
from service.serving.connections import LimitedProtocol
from service.serving.fast_path import CachedResponseProtocol
from service.settings import default_settings

NPY = "/encoding.npy?seq_len=4&d_model=4"
ENDLESS = f"/encoding.npy?seq_len={2**28}&d_model=512"
PLAIN = f"GET {NPY} HTTP/1.1\r\nHost: x\r\n\r\n"
PATHS = (True, False)


@dataclass
class Connection:
    """A connection of a client, and the delivery and state of its server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    delivery: Delivery
    state: ServerState
    others: list["Connection"] = field(default_factory=list)
    request_ids: list[str] = field(default_factory=list)

    async def answer(self, request: str = "") -> tuple[str, dict[str, str], bytes]:
        """Send a request, if any; return status line, headers without the request id, and body."""
        self.writer.write(request.encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = head.strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        self.request_ids.append(headers.pop("x-request-id"))
        length = 0 if " 304 " in status else int(headers["content-length"])
        return status, headers, await self.reader.readexactly(length)

    async def other(self, address: str = "127.0.0.1") -> "Connection":
        """Connect once more, from an address."""
        host, port = self.writer.get_extra_info("peername")
        reader, writer = await asyncio.open_connection(host, port, local_addr=(address, 0))
        self.others.append(Connection(reader, writer, self.delivery, self.state))
        return self.others[-1]

    async def is_closed(self) -> bool:
        """Wait for the server to close; return whether it sends nothing before."""
        try:
            return await asyncio.wait_for(self.reader.read(), 10) == b""
        except ConnectionResetError:
            return True

    async def protocol(self) -> LimitedProtocol:
        """Return the protocol of the only connection, once the server has accepted it."""
        await until(lambda: bool(self.state.connections))
        (protocol,) = self.state.connections
        assert isinstance(protocol, LimitedProtocol)
        return protocol

    async def all_requests(self) -> None:
        """Wait until the application has ended all requests."""
        async with asyncio.timeout(30):
            await asyncio.gather(*self.state.tasks)

    @property
    def cached_answers(self) -> int:
        """The number of whole answers from the cache."""
        return sum(
            tally.number for labels, tally in self.delivery.tallies.items() if "kept" in labels
        )


async def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until a condition holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the condition has no event.
            await asyncio.sleep(0.001)


@asynccontextmanager
async def connected(
    log_writer: LineWriter | None = None, **settings: Any
) -> AsyncIterator[Connection]:
    """Connect to an application with the default settings and these, and a writer of its log."""
    app = create_app(default_settings().model_copy(update=settings), writer=log_writer)
    delivery: Delivery = app.state.delivery
    config = uvicorn.Config(
        app,
        access_log=False,
        lifespan="off",
        log_config=None,
        ws="none",
        proxy_headers=False,
        timeout_keep_alive=delivery.settings.keep_alive_seconds,
    )
    config.load()
    state, shared = ServerState(), {STATE: delivery}
    state.default_headers = [(b"date", b"today")]
    server = await asyncio.get_running_loop().create_server(
        lambda: CachedResponseProtocol(config, state, shared), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    connection = Connection(reader, writer, delivery, state)
    try:
        yield connection
    finally:
        for each in (connection, *connection.others):
            each.writer.close()
        for protocol in list(state.connections):
            protocol.transport.abort()
        server.close()
        await asyncio.sleep(0)
        await asyncio.gather(*state.tasks, return_exceptions=True)
        delivery.scheduler.close()


def with_opened(
    opened: Callable[[], AbstractAsyncContextManager[Any]], name: str
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Return a decorator that runs an async test in an event loop of its own.

    Args:
        opened: the context manager whose value the test gets as an argument.
        name: the name of that argument.
    """

    def decorate(scenario: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        async def whole(arguments: dict[str, Any]) -> None:
            async with opened() as value, asyncio.timeout(60):
                await scenario(**{name: value}, **arguments)

        @wraps(scenario)
        def test(**arguments: Any) -> None:
            asyncio.run(whole(arguments))

        parameters = signature(scenario).parameters
        # pytest takes the other arguments for fixtures and parameters.
        others = [parameter for each, parameter in parameters.items() if each != name]
        test.__signature__ = Signature(others)  # type: ignore[attr-defined]
        return test

    return decorate


def on_connection(**settings: Any) -> Callable[[Callable[..., Awaitable[None]]], Any]:
    """Run an async test on a connection to a new application with these settings."""
    return with_opened(partial(connected, **settings), "connection")


def on_both_paths(**settings: Any) -> Callable[[Callable[..., Awaitable[None]]], Any]:
    """Run an async test with the fast path and without it."""

    def decorate(scenario: Callable[..., Awaitable[None]]) -> Any:
        tests = {each: on_connection(fast_path=each, **settings)(scenario) for each in PATHS}

        @wraps(tests[True])
        def test(is_fast: bool, **arguments: Any) -> None:
            tests[is_fast](**arguments)

        parameters = signature(tests[True]).parameters.values()
        added = Parameter("is_fast", Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = Signature([added, *parameters])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("is_fast", PATHS, ids=["fast path", "application"])(test)

    return decorate
