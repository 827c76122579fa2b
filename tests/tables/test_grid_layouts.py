"""What each convention lays out in which order."""

from fractions import Fraction
from typing import Any

import pytest

from service.tables.bands import InTurns, Measured
from service.tables.frequencies import Geometric
from service.tables.grid_conventions import convention_for
from service.tables.grid_layouts import Grid, Layout, normalized, normalized_unit

H_W = {"height": 2, "width": 3}
T_H_W = {"depth": 4, **H_W}


def laid_out(name: str, lengths: dict[str, int], d_model: int, **values: Any) -> Layout:
    convention = convention_for(name, len(lengths))
    assert convention is not None
    return convention.layout(Grid(lengths, d_model, {**convention.defaults, **values}))


def order(layout: Layout) -> list[str]:
    return [str(block) for block in layout.blocks]


COLUMNS_FIRST = ["sin width", "cos width", "sin height", "cos height"]
ROWS_FIRST = ["sin height", "cos height", "sin width", "cos width"]


@pytest.mark.parametrize(
    ("name", "blocks", "tokens"),
    [
        ("mae", COLUMNS_FIRST, ["height", "width"]),
        ("transformers", ROWS_FIRST, ["height", "width"]),
        ("moco-v3", COLUMNS_FIRST, ["width", "height"]),
        ("simple-vit", COLUMNS_FIRST, ["height", "width"]),
        ("diffusers", COLUMNS_FIRST, ["height", "width"]),
        ("detr", ["sin|cos height", "sin|cos width"], ["height", "width"]),
        ("timm", [ROWS_FIRST[i] for i in (0, 2, 1, 3)], ["height", "width"]),
    ],
)
def test_channels_and_tokens_have_their_order(
    name: str, blocks: list[str], tokens: list[str]
) -> None:
    layout = laid_out(name, H_W, 16)

    assert order(layout) == blocks
    assert list(layout.along) == tokens
    assert layout.along["height"].tokens.inner == (3 if tokens[0] == "height" else 1)


def test_timm_turns_the_grid_itself_around() -> None:
    layout = laid_out("timm", H_W, 16, reverse_coord=True, interleave_sin_cos=True)

    assert order(layout) == COLUMNS_FIRST
    assert list(layout.along) == ["width", "height"]


def test_a_video_gives_a_quarter_of_its_channels_to_time() -> None:
    layout = laid_out("diffusers", T_H_W, 32)

    assert order(layout) == ["sin depth", "cos depth", *COLUMNS_FIRST]
    assert [block.width for block in layout.blocks] == [4, 4, 6, 6, 6, 6]
    assert layout.leading == 1


def test_what_is_left_over_is_zeros_or_cut() -> None:
    assert [block.width for block in laid_out("tensor2tensor", T_H_W, 15).blocks] == [2] * 6 + [3]
    assert [block.width for block in laid_out("tensor2tensor", T_H_W, 12).blocks] == [2] * 6
    assert [block.width for block in laid_out("positional-encodings", T_H_W, 7).blocks] == [4] * 3


def test_a_stretched_grid_keeps_whole_positions_in_an_exact_unit() -> None:
    layout = laid_out("diffusers", H_W, 16, base_size=8, interpolation_scale=0.1)

    assert layout.along["width"].unit == Fraction(8, 3) / Fraction(0.1)
    assert layout.along["height"].unit == Fraction(8, 2) / Fraction(0.1)


def test_normalized_positions_are_exact_quotients() -> None:
    layout = laid_out("detr", H_W, 16, normalize=True)
    rule = Geometric(10000.0, 8, 4)

    width = layout.along["width"]
    assert width.unit == Fraction(1_000_000, 3_000_001)
    assert width.rule == InTurns(rule)
    assert (width.tokens.first, width.tokens.length) == (1, 3)
    assert normalized(rule, 1.5) == rule
    assert Measured(rule, normalized_unit(0, 1.5)).exact()[0] == 1_500_000
