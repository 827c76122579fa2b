import numpy as np
import pytest

from service.analysis.grids.grid_candidates import TokenRows, candidates, orientations
from tests.analysis.grid_asking import question_of


def read(url: str) -> list[TokenRows]:
    """Read the table of a URL in both orientations."""
    return list(orientations(question_of(url).sample))


def test_channels_may_come_last_or_first() -> None:
    last, first = read("/encoding/grid?convention=positional-encodings&height=3&width=5&d_model=8")

    assert (last.rows.shape, last.shape, last.channels_first) == ((15, 8), (3, 5), False)
    assert (first.rows.shape, first.shape, first.channels_first) == ((40, 3), (5, 8), True)


def test_rows_of_zeros_are_counted_and_left_out() -> None:
    table = "convention=diffusers&d_model=16&cls_token=true&extra_tokens=2"
    rows = read(f"/encoding/grid?{table}&height=3&width=5")[0]

    assert rows.zero_rows == 2
    assert len(rows.rows) == 15


def test_larger_numbers_are_no_sines() -> None:
    question = question_of("/encoding/grid?convention=mae&height=3&width=5&d_model=16")
    question.sample.values[0, 0] = 2

    assert list(orientations(question.sample)) == []


@pytest.mark.parametrize(("name", "count"), [("mae", 1), ("timm", 4), ("detr", 0)])
def test_a_convention_has_its_channels_in_each_of_its_ways(name: str, count: int) -> None:
    rows = read("/encoding/grid?convention=mae&height=3&width=5&d_model=16")[0]

    assert len(list(candidates(name, (3, 5), rows))) == count


def test_tokens_that_run_down_columns_have_their_lengths_the_other_way_round() -> None:
    rows = read("/encoding/grid?convention=mae&height=3&width=5&d_model=16")[0]

    [(candidate, layout)] = candidates("moco-v3", (3, 5), rows)

    assert candidate.lengths == {"height": 5, "width": 3}
    assert np.prod([along.tokens.length for along in layout.along.values()]) == 15
