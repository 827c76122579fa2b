"""M-RoPE: which position each frequency turns with."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.tables import rotary
from service.tables.angle import MAX_POSITION
from service.tables.axes import AngleRounding
from service.tables.dtypes import FLOAT64
from service.tables.grid import Tokens
from service.tables.mrope import AXES, MultimodalTurns, axis_of_frequency
from service.tables.positions import Positions, Run
from service.tables.rope_rules import Default, Yarn
from service.tables.rotary_rule import RotaryRule
from service.tables.table import size
from service.tables.turns import AlongSequence, Turns

RULE = Default(16, 10000.0)
SECTION = (2, 3, 3)
GRID = Tokens.of_grid((2, 3, 4), AXES)
SCATTERED = Positions.of_runs([Run(-3, 1, 5), Run(4095, 7, 2), Run(MAX_POSITION, 1, 1)])
BOTH_KINDS = pytest.mark.parametrize("interleaved", [False, True])


def read(turns: Turns, pack: str = "compact") -> dict[str, NDArray[Any]]:
    document = rotary.rope(turns=turns, pack=pack, dtype=FLOAT64)
    return {
        name: table.read(0, size(table)).reshape(table.shape)
        for name, table in document.arrays.items()
    }


def test_interleaved_axes_alternate_until_a_section_is_full() -> None:
    """Qwen3-VL-4B-Instruct: sections 24, 20 and 20 of 64 frequencies."""
    named = axis_of_frequency(64, (24, 20, 20), interleaved=True)

    assert named == "THWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTHWTTTT".lower()


def test_chunked_axes_come_one_after_the_other() -> None:
    named = axis_of_frequency(64, (16, 24, 24), interleaved=False)

    assert named == "t" * 16 + "h" * 24 + "w" * 24


@BOTH_KINDS
@given(section=st.tuples(*[st.integers(0, 12)] * 3).filter(any))
def test_every_frequency_has_an_axis(section: tuple[int, ...], interleaved: bool) -> None:
    named = axis_of_frequency(sum(section), section, interleaved=interleaved)

    assert len(named) == sum(section)
    assert set(named) <= set(AXES)
    if not interleaved:
        assert tuple(named.count(axis) for axis in AXES) == section


@given(st.integers(1, 20), st.integers(0, 4))
def test_interleaved_sections_are_as_long_as_they_say(side: int, more: int) -> None:
    """So they are where t has no fewer than the others, which are as many."""
    section = (side + more, side, side)

    named = axis_of_frequency(sum(section), section, interleaved=True)

    assert tuple(named.count(axis) for axis in AXES) == section


@BOTH_KINDS
@pytest.mark.parametrize("rounding", ["exact", "float32"])
def test_each_frequency_is_that_of_the_sequence_of_its_axis(
    interleaved: bool, rounding: AngleRounding
) -> None:
    named = axis_of_frequency(8, SECTION, interleaved=interleaved)
    ours = read(MultimodalTurns(RULE, SECTION, interleaved, GRID, rounding))
    for place, axis in enumerate(named):
        along = GRID.axes[axis].at(0, GRID.rows).tolist()
        positions = Positions.of_runs(Run(position, 1, 1) for position in along)
        plain = read(AlongSequence(RULE, positions, rounding))
        for name in ("cos", "sin"):
            assert (ours[name][:, place] == plain[name][:, place]).all()


@BOTH_KINDS
@pytest.mark.parametrize("rounding", ["exact", "float32"])
@pytest.mark.parametrize("pack", ["half", "flat", "sin_interleaved_concat", "angle"])
def test_text_is_the_plain_table_to_the_last_bit(
    interleaved: bool, rounding: AngleRounding, pack: str
) -> None:
    tokens = Tokens.of_sequence(SCATTERED, AXES)

    ours = read(MultimodalTurns(RULE, SECTION, interleaved, tokens, rounding), pack)

    plain = read(AlongSequence(RULE, SCATTERED, rounding), pack)
    assert {name: values.tobytes() for name, values in ours.items()} == {
        name: values.tobytes() for name, values in plain.items()
    }


def test_an_axis_without_frequencies_is_not_needed() -> None:
    ours = read(MultimodalTurns(RULE, (0, 8, 0), False, GRID))

    rows = GRID.axes["h"].at(0, GRID.rows).tolist()
    plain = read(AlongSequence(RULE, Positions.of_runs(Run(row, 1, 1) for row in rows)))
    assert (ours["cos"] == plain["cos"]).all()


def test_parameters_spell_rule_sections_and_positions() -> None:
    turns = MultimodalTurns(RULE, SECTION, True, GRID, "float32")

    assert turns.parameters() == {
        **RULE.parameters(),
        "mrope_section": SECTION,
        "mrope_interleaved": True,
        "grid": (2, 3, 4),
        "angle": "float32",
    }
    assert (turns.count, turns.rows) == (8, 24)


@pytest.mark.parametrize("rule", [RULE, Yarn(16, 10000.0, 8.0, 4096, 1.25)])
def test_the_attention_factor_multiplies_all(rule: RotaryRule) -> None:
    turns = MultimodalTurns(rule, SECTION, False, GRID)

    cos = read(turns)["cos"]

    assert turns.peak == rule.scale
    assert (np.abs(cos) <= turns.peak).all()
    assert cos[0].tolist() == [rule.scale] * 8


def test_the_distance_is_that_of_the_farthest_axis() -> None:
    far, near = Positions.contiguous(10**6, 2), Positions.contiguous(0, 2)
    tokens = Tokens.of_lists({"t": near, "h": near, "w": far})
    of_far = MultimodalTurns(RULE, (3, 2, 3), False, tokens, "float32")
    of_near = MultimodalTurns(RULE, (3, 5, 0), False, tokens, "float32")

    assert MultimodalTurns(RULE, (3, 2, 3), False, tokens).distance() is None
    assert (of_far.distance() or 0) > 1000 * (of_near.distance() or 1)
    exact = read(MultimodalTurns(RULE, (3, 2, 3), False, tokens))
    for name, values in read(of_far).items():
        assert np.abs(values - exact[name]).max() <= (of_far.distance() or 0)
