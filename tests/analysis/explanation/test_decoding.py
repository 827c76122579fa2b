"""Positions are decoded from each row, and their pattern is named."""

from typing import Any

import numpy as np
import pytest

from service.analysis.explanation.decoding import (
    decoded,
    nearest,
    other_axes,
    pattern,
    text_of,
)
from service.analysis.explanation.views import View
from service.analysis.precision import rounded
from service.grammar import real_positions
from service.numerics.dtypes import FLOAT32, DType
from service.numerics.phase import Float64s
from tests.analysis.turning import DTYPES, UNIT, powers, turned

OMEGA = powers(64)
WANTED = np.arange(20.0)


def view_at(positions: Float64s, dtype: DType = FLOAT32, slack: float = 0.0) -> View:
    cosine, sine = (rounded(each, dtype) for each in turned(OMEGA, positions))
    return View(cosine, sine, dtype, "compact", slack=slack)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "positions",
    [
        np.arange(50.0),
        np.zeros(9),
        np.arange(50.0)[::-1],
        np.random.default_rng(1).permutation(2000).astype(np.float64),
        np.array([-17.0, 40.0, 3000.0]),
    ],
    ids=["rising", "stuck", "reversed", "shuffled", "far"],
)
def test_every_row_has_the_position_that_it_was_made_at(positions: Float64s, dtype: str) -> None:
    found = decoded(view_at(positions, DTYPES[dtype]), OMEGA, DTYPES[dtype])

    assert found is not None
    assert found.tolist() == positions.tolist()


def test_far_positions_are_decoded_from_the_arithmetic_of_float32() -> None:
    positions = np.array([65535.0, 100000.0, 131071.0])
    # The slowest pair must turn less than once.
    right = powers(64, 1e6)
    omega = right * (1 + 40 * UNIT * np.random.default_rng(3).uniform(-1, 1, len(right)))
    cosine, sine = turned(omega, positions)

    found = decoded(View(cosine, sine, FLOAT32, "compact"), right, FLOAT32)

    assert found is not None
    assert found.tolist() == positions.tolist()


def test_printed_decimals_are_decoded() -> None:
    cosine, sine = (np.round(each, 3) for each in turned(OMEGA, np.arange(40.0)[::-1]))
    view = View(cosine, sine, FLOAT32, "compact", slack=0.0005)

    found = decoded(view, OMEGA, FLOAT32)

    assert found is not None
    assert found.tolist() == list(range(39, -1, -1))


def test_a_row_of_no_position_is_told_apart() -> None:
    view = view_at(np.arange(12.0))
    assert view.cosine is not None
    view.cosine[7, 3] = -view.cosine[7, 3]

    place, is_one = nearest(view, OMEGA, FLOAT32)

    assert decoded(view, OMEGA, FLOAT32) is None
    assert np.flatnonzero(~is_one).tolist() == [7]
    assert place[~(np.arange(12) == 7)].tolist() == [each for each in range(12) if each != 7]


def test_half_positions_are_no_positions_unless_they_are_asked_for() -> None:
    view = view_at(np.arange(12.0) + 0.5)

    assert decoded(view, OMEGA, FLOAT32) is None
    place, is_one = nearest(view, OMEGA, FLOAT32, whole=False)
    assert is_one.all()
    np.testing.assert_allclose(place, np.arange(12) + 0.5, atol=1e-3)


def test_noise_has_no_position() -> None:
    angles = np.random.default_rng(2).uniform(0, 6, (12, 32))

    assert decoded(View(np.cos(angles), np.sin(angles), FLOAT32, "compact"), OMEGA, FLOAT32) is None


STUCK = np.minimum(WANTED, 7)
RESET = np.array([*range(8), *range(5), *range(7)], dtype=np.float64)
SKIPPED = np.array([*range(8), *range(9, 21)], dtype=np.float64)
REPEATED = np.repeat(np.arange(10.0), 2)
SHUFFLED = np.random.default_rng(4).permutation(20).astype(np.float64)


@pytest.mark.parametrize(
    ("found", "name", "bits", "values"),
    [
        (WANTED + 3, "position-offset", 6, {"rows": 3, "have": 3, "want": 0}),
        (WANTED - 1, "position-offset", 5, {"rows": -1, "have": -1, "want": 0}),
        (WANTED[::-1], "positions-reversed", 6, {}),
        (0 * WANTED + 5, "positions-stuck", 5, {"position": 5, "row": 0}),
        (STUCK, "positions-stuck", 6, {"position": 7, "row": 7}),
        (RESET, "positions-reset", 6, {"rows": [8, 13]}),
        (SKIPPED, "other-positions", 8, {"have": "0:8,9:21", "want": "0:20"}),
        (REPEATED, "other-positions", 8, {"want": "0:20"}),
        (SHUFFLED, "other-positions", 12 + np.log2(18), {"want": "0:20"}),
    ],
    ids=str,
)
def test_a_pattern_of_positions_is_named(
    found: Float64s, name: str, bits: float, values: dict[str, Any]
) -> None:
    named = pattern(found, WANTED)

    assert named is not None
    assert (named.name, named.bits) == (name, bits)
    assert {key: named.values[key] for key in values} == values
    if name != "positions-reversed":
        listed = {"positions": text_of(found)}
        assert named.changes == ({"start": int(found[0])} if name == "position-offset" else listed)


PADDED = np.r_[np.ones(3), 0:17]
PACKED = np.r_[0:8, 0:12]
BATCH = np.r_[5:10, 40:45, 0:5, 20:25]


@pytest.mark.parametrize(
    ("found", "wanted", "name", "rows"),
    [
        (np.arange(20), PADDED, "padding-counted", [3]),
        (np.tile(np.arange(20), 2), np.r_[PADDED, np.zeros(5), 0:15], "padding-counted", [3, 5]),
        (np.arange(20), PACKED, "positions-reset", [8]),
        (np.r_[40:45, 0:5, 20:25, 5:10], BATCH, "next-sequence", 5),
        (np.arange(5), np.array([0, 1, 0, 0, 1]), "positions-reset", [2, 3]),
        (np.r_[1:16, 0], np.arange(16), "other-positions", None),
        (np.r_[2:4, 0:2], np.arange(4), "other-positions", None),
        (np.r_[np.arange(19), 25], PADDED, "other-positions", None),
        (np.r_[np.arange(8), 9:21], PACKED, "other-positions", None),
        (np.r_[40:45, 0:5, 20:25, 6:11], BATCH, "other-positions", None),
    ],
    ids=str,
)
def test_positions_of_a_batch_are_named_if_all_rows_agree(
    found: Float64s, wanted: Float64s, name: str, rows: Any
) -> None:
    named = pattern(found.astype(np.float64), wanted.astype(np.float64))

    assert named is not None
    assert (named.name, named.values.get("rows")) == (name, rows)
    assert named.changes == {"positions": text_of(found)}


def test_the_wanted_positions_have_no_mistake() -> None:
    assert pattern(WANTED, WANTED) is None
    assert pattern(SHUFFLED, SHUFFLED) is None


def test_positions_that_start_again_at_the_first_of_the_expected_ones_are_reset() -> None:
    packed_from = RESET + 100

    named = pattern(packed_from, WANTED + 100)

    assert named is not None
    assert (named.name, named.values["rows"]) == ("positions-reset", [8, 13])


@pytest.mark.parametrize(
    ("positions", "text"),
    [
        ([0, 1, 2, 3], "0:4"),
        ([5], "5"),
        ([0, 1, 5, 6, 7], "0,1,5:8"),
        ([3, 2, 1], "3,2,1"),
        ([0.5, 1.5, 2.5], "0.5,1.5,2.5"),
        ([-2, -1, 0, 1, 9], "-2:2,9"),
    ],
)
def test_positions_are_written_as_urls_have_them(positions: list[float], text: str) -> None:
    assert text_of(np.array(positions)) == text
    assert list(real_positions(text).at(0, len(positions))) == positions


CHUNKED = np.repeat([0, 1, 2], [4, 6, 6])
ALTERNATING = np.array([0, 1, 2] * 5 + [0])


def test_axes_of_three_may_be_exchanged_in_five_ways_and_one_taken_for_another_in_six() -> None:
    found = [
        (mistake, axis)
        for mistake, axis in other_axes(CHUNKED)
        if mistake.name == "sections-exchanged"
    ]

    orders = {tuple(mistake.values["have"]) for mistake, _ in found}
    assert len(found) == len(orders) == 11
    assert sum(len({*order}) == 3 for order in orders) == 5
    for mistake, axis in found:
        assert mistake.values["want"] == [0, 1, 2]
        np.testing.assert_array_equal(axis, np.array(mistake.values["have"])[CHUNKED])


@pytest.mark.parametrize(
    ("axis", "have", "other"),
    [
        (CHUNKED, "alternating", [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0]),
        (ALTERNATING, "one after the other", [0] * 6 + [1] * 5 + [2] * 5),
    ],
)
def test_sections_may_alternate_or_follow_each_other(
    axis: np.ndarray, have: str, other: list[int]
) -> None:
    (found,) = [each for each in other_axes(axis) if each[0].name == "sections-interleaved"]

    assert found[0].values["have"] == have
    assert found[1].tolist() == other


@pytest.mark.parametrize(
    ("positions", "text"),
    [
        ([0, 2, 4, 6], "0:7:2"),
        ([3, 2, 1], "3,2,1"),
        ([5, 5, 5, 6, 7], "5,5,5:8"),
        ([0.5, 1.5, 2.5], "0.5,1.5,2.5"),
        ([1, 2, 9, 10, 11], "1,2,9:12"),
        ([4], "4"),
    ],
    ids=str,
)
def test_positions_are_written_as_ranges_where_they_rise_evenly(
    positions: list[float], text: str
) -> None:
    assert text_of(np.array(positions, dtype=np.float64)) == text
