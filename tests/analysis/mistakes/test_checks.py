"""Whether a suspect explains what is there: element by element, and where not."""

from dataclasses import replace

import numpy as np

from service.analysis.mistakes.checks import Subject, Suspect, check, sampled
from service.analysis.mistakes.extents import Extent
from service.analysis.mistakes.orders import orders
from service.analysis.mistakes.waves import waves_of
from service.tables.dtypes import BFLOAT16, FLOAT32, FLOAT64
from tests.analysis.mistaken import Made, narrowed

TABLE = Made(200, 16, "interleaved").table()["table"]
COLUMNS = np.arange(16)


def suspect_of(rows: int = 200, *, is_of_waves: bool = True) -> Suspect:
    waves = waves_of(TABLE, is_pair=False, positions=None) if is_of_waves else None
    order = next(orders(rows, 16, 1))
    return Suspect((), Extent((), rows, COLUMNS, COLUMNS), order, waves)


def subject_of(have: np.ndarray, dtype: object = FLOAT32) -> Subject:
    waves = waves_of(TABLE, is_pair=False, positions=None)
    return Subject(have, TABLE, dtype, FLOAT64, waves, 1)  # type: ignore[arg-type]


def test_rounding_is_explained_in_the_type_that_did_it_and_in_no_wider_one() -> None:
    have, rows = narrowed(TABLE, BFLOAT16), np.arange(200)

    assert check(subject_of(have, BFLOAT16), suspect_of(), rows).is_whole
    assert not check(subject_of(have, FLOAT32), suspect_of(), rows).is_whole


def test_angles_of_float32_are_explained_far_out_but_not_at_the_start() -> None:
    late, early = TABLE.copy(), TABLE.copy()
    late[199, 0] += 2e-5
    early[1, 0] += 2e-5

    assert check(subject_of(late), suspect_of(), np.arange(200)).is_whole
    match = check(subject_of(early), suspect_of(), np.arange(200))
    assert match.leaves is not None
    assert match.leaves[:2] == (1, 0)
    assert match.share == 1 - 1 / TABLE.size


def test_numbers_without_angles_have_no_more_room_far_out() -> None:
    late = TABLE.copy()
    late[199, 0] += 2e-5

    match = check(subject_of(late), suspect_of(is_of_waves=False), np.arange(200))

    assert match.leaves is not None
    assert match.leaves[:2] == (199, 0)


def test_a_shift_and_a_factor_are_applied() -> None:
    suspect = replace(suspect_of(is_of_waves=False), factor=3.0, shift=5)
    have = np.vstack([3 * TABLE[5:], np.ones((5, 16))])

    assert suspect.rows == 195
    assert check(subject_of(have, FLOAT64), suspect, np.arange(195)).is_whole


def test_few_rows_are_sampled_with_the_first_and_the_last() -> None:
    assert sampled(10, 16).tolist() == list(range(10))
    many = sampled(100_000, 16)
    assert (len(many), many[0], many[-1]) == (64, 0, 99_999)
    assert len(sampled(100_000, 4096)) == 16
