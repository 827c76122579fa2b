"""Buckets, clipped distances, windows and permutations."""

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
from tests.analysis.samples import agreeing, input_from, input_of, proposed


def test_where_every_bucket_is_seen_t5_has_its_own_sizes() -> None:
    question = input_of("/relative/t5?query_len=300&num_buckets=48&max_distance=256")

    first = proposed(question, [propose_t5])[0].request.parameters

    assert (first["num_buckets"], first["max_distance"]) == (48, 256)


def test_with_no_later_key_both_directions_are_proposed() -> None:
    question = input_of("/relative/t5?query_start=199&query_len=1&key_len=200&bidirectional=false")

    proposals = proposed(question, [propose_t5])

    directions = {proposal.request.parameters.get("bidirectional", True) for proposal in proposals}
    assert directions == {True, False}
    assert len(agreeing(question, proposals, 0)) == len(proposals)


def test_distances_without_buckets_are_also_those_of_buckets_that_none_shares() -> None:
    question = input_of("/relative/deberta?query_len=6&key_len=9&bucket_size=-1")

    proposals = proposed(question, [propose_deberta])

    assert [proposal.request.parameters.get("bucket_size") for proposal in proposals] == [-1, None]
    assert len(agreeing(question, proposals, 0)) == 2


def test_signs_are_told_apart() -> None:
    question = input_of("/relative/deberta?query_len=300")
    turned = input_from(-question.sample.values)

    assert not proposed(question, [propose_t5])
    calls = agreeing(turned, proposed(turned, [propose_deberta]), 0)
    assert not any(call.parameters.get("query_len") == 300 for call in calls)


@pytest.mark.parametrize("family", [propose_t5, propose_deberta])
def test_masks_and_ramps_are_no_buckets(family: object) -> None:
    of = propose_t5 if family is propose_t5 else propose_deberta

    assert not proposed(input_from(np.tril(np.ones((8, 8), dtype=np.int64))), [of])
    assert not proposed(input_from(np.arange(12)), [of])


def test_with_one_wrong_row_the_others_say_what_is_nearest() -> None:
    numbers = input_of("/relative/t5?query_len=40").sample.values.copy()
    numbers[17] = np.random.default_rng(0).integers(0, 32, 40)
    question = input_from(numbers)

    proposals = proposed(question, [propose_t5])

    assert proposals[0].request.parameters == {"query_len": 40}
    assert not agreeing(question, proposals, 0)


@pytest.mark.parametrize("farthest", [10**12, 2**40, 2**63 - 1])
def test_numbers_that_are_no_buckets_are_let_alone_at_once(farthest: int) -> None:
    numbers = -farthest - np.tile(np.arange(4) // 2, (3, 1)) + (farthest == 2**63 - 1)

    question = input_from(numbers.astype(np.int64))

    assert not proposed(question, [propose_t5, propose_deberta])


def test_where_one_end_is_clipped_queries_are_taken_for_the_last() -> None:
    question = input_of(
        "/relative/shaw?max_relative_position=4&query_start=7&query_len=3&key_len=10"
    )

    first = proposed(question, [propose_shaw])[0].request.parameters

    assert first["max_relative_position"] == 4


def test_a_window_of_one_row_is_also_one_of_one_column() -> None:
    question = input_of("/relative/swin?window_size=1,5")

    calls = agreeing(question, proposed(question, [propose_swin]), 0)

    assert [call.parameters["window_size"] for call in calls] == [(1, 5), (5, 1)]


def test_four_channels_are_in_the_same_order_both_ways() -> None:
    question = input_of("/rope/permutation?head_dim=4&num_attention_heads=3")

    proposals = proposed(question, [propose_permutation])

    assert len(agreeing(question, proposals, 0)) == 2


def test_other_orders_are_none_of_weights() -> None:
    shuffled = np.random.default_rng(0).permutation(64)

    assert not proposed(input_from(shuffled))
    assert not proposed(input_from(np.arange(64)))
    assert not proposed(input_from(np.arange(64)[::-1].copy()))


@pytest.mark.parametrize("row", [0, 1, 7, 24, 48])
@pytest.mark.parametrize("query", ["window_size=7,7", "window_size=3,16&class_token=true"])
def test_a_window_is_proposed_whichever_row_is_wrong(query: str, row: int) -> None:
    question = input_of(f"/relative/swin?{query}")
    numbers = question.sample.values.copy()
    numbers[row] = numbers[row][::-1] + 1

    (near,) = proposed(input_from(numbers), [propose_swin])

    assert agreeing(question, [near], 0)


@pytest.mark.parametrize("row", [0, 1, 20, 39])
def test_clipped_distances_are_proposed_whichever_row_is_wrong(row: int) -> None:
    question = input_of("/relative/shaw?max_relative_position=16&query_len=40")
    numbers = question.sample.values.copy()
    numbers[row] = 5

    near = proposed(input_from(numbers), [propose_shaw])

    assert agreeing(question, near, 0)


def clipped_at_2(strip: Strip) -> Iterator[IndexMatch]:
    for zero in np.flatnonzero(strip.values[0] == 2).tolist():
        yield IndexMatch(Clipped(2), {"max_relative_position": 2}, zero, ("said",))


def distances(queries: list[int], keys: list[int]) -> np.ndarray:
    return np.asarray(np.clip(np.subtract.outer(keys, queries).T, -2, 2) + 2)


def test_a_rule_that_holds_is_proposed_with_its_places() -> None:
    question = input_from(distances([6, 7, 8], list(range(12))))

    (proposal,) = propose_rules(question, "relative/shaw", clipped_at_2)

    assert agreeing(question, [proposal], 0)
    assert "said" in proposal.support


def test_rows_of_other_queries_are_found_one_by_one() -> None:
    question = input_from(distances([1, 5, 6, 11], list(range(12))))

    (proposal, *_) = propose_rules(question, "relative/shaw", clipped_at_2)

    assert proposal.request.parameters["query_positions"] == "1,5,6,11"
    assert agreeing(question, [proposal], 0)


def test_columns_of_other_keys_are_found_one_by_one() -> None:
    question = input_from(distances(list(range(12)), [2, 3, 7, 10]))

    (proposal, *_) = propose_rules(question, "relative/shaw", clipped_at_2)

    assert proposal.request.parameters["key_positions"] == "2,3,7,10"
    assert agreeing(question, [proposal], 0)


def test_a_rule_that_does_not_hold_is_not_proposed() -> None:
    numbers = distances(list(range(6)), list(range(6)))
    numbers[[0, 5], [4, 1]] = 3

    assert not list(propose_rules(input_from(numbers), "relative/shaw", clipped_at_2))
    assert not list(propose_rules(input_from(numbers + 0.5), "relative/shaw", clipped_at_2))


@pytest.mark.parametrize("row", range(6))
def test_a_table_of_which_one_row_is_wrong_is_proposed_for_the_others(row: int) -> None:
    right = distances(list(range(6)), list(range(6)))
    numbers = right.copy()
    numbers[row] = 7

    near = propose_rules(input_from(numbers), "relative/shaw", clipped_at_2)

    assert agreeing(input_from(right), near, 0)
