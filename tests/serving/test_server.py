"""Signals: a server says that it is about to end before it does, and ends with what is running."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest

from service.app import create_app
from service.serving.listening import listen
from service.serving.server import Server
from service.settings import default_settings
from tests.serving.connections import until

ENCODING = "/encoding.npy?seq_len=4&d_model=4"
FOR_EVER = 3600


class Serving:
    """A server that serves in this loop, and a client of it."""

    def __init__(
        self, server: Server, running: asyncio.Task[None], http: httpx.AsyncClient
    ) -> None:
        self.server = server
        self.running = running
        self.http = http

    async def has_ended(self) -> bool:
        async with asyncio.timeout(30):
            await self.running
        return True


@asynccontextmanager
async def serving(line: socket.socket | None = None, **settings: Any) -> AsyncIterator[Serving]:
    chosen = default_settings().model_copy(update={"port": 0, **settings})
    listeners = listen(chosen)
    server = Server(create_app(chosen), chosen, line)
    running = asyncio.create_task(server.serve(listeners))
    host, port = listeners[0].getsockname()
    try:
        await until(lambda: server.started)
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False) as http:
            yield Serving(server, running, http)
    finally:
        server.force_exit = server.should_exit = True
        await asyncio.wait([running])


def run(
    scenario: Callable[[Serving], Awaitable[None]],
    line: socket.socket | None = None,
    **settings: Any,
) -> None:
    async def whole() -> None:
        async with serving(line, **settings) as served:
            await scenario(served)

    asyncio.run(whole())


def test_told_to_end_it_says_so_and_goes_on_for_a_while() -> None:
    async def scenario(served: Serving) -> None:
        assert (await served.http.get(ENCODING)).headers.get("Connection") is None
        signal.raise_signal(signal.SIGTERM)

        ready = await served.http.get("/readyz")
        answer = await served.http.get(ENCODING)

        assert (ready.status_code, answer.status_code) == (503, 200)
        assert ready.headers["Connection"] == answer.headers["Connection"] == "close"
        assert await served.has_ended()

    run(scenario, drain_seconds=1)


def test_when_the_while_is_over_nothing_is_taken_any_more() -> None:
    async def scenario(served: Serving) -> None:
        signal.raise_signal(signal.SIGTERM)
        assert await served.has_ended()

        with pytest.raises(httpx.ConnectError):
            await served.http.get(ENCODING)

    run(scenario, drain_seconds=0)


@pytest.mark.parametrize("signals", [[signal.SIGTERM] * 2, [signal.SIGINT]])
def test_who_is_in_a_hurry_need_not_wait(signals: list[signal.Signals]) -> None:
    async def scenario(served: Serving) -> None:
        for each in signals:
            signal.raise_signal(each)

        assert await served.has_ended()

    run(scenario, drain_seconds=FOR_EVER)


def test_a_third_time_even_what_is_running_is_left() -> None:
    async def scenario(served: Serving) -> None:
        endless = f"/encoding.npy?seq_len={2**28}&d_model=512"
        async with served.http.stream("GET", endless) as answer:
            assert answer.status_code == 200
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)

            assert await served.has_ended()

    run(scenario, drain_seconds=FOR_EVER, shutdown_seconds=FOR_EVER)


def test_the_signals_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def scenario(served: Serving) -> None:
        assert signal.getsignal(signal.SIGTERM) != before
        signal.raise_signal(signal.SIGTERM)
        assert await served.has_ended()

        assert signal.getsignal(signal.SIGTERM) == before

    run(scenario, drain_seconds=0)


def test_it_ends_when_whoever_started_it_is_gone() -> None:
    ours, its = socket.socketpair()

    async def scenario(served: Serving) -> None:
        ours.settimeout(10)
        assert await asyncio.to_thread(ours.recv, 1) == b"."
        ours.close()

        assert await served.has_ended()

    with its:
        run(scenario, its, drain_seconds=0)


def test_connections_are_held_to_their_limits_meanwhile() -> None:
    async def scenario(served: Serving) -> None:
        target = served.http.base_url
        reader, writer = await asyncio.open_connection(target.host, target.port)
        writer.write(b"GET / HTTP/1.1\r\nX-Slow: ")

        head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 30)

        assert head.startswith(b"HTTP/1.1 408 ")
        writer.close()

    run(scenario, header_seconds=1)


def test_whoever_started_it_may_be_stopped_for_a_while() -> None:
    ours, its = socket.socketpair()
    its.setblocking(False)
    with suppress(BlockingIOError):
        while its.send(b"." * 4096):
            continue

    async def scenario(served: Serving) -> None:
        served.server._watch()

        assert (await served.http.get("/readyz")).status_code == httpx.codes.OK

    with ours, its:
        run(scenario, its)
