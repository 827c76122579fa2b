"""Buckets, clipped distances, windows and permutations."""

from collections.abc import Iterator

import numpy as np
import pytest

from service.analysis.array import ProposalFamily
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
from service.encodings.relative.buckets import Shaw
from tests.analysis.samples import agreeing, input_from, input_of, proposed


@pytest.mark.parametrize(
    ("url", "family", "sizes"),
    [
        (
            "/relative/t5?query_len=300&num_buckets=48&max_distance=256",
            propose_t5,
            {"num_buckets": 48, "max_distance": 256},
        ),
        (
            "/relative/shaw?max_relative_position=4&query_start=7&query_len=3&key_len=10",
            propose_shaw,
            {"max_relative_position": 4},
        ),
    ],
    ids=["every bucket of T5 occurs", "one clipped end of Shaw"],
)
def test_first_proposal_has_the_exact_sizes(
    url: str, family: ProposalFamily, sizes: dict[str, int]
) -> None:
    first = proposed(input_of(url), [family])[0].request.parameters

    assert sizes.items() <= first.items()


def test_both_directions_are_proposed_for_t5_without_later_keys() -> None:
    request = input_of("/relative/t5?query_start=199&query_len=1&key_len=200&bidirectional=false")

    proposals = proposed(request, [propose_t5])

    directions = {proposal.request.parameters.get("bidirectional", True) for proposal in proposals}
    assert directions == {True, False}
    assert len(agreeing(request, proposals, 0)) == len(proposals)


def test_plain_distances_are_proposed_with_and_without_deberta_buckets() -> None:
    request = input_of("/relative/deberta?query_len=6&key_len=9&bucket_size=-1")

    proposals = proposed(request, [propose_deberta])

    assert [proposal.request.parameters.get("bucket_size") for proposal in proposals] == [-1, None]
    assert len(agreeing(request, proposals, 0)) == 2


def test_negated_buckets_are_not_the_same_table() -> None:
    request = input_of("/relative/deberta?query_len=300")
    negated = input_from(-request.sample.values)

    assert not proposed(request, [propose_t5])
    requests = agreeing(negated, proposed(negated, [propose_deberta]), 0)
    assert not any(each.parameters.get("query_len") == 300 for each in requests)


HALVES = np.tile(np.arange(4) // 2, (3, 1))


@pytest.mark.parametrize(
    "numbers",
    [
        np.tril(np.ones((8, 8), dtype=np.int64)),
        np.arange(12),
        -(10**12) - HALVES,
        -(2**40) - HALVES,
        1 - 2**63 + 1 - HALVES,
    ],
    ids=["mask", "ramp", "large", "larger", "lowest int64"],
)
def test_other_integers_have_no_bucket_proposals(numbers: np.ndarray) -> None:
    assert not proposed(input_from(numbers), [propose_t5, propose_deberta])


def test_nearest_table_is_proposed_with_one_wrong_row() -> None:
    numbers = input_of("/relative/t5?query_len=40").sample.values.copy()
    numbers[17] = np.random.default_rng(0).integers(0, 32, 40)
    request = input_from(numbers)

    proposals = proposed(request, [propose_t5])

    assert proposals[0].request.parameters == {"query_len": 40}
    assert not agreeing(request, proposals, 0)


def test_window_of_one_row_is_also_one_of_one_column() -> None:
    request = input_of("/relative/swin?window_size=1,5")

    requests = agreeing(request, proposed(request, [propose_swin]), 0)

    assert [each.parameters["window_size"] for each in requests] == [(1, 5), (5, 1)]


def test_both_layouts_are_proposed_for_a_permutation_of_four_channels() -> None:
    request = input_of("/rope/permutation?head_dim=4&num_attention_heads=3")

    proposals = proposed(request, [propose_permutation])

    assert len(agreeing(request, proposals, 0)) == 2


def test_other_permutations_have_no_proposal() -> None:
    shuffled = np.random.default_rng(0).permutation(64)

    assert not proposed(input_from(shuffled))
    assert not proposed(input_from(np.arange(64)))
    assert not proposed(input_from(np.arange(64)[::-1].copy()))


@pytest.mark.parametrize(
    ("url", "family", "row"),
    [
        *(("/relative/swin?window_size=7,7", propose_swin, row) for row in (0, 1, 7, 48)),
        *(
            ("/relative/swin?window_size=3,16&class_token=true", propose_swin, row)
            for row in (0, 1, 24, 48)
        ),
        *(
            ("/relative/shaw?max_relative_position=16&query_len=40", propose_shaw, row)
            for row in (0, 1, 20, 39)
        ),
    ],
)
def test_table_is_proposed_with_any_one_row_wrong(
    url: str, family: ProposalFamily, row: int
) -> None:
    request = input_of(url)
    numbers = request.sample.values.copy()
    numbers[row] = numbers[row][::-1] + 1

    near = proposed(input_from(numbers), [family])

    assert agreeing(request, near, 0)


def clipped_at_2(strip: Strip) -> Iterator[IndexMatch]:
    for zero in np.flatnonzero(strip.values[0] == 2).tolist():
        rule = Shaw.model_construct(max_relative_position=2)
        yield IndexMatch(rule, {"max_relative_position": 2}, zero, ("evidence",))


def distances(queries: list[int], keys: list[int]) -> np.ndarray:
    return np.asarray(np.clip(np.subtract.outer(keys, queries).T, -2, 2) + 2)


def test_rule_that_does_not_match_is_not_proposed() -> None:
    numbers = distances(list(range(6)), list(range(6)))
    numbers[[0, 5], [4, 1]] = 3

    assert not list(propose_rules(input_from(numbers), "relative/shaw", clipped_at_2))
    assert not list(propose_rules(input_from(numbers + 0.5), "relative/shaw", clipped_at_2))
