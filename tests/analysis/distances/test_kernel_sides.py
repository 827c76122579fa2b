import numpy as np
import pytest

from service.analysis.distances.kernel_sides import sides


def falling(distances: np.ndarray) -> np.ndarray:
    return np.asarray(-np.sqrt(np.abs(distances)))


def distances(queries: int, keys: int) -> np.ndarray:
    return np.arange(keys) - np.arange(queries)[:, np.newaxis]


def test_both_sides_of_a_kernel_are_the_same() -> None:
    (found,) = sides(falling(distances(6, 9)), 2.0**-40)

    assert found.parameters == {"query_len": 6, "key_len": 9, "causal": False}
    assert np.allclose(found.sizes[0], np.sqrt(found.lengths))
    assert found.lengths.max() == 8


def test_a_causal_kernel_has_nothing_ahead() -> None:
    (found,) = sides(np.where(distances(6, 6) < 0, falling(distances(6, 6)), 0.0), 2.0**-40)

    assert found.parameters == {"query_len": 6}


@pytest.mark.parametrize("causal", [True, False])
def test_rows_are_where_their_0_is(causal: bool) -> None:
    signed = distances(40, 40)[[3, 9, 30]]
    matrix = np.where(causal & (signed > 0), 0.0, falling(signed))

    (found,) = sides(matrix, 2.0**-40)

    expected: dict[str, object] = {"query_positions": "3,9,30", "key_len": 40}
    assert found.parameters == (expected if causal else {**expected, "causal": False})
    assert np.allclose(found.sizes[0], np.sqrt(found.lengths))


def test_heads_are_read_together() -> None:
    block = np.array([1.0, 2.0, 0.5])[:, np.newaxis, np.newaxis] * falling(distances(6, 6))

    (found,) = sides(block, 2.0**-40)

    assert found.sizes.shape == (3, 5)


@pytest.mark.parametrize("change", ["above", "sides", "distance", "zero"])
def test_what_is_no_kernel_is_passed_over(change: str) -> None:
    matrix = falling(distances(6, 6))
    if change == "above":
        matrix = -matrix
    elif change == "sides":
        matrix = np.where(distances(6, 6) > 0, 2 * matrix, matrix)
    elif change == "distance":
        matrix[5, 0] -= 1
    else:
        matrix -= 1

    assert not list(sides(matrix, 2.0**-40))


def test_many_lengths_are_looked_at_as_few() -> None:
    (found,) = sides(falling(distances(1500, 1500)), 2.0**-40)

    assert found.lengths[:6].tolist() == [1, 2, 3, 4, 5, 6]
    assert found.lengths[-1] == 1499
    assert len(found.lengths) <= 64
