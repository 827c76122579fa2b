"""Durations by bucket."""

import pytest

from service.delivery.histogram import BUCKET_SECONDS, ROW_LENGTH, Histogram


def test_buckets_go_from_a_tenth_of_a_millisecond_to_a_minute_and_beyond() -> None:
    assert BUCKET_SECONDS[0] == 0.0001
    assert BUCKET_SECONDS[-1] == 60
    assert list(BUCKET_SECONDS) == sorted(set(BUCKET_SECONDS))


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (0.0001, 0), (0.00011, 1), (0.00025, 1), (60.0, -3), (60.1, -2), (9999.0, -2)],
)
def test_a_duration_is_in_the_first_bucket_that_is_long_enough(seconds: float, bucket: int) -> None:
    histogram = Histogram()

    histogram.observe(seconds)

    expected = [0.0] * ROW_LENGTH
    expected[bucket] = 1
    expected[-1] = seconds
    assert histogram.row == expected


def test_durations_are_added_up() -> None:
    histogram = Histogram()
    for _ in range(3):
        histogram.observe(2.0)

    assert (sum(histogram.row[:-1]), histogram.row[-1]) == (3, 6.0)
