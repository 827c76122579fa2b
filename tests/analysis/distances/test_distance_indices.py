from collections.abc import Iterator

import numpy as np
import pytest

from service.analysis.distances.distance_indices import Found, propose_rules
from service.analysis.distances.strips import Strip
from service.tables.buckets import Clipped
from tests.analysis.asked_arrays import agreeing, question_of


def clipped_at_2(strip: Strip) -> Iterator[Found]:
    for zero in np.flatnonzero(strip.values[0] == 2).tolist():
        yield Found(Clipped(2), {"max_relative_position": 2}, zero, ("said",))


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

    assert proposal.call.parameters["query_positions"] == "1,5,6,11"
    assert agreeing(question, [proposal], 0)


def test_columns_of_other_keys_are_found_one_by_one() -> None:
    question = question_of(distances(list(range(12)), [2, 3, 7, 10]))

    (proposal, *_) = propose_rules(question, "relative/shaw", clipped_at_2)

    assert proposal.call.parameters["key_positions"] == "2,3,7,10"
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
