"""Cached responses are the same on the fast path and from the application, and in order."""

import asyncio
import socket

import pytest
from pydantic import SecretStr

from service.serving.protocol import UvicornProtocol
from tests.serving.connections import ENDLESS, NPY, PLAIN, Connection, on_both_paths, on_connection

LARGE = "/encoding.npy?seq_len=512&d_model=512"
KEY = "a-key-of-many-letters"


@pytest.mark.parametrize(
    ("settings", "is_answered_by_application"),
    [({}, False), ({"fast_path": False}, True), ({"api_keys": SecretStr(KEY)}, True)],
)
def test_cached_responses_come_without_the_application_unless_it_is_set_or_needed(
    settings: dict[str, object],
    *,
    is_answered_by_application: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, start = [], UvicornProtocol.start_application

    def start_application(protocol: UvicornProtocol, *, keep_alive: bool) -> None:
        started.append(protocol.url)
        start(protocol, keep_alive=keep_alive)

    monkeypatch.setattr(UvicornProtocol, "start_application", start_application)

    @on_connection(**settings)
    async def ask(connection: Connection) -> None:
        for _ in range(2):
            await connection.answer(PLAIN[:-2] + f"Authorization: Bearer {KEY}\r\n\r\n")
        started.clear()
        await connection.answer(PLAIN)
        assert bool(started) == is_answered_by_application

    ask()


@pytest.mark.full
@on_both_paths()
async def test_a_cached_response_equals_the_first(connection: Connection) -> None:
    first = await connection.answer(PLAIN)
    assert connection.cached_answers == 0
    assert await connection.answer(PLAIN) == first
    assert connection.cached_answers == 1
    # The application answers a request with another header, from the same cache.
    assert await connection.answer(PLAIN[:-2] + 'If-None-Match: "x"\r\n\r\n') == first
    assert first[0] == "HTTP/1.1 200 OK"
    assert first[1]["date"] == "today"
    assert first[1]["access-control-allow-origin"] == "*"


@on_both_paths()
async def test_pipelined_requests_are_answered_in_order(connection: Connection) -> None:
    await connection.answer(PLAIN)
    large, other = PLAIN.replace(NPY, LARGE), PLAIN.replace("=4&", "=5&")
    connection.writer.write((PLAIN + large + PLAIN + other + PLAIN + large).encode())
    lengths = [len((await connection.answer())[2]) for _ in range(6)]

    assert lengths == [192, 1048704, 192, 208, 192, 1048704]
    connection.writer.write((PLAIN * 50).encode())
    assert [len((await connection.answer())[2]) for _ in range(50)] == [192] * 50


@pytest.mark.full
@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (PLAIN[:-2] + "Range: bytes=0-9\r\n\r\n", "206"),
        (PLAIN[:-2] + "If-None-Match: *\r\n\r\n", "304"),
        (PLAIN[:-2] + 'If-Match: "x"\r\n\r\n', "412"),
        (PLAIN[:-2] + "Range: bytes=0-9\r\nIf-Range: x\r\n\r\n", "200"),
        (PLAIN[:-2] + "Accept: a/b\r\nAccept: c/d\r\n\r\n", "200"),
        (PLAIN[:-2] + "Accept-Encoding: gzip\r\nAccept-Encoding: br\r\n\r\n", "200"),
        (PLAIN[:-2] + "Content-Length: 3\r\n\r\nabc", "200"),
        (PLAIN[:-2] + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "200"),
        (PLAIN.replace("GET", "POST"), "415"),
    ],
)
@on_both_paths()
async def test_other_requests_reach_the_application(
    connection: Connection, request_text: str, status: str
) -> None:
    await connection.answer(PLAIN)

    answer = await connection.answer(request_text)

    assert answer[0].split()[1] == status
    assert (await connection.answer(PLAIN))[0] == "HTTP/1.1 200 OK"


@on_both_paths()
async def test_a_disconnect_with_pipelined_requests_cancels_the_running_one(
    connection: Connection,
) -> None:
    connection.writer.write(f"GET {ENDLESS} HTTP/1.1\r\nHost: x\r\n\r\n{PLAIN}".encode())
    await connection.reader.readuntil(b"\r\n\r\n")
    connection.writer.transport.abort()

    await connection.all_requests()


@on_both_paths()
async def test_every_response_has_a_request_id(connection: Connection) -> None:
    named = PLAIN[:-2] + "X-Request-Id: abc-1\r\n\r\n"
    for request in (PLAIN, PLAIN, named, PLAIN[:-2] + 'X-Request-Id: "\r\n\r\n'):
        await connection.answer(request)

    assert len(set(connection.request_ids)) == 4
    assert connection.request_ids[2] == "abc-1"
    assert connection.cached_answers == 3


@pytest.mark.full
@on_both_paths(api_keys=SecretStr(KEY))
async def test_with_api_keys_cached_responses_need_the_key(connection: Connection) -> None:
    keyed = PLAIN[:-2] + f"Authorization: Bearer {KEY}\r\n\r\n"
    await connection.answer(keyed)
    assert (await connection.answer(keyed))[0] == "HTTP/1.1 200 OK"

    assert (await connection.answer(PLAIN))[0] == "HTTP/1.1 401 Unauthorized"


KEYED = PLAIN[:-2] + f"Authorization: Bearer {KEY}\r\n\r\n"
FORWARDED = "X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\n\r\n"


@on_both_paths(api_keys=SecretStr(KEY), trusted_proxies="127.0.0.0/8")
async def test_with_api_keys_each_pipelined_request_needs_the_key(connection: Connection) -> None:
    requests = [KEYED, PLAIN, PLAIN[:-2] + FORWARDED, KEYED[:-2] + FORWARDED] * 100
    connection.writer.write("".join(requests).encode())
    answers = [await connection.answer() for _ in requests]

    refused = ("HTTP/1.1 401 Unauthorized", "no-store")
    given = ("HTTP/1.1 200 OK", "private, max-age=86400")
    assert [(line, head["cache-control"]) for line, head, _ in answers] == (
        [given, refused, refused, given] * 100
    )
    assert all(KEY not in str(answer) for answer in answers)


@on_both_paths(api_keys=SecretStr(KEY), max_connections=1, max_url_bytes=256, max_body_bytes=9)
async def test_with_api_keys_refusals_give_nothing_away(connection: Connection) -> None:
    connection.writer.write(KEYED.replace(NPY, ENDLESS).encode())
    await connection.reader.readuntil(b"\r\n\r\n")
    statuses = []
    for request in (
        PLAIN,
        KEYED,
        PLAIN.replace(NPY, f"/?key={KEY}&positions={'1,' * 128}"),
        f"GARBAGE {KEY}\r\n\r\n",
        PLAIN.replace(NPY, "/livez"),
    ):
        status, headers, body = await (await connection.other()).answer(request)
        statuses.append(int(status.split()[1]))
        assert headers["cache-control"] == "no-store"
        assert KEY not in f"{headers} {body!r}"

    assert statuses == [503, 503, 414, 400, 200]


@on_both_paths()
async def test_a_draining_server_closes_connections_after_the_response(
    connection: Connection,
) -> None:
    await connection.answer(PLAIN)
    connection.delivery.is_draining = True

    _, headers, body = await connection.answer(PLAIN)

    assert (headers["connection"], len(body)) == ("close", 192)
    assert await connection.is_closed()


@pytest.mark.full
@pytest.mark.parametrize(
    "request_text", [PLAIN.replace("1.1", "1.0"), PLAIN[:-2] + "Connection: close\r\n\r\n"]
)
@on_both_paths()
async def test_connection_close_is_honoured(connection: Connection, request_text: str) -> None:
    await connection.answer(PLAIN)

    answer = await connection.answer(request_text)

    assert len(answer[2]) == 192
    assert answer[1]["connection"] == "close"
    assert await connection.reader.read() == b""


@on_both_paths(keep_alive_seconds=1)
async def test_an_idle_connection_is_closed_in_time(connection: Connection) -> None:
    for _ in range(2):
        await connection.answer(PLAIN)

    assert connection.cached_answers == 1
    assert await asyncio.wait_for(connection.reader.read(), 10) == b""


@pytest.mark.full
@pytest.mark.skipif(
    not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="the system has no such option"
)
@on_both_paths()
async def test_the_kernel_buffers_little_unsent_data(connection: Connection) -> None:
    await connection.answer(PLAIN)
    assert await _unsent_bytes(connection) == 128 * 1024


async def _unsent_bytes(connection: Connection) -> int:
    server_side = (await connection.protocol()).transport.get_extra_info("socket")
    return int(server_side.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT))


@pytest.mark.skipif(
    not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="the system has no such option"
)
@on_connection()
async def test_the_kernel_buffers_more_only_while_a_client_reads_a_stream(
    connection: Connection,
) -> None:
    left_bytes, found = 2**24, set()
    request = f"GET {ENDLESS} HTTP/1.1\r\nHost: x\r\nRange: bytes=0-{left_bytes - 1}\r\n\r\n"
    connection.writer.write(request.encode())
    await connection.reader.readuntil(b"\r\n\r\n")
    first = await _unsent_bytes(connection)
    while left_bytes:
        left_bytes -= len(await connection.reader.read(left_bytes))
        found.add(await _unsent_bytes(connection))
    await connection.all_requests()

    assert (first, max(found)) == (128 * 1024, 256 * 1024)
    assert await _unsent_bytes(connection) == 128 * 1024
