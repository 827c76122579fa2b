"""The application: OpenAPI document, layers, and one build for concurrent requests."""

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from service.app import create_app
from service.delivery.dispatch import Delivery
from service.delivery.schedule import Work
from service.lazily import MadeOnDemand
from service.numerics.dtypes import Elements
from service.numerics.phasors import PhasorTable
from service.routes import ENDPOINTS, pages
from service.routes.table_urls import conventions
from service.settings import default_settings
from tests.client import Client, client_of
from tests.exchange import Exchange

COMMITTED = Path(__file__).parents[1] / "openapi.json"


def test_committed_openapi_document_is_the_served_one(client: Client) -> None:
    assert json.loads(COMMITTED.read_bytes()) == client.get("/openapi.json").json()


def test_openapi_document_is_valid(client: Client) -> None:
    validate(client.get("/openapi.json").json())


@pytest.mark.full
def test_concurrent_requests_for_one_table_build_it_once() -> None:
    with client_of(create_app(default_settings())) as fresh:
        delivery: Delivery = fresh.app.state.delivery

        answers = fresh.get_all(["/encoding.npy?seq_len=300&d_model=512"] * 200)

        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
        assert delivery.cache.builds == 1


def test_equivalent_urls_share_one_cached_body() -> None:
    urls = [
        "/encoding.npy?seq_len=3&d_model=4",
        "/encoding.npy?d_model=4&seq_len=3",
        "/encoding.npy?d_model=4&positions=0,1,2",
        "/encoding.npy?d_model=4&positions=0:3&base=1e4&dtype=float32&revision=1",
    ]
    with client_of(create_app(default_settings())) as fresh:
        answers = [fresh.get(url) for url in urls]

        assert len({answer.headers["ETag"] for answer in answers}) == 1
        assert fresh.app.state.delivery.cache.builds == 1


@pytest.mark.parametrize("path", ["/encoding?seq_len=1&d_model=2", "/whisper", "/"])
def test_nothing_is_imported_on_the_event_loop_nor_where_short_work_would_wait(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def noted(make: Callable[..., Any], *arguments: str) -> Any:
        threads.append(threading.current_thread().name)
        return make(*arguments)

    endpoints = MadeOnDemand(ENDPOINTS, partial(noted, ENDPOINTS.__getitem__))
    directory = MadeOnDemand("/", partial(noted, pages._DIRECTORY.__getitem__))
    monkeypatch.setattr("service.app.ENDPOINTS", endpoints)
    monkeypatch.setattr("service.app.conventions", partial(noted, conventions))
    monkeypatch.setattr("service.routes.pages._DIRECTORY", directory)

    with client_of(create_app(default_settings())) as fresh:
        first, second = fresh.get(path), fresh.get(path)

    assert first.content == second.content
    assert len(threads) == 1
    assert threads[0].startswith("posref-long")


def test_unknown_path_is_answered_while_long_work_leaves_no_time_to_import() -> None:
    settings = default_settings().model_copy(update={"threads": 1, "wait_seconds": 1})

    async def scenario(client: Client) -> tuple[Exchange, Exchange]:
        lane = client.app.state.delivery.scheduler.long
        async with Work(lane, 100).slot():
            busy = await Exchange(client.app, "GET", "/whisper").run()
        return busy, await Exchange(client.app, "GET", "/whisper").run()

    with client_of(create_app(settings)) as fresh:
        busy, idle = fresh.run(scenario(fresh))

    assert busy.status == idle.status == 404
    assert "/ lists what is here" in busy.json()["detail"]
    assert "did you mean /encoding with convention=whisper?" in idle.json()["detail"]


def test_nothing_is_computed_on_the_event_loop(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    read = PhasorTable.read

    def recorded(self: PhasorTable, start: int, stop: int) -> Elements:
        threads.append(threading.current_thread().name)
        return read(self, start, stop)

    monkeypatch.setattr(PhasorTable, "read", recorded)

    client.get("/encoding.npy?seq_len=31&d_model=6")
    client.post("/encoding/apply", json={"x": [[1.0, 2.0]]})

    assert len(threads) == 2
    assert all(name.startswith("posref-short") for name in threads)
