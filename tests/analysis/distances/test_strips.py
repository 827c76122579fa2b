import numpy as np
import pytest

from service.analysis.distances.strips import alike, line_strips, strip_of, strips


def of_distances(queries: int, keys: int) -> np.ndarray:
    return np.arange(keys) - np.arange(queries)[:, np.newaxis]


def test_what_depends_on_distances_is_a_strip_of_them() -> None:
    strip = strip_of(of_distances(3, 5)[np.newaxis])

    assert strip is not None
    assert strip.values.tolist() == [[-2, -1, 0, 1, 2, 3, 4]]
    assert strip.distances(2).tolist() == strip.values[0].tolist()
    assert strip.nearest(2) == 0


def test_what_depends_on_more_than_distances_is_none() -> None:
    matrix = of_distances(6, 6)
    matrix[5, 3] += 1

    assert strip_of(matrix[np.newaxis]) is None


def test_one_wrong_row_may_be_passed_over() -> None:
    matrix = of_distances(6, 6)
    matrix[3] = 17

    assert strip_of(matrix[np.newaxis]) is None
    strip = strip_of(matrix[np.newaxis], wrong_rows=1)
    assert strip is not None
    assert strip.values[0, 1:-1].tolist() == list(range(-4, 5))


def test_a_share_of_difference_is_passed_over_where_it_is_said() -> None:
    matrix = of_distances(3, 5).astype(np.float64)[np.newaxis]
    matrix[0, 1, 4] *= 1 + 1e-7

    assert strip_of(matrix) is None
    assert strip_of(matrix, 1e-6) is not None


def test_a_vector_is_of_keys_that_rise_or_of_queries_that_do() -> None:
    of_keys, of_queries = line_strips(np.array([5, 6, 8]))

    assert of_keys.values.tolist() == [[5, 6, 8]]
    assert (of_keys.queries, of_keys.keys) == (1, 3)
    assert of_queries.values.tolist() == [[8, 6, 5]]
    assert (of_queries.queries, of_queries.keys) == (3, 1)


@pytest.mark.parametrize(("shape", "count"), [((4,), 2), ((1, 4), 1), ((2, 3, 4, 5), 0)])
def test_only_vectors_matrices_and_heads_of_them_are_strips(
    shape: tuple[int, ...], count: int
) -> None:
    assert len(list(strips(np.zeros(shape)))) == count


def test_infinite_numbers_are_alike() -> None:
    assert alike(np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0]), 0.1)
    assert not alike(np.array([-np.inf, 1.0]), np.array([0.0, 1.0]), 0.1)


@pytest.mark.parametrize("row", [1, 2, 3, 4])
def test_a_wrong_row_next_to_an_end_leaves_the_end_right(row: int) -> None:
    matrix = of_distances(6, 6)
    matrix[row] = 17

    strip = strip_of(matrix[np.newaxis], wrong_rows=1)

    assert strip is not None
    assert strip.values[0].tolist() == list(range(-5, 6))
