"""Cached answers on the fast path are indistinguishable from those of the application."""

import time
from collections.abc import Iterator

import httpx
import pytest

from tests.system.connection import Connection, connected, spelled
from tests.system.servers import KIB, Server, running

pytestmark = pytest.mark.system

OK = "HTTP/1.1 200 OK"
KEEP_ALIVE_SECONDS = 1
SMALL = "/encoding.npy?seq_len=4&d_model=4&base=100"
BY_ACCEPT = "/encoding?seq_len=3&d_model=4"
JSON = "/encoding.json?seq_len=40&d_model=16"
MIDDLE = "/encoding.npy?seq_len=50&d_model=512"
LONG = "/encoding.npy?seq_len=1000&d_model=512"
STREAMED = "/encoding.json?seq_len=4000&d_model=512"
DIGEST = "/encoding.npy.sha256?seq_len=50&d_model=512"
TARGETS = [SMALL, BY_ACCEPT, JSON, MIDDLE, LONG, DIGEST]
PARAMETERS = b'{"seq_len": 2, "d_model": 4}'
POST = (
    spelled("/encoding", method="POST")[:-2]
    + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(PARAMETERS)
    + PARAMETERS
)
# Requests with this header bypass the fast path, and get the whole answer.
ROUNDABOUT = 'If-None-Match: "x"'


@pytest.fixture(scope="module", params=["true", "false"], ids="fast path {}".format)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Run a server with the fast path, and one without it."""
    with running(fast_path=request.param) as server:
        yield server


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with connected(server.port) as connection:
        yield connection


@pytest.fixture(scope="module")
def bodies(server: Server) -> dict[str, bytes]:
    """Request every table once, so that it is cached."""
    with connected(server.port) as connection:
        return {target: connection.ask(spelled(target)).body for target in TARGETS}


def kept(server: Server) -> int:
    return server.count("posref_answers_total", source="kept")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("accepting", ["", "Accept: */*", "Accept-Encoding: gzip"])
def test_fast_path_answers_equal_those_of_the_application(
    connection: Connection, target: str, accepting: str
) -> None:
    spelling = [target.replace("seq_len=", f"start={len(accepting)}&seq_len=")]
    spelling += [accepting] if accepting else []

    cold = connection.ask(spelled(*spelling))
    roundabout = connection.ask(spelled(*spelling, ROUNDABOUT))
    # The first is parsed, the next is known by its bytes.
    straight = [connection.ask(spelled(*spelling)) for _ in range(3)]

    for answer in (roundabout, *straight):
        assert answer.status == cold.status == OK
        assert answer.body == cold.body
        assert answer.lasting() == cold.lasting()
    for answer in (cold, roundabout, *straight):
        names = [name for name, _ in answer.headers]
        assert (names.count("date"), names.count("x-request-id")) == (1, 1)


def test_pipelined_requests_are_answered_in_order(
    connection: Connection, bodies: dict[str, bytes]
) -> None:
    cold = [f"/encoding.npy?start=77&seq_len={rows}&d_model=512" for rows in (600, 20_000)]
    warm = [SMALL, MIDDLE, LONG]
    targets = [*warm, "POST", SMALL, cold[0], MIDDLE, cold[1], SMALL, LONG, "POST", BY_ACCEPT]

    connection.send(*(POST if target == "POST" else spelled(target) for target in targets))
    answers = [connection.answer() for _ in targets]

    lengths = {cold[0]: 128 + 600 * 2048, cold[1]: 128 + 20_000 * 2048}
    for target, answer in zip(targets, answers, strict=True):
        assert answer.status == OK
        if target == "POST":
            assert b'"seq_len":2' in answer.body
        elif target in lengths:
            assert len(answer.body) == lengths[target]
        else:
            assert answer.body == bodies[target]


def test_requests_may_arrive_in_pieces(connection: Connection, bodies: dict[str, bytes]) -> None:
    text = spelled(SMALL) * 2 + POST + spelled(MIDDLE)
    for first in range(0, len(text), 7):
        connection.send(text[first : first + 7])

    answers = [connection.answer().body for _ in range(4)]

    assert answers[:2] == [bodies[SMALL]] * 2
    assert answers[3] == bodies[MIDDLE]


def test_more_pipelined_requests_than_one_read_are_all_answered(
    connection: Connection, bodies: dict[str, bytes]
) -> None:
    count = 300
    connection.send(*[spelled(MIDDLE)] * count)

    assert all(connection.answer().body == bodies[MIDDLE] for _ in range(count))


def test_connection_is_kept_alive(
    server: Server, connection: Connection, bodies: dict[str, bytes]
) -> None:
    before = kept(server)

    for _ in range(20):
        assert connection.ask(spelled(SMALL)).body == bodies[SMALL]

    assert kept(server) - before == 20


@pytest.mark.parametrize(
    "request_",
    [spelled(SMALL, "Connection: close"), spelled(SMALL, version="1.0")],
    ids=["Connection: close", "HTTP/1.0"],
)
def test_connection_close_is_confirmed(
    connection: Connection, bodies: dict[str, bytes], request_: bytes
) -> None:
    answer = connection.ask(request_)

    assert answer.body == bodies[SMALL]
    assert answer.header("connection") == "close"
    assert connection.is_closed()


@pytest.mark.parametrize("accepting", ["Accept: */*", "Accept-Encoding: gzip"])
def test_http_1_0_answer_of_streamed_text_has_a_content_length(
    server: Server, connection: Connection, accepting: str
) -> None:
    streamed = connection.ask(spelled(STREAMED, accepting))
    assert streamed.header("transfer-encoding") == "chunked"

    with connected(server.port) as old:
        counted = old.ask(spelled(STREAMED, accepting, version="1.0"))
        assert counted.header("transfer-encoding") is None
        assert counted.header("content-length") == str(len(streamed.body))
        assert counted.body == streamed.body
        assert old.is_closed()


def test_expect_100_continue_is_answered(connection: Connection, bodies: dict[str, bytes]) -> None:
    answer = connection.ask(spelled(SMALL, "Expect: 100-continue"))

    assert (answer.status, answer.body) == (OK, bodies[SMALL])
    assert connection.ask(spelled(MIDDLE)).body == bodies[MIDDLE]


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 5\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
    ids=["of known length", "in chunks"],
)
def test_body_of_a_get_is_not_parsed_as_a_request(
    connection: Connection, bodies: dict[str, bytes], body: bytes
) -> None:
    connection.send(spelled(SMALL)[:-2] + body, spelled(MIDDLE))

    assert connection.answer().body == bodies[SMALL]
    assert connection.answer().body == bodies[MIDDLE]


def test_accept_on_two_header_lines_is_one_list(connection: Connection) -> None:
    accepting = ("Accept: text/csv;q=0.5", "Accept: application/x-npy")
    answers = [connection.ask(spelled(BY_ACCEPT, *accepting)) for _ in range(3)]

    assert {answer.header("content-type") for answer in answers} == {"application/x-npy"}
    assert answers[0].body == answers[1].body == answers[2].body


def test_head_and_ranges_of_cached_answers_on_the_fast_path(
    connection: Connection, bodies: dict[str, bytes]
) -> None:
    connection.send(spelled(SMALL, method="HEAD"))
    head = connection.head()
    part = connection.ask(spelled(SMALL, "Range: bytes=128-131"))

    assert head.header("content-length") == str(len(bodies[SMALL]))
    assert (part.status, part.body) == ("HTTP/1.1 206 Partial Content", bodies[SMALL][128:132])
    assert connection.ask(spelled(SMALL)).body == bodies[SMALL]


def test_cached_answers_are_counted_with_their_bytes(
    server: Server, connection: Connection, bodies: dict[str, bytes]
) -> None:
    labels = {"path": "/encoding.{extension}", "status": "200", "source": "kept"}
    names = ("posref_answers_total", "posref_answer_body_bytes_total")
    before = [server.count(name, **labels) for name in names]

    connection.ask(spelled(MIDDLE))
    connection.ask(spelled(MIDDLE, ROUNDABOUT))

    counted = [server.count(name, **labels) for name in names]
    assert counted == [before[0] + 2, before[1] + 2 * len(bodies[MIDDLE])]
    assert len(bodies[MIDDLE]) > 100 * KIB


def test_server_with_idle_connections_exits_on_sigterm() -> None:
    with running() as server, connected(server.port) as one, connected(server.port) as other:
        for connection in (one, one, other, other):
            assert connection.ask(spelled(SMALL)).status == OK

        assert server.end() == 0
        assert one.is_closed()
        assert other.is_closed()


def test_idle_connection_is_closed_after_keep_alive_seconds() -> None:
    with running(keep_alive_seconds=KEEP_ALIVE_SECONDS) as server:
        with connected(server.port) as connection:
            for _ in range(3):
                assert connection.ask(spelled(SMALL)).status == OK
            assert connection.is_closed()
        assert server.get("/readyz").status_code == httpx.codes.OK


def test_slow_answer_after_a_cached_one_is_not_cut_by_the_idle_timeout() -> None:
    streamed = "/encoding.npy?seq_len=40000&d_model=512"
    with running(keep_alive_seconds=KEEP_ALIVE_SECONDS) as server, connected(server.port) as slow:
        assert slow.ask(spelled(SMALL)).status == OK
        slow.send(spelled(SMALL), spelled(streamed))
        time.sleep(3 * KEEP_ALIVE_SECONDS)

        assert slow.answer().status == OK
        length = int(slow.head().header("content-length") or 0)
        assert slow.received(length) == length == 128 + 40_000 * 2048
