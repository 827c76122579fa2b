import numpy as np
import pytest

from service.analysis.distances.distance_alignment import aligned
from service.tables.angle import Int64s


def clipped(distances: Int64s) -> Int64s:
    return np.clip(distances, -3, 3)


@pytest.mark.parametrize("places", [[0, 1, 2], [5, 2, 9], [-7, 0, 4], [3, 10, 17]])
@pytest.mark.parametrize("sign", [1, -1])
def test_rows_are_found_by_what_they_hold(places: list[int], sign: int) -> None:
    rows = clipped(sign * (np.arange(20) - np.array(places)[:, np.newaxis]))

    found = aligned(rows, clipped, sign)

    assert found is not None
    assert clipped(sign * (np.arange(20) - found[:, np.newaxis])).tolist() == rows.tolist()
    assert [place for place in found.tolist() if 0 <= place < 20] == [
        place for place in places if 0 <= place < 20
    ]


def test_a_row_that_could_be_anywhere_goes_on_from_its_neighbours() -> None:
    rows = clipped(np.arange(5) - np.arange(0, 60, 2)[:, np.newaxis])

    found = aligned(rows, clipped, 1)

    assert found is not None
    assert found.tolist() == list(range(0, 60, 2))


def test_a_row_of_something_else_is_nowhere() -> None:
    rows = clipped(np.arange(5) - np.arange(3)[:, np.newaxis])
    rows[1, 2] = 7

    assert aligned(rows, clipped, 1) is None
