import numpy as np
import pytest

from service.analysis.distances import index_matrices
from tests.analysis.asked_arrays import agreeing, proposed, question_of, served


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

    proposals = proposed(question, [index_matrices.shaw])

    assert agreeing(question, proposals[:1], 0)


def test_where_one_end_is_clipped_queries_are_taken_for_the_last() -> None:
    question = served("/relative/shaw?max_relative_position=4&query_start=7&query_len=3&key_len=10")

    first = proposed(question, [index_matrices.shaw])[0].call.parameters

    assert first["max_relative_position"] == 4


@pytest.mark.parametrize("window", ["7,7", "3,5", "8,2", "2,2", "4,6", "16,16"])
@pytest.mark.parametrize("token", ["", "&class_token=true"])
def test_a_window_is_found_by_where_its_rows_end(window: str, token: str) -> None:
    question = served(f"/relative/swin?window_size={window}{token}")

    (proposal,) = proposed(question, [index_matrices.swin])

    assert agreeing(question, [proposal], 0)
    assert proposal.call.parameters["window_size"] == tuple(map(int, window.split(",")))


def test_a_window_of_one_row_is_also_one_of_one_column() -> None:
    question = served("/relative/swin?window_size=1,5")

    calls = agreeing(question, proposed(question, [index_matrices.swin]), 0)

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

    (proposal,) = proposed(question, [index_matrices.permutations])

    assert agreeing(question, [proposal], 0)


def test_four_channels_are_in_the_same_order_both_ways() -> None:
    question = served("/rope/permutation?head_dim=4&num_attention_heads=3")

    proposals = proposed(question, [index_matrices.permutations])

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

    (near,) = proposed(question_of(numbers), [index_matrices.swin])

    assert agreeing(question, [near], 0)


@pytest.mark.parametrize("row", [0, 1, 20, 39])
def test_clipped_distances_are_proposed_whichever_row_is_wrong(row: int) -> None:
    question = served("/relative/shaw?max_relative_position=16&query_len=40")
    numbers = question.sample.values.copy()
    numbers[row] = 5

    near = proposed(question_of(numbers), [index_matrices.shaw])

    assert agreeing(question, near, 0)
