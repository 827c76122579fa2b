"""Counts of what was answered."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from service.app import create_app
from service.delivery.metrics import Counted
from service.settings import default_settings
from tests.client import Client, client_of

NPY = "/encoding.npy?seq_len=4&d_model=4"


@pytest.fixture
def fresh() -> Iterator[Client]:
    with client_of(create_app(default_settings())) as client:
        yield client


def counts(client: Client) -> dict[str, float]:
    lines = client.get("/metrics").text.splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


def answers(path: str, status: int, source: str) -> str:
    return f'posref_answers_total{{path="{path}",source="{source}",status="{status}"}}'


def test_every_answer_is_counted_by_route_status_and_source(fresh: Client) -> None:
    path = "/encoding.{extension}"
    fresh.get(NPY)
    fresh.get(NPY)
    fresh.head(NPY)
    fresh.get(NPY, range="bytes=0-9")
    fresh.get(NPY, range="bytes=999-")
    fresh.get(NPY, if_none_match="*")
    fresh.get("/encoding?seq_len=4")
    fresh.get("/nowhere")

    counted = counts(fresh)

    assert counted[answers(path, 200, "made")] == 1
    assert counted[answers(path, 200, "kept")] == 2
    assert counted[answers(path, 206, "kept")] == 1
    assert counted[answers(path, 304, "kept")] == 1
    assert counted[answers(path, 416, "made")] == 1
    assert counted[answers("/encoding", 422, "made")] == 1
    assert counted[answers("other", 404, "made")] == 1
    sent = answers(path, 200, "kept").replace("answers", "answer_body_bytes")
    assert counted[sent] == 192
    assert counted["posref_builds_total"] == 1
    assert counted["posref_cache_bytes"] > 192
    assert counted["posref_waiting_work"] == 0


def test_the_process_is_described_too(fresh: Client) -> None:
    assert counts(fresh)["process_resident_memory_bytes"] > 0


def test_counts_are_never_cached_and_come_as_asked_for(fresh: Client) -> None:
    plain = fresh.get("/metrics")
    open_metrics = fresh.get("/metrics", accept="application/openmetrics-text; version=1.0.0")

    assert plain.headers["Cache-Control"] == "no-store"
    assert plain.headers["Content-Type"].startswith("text/plain; version=")
    assert open_metrics.headers["Content-Type"].startswith("application/openmetrics-text")
    assert open_metrics.text.endswith("# EOF\n")


def test_what_is_no_request_is_not_counted(fresh: Client) -> None:
    scopes: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        scopes.append(scope["type"])

    metrics = fresh.app.state.delivery.metrics
    asyncio.run(Counted(app, metrics)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]

    assert scopes == ["lifespan"]
    assert not metrics._tallies
