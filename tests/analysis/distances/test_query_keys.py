import numpy as np
import pytest

from service.analysis.distances.query_keys import (
    contiguous,
    positions_parameters,
    query_key_parameters,
)


@pytest.mark.parametrize(
    ("queries", "keys", "expected"),
    [
        ([0, 1, 2], [0, 1, 2], {"query_len": 3}),
        ([0, 1], [0, 1, 2], {"query_len": 2, "key_len": 3}),
        ([5, 6], [0, 1, 2], {"query_start": 5, "query_len": 2, "key_len": 3}),
        ([-4, -3], [-9, -8], {"query_start": 5, "query_len": 2, "key_len": 2}),
        ([0], [7, 8], {"query_len": 1, "key_start": 7, "key_len": 2}),
        ([1, 4, 9], [1, 2], {"query_positions": "0,3,8", "key_len": 2}),
        ([0, 3, 6, 9], [0, 1], {"query_positions": "0:10:3", "key_len": 2}),
    ],
)
def test_queries_and_keys_are_spelled_from_0_on(
    queries: list[int], keys: list[int], expected: dict[str, object]
) -> None:
    assert query_key_parameters(np.array(queries), np.array(keys)) == expected


def test_positions_stay_where_they_matter() -> None:
    spelled = positions_parameters(np.array([600, 601]), np.array([600, 601]))

    assert spelled == {"query_start": 600, "query_len": 2, "key_start": 600, "key_len": 2}


def test_the_first_key_is_as_far_after_the_first_query_as_said() -> None:
    queries, keys = contiguous(-3, 2, 4)

    assert queries.tolist() == [0, 1]
    assert keys.tolist() == [-3, -2, -1, 0]
