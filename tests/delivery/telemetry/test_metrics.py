"""Metrics: labels, counts of one process and of several, ids and logs of responses."""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.app import create_app
from service.delivery.telemetry.log import REQUEST_ID, LineWriter
from service.delivery.telemetry.metrics import (
    FAMILIES,
    MAX_FILE_BYTES,
    Counts,
    SharedCounts,
    WorkerSlot,
    sharing,
)
from service.delivery.telemetry.traffic import (
    RequestLog,
    Tallies,
    TelemetryMiddleware,
    format_of,
    path_of,
)
from service.settings import Settings, default_settings
from tests.client import Client, client_of

NPY = "/encoding.npy?seq_len=4&d_model=4"
PATH = "/encoding.{extension}"


@pytest.fixture
def fresh() -> Iterator[Client]:
    with client_of(create_app(default_settings())) as client:
        yield client


def counts(client: Client) -> dict[str, float]:
    """Every number by its name and the values of its labels, by their names in order."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {
        " ".join([each.name, *(value for _, value in sorted(each.labels.items()))]): each.value
        for family in families
        for each in family.samples
    }


def test_every_answer_is_counted_by_route_status_source_and_format(fresh: Client) -> None:
    fresh.get(NPY)
    fresh.get(NPY)
    fresh.head(NPY)
    fresh.get(NPY, range="bytes=0-9")
    fresh.get(NPY, range="bytes=999-")
    fresh.get(NPY, if_none_match="*")
    fresh.get("/encoding?seq_len=4")
    fresh.get("/nowhere")

    counted = counts(fresh)

    answers = {name: value for name, value in counted.items() if "answers_total" in name}
    assert answers == {
        f"posref_answers_total npy {PATH} made 200": 1,
        f"posref_answers_total npy {PATH} kept 200": 2,
        f"posref_answers_total npy {PATH} kept 206": 1,
        f"posref_answers_total none {PATH} kept 304": 1,
        f"posref_answers_total problem {PATH} made 416": 1,
        "posref_answers_total problem /encoding made 422": 1,
        "posref_answers_total problem other made 404": 1,
    }
    assert counted[f"posref_answer_body_bytes_total npy {PATH} kept 200"] == 192
    assert counted[f"posref_answer_body_bytes_total npy {PATH} kept 206"] == 10
    assert counted[f"posref_answer_seconds_count {PATH} kept"] == 4
    assert counted[f"posref_answer_seconds_bucket +Inf {PATH} kept"] == 4
    assert 0 < counted[f"posref_answer_seconds_sum {PATH} kept"] < 60


@pytest.mark.full
def test_unknown_paths_share_one_label(fresh: Client) -> None:
    def ask(number: int) -> int:
        fresh.request("PROPFIND", f"/no/{number}")
        fresh.get(f"/encoding.npy/{number}")
        fresh.get(f"/docs/assets/{number}")
        return len(counts(fresh))

    ask(0)
    first, *_, last = (ask(number) for number in range(1, 30))

    assert first == last


def test_cache_hits_are_counted(fresh: Client) -> None:
    for _ in range(3):
        fresh.get(NPY)
    fresh.get(NPY.replace("npy", "bin"))

    counted = counts(fresh)

    assert counted["posref_builds_total"] == 2
    assert counted["posref_build_seconds_count"] == 2
    assert counted["posref_cache_misses_total"] == 2
    assert counted["posref_cache_hits_total"] == 2
    assert counted["posref_cache_evictions_total"] == 0
    assert 192 < counted["posref_cache_bytes"] < counted["posref_cache_capacity_bytes"]


def test_evictions_are_counted() -> None:
    with client_of(create_app(Settings(cache_bytes=20_000))) as small:
        for width in (64, 65, 66):
            small.get(f"/encoding.npy?seq_len=64&d_model={width}&dtype=float16")

        assert counts(small)["posref_cache_evictions_total"] == 1


@pytest.mark.full
def test_a_body_in_pieces_is_one_cache_miss(fresh: Client) -> None:
    url = "/encoding.npy?seq_len=1024&d_model=1024"
    fresh.get(url)
    fresh.get(url)

    counted = counts(fresh)

    assert (counted["posref_cache_hits_total"], counted["posref_cache_misses_total"]) == (1, 1)


def test_every_family_is_described(fresh: Client) -> None:
    shown = {family.name for family in text_string_to_metric_families(fresh.get("/metrics").text)}

    assert shown >= set(FAMILIES)
    assert counts(fresh)["posref_workers"] == 1
    assert counts(fresh)["posref_log_lines_dropped_total"] == 0


def test_the_process_is_described_too(fresh: Client) -> None:
    counted = counts(fresh)

    assert counted["process_resident_memory_bytes"] > 0
    assert counted["process_open_fds"] > 0
    assert counted["process_cpu_seconds_total"] > 0
    assert counted["process_start_time_seconds"] > 1e9


@pytest.mark.full
def test_watched_numbers_are_read_when_scraped(fresh: Client) -> None:
    lanes = {"short": 1, "long": 0}
    metrics = fresh.app.state.delivery.metrics
    metrics.watch("posref_waiting_work", lambda: lanes)
    metrics.watch("posref_connections", lambda: 7)
    lanes["short"] = 5

    counted = counts(fresh)

    assert counted["posref_waiting_work short"] == 5
    assert counted["posref_waiting_work long"] == 0
    assert counted["posref_connections"] == 7


def test_metrics_are_not_cached_and_follow_accept(fresh: Client) -> None:
    fresh.get(NPY)
    plain = fresh.get("/metrics")
    open_metrics = fresh.get("/metrics", accept="application/openmetrics-text; version=1.0.0")

    assert plain.headers["Cache-Control"] == "no-store"
    assert plain.headers["Content-Type"].startswith("text/plain; version=")
    assert open_metrics.headers["Content-Type"].startswith("application/openmetrics-text")
    assert open_metrics.text.endswith("# EOF\n")


@pytest.mark.full
def test_any_process_exposes_the_responses_of_all(tmp_path: Path) -> None:
    one, other = (
        client_of(create_app(default_settings(), WorkerSlot(tmp_path, slot))) for slot in (0, 1)
    )
    with one as first:
        first.get(NPY)
        with other as second:
            second.get(NPY)
            second.get(NPY)
            first.get("/metrics")
            told = counts(second), counts(first)

    for counted in told:
        assert counted["posref_workers"] == 2
        assert counted["posref_builds_total"] == 2
        assert counted[f"posref_answers_total npy {PATH} made 200"] == 2
        assert counted[f"posref_answers_total npy {PATH} kept 200"] == 1
        assert counted[f"posref_answer_seconds_count {PATH} made"] == 2


@pytest.mark.full
def test_a_process_that_ends_leaves_counters_and_no_gauges(tmp_path: Path) -> None:
    with client_of(create_app(default_settings(), WorkerSlot(tmp_path, 0))) as first:
        held = counts(first)["process_resident_memory_bytes"]
        with client_of(create_app(default_settings(), WorkerSlot(tmp_path, 1))) as second:
            second.get(NPY)
        counted = counts(first)

    assert counted["posref_builds_total"] == 1
    assert counted["posref_workers"] == 1
    assert counted["process_resident_memory_bytes"] < 1.9 * held


def test_a_single_process_shares_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with client_of(create_app(default_settings())) as client:
        counts(client)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content_type", "form"),
    [
        (b"application/json", "json"),
        (b"application/json; charset=utf-8", "json"),
        (b"application/x-npy", "npy"),
        (b"application/vnd.safetensors", "safetensors"),
        (b"application/octet-stream", "bin"),
        (b"text/csv", "csv"),
        (b"image/png", "png"),
        (b"application/problem+json", "problem"),
        (b"text/html; charset=utf-8", "other"),
        (b"text/plain; version=1.0.0", "other"),
    ],
)
def test_the_format_label_follows_the_content_type(content_type: bytes, form: str) -> None:
    assert format_of([(b"vary", b"Accept"), (b"content-type", content_type)]) == form


def test_the_format_label_of_an_empty_body_is_none() -> None:
    assert format_of([(b"etag", b'"x"')]) == "none"


def test_requests_without_a_route_share_one_label() -> None:
    assert path_of({"path": "/nowhere"}) == path_of({"path": "/elsewhere"}) == "other"


def test_the_source_label_is_kept_or_made() -> None:
    tallies = Tallies()
    labels = [tallies.of("/x", 200, "npy", is_warm=is_warm).labels[2] for is_warm in (True, False)]

    assert labels == ["kept", "made"]


def counted(builds: float, kept_bytes: float = 0) -> Counts:
    return {"posref_builds": {(): [builds]}, "posref_cache_bytes": {(): [kept_bytes]}}


def builds(counts: Counts) -> float:
    return counts["posref_builds"][()][0]


def kept_bytes(counts: Counts) -> float:
    return counts["posref_cache_bytes"][()][0]


def test_any_process_exposes_the_counts_of_all(tmp_path: Path) -> None:
    slots = [SharedCounts(tmp_path, slot) for slot in range(3)]
    for number, slot in enumerate(slots):
        slot.write(counted(10**number, 5))

    told = slots[1].combine(counted(20, 6))

    assert (builds(told), kept_bytes(told)) == (121, 16)


def test_a_counter_never_decreases_between_processes(tmp_path: Path) -> None:
    one, other = SharedCounts(tmp_path, 0), SharedCounts(tmp_path, 1)
    one.write(counted(1))
    other.write(counted(1))

    assert builds(one.combine(counted(9))) == 10
    assert builds(other.combine(counted(2))) == 11


def test_a_replacement_continues_counters_and_not_gauges(
    tmp_path: Path,
) -> None:
    SharedCounts(tmp_path, 0).write(counted(7, 100))

    after = SharedCounts(tmp_path, 0)
    after.write(counted(1, 30))
    told = after.combine(counted(2, 30))

    assert (builds(told), kept_bytes(told)) == (9, 30)
    assert builds(SharedCounts(tmp_path, 1).combine(counted(0))) == 9


def test_counters_never_decrease_when_workers_are_replaced(tmp_path: Path) -> None:
    watching, last = SharedCounts(tmp_path, 9), 0.0
    for _ in range(5):
        process = SharedCounts(tmp_path, 0)
        for number in range(3):
            process.write(counted(number))
            told = builds(watching.combine(counted(0)))
            assert told >= last
            last = told

    assert last == 10


def test_an_ended_process_leaves_its_counters_and_no_gauges(tmp_path: Path) -> None:
    SharedCounts(tmp_path, 0).write(counted(7, 100), is_last=True)

    told = SharedCounts(tmp_path, 1).combine(counted(1, 30))

    assert (builds(told), kept_bytes(told)) == (8, 30)


def test_a_silent_process_has_no_gauges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SharedCounts(tmp_path, 0).write(counted(7, 100))
    monkeypatch.setattr("service.delivery.telemetry.metrics._FRESH_SECONDS", 0.0)

    told = SharedCounts(tmp_path, 1).combine(counted(1, 30))

    assert (builds(told), kept_bytes(told)) == (8, 30)


def snapshot(rows: object, **others: object) -> bytes:
    return orjson.dumps({"written_seconds": 1.0, "rows": rows, **others})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff",
        b"[1]",
        b"[" * 100_000,
        snapshot({})[:-1],
        b'{"written_seconds": NaN, "rows": {}}',
        snapshot({"posref_builds": [[[], ["7"]]]}),
        snapshot({"posref_builds": [[[], [1, 2]]]}),
        snapshot({"posref_builds": [[["extra"], [1]]]}),
        snapshot({"posref_builds": [[[], [None]]]}),
        snapshot({"posref_build_seconds": [[[], [1]]]}),
        snapshot({"unheard_of": [[[], [1]]]}),
        snapshot({}, more=1),
        b" " * (MAX_FILE_BYTES + 1),
    ],
    ids=lambda content: repr(content[:60]),
)
def test_invalid_files_of_counts_are_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / "0.counts").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        told = SharedCounts(tmp_path, 1).combine(counted(3))

    assert builds(told) == 3
    assert ["0.counts" in record.getMessage() for record in caplog.records] == [True]
    assert builds(SharedCounts(tmp_path, 0).combine(counted(2))) == 5


def test_a_missing_folder_of_counts_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = SharedCounts(tmp_path / "gone", 0)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert builds(shared.combine(counted(1))) == 1
        assert len(caplog.records) == 1

        (tmp_path / "gone").mkdir()
        shared.write(counted(1))
        (tmp_path / "gone" / "0.counts").unlink()
        (tmp_path / "gone").rmdir()
        shared.write(counted(1))

    assert len(caplog.records) == 2


def test_counts_are_shared_from_the_first_moment_to_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("service.delivery.telemetry.metrics._SHARE_SECONDS", 0.0)
    shares: list[int] = []

    async def scenario() -> None:
        enough = asyncio.Event()

        def share() -> None:
            shares.append(1)
            if len(shares) == 3:
                enough.set()

        async with sharing(share):
            await enough.wait()
        ended = len(shares)
        await asyncio.sleep(0.01)
        assert len(shares) == ended

    asyncio.run(scenario())


Logged = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def writing() -> Iterator[tuple[LineWriter, Logged]]:
    """A writer, and what ends it and gives its lines."""
    reading, descriptor = os.pipe()
    os.set_blocking(reading, False)
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
def logged_client(writing: tuple[LineWriter, Logged]) -> Iterator[Client]:
    with client_of(create_app(default_settings(), writer=writing[0])) as client:
        yield client


@pytest.mark.full
def test_every_response_has_the_id_of_its_request(logged_client: Client) -> None:
    for url in (NPY, NPY, "/encoding?seq_len=4", "/nowhere", "/livez"):
        assert logged_client.get(url, x_request_id="mine-1").headers["X-Request-Id"] == "mine-1"
        one, other = (logged_client.get(url, x_request_id="no name").headers for _ in range(2))
        assert one["X-Request-Id"] != other["X-Request-Id"]
        assert "no name" not in one["X-Request-Id"]


def test_a_500_response_has_the_request_id(
    logged_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr("service.delivery.handler.parse_query", fail)

    answer = logged_client.get(NPY, x_request_id="mine-1")

    assert (answer.status_code, answer.headers["X-Request-Id"]) == (500, "mine-1")


def test_responses_are_logged(logged_client: Client, writing: tuple[LineWriter, Logged]) -> None:
    logged_client.get(NPY, x_request_id="one", x_forwarded_for="198.51.100.1")
    logged_client.get(NPY, range="bytes=0-9", authorization="Bearer hunter2-hunter2-hunter2")
    logged_client.head(NPY)
    logged_client.get(NPY, if_none_match="*")
    logged_client.get("/encoding?seq_len=4&secret=hunter2")
    logged_client.request("PUT", "/nowhere")
    logged_client.get("/livez")
    logged_client.get("/metrics")

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
    app: Application, writer: LineWriter | None = None, tallies: Tallies | None = None
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
    layer = TelemetryMiddleware(
        app, Tallies() if tallies is None else tallies, RequestLog(writer, default_settings())
    )
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


def test_responses_pass_with_the_request_id_added() -> None:
    messages = passed(whole)

    assert messages[0]["headers"] == [(b"a", b"b"), (b"x-request-id", b"mine")]
    assert [message.get("body") for message in messages] == [None, b"123", b"45"]


@pytest.mark.parametrize(
    ("app", "status", "body_bytes", "complete"),
    [(whole, 200, 5, None), (broken_off, 200, 3, False), (silent, None, 0, False)],
)
def test_an_incomplete_response_is_counted_and_logged(
    writing: tuple[LineWriter, Logged],
    app: Application,
    status: int | None,
    body_bytes: int,
    complete: bool | None,
) -> None:
    tallies = Tallies()
    passed(app, writing[0], tallies)

    (line,) = writing[1]()
    assert (line["status"], line["bytes"], line.get("complete")) == (status, body_bytes, complete)
    assert tallies.of("other", status or 0, "none", is_warm=False).number == 1


def test_a_failed_response_is_counted_and_logged_as_incomplete(
    writing: tuple[LineWriter, Logged],
) -> None:
    tallies = Tallies()
    with pytest.raises(ArithmeticError):
        passed(failing, writing[0], tallies)

    (line,) = writing[1]()
    assert (line["status"], line["complete"]) == (200, False)
    assert tallies.of("other", 200, "none", is_warm=False).number == 1


def test_log_records_can_have_the_request_id() -> None:
    names: list[str | None] = []

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        names.append(REQUEST_ID.get())

    passed(app)

    assert names == ["mine"]
    assert REQUEST_ID.get() is None


def test_other_protocols_are_not_counted() -> None:
    scopes: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        scopes.append(scope["type"])

    tallies = Tallies()
    layer = TelemetryMiddleware(app, tallies, RequestLog(None, default_settings()))
    asyncio.run(layer({"type": "lifespan"}, None, None))  # type: ignore[arg-type]

    assert scopes == ["lifespan"]
    assert not tallies
