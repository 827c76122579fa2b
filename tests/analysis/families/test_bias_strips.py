"""Strips of distances, located rows, and parameters of queries and keys."""

import numpy as np
import pytest

from service.analysis.families.bias_strips import (
    absolute_parameters,
    alike,
    locate_rows,
    query_key_parameters,
    strip_of,
    strips,
)
from service.numerics.phase import Int64s


def of_distances(queries: int, keys: int) -> np.ndarray:
    return np.arange(keys) - np.arange(queries)[:, np.newaxis]


def test_matrix_of_distances_is_read_as_a_strip() -> None:
    strip = strip_of(of_distances(3, 5)[np.newaxis])

    assert strip is not None
    assert strip.values.tolist() == [[-2, -1, 0, 1, 2, 3, 4]]
    assert strip.distances(2).tolist() == strip.values[0].tolist()
    assert [each.tolist() for each in strip.positions(2)] == [[0, 1, 2], [0, 1, 2, 3, 4]]


def test_matrix_that_depends_on_more_than_distances_is_no_strip() -> None:
    matrix = of_distances(6, 6)
    matrix[5, 3] += 1

    assert strip_of(matrix[np.newaxis]) is None


def test_strip_may_allow_relative_differences() -> None:
    matrix = of_distances(3, 5).astype(np.float64)[np.newaxis]
    matrix[0, 1, 4] *= 1 + 1e-7

    assert strip_of(matrix) is None
    assert strip_of(matrix, 1e-6) is not None


def test_vector_is_read_as_keys_of_one_query_and_as_queries_of_one_key() -> None:
    of_keys, of_queries = strips(np.array([5, 6, 8]))

    assert of_keys.values.tolist() == [[5, 6, 8]]
    assert (of_keys.queries, of_keys.keys) == (1, 3)
    assert of_queries.values.tolist() == [[8, 6, 5]]
    assert (of_queries.queries, of_queries.keys) == (3, 1)


def test_equal_infinite_numbers_are_alike() -> None:
    assert alike(np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0]), 0.1)
    assert not alike(np.array([-np.inf, 1.0]), np.array([0.0, 1.0]), 0.1)


@pytest.mark.parametrize("row", [1, 2, 3, 4])
def test_one_wrong_row_that_is_allowed_does_not_change_the_strip(row: int) -> None:
    matrix = of_distances(6, 6)
    matrix[row] = 17

    assert strip_of(matrix[np.newaxis]) is None
    strip = strip_of(matrix[np.newaxis], wrong_rows=1)

    assert strip is not None
    assert strip.values[0].tolist() == list(range(-5, 6))


def clipped(distances: Int64s) -> Int64s:
    return np.clip(distances, -3, 3)


@pytest.mark.parametrize("positions", [[0, 1, 2], [5, 2, 9], [-7, 0, 4], [3, 10, 17]])
@pytest.mark.parametrize("sign", [1, -1])
def test_rows_are_located_by_their_numbers(positions: list[int], sign: int) -> None:
    rows = clipped(sign * (np.arange(20) - np.array(positions)[:, np.newaxis]))

    found = locate_rows(rows, clipped, sign)

    assert found is not None
    assert clipped(sign * (np.arange(20) - found[:, np.newaxis])).tolist() == rows.tolist()
    assert [position for position in found.tolist() if 0 <= position < 20] == [
        position for position in positions if 0 <= position < 20
    ]


def test_ambiguous_row_is_located_in_line_with_its_neighbours() -> None:
    rows = clipped(np.arange(5) - np.arange(0, 60, 2)[:, np.newaxis])

    found = locate_rows(rows, clipped, 1)

    assert found is not None
    assert found.tolist() == list(range(0, 60, 2))


def test_row_that_no_position_gives_is_not_located() -> None:
    rows = clipped(np.arange(5) - np.arange(3)[:, np.newaxis])
    rows[1, 2] = 7

    assert locate_rows(rows, clipped, 1) is None


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
def test_parameters_of_queries_and_keys_begin_at_0(
    queries: list[int], keys: list[int], expected: dict[str, object]
) -> None:
    assert query_key_parameters(np.array(queries), np.array(keys)) == expected


def test_absolute_parameters_keep_positions() -> None:
    parameters = absolute_parameters(np.array([600, 601]), np.array([600, 601]))

    assert parameters == {"query_start": 600, "query_len": 2, "key_start": 600, "key_len": 2}
