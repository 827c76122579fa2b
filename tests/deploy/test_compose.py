"""The compose files: every setting reaches the service, and nothing else is open."""

import re
from pathlib import Path

import pytest

from service.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
EDGE = (ROOT / "docker-compose.edge.yml").read_text()
TLS = (ROOT / "docker-compose.tls.yml").read_text()
CONFIGURATION = ROOT / "deploy" / "edge"


def test_every_setting_is_passed_on_but_for_the_address_and_the_port() -> None:
    passed = set(re.findall(r"^ +- POSREF_(\w+)$", COMPOSE, re.MULTILINE))

    assert passed == {name.upper() for name in Settings.model_fields} - {"HOST", "PORT"}


def test_answers_may_take_as_long_as_the_settings_let_them_before_a_container_is_killed() -> None:
    (grace,) = re.findall(r"stop_grace_period: (\d+)s", COMPOSE)
    fields = Settings.model_fields

    assert int(grace) > fields["drain_seconds"].default + fields["shutdown_seconds"].default


@pytest.mark.parametrize("compose", [COMPOSE, EDGE, TLS], ids=["plain", "edge", "tls"])
def test_ports_are_published_to_this_machine_only_unless_told(compose: str) -> None:
    published = re.findall(r'^ +- "(\S+):\d+"$', compose, re.MULTILINE)

    assert len(published) == 1
    assert published[0].startswith("${POSREF_BIND:-127.0.0.1}:")


def test_the_edge_gets_every_file_of_its_configuration() -> None:
    mounted = set(re.findall(r"\./deploy/edge/(\w+\.conf):", EDGE + TLS))

    assert mounted == {file.name for file in CONFIGURATION.glob("*.conf")}


def test_the_edge_closes_connections_to_posref_first() -> None:
    (kept_seconds,) = re.findall(
        r"keepalive_timeout (\d+)s", (CONFIGURATION / "replicas.conf").read_text()
    )

    assert int(kept_seconds) < Settings.model_fields["keep_alive_seconds"].default


def test_the_edge_takes_bodies_as_long_as_posref_does() -> None:
    (length,) = re.findall(
        r"client_max_body_size (\d+)m", (CONFIGURATION / "limits.conf").read_text()
    )

    assert int(length) * 2**20 == Settings.model_fields["max_body_bytes"].default


@pytest.mark.parametrize("file", sorted(CONFIGURATION.glob("*.conf")), ids=lambda file: file.name)
def test_no_line_of_the_configuration_is_commented_out(file: Path) -> None:
    comments = [line for line in file.read_text().splitlines() if line.lstrip().startswith("#")]

    assert not [line for line in comments if line.rstrip().endswith((";", "{", "}"))]
