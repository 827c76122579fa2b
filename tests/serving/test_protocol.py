"""Limits of connections and their problems."""

import asyncio
import gc
import io
from functools import partial

import numpy as np
import orjson
import pytest
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.delivery.budget import CONNECTION_BYTES
from service.delivery.clients import PIPELINED, ClientAddresses
from service.serving import connections
from service.serving.connections import LimitedProtocol
from tests.serving.connections import (
    ENDLESS,
    NPY,
    PLAIN,
    Connection,
    on_both_paths,
    on_connection,
    until,
)

POST = "POST /rope/apply HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LIVE = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


async def expect_problem(connection: Connection, request: str, status: int, name: str) -> str:
    """Check that a request gets a problem and the connection is closed; return the detail."""
    status_line, headers, body = await connection.answer(request)
    problem = orjson.loads(body)

    assert status_line.split()[1] == str(status)
    assert headers["content-type"] == "application/problem+json"
    assert headers["cache-control"] == "no-store"
    assert headers["connection"] == "close"
    assert headers["access-control-allow-origin"] == "*"
    assert problem["type"] == f"urn:posref:problem:{name}"
    assert problem["status"] == status
    assert await connection.is_closed()
    detail: str = problem["detail"]
    return detail


async def check_after(connection: Connection, seconds: float) -> LimitedProtocol:
    """Enforce the time limits as if some time had passed."""
    protocol = await connection.protocol()
    protocol.check(asyncio.get_running_loop().time() + seconds)
    return protocol


def has_received(protocol: LimitedProtocol, head_bytes: int) -> bool:
    return protocol._head_bytes == head_bytes


@on_both_paths()
async def test_invalid_requests_get_a_problem_and_are_counted(connection: Connection) -> None:
    await expect_problem(connection, "GARBAGE\r\n\r\n", 400, "malformed-request")

    metrics = connection.delivery.metrics.exposition(None)[0].decode()
    assert 'status="400"' in metrics


@on_both_paths()
@pytest.mark.parametrize("version", ["0.9", "2.0"])
async def test_another_version_of_http_is_refused(connection: Connection, version: str) -> None:
    assert (await connection.answer(PLAIN))[0] == "HTTP/1.1 200 OK"

    request = PLAIN.replace("HTTP/1.1", f"HTTP/{version}")
    detail = await expect_problem(connection, request, 505, "version-not-supported")

    assert detail == f"HTTP/{version} is not spoken here: send HTTP/1.1"


@on_connection(max_head_bytes=2048, max_url_bytes=1024)
@pytest.mark.parametrize(
    ("head", "status"),
    [
        (f"HEAD /?{'x' * 1100} HTTP/1.1\r\nHost: x\r\n", "414"),
        (f"HEAD / HTTP/1.1\r\nHost: x\r\nX-Long: {'x' * 2048}\r\n", "431"),
        ("HEAD / HTTP/1.1\r\nHost: x\r\nX : y\r\n", "400"),
        ("HEAD / HTTP/1.1\r\n", "400"),
    ],
)
@pytest.mark.parametrize("before", [PLAIN, PLAIN.replace("GET", "HEAD")])
async def test_the_refusal_of_a_head_request_has_no_body(
    connection: Connection, head: str, status: str, before: str
) -> None:
    connection.writer.write(before.encode())
    await connection.reader.readuntil(b"\r\n\r\n")
    protocol = await connection.protocol()
    await until(protocol.is_idle)
    connection.reader._buffer.clear()  # type: ignore[attr-defined]
    connection.writer.write(f"{head}\r\n".encode())

    received = await connection.reader.read()

    assert received.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"\r\nconnection: close\r\n" in received
    assert received.endswith(b"\r\n\r\n")


@on_both_paths()
async def test_the_refusal_of_garbage_after_a_head_request_has_a_body(
    connection: Connection,
) -> None:
    connection.writer.write(PLAIN.replace("GET", "HEAD").encode())
    await connection.reader.readuntil(b"\r\n\r\n")

    await expect_problem(connection, "GARBAGE\r\n\r\n", 400, "malformed-request")


@on_connection()
async def test_a_request_that_waits_is_not_answered_by_the_refusal_of_the_next(
    connection: Connection,
) -> None:
    for refused in ("GARBAGE\r\n\r\n", PLAIN.replace("Host: x\r\n", "")):
        other = await connection.other()
        other.writer.write((PLAIN + refused).encode())

        received = await asyncio.wait_for(other.reader.read(), 30)

        assert b"HTTP/1.1 4" not in received


@on_connection(max_url_bytes=1024)
async def test_a_url_beyond_its_limit_is_refused_before_it_ends(connection: Connection) -> None:
    endless = f"GET {NPY}&positions={'1,' * 600}"

    detail = await expect_problem(connection, endless, 414, "url-too-long")

    assert "1024 bytes (POSREF_MAX_URL_BYTES)" in detail


@pytest.mark.full
@on_connection(max_url_bytes=1024)
async def test_a_url_at_its_limit_is_accepted(connection: Connection) -> None:
    target = f"{NPY}&positions={'1,' * 600}1"[:1024]

    status = (await connection.answer(PLAIN.replace(NPY, target)))[0]

    assert status.split()[1] == "422"


@on_connection(max_head_bytes=2048, max_url_bytes=1024)
async def test_a_head_beyond_its_limit_is_refused(connection: Connection) -> None:
    long = PLAIN[:-2] + f"X-Long: {'x' * 2048}\r\n\r\n"

    detail = await expect_problem(connection, long, 431, "headers-too-large")

    assert "2048 bytes (POSREF_MAX_HEAD_BYTES)" in detail


@on_connection(max_head_bytes=2048)
async def test_a_head_that_never_ends_is_refused_while_it_arrives(connection: Connection) -> None:
    protocol = await connection.protocol()
    connection.writer.write(b"GET / HTTP/1.1\r\nX-Long: ")
    await until(lambda: protocol._has_begun)
    for head_bytes in (1024, 2048):
        connection.writer.write(b"x" * 1024)
        await until(partial(has_received, protocol, head_bytes))
    connection.writer.write(b"x")

    await expect_problem(connection, "", 431, "headers-too-large")

    assert protocol.transport.is_closing()


@pytest.mark.full
@on_connection(max_head_bytes=2048)
async def test_a_long_body_does_not_count_as_a_head(connection: Connection) -> None:
    body = '{"x": [[1, 2]]}' + " " * 8192
    request = f"{POST}Content-Length: {len(body)}\r\n\r\n{body}{PLAIN}"

    assert (await connection.answer(request))[0] == "HTTP/1.1 200 OK"
    assert (await connection.answer())[0] == "HTTP/1.1 200 OK"


@on_connection()
async def test_a_head_that_arrives_too_slowly_is_refused(connection: Connection) -> None:
    connection.writer.write(b"GET / HTTP/1.1\r\nX-Slow: ")
    protocol = await connection.protocol()
    await until(lambda: protocol._has_begun)
    await check_after(connection, 9)
    await check_after(connection, 11)

    detail = await expect_problem(connection, "", 408, "request-timeout")

    assert "head of the request took longer than 10 s to arrive (POSREF_HEADER" in detail


@on_connection()
async def test_a_connection_without_a_request_is_closed(connection: Connection) -> None:
    await check_after(connection, 11)

    assert await connection.is_closed()


@pytest.mark.full
@on_connection()
async def test_stray_bytes_do_not_keep_a_connection_open(connection: Connection) -> None:
    await connection.answer(PLAIN)
    protocol = await connection.protocol()
    connection.writer.write(b"\r\n")
    await until(lambda: protocol.timeout_keep_alive_task is None)
    await check_after(connection, 0)
    await check_after(connection, 11)

    assert await connection.is_closed()


@on_connection()
async def test_an_idle_connection_keeps_its_own_time_limit(connection: Connection) -> None:
    await connection.answer(PLAIN)
    await check_after(connection, 3600)

    assert (await connection.answer(PLAIN))[0] == "HTTP/1.1 200 OK"


@on_connection(fast_path=False)
async def test_an_idle_connection_keeps_nothing_of_its_last_request(connection: Connection) -> None:
    await connection.answer(PLAIN)
    await connection.all_requests()

    flow = (await connection.protocol()).flow
    cycles = (each for each in gc.get_objects() if isinstance(each, RequestResponseCycle))
    assert all(cycle.flow is not flow for cycle in cycles)


@on_connection()
async def test_a_body_that_arrives_too_slowly_is_refused(connection: Connection) -> None:
    connection.writer.write(f"{POST}Content-Length: 100\r\n\r\n{{".encode())
    protocol = await connection.protocol()
    await until(lambda: protocol.cycle is not None)
    await check_after(connection, 129)
    await check_after(connection, 131)

    detail = await expect_problem(connection, "", 408, "request-timeout")

    assert "body of the request took longer than 120 s to arrive (POSREF_BODY" in detail
    await connection.all_requests()


@pytest.mark.full
@on_connection()
async def test_an_unread_body_has_a_time_limit(connection: Connection) -> None:
    request = f"{POST}Content-Length: 999999999\r\n\r\n{{"
    assert (await connection.answer(request))[0].split()[1] == "413"
    await check_after(connection, 131)

    assert await connection.is_closed()


@on_connection()
async def test_a_client_that_is_still_sending_gets_the_answer_and_no_reset(
    connection: Connection,
) -> None:
    body = b"x" * 8_000_000
    head = f"{POST}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.writer.write(head.encode())
    for start in range(0, len(body), 100_000):
        connection.writer.write(body[start : start + 100_000])
        await asyncio.sleep(0)
    await connection.writer.drain()

    status_line, headers, _ = await connection.answer()

    assert status_line.split()[1] == "413"
    assert headers["connection"] == "close"
    assert await connection.is_closed()


@on_connection()
async def test_what_a_client_sends_after_the_last_answer_is_not_kept(
    connection: Connection,
) -> None:
    closing = f"{POST}Connection: close\r\nContent-Length: {10**9}\r\n\r\n"
    assert (await connection.answer(closing))[0].split()[1] == "413"
    protocol = await connection.protocol()
    received_bytes = 0
    receive = protocol.data_received

    def count(data: bytes) -> None:
        nonlocal received_bytes
        received_bytes += len(data)
        receive(data)

    protocol.data_received = count  # type: ignore[method-assign]
    connection.writer.write(b"x" * 2**21)
    await until(lambda: received_bytes >= 2**20)

    assert not protocol._unparsed


@on_connection()
async def test_no_response_follows_the_last_one(connection: Connection) -> None:
    body = "x" * 5_000_000
    closing = f"{POST}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.writer.write((closing + body + PLAIN).encode())
    assert (await connection.answer())[0].split()[1] == "413"

    assert await connection.is_closed()


@pytest.mark.full
@on_connection()
async def test_a_client_that_reads_nothing_is_disconnected(connection: Connection) -> None:
    connection.reader._limit = 0  # type: ignore[attr-defined]
    connection.writer.write(PLAIN.replace(NPY, ENDLESS).encode())
    protocol = await connection.protocol()
    await until(lambda: protocol.transport.get_write_buffer_size() > 0)
    await asyncio.sleep(0.5)
    await check_after(connection, 0)
    await check_after(connection, 59)
    assert not protocol.transport.is_closing()

    await check_after(connection, 61)

    assert protocol.transport.is_closing()
    await connection.all_requests()


async def make_busy(connection: Connection) -> None:
    """Begin a response that never ends."""
    connection.writer.write(PLAIN.replace(NPY, ENDLESS).encode())
    await connection.reader.readuntil(b"\r\n\r\n")


async def others_of(connection: Connection, number: int) -> list[Connection]:
    """Connect several times."""
    before = len(connection.state.connections)
    others = [await connection.other() for _ in range(number)]
    await until(lambda: len(connection.state.connections) == before + number)
    return others


@on_both_paths(max_connections=1)
async def test_connections_beyond_the_limit_answer_probes_only(connection: Connection) -> None:
    await make_busy(connection)
    another = await connection.other()
    status_line, headers, body = await another.answer(LIVE)
    assert (status_line, body) == ("HTTP/1.1 200 OK", b'{"status":"ok"}')
    assert headers["connection"] == "close"
    assert await another.is_closed()
    detail = await expect_problem(await connection.other(), PLAIN, 503, "overloaded")
    assert "POSREF_MAX_CONNECTIONS" in detail

    assert await connection.reader.readexactly(2**20)


@on_both_paths()
async def test_each_connection_is_granted_and_without_memory_answers_probes_only(
    connection: Connection,
) -> None:
    await connection.answer(PLAIN)
    budget = connection.delivery.budget
    assert budget.granted()["connections"] == CONNECTION_BYTES
    others = [budget.grant("results", budget.limit_bytes // 2)]
    unreserved_bytes = budget.limit_bytes - budget.reserve_bytes
    others.append(budget.grant("results", unreserved_bytes - budget.granted_bytes))
    while (free_bytes := budget.limit_bytes - budget.granted_bytes) >= CONNECTION_BYTES:
        others.append(budget.grant("results", min(2**20, free_bytes), from_reserve=True))

    assert (await (await connection.other()).answer(LIVE))[0] == "HTTP/1.1 200 OK"
    detail = await expect_problem(await connection.other(), PLAIN, 503, "overloaded")
    assert "POSREF_MEMORY_BYTES" in detail
    assert (await connection.answer(PLAIN))[0] == "HTTP/1.1 200 OK"

    del others
    another = await connection.other()
    assert (await another.answer(PLAIN))[0] == "HTTP/1.1 200 OK"
    for each in (connection, another):
        each.writer.close()
    await until(lambda: budget.granted()["connections"] == 0)


@on_both_paths(max_connections=2)
async def test_a_new_connection_takes_the_place_of_the_longest_idle(
    connection: Connection,
) -> None:
    recent = await connection.other()
    for each in (recent, connection, recent):
        await each.answer(PLAIN)
    new = await connection.other()

    assert (await new.answer(PLAIN))[0] == "HTTP/1.1 200 OK"
    assert await connection.is_closed()
    assert (await recent.answer(PLAIN))[0] == "HTTP/1.1 200 OK"


@on_connection(max_connections=4)
async def test_a_new_connection_takes_the_place_of_one_of_the_address_that_holds_most(
    connection: Connection,
) -> None:
    await connection.answer(PLAIN)
    flood = [await connection.other("127.0.0.2") for _ in range(3)]
    for each in flood:
        await each.answer(PLAIN)
    new = await connection.other("127.0.0.3")

    assert (await new.answer(PLAIN))[0] == "HTTP/1.1 200 OK"
    assert await flood[0].is_closed()
    for each in (connection, *flood[1:]):
        assert (await each.answer(PLAIN))[0] == "HTTP/1.1 200 OK"


@on_connection(max_connections=1)
async def test_a_head_that_trickles_gives_way_and_a_prompt_one_does_not(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.writer.write(PLAIN[:10].encode())
    held = await connection.protocol()
    await until(lambda: held._has_begun)
    await expect_problem(await connection.other(), PLAIN, 503, "overloaded")
    monkeypatch.setattr(connections, "_PROMPT_SECONDS", 0)
    monkeypatch.setattr(connections, "_SEARCH_SECONDS", 0)

    assert (await (await connection.other()).answer(PLAIN))[0] == "HTTP/1.1 200 OK"
    assert await connection.is_closed()


@pytest.mark.parametrize("sent", ["", "GET /", PLAIN])
@on_connection(max_connections=1)
async def test_probes_are_answered_whatever_holds_the_connections_beyond_the_limit(
    connection: Connection, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_SEARCH_SECONDS", 0)
    await make_busy(connection)
    others = await others_of(connection, 256)
    for other in others:
        # A refused request leaves its connection open until the client has read the answer.
        other.writer.write(sent.encode())
    for probe in [await connection.other() for _ in range(20)]:
        assert (await probe.answer(LIVE))[0] == "HTTP/1.1 200 OK"
    await expect_problem(await connection.other(), PLAIN, 503, "overloaded")

    assert await connection.reader.readexactly(2**20)


@on_connection(max_connections=1)
async def test_idle_connections_are_not_searched_for_each_new_one(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_SEARCH_SECONDS", 3600)
    await make_busy(connection)
    others = await others_of(connection, 256)

    assert await (await connection.other()).is_closed()
    assert (await others[0].answer(LIVE))[0] == "HTTP/1.1 200 OK"


@pytest.mark.full
@on_connection()
async def test_garbage_after_a_request_does_not_corrupt_its_response(
    connection: Connection,
) -> None:
    connection.writer.write(PLAIN.replace(NPY, ENDLESS).encode())
    await connection.reader.readuntil(b"\r\n\r\n")
    connection.writer.write(b"GARBAGE\r\n\r\n")

    received = await asyncio.wait_for(connection.reader.read(), 30)

    assert b"HTTP/1.1" not in received
    await connection.all_requests()


@on_connection()
async def test_a_client_that_does_not_read_its_last_response_is_disconnected(
    connection: Connection,
) -> None:
    whole = PLAIN.replace(NPY, "/encoding.npy?seq_len=1000&d_model=512")
    other = await connection.other()
    await other.answer(whole)
    other.writer.close()
    await until(lambda: len(connection.state.connections) == 1)
    connection.reader._limit = 0  # type: ignore[attr-defined]
    connection.writer.write(whole.replace("Host", "Connection: close\r\nHost").encode())
    protocol = await connection.protocol()
    await until(protocol.transport.is_closing)
    await asyncio.sleep(0.5)
    await check_after(connection, 0)
    assert connection.state.connections

    await check_after(connection, 61)

    await until(lambda: not connection.state.connections)


@pytest.mark.full
@pytest.mark.parametrize("rest", ["GET /livez HT", f"{POST}Content-Length: 9\r\n\r\n1"])
@on_connection()
async def test_waiting_for_a_response_does_not_count_as_slowness(
    connection: Connection, rest: str
) -> None:
    connection.writer.write((PLAIN.replace(NPY, ENDLESS) + LIVE + rest).encode())
    protocol = await connection.protocol()
    await until(lambda: len(protocol.pipeline) > 0)

    await check_after(connection, 3600)

    assert not protocol.transport.is_closing()


@on_connection()
async def test_garbage_after_pipelined_requests_cancels_the_running_one(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    connection.writer.write((PLAIN.replace(NPY, ENDLESS) + LIVE + "GARBAGE\r\n\r\n").encode())

    received = await asyncio.wait_for(connection.reader.read(), 30)

    assert received.count(b"HTTP/1.1") <= 1
    await connection.all_requests()
    assert "Exception in ASGI application" not in caplog.text


MANY = 2000


@on_both_paths()
async def test_thousands_of_pipelined_requests_are_answered_in_order(
    connection: Connection,
) -> None:
    # Every other response is in the cache, and comes without the application.
    targets = [NPY if each % 2 else f"{NPY}&start={each}" for each in range(MANY)]
    await connection.answer(PLAIN)
    connection.writer.write("".join(PLAIN.replace(NPY, each) for each in targets).encode())
    bodies = [(await connection.answer())[2] for _ in targets]

    assert bodies[1::2] == [bodies[1]] * (MANY // 2)
    assert len(set(bodies[::2])) == MANY // 2
    first, last = (np.load(io.BytesIO(bodies[each])) for each in (0, -2))
    assert (first[0, 0], last[0, 0]) == (0, np.float32(np.sin(MANY - 2)))


@on_both_paths()
async def test_pipelined_requests_with_bodies_are_answered_in_order(connection: Connection) -> None:
    bodies = [f'{{"x": [[{each}, 0]]}}{" " * (each * 37 % 3000)}' for each in range(300)]
    requests = [f"{POST}Content-Length: {len(each)}\r\n\r\n{each}" for each in bodies]
    requests[::3] = [
        f"{POST}Transfer-Encoding: chunked\r\n\r\n{len(each):x}\r\n{each}\r\n0\r\n\r\n"
        for each in bodies[::3]
    ]
    connection.writer.write("".join(requests).encode())
    answers = [orjson.loads((await connection.answer())[2]) for _ in requests]

    assert [answer["data"][0][0] for answer in answers] == list(range(300))


@on_connection()
async def test_few_pipelined_requests_are_parsed_while_one_is_answered(
    connection: Connection,
) -> None:
    connection.writer.write(PLAIN.replace(NPY, ENDLESS).encode())
    await connection.reader.readuntil(b"\r\n\r\n")
    protocol = await connection.protocol()
    connection.reader._limit = 0  # type: ignore[attr-defined]
    connection.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 500_000)
    await until(lambda: len(protocol._unparsed) > 2**14)
    for _ in range(50):
        await asyncio.sleep(0.01)

    assert len(protocol.pipeline) < 32
    assert len(protocol._unparsed) < 2**14 + 2**18
    budget = connection.delivery.budget
    assert budget.granted()["connections"] >= len(protocol._unparsed)
    connection.writer.transport.abort()
    await connection.all_requests()
    await until(lambda: budget.granted()["connections"] == 0)


@on_connection()
async def test_pipelined_requests_are_dropped_where_memory_is_short(connection: Connection) -> None:
    connection.writer.write(PLAIN.replace(NPY, ENDLESS).encode())
    await connection.reader.readuntil(b"\r\n\r\n")
    protocol = await connection.protocol()
    budget = connection.delivery.budget
    half_bytes = (budget.limit_bytes - budget.reserve_bytes - budget.granted_bytes) // 2
    held = [budget.grant("results", half_bytes) for _ in range(2)]
    connection.reader._limit = 0  # type: ignore[attr-defined]
    connection.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10_000)
    await until(lambda: len(protocol.pipeline) > 0 and not protocol._unparsed)
    held.clear()

    # The response that has begun goes on, and the connection is closed after it.
    assert not protocol.transport.is_closing()
    assert not protocol.cycle.keep_alive
    connection.writer.transport.abort()


@on_connection()
async def test_pipelined_requests_delay_no_other_connection(connection: Connection) -> None:
    await connection.answer(PLAIN)
    protocol = await connection.protocol()
    other = await connection.other()
    await other.answer(PLAIN)

    protocol.data_received(PLAIN.encode() * MANY)

    assert protocol._unparsed
    assert len((await other.answer(PLAIN))[2]) == 192
    assert protocol._unparsed


def test_requests_behind_another_one_are_pipelined(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    name_of = ClientAddresses.name_of

    def watched(addresses: ClientAddresses, scope: Scope) -> str:
        found.append(PIPELINED in scope["extensions"])
        return name_of(addresses, scope)

    monkeypatch.setattr(ClientAddresses, "name_of", watched)

    @on_connection(fast_path=False)
    async def ask(connection: Connection) -> None:
        await connection.answer(PLAIN)
        connection.writer.write(PLAIN.encode() * 20)
        for _ in range(20):
            await connection.answer("")
        await connection.answer(PLAIN)

    ask()

    assert found == [False, False, *[True] * 19, False]


@pytest.mark.full
@on_connection(max_head_bytes=1024, max_url_bytes=1024)
async def test_trailers_are_not_headers_and_are_limited(connection: Connection) -> None:
    chunked = f"{POST}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n0\r\n"
    connection.writer.write(chunked.encode())
    protocol = await connection.protocol()
    await until(lambda: protocol.cycle is not None)
    headers = list(protocol.cycle.scope["headers"])
    for _ in range(3):
        connection.writer.write(b"a: b\r\n" * 150)
        await asyncio.sleep(0.05)
    await expect_problem(connection, "", 431, "headers-too-large")

    assert protocol.cycle.scope["headers"] == headers


@on_connection()
async def test_trailers_that_close_the_connection_close_it(connection: Connection) -> None:
    body = '{"seq_len":4,"d_model":4}'
    chunked = f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n"
    request = f"{POST}{chunked}Connection: close\r\n\r\n"
    await connection.answer(request + LIVE)

    assert await connection.is_closed()

    other = await connection.other()
    for ending in ("\r\n", "Connection: close\r\n\r\n"):
        cached = PLAIN.replace("Host: x", "Host: x\r\nTransfer-Encoding: chunked")
        await other.answer(f"{cached}0\r\n{ending}")
    assert await other.is_closed()


@on_connection()
async def test_a_started_response_is_not_followed_by_a_problem(connection: Connection) -> None:
    chunked = POST.replace("json", "pdf") + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"
    assert (await connection.answer(chunked))[0].split()[1] == "415"
    connection.writer.write(b"GARBAGE\r\n\r\n")

    assert await connection.is_closed()
