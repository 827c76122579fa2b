"""Which parts of two tables can be compared."""

import numpy as np

from service.analysis.mistakes.extents import Extent, extents
from service.analysis.mistakes.waves import waves_of
from tests.analysis.mistaken import Made

TABLE = Made(20, 16, "concatenated").table()["table"]


def of(have: np.ndarray) -> list[Extent]:
    waves = waves_of(TABLE, is_pair=False, positions=None)
    return list(extents(have, TABLE, 1, waves))


def names(extent: Extent) -> list[str]:
    return [mistake.name for mistake in extent.mistakes]


def test_equal_shapes_are_compared_whole() -> None:
    (whole,) = of(TABLE)

    assert (names(whole), whole.rows, len(whole.have)) == ([], 20, 16)


def test_missing_rows_and_rows_too_many_are_named() -> None:
    assert [names(extent) for extent in of(TABLE[:7])] == [["truncated"]]
    assert of(TABLE[:7])[0].mistakes[0].values["beyond"] == "missing"
    assert [names(extent) for extent in of(np.vstack([TABLE, TABLE]))] == [["longer"]]


def test_rows_and_channels_of_zeros_are_left_out() -> None:
    rows, channels = TABLE.copy(), TABLE.copy()
    rows[9:] = 0
    channels[:, [6, 7, 14, 15]] = 0

    assert of(rows)[0].rows == 9
    assert of(channels)[1].have.tolist() == [*range(6), *range(8, 14)]
    assert of(channels)[1].mistakes[0].values["beyond"] == "zero"


def test_fewer_pairs_may_be_cut_or_of_a_narrower_turn() -> None:
    pairs = TABLE[:, [*range(4), *range(8, 12)]]

    prefix, cut, narrower = of(pairs)

    assert [names(each) for each in (prefix, cut)] == [["truncated"], ["truncated"]]
    assert cut.want.tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert (names(narrower), narrower.turning) == (["partial-width"], 8)
