"""Lines about requests: what they say, what they keep to themselves, what they cost in memory."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.delivery.log_lines import LineWriter
from service.delivery.request_log import Clock, RequestLog
from service.settings import Settings, default_settings


class Lines(LineWriter):
    """A writer whose lines stay where they are."""

    def __init__(self) -> None:
        super().__init__(-1)

    def read(self) -> list[dict[str, Any]]:
        lines, self._lines = self._lines, []
        whole = ["".join(line) for line in lines]
        assert all(line.endswith("\n") and line.count("\n") == 1 for line in whole)
        return [json.loads(line) for line in whole]


@pytest.fixture
def lines() -> Lines:
    return Lines()


def logged(log: RequestLog, **changed: Any) -> None:
    said: dict[str, Any] = {
        "method": "GET",
        "target": b"/encoding.npy?seq_len=4&d_model=4",
        "labels": ("/encoding.{extension}", "200", "kept", "npy"),
        "body_bytes": 192,
        "request_id": "r-1",
        "client": ("192.0.2.7", 4711),
        "seconds": 0.0000123,
        **changed,
    }
    names = {"method", "target", "labels", "body_bytes", "is_complete"} & set(said)
    told = log.told(**{name: said.pop(name) for name in names})
    log.write(told, **said)


def labels(status: int, route: str = "/encoding") -> tuple[str, ...]:
    return route, str(status), "made", "other"


def test_a_line_says_what_was_asked_and_what_was_answered(lines: Lines) -> None:
    logged(RequestLog(lines, default_settings()))

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


def test_lines_that_are_alike_say_what_differs(lines: Lines) -> None:
    log = RequestLog(lines, default_settings())
    clients = [("192.0.2.7", 1), ("192.0.2.8", 2), None]
    for number, client in enumerate(clients):
        logged(log, request_id=f"r-{number}", client=client)

    told = [(line["request_id"], line["client"]) for line in lines.read()]
    assert told == [("r-0", "192.0.2.7"), ("r-1", "192.0.2.8"), ("r-2", None)]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.0, 0.0), (0.0000019, 0.000001), (0.000999, 0.000999), (0.001, 0.001), (75.25, 75.25)],
)
def test_times_are_told_to_the_microsecond(lines: Lines, seconds: float, told: float) -> None:
    logged(RequestLog(lines, default_settings()), seconds=seconds)

    assert lines.read()[0]["seconds"] == told


@pytest.mark.parametrize("status", [400, 401, 404, 422, 500, 503, 0])
def test_the_query_of_what_was_refused_is_not_told(lines: Lines, status: int) -> None:
    log = RequestLog(lines, default_settings())
    logged(log, labels=labels(status), target=b"/x?token=hunter2")

    (line,) = lines.read()
    assert line["status"] == (status or None)
    assert line["path"] == "/x"
    assert "query" not in line
    assert "hunter2" not in json.dumps(line)


def test_whatever_comes_stays_within_its_line_and_within_bounds(lines: Lines) -> None:
    hostile = b'"},\r\n{"a":"\xff\x00\\'
    logged(
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


def test_a_line_says_for_whom_a_proxy_asked_and_that_an_answer_was_broken_off(
    lines: Lines,
) -> None:
    log = RequestLog(lines, default_settings())
    logged(log, forwarded_for=b"198.51.100.1, 10.0.0.1", is_complete=False)
    logged(log)

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
        (503, "other", "error"),
        (200, "/livez", "debug"),
        (503, "/readyz", "debug"),
        (200, "/metrics", "debug"),
    ],
)
@pytest.mark.parametrize("least", ["debug", "info", "warning", "error"])
def test_what_is_less_grave_than_asked_for_is_not_told(
    lines: Lines, status: int, route: str, level: str, least: str
) -> None:
    log = RequestLog(lines, Settings(log_level=least))
    for _ in range(2):
        logged(log, labels=labels(status, route))

    levels = ["debug", "info", "warning", "error"]
    is_told = levels.index(level) >= levels.index(least)
    assert [line["level"] for line in lines.read()] == [level] * 2 * is_told


def test_a_log_that_is_off_says_nothing(lines: Lines) -> None:
    logged(RequestLog(lines, Settings(log_requests=False)))
    logged(RequestLog(None, default_settings()))

    assert lines.read() == []


def test_what_is_kept_of_clients_is_bounded(lines: Lines) -> None:
    log = RequestLog(lines, default_settings())
    for number in range(3000):
        logged(log, client=(str(number), 1))

    assert len(log._clients) <= 1024
    assert [line["client"] for line in lines.read()] == [str(number) for number in range(3000)]


def test_requests_are_named(lines: Lines) -> None:
    log = RequestLog(lines, default_settings())

    assert log.request_id(b"mine") == "mine"
    assert log.request_id(None) != log.request_id(None)


def test_the_clock_tells_the_time_in_utc() -> None:
    clock = Clock()
    for _ in range(3):
        before = datetime.now(UTC)
        told = datetime.fromisoformat(clock.now())
        assert before - timedelta(milliseconds=1) <= told <= datetime.now(UTC)
        assert clock.now().endswith("Z")
