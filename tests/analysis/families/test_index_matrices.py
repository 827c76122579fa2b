""" """

from collections.abc import Iterator

import numpy as np
import pytest

from service.analysis.families.bias_strips import Strip
from service.analysis.families.index_matrices import (
    IndexMatch,
    propose_deberta,
    propose_permutation,
    propose_rules,
    propose_shaw,
    propose_swin,
    propose_t5,
)
from service.encodings.relative.buckets import Clipped
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

    proposals = proposed(question, [propose_t5])

    assert agreeing(question, proposals[:1], 0)


def test_where_every_bucket_is_seen_t5_has_its_own_sizes() -> None:
    question = served("/relative/t5?query_len=300&num_buckets=48&max_distance=256")

    first = proposed(question, [propose_t5])[0].request.parameters

    assert (first["num_buckets"], first["max_distance"]) == (48, 256)


def test_with_no_later_key_both_directions_are_proposed() -> None:
    question = served("/relative/t5?query_start=199&query_len=1&key_len=200&bidirectional=false")

    proposals = proposed(question, [propose_t5])

    directions = {proposal.request.parameters.get("bidirectional", True) for proposal in proposals}
    assert directions == {True, False}
    assert len(agreeing(question, proposals, 0)) == len(proposals)


@pytest.mark.parametrize("places", PLACES[:4] + PLACES[5:6] + PLACES[7:8])
@pytest.mark.parametrize(
    "sizes", ["", "bucket_size=16&max_position=64&", "bucket_size=24&max_position=300&"]
)
def test_deberta_is_found_by_where_buckets_are_shared(sizes: str, places: str) -> None:
    question = served(f"/relative/deberta?{sizes}{places}")

    proposals = proposed(question, [propose_deberta])

    assert agreeing(question, proposals[:1], 0)


def test_distances_without_buckets_are_also_those_of_buckets_that_none_shares() -> None:
    question = served("/relative/deberta?query_len=6&key_len=9&bucket_size=-1")

    proposals = proposed(question, [propose_deberta])

    assert [proposal.request.parameters.get("bucket_size") for proposal in proposals] == [-1, None]
    assert len(agreeing(question, proposals, 0)) == 2


def test_signs_are_told_apart() -> None:
    question = served("/relative/deberta?query_len=300")
    turned = question_of(-question.sample.values)

    assert not proposed(question, [propose_t5])
    calls = agreeing(turned, proposed(turned, [propose_deberta]), 0)
    assert not any(call.parameters.get("query_len") == 300 for call in calls)


@pytest.mark.parametrize("family", [propose_t5, propose_deberta])
def test_masks_and_ramps_are_no_buckets(family: object) -> None:
    of = propose_t5 if family is propose_t5 else propose_deberta

    assert not proposed(question_of(np.tril(np.ones((8, 8), dtype=np.int64))), [of])
    assert not proposed(question_of(np.arange(12)), [of])


def test_with_one_wrong_row_the_others_say_what_is_nearest() -> None:
    numbers = served("/relative/t5?query_len=40").sample.values.copy()
    numbers[17] = np.random.default_rng(0).integers(0, 32, 40)
    question = question_of(numbers)

    proposals = proposed(question, [propose_t5])

    assert proposals[0].request.parameters == {"query_len": 40}
    assert not agreeing(question, proposals, 0)


@pytest.mark.parametrize("farthest", [10**12, 2**40, 2**63 - 1])
def test_numbers_that_are_no_buckets_are_let_alone_at_once(farthest: int) -> None:
    numbers = -farthest - np.tile(np.arange(4) // 2, (3, 1)) + (farthest == 2**63 - 1)

    question = question_of(numbers.astype(np.int64))

    assert not proposed(question, [propose_t5, propose_deberta])


@pytest.mark.parametrize("clipped", [1, 3, 16, 100])
@pytest.mark.parametrize(
    "places",
    [
        "query_len=40",
        "query_len=300",
        "query_len=5&key_len=70",
        "query_len=3&query_start=7&key_len=10",
        "query_len=5&query_start=395&key_len=400",
        "query_positions=3,10,90,91&key_len=300",
        "query_len=1&query_start=100&key_len=300",
    ],
)
def test_clipped_distances_are_found_by_what_is_in_the_middle(clipped: int, places: str) -> None:
    question = served(f"/relative/shaw?max_relative_position={clipped}&{places}")

    proposals = proposed(question, [propose_shaw])

    assert agreeing(question, proposals[:1], 0)


def test_where_one_end_is_clipped_queries_are_taken_for_the_last() -> None:
    question = served("/relative/shaw?max_relative_position=4&query_start=7&query_len=3&key_len=10")

    first = proposed(question, [propose_shaw])[0].request.parameters

    assert first["max_relative_position"] == 4


@pytest.mark.parametrize("window", ["7,7", "3,5", "8,2", "2,2", "4,6", "16,16"])
@pytest.mark.parametrize("token", ["", "&class_token=true"])
def test_a_window_is_found_by_where_its_rows_end(window: str, token: str) -> None:
    question = served(f"/relative/swin?window_size={window}{token}")

    (proposal,) = proposed(question, [propose_swin])

    assert agreeing(question, [proposal], 0)
    assert proposal.request.parameters["window_size"] == tuple(map(int, window.split(",")))


def test_a_window_of_one_row_is_also_one_of_one_column() -> None:
    question = served("/relative/swin?window_size=1,5")

    calls = agreeing(question, proposed(question, [propose_swin]), 0)

    assert [call.parameters["window_size"] for call in calls] == [(1, 5), (5, 1)]


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize(
    "widths",
    [
        "head_dim=64",
        "head_dim=64&rotary_dim=16",
        "head_dim=80&rotary_dim=32&rotary_offset=16",
        "head_dim=16&rotary_offset=4&num_attention_heads=5",
        "head_dim=128&num_attention_heads=8",
    ],
)
def test_an_order_of_weights_is_found_by_what_moves(widths: str, layout: str) -> None:
    question = served(f"/rope/permutation?{widths}&layout={layout}")

    (proposal,) = proposed(question, [propose_permutation])

    assert agreeing(question, [proposal], 0)


def test_four_channels_are_in_the_same_order_both_ways() -> None:
    question = served("/rope/permutation?head_dim=4&num_attention_heads=3")

    proposals = proposed(question, [propose_permutation])

    assert len(agreeing(question, proposals, 0)) == 2


def test_other_orders_are_none_of_weights() -> None:
    shuffled = np.random.default_rng(0).permutation(64)

    assert not proposed(question_of(shuffled))
    assert not proposed(question_of(np.arange(64)))
    assert not proposed(question_of(np.arange(64)[::-1].copy()))


@pytest.mark.parametrize("row", [0, 1, 7, 24, 48])
@pytest.mark.parametrize("query", ["window_size=7,7", "window_size=3,16&class_token=true"])
def test_a_window_is_proposed_whichever_row_is_wrong(query: str, row: int) -> None:
    question = served(f"/relative/swin?{query}")
    numbers = question.sample.values.copy()
    numbers[row] = numbers[row][::-1] + 1

    (near,) = proposed(question_of(numbers), [propose_swin])

    assert agreeing(question, [near], 0)


@pytest.mark.parametrize("row", [0, 1, 20, 39])
def test_clipped_distances_are_proposed_whichever_row_is_wrong(row: int) -> None:
    question = served("/relative/shaw?max_relative_position=16&query_len=40")
    numbers = question.sample.values.copy()
    numbers[row] = 5

    near = proposed(question_of(numbers), [propose_shaw])

    assert agreeing(question, near, 0)


def clipped_at_2(strip: Strip) -> Iterator[IndexMatch]:
    for zero in np.flatnonzero(strip.values[0] == 2).tolist():
        yield IndexMatch(Clipped(2), {"max_relative_position": 2}, zero, ("said",))


def distances(queries: list[int], keys: list[int]) -> np.ndarray:
    return np.asarray(np.clip(np.subtract.outer(keys, queries).T, -2, 2) + 2)


def test_a_rule_that_holds_is_proposed_with_its_places() -> None:
    question = question_of(distances([6, 7, 8], list(range(12))))

    (proposal,) = propose_rules(question, "relative/shaw", clipped_at_2)

    assert agreeing(question, [proposal], 0)
    assert "said" in proposal.support


def test_rows_of_other_queries_are_found_one_by_one() -> None:
    question = question_of(distances([1, 5, 6, 11], list(range(12))))

    (proposal, *_) = propose_rules(question, "relative/shaw", clipped_at_2)

    assert proposal.request.parameters["query_positions"] == "1,5,6,11"
    assert agreeing(question, [proposal], 0)


def test_columns_of_other_keys_are_found_one_by_one() -> None:
    question = question_of(distances(list(range(12)), [2, 3, 7, 10]))

    (proposal, *_) = propose_rules(question, "relative/shaw", clipped_at_2)

    assert proposal.request.parameters["key_positions"] == "2,3,7,10"
    assert agreeing(question, [proposal], 0)


def test_a_rule_that_does_not_hold_is_not_proposed() -> None:
    numbers = distances(list(range(6)), list(range(6)))
    numbers[[0, 5], [4, 1]] = 3

    assert not list(propose_rules(question_of(numbers), "relative/shaw", clipped_at_2))
    assert not list(propose_rules(question_of(numbers + 0.5), "relative/shaw", clipped_at_2))


@pytest.mark.parametrize("row", range(6))
def test_a_table_of_which_one_row_is_wrong_is_proposed_for_the_others(row: int) -> None:
    right = distances(list(range(6)), list(range(6)))
    numbers = right.copy()
    numbers[row] = 7

    near = propose_rules(question_of(numbers), "relative/shaw", clipped_at_2)

    assert agreeing(question_of(right), near, 0)
