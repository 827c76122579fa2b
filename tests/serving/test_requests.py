"""Requests as HTTP/1.1 clients spell them: offers to upgrade, expectations, targets and hosts."""

import asyncio
from random import Random

import orjson
import pytest

from tests.serving.connections import NPY, PLAIN, Connection, on_both_paths, on_connection, until

Answer = tuple[str, dict[str, str], bytes]

PARAMETERS = '{"seq_len": 2, "d_model": 4}'
POST = "POST /encoding HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
WITH_LENGTH = f"{POST}Content-Length: {len(PARAMETERS)}\r\n\r\n{PARAMETERS}"
IN_CHUNKS = (
    f"{POST}Transfer-Encoding: chunked\r\n\r\n9\r\n{PARAMETERS[:9]}\r\n13\r\n{PARAMETERS[9:]}"
)
IN_CHUNKS += "\r\n0\r\n\r\n"
RANGE = PLAIN[:-2] + "Range: bytes=0-9\r\n\r\n"
BODY_OF_GET = PLAIN[:-2] + "Content-Length: 5\r\n\r\nhello"
REQUESTS = [PLAIN, WITH_LENGTH, IN_CHUNKS, RANGE, BODY_OF_GET]
H2C = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
OFFERS = [
    H2C,
    "upgrade: websocket\r\nconnection: keep-alive, upgrade\r\nSec-WebSocket-Version: 13\r\n",
    "Upgrade: TLS/1.0, IRC/6.9\r\nUpgrade: x\r\nConnection: Upgrade\r\nConnection: keep-alive\r\n",
]
SPLITS = 200


def offering(request: str, offer: str = H2C) -> str:
    """Return a request with an offer to upgrade among its headers."""
    return request.replace("Host: x\r\n", f"Host: x\r\n{offer}", 1)


async def answers_of(connection: Connection, pieces: list[str], number: int) -> list[Answer]:
    """Receive a text in these pieces exactly, and return the answers to its requests."""
    protocol = await connection.protocol()
    for piece in pieces:
        protocol.data_received(piece.encode())
    return [await connection.answer() for _ in range(number)]


@pytest.mark.parametrize("offer", OFFERS, ids=["h2c", "websocket", "several"])
@on_both_paths()
async def test_an_offer_to_upgrade_changes_no_answer_however_the_bytes_arrive(
    connection: Connection, offer: str
) -> None:
    plain = {request: await connection.answer(request) for request in REQUESTS}
    choice = Random(offer)
    for _ in range(SPLITS):
        requests = choice.choices(REQUESTS, k=choice.randint(1, 4))
        sent = [offering(each, offer) if choice.random() < 0.7 else each for each in requests]
        text = "".join(sent)
        cuts = sorted(choice.choices(range(len(text)), k=choice.randint(0, 3)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

        answers = await answers_of(connection, pieces, len(requests))

        assert answers == [plain[each] for each in requests], pieces


@on_both_paths()
async def test_a_request_with_an_offer_may_arrive_byte_by_byte(connection: Connection) -> None:
    for request in REQUESTS:
        plain = [await connection.answer(each) for each in (request, PLAIN)]

        assert await answers_of(connection, list(offering(request) + PLAIN), 2) == plain


@on_connection()
async def test_a_cached_response_answers_a_request_with_an_offer(connection: Connection) -> None:
    first = await connection.answer(PLAIN)

    assert await connection.answer(offering(PLAIN)) == first
    assert connection.cached_answers == 1


@on_connection()
async def test_the_application_is_told_of_no_offer(connection: Connection) -> None:
    protocol = await connection.protocol()
    protocol.data_received(offering(WITH_LENGTH)[: -len(PARAMETERS)].encode())
    names = {name for name, _ in protocol.cycle.scope["headers"]}

    assert names == {b"host", b"connection", b"content-type", b"content-length"}
    assert (await connection.answer(PARAMETERS))[0] == "HTTP/1.1 200 OK"


@pytest.mark.parametrize("request_text", [PLAIN, WITH_LENGTH])
@on_both_paths()
async def test_an_offer_keeps_the_version_of_its_request(
    connection: Connection, request_text: str
) -> None:
    old = request_text.replace("1.1", "1.0")
    plain = await (await connection.other()).answer(old)

    assert await connection.answer(offering(old)) == plain
    assert plain[1]["connection"] == "close"
    assert await connection.is_closed()


async def expect_refusal(connection: Connection, request: str, told: str = "") -> None:
    """Check that a new connection gets one problem for a request, and nothing for one behind it."""
    other = await connection.other()
    status, headers, body = await other.answer(request + PLAIN)

    assert status == "HTTP/1.1 400 Bad Request", request
    assert (headers["content-type"], headers["connection"]) == ("application/problem+json", "close")
    assert told in orjson.loads(body)["detail"]
    assert await other.is_closed()


LENGTH = f"Content-Length: {len(PARAMETERS)}\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
AMBIGUOUS = [
    LENGTH * 2,
    LENGTH + "Content-Length: 3\r\n",
    LENGTH + CHUNKED,
    CHUNKED + LENGTH,
    CHUNKED + "Transfer-Encoding: identity\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Transfer-Encoding:\r\n chunked\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding: \x0bchunked\r\n",
    "X: a\r\n b\r\n",
    "X: a\nTransfer-Encoding: chunked\r\n",
    "X: a\rTransfer-Encoding: chunked\r\n",
    "Content-Length: +28\r\n",
    "Content-Length: 28, 28\r\n",
    "Content-Length: \r\n",
]


@pytest.mark.parametrize("offer", ["", *OFFERS], ids=["plain", "h2c", "websocket", "several"])
@on_both_paths()
async def test_an_ambiguous_body_is_refused_and_nothing_is_smuggled(
    connection: Connection, offer: str
) -> None:
    for framing in AMBIGUOUS:
        request = offering(f"{POST}{framing}\r\n{PARAMETERS}{PLAIN}", offer)
        await expect_refusal(connection, request)


@on_both_paths()
async def test_a_transfer_coding_other_than_chunked_is_refused(connection: Connection) -> None:
    for codings in ("gzip, chunked", "gzip\r\nTransfer-Encoding: chunked"):
        request = IN_CHUNKS.replace("chunked", codings)
        await expect_refusal(connection, request, "Transfer-Encoding is not chunked alone")


@on_both_paths()
async def test_connect_is_refused(connection: Connection) -> None:
    for target in ("x:80", "http://x/", "http://x:80"):
        await expect_refusal(connection, f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n")


@on_connection(max_head_bytes=2048, max_url_bytes=1024)
async def test_a_long_head_with_an_offer_is_refused(connection: Connection) -> None:
    long = offering(PLAIN)[:-2] + f"X-Long: {'x' * 2048}\r\n\r\n"

    status, headers, _ = await connection.answer(long)

    assert (status.split()[1], headers["connection"]) == ("431", "close")
    assert await connection.is_closed()


@pytest.mark.parametrize("offer", ["", H2C], ids=["plain", "h2c"])
@on_connection()
async def test_a_client_that_waits_for_100_continue_gets_it(
    connection: Connection, offer: str
) -> None:
    plain = await connection.answer(WITH_LENGTH)
    expecting = offering(WITH_LENGTH, f"Expect: 100-continue\r\n{offer}")
    connection.writer.write(expecting[: -len(PARAMETERS)].encode())

    assert await connection.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert await connection.answer(PARAMETERS) == plain
    assert (await connection.answer(PLAIN))[0] == "HTTP/1.1 200 OK"


@on_connection()
async def test_an_answer_in_place_of_100_continue_closes_the_connection(
    connection: Connection,
) -> None:
    refused = POST.replace("json", "pdf") + f"Expect: 100-continue\r\n{LENGTH}\r\n"

    status, headers, _ = await connection.answer(refused)

    # The client may leave out the body: its next request would be taken for it.
    assert (status.split()[1], headers["connection"]) == ("415", "close")
    connection.writer.write(PLAIN.encode())
    assert await connection.is_closed()


@pytest.mark.parametrize("expectation", ["a-miracle", "100-continue, a-miracle"])
@on_connection()
async def test_an_unknown_expectation_is_ignored(connection: Connection, expectation: str) -> None:
    plain = await connection.answer(WITH_LENGTH)

    assert await connection.answer(offering(WITH_LENGTH, f"Expect: {expectation}\r\n")) == plain


@on_connection()
async def test_an_expectation_in_http_1_0_is_ignored(connection: Connection) -> None:
    expecting = offering(WITH_LENGTH, "Expect: 100-continue\r\n").replace("1.1", "1.0")
    connection.writer.write(expecting[: -len(PARAMETERS)].encode())
    protocol = await connection.protocol()
    await until(lambda: protocol.cycle is not None)
    await asyncio.sleep(0.01)

    assert (await connection.answer(PARAMETERS))[0] == "HTTP/1.1 200 OK"


@on_both_paths()
async def test_an_absolute_target_is_one_of_this_server(connection: Connection) -> None:
    first = await connection.answer(PLAIN)

    for origin in ("http://x", "HTTP://other.test:80", "https://[::1]:443"):
        absolute = PLAIN.replace(NPY, origin + NPY)
        assert await connection.answer(absolute) == first
        assert await connection.answer(offering(absolute)) == first
    assert connection.cached_answers == 6


@on_connection()
async def test_an_absolute_target_without_a_path_is_the_root(connection: Connection) -> None:
    for absolute, target in (
        ("http://x", "/"),
        ("http://x?y=1", "/?y=1"),
        ("http://x/%2F", "/%2F"),
    ):
        answer = await connection.answer(PLAIN.replace(NPY, absolute))

        assert answer == await connection.answer(PLAIN.replace(NPY, target))


@on_both_paths()
async def test_a_target_elsewhere_is_refused(connection: Connection) -> None:
    for target in ("ftp://x/", "http://user@x/", "http://x:y/", "http:///"):
        await expect_refusal(connection, PLAIN.replace(NPY, target))


@on_both_paths()
async def test_a_target_with_a_fragment_is_refused(connection: Connection) -> None:
    for target in ("/livez#f", "http://x/livez?y=1#f", "/#"):
        await expect_refusal(connection, PLAIN.replace(NPY, target), "fragment")


INVALID_HOSTS = {
    "": "Host is missing",
    "Host: x\r\nhost: x\r\n": "Host is x, x",
    "Host: x\r\nHost: y\r\n": "Host is x, y",
    "Host: a b\r\n": "Host is a b",
    "Host: x/y\r\n": "Host is x/y",
    "Host: x:y\r\n": "Host is x:y",
    "Host: [x\r\n": "Host is [x",
    "Host: u@x\r\n": "Host is u@x",
    "Host: x%4\r\n": "Host is x%4",
}


@on_both_paths()
async def test_one_valid_host_is_required(connection: Connection) -> None:
    for host in ("", "x:8000", "[::1]:80", "127.0.0.1", "a_b.test", "x%41", "x:"):
        answer = await connection.answer(PLAIN.replace(": x", f": {host}"))
        assert answer[0] == "HTTP/1.1 200 OK"

    for hosts, told in INVALID_HOSTS.items():
        await expect_refusal(connection, PLAIN.replace("Host: x\r\n", hosts), told)


@on_both_paths()
async def test_http_1_0_needs_no_host(connection: Connection) -> None:
    old = PLAIN.replace("1.1", "1.0").replace("Host: x\r\n", "")

    assert (await connection.answer(old))[0] == "HTTP/1.1 200 OK"
