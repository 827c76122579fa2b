"""Metrics: the numbers of one process and of several, and their exposition."""

import asyncio
import logging
from pathlib import Path

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.app import create_app
from service.delivery.telemetry.metrics import (
    FAMILIES,
    MAX_FILE_BYTES,
    Counts,
    SharedCounts,
    add,
    sharing,
)
from service.delivery.telemetry.traffic import BUCKET_SECONDS, Histogram
from service.settings import default_settings
from tests.client import Client, client_of

NPY = "/encoding.npy?seq_len=4&d_model=4"
PATH = "/encoding.{extension}"


def counts(client: Client) -> dict[str, float]:
    """Return every number by its name and the values of its labels, in order of their names."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {
        " ".join([each.name, *(value for _, value in sorted(each.labels.items()))]): each.value
        for family in families
        for each in family.samples
    }


def test_every_answer_is_counted_by_route_status_source_and_format(fresh_client: Client) -> None:
    fresh_client.get(NPY)
    fresh_client.get(NPY)
    fresh_client.head(NPY)
    fresh_client.get(NPY, range="bytes=0-9")
    fresh_client.get(NPY, range="bytes=999-")
    fresh_client.get(NPY, if_none_match="*")
    fresh_client.get("/encoding?seq_len=4")
    fresh_client.get("/nowhere")

    counted = counts(fresh_client)

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
def test_unknown_paths_share_one_label(fresh_client: Client) -> None:
    def request_unknown(number: int) -> int:
        fresh_client.request("PROPFIND", f"/no/{number}")
        fresh_client.get(f"/encoding.npy/{number}")
        fresh_client.get(f"/docs/assets/{number}")
        return len(counts(fresh_client))

    request_unknown(0)
    first, *_, last = (request_unknown(number) for number in range(1, 30))

    assert first == last


def test_cache_hits_are_counted(fresh_client: Client) -> None:
    for _ in range(3):
        fresh_client.get(NPY)
    fresh_client.get(NPY.replace("npy", "bin"))

    counted = counts(fresh_client)

    assert counted["posref_builds_total"] == 2
    assert counted["posref_build_seconds_count"] == 2
    assert counted["posref_cache_misses_total"] == 2
    assert counted["posref_cache_hits_total"] == 2
    assert counted["posref_cache_evictions_total"] == 0
    assert 192 < counted["posref_cache_bytes"] < counted["posref_cache_capacity_bytes"]


@pytest.mark.full
def test_a_body_in_pieces_is_one_cache_miss(fresh_client: Client) -> None:
    url = "/encoding.npy?seq_len=1024&d_model=1024"
    fresh_client.get(url)
    fresh_client.get(url)

    counted = counts(fresh_client)

    assert (counted["posref_cache_hits_total"], counted["posref_cache_misses_total"]) == (1, 1)


def test_every_family_is_described(fresh_client: Client) -> None:
    shown = {
        family.name for family in text_string_to_metric_families(fresh_client.get("/metrics").text)
    }
    counted = counts(fresh_client)

    assert shown >= set(FAMILIES)
    assert counted["posref_workers"] == 1
    assert counted["posref_log_lines_dropped_total"] == 0
    assert counted["process_resident_memory_bytes"] > 0
    assert counted["process_open_fds"] > 0
    assert counted["process_cpu_seconds_total"] > 0
    assert counted["process_start_time_seconds"] > 1e9


@pytest.mark.full
def test_watched_numbers_are_read_when_scraped(fresh_client: Client) -> None:
    lanes = {"short": 1, "long": 0}
    metrics = fresh_client.app.state.delivery.metrics
    metrics.watch("posref_waiting_work", lambda: lanes)
    metrics.watch("posref_connections", lambda: 7)
    lanes["short"] = 5

    counted = counts(fresh_client)

    assert counted["posref_waiting_work short"] == 5
    assert counted["posref_waiting_work long"] == 0
    assert counted["posref_connections"] == 7


def test_metrics_are_not_cached_and_follow_accept(fresh_client: Client) -> None:
    fresh_client.get(NPY)
    plain = fresh_client.get("/metrics")
    open_metrics = fresh_client.get(
        "/metrics", accept="application/openmetrics-text; version=1.0.0"
    )

    assert plain.headers["Cache-Control"] == "no-store"
    assert plain.headers["Content-Type"].startswith("text/plain; version=")
    assert open_metrics.headers["Content-Type"].startswith("application/openmetrics-text")
    assert open_metrics.text.endswith("# EOF\n")


@pytest.mark.full
def test_any_process_exposes_the_responses_of_all(tmp_path: Path) -> None:
    one, other = (
        client_of(create_app(default_settings(), SharedCounts(tmp_path, slot))) for slot in (0, 1)
    )
    with one as first:
        first.get(NPY)
        with other as second:
            second.get(NPY)
            second.get(NPY)
            first.get("/metrics")
            scrapes = counts(second), counts(first)

    for counted in scrapes:
        assert counted["posref_workers"] == 2
        assert counted["posref_builds_total"] == 2
        assert counted[f"posref_answers_total npy {PATH} made 200"] == 2
        assert counted[f"posref_answers_total npy {PATH} kept 200"] == 1
        assert counted[f"posref_answer_seconds_count {PATH} made"] == 2


def test_a_single_process_shares_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with client_of(create_app(default_settings())) as client:
        counts(client)

    assert not list(tmp_path.iterdir())


def test_counts_of_processes_are_summed_and_the_earliest_start_is_kept() -> None:
    counts: Counts = {
        "posref_refused": {("waiting",): [2]},
        "posref_cache_bytes": {(): [10]},
        "process_start_time_seconds": {(): [500]},
    }

    add(counts, {"posref_refused": {("waiting",): [3], ("bodies",): [1]}})
    add(counts, {"posref_cache_bytes": {(): [7]}, "posref_builds": {(): [1]}})
    add(counts, {"process_start_time_seconds": {(): [400]}})

    assert counts == {
        "posref_refused": {("waiting",): [5], ("bodies",): [1]},
        "posref_cache_bytes": {(): [17]},
        "process_start_time_seconds": {(): [400]},
        "posref_builds": {(): [1]},
    }


def test_a_histogram_is_exposed_with_cumulative_buckets() -> None:
    histogram = Histogram()
    for seconds in (0.00005, 0.3, 100.0):
        histogram.observe(seconds)

    metric = FAMILIES["posref_build_seconds"].metric("posref_build_seconds", {(): histogram.row})

    buckets = {each.labels["le"]: each.value for each in metric.samples if "le" in each.labels}
    assert len(buckets) == len(BUCKET_SECONDS) + 1
    assert (buckets["0.0001"], buckets["0.25"], buckets["0.5"], buckets["+Inf"]) == (1, 1, 2, 3)
    others = {each.name: each.value for each in metric.samples if "le" not in each.labels}
    assert others == {
        "posref_build_seconds_count": 3,
        "posref_build_seconds_sum": pytest.approx(100.30005),
    }


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

    combined = slots[1].combine(counted(20, 6))

    assert (builds(combined), kept_bytes(combined)) == (121, 16)


def test_a_counter_never_decreases_between_processes(tmp_path: Path) -> None:
    one, other = SharedCounts(tmp_path, 0), SharedCounts(tmp_path, 1)
    one.write(counted(1))
    other.write(counted(1))

    assert builds(one.combine(counted(9))) == 10
    assert builds(other.combine(counted(2))) == 11


def test_a_replacement_continues_counters_and_not_gauges(tmp_path: Path) -> None:
    SharedCounts(tmp_path, 0).write(counted(7, 100))

    after = SharedCounts(tmp_path, 0)
    after.write(counted(1, 30))
    combined = after.combine(counted(2, 30))

    assert (builds(combined), kept_bytes(combined)) == (9, 30)
    assert builds(SharedCounts(tmp_path, 1).combine(counted(0))) == 9


def test_counters_never_decrease_when_workers_are_replaced(tmp_path: Path) -> None:
    watching, last = SharedCounts(tmp_path, 9), 0.0
    for _ in range(5):
        process = SharedCounts(tmp_path, 0)
        for number in range(3):
            process.write(counted(number))
            combined = builds(watching.combine(counted(0)))
            assert combined >= last
            last = combined

    assert last == 10


@pytest.mark.parametrize("has_ended", [True, False])
def test_an_ended_or_silent_process_leaves_its_counters_and_no_gauges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    SharedCounts(tmp_path, 0).write(counted(7, 100), is_last=has_ended)
    if not has_ended:
        monkeypatch.setattr("service.delivery.telemetry.metrics._FRESH_SECONDS", 0.0)

    combined = SharedCounts(tmp_path, 1).combine(counted(1, 30))

    assert (builds(combined), kept_bytes(combined)) == (8, 30)


def snapshot(rows: object, **others: object) -> bytes:
    return orjson.dumps({"written_seconds": 1.0, "rows": rows, **others})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff",
        b"[" * 100_000,
        snapshot({})[:-1],
        b'{"written_seconds": NaN, "rows": {}}',
        snapshot({"posref_builds": [[[], ["7"]]]}),
        snapshot({"posref_builds": [[[], [1, 2]]]}),
        snapshot({"posref_builds": [[["extra"], [1]]]}),
        snapshot({"posref_build_seconds": [[[], [1]]]}),
        snapshot({"unknown_family": [[[], [1]]]}),
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
        combined = SharedCounts(tmp_path, 1).combine(counted(3))

    assert builds(combined) == 3
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
