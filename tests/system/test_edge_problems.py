"""Refusals by the edge, and problems of posref that pass it."""

import json
from pathlib import Path

import httpx
import pytest

from tests.system import nginx
from tests.system.connection import connected, spelled
from tests.system.nginx import Edge, unseen
from tests.system.processes import free_port
from tests.system.servers import MIB, Server

pytestmark = pytest.mark.system

TEXT = "/encoding.json?seq_len=300&d_model=64&revision=1"
BINARY = "/encoding.npy?seq_len=300&d_model=64&revision=1"
PRIVATE = "/encoding?seq_len=300&d_model=64"


def problem(answer: httpx.Response) -> str:
    """Return the name of a problem, and check the format of the document."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Cache-Control"] == "no-store"
    document = answer.json()
    assert list(document) == ["type", "title", "status", "detail", "errors"]
    assert document["status"] == answer.status_code
    assert document["title"]
    assert document["detail"]
    return str(document["type"]).removeprefix("urn:posref:problem:")


@pytest.mark.parametrize("target", ["/encoding.npy?seq_len=3", "/encoding.json?x=1", "/nothing"])
def test_problems_of_posref_pass_the_edge_unchanged(
    server: Server, edge: Edge, target: str
) -> None:
    direct = server.get(target)

    answers = [edge.get(target), edge.get(target)]

    for answer in answers:
        problem(answer)
        assert (answer.status_code, answer.content) == (direct.status_code, direct.content)
        assert answer.headers["X-Cache"] != "HIT"


def test_if_match_is_evaluated_by_posref(server: Server, edge: Edge) -> None:
    edge.get(BINARY)

    refused = edge.get(BINARY, If_Match='"of-other-bytes"')

    assert problem(refused) == "precondition-failed"
    assert refused.content == server.get(BINARY, If_Match='"of-other-bytes"').content


def test_too_long_url_is_refused_by_the_edge(edge: Edge) -> None:
    with connected(edge.port) as connection:
        answer = connection.ask(spelled(f"/encoding.npy?positions={'1,' * 40_000}1"))

    assert answer.status.startswith("HTTP/1.1 414 ")
    assert json.loads(answer.body)["type"] == "urn:posref:problem:url-too-long"


def test_url_of_almost_64_kib_passes_the_edge(edge: Edge) -> None:
    target = f"/encoding.npy?d_model=2&positions={'1,' * 30_000}1"

    answers = [edge.get(target) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert {answer.headers["X-Cache"] for answer in answers} == {"NONE"}


def test_too_long_headers_are_refused_by_the_edge(edge: Edge) -> None:
    answer = edge.get("/", X_Long="x" * 70_000)

    assert (answer.status_code, problem(answer)) == (431, "headers-too-large")


@pytest.mark.parametrize("is_chunked", [False, True])
def test_too_long_body_is_refused_by_the_edge(edge: Edge, is_chunked: bool) -> None:
    blocks = [bytes(MIB)] * 66
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
def test_malformed_request_is_refused_by_the_edge(edge: Edge, request_: bytes) -> None:
    with connected(edge.port) as connection:
        answer = connection.ask(request_)
        assert connection.is_closed()

    assert answer.status == "HTTP/1.1 400 Bad Request"
    assert answer.header("content-type") == "application/problem+json"
    assert json.loads(answer.body)["type"] == "urn:posref:problem:malformed-request"


def test_416_of_the_edge_has_the_length(edge: Edge) -> None:
    answer = edge.get(unseen(BINARY), Range="bytes=900000-")

    assert (answer.status_code, answer.headers["Content-Range"]) == (416, "bytes */76928")
    assert answer.json()["type"] == "urn:posref:problem:range-not-satisfiable"
    for name in ("X-Cache", "X-Request-Id"):
        assert len(answer.headers.get_list(name)) == 1
    assert "no-store" in answer.headers["Cache-Control"]


def test_metrics_are_not_served_at_the_edge(edge: Edge) -> None:
    answer = edge.get("/metrics")

    assert (answer.status_code, problem(answer)) == (404, "not-found")


def test_problem_locations_are_internal(edge: Edge) -> None:
    assert problem(edge.get("/edge/problems/bad-gateway")) == "not-found"


def test_no_answer_has_the_version_of_nginx(edge: Edge) -> None:
    for target in (TEXT, "/metrics", "/nothing"):
        assert edge.get(target).headers["Server"] == "nginx"


def test_without_replicas_every_answer_is_a_problem(tmp_path: Path) -> None:
    with nginx.before([free_port()], tmp_path) as alone:
        for target in (TEXT, BINARY, PRIVATE, "/readyz"):
            answer = alone.get(target)

            assert (answer.status_code, problem(answer)) == (502, "bad-gateway")
            assert answer.headers["Retry-After"] == "1"
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert alone.head(BINARY).status_code == 502
        posted = httpx.post(alone.url("/rope/apply"), content=b"{}", trust_env=False)
        assert (posted.status_code, problem(posted)) == (502, "bad-gateway")
        assert alone.get("/edge/healthz").status_code == 200
