"""Overload: refusals name the limit, and cached answers are still sent."""

import asyncio
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import numpy as np
import pytest
import safetensors.numpy

from service.app import create_app
from service.delivery.dispatch import Delivery
from service.delivery.schedule import ThreadWork, Work
from service.settings import default_settings
from tests.client import Client, client_of
from tests.exchange import Exchange

WARM = "/encoding.npy?seq_len=5&d_model=6"
PROBES = ["/livez", "/readyz", "/metrics"]
SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}
X = safetensors.numpy.save({"x": np.ones((2, 4), "<f4")})

# One request of each kind of work: by queue, cacheability and method.
COLD = {
    "short": "/encoding.npy?seq_len=4&d_model=8",
    "long": "/encoding.npy?seq_len=3000&d_model=512",
    "coded": "/encoding.json?seq_len=3&d_model=8",
    "streamed": "/encoding.npy?seq_len=300000&d_model=512",
    "drawn": "/encoding.png?seq_len=4&d_model=8",
    "long query": f"/encoding?d_model=2&positions=0{',3' * 3000}",
    "longest query": f"/encoding?d_model=2&positions=0{',3' * 15000}",
}
POSTED: dict[str, tuple[str, dict[str, Any]]] = {
    "resource": ("/encoding", {"json": {"seq_len": 2, "d_model": 4}}),
    "transform": ("/rope/apply", {"content": X, "headers": SAFETENSORS}),
    "drawn": ("/rope/apply.png", {"json": {"x": [[1.0, 2.0]]}}),
    "report": ("/rope/config", {"json": {"model_type": "llama"}}),
}


class Stuck:
    """Occupy every thread, and every slot for children, until released.

    Args:
        delivery: the process.
        seconds: the estimated duration of the work that occupies them.
    """

    def __init__(self, delivery: Delivery, seconds: float) -> None:
        self._scheduler = delivery.scheduler
        self._seconds = seconds
        self._go = threading.Event()
        self._tasks: list[asyncio.Future[object]] = []

    async def occupy(self) -> None:
        threads, children = self._scheduler, self._scheduler.children
        for lane in (threads.short, threads.long):
            taken = threading.Event()
            work = ThreadWork(lane, self._seconds)
            self._begin(work.turn(partial(self._wait, taken)))
            assert await asyncio.to_thread(taken.wait, 10)
        for seconds in (min(2, self._seconds), self._seconds):
            self._begin(self._hold(Work(children, seconds)))
        await asyncio.sleep(0)

    async def let_go(self) -> None:
        self._go.set()
        await asyncio.gather(*self._tasks)

    def _begin(self, work: Any) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    def _wait(self, taken: threading.Event) -> None:
        taken.set()
        assert self._go.wait(30)

    async def _hold(self, work: Work) -> None:
        async with work.slot():
            await asyncio.to_thread(self._go.wait, 30)


@contextmanager
def served(seconds: float = 0, **limits: float) -> Iterator[tuple[Client, Delivery, Stuck]]:
    """Run an application with a warm cache, whose threads are occupied for so many seconds."""
    settings = default_settings().model_copy(update={"threads": 1, **limits})
    with client_of(create_app(settings)) as client:
        for url in (WARM, "/"):
            assert client.get(url).status_code == 200
        delivery: Delivery = client.app.state.delivery
        stuck = Stuck(delivery, seconds)
        client.run(stuck.occupy())
        try:
            yield client, delivery, stuck
        finally:
            client.run(stuck.let_go())


@pytest.fixture
def full() -> Iterator[tuple[Client, Delivery]]:
    """Run an application that is occupied for longer than a request waits, without body memory."""
    with served(100, max_held_body_bytes=1) as (client, delivery, _):
        held = delivery.budget.grant("bodies", 1)
        yield client, delivery
        held.release()


def check_refused(answer: httpx.Response, setting: str) -> None:
    assert answer.status_code == 503
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:posref:problem:overloaded"
    assert setting in answer.json()["detail"]
    assert 1 <= int(answer.headers["Retry-After"]) <= 3600
    assert answer.headers["Cache-Control"] == "no-store"


def test_probes_and_cached_answers_are_sent_during_overload(full: tuple[Client, Delivery]) -> None:
    client, _ = full
    for url in PROBES:
        assert client.get(url).status_code == 200
    warm = client.get(WARM)
    assert warm.status_code == 200
    assert client.get(WARM, range="bytes=0-9").status_code == 206
    assert client.get(WARM, if_none_match=warm.headers["ETag"]).status_code == 304
    assert client.head(COLD["streamed"]).status_code == 200
    assert client.get("/encoding?seq_len=0").status_code == 422
    assert client.get("/").status_code == 200


# A drawing waits for the brief work of another child, two seconds at most.
NOT_DRAWN = {name: url for name, url in COLD.items() if name != "drawn"}


@pytest.mark.parametrize("url", NOT_DRAWN.values(), ids=NOT_DRAWN)
def test_work_that_would_wait_too_long_is_refused_at_once(
    full: tuple[Client, Delivery], url: str
) -> None:
    client, delivery = full

    check_refused(client.get(url), "POSREF_WAIT_SECONDS")

    assert delivery.refusals.counts["waiting"] == 1


def test_work_beyond_max_request_seconds_is_refused_before_it_begins() -> None:
    table = io.BytesIO()
    np.save(table, np.ones((8192, 512), np.float32))
    settings = default_settings().model_copy(update={"max_request_seconds": 1})
    with client_of(create_app(settings)) as client:
        answers = [
            client.get("/encoding.npy.sha256?seq_len=2000000&d_model=512"),
            client.post(
                "/identify",
                content=table.getvalue(),
                headers={"Content-Type": "application/x-npy"},
            ),
        ]

        assert not client.app.state.delivery.children._children
    for answer in answers:
        assert answer.status_code == 413
        assert answer.json()["type"] == "urn:posref:problem:request-too-large"
        assert "POSREF_MAX_REQUEST_SECONDS" in answer.json()["detail"]


def test_work_whose_thread_is_refused_can_be_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with client_of(create_app(default_settings())) as client:
        with monkeypatch.context() as patch:
            patch.setattr(threading, "_start_new_thread", refuse)
            for url in ("/openapi.json", COLD["short"], COLD["drawn"]):
                check_refused(client.get(url), "process")
        assert client.get("/openapi.json").status_code == 200


@pytest.mark.parametrize(("path", "sent"), POSTED.values(), ids=POSTED)
def test_posts_are_refused_when_they_would_wait_too_long_or_body_memory_is_full(
    path: str, sent: dict[str, Any]
) -> None:
    with served(100, max_held_body_bytes=1) as (client, delivery, _):
        check_refused(client.post(path, **sent), "POSREF_WAIT_SECONDS")
        assert delivery.budget.granted()["bodies"] == 0
        held = delivery.budget.grant("bodies", 1)
        check_refused(client.post(path, **sent), "POSREF_MAX_HELD_BODY_BYTES")
        held.release()

        assert delivery.refusals.counts["waiting"] == 1
        assert delivery.refusals.counts["bodies"] == 1


@pytest.mark.full
@pytest.mark.parametrize("url", COLD.values(), ids=COLD)
def test_queued_request_is_refused_after_wait_seconds_and_can_be_retried(url: str) -> None:
    with served(wait_seconds=0.05) as (client, delivery, stuck):
        check_refused(client.get(url), "POSREF_WAIT_SECONDS")

        assert delivery.refusals.counts["wait_time"] == 1
        assert set(delivery.scheduler.waiting_by_lane().values()) == {0}
        client.run(stuck.let_go())
        assert client.head(url).status_code == 200
        if url != COLD["streamed"]:
            for lane in (delivery.scheduler.short, delivery.scheduler.long):
                lane.wait_seconds = 15
            assert client.get(url).status_code == 200


def test_any_number_of_requests_may_wait_for_one_table() -> None:
    with served() as (client, delivery, stuck):

        async def scenario() -> list[int]:
            exchanges = [Exchange(client.app, "GET", COLD["short"]) for _ in range(300)]
            for exchange in exchanges:
                exchange.end()
            waiting = [asyncio.ensure_future(exchange.run()) for exchange in exchanges]
            for _ in range(5):
                await asyncio.sleep(0)
            await stuck.let_go()
            return [exchange.status for exchange in await asyncio.gather(*waiting)]

        assert set(client.run(scenario())) == {200}
        assert delivery.cache.builds == 2
        assert not any(delivery.refusals.counts.values())


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


@pytest.mark.full
@pytest.mark.parametrize("url", COLD.values(), ids=COLD)
def test_disconnect_of_the_last_waiting_client_removes_its_work_from_the_queue(url: str) -> None:
    with served() as (client, delivery, stuck):
        lines = delivery.scheduler.waiting_by_lane

        async def scenario() -> None:
            exchanges = [Exchange(client.app, "GET", url) for _ in range(2)]
            running = []
            for exchange in exchanges:
                exchange.end()
                running.append(asyncio.ensure_future(exchange.run()))
            await wait_for(lambda: sum(lines().values()) > 0)
            exchanges[0].leave()
            await running[0]
            # The other client still waits.
            await wait_for(lambda: sum(lines().values()) == 1)

            exchanges[1].leave()
            await running[1]
            await wait_for(lambda: sum(lines().values()) == 0)
            assert [exchange.status for exchange in exchanges] == [0, 0]

        client.run(scenario())
        client.run(stuck.let_go())
        assert client.get(COLD["short"]).status_code == 200
        assert not any(delivery.refusals.counts.values())


@pytest.mark.full
@pytest.mark.parametrize("path", ["/rope/apply", "/encoding"])
def test_disconnect_releases_the_memory_of_the_request_body(path: str) -> None:
    is_array = path == "/rope/apply"
    content = X if is_array else b'{"seq_len": 2, "d_model": 4}'
    headers = {
        "Content-Length": str(len(content)),
        "Content-Type": SAFETENSORS["Content-Type"] if is_array else "application/json",
    }
    with served() as (client, delivery, _):

        async def scenario() -> None:
            exchange = Exchange(client.app, "POST", path, headers=headers)
            exchange.give(content, more=False)
            running = asyncio.ensure_future(exchange.run())
            await wait_for(lambda: delivery.scheduler.waiting_by_lane()["short"] == 1)
            assert delivery.budget.granted()["bodies"] >= len(content)

            exchange.leave()
            await running
            assert exchange.status == 0
            assert delivery.scheduler.waiting_by_lane()["short"] == 0
            assert delivery.budget.granted()["bodies"] == 0

        client.run(scenario())


def test_metrics_count_refusals_and_queued_work(full: tuple[Client, Delivery]) -> None:
    client, _ = full
    client.get(COLD["short"])
    client.post("/encoding", json={"seq_len": 2, "d_model": 4})

    lines = client.get("/metrics").text.splitlines()

    assert 'posref_refused_total{reason="waiting"} 1.0' in lines
    assert 'posref_refused_total{reason="bodies"} 1.0' in lines
    assert 'posref_waiting_work{lane="long"} 0.0' in lines
    assert "posref_held_body_bytes 1.0" in lines
