"""What turns in each row of a rotary table, before it is packed."""

from decimal import Decimal

import numpy as np
import pytest

from service.tables.axes import AxesTable
from service.tables.channels import Channels
from service.tables.dtypes import FLOAT64
from service.tables.float32_angle import float32_distance
from service.tables.phasor import PhasorTable
from service.tables.positions import Positions
from service.tables.rope_rules import Default, Yarn
from service.tables.rotary_rule import Given
from service.tables.table import size
from service.tables.turns import AlongSequence, rounding_parameters
from service.tables.xpos import XPos

RULE = Default(8, 10000.0)
SCALED = Yarn(8, 10000.0, 8.0, 4096, 1.25)
POSITIONS = Positions.contiguous(-3, 10)
COMPACT = Channels(("cos", "sin"), interleaved=False, width=8)


def test_there_is_a_row_for_each_position_and_a_frequency_for_each_pair() -> None:
    turns = AlongSequence(RULE, POSITIONS)

    assert (turns.rows, turns.count) == (10, 4)
    assert turns.angles(FLOAT64, (10, 4)).shape == (10, 4)


def test_only_what_is_not_usual_is_spelled() -> None:
    plain = {**RULE.parameters(), "start": -3, "seq_len": 10}
    growing = AlongSequence(RULE, POSITIONS, "exact", XPos(8, 512.0, 5, inverse=True))

    assert AlongSequence(RULE, POSITIONS).parameters() == plain
    rounded = AlongSequence(RULE, POSITIONS, "float32").parameters()
    assert rounded == {**plain, "angle": "float32"}
    assert growing.parameters() == {
        **plain,
        "xpos": "key",
        "xpos_scale_base": 512.0,
        "xpos_centre": 5,
    }
    assert rounding_parameters("exact") == {}


def test_only_plain_rows_come_from_phasors() -> None:
    xpos = XPos(8, 512.0, 5, inverse=False)
    tables = [
        AlongSequence(RULE, POSITIONS),
        AlongSequence(RULE, POSITIONS, "float32"),
        AlongSequence(RULE, POSITIONS, "exact", xpos),
    ]

    kinds = [type(turns.table(COMPACT, FLOAT64, (10, 8))) for turns in tables]

    assert kinds == [PhasorTable, AxesTable, AxesTable]


def test_xpos_multiplies_cosines_and_sines_by_its_growth() -> None:
    xpos = XPos(8, 4.0, 2, inverse=False)
    tables = (AlongSequence(SCALED, POSITIONS, "exact", growth) for growth in (None, xpos))

    plain, grown = (
        turns.table(COMPACT, FLOAT64, (10, 8)).read(0, 80).reshape(10, 8) for turns in tables
    )

    growth = np.tile(xpos.at(POSITIONS.at(0, 10)), 2)
    assert np.abs(grown - plain * growth).max() < 1e-15 * np.abs(grown).max() * 4


@pytest.mark.parametrize("inverse", [False, True])
def test_no_cosine_or_sine_exceeds_the_peak(inverse: bool) -> None:
    for xpos in (None, XPos(8, 4.0, 2, inverse)):
        turns = AlongSequence(SCALED, POSITIONS, "exact", xpos)
        table = turns.table(COMPACT, FLOAT64, (10, 8))

        assert np.abs(table.read(0, size(table))).max() <= turns.peak * (1 + 1e-15)
    assert AlongSequence(SCALED, POSITIONS).peak == 1.25


def test_only_rounded_angles_are_at_a_distance() -> None:
    assert AlongSequence(SCALED, POSITIONS).distance() is None
    distance = AlongSequence(SCALED, POSITIONS, "float32").distance()

    moved = float32_distance(SCALED.exact(), 6)
    assert distance is not None
    assert 1.25 * float(moved) < distance < 1.25 * (float(moved) + 13 * 2.0**-53)


def test_the_distance_is_that_of_what_is_moved_farthest() -> None:
    near, far = [Decimal("0.1")], [Decimal("0.3")]

    def distance(frequencies: list[Decimal], farthest: int, scale: float = 1.0) -> float:
        rule = Given(tuple(map(float, frequencies)), scale)
        turns = AlongSequence(rule, Positions.contiguous(farthest, 1), "float32")
        return turns.distance() or 0.0

    assert distance(near + far, 1000) == distance(far, 1000) > distance(near, 5)
    assert distance(far, 2**62, 3.0) == pytest.approx(6.0)


def test_angles_are_at_a_distance_that_has_no_limit() -> None:
    exact, rounded = (
        AlongSequence(SCALED, Positions.contiguous(2**40 + 1, 1), rounding)
        for rounding in ("exact", "float32")
    )

    assert exact.angle_distance() is None
    found, near = (turns.angles(FLOAT64, (1, 4)).read(0, 4) for turns in (rounded, exact))
    moved = np.abs(found - near).max()
    assert 2 < moved <= (rounded.angle_distance() or 0) < 100 * moved
    assert np.abs(found).max() <= rounded.reach


def test_the_peak_of_xpos_is_that_of_the_distance_from_its_centre() -> None:
    far = Positions.contiguous(2**60, 3)

    assert AlongSequence(SCALED, far, "exact", XPos(8, 512.0, 2**60, inverse=True)).peak < 1.3
    assert AlongSequence(SCALED, far, "exact", XPos(8, 512.0, 0, inverse=True)).peak == np.inf
