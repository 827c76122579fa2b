"""The compose stack with the edge and three replicas."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import count, repeat
from pathlib import Path
from threading import Event

import httpx
import pytest

from tests.system import debian
from tests.system.clients import Request, Requests, running_clients
from tests.system.connection import spelled
from tests.system.engine import Engine
from tests.system.processes import free_port, run, wait_until
from tests.system.servers import MIB
from tests.system.stack import Stack, running_stack

pytestmark = pytest.mark.system

BINARY = "/encoding.npy?seq_len=250&d_model=512&revision=1"
TEXT = "/encoding.json?seq_len=100&d_model=64&revision=1"
HUGE = f"/encoding.npy?seq_len={2**30}&d_model=512&revision=1"
APPLY = b'{"x": [[1, 2, 3, 4]], "positions": [3]}'
LONG = "/encoding.npy?seq_len=200000&d_model=512&revision=1"
LONG_BYTES = 128 + 200_000 * 512 * 4
PART_BYTES = 2_500_000
DETACHED = ("--detach", "--wait", "--no-build", "--pull=never")
TLS = ("docker-compose.yml", "docker-compose.edge.yml", "docker-compose.tls.yml")


@pytest.fixture(scope="module")
def stack(engine: Engine) -> Iterator[Stack]:
    with running_stack(engine) as stack:
        yield stack


def spread(stack: Stack, requests: int = 30) -> list[int]:
    """Request new tables, and return the number built by each replica."""
    before = sum(stack.counts("posref_builds_total"))
    spread_from = before * 1000
    for number in range(requests):
        assert stack.get(
            f"/encoding.npy?seq_len=2&d_model=4&start={spread_from + number}"
        ).is_success
    return stack.counts("posref_builds_total")


def test_only_the_edge_is_published_on_loopback(stack: Stack) -> None:
    ports = {
        name: stack.engine.docker("port", name)
        for service in ("posref", "edge")
        for name in stack.containers(service)
    }

    published = [port for port in ports.values() if port]
    assert published == [f"8000/tcp -> 127.0.0.1:{stack.port}"]
    assert len(ports) == 4


def test_edge_runs_without_capabilities(stack: Stack) -> None:
    (edge,) = stack.containers("edge")
    settings = json.loads(stack.engine.docker("inspect", "--format={{json .HostConfig}}", edge))

    assert stack.engine.docker("exec", edge, "id", "--user") == "101"
    assert (settings["ReadonlyRootfs"], settings["CapDrop"]) == (True, ["ALL"])
    assert settings["SecurityOpt"] == ["no-new-privileges:true"]


async def concurrently(port: int, target: str, clients: int) -> list[tuple[bytes, bytes]]:
    """Return the heads and bodies of the answers to one request on each of many connections.

    All connections are open before the first request is sent, and a request is sent on each before
    an answer is read.
    """
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(clients)]
    for _, writer in streams:
        writer.write(spelled(target, "Connection: close"))
    answers = await asyncio.gather(*(reader.read() for reader, _ in streams))
    for _, writer in streams:
        writer.close()
    heads_and_bodies = (answer.partition(b"\r\n\r\n") for answer in answers)
    return [(head, body) for head, _, body in heads_and_bodies]


def test_thousand_concurrent_requests_build_a_table_once(stack: Stack) -> None:
    before = sum(stack.counts("posref_builds_total"))

    answers = asyncio.run(concurrently(stack.port, BINARY, 1000))

    assert {head.partition(b"\r\n")[0] for head, _ in answers} == {b"HTTP/1.1 200 OK"}
    assert {body for _, body in answers} == {stack.get(BINARY).content}
    assert sum(stack.counts("posref_builds_total")) - before == 1
    statuses = [re.findall(rb"(?i)x-cache: (.+)\r", head) for head, _ in answers]
    assert statuses.count([b"HIT"]) >= 900
    assert statuses.count([b"HIT"]) + statuses.count([b"MISS"]) == 1000


def test_tables_are_distributed_over_all_replicas(stack: Stack) -> None:
    assert min(spread(stack)) > 0


@pytest.mark.parametrize("first", [0, 2**40 + 7 * MIB - 1000, 2**40 + 3])
def test_ranges_of_a_table_larger_than_the_cache_are_its_bytes(stack: Stack, first: int) -> None:
    whole = f"bytes={first}-{first + 3 * MIB - 1}"
    replica = f"{stack.replica_urls()[0]}{HUGE}"
    direct = httpx.get(replica, headers={"Range": whole}, timeout=60, trust_env=False)

    parts = [
        stack.get(HUGE, Range=f"bytes={start}-{start + MIB // 2 - 1}")
        for start in range(first, first + 3 * MIB, MIB // 2)
    ]

    assert {part.status_code for part in parts} == {httpx.codes.PARTIAL_CONTENT}
    assert b"".join(part.content for part in parts) == direct.content
    assert stack.get(HUGE, Range=whole).headers["X-Cache"] == "HIT"


def test_rolling_restart_fails_no_request(stack: Stack) -> None:
    def restart_all() -> None:
        for container in stack.containers():
            stack.restart(container)

    answered = answers_during(restart_all, stack)

    assert answered > 100


def test_scaling_up_and_down_fails_no_request(stack: Stack) -> None:
    def scale() -> None:
        for replicas in ("2", "3"):
            stack.compose("up", *DETACHED, "--no-recreate", POSREF_REPLICAS=replicas)
            assert len(stack.containers()) == int(replicas)

    answered = answers_during(scale, stack)

    assert answered > 100
    wait_until("the replica that came is asked, too", lambda: min(spread(stack)) > 0)


def answers_during(disturb: Callable[[], None], stack: Stack) -> int:
    """Disturb a stack under load, and return the number of answers, all of which must be right."""
    new = "/encoding.npy?seq_len=9&d_model=64&start={client}{{:06}}"
    cached = [BINARY, TEXT, *(new.format(client=client) for client in (1, 2))]
    with (
        running_clients(stack.port, [*map(gets, cached), posts()], 1) as kept,
        running_clients(
            stack.port, [gets("/rope?head_dim=8&seq_len={}"), posts()], 1, keep_alive=False
        ) as unkept,
    ):
        disturb()
    assert kept.failures == unkept.failures == []
    return (kept.right + unkept.right).total()


def gets(pattern: str) -> Requests:
    """Request targets; ``{}`` in the pattern is a number that grows."""
    return (Request("get", spelled(pattern.format(number))) for number in count(1))


def posts() -> Requests:
    headers = ("Content-Type: application/json", f"Content-Length: {len(APPLY)}")
    return repeat(Request("post", spelled("/rope/apply", *headers, method="POST") + APPLY))


def test_download_survives_a_rolling_restart(stack: Stack) -> None:
    are_restarted = Event()
    with ThreadPoolExecutor(1) as pool:
        download = pool.submit(digest_of_parts, stack.url(LONG), are_restarted)
        try:
            for container in stack.containers():
                stack.restart(container)
        finally:
            are_restarted.set()
        through = download.result()

    assert through == digest_of(f"{stack.replica_urls()[0]}{LONG}")


def digest_of_parts(url: str, is_hurried: Event) -> str:
    """Download range by range, slowly until is_hurried, and return the digest."""
    digest = sha256()
    for first in range(0, LONG_BYTES, PART_BYTES):
        asked = {"Range": f"bytes={first}-{first + PART_BYTES - 1}"}
        part = httpx.get(url, headers=asked, timeout=60, trust_env=False)
        assert part.status_code == httpx.codes.PARTIAL_CONTENT
        digest.update(part.content)
        is_hurried.wait(0.5)
    return digest.hexdigest()


def digest_of(url: str) -> str:
    digest = sha256()
    with httpx.stream("GET", url, timeout=60, trust_env=False) as answer:
        assert answer.is_success
        for block in answer.iter_raw(MIB):
            digest.update(block)
    return digest.hexdigest()


def test_edge_exits_with_code_0_on_stop(stack: Stack) -> None:
    (edge,) = stack.containers("edge")
    stack.compose("stop", "edge")
    try:
        state = json.loads(stack.engine.docker("inspect", "--format={{json .State}}", edge))
        assert state["ExitCode"] == 0
    finally:
        stack.compose("up", *DETACHED)


def test_cached_answers_are_sent_without_replicas(stack: Stack) -> None:
    kept = {target: stack.get(target).content for target in (TEXT, BINARY)}
    stack.compose("stop", "posref")
    try:
        for target, content in kept.items():
            answer = stack.get(target)
            assert (answer.status_code, answer.content) == (httpx.codes.OK, content)
        fresh = [
            stack.get(f"{target}&start=77") for target in (TEXT, BINARY, "/encoding?d_model=2")
        ]
        fresh.append(
            httpx.post(stack.url("/rope/apply"), content=APPLY, timeout=60, trust_env=False)
        )
        for answer in fresh:
            assert answer.status_code in {502, 504}
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert answer.json()["status"] == answer.status_code
    finally:
        stack.compose("start", "posref")
    wait_until(
        "fresh tables are answered again",
        lambda: stack.get(f"{BINARY}&start=77").is_success,
        seconds=120,
    )


def test_certificates_enable_http_2_over_tls(stack: Stack, tmp_path: Path) -> None:
    debian.install(["curl", "openssl"])
    made = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    key, certificate = tmp_path / "tls.key", tmp_path / "tls.crt"
    name = ("-addext", "subjectAltName=DNS:localhost")
    run("openssl", "req", *made, *name, "-keyout", key, "-out", certificate)
    tmp_path.chmod(0o755)
    key.chmod(0o644)
    port = free_port()
    variables = {"POSREF_CERTIFICATES": str(tmp_path), "POSREF_TLS_PORT": str(port)}
    try:
        stack.compose("up", *DETACHED, files=TLS, **variables)
        (edge,) = stack.containers("edge")
        asked = ("curl", "--silent", "--noproxy", "*", "--cacert", certificate, "--include")
        answer = run(*asked, "--http2", f"https://localhost:{port}{TEXT}")
        refused = run(*asked, "--http1.1", f"https://localhost:{port}/metrics")

        assert stack.engine.docker("port", edge) == f"8443/tcp -> 127.0.0.1:{port}"
        assert answer.startswith("HTTP/2 200")
        assert "strict-transport-security: max-age=31536000" in answer.lower()
        assert refused.startswith("HTTP/1.1 404")
    finally:
        stack.compose("up", *DETACHED)
