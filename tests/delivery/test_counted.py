"""What every answer gets: a name, a place in the counts, a line in the log."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from service.app import create_app
from service.delivery.cache import BodyCache
from service.delivery.counted import Counted
from service.delivery.log_lines import LineWriter
from service.delivery.metrics import Metrics
from service.delivery.request_ids import REQUEST_ID
from service.delivery.request_log import RequestLog
from service.settings import default_settings
from tests.client import Client, client_of

NPY = "/encoding.npy?seq_len=4&d_model=4"

Logged = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def writing() -> Iterator[tuple[LineWriter, Logged]]:
    """A writer, and what ends it and gives its lines."""
    reading, descriptor = os.pipe()
    writer = LineWriter(descriptor)
    writer.__enter__()

    def logged() -> list[dict[str, Any]]:
        writer.__exit__(None, None, None)
        return [json.loads(line) for line in os.read(reading, 10**6).splitlines()]

    yield writer, logged
    writer.__exit__(None, None, None)
    os.close(reading)
    os.close(descriptor)


@pytest.fixture
def fresh(writing: tuple[LineWriter, Logged]) -> Iterator[Client]:
    with client_of(create_app(default_settings(), writer=writing[0])) as client:
        yield client


def test_every_answer_bears_the_name_of_its_request(fresh: Client) -> None:
    for url in (NPY, NPY, "/encoding?seq_len=4", "/nowhere", "/livez"):
        assert fresh.get(url, x_request_id="mine-1").headers["X-Request-Id"] == "mine-1"
        one, other = (fresh.get(url, x_request_id="no name").headers for _ in range(2))
        assert one["X-Request-Id"] != other["X-Request-Id"]
        assert "no name" not in one["X-Request-Id"]


def test_a_failure_bears_it_too(fresh: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr("service.delivery.endpoints.parse_query", fail)

    answer = fresh.get(NPY, x_request_id="mine-1")

    assert (answer.status_code, answer.headers["X-Request-Id"]) == (500, "mine-1")


def test_every_answer_is_a_line(fresh: Client, writing: tuple[LineWriter, Logged]) -> None:
    fresh.get(NPY, x_request_id="one", x_forwarded_for="198.51.100.1")
    fresh.get(NPY, range="bytes=0-9", authorization="Bearer hunter2-hunter2-hunter2")
    fresh.head(NPY)
    fresh.get(NPY, if_none_match="*")
    fresh.get("/encoding?seq_len=4&secret=hunter2")
    fresh.request("PUT", "/nowhere")
    fresh.get("/livez")
    fresh.get("/metrics")

    lines = writing[1]()

    names = ("method", "path", "status", "bytes", "route", "source", "format")
    path, route = "/encoding.npy", "/encoding.{extension}"
    refused = [each["bytes"] for each in lines if each["format"] == "problem"]
    assert [tuple(line[name] for name in names) for line in lines] == [
        ("GET", path, 200, 192, route, "made", "npy"),
        ("GET", path, 206, 10, route, "kept", "npy"),
        ("HEAD", path, 200, 0, route, "kept", "npy"),
        ("GET", path, 304, 0, route, "kept", "none"),
        ("GET", "/encoding", 422, refused[0], "/encoding", "made", "problem"),
        ("PUT", "/nowhere", 404, refused[1], "other", "made", "problem"),
    ]
    assert (lines[0]["request_id"], lines[0]["forwarded_for"]) == ("one", "198.51.100.1")
    assert all(0 < line["seconds"] < 60 for line in lines)
    assert not any("complete" in line for line in lines)
    assert "hunter2" not in json.dumps(lines)


Application = Callable[[Any, Any, Any], Any]


def passed(
    app: Application, writer: LineWriter | None = None, metrics: Metrics | None = None
) -> list[Any]:
    """Pass a request through the layer to an application; gives what that sent."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/x",
        "query_string": b"",
        "headers": [(b"x-request-id", b"mine")],
    }
    layer = Counted(app, metrics or Metrics(BodyCache(0)), RequestLog(writer, default_settings()))
    asyncio.run(layer(scope, None, send))  # type: ignore[arg-type]
    return sent


async def start(send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})


async def whole(_scope: Any, _receive: Any, send: Any) -> None:
    await start(send)
    await send({"type": "http.response.body", "body": b"123", "more_body": True})
    await send({"type": "http.response.body", "body": b"45"})


async def broken_off(_scope: Any, _receive: Any, send: Any) -> None:
    await start(send)
    await send({"type": "http.response.body", "body": b"123", "more_body": True})


async def failing(_scope: Any, _receive: Any, send: Any) -> None:
    await start(send)
    raise ArithmeticError


async def silent(_scope: Any, _receive: Any, _send: Any) -> None:
    return


def test_what_an_application_sends_passes_with_a_name_added() -> None:
    messages = passed(whole)

    assert messages[0]["headers"] == [(b"a", b"b"), (b"x-request-id", b"mine")]
    assert [message.get("body") for message in messages] == [None, b"123", b"45"]


@pytest.mark.parametrize(
    ("app", "status", "body_bytes", "complete"),
    [(whole, 200, 5, None), (broken_off, 200, 3, False), (silent, None, 0, False)],
)
def test_an_answer_that_was_broken_off_is_counted_and_said_to_be(
    writing: tuple[LineWriter, Logged],
    app: Application,
    status: int | None,
    body_bytes: int,
    complete: bool | None,
) -> None:
    metrics = Metrics(BodyCache(0))
    passed(app, writing[0], metrics)

    (line,) = writing[1]()
    assert (line["status"], line["bytes"], line.get("complete")) == (status, body_bytes, complete)
    assert metrics.tally("other", status or 0, "none", is_warm=False).answers == 1


def test_an_answer_that_fails_is_counted_and_said_to_be_broken_off(
    writing: tuple[LineWriter, Logged],
) -> None:
    metrics = Metrics(BodyCache(0))
    with pytest.raises(ArithmeticError):
        passed(failing, writing[0], metrics)

    (line,) = writing[1]()
    assert (line["status"], line["complete"]) == (200, False)
    assert metrics.tally("other", 200, "none", is_warm=False).answers == 1


def test_whatever_is_logged_meanwhile_can_bear_the_name() -> None:
    names: list[str | None] = []

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        names.append(REQUEST_ID.get())

    passed(app)

    assert names == ["mine"]
    assert REQUEST_ID.get() is None


def test_what_is_no_request_is_not_counted() -> None:
    scopes: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        scopes.append(scope["type"])

    metrics = Metrics(BodyCache(0))
    layer = Counted(app, metrics, RequestLog(None, default_settings()))
    asyncio.run(layer({"type": "lifespan"}, None, None))  # type: ignore[arg-type]

    assert scopes == ["lifespan"]
    assert not metrics._tallies
