"""The edge with replicas that end, hang or fail."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.system import nginx
from tests.system.connection import connected, spelled
from tests.system.faults import held
from tests.system.nginx import Edge
from tests.system.processes import free_port, wait_until
from tests.system.servers import MIB, Server, running

pytestmark = pytest.mark.system

TEXT = "/encoding.json?seq_len=30&d_model=64&revision=1"
BINARY = "/encoding.npy?seq_len=30&d_model=64&revision=1"
LONG = "/encoding.npy?seq_len=400000&d_model=512&revision=1"
LARGE = "/encoding.npy?seq_len=250&d_model=512&revision=1"
PART = "bytes=0-9000000"
PART_BYTES = 9_000_001
BRIEFLY = "proxy_hide_header Cache-Control; add_header Cache-Control max-age=1 always;"
SIXTH = f"bytes={5 * MIB}-"
APPLY = {"x": [[1, 2, 3, 4]], "positions": [3]}


def spellings(target: str, count: int) -> list[str]:
    return [f"{target}&start={start}" for start in range(1, count + 1)]


def is_stale(edge: Edge, target: str) -> bool:
    return edge.get(target).headers["X-Cache"] in {"STALE", "UPDATING"}


def test_lost_replica_of_two_fails_no_request(tmp_path: Path) -> None:
    with running() as kept, running() as gone, nginx.before([kept, gone], tmp_path) as edge:
        for target in spellings(BINARY, 20):
            assert edge.get(target).is_success
        assert gone.count("posref_builds_total") > 0
        assert kept.count("posref_builds_total") > 0
        gone.process.kill()
        gone.process.wait()

        fetched = [edge.get(target) for target in spellings(TEXT, 20)]
        posted = [
            httpx.post(edge.url("/rope/apply"), json=APPLY, trust_env=False) for _ in range(20)
        ]

    assert {answer.status_code for answer in [*fetched, *posted]} == {httpx.codes.OK}


def test_broken_keepalive_connections_fail_no_request(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(running()) for _ in range(2)]
        edge = stack.enter_context(nginx.before(servers, tmp_path))
        client = stack.enter_context(httpx.Client(trust_env=False))
        for _ in range(10):
            assert client.post(edge.url("/rope/apply"), json=APPLY).is_success
        servers[0].process.kill()

        answers = [client.post(edge.url("/rope/apply"), json=APPLY) for _ in range(10)]

    assert {answer.status_code for answer in answers} == {httpx.codes.OK}


def test_edge_serves_its_cache_without_replicas(tmp_path: Path) -> None:
    with running() as server, nginx.behind_relay(server, tmp_path, BRIEFLY) as (edge, relay):
        kept = {target: edge.get(target).content for target in (TEXT, BINARY)}
        edge.get(BINARY, Range="bytes=128-131")
        wait_until(
            "the cached answer is stale and is revalidated",
            lambda: edge.get(BINARY).headers["X-Cache"] == "REVALIDATED",
        )
        relay.end()

        for target, content in kept.items():
            wait_until("the cached answer is stale", partial(is_stale, edge, target))
            answer = edge.get(target)
            assert (answer.status_code, answer.content) == (httpx.codes.OK, content)
            assert edge.get(f"{target}&start=1").status_code == 502
        part = edge.get(BINARY, Range="bytes=128-131")
        assert (part.status_code, part.content) == (206, kept[BINARY][128:132])


def test_stale_answers_are_revalidated_with_304(tmp_path: Path) -> None:
    with running() as server, nginx.behind_relay(server, tmp_path, BRIEFLY) as (edge, _):
        first = edge.get(BINARY)
        built = server.count("posref_builds_total")
        wait_until(
            "the cached answer is stale and is revalidated",
            lambda: edge.get(BINARY).headers["X-Cache"] == "REVALIDATED",
        )

        assert edge.get(BINARY).content == first.content
        assert server.count("posref_answers_total", status="304") > 0
        assert server.count("posref_builds_total") == built


def test_request_that_finds_no_replica_is_tried_again(tmp_path: Path) -> None:
    requests = [("GET", TEXT), ("GET", "/encoding?d_model=2"), ("POST", "/rope/apply")]
    with nginx.before([free_port()], tmp_path) as edge:
        for method, target in requests:
            assert edge.request(method, target).status_code == httpx.codes.BAD_GATEWAY
        wait_until("all are logged", lambda: edge.requests().count("replica_status") >= 3)
        logged = [json.loads(line) for line in edge.requests().splitlines()]

    assert [each["replica_status"] for each in logged] == ["502, 502"] * len(requests)


def test_hung_replica_times_out_at_the_edge(server: Server, tmp_path: Path) -> None:
    timeouts = ("proxy_read_timeout 30s", "proxy_read_timeout 90s")
    changes = dict.fromkeys(timeouts, "proxy_read_timeout 1s")
    with nginx.before([server], tmp_path, changes=changes) as edge, held(server):
        answers = [edge.get(target) for target in (TEXT, BINARY, "/encoding?seq_len=2&d_model=2")]
        answers.append(edge.request("POST", "/rope/apply"))
        for answer in answers:
            assert answer.status_code == httpx.codes.GATEWAY_TIMEOUT
            assert answer.json()["type"] == "urn:posref:problem:gateway-timeout"


@pytest.mark.parametrize(
    "rule", ["return 444", "return 503", "return 500"], ids=["no answer", "overloaded", "failing"]
)
def test_truncated_answer_has_only_bytes_of_the_table(
    server: Server, tmp_path: Path, rule: str
) -> None:
    where = f'if ($http_range ~ "^{SIXTH}") {{ {rule}; }}'
    with nginx.behind_relay(server, tmp_path, where) as (edge, _):
        received: list[bytes] = []
        with httpx.stream(
            "GET", edge.url(LONG), headers={"Range": PART}, timeout=60, trust_env=False
        ) as answer:
            assert answer.headers["Content-Length"] == str(PART_BYTES)
            with pytest.raises(httpx.TransportError):
                received.extend(answer.iter_raw())

    assert b"".join(received) == server.range(LONG, 0, 5 * MIB - 1)


def test_refusal_of_a_replica_is_retried_for_get_and_passed_for_post(
    server: Server, tmp_path: Path
) -> None:
    rule = "location ~ ^/(?:rope|encoding) { add_header Retry-After 7 always; return 503; }"
    both = tmp_path / "both"
    both.mkdir()
    with (
        nginx.behind_relay(server, tmp_path, rule) as (_, refusing),
        nginx.before([server, refusing.port], both) as edge,
    ):
        fetched = [edge.get(target) for target in spellings(TEXT, 20)]
        posted = [
            httpx.post(edge.url(path), json=APPLY, trust_env=False)
            for path in ("/rope/apply", "/rope/apply.json")
            for _ in range(20)
        ]

    assert {answer.status_code for answer in fetched} == {httpx.codes.OK}
    refused = [answer for answer in posted if not answer.is_success]
    assert 0 < len(refused) < len(posted)
    assert {(each.status_code, each.headers["Retry-After"]) for each in refused} == {(503, "7")}


def test_slow_header_times_out_at_the_edge(server: Server, tmp_path: Path) -> None:
    changes = {"client_header_timeout 10s": "client_header_timeout 1s"}
    with nginx.before([server], tmp_path, changes=changes) as edge:
        with connected(edge.port) as slow:
            slow.send(spelled(TEXT)[:-3])
            assert slow.is_closed()
        assert edge.get(TEXT).is_success


def test_slow_body_times_out_at_the_edge(server: Server, tmp_path: Path) -> None:
    changes = {"client_body_timeout 30s": "client_body_timeout 1s"}
    with nginx.before([server], tmp_path, changes=changes) as edge:
        with connected(edge.port) as slow:
            slow.send(spelled("/rope/apply", "Content-Length: 50", method="POST"), b"{")
            assert slow.is_closed()
        assert edge.get(TEXT).is_success


def test_request_rate_limit_of_the_edge_answers_429(server: Server, tmp_path: Path) -> None:
    changes = {"rate=500r/s": "rate=1r/s", "burst=2000": "burst=4"}
    with nginx.before([server], tmp_path, changes=changes) as edge:
        answers = [edge.get(TEXT) for _ in range(20)]
        probes = [edge.get(probe) for probe in ("/livez", "/readyz", "/edge/healthz") * 5]

    refused = [answer for answer in answers if not answer.is_success]
    assert len(refused) >= 10
    for answer in refused:
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
        assert answer.json()["type"] == "urn:posref:problem:too-many-requests"
    assert {probe.status_code for probe in probes} == {httpx.codes.OK}


def test_connection_limit_of_the_edge_answers_429(server: Server, tmp_path: Path) -> None:
    changes = {"limit_conn connections 1024": "limit_conn connections 2"}
    with ExitStack() as stack:
        edge = stack.enter_context(nginx.before([server], tmp_path, changes=changes))
        for _ in range(2):
            slow = stack.enter_context(connected(edge.port))
            slow.send(spelled(LONG))
            slow.head()

        answer = edge.get(TEXT)

    assert answer.status_code == httpx.codes.TOO_MANY_REQUESTS
    assert answer.json()["type"] == "urn:posref:problem:too-many-requests"


def test_concurrent_misses_at_the_edge_build_a_table_once(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(running()) for _ in range(2)]
        edge = stack.enter_context(nginx.before(servers, tmp_path))
        client = stack.enter_context(httpx.Client(trust_env=False, timeout=60))
        pool = stack.enter_context(ThreadPoolExecutor(50))

        answers = list(pool.map(client.get, [edge.url(LARGE)] * 200))
        built = sum(server.count("posref_builds_total") for server in servers)
        upstream_requests = sum(
            server.count("posref_answers_total", path="/encoding.{extension}") for server in servers
        )

    assert len({answer.content for answer in answers}) == 1
    assert built == 1
    assert upstream_requests == 1
    assert edge_statuses(answers)["HIT"] >= 150


def edge_statuses(answers: list[httpx.Response]) -> dict[str, int]:
    statuses = [answer.headers["X-Cache"] for answer in answers]
    return {status: statuses.count(status) for status in statuses}


def test_edge_log_has_no_errors(server: Server, tmp_path: Path) -> None:
    with nginx.before([server], tmp_path) as edge:
        for target in (TEXT, BINARY, "/", "/docs", "/openapi.json"):
            edge.get(target)
            edge.get(target, If_Match='"x"')
            edge.head(target)
    assert "[alert]" not in edge.errors()
    assert "[emerg]" not in edge.errors()
    assert "[error]" not in edge.errors()
