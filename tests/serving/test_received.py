"""Requests that are known by their bytes get the answers that they get when they are parsed."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import pytest

from service.delivery.cache import CachedResponse, ResponseCache
from service.delivery.responses import CachedBody
from service.serving import connections, fast_path
from service.serving.connections import LimitedProtocol
from tests.delivery.telemetry.lines import Lines
from tests.serving.connections import (
    NPY,
    PLAIN,
    Connection,
    connected,
    on_connection,
    until,
    with_opened,
)
from tests.serving.test_requests import (
    AMBIGUOUS,
    BODY_OF_GET,
    IN_CHUNKS,
    INVALID_HOSTS,
    OFFERS,
    PARAMETERS,
    POST,
    RANGE,
    WITH_LENGTH,
    offering,
)

BODY_BYTES = 192
OTHER = PLAIN.replace("=4&", "=5&")
LARGE = PLAIN.replace(NPY, "/encoding.npy?seq_len=512&d_model=512")
GARBAGE = "GARBAGE\r\n\r\n"


def with_header(line: str) -> str:
    return PLAIN[:-2] + f"{line}\r\n\r\n"


ORDINARY = {
    "plain": PLAIN,
    "another table": OTHER,
    "a long body": LARGE,
    "not cached": PLAIN.replace(NPY, "/livez"),
    "refused": PLAIN.replace(NPY, "/encoding?seq_len=x"),
    "a client's headers": with_header("User-Agent: x/1\r\nAccept: */*\r\nCookie: a=b"),
    "compressed": with_header("Accept-Encoding: gzip").replace("npy", "json"),
    "several lists": with_header("Accept: a/b\r\nAccept: c/d"),
    "head": PLAIN.replace("GET", "HEAD"),
    "options": PLAIN.replace("GET", "OPTIONS"),
    "post": WITH_LENGTH,
    "in chunks": IN_CHUNKS,
    "range": RANGE,
    "condition": with_header("If-None-Match: *"),
    "body of a get": BODY_OF_GET,
    "a get as a body": POST + f"Content-Length: {len(PLAIN)}\r\n\r\n" + PLAIN,
    "expectation": with_header("Expect: 100-continue"),
    "close": with_header("Connection: close"),
    "old": PLAIN.replace("1.1", "1.0"),
    "old, kept alive": with_header("Connection: keep-alive").replace("1.1", "1.0"),
    "absolute target": PLAIN.replace(NPY, f"http://x{NPY}"),
    "request id": with_header("X-Request-Id: own-1"),
    "forwarded": with_header("X-Forwarded-For: 192.0.2.1"),
    "line feeds before": f"\r\n\r\n{PLAIN}",
    "line feeds after": f"{PLAIN}\r\n",
    "two": PLAIN + OTHER,
    "two with a post": PLAIN + WITH_LENGTH,
    **{f"offer {number}": offering(PLAIN, offer) for number, offer in enumerate(OFFERS)},
}
HOSTILE = {
    "garbage": GARBAGE,
    "a method in lower case": PLAIN.replace("GET", "get"),
    "no blank line": PLAIN[:-2],
    "bare line feeds": PLAIN.replace("\r\n", "\n"),
    "a bare line feed at the end": PLAIN[:-2] + "\n",
    "a folded header": with_header("X: a\r\n b"),
    "a null": with_header("X: a\0b"),
    "a header of a request": f"GET {NPY} HTTP/1.1\r\nX: {PLAIN}",
    "a long url": PLAIN.replace(NPY, f"{NPY}&positions={'1,' * 600}"),
    "a long head": with_header(f"X: {'x' * 2048}"),
    "connect": "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a fragment": PLAIN.replace(NPY, "/livez#f"),
    "a target elsewhere": PLAIN.replace(NPY, "ftp://x/"),
    "another version": PLAIN.replace("1.1", "2.0"),
    "no version": f"GET {NPY}\r\n\r\n",
    "a smuggled request": POST + "Content-Length: 4\r\n\r\n" + PLAIN,
    **{each: PLAIN.replace("Host: x\r\n", each) for each in INVALID_HOSTS},
    **{each: f"{POST}{each}\r\n{PARAMETERS}{PLAIN}" for each in AMBIGUOUS},
    **{f"GET, {each}": with_header(each.removesuffix("\r\n")) for each in AMBIGUOUS},
}
CASES = ORDINARY | HOSTILE


@pytest.fixture
def hits(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the requests that were known by their bytes."""
    found, find = [], ResponseCache.find_received

    def watched(cache: ResponseCache, request: bytes) -> tuple[CachedResponse, CachedBody] | None:
        match = find(cache, request)
        if match is not None:
            found.append(request)
        return match

    monkeypatch.setattr(ResponseCache, "find_received", watched)
    return found


async def make_known(connection: Connection, *requests: str) -> None:
    """Send requests until they are known: one fills the cache, the next is parsed and kept."""
    for request in requests:
        for _ in range(2):
            await connection.answer(request)


@on_connection()
async def test_a_known_request_is_not_parsed(
    connection: Connection, hits: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await connection.answer(PLAIN)
    await make_known(connection, PLAIN)
    protocol = await connection.protocol()
    monkeypatch.setattr(protocol, "parser", None)

    assert await connection.answer(PLAIN) == first
    assert hits == [PLAIN.encode()] * 2
    assert len(set(connection.request_ids)) == 4
    assert connection.cached_answers == 3


@on_connection()
async def test_a_known_request_waits_for_the_response_before_it(connection: Connection) -> None:
    await make_known(connection, PLAIN)
    protocol = await connection.protocol()
    for request in (OTHER, PLAIN):
        protocol.data_received(request.encode())

    assert [len((await connection.answer())[2]) for _ in range(2)] == [208, 192]


@on_connection()
async def test_a_known_request_waits_for_bytes_that_are_not_parsed(connection: Connection) -> None:
    await make_known(connection, PLAIN, OTHER)
    protocol = await connection.protocol()
    # Each portion that is parsed ends where a request does.
    request = with_header("X: ").encode()
    assert connections._PORTION_BYTES % len(request) == 0
    protocol.data_received(request * 2000)
    assert protocol._unparsed
    protocol.data_received(OTHER.encode())

    assert [len((await connection.answer())[2]) for _ in range(2001)] == [192] * 2000 + [208]


@on_connection()
async def test_a_known_request_in_a_head_belongs_to_it(connection: Connection) -> None:
    await make_known(connection, PLAIN)
    protocol = await connection.protocol()
    for piece in (f"{PLAIN}GET /livez HTTP/1.1\r\nX: ", PLAIN):
        protocol.data_received(piece.encode())

    assert len((await connection.answer())[2]) == 192
    assert (await connection.answer())[2] == b'{"status":"ok"}'
    assert len((await connection.answer(PLAIN))[2]) == 192


@on_connection()
async def test_a_known_request_in_a_body_belongs_to_it(connection: Connection) -> None:
    await make_known(connection, PLAIN, OTHER)
    posted = POST.replace("json", "pdf") + f"Content-Length: {len(PLAIN)}\r\n\r\n"
    assert (await connection.answer(posted))[0].split()[1] == "415"
    protocol = await connection.protocol()
    for piece in (PLAIN, OTHER):
        protocol.data_received(piece.encode())

    assert len((await connection.answer())[2]) == 208


@on_connection()
async def test_a_known_request_after_the_last_answer_gets_none(connection: Connection) -> None:
    await make_known(connection, PLAIN)
    protocol = await connection.protocol()
    for piece in (PLAIN + PLAIN.replace("Host: x\r\n", ""), PLAIN):
        protocol.data_received(piece.encode())

    assert (await connection.answer())[0] == "HTTP/1.1 200 OK"
    assert (await connection.answer())[0] == "HTTP/1.1 400 Bad Request"
    assert await connection.is_closed()


@on_connection()
async def test_known_requests_of_a_client_that_reads_nothing_wait(connection: Connection) -> None:
    await make_known(connection, LARGE)
    protocol = await connection.protocol()
    connection.reader._limit = 0  # type: ignore[attr-defined]
    for _ in range(20):
        protocol.data_received(LARGE.encode())
        await asyncio.sleep(0.01)

    assert protocol.transport.get_write_buffer_size() < 2 * 2**20


@on_connection()
async def test_a_draining_server_closes_the_connection_after_a_known_request(
    connection: Connection,
) -> None:
    await make_known(connection, PLAIN)
    connection.delivery.is_draining = True

    assert (await connection.answer(PLAIN))[1]["connection"] == "close"
    assert await connection.is_closed()


@on_connection()
async def test_several_requests_in_one_segment_are_all_answered_again(
    connection: Connection,
) -> None:
    await make_known(connection, PLAIN, OTHER)
    protocol = await connection.protocol()
    for _ in range(3):
        protocol.data_received((OTHER + PLAIN).encode())

        assert [len((await connection.answer())[2]) for _ in range(2)] == [208, 192]
    assert [len((await connection.answer(each))[2]) for each in (PLAIN, OTHER)] == [192, 208]


@on_connection()
async def test_a_request_that_the_application_answers_is_not_known(
    connection: Connection, hits: list[bytes]
) -> None:
    await make_known(connection, PLAIN)
    for request in (RANGE, PLAIN.replace(NPY, "/livez"), PLAIN.replace("GET", "OPTIONS")):
        first = await connection.answer(request)
        for _ in range(2):
            assert await connection.answer(request) == first

    assert not hits


def test_the_headers_of_one_client_are_never_those_of_another() -> None:
    lines = Lines()

    @on_connection(log_writer=lines)
    async def ask(connection: Connection) -> None:
        for _ in range(3):
            for line in ("X-Request-Id: own", "X-Forwarded-For: 192.0.2.1", "X: x"):
                await connection.answer(with_header(line))
        assert connection.request_ids[::3] == ["own"] * 3
        assert len(set(connection.request_ids)) == 1 + 6

    ask()

    forwarded = [line.get("forwarded_for") for line in lines.read()]
    assert forwarded == [None, "192.0.2.1", None] * 3


@on_connection()
async def test_the_date_of_a_known_request_is_that_of_its_answer(connection: Connection) -> None:
    await make_known(connection, PLAIN)
    for date in (b"tomorrow", b"the day after"):
        connection.state.default_headers = [(b"date", date)]
        assert (await connection.answer(PLAIN))[1]["date"] == date.decode()


def test_a_known_request_is_counted_and_logged_like_one_that_is_parsed() -> None:
    lines = Lines()

    @on_connection(log_writer=lines)
    async def ask(connection: Connection) -> None:
        for _ in range(4):
            await connection.answer(PLAIN)
        kept = [
            (tally.number, tally.body_bytes)
            for labels, tally in connection.delivery.tallies.items()
            if "kept" in labels
        ]
        assert kept == [(3, 3 * BODY_BYTES)]
        assert connection.delivery.cache.hits == 3
        assert connection.state.total_requests == 4
        written = lines.read()
        assert [line.pop("request_id") for line in written] == connection.request_ids
        _, parsed, *known = [line | {"time": "", "seconds": 0} for line in written]
        assert known == [parsed] * 2

    ask()


@on_connection()
async def test_a_known_request_restarts_the_idle_time(connection: Connection) -> None:
    await make_known(connection, PLAIN)
    protocol = await connection.protocol()
    parsed_at = protocol.idle_since(0)
    await connection.answer(PLAIN)
    known_at = protocol.idle_since(0)
    assert parsed_at is not None
    assert known_at is not None
    assert parsed_at < known_at
    # As if the timer of the parsed request ended now.
    protocol.timeout_keep_alive_handler()

    assert protocol.timeout_keep_alive_task is not None
    assert protocol.timeout_keep_alive_task.when() == pytest.approx(known_at + 75, abs=1e-3)
    assert (await connection.answer(PLAIN))[0] == "HTTP/1.1 200 OK"


@on_connection(keep_alive_seconds=1)
async def test_an_idle_connection_is_closed_in_time_after_a_known_request(
    connection: Connection,
) -> None:
    await make_known(connection, PLAIN)
    await connection.answer(PLAIN)

    assert await asyncio.wait_for(connection.reader.read(), 10) == b""


@on_connection()
async def test_a_request_whose_body_was_evicted_is_answered_anew(
    connection: Connection, hits: list[bytes]
) -> None:
    await make_known(connection, PLAIN)
    first = await connection.answer(PLAIN)
    hits.clear()
    connection.delivery.cache.bodies.shrink(2**40)

    assert (await connection.answer(PLAIN))[2] == first[2]
    assert not hits
    assert await connection.answer(PLAIN) == first
    assert hits


@on_connection(cache_bytes=2**20)
async def test_known_requests_take_bounded_memory(connection: Connection) -> None:
    for number in range(50):
        await make_known(connection, with_header(f"User-Agent: {number}"))
    received = connection.delivery.response_cache._received

    assert 0 < len(received) < 10
    assert received.size_bytes <= received.capacity_bytes == 2**20 // 64


@on_connection()
async def test_long_requests_are_not_looked_up(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ResponseCache, "find_received", None)
    long = with_header(f"User-Agent: {'x' * 2048}")
    for _ in range(3):
        assert (await connection.answer(long))[0] == "HTTP/1.1 200 OK"


@asynccontextmanager
async def paired() -> AsyncIterator[Connection]:
    async with connected(max_head_bytes=2048, max_url_bytes=1024) as connection:
        yield connection


async def transcript(connection: Connection, pieces: Sequence[str], *, is_patient: bool) -> bytes:
    """Return what a new connection answers to these segments, until it is closed.

    Args:
        pieces: the segments, behind two requests by which the next may be known.
        is_patient: whether each segment waits for the answers to the one before.
    """
    before = set(connection.state.connections)
    other = await connection.other()
    answers = asyncio.create_task(other.reader.read())
    await until(lambda: len(connection.state.connections) > len(before))
    (protocol,) = connection.state.connections - before
    assert isinstance(protocol, LimitedProtocol)

    def is_quiet() -> bool:
        is_closing: bool = protocol.transport.is_closing()
        if is_closing or protocol.pipeline:
            return is_closing
        waits = protocol.has_unread_body() and protocol.cycle.message_event._waiters
        return bool(waits) or (protocol.is_idle() and not protocol._unparsed)

    for number, piece in enumerate([PLAIN, PLAIN, *pieces]):
        if is_patient or number < 2:
            await until(is_quiet)
        protocol.data_received(piece.encode("latin-1"))
    await until(is_quiet)
    if protocol.is_idle():
        protocol.shutdown()
    elif not protocol.transport.is_closing():
        protocol.cut_off()
    received = await answers
    other.writer.close()
    await until(lambda: set(connection.state.connections) <= before)
    return re.sub(rb"x-request-id: (?!own-1)\S+", b"x-request-id: new", received)


async def expect_same(
    connection: Connection, pieces: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that segments get the same answers with and without the look-up."""
    for is_patient in (True, False):
        known = await transcript(connection, pieces, is_patient=is_patient)
        with monkeypatch.context() as patched:
            patched.setattr(fast_path, "_MAX_REQUEST_BYTES", -1)
            assert await transcript(connection, pieces, is_patient=is_patient) == known, pieces


async def fill_caches(connection: Connection, case: str) -> None:
    for pieces in ([PLAIN, OTHER], [case], [case]):
        await transcript(connection, pieces, is_patient=True)


on_pair = with_opened(paired, "connection")


@pytest.mark.parametrize("name", CASES)
@on_pair
async def test_answers_are_the_same_with_and_without_the_look_up(
    connection: Connection, name: str, hits: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    await fill_caches(connection, case)
    for pieces in (
        [case],
        [case, case],
        [case, PLAIN],
        [PLAIN, case, OTHER, case, PLAIN],
        [PLAIN + case],
        [case + PLAIN],
        [PLAIN + case + PLAIN, PLAIN],
    ):
        await expect_same(connection, pieces, monkeypatch)

    assert PLAIN.encode() in hits


async def expect_same_however_it_is_split(
    connection: Connection, case: str, cuts: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill_caches(connection, case)
    for cut in cuts:
        await expect_same(connection, [PLAIN, case[:cut], case[cut:], PLAIN], monkeypatch)


@pytest.mark.parametrize("name", CASES)
@on_pair
async def test_answers_are_the_same_wherever_a_request_is_split(
    connection: Connection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    cuts = Random(name).sample(range(1, len(case)), 3)
    await expect_same_however_it_is_split(connection, case, cuts, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
@on_pair
async def test_answers_are_the_same_at_every_split_of_a_request(
    connection: Connection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    cuts = range(1, min(len(case), 256))
    await expect_same_however_it_is_split(connection, case, cuts, monkeypatch)
