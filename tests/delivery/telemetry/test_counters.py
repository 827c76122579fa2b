"""Metric definitions: how numbers are combined and exposed; histograms."""

import pytest

from service.delivery.telemetry.metrics import (
    FAMILIES,
    ROW_LENGTH,
    Counts,
    Kind,
    MetricDefinition,
    add,
    outliving,
)
from service.delivery.telemetry.traffic import BUCKET_SECONDS, Histogram


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


def test_add_does_not_change_shared_rows() -> None:
    live = Histogram()
    live.observe(1.0)
    counts: Counts = {}
    for _ in range(2):
        add(counts, {"posref_build_seconds": {(): live.row}})

    assert counts["posref_build_seconds"][()][-1] == 2.0
    assert live.row[-1] == 1.0


def test_counters_and_histograms_outlive_their_process() -> None:
    every: Counts = {name: {} for name in FAMILIES}

    lasting = outliving(every)

    assert {"posref_answers", "posref_build_seconds", "process_cpu_seconds"} <= set(lasting)
    assert not {"posref_workers", "posref_cache_bytes", "process_start_time_seconds"} & set(lasting)


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


@pytest.mark.parametrize(
    ("kind", "name"), [(Kind.COUNTER, "posref_x_total"), (Kind.GAUGE, "posref_x")]
)
def test_a_number_is_exposed_with_its_labels(kind: Kind, name: str) -> None:
    metric = MetricDefinition(kind, "Things.", ("lane",)).metric("posref_x", {("short",): [4]})

    ((sample),) = metric.samples
    assert (sample.name, sample.labels, sample.value) == (name, {"lane": "short"}, 4)


def test_row_lengths_follow_the_kind() -> None:
    assert FAMILIES["posref_build_seconds"].row_length == ROW_LENGTH
    assert FAMILIES["posref_builds"].row_length == 1


def test_buckets_go_from_a_tenth_of_a_millisecond_to_a_minute_and_beyond() -> None:
    assert BUCKET_SECONDS[0] == 0.0001
    assert BUCKET_SECONDS[-1] == 60
    assert list(BUCKET_SECONDS) == sorted(set(BUCKET_SECONDS))


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (0.0001, 0), (0.00011, 1), (0.00025, 1), (60.0, -3), (60.1, -2), (9999.0, -2)],
)
def test_a_duration_counts_in_the_first_bucket_that_holds_it(seconds: float, bucket: int) -> None:
    histogram = Histogram()

    histogram.observe(seconds)

    expected = [0.0] * ROW_LENGTH
    expected[bucket] = 1
    expected[-1] = seconds
    assert histogram.row == expected


def test_durations_are_summed() -> None:
    histogram = Histogram()
    for _ in range(3):
        histogram.observe(2.0)

    assert (sum(histogram.row[:-1]), histogram.row[-1]) == (3, 6.0)
