"""Rows whose angles run along several axes, or are rounded the way that engines do."""

from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from service.tables import table as table_module
from service.tables.angle import MAX_POSITION, Float64s, Int64s
from service.tables.axes import AngleRounding, AnglesTable, AxesTable, Axis
from service.tables.channels import Channels
from service.tables.dtypes import FLOAT32, FLOAT64
from service.tables.phasor import PhasorTable
from service.tables.positions import Positions, Run
from service.tables.rope_rules import Default
from service.tables.table import Table, size
from tests.exact import UNIT, frequency

SCATTERED = Positions.of_runs(Run(at, 1, 3) for at in (-5, 0, 4095, 2**40, MAX_POSITION - 2))
FAST, SLOW = Default(4, 100.0), Default(6, 10000.0)
FIRST = Axis(FAST, SCATTERED, (4, 1))
SECOND = Axis(SLOW, Positions.contiguous(7, 15), (0, 2, 3))
# Which axis, and which of its frequencies, each frequency of a row is.
ORDER = [(SECOND, 0), (FIRST, 1), (SECOND, 1), (SECOND, 2), (FIRST, 0)]
COMPACT = Channels(("cos", "sin"), interleaved=False, width=10)
EVERY_ROUNDING = pytest.mark.parametrize("rounding", ["exact", "float32"])


def read(table: Table) -> NDArray[Any]:
    return table.read(0, size(table)).reshape(table.shape)


def both_axes(
    rounding: AngleRounding = "exact", channels: Channels = COMPACT, scale: float = 1.0
) -> AxesTable:
    shape = (15, channels.width)
    return AxesTable((FIRST, SECOND), rounding, channels, FLOAT64, shape, scale)


def exact_angle(axis: Axis, row: int, pair: int) -> Any:
    assert isinstance(axis.rule, Default)
    position = int(axis.positions.at(row, row + 1)[0])
    return position * frequency(axis.rule.rope_theta, axis.rule.rotary_dim, pair)


def test_each_frequency_turns_with_the_position_of_its_own_axis() -> None:
    rows = read(both_axes())

    for row in range(15):
        for place, (axis, pair) in enumerate(ORDER):
            angle = exact_angle(axis, row, pair)
            assert abs(rows[row, place] - mpmath.cos(angle)) <= 6 * UNIT
            assert abs(rows[row, place + 5] - mpmath.sin(angle)) <= 6 * UNIT


@EVERY_ROUNDING
def test_channels_say_what_a_row_holds(rounding: AngleRounding) -> None:
    compact = read(both_axes(rounding))
    cos, sin = compact[:, :5], compact[:, 5:]

    pairs = Channels(("cos", "sin"), interleaved=True, width=10)
    doubled = Channels(("sin", "cos"), interleaved=False, width=20, repeats=2)

    expected = np.stack([cos, sin], axis=-1).reshape(15, 10)
    assert (read(both_axes(rounding, pairs)) == expected).all()
    expected = np.concatenate([sin.repeat(2, axis=1), cos.repeat(2, axis=1)], axis=1)
    assert (read(both_axes(rounding, doubled)) == expected).all()


@EVERY_ROUNDING
def test_the_scale_multiplies_once_before_rounding(rounding: AngleRounding) -> None:
    scaled = read(both_axes(rounding, scale=1.3))

    assert (scaled == read(both_axes(rounding)) * 1.3).all()


def test_one_exact_axis_is_the_table_of_a_sequence() -> None:
    rule = Default(64, 10000.0)
    channels = Channels(("cos", "sin"), interleaved=True, width=64)
    axes = (Axis(rule, SCATTERED, tuple(range(32))),)

    ours = AxesTable(axes, "exact", channels, FLOAT32, (15, 64))

    plain = PhasorTable(rule, channels, SCATTERED, FLOAT32, (15, 64), 1.0)
    assert read(ours).tobytes() == read(plain).tobytes()


class Counting:
    """A growth by the position itself."""

    def at(self, positions: Int64s) -> Float64s:
        return np.repeat(positions.astype(np.float64)[:, np.newaxis], 3, axis=1)


def test_growth_multiplies_cosines_and_sines() -> None:
    axes = (Axis(SLOW, Positions.contiguous(-2, 5), (0, 1, 2)),)
    channels = Channels(("cos", "sin"), interleaved=False, width=6)

    grown = AxesTable(axes, "exact", channels, FLOAT64, (5, 6), 1.0, Counting())

    plain = read(AxesTable(axes, "exact", channels, FLOAT64, (5, 6)))
    assert (read(grown) == plain * np.arange(-2, 3)[:, np.newaxis]).all()


@EVERY_ROUNDING
def test_parts_and_steps_do_not_show(
    monkeypatch: pytest.MonkeyPatch, rounding: AngleRounding
) -> None:
    tables: list[Table] = [
        both_axes(rounding),
        AnglesTable((FIRST, SECOND), rounding, FLOAT64, (15, 5)),
    ]
    for table in tables:
        whole = table.read(0, size(table))
        for start, stop in [(0, 1), (3, 4), (7, 31), (29, size(table))]:
            assert (table.read(start, stop) == whole[start:stop]).all()
        with monkeypatch.context() as patched:
            patched.setattr(table_module, "STEP_ELEMENTS", 100)
            assert (table.read(0, size(table)) == whole).all()


def test_angles_are_within_eight_units_of_their_size() -> None:
    angles = read(AnglesTable((FIRST, SECOND), "exact", FLOAT64, (15, 5)))

    for row in range(15):
        for place, (axis, pair) in enumerate(ORDER):
            angle = exact_angle(axis, row, pair)
            assert abs(angles[row, place] - angle) <= 8 * UNIT * abs(angle)


def test_rounded_angles_are_products_of_float32() -> None:
    angles = read(AnglesTable((FIRST, SECOND), "float32", FLOAT64, (15, 5)))
    turned = read(both_axes("float32"))

    for place, (axis, pair) in enumerate(ORDER):
        positions = axis.positions.at(0, 15).astype(np.float32)
        expected = positions * np.float32(float(axis.rule.exact()[pair]))
        assert expected.dtype == np.float32
        assert (angles[:, place] == expected).all()
        for cos, sin, angle in zip(
            turned[:, place], turned[:, place + 5], expected.tolist(), strict=True
        ):
            assert abs(cos - mpmath.cos(angle)) <= 0.9 * UNIT
            assert abs(sin - mpmath.sin(angle)) <= 0.9 * UNIT
