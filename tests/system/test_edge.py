"""The edge of deploy/ in front of a real server: what it keeps, refuses and passes on."""

import json
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.system import nginx
from tests.system.connection import connected, spelled
from tests.system.nginx import Edge
from tests.system.processes import free_port, wait_until
from tests.system.servers import MIB, Server, running

pytestmark = pytest.mark.system

TEXT = "/encoding.json?seq_len=300&d_model=64&revision=1"
BINARY = "/encoding.npy?seq_len=300&d_model=64&revision=1"
PRIVATE = "/encoding?seq_len=300&d_model=64"
HUGE = f"/encoding.npy?seq_len={2**30}&d_model=512&revision=1"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def edge(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with nginx.before([server], tmp_path_factory.mktemp("edge")) as edge:
        yield edge


STARTS = count(1)


def unseen(target: str) -> str:
    """Spell a target as nobody has before."""
    return f"{target}&start={next(STARTS)}"


def problem(answer: httpx.Response) -> str:
    """Give the name of a problem that is spelled as all of posref's are."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Cache-Control"] == "no-store"
    document = answer.json()
    assert list(document) == ["type", "title", "status", "detail", "errors"]
    assert document["status"] == answer.status_code
    assert document["title"]
    assert document["detail"]
    return str(document["type"]).removeprefix("urn:posref:problem:")


@pytest.mark.parametrize("target", [TEXT, BINARY, TEXT.replace("json", "csv")])
def test_an_answer_is_that_of_posref_and_is_asked_for_once(
    server: Server, edge: Edge, target: str
) -> None:
    target = unseen(target)
    direct = server.get(target)

    first, second = edge.get(target), edge.get(target)

    for answer in (first, second):
        assert (answer.status_code, answer.content) == (direct.status_code, direct.content)
        assert answer.headers.get("ETag") == direct.headers.get("ETag")
        assert answer.headers["Cache-Control"] == direct.headers["Cache-Control"]
    assert [first.headers["X-Cache"], second.headers["X-Cache"]] == ["MISS", "HIT"]


@pytest.mark.parametrize("target", [TEXT, BINARY])
def test_head_is_get_without_its_body(edge: Edge, target: str) -> None:
    whole, head = edge.get(target), edge.head(target)

    own = {"date", "x-cache", "x-request-id"}
    assert head.content == b""
    assert {k: v for k, v in head.headers.items() if k not in own} == {
        k: v for k, v in whole.headers.items() if k not in own
    }


@pytest.mark.parametrize(
    ("accepting", "coding"),
    [
        ("gzip", "gzip"),
        ("gzip, deflate, br, zstd", "gzip"),
        ("deflate;q=0.9,GZIP;q=1.0, identity;q=0.3", "gzip"),
        ("", None),
        ("br", None),
        ("gzip;q=0", None),
        ("gzip;q=0.000, br", None),
        ("x-gzip-like", None),
        ("identity", None),
    ],
)
def test_every_spelling_of_what_a_client_decodes_finds_one_of_two_bodies(
    server: Server, edge: Edge, accepting: str, coding: str | None
) -> None:
    for first in ("gzip", "identity"):
        edge.get(TEXT, Accept_Encoding=first)

    answer = edge.get(TEXT, Accept_Encoding=accepting)

    assert answer.headers.get("Content-Encoding") == coding
    assert answer.headers["X-Cache"] == "HIT"
    assert answer.json() == server.get(TEXT).json()
    assert "accept-encoding" in answer.headers["Vary"].lower()


@pytest.mark.parametrize("accepting", ["identity;q=0", "br, *;q=0", "gzip, identity;q=0"])
def test_a_client_that_takes_no_plain_body_is_answered_by_posref(
    server: Server, edge: Edge, accepting: str
) -> None:
    for target in (TEXT, BINARY):
        edge.get(target)
        direct = server.get(target, Accept_Encoding=accepting)

        answer = edge.get(target, Accept_Encoding=accepting)

        assert answer.headers["X-Cache"] == "NONE"
        assert (answer.status_code, answer.content) == (direct.status_code, direct.content)


@pytest.mark.parametrize(
    ("target", "headers"),
    [(PRIVATE, {}), (TEXT, {"Authorization": "Bearer x"}), (BINARY, {"Authorization": "Bearer x"})],
    ids=["without an extension", "text with a key", "a file with a key"],
)
def test_what_is_one_clients_own_is_kept_for_nobody(
    server: Server, edge: Edge, target: str, headers: dict[str, str]
) -> None:
    target = unseen(target)
    before = server.count("posref_answers_total", status="200")

    answers = [edge.get(target, **headers) for _ in range(3)]

    assert {answer.headers["X-Cache"] for answer in answers} == {"NONE"}
    assert {answer.status_code for answer in answers} == {httpx.codes.OK}
    assert server.count("posref_answers_total", status="200") - before >= 3


def test_conditions_that_can_fail_are_judged_by_posref(server: Server, edge: Edge) -> None:
    edge.get(BINARY)

    refused = edge.get(BINARY, If_Match='"of-other-bytes"')

    assert problem(refused) == "precondition-failed"
    assert refused.content == server.get(BINARY, If_Match='"of-other-bytes"').content


def test_a_range_in_a_post_is_no_business_of_the_edge(server: Server, edge: Edge) -> None:
    asked = {"json": {"seq_len": 3, "d_model": 4}, "headers": {"Range": "bytes=0-0"}}
    direct = httpx.post(server.url("/encoding.npy"), trust_env=False, **asked)  # type: ignore[arg-type]

    through = httpx.post(edge.url("/encoding.npy"), trust_env=False, **asked)  # type: ignore[arg-type]

    assert (through.status_code, through.content) == (direct.status_code, direct.content)


@pytest.mark.parametrize("target", ["/encoding.npy?seq_len=3", "/encoding.json?x=1", "/nothing"])
def test_a_problem_of_posref_passes_as_it_is(server: Server, edge: Edge, target: str) -> None:
    direct = server.get(target)

    answers = [edge.get(target), edge.get(target)]

    for answer in answers:
        problem(answer)
        assert (answer.status_code, answer.content) == (direct.status_code, direct.content)
        assert answer.headers["X-Cache"] != "HIT"


def test_a_url_that_is_too_long_is_refused(edge: Edge) -> None:
    with connected(edge.port) as connection:
        answer = connection.ask(spelled(f"/encoding.npy?positions={'1,' * 40_000}1"))

    assert answer.status.startswith("HTTP/1.1 414 ")
    assert json.loads(answer.body)["type"] == "urn:posref:problem:url-too-long"


def test_a_url_of_almost_64_kib_is_not(edge: Edge) -> None:
    target = f"/encoding.npy?d_model=2&positions={'1,' * 30_000}1"

    answers = [edge.get(target) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert {answer.headers["X-Cache"] for answer in answers} == {"NONE"}


def test_headers_that_are_too_long_are_refused(edge: Edge) -> None:
    answer = edge.get("/", X_Long="x" * 70_000)

    assert (answer.status_code, problem(answer)) == (431, "headers-too-large")


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_too_long_is_refused(edge: Edge, is_chunked: bool) -> None:
    blocks = [bytes(MIB)] * 65
    body = iter(blocks) if is_chunked else b"".join(blocks)

    answer = httpx.post(edge.url("/rope/apply"), content=body, timeout=60, trust_env=False)

    assert (answer.status_code, problem(answer)) == (413, "body-too-large")


@pytest.mark.parametrize(
    "request_",
    [
        b"garbage\r\n\r\n",
        b"GET / HTTP/1.1\r\nno header\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/7.0\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\nConnection: close\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(edge: Edge, request_: bytes) -> None:
    with connected(edge.port) as connection:
        answer = connection.ask(request_)
        assert connection.is_closed()

    assert answer.status == "HTTP/1.1 400 Bad Request"
    assert answer.header("content-type") == "application/problem+json"
    assert json.loads(answer.body)["type"] == "urn:posref:problem:malformed-request"


def test_a_range_past_the_end_is_refused_with_the_length(edge: Edge) -> None:
    answer = edge.get(unseen(BINARY), Range="bytes=900000-")

    assert (answer.status_code, answer.headers["Content-Range"]) == (416, "bytes */76928")
    assert answer.json()["type"] == "urn:posref:problem:range-not-satisfiable"
    for name in ("X-Cache", "X-Request-Id"):
        assert len(answer.headers.get_list(name)) == 1
    assert "no-store" in answer.headers["Cache-Control"]


def test_counts_of_one_replica_are_not_asked_for_at_the_edge(edge: Edge) -> None:
    answer = edge.get("/metrics")

    assert (answer.status_code, problem(answer)) == (404, "not-found")


def test_nobody_can_ask_for_a_problem(edge: Edge) -> None:
    assert problem(edge.get("/edge/problems/bad-gateway")) == "not-found"


def test_no_answer_says_which_nginx_it_is(edge: Edge) -> None:
    for target in (TEXT, "/metrics", "/nothing"):
        assert edge.get(target).headers["Server"] == "nginx"


@pytest.mark.parametrize("given", ["a", "0f-3.b_Z", "x" * 128])
def test_a_request_id_is_passed_on_and_answered(edge: Edge, given: str) -> None:
    for target in (TEXT, BINARY, PRIVATE, "/metrics", "/readyz"):
        answer = edge.get(target, X_Request_Id=given)

        assert answer.headers.get_list("X-Request-Id") == [given]


@pytest.mark.parametrize("given", ["", "x" * 129, "two words", 'quo"te', "sl/ash"])
def test_an_unusable_request_id_is_replaced(edge: Edge, given: str) -> None:
    made = {edge.get(TEXT, X_Request_Id=given).headers["X-Request-Id"] for _ in range(2)}

    assert len(made) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in made)


def test_every_request_is_a_line_of_json_in_the_log(edge: Edge) -> None:
    answer = edge.get(TEXT, X_Request_Id="found-in-the-log", Accept_Encoding="identity")

    wait_until("the request is in the log", lambda: "found-in-the-log" in edge.requests())
    lines = [json.loads(line) for line in edge.requests().splitlines()]
    (line,) = [line for line in lines if line["request_id"] == "found-in-the-log"]
    assert (line["method"], line["path"], line["status"]) == ("GET", "/encoding.json", 200)
    assert (line["bytes"], line["cache"]) == (len(answer.content), "HIT")


def test_probes_are_asked_every_time(server: Server, edge: Edge) -> None:
    before = server.count("posref_answers_total", path="/readyz")

    answers = [edge.get("/readyz") for _ in range(3)]

    assert {answer.content for answer in answers} == {server.get("/readyz").content}
    assert server.count("posref_answers_total", path="/readyz") - before >= 3


def test_pages_are_compressed_at_the_edge(server: Server, edge: Edge) -> None:
    for target in ("/openapi.json", "/docs"):
        answer = edge.get(target, Accept_Encoding="gzip")

        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.content == server.get(target).content
        assert "Content-Encoding" not in edge.get(target, Accept_Encoding="identity").headers


def test_a_huge_table_that_is_read_whole_is_not_kept(server: Server, edge: Edge) -> None:
    before, asked = edge.kept_bytes(), 64 * MIB
    with httpx.stream("GET", edge.url(HUGE), timeout=60, trust_env=False) as answer:
        blocks = answer.iter_raw(MIB)
        whole = b"".join(next(blocks) for _ in range(asked // MIB))

    assert whole == server.range(HUGE, 0, asked - 1)
    assert edge.kept_bytes() - before < 8 * MIB


def test_without_a_replica_every_request_gets_a_problem(tmp_path: Path) -> None:
    with nginx.before([free_port()], tmp_path) as alone:
        for target in (TEXT, BINARY, PRIVATE, "/readyz"):
            answer = alone.get(target)

            assert (answer.status_code, problem(answer)) == (502, "bad-gateway")
            assert answer.headers["Retry-After"] == "1"
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert alone.head(BINARY).status_code == 502
        posted = httpx.post(alone.url("/rope/apply"), content=b"{}", trust_env=False)
        assert problem(posted) == "bad-gateway"
        assert alone.get("/edge/healthz").status_code == 200
