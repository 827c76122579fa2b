"""Counts of what was answered, by one process and by several."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.app import create_app
from service.delivery.families import FAMILIES
from service.delivery.shared_counts import WorkerSlot
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


def test_paths_that_there_are_not_are_counted_as_one(fresh: Client) -> None:
    def ask(number: int) -> int:
        fresh.request("PROPFIND", f"/no/{number}")
        fresh.get(f"/encoding.npy/{number}")
        fresh.get(f"/docs/assets/{number}")
        return len(counts(fresh))

    ask(0)
    first, *_, last = (ask(number) for number in range(1, 30))

    assert first == last


def test_what_is_kept_is_counted(fresh: Client) -> None:
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


def test_what_is_forgotten_is_counted() -> None:
    with client_of(create_app(Settings(cache_bytes=20_000))) as small:
        for width in (64, 65, 66):
            small.get(f"/encoding.npy?seq_len=64&d_model={width}&dtype=float16")

        assert counts(small)["posref_cache_evictions_total"] == 1


def test_a_body_that_is_sent_in_pieces_is_found_once(fresh: Client) -> None:
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


def test_what_is_watched_is_shown_as_it_is_then(fresh: Client) -> None:
    lanes = {"short": 1, "long": 0}
    metrics = fresh.app.state.delivery.metrics
    metrics.watch("posref_waiting_work", lambda: lanes)
    metrics.watch("posref_connections", lambda: 7)
    lanes["short"] = 5

    counted = counts(fresh)

    assert counted["posref_waiting_work short"] == 5
    assert counted["posref_waiting_work long"] == 0
    assert counted["posref_connections"] == 7


def test_counts_are_never_cached_and_come_as_asked_for(fresh: Client) -> None:
    fresh.get(NPY)
    plain = fresh.get("/metrics")
    open_metrics = fresh.get("/metrics", accept="application/openmetrics-text; version=1.0.0")

    assert plain.headers["Cache-Control"] == "no-store"
    assert plain.headers["Content-Type"].startswith("text/plain; version=")
    assert open_metrics.headers["Content-Type"].startswith("application/openmetrics-text")
    assert open_metrics.text.endswith("# EOF\n")


def test_whichever_process_is_asked_tells_what_all_have_answered(tmp_path: Path) -> None:
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


def test_a_process_that_ends_leaves_what_it_counted_and_not_what_it_held(tmp_path: Path) -> None:
    with client_of(create_app(default_settings(), WorkerSlot(tmp_path, 0))) as first:
        held = counts(first)["process_resident_memory_bytes"]
        with client_of(create_app(default_settings(), WorkerSlot(tmp_path, 1))) as second:
            second.get(NPY)
        counted = counts(first)

    assert counted["posref_builds_total"] == 1
    assert counted["posref_workers"] == 1
    assert counted["process_resident_memory_bytes"] < 1.9 * held


def test_one_process_writes_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with client_of(create_app(default_settings())) as client:
        counts(client)

    assert not list(tmp_path.iterdir())
