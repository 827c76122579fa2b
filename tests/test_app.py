"""The application: OpenAPI document, layers, and one build for concurrent requests."""

import json
import threading
from pathlib import Path

import pytest
from openapi_spec_validator import validate

from service.app import create_app
from service.delivery.dispatch import Delivery
from service.numerics.dtypes import Elements
from service.numerics.phasors import PhasorTable
from service.settings import default_settings
from tests.client import Client, client_of

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
