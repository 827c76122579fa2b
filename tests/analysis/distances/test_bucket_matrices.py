import numpy as np
import pytest

from service.analysis.distances import bucket_matrices
from tests.analysis.asked_arrays import agreeing, proposed, question_of, served

PLACES = [
    "query_len=40",
    "query_len=300",
    "query_len=16&key_len=64",
    "query_len=5&query_start=395&key_len=400",
    "query_len=20&key_start=7&key_len=100",
    "query_len=1&query_start=200&key_len=400",
    "query_len=200&key_len=1",
    "query_positions=3,10,90,91&key_len=200",
    "query_positions=0:200:7&key_len=200",
    "query_len=100&key_positions=0:100:9",
]


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize(
    "sizes", ["", "num_buckets=16&max_distance=64&", "num_buckets=48&max_distance=200&"]
)
@pytest.mark.parametrize("direction", ["", "bidirectional=false&"])
def test_t5_is_found_by_where_buckets_are_shared(sizes: str, direction: str, places: str) -> None:
    question = served(f"/relative/t5?{sizes}{direction}{places}")

    proposals = proposed(question, [bucket_matrices.t5])

    assert agreeing(question, proposals[:1], 0)


def test_where_every_bucket_is_seen_t5_has_its_own_sizes() -> None:
    question = served("/relative/t5?query_len=300&num_buckets=48&max_distance=256")

    first = proposed(question, [bucket_matrices.t5])[0].call.parameters

    assert (first["num_buckets"], first["max_distance"]) == (48, 256)


def test_with_no_later_key_both_directions_are_proposed() -> None:
    question = served("/relative/t5?query_start=199&query_len=1&key_len=200&bidirectional=false")

    proposals = proposed(question, [bucket_matrices.t5])

    directions = {proposal.call.parameters.get("bidirectional", True) for proposal in proposals}
    assert directions == {True, False}
    assert len(agreeing(question, proposals, 0)) == len(proposals)


@pytest.mark.parametrize("places", PLACES[:4] + PLACES[5:6] + PLACES[7:8])
@pytest.mark.parametrize(
    "sizes", ["", "bucket_size=16&max_position=64&", "bucket_size=24&max_position=300&"]
)
def test_deberta_is_found_by_where_buckets_are_shared(sizes: str, places: str) -> None:
    question = served(f"/relative/deberta?{sizes}{places}")

    proposals = proposed(question, [bucket_matrices.deberta])

    assert agreeing(question, proposals[:1], 0)


def test_distances_without_buckets_are_also_those_of_buckets_that_none_shares() -> None:
    question = served("/relative/deberta?query_len=6&key_len=9&bucket_size=-1")

    proposals = proposed(question, [bucket_matrices.deberta])

    assert [proposal.call.parameters.get("bucket_size") for proposal in proposals] == [-1, None]
    assert len(agreeing(question, proposals, 0)) == 2


def test_signs_are_told_apart() -> None:
    question = served("/relative/deberta?query_len=300")
    turned = question_of(-question.sample.values)

    assert not proposed(question, [bucket_matrices.t5])
    calls = agreeing(turned, proposed(turned, [bucket_matrices.deberta]), 0)
    assert not any(call.parameters.get("query_len") == 300 for call in calls)


@pytest.mark.parametrize("family", [bucket_matrices.t5, bucket_matrices.deberta])
def test_masks_and_ramps_are_no_buckets(family: object) -> None:
    of = bucket_matrices.t5 if family is bucket_matrices.t5 else bucket_matrices.deberta

    assert not proposed(question_of(np.tril(np.ones((8, 8), dtype=np.int64))), [of])
    assert not proposed(question_of(np.arange(12)), [of])


def test_with_one_wrong_row_the_others_say_what_is_nearest() -> None:
    numbers = served("/relative/t5?query_len=40").sample.values.copy()
    numbers[17] = np.random.default_rng(0).integers(0, 32, 40)
    question = question_of(numbers)

    proposals = proposed(question, [bucket_matrices.t5])

    assert proposals[0].call.parameters == {"query_len": 40}
    assert not agreeing(question, proposals, 0)


@pytest.mark.parametrize("farthest", [10**12, 2**40, 2**63 - 1])
def test_numbers_that_are_no_buckets_are_let_alone_at_once(farthest: int) -> None:
    numbers = -farthest - np.tile(np.arange(4) // 2, (3, 1)) + (farthest == 2**63 - 1)

    question = question_of(numbers.astype(np.int64))

    assert not proposed(question, [bucket_matrices.t5, bucket_matrices.deberta])
