"""Signals and drain, exit codes, listeners and the limit on open files."""

import asyncio
import gc
import logging
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop

from service.app import create_app
from service.delivery.endpoints import Endpoint
from service.lazily import MadeOnDemand
from service.routes import ENDPOINTS
from service.serving.server import Server, duplicate_listeners
from service.serving.start import (
    CannotListen,
    fit_connections,
    listen,
    raise_file_limit,
    urls_of,
)
from service.settings import MIB, default_settings
from tests.serving.connections import until, with_opened

ENCODING = "/encoding.npy?seq_len=4&d_model=4"
ENDLESS = f"/encoding.npy?seq_len={2**28}&d_model=512"
FOR_EVER = 3600


@dataclass(frozen=True)
class Serving:
    """A running server in this event loop, a client of it, and both ends of its channel."""

    server: Server
    running: asyncio.Task[None]
    http: httpx.AsyncClient
    channel: socket.socket
    supervisor_end: socket.socket

    async def has_ended(self) -> bool:
        async with asyncio.timeout(30):
            await self.running
        return True


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Serving]:
    chosen = default_settings().model_copy(update={"port": 0, **settings})
    listeners = listen(chosen)
    supervisor_end, channel = socket.socketpair()
    server = Server(create_app(chosen), chosen, channel)
    running = asyncio.create_task(server.serve(listeners))
    host, port = listeners[0].getsockname()
    try:
        await until(lambda: server.started)
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False) as http:
            yield Serving(server, running, http, channel, supervisor_end)
    finally:
        server.force_exit = server.should_exit = True
        await asyncio.wait([running])
        channel.close()
        supervisor_end.close()


def on_server(**settings: Any) -> Callable[[Callable[..., Awaitable[None]]], Any]:
    """Run an async test with a running server with these settings."""
    return with_opened(partial(serving, **settings), "served")


def test_server_that_gets_no_threads_says_so_and_does_not_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    settings = default_settings().model_copy(update={"port": 0})
    server = Server(create_app(settings), settings)
    monkeypatch.setattr(threading, "_start_new_thread", refuse)

    with ExitStack() as stack:
        asyncio.run(server.serve([stack.enter_context(each) for each in listen(settings)]))

    assert not server.started
    assert "can't start new thread (ulimit -u" in caplog.text


def test_server_imports_endpoints_before_requests_need_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoints = MadeOnDemand(ENDPOINTS, lambda path: ENDPOINTS[path])
    monkeypatch.setattr("service.serving.server.ENDPOINTS", endpoints)

    @on_server()
    async def imported(served: Serving) -> None:
        assert served.server.started
        await until(lambda: [*endpoints.made] == [*ENDPOINTS])

    imported()


def test_an_endpoint_that_cannot_be_imported_is_logged_and_the_others_are_imported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def made(path: str) -> Endpoint:
        if path == "/rope":
            raise ImportError("no such module")
        return ENDPOINTS[path]

    endpoints = MadeOnDemand(["/encoding", "/rope", "/model"], made)
    monkeypatch.setattr("service.serving.server.ENDPOINTS", endpoints)

    @on_server()
    async def imported(served: Serving) -> None:
        await served.server._importing

    imported()

    assert [*endpoints.made] == ["/encoding", "/model"]
    assert "the endpoint /rope cannot be imported" in caplog.text
    assert "no such module" in caplog.text


def test_garbage_of_imports_is_freed_before_what_is_left_is_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Circle:
        def __init__(self) -> None:
            self.itself = self

    def made(path: str) -> Endpoint:
        circles.append(weakref.ref(Circle()))
        return ENDPOINTS[path]

    circles: list[weakref.ref[Circle]] = []
    endpoints = MadeOnDemand(["/encoding"], made)
    monkeypatch.setattr("service.serving.server.ENDPOINTS", endpoints)

    @on_server()
    async def imported(served: Serving) -> None:
        # Otherwise one may come by chance.
        gc.disable()
        try:
            await served.server._importing
        finally:
            gc.enable()

    imported()

    assert [circle() for circle in circles] == [None]


def test_a_server_that_drains_imports_no_more_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    servers: list[Server] = []

    def made(path: str) -> Endpoint:
        servers[0].drain()
        return ENDPOINTS[path]

    endpoints = MadeOnDemand(["/encoding", "/rope"], made)
    monkeypatch.setattr("service.serving.server.ENDPOINTS", endpoints)

    @on_server(drain_seconds=FOR_EVER)
    async def imported(served: Serving) -> None:
        servers.append(served.server)
        await served.server._importing

    imported()

    assert [*endpoints.made] == ["/encoding"]


@pytest.mark.full
@on_server(drain_seconds=1)
async def test_after_sigterm_the_server_is_not_ready_and_continues_to_serve(
    served: Serving,
) -> None:
    assert (await served.http.get(ENCODING)).headers.get("Connection") is None
    signal.raise_signal(signal.SIGTERM)

    ready = await served.http.get("/readyz")
    answer = await served.http.get(ENCODING)

    assert (ready.status_code, answer.status_code) == (503, 200)
    assert ready.headers["Connection"] == answer.headers["Connection"] == "close"
    assert await served.has_ended()


@on_server(drain_seconds=0)
async def test_after_the_drain_no_connection_is_accepted(served: Serving) -> None:
    signal.raise_signal(signal.SIGTERM)
    assert await served.has_ended()

    with pytest.raises(httpx.ConnectError):
        await served.http.get(ENCODING)


@pytest.mark.full
@pytest.mark.parametrize("signals", [[signal.SIGTERM] * 2, [signal.SIGINT]])
@on_server(drain_seconds=FOR_EVER)
async def test_sigint_and_a_second_sigterm_skip_the_drain(
    served: Serving, signals: list[signal.Signals]
) -> None:
    for each in signals:
        signal.raise_signal(each)

    assert await served.has_ended()


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


@on_server(drain_seconds=FOR_EVER, shutdown_seconds=FOR_EVER)
async def test_a_third_signal_aborts_running_responses(
    served: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    async with served.http.stream("GET", ENDLESS) as answer:
        assert answer.status_code == 200
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)

        assert await served.has_ended()
    assert not errors_in(caplog)


@on_server(drain_seconds=0, shutdown_seconds=1)
async def test_requests_that_are_cut_off_at_the_end_are_no_errors(
    served: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    target = served.http.base_url
    reader, writer = await asyncio.open_connection(target.host, target.port)
    writer.write(b"POST /rope/apply HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
    writer.write(b"Content-Length: 100\r\n\r\n{")
    async with served.http.stream("GET", ENDLESS) as begun:
        assert begun.status_code == 200
        signal.raise_signal(signal.SIGTERM)
        assert await served.has_ended()

        with pytest.raises(httpx.TransportError):
            await begun.aread()
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1\r\n" in head.lower()
    writer.close()
    assert not errors_in(caplog)
    assert "before the responses on 2 connections" in caplog.text


def test_signal_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def serve_for_a_moment() -> None:
        async with serving():
            assert signal.getsignal(signal.SIGTERM) != before

    asyncio.run(serve_for_a_moment())

    assert signal.getsignal(signal.SIGTERM) == before


@on_server(drain_seconds=0)
async def test_a_worker_ends_when_its_supervisor_does(served: Serving) -> None:
    served.supervisor_end.settimeout(10)
    assert await asyncio.to_thread(served.supervisor_end.recv, 1) == b"."
    served.supervisor_end.close()

    assert await served.has_ended()


@on_server(header_seconds=1)
async def test_the_server_checks_the_limits_of_connections(served: Serving) -> None:
    target = served.http.base_url
    reader, writer = await asyncio.open_connection(target.host, target.port)
    writer.write(b"GET / HTTP/1.1\r\nX-Slow: ")

    head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 30)

    assert head.startswith(b"HTTP/1.1 408 ")
    writer.close()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@on_server()
async def test_freed_memory_is_given_back_when_grants_have_fallen(served: Serving) -> None:
    grant = served.server._delivery.budget.grant("results", 100 * MIB)
    blocks = [b"x" * 100_000 for _ in range(1000)]
    # It keeps the heap from shrinking by itself.
    kept = b"x" * 100_000
    held_bytes = resident_bytes()
    blocks.clear()
    grant.release()

    await until(lambda: resident_bytes() < held_bytes - 50 * MIB)
    assert kept


@on_server()
async def test_a_stopped_supervisor_does_not_stop_its_workers(served: Serving) -> None:
    with suppress(BlockingIOError):
        while served.channel.send(b"." * 4096):
            continue
    served.server._watch()

    assert (await served.http.get("/readyz")).status_code == httpx.codes.OK


SERVE = [sys.executable, "-m", "service", "serve", "--port"]
ADDRESS = re.compile(r"serves on (http://127\.0\.0\.1:\d+)")


def environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POSREF_")}
    return {**kept, **settings}


@pytest.mark.full
@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_server_prints_its_address_and_exits_with_code_0(workers: str) -> None:
    settings = environment(POSREF_DRAIN_SECONDS="0", POSREF_WORKERS=workers)
    with subprocess.Popen([*SERVE, "0"], stderr=subprocess.PIPE, text=True, env=settings) as served:
        assert served.stderr is not None
        first_line = served.stderr.readline()
        served.send_signal(signal.SIGTERM)

        assert served.wait(60) == 0

    assert ADDRESS.search(first_line)


@pytest.mark.full
def test_a_used_address_is_reported_in_one_line() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*SERVE, port], capture_output=True, text=True, env=environment(), check=False
        )

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"port {port} (POSREF_PORT)" in done.stderr


def test_port_0_picks_one_that_the_url_contains() -> None:
    (listener,) = listen(default_settings().model_copy(update={"port": 0}))

    with closing(listener):
        port = listener.getsockname()[1]
        assert urls_of([listener]) == [f"http://127.0.0.1:{port}"]
        with socket.create_connection(("127.0.0.1", port)):
            pass


def test_an_ipv6_address_is_in_brackets_in_the_url() -> None:
    (listener,) = listen(default_settings().model_copy(update={"host": "::1", "port": 0}))

    with closing(listener):
        assert urls_of([listener])[0].startswith("http://[::1]:")


def test_a_host_that_does_not_exist_is_named() -> None:
    settings = default_settings().model_copy(update={"host": "300.1.1.1"})

    with pytest.raises(CannotListen, match=r"300\.1\.1\.1"):
        listen(settings)


def test_the_file_limit_is_raised_for_all_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        missing = raise_file_limit(default_settings())

        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(4608, hard)
        assert missing == max(0, 4608 - hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_file_limit_that_is_too_low_is_reported() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    settings = default_settings().model_copy(update={"max_connections": hard})

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert raise_file_limit(settings) == 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("memory_bytes", "workers", "expected"),
    [(4096 * MIB, 1, 4096), (612 * MIB, 1, 3994), (632 * MIB, 1, 4096), (560 * MIB, 2, 597)],
)
def test_connections_are_limited_to_what_a_quarter_of_the_memory_holds(
    caplog: pytest.LogCaptureFixture, memory_bytes: int, workers: int, expected: int
) -> None:
    limits = {"memory_bytes": memory_bytes, "workers": workers}
    settings = default_settings().model_copy(update=limits)

    assert fit_connections(settings).max_connections == expected
    is_lowered = f"POSREF_MAX_CONNECTIONS=4096 is lowered to {expected}" in caplog.text
    assert is_lowered == (expected < 4096)


async def accepted_in_two_iterations(listeners: list[socket.socket], clients_count: int) -> int:
    """Let clients connect; return how many two iterations of the event loop accept."""
    accepted: list[asyncio.BaseTransport] = []

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.append(transport)

    loop, address = asyncio.get_running_loop(), listeners[0].getsockname()
    servers = [await loop.create_server(Protocol, sock=each) for each in listeners]
    with ExitStack() as clients:
        for _ in range(clients_count):
            clients.enter_context(closing(socket.create_connection(address)))
        for _ in range(4):
            await asyncio.sleep(0)
        count = len(accepted)
        for transport in accepted:
            transport.close()
        for server in servers:
            server.close()
            await server.wait_closed()
    return count


def test_an_iteration_of_the_event_loop_accepts_several_connections() -> None:
    (listener,) = listen(default_settings().model_copy(update={"port": 0}))
    listeners = duplicate_listeners([listener])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        count = runner.run(accepted_in_two_iterations(listeners, 40))
    for each in listeners:
        each.close()

    assert count > 10
