"""What costly requests leave to others: no memory held for those who left, answers beside a flood.

How long others wait is measured by ``benchmarks.starvation``.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.starvation.flood import FLOOD, WAYS, Flood, flood
from benchmarks.starvation.kinds import KINDS, Kind, examination
from benchmarks.starvation.pairs import Pair, pair
from benchmarks.starvation.probes import measured
from benchmarks.starvation.server import Served, serving
from tests.system import nginx

pytestmark = pytest.mark.system

NUMBER = 16
SECONDS = 0.4


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module", params=KINDS.values(), ids=lambda kind: kind.name)
def costly(server: Served, request: pytest.FixtureRequest) -> Pair:
    """Send cheap requests while costly ones of a kind are under way, whose clients then leave."""
    kind = request.param
    assert isinstance(kind, Kind)
    return pair(server, kind, NUMBER, measured(server.port, SECONDS), SECONDS)


def test_costly_requests_get_an_answer_or_a_deliberate_refusal(costly: Pair) -> None:
    assert set(costly.answers) <= {"sent", "200", "413", "422", "503"}


def test_nothing_is_held_for_clients_that_left(costly: Pair) -> None:
    assert costly.left.held_bytes <= 0


@pytest.fixture(scope="module", params=[*WAYS, "the edge"])
def flooded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Flood:
    """Send a flood of one client, and reports of another, told apart in one of three ways."""
    costly = examination("identify", 50)
    if request.param == "the edge":
        return _flooded_through_the_edge(costly, tmp_path_factory.mktemp("edge"))
    senders, settings = WAYS[request.param]
    with serving(settings=settings) as server:
        return flood(server.port, costly, senders, retries=False)


def _flooded_through_the_edge(costly: bytes, folder: Path) -> Flood:
    settings = {"POSREF_TRUSTED_PROXIES": "127.0.0.1"}
    with serving(settings=settings) as server, nginx.before([server.port], folder) as edge:
        return flood(edge.port, costly, WAYS["two addresses"][0], retries=False)


def test_another_client_is_answered_beside_a_flood(flooded: Flood) -> None:
    assert all(math.isfinite(seconds) for seconds in flooded.reports)


def test_requests_of_a_flood_are_answered_or_told_when_to_come_back(flooded: Flood) -> None:
    assert set(flooded.statuses) <= {200, 503}
    assert not any(map(math.isnan, flooded.waits))
    assert sum(flooded.statuses.values()) <= FLOOD
