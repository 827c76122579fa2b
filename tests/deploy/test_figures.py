"""The figures of the deployments follow from the settings and from the budget of memory."""

import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from service.delivery.budget import (
    CONNECTION_BYTES,
    FLOOR_BYTES,
    Budget,
    Grant,
    GrantKind,
    setups_bytes,
)
from service.delivery.representation import DerivedBody
from service.delivery.streams import FIRST_BYTES, _held_bytes
from service.errors import Overloaded
from service.memory import MemoryLimit
from service.routes import REPORTS
from service.serving.start import fit_connections
from service.settings import MIB, Settings, default_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
EDGE = {file.name: file.read_text() for file in (DEPLOY / "edge").glob("*.conf")}
FOUND_IN_KUBERNETES = (DEPLOY / "kubernetes/replicas.conf").read_text()
COMPOSE = (ROOT / "docker-compose.yml").read_text()
COMPOSE_EDGE = (ROOT / "docker-compose.edge.yml").read_text()
OPERATIONS = (ROOT / "docs/operations.md").read_text()
SCALING = (ROOT / "docs/scaling.md").read_text()
UNITS = {"k": 2**10, "m": 2**20, "Mi": 2**20, "Gi": 2**30}

# Connections of the edge for a request that it passes on: that of the client, two to the inner
# server (its own, and the accepted one), and that to the replica.
CONNECTIONS_OF_A_REQUEST = 4


def bytes_of(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()  # type: ignore[union-attr]
    return int(number) * UNITS[unit]


def deployment_of(file: str) -> dict[str, Any]:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / file).read_text())
    (found,) = [each for each in documents if each["kind"] == "Deployment"]
    specification: dict[str, Any] = found["spec"]
    return specification


def container_of(file: str) -> dict[str, Any]:
    (container,) = deployment_of(file)["template"]["spec"]["containers"]
    return dict(container)


def environment() -> dict[str, str]:
    lines = (DEPLOY / "kubernetes/settings.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def settings_within(limit: str, **given: str) -> Settings:
    """Return the settings of a container with a limit of memory, in which more are given."""
    memory_bytes = MemoryLimit(bytes_of(limit), "").usable_bytes
    return Settings(memory_bytes=memory_bytes, **given)  # type: ignore[arg-type]


def replica() -> Settings:
    given = {
        name.removeprefix("POSREF_").lower(): value
        for name, value in environment().items()
        if name.startswith("POSREF_")
    }
    return settings_within(container_of("posref.yaml")["resources"]["limits"]["memory"], **given)


def replica_of_compose() -> Settings:
    (limit,) = re.findall(r"mem_limit: \$\{POSREF_CONTAINER_MEMORY:-(\w+)\}", COMPOSE_EDGE)
    return settings_within(limit)


REPLICAS = pytest.mark.parametrize("settings", [replica(), replica_of_compose()], ids=["k", "c"])


def directive(name: str, file: str = "limits.conf") -> list[str]:
    return re.findall(rf"\b{name} (.+?);", EDGE[file])


def posted_rules(file: str) -> str:
    """Return the directives of the location for requests with a body."""
    (rules,) = re.findall(r"location @posted {(.*?)\n *}", EDGE[file], re.DOTALL)
    return str(rules)


def seconds_of(text: str) -> int:
    return int(text.removesuffix("s"))


@REPLICAS
def test_settings_of_a_replica_fit_into_its_memory(settings: Settings) -> None:
    budget = Budget.of(settings)

    assert fit_connections(settings) == settings
    assert settings.cache_bytes <= budget.most_cache_bytes
    held_bytes = budget.reserve_bytes + budget.least_cache_bytes
    held_bytes += min(settings.max_held_body_bytes, 4 * settings.max_body_bytes)
    held_bytes += settings.max_connections * CONNECTION_BYTES
    assert held_bytes <= budget.limit_bytes


def test_memory_of_a_pod_is_described_with_its_parts() -> None:
    settings = replica()
    budget = Budget.of(settings)
    limit = container_of("posref.yaml")["resources"]["limits"]["memory"]
    parts = {
        "`resources.limits.memory`": bytes_of(limit),
        "`POSREF_MEMORY_BYTES`: four fifths of it": settings.memory_bytes,
        "the process, the server of forks and two spares": FLOOR_BYTES,
        "what several computations share": setups_bytes(settings),
        "what is granted": budget.limit_bytes,
        "of it the cache at most (`POSREF_CACHE_BYTES`)": settings.cache_bytes,
        "of it a reserve for small tables": budget.reserve_bytes,
        "of it all connections together": settings.max_connections * CONNECTION_BYTES,
    }

    for part, size_bytes in parts.items():
        assert f"| {part} | {size_bytes // MIB:,} MiB |" in OPERATIONS


def rows_of_examinations() -> list[str]:
    """Return what examinations cost, by the size of a float32 array."""
    rows = []
    for report in [*REPORTS.values()][3:]:
        for length, width in ((4, 4), (50, 512), (512, 512), (8192, 512)):
            seconds = report.inputs.seconds_of(length * width)
            held = f"{report.inputs.held_bytes_of(length * width) / MIB:,.1f} MiB"
            rate = f"{1 / seconds:,.0f}/s" if seconds <= 1 / 2 else f"{60 / seconds:,.0f}/min"
            rows.append(
                f"| `{report.path}` | {length}×{width} | {seconds:.2g} s | {held} | {rate} |"
            )
    return rows


def held_at_most(limit: int, **each_bytes: int) -> int:
    """Return how many of such groups of grants a replica has memory for, up to a limit."""
    budget = Budget.of(replica())
    held: list[Grant] = []
    for number in range(limit):
        try:
            for kind, size_bytes in each_bytes.items():
                held.append(budget.grant(cast(GrantKind, kind), size_bytes))
        except Overloaded:
            return number
    return limit


def test_what_a_replica_holds_is_that_of_the_page() -> None:
    settings = replica()
    most_bodies = settings.max_held_body_bytes // settings.max_body_bytes
    stream_bytes, connections = _held_bytes(FIRST_BYTES), settings.max_connections
    derived_bytes = stream_bytes + DerivedBody.state_bytes
    connection = {"connections": CONNECTION_BYTES}
    uses = {
        "an idle connection": (connection, connections),
        "an answer that nobody reads, with its connection": (
            {**connection, "streams": stream_bytes},
            connections,
        ),
        "the same as JSON or CSV with gzip": (
            {**connection, "streams": derived_bytes},
            connections,
        ),
        "the longest request body": ({"bodies": settings.max_body_bytes}, most_bodies),
    }

    for use, (each_bytes, number) in uses.items():
        size, most = sum(each_bytes.values()) // 1024, held_at_most(number, **each_bytes)
        assert f"| {use} | {size:,} KiB | {most:,} |" in SCALING


def test_costs_of_examinations_are_those_of_the_page() -> None:
    for row in rows_of_examinations():
        assert row in SCALING


def test_request_of_a_pod_holds_a_replica_with_a_full_cache() -> None:
    settings = replica()
    requested = container_of("posref.yaml")["resources"]["requests"]["memory"]

    full_bytes = FLOOR_BYTES + setups_bytes(settings) + settings.cache_bytes
    assert full_bytes <= bytes_of(requested)


def test_every_thread_and_the_event_loop_have_a_core() -> None:
    settings, cores = replica(), container_of("posref.yaml")["resources"]["limits"]["cpu"]

    assert settings.workers * (settings.threads + 1) == int(cores)


def test_folder_of_the_forkserver_is_in_bounded_memory() -> None:
    (volume,) = deployment_of("posref.yaml")["template"]["spec"]["volumes"]
    (mount,) = container_of("posref.yaml")["volumeMounts"]
    (size,) = re.findall(r"- /tmp:size=(\w+)$", COMPOSE, re.MULTILINE)
    limit = container_of("posref.yaml")["resources"]["limits"]["memory"]
    uncounted_bytes = bytes_of(limit) - replica().memory_bytes

    assert environment()["TMPDIR"] == mount["mountPath"]
    assert bytes_of(volume["emptyDir"]["sizeLimit"]) == bytes_of(size) < uncounted_bytes
    # The folder that engines give to every container, writable beside a read-only root.
    assert "TMPDIR=/dev/shm" in (ROOT / "Dockerfile").read_text()


def test_edges_have_fewer_connections_to_a_replica_than_it_admits() -> None:
    (of_an_edge,) = re.findall(r"max_conns=(\d+)", EDGE["replicas.conf"])
    (of_a_pod,) = re.findall(r"max_conns=(\d+)", FOUND_IN_KUBERNETES)
    edges = deployment_of("edge.yaml")
    pods = edges["replicas"] + edges["strategy"]["rollingUpdate"]["maxSurge"]

    assert int(of_an_edge) < replica_of_compose().max_connections
    assert pods * int(of_a_pod) < replica().max_connections


def test_one_address_cannot_take_all_connections_of_the_edge() -> None:
    (of_an_address,) = directive("limit_conn connections")
    (of_a_worker,) = directive("worker_connections", "nginx.conf")
    (files,) = directive("worker_rlimit_nofile", "nginx.conf")

    assert CONNECTIONS_OF_A_REQUEST * int(of_an_address) <= int(of_a_worker)
    assert 2 * int(of_a_worker) <= int(files)


def test_memory_of_the_edge_holds_the_buffers_of_its_connections() -> None:
    (first,) = directive("proxy_buffer_size", "nginx.conf")
    number, each = directive("proxy_buffers", "nginx.conf")[0].split()
    (body,) = directive("client_body_buffer_size")
    (of_an_address,) = directive("limit_conn connections")
    buffers_bytes = bytes_of(first) + int(number) * bytes_of(each) + bytes_of(body)

    limit = bytes_of(container_of("edge.yaml")["resources"]["limits"]["memory"])
    assert 2 * int(of_an_address) * buffers_bytes <= limit


def test_edge_limits_of_a_request_are_those_of_posref() -> None:
    settings = default_settings()
    (body,) = directive("client_max_body_size")
    number, header = directive("large_client_header_buffers")[0].split()

    assert bytes_of(body) == settings.max_body_bytes
    assert settings.max_url_bytes <= bytes_of(header)
    assert int(number) * bytes_of(header) <= settings.max_head_bytes


def test_edge_waits_for_the_longest_computation_and_does_not_begin_it_twice() -> None:
    settings = default_settings()
    longest_seconds = settings.wait_seconds + settings.max_request_seconds
    posted = {
        name: seconds_of(posted_rules(name).partition("proxy_read_timeout ")[2].partition(";")[0])
        for name in ("locations.conf", "replicas.conf")
    }
    (retried,) = directive("proxy_next_upstream_timeout")

    assert longest_seconds < posted["locations.conf"] < posted["replicas.conf"]
    assert seconds_of(retried) < posted["locations.conf"]


@pytest.mark.parametrize("name", ["locations.conf", "replicas.conf"])
def test_edge_does_not_repeat_a_refused_post(name: str) -> None:
    rule = "proxy_next_upstream error timeout invalid_header non_idempotent;"

    assert rule in posted_rules(name)
    others = " ".join(re.findall(r"proxy_next_upstream (.+?);", "".join(EDGE.values())))
    assert others.count("non_idempotent") == 2
