"""The compose files pass every setting and publish nothing else."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path

import pytest

from service.serving.supervisor import longest_end_seconds
from service.settings import Settings, default_settings

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
EDGE = (ROOT / "docker-compose.edge.yml").read_text()
KUBERNETES = (ROOT / "deploy/kubernetes/settings.env").read_text()
TLS = (ROOT / "docker-compose.tls.yml").read_text()
CONFIGURATION = ROOT / "deploy" / "edge"
SHARED = IPv4Network("100.64.0.0/10")


def test_compose_passes_every_setting_but_address_and_port() -> None:
    passed = set(re.findall(r"^ +- POSREF_(\w+)$", COMPOSE, re.MULTILINE))

    assert passed == {name.upper() for name in Settings.model_fields} - {"HOST", "PORT"}


def test_every_worker_has_ended_before_the_stop_grace_period_has() -> None:
    (grace,) = re.findall(r"stop_grace_period: (\d+)s", COMPOSE)

    assert int(grace) > longest_end_seconds(default_settings())


def test_every_worker_has_ended_before_the_grace_period_of_its_pod_has() -> None:
    pod = (ROOT / "deploy/kubernetes/posref.yaml").read_text()
    (grace,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", pod)
    (waits,) = re.findall(r"preStop:\s+sleep:\s+seconds: (\d+)", pod)
    lines = KUBERNETES.splitlines()
    given = dict(line.split("=") for line in lines if line.endswith(tuple("0123456789")))
    settings = default_settings().model_copy(
        update={
            name: int(given[f"POSREF_{name.upper()}"])
            for name in ("drain_seconds", "shutdown_seconds")
        }
    )

    assert int(grace) > int(waits) + longest_end_seconds(settings)


@pytest.mark.parametrize("compose", [COMPOSE, EDGE, TLS], ids=["plain", "edge", "tls"])
def test_compose_publishes_ports_on_loopback_by_default(compose: str) -> None:
    published = re.findall(r'^ +- "(\S+):\d+"$', compose, re.MULTILINE)

    assert len(published) == 1
    assert published[0].startswith("${POSREF_BIND:-127.0.0.1}:")


def test_compose_mounts_every_file_of_the_edge_configuration() -> None:
    mounted = set(re.findall(r"\./deploy/edge/(\w+\.conf):", EDGE + TLS))

    assert mounted == {file.name for file in CONFIGURATION.glob("*.conf")}


def trusted_by(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return the proxies that replicas trust behind the edge."""
    (proxies,) = re.findall(r"POSREF_TRUSTED_PROXIES(?:=|:-)([\w./,:]+)", text)
    return Settings(trusted_proxies=proxies).trusted_networks


@pytest.mark.parametrize("edge", ["10.0.0.7", "172.18.0.4", "192.168.96.2", "fd00::4"])
@pytest.mark.parametrize("text", [EDGE, KUBERNETES], ids=["compose", "kubernetes"])
def test_replicas_trust_an_edge_on_any_private_network_and_no_other(text: str, edge: str) -> None:
    networks = trusted_by(text)

    assert any(ip_address(edge) in network for network in networks)
    assert all(network.is_private or network == SHARED for network in networks)


def test_edge_sends_the_address_of_the_client_alone() -> None:
    sent = re.findall(r"X-Forwarded-For (\S+);", (CONFIGURATION / "forwarded.conf").read_text())

    assert sent == ["$remote_addr"]


def test_edge_keepalive_is_shorter_than_that_of_posref() -> None:
    (kept_seconds,) = re.findall(
        r"keepalive_timeout (\d+)s", (CONFIGURATION / "replicas.conf").read_text()
    )

    assert int(kept_seconds) < Settings.model_fields["keep_alive_seconds"].default


def test_edge_body_limit_is_that_of_posref() -> None:
    (length,) = re.findall(
        r"client_max_body_size (\d+)m", (CONFIGURATION / "limits.conf").read_text()
    )

    assert int(length) * 2**20 == Settings.model_fields["max_body_bytes"].default


@pytest.mark.parametrize("file", sorted(CONFIGURATION.glob("*.conf")), ids=lambda file: file.name)
def test_edge_configuration_has_no_commented_out_lines(file: Path) -> None:
    comments = [line for line in file.read_text().splitlines() if line.lstrip().startswith("#")]

    assert not [line for line in comments if line.rstrip().endswith((";", "{", "}"))]
