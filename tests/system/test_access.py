"""API keys on a real server, mostly for cached answers."""

import json
from collections.abc import Iterator

import pytest

from tests.system.connection import Answer, connected, spelled
from tests.system.processes import wait_until
from tests.system.servers import Server, running

pytestmark = pytest.mark.system

KEY, OTHER = "correct-horse-battery", "staple-0123456789"
BEARER = f"Authorization: Bearer {OTHER}"
TARGET = "/encoding.npy?seq_len=4&d_model=4"
RIGHT = spelled(TARGET, BEARER)
WITHOUT = spelled(TARGET)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(api_keys=f"{KEY},{OTHER}", trusted_proxies="127.0.0.0/8") as started:
        yield started
        log = started.log.read_text()
        assert KEY not in log
        assert OTHER not in log


@pytest.fixture
def kept(server: Server) -> Answer:
    """Request a table until its answer is cached."""
    with connected(server.port) as connection:
        first, second = connection.ask(RIGHT), connection.ask(RIGHT)
    assert first.status == second.status == "HTTP/1.1 200 OK"
    assert first.body == second.body
    return second


def is_refused(answer: Answer) -> bool:
    return (
        answer.status.split()[1] == "401"
        and b"\x93NUMPY" not in answer.body
        and answer.header("cache-control") == "no-store"
        and answer.header("www-authenticate") == 'Bearer realm="posref"'
    )


def test_cached_answer_with_a_key_is_private(kept: Answer) -> None:
    assert kept.body.startswith(b"\x93NUMPY")
    assert kept.header("cache-control") == "private, max-age=86400"
    assert [name for name, _ in kept.headers].count("cache-control") == 1
    assert kept.header("x-content-type-options") == "nosniff"


def test_cached_answer_needs_a_key(server: Server, kept: Answer) -> None:
    assert kept.body
    with connected(server.port) as connection:
        assert is_refused(connection.ask(WITHOUT))
        assert connection.ask(RIGHT).body == kept.body
        assert is_refused(connection.ask(WITHOUT))


def test_key_applies_to_its_own_pipelined_request_only(server: Server, kept: Answer) -> None:
    with connected(server.port) as connection:
        connection.send(WITHOUT, RIGHT, WITHOUT, WITHOUT, RIGHT)
        answers = [connection.answer() for _ in range(5)]

    assert [is_refused(answer) for answer in answers] == [True, False, True, True, False]
    assert answers[1].body == answers[4].body == kept.body
    assert answers[1].header("cache-control") == "private, max-age=86400"


def test_cached_answer_needs_a_key_over_http_1_0(server: Server, kept: Answer) -> None:
    with connected(server.port) as connection:
        assert is_refused(connection.ask(spelled(TARGET, version="1.0")))
    with connected(server.port) as connection:
        answer = connection.ask(spelled(TARGET, BEARER, version="1.0"))

    assert answer.body == kept.body
    assert answer.header("cache-control") == "private, max-age=86400"


@pytest.mark.parametrize(
    "headers",
    [
        ("Range: bytes=0-9",),
        ("If-None-Match: *",),
        ("Accept: */*",),
        ("X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1"),
        ("Authorization: Bearer",),
        ("Authorization: Basic Zm9vOmJhcg==",),
        (BEARER, BEARER),
        (BEARER[:-1],),
    ],
)
def test_no_other_header_replaces_a_key(
    server: Server, kept: Answer, headers: tuple[str, ...]
) -> None:
    with connected(server.port) as connection:
        answer = connection.ask(spelled(TARGET, *headers))

    assert answer.status.split()[1] == "401"
    assert kept.body[:10] not in answer.body


def test_connection_survives_a_refused_body(server: Server) -> None:
    head = spelled("/rope/apply", "Content-Length: 300000", method="POST")
    with connected(server.port) as connection:
        connection.send(head, b"x" * 300_000, RIGHT)

        assert is_refused(connection.answer())
        assert connection.answer().status == "HTTP/1.1 200 OK"


def test_key_in_the_query_is_refused_and_not_repeated(server: Server) -> None:
    answer = server.get(f"{TARGET}&access_token={KEY}")

    assert answer.status_code == 401
    assert KEY not in answer.text


def test_probes_need_no_key_and_metrics_need_one(server: Server) -> None:
    assert server.get("/readyz").status_code == 200
    assert server.get("/livez").status_code == 200
    assert server.get("/metrics").status_code == 401
    assert server.get("/metrics", Authorization=f"bearer {KEY}").status_code == 200


def test_refusals_are_logged_without_query_and_key(server: Server) -> None:
    server.get(f"{TARGET}&key={KEY}", X_Request_Id="seen-once")

    wait_until("the line is there", lambda: "seen-once" in server.log.read_text())
    assert KEY not in server.log.read_text()
    (line,) = [line for line in server.log.read_text().splitlines() if "seen-once" in line]
    record = json.loads(line)
    assert (record["status"], record["path"], record["format"]) == (401, "/encoding.npy", "problem")
    assert "query" not in record
