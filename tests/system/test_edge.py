"""The edge in front of a real server: caching, refusals, and passing on."""

import json
import re
from pathlib import Path

import httpx
import pytest

from benchmarks.scaling.edge import running as benchmarked
from tests.system.connection import connected
from tests.system.nginx import Edge, unseen
from tests.system.processes import wait_until
from tests.system.servers import MIB, Server

pytestmark = pytest.mark.system

TEXT = "/encoding.json?seq_len=300&d_model=64&revision=1"
BINARY = "/encoding.npy?seq_len=300&d_model=64&revision=1"
PRIVATE = "/encoding?seq_len=300&d_model=64"
HUGE = f"/encoding.npy?seq_len={2**28}&d_model=512&revision=1"
TOO_LONG = f"/encoding.npy?seq_len={2**30}&d_model=512&revision=1"
KEPT_BYTES = 10_000_000


@pytest.mark.parametrize("target", [TEXT, BINARY, TEXT.replace("json", "csv")])
def test_edge_caches_the_answer_of_posref(server: Server, edge: Edge, target: str) -> None:
    target = unseen(target)
    direct = server.get(target)

    first, second = edge.get(target), edge.get(target)

    for answer in (first, second):
        assert (answer.status_code, answer.content) == (direct.status_code, direct.content)
        assert answer.headers.get("ETag") == direct.headers.get("ETag")
        assert answer.headers["Cache-Control"] == direct.headers["Cache-Control"]
    assert [first.headers["X-Cache"], second.headers["X-Cache"]] == ["MISS", "HIT"]


def test_edge_answers_clients_of_http_1_0_that_send_no_host(server: Server, edge: Edge) -> None:
    for target in map(unseen, (TEXT, BINARY, PRIVATE)):
        with connected(edge.port) as connection:
            answer = connection.ask(f"GET {target} HTTP/1.0\r\n\r\n".encode())
        assert (answer.status, answer.body) == ("HTTP/1.1 200 OK", server.get(target).content)


@pytest.mark.parametrize("is_plain", [True, False])
def test_edge_of_the_scaling_benchmark_runs_the_deployed_files(
    server: Server, tmp_path: Path, *, is_plain: bool
) -> None:
    with benchmarked([server.port], tmp_path, keeps=not is_plain, hashes=not is_plain) as edge:
        target = unseen(BINARY)
        assert httpx.get(f"{edge.origin}{target}").content == server.get(target).content


@pytest.mark.parametrize("target", [TEXT, BINARY])
def test_head_is_get_without_its_body(edge: Edge, target: str) -> None:
    whole, head = edge.get(target), edge.head(target)

    # The digest is known once the whole body is.
    own = {"date", "x-cache", "x-request-id", "repr-digest"}
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
def test_edge_caches_one_plain_and_one_gzipped_body(
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
def test_refused_identity_coding_passes_to_posref(
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
def test_private_answers_are_not_cached_by_the_edge(
    server: Server, edge: Edge, target: str, headers: dict[str, str]
) -> None:
    target = unseen(target)
    before = server.count("posref_answers_total", status="200")

    answers = [edge.get(target, **headers) for _ in range(3)]

    assert {answer.headers["X-Cache"] for answer in answers} == {"NONE"}
    assert {answer.status_code for answer in answers} == {httpx.codes.OK}
    assert server.count("posref_answers_total", status="200") - before >= 3


def test_range_of_a_post_is_ignored_by_the_edge(server: Server, edge: Edge) -> None:
    asked = {"json": {"seq_len": 3, "d_model": 4}, "headers": {"Range": "bytes=0-0"}}
    direct = httpx.post(server.url("/encoding.npy"), trust_env=False, **asked)  # type: ignore[arg-type]

    through = httpx.post(edge.url("/encoding.npy"), trust_env=False, **asked)  # type: ignore[arg-type]

    assert (through.status_code, through.content) == (direct.status_code, direct.content)


@pytest.mark.parametrize("given", ["a", "0f-3.b_Z", "x" * 128])
def test_edge_passes_the_request_id_both_ways(edge: Edge, given: str) -> None:
    for target in (TEXT, BINARY, PRIVATE, "/metrics", "/readyz"):
        answer = edge.get(target, X_Request_Id=given)

        assert answer.headers.get_list("X-Request-Id") == [given]


@pytest.mark.parametrize("given", ["", "x" * 129, "two words", 'quo"te', "sl/ash"])
def test_an_unusable_request_id_is_replaced(edge: Edge, given: str) -> None:
    made = {edge.get(TEXT, X_Request_Id=given).headers["X-Request-Id"] for _ in range(2)}

    assert len(made) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in made)


def test_edge_logs_every_request_as_json(edge: Edge) -> None:
    edge.get(TEXT, Accept_Encoding="identity")
    answer = edge.get(TEXT, X_Request_Id="found-in-the-log", Accept_Encoding="identity")

    wait_until("the request is in the log", lambda: "found-in-the-log" in edge.requests())
    lines = [json.loads(line) for line in edge.requests().splitlines()]
    (line,) = [line for line in lines if line["request_id"] == "found-in-the-log"]
    assert (line["method"], line["path"], line["status"]) == ("GET", "/encoding.json", 200)
    assert (line["bytes"], line["cache"]) == (len(answer.content), "HIT")


def test_probes_are_not_cached_by_the_edge(server: Server, edge: Edge) -> None:
    before = server.count("posref_answers_total", path="/readyz")

    answers = [edge.get("/readyz") for _ in range(3)]

    assert {answer.content for answer in answers} == {server.get("/readyz").content}
    assert server.count("posref_answers_total", path="/readyz") - before >= 3


def test_edge_compresses_pages(server: Server, edge: Edge) -> None:
    for target in ("/openapi.json", "/docs"):
        answer = edge.get(target, Accept_Encoding="gzip")

        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.content == server.get(target).content
        assert "Content-Encoding" not in edge.get(target, Accept_Encoding="identity").headers


def test_whole_huge_table_is_not_cached_by_the_edge(server: Server, edge: Edge) -> None:
    before, asked = edge.kept_bytes(), 64 * MIB
    with httpx.stream("GET", edge.url(HUGE), timeout=60, trust_env=False) as answer:
        blocks = answer.iter_raw(MIB)
        whole = b"".join(next(blocks) for _ in range(asked // MIB))

    assert whole == server.range(HUGE, 0, asked - 1)
    assert edge.kept_bytes() - before < 8 * MIB


def test_table_above_max_response_bytes_is_served_in_ranges_only(
    server: Server, edge: Edge
) -> None:
    whole, part = edge.get(TOO_LONG), edge.get(TOO_LONG, Range="bytes=0-127")

    assert (whole.status_code, whole.content) == (413, server.get(TOO_LONG).content)
    assert (part.status_code, part.content) == (206, server.range(TOO_LONG, 0, 127))


@pytest.mark.parametrize(
    ("first", "length", "is_kept"),
    [
        (0, KEPT_BYTES, True),
        (5, KEPT_BYTES, True),
        (9_999_990, 20, True),
        (9 * KEPT_BYTES, KEPT_BYTES, True),
        (2**38 + 3 * KEPT_BYTES, KEPT_BYTES, True),
        (10**8 - 10, 20, False),
        (2**38, 2 * KEPT_BYTES, False),
        (123_456, 10**8, False),
        (12_345, 10**8, False),
    ],
)
def test_edge_caches_short_ranges_and_passes_long_ones(
    server: Server, edge: Edge, first: int, length: int, is_kept: bool
) -> None:
    spelled = f"bytes={first}-{first + length - 1}"

    answers = [edge.get(HUGE, Range=spelled) for _ in range(2)]

    assert {answer.status_code for answer in answers} == {httpx.codes.PARTIAL_CONTENT}
    assert {len(answer.content) for answer in answers} == {length}
    assert answers[0].content == answers[1].content == server.range(HUGE, first, first + length - 1)
    assert answers[1].headers["X-Cache"] == ("HIT" if is_kept else "NONE")


def test_long_range_with_a_common_prefix_is_no_short_one(edge: Edge) -> None:
    for spelled in ("bytes=12345-123459999999", "bytes=1-100000000", "bytes=100-1009999999"):
        with httpx.stream(
            "GET", edge.url(HUGE), headers={"Range": spelled}, timeout=60, trust_env=False
        ) as answer:
            assert answer.status_code == httpx.codes.PARTIAL_CONTENT
            assert answer.headers["X-Cache"] == "NONE"


def test_edge_sends_the_address_of_the_client_whatever_the_client_sends(
    server: Server, edge: Edge
) -> None:
    edge.get(unseen(PRIVATE), X_Forwarded_For="192.0.2.7", X_Request_Id="forwarded-once")

    wait_until("the line is there", lambda: "forwarded-once" in server.log.read_text())
    (line,) = [line for line in server.log.read_text().splitlines() if "forwarded-once" in line]
    assert json.loads(line)["forwarded_for"] == "127.0.0.1"
