"""Telemetry of requests: durations, labels, lines of the log, ids, and the middleware."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from service.app import create_app
from service.delivery.clients import ClientAddresses
from service.delivery.telemetry.log import REQUEST_ID
from service.delivery.telemetry.traffic import (
    Histogram,
    RequestLog,
    Tallies,
    TelemetryMiddleware,
    format_of,
)
from service.settings import Settings, default_settings
from tests.client import Client, client_of
from tests.delivery.telemetry.lines import Lines

NPY = "/encoding.npy?seq_len=4&d_model=4"


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (0.0001, 0), (0.00011, 1), (0.00025, 1), (60.0, -3), (60.1, -2), (9999.0, -2)],
)
def test_a_duration_counts_in_the_first_bucket_that_holds_it(seconds: float, bucket: int) -> None:
    histogram = Histogram()

    histogram.observe(seconds)

    expected = [0.0] * 20
    expected[bucket] = 1
    expected[-1] = seconds
    assert histogram.row == expected


@pytest.mark.parametrize(
    ("content_type", "form"),
    [
        (b"application/json", "json"),
        (b"application/json; charset=utf-8", "json"),
        (b"application/x-npy", "npy"),
        (b"image/png", "png"),
        (b"application/problem+json", "problem"),
        (b"text/html; charset=utf-8", "other"),
    ],
)
def test_the_format_label_follows_the_content_type(content_type: bytes, form: str) -> None:
    assert format_of([(b"vary", b"Accept"), (b"content-type", content_type)]) == form


@pytest.fixture
def lines() -> Lines:
    return Lines()


def write(log: RequestLog, **changed: Any) -> None:
    fields: dict[str, Any] = {
        "method": "GET",
        "target": b"/encoding.npy?seq_len=4&d_model=4",
        "labels": ("/encoding.{extension}", "200", "kept", "npy"),
        "body_bytes": 192,
        "request_id": b"r-1",
        "client": ("192.0.2.7", 4711),
        "seconds": 0.0000123,
        **changed,
    }
    names = {"method", "target", "labels", "body_bytes", "is_complete"} & set(fields)
    response = log.log_fields(**{name: fields.pop(name) for name in names})
    log.write(response, **fields)


def labels(status: int, route: str = "/encoding") -> tuple[str, ...]:
    return route, str(status), "made", "other"


def test_a_line_has_the_fields_of_request_and_response(lines: Lines) -> None:
    write(RequestLog(lines, default_settings()))

    (line,) = lines.read()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "info",
        "message": "request",
        "request_id": "r-1",
        "client": "192.0.2.7",
        "method": "GET",
        "path": "/encoding.npy",
        "query": "seq_len=4&d_model=4",
        "status": 200,
        "bytes": 192,
        "seconds": 0.000012,
        "route": "/encoding.{extension}",
        "source": "kept",
        "format": "npy",
    }


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, 0.0), (0.0000019, 0.000001), (0.000999, 0.000999), (0.001, 0.001), (75.25, 75.25)],
)
def test_durations_have_microseconds(lines: Lines, seconds: float, expected: float) -> None:
    write(RequestLog(lines, default_settings()), seconds=seconds)

    assert lines.read()[0]["seconds"] == expected


@pytest.mark.parametrize("status", [400, 401, 404, 422, 500, 503, 0])
def test_the_query_of_a_refused_request_is_not_logged(lines: Lines, status: int) -> None:
    log = RequestLog(lines, default_settings())
    write(log, labels=labels(status), target=b"/x?token=hunter2")

    (line,) = lines.read()
    assert line["status"] == (status or None)
    assert line["path"] == "/x"
    assert "query" not in line
    assert "hunter2" not in json.dumps(line)


def test_hostile_fields_are_escaped_and_cut(lines: Lines) -> None:
    hostile = b'"},\r\n{"a":"\xff\x00\\'
    write(
        RequestLog(lines, default_settings()),
        method='G"\n',
        target=b"/" + hostile * 100 + b"?" + hostile * 100,
        client=(hostile.decode("latin-1") * 100, 1),
        forwarded_for=hostile * 100,
    )

    (line,) = lines.read()
    assert line["path"] == (b"/" + hostile * 100).decode("latin-1")[:512]
    assert line["query"] == (hostile * 100).decode("latin-1")[:512]
    assert line["forwarded_for"] == (hostile * 100).decode("latin-1")[:256]
    assert line["method"] == 'G"\n'
    assert len(line["client"]) == 64


def test_a_line_has_forwarded_for_and_incomplete_responses(lines: Lines) -> None:
    log = RequestLog(lines, default_settings())
    write(log, forwarded_for=b"198.51.100.1, 10.0.0.1", is_complete=False)
    write(log)

    broken, whole = lines.read()
    assert broken["forwarded_for"] == "198.51.100.1, 10.0.0.1"
    assert broken["complete"] is False
    assert not {"forwarded_for", "complete"} & set(whole)


@pytest.mark.parametrize(
    ("status", "route", "level"),
    [
        (200, "/encoding", "info"),
        (422, "/encoding", "info"),
        (0, "/encoding", "info"),
        (500, "/encoding", "error"),
        (503, "other", "warning"),
        (200, "/livez", "debug"),
        (503, "/readyz", "debug"),
        (200, "/metrics", "debug"),
    ],
)
@pytest.mark.parametrize("least", ["debug", "info", "warning", "error"])
def test_requests_below_the_log_level_are_not_logged(
    lines: Lines, status: int, route: str, level: str, least: str
) -> None:
    log = RequestLog(lines, Settings(log_level=least))
    for _ in range(2):
        write(log, labels=labels(status, route))

    levels = ["debug", "info", "warning", "error"]
    is_logged = levels.index(level) >= levels.index(least)
    assert [line["level"] for line in lines.read()] == [level] * 2 * is_logged


def test_a_log_that_is_off_writes_no_lines(lines: Lines) -> None:
    write(RequestLog(lines, Settings(log_requests=False)))
    write(RequestLog(None, default_settings()))

    assert lines.read() == []


def test_the_cache_of_client_fields_is_bounded(lines: Lines) -> None:
    log = RequestLog(lines, default_settings())
    hosts = [None, *map(str, range(3000))]
    for host in hosts:
        write(log, client=host and (host, 1))

    assert len(log._clients) <= 1024
    assert [line["client"] for line in lines.read()] == hosts


@pytest.mark.parametrize("sent", [b"a", b"8f3c-2.B_z", b"x" * 128])
def test_a_valid_request_id_of_the_client_is_kept(sent: bytes) -> None:
    assert RequestLog(None, default_settings()).request_id(sent) == sent


@pytest.mark.parametrize(
    "sent", [None, b"", b"x" * 129, b"a b", b'a"', b"a\n", "é".encode(), b"a\r\nb: c"]
)
def test_an_invalid_request_id_is_replaced(sent: bytes | None) -> None:
    log = RequestLog(None, default_settings())
    request_id = log.request_id(sent)

    assert request_id != sent
    assert log.request_id(request_id) == request_id


def test_request_ids_are_unique_across_processes() -> None:
    one, other = (RequestLog(None, default_settings()) for _ in range(2))

    ids = [log.request_id(None) for log in (one, other) for _ in range(1000)]

    assert len(set(ids)) == 2000


@pytest.fixture
def logged_client(lines: Lines) -> Iterator[Client]:
    with client_of(create_app(default_settings(), writer=lines)) as client:
        yield client


@pytest.mark.full
def test_every_response_has_the_id_of_its_request(logged_client: Client) -> None:
    for url in (NPY, NPY, "/encoding?seq_len=4", "/nowhere", "/livez"):
        assert logged_client.get(url, x_request_id="own-1").headers["X-Request-Id"] == "own-1"
        one, other = (logged_client.get(url, x_request_id="not valid").headers for _ in range(2))
        assert one["X-Request-Id"] != other["X-Request-Id"]
        assert "not valid" not in one["X-Request-Id"]


def test_a_500_response_has_the_request_id(
    logged_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr("service.delivery.plans.parse_query", fail)

    answer = logged_client.get(NPY, x_request_id="own-1")

    assert (answer.status_code, answer.headers["X-Request-Id"]) == (500, "own-1")


def test_responses_are_logged(logged_client: Client, lines: Lines) -> None:
    logged_client.get(NPY, x_request_id="one", x_forwarded_for="198.51.100.1")
    logged_client.get(NPY, range="bytes=0-9", authorization="Bearer hunter2-hunter2-hunter2")
    logged_client.head(NPY)
    logged_client.get(NPY, if_none_match="*")
    logged_client.get("/encoding?seq_len=4&secret=hunter2")
    logged_client.request("PUT", "/nowhere")
    logged_client.get("/livez")
    logged_client.get("/metrics")

    logged = lines.read()

    names = ("method", "path", "status", "bytes", "route", "source", "format")
    path, route = "/encoding.npy", "/encoding.{extension}"
    refused = [each["bytes"] for each in logged if each["format"] == "problem"]
    assert [tuple(line[name] for name in names) for line in logged] == [
        ("GET", path, 200, 192, route, "made", "npy"),
        ("GET", path, 206, 10, route, "kept", "npy"),
        ("HEAD", path, 200, 0, route, "kept", "npy"),
        ("GET", path, 304, 0, route, "kept", "none"),
        ("GET", "/encoding", 422, refused[0], "/encoding", "made", "problem"),
        ("PUT", "/nowhere", 404, refused[1], "other", "made", "problem"),
    ]
    assert (logged[0]["request_id"], logged[0]["forwarded_for"]) == ("one", "198.51.100.1")
    assert all(0 < line["seconds"] < 60 for line in logged)
    assert not any("complete" in line for line in logged)
    assert "hunter2" not in json.dumps(logged)


Application = Callable[[Any, Any, Any], Any]


def messages_of(
    app: Application, writer: Lines | None = None, tallies: Tallies | None = None
) -> list[Any]:
    """Return the messages of an application to a request through the middleware."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/x",
        "query_string": b"",
        "headers": [(b"x-request-id", b"own")],
    }
    middleware = TelemetryMiddleware(
        app,
        Tallies() if tallies is None else tallies,
        RequestLog(writer, default_settings()),
        ClientAddresses(()),
    )
    asyncio.run(middleware(scope, None, send))  # type: ignore[arg-type]
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


@pytest.mark.parametrize(
    ("app", "status", "body_bytes", "complete"),
    [(whole, 200, 5, None), (broken_off, 200, 3, False), (silent, None, 0, False)],
)
def test_an_incomplete_response_is_counted_and_logged(
    lines: Lines,
    app: Application,
    status: int | None,
    body_bytes: int,
    complete: bool | None,
) -> None:
    tallies = Tallies()
    messages_of(app, lines, tallies)

    (line,) = lines.read()
    assert (line["status"], line["bytes"], line.get("complete")) == (status, body_bytes, complete)
    assert tallies.of("other", status or 0, "none", is_warm=False).number == 1


def test_a_failed_response_is_counted_and_logged_as_incomplete(
    lines: Lines,
) -> None:
    tallies = Tallies()
    with pytest.raises(ArithmeticError):
        messages_of(failing, lines, tallies)

    (line,) = lines.read()
    assert (line["status"], line["complete"]) == (200, False)
    assert tallies.of("other", 200, "none", is_warm=False).number == 1


def test_log_records_can_have_the_request_id() -> None:
    ids: list[str | None] = []

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        ids.append(REQUEST_ID.get())

    messages_of(app)

    assert ids == ["own"]
    assert REQUEST_ID.get() is None


def test_other_protocols_are_not_counted() -> None:
    scopes: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        scopes.append(scope["type"])

    tallies = Tallies()
    log = RequestLog(None, default_settings())
    middleware = TelemetryMiddleware(app, tallies, log, ClientAddresses(()))
    asyncio.run(middleware({"type": "lifespan"}, None, None))  # type: ignore[arg-type]

    assert scopes == ["lifespan"]
    assert not tallies
