from typing import Any

import pytest

from service.analysis.grids.axial_places import fits
from service.analysis.grids.axial_shares import Shares
from service.analysis.grids.grid_series import axis_turns
from tests.analysis.grid_asking import question_of


def shares_of(name: str, query: str) -> Shares:
    """Take the table of a 4 by 6 grid apart as a convention has it, the rows' axis first."""
    url = f"/rope/axial?convention={name}&head_dim=32&grid=4,6{query}"
    pairs = question_of(url).sample.reals()
    turns = pairs[..., 0] + 1j * pairs[..., 1]
    measured = [axis_turns(turns[::6, :8], 2**-24), axis_turns(turns[:6, 8:], 2**-24)]
    known = tuple(each for each in measured if each is not None)
    return Shares(name, known, (4, 6), (16, 16), (0, 1))


@pytest.mark.parametrize(
    ("name", "query", "values"),
    [
        ("qwen2_vl", "", {}),
        ("qwen2_vl", "&rope_theta=100", {"rope_theta": 100.0}),
        ("timm", "&reference_grid=16,14", {"reference_grid": (16.0, 14.0)}),
        ("timm", "&grid_offset=0.5", {"grid_offset": (0.5,)}),
        ("pixtral", "", {}),
        ("rotary_embedding_torch_constant", "", {}),
        ("dinov3", "&rope_theta=50", {"rope_theta": 50.0}),
        ("timm_pixels", "&max_freq=64", {"max_freq": 64.0}),
    ],
)
def test_parameters_follow_from_how_axes_turn(
    name: str, query: str, values: dict[str, Any]
) -> None:
    assert values in [made.values for made in fits(shares_of(name, query))]


def test_what_no_convention_moves_has_no_fit() -> None:
    shares = shares_of("timm", "&grid_offset=0.5")
    others = Shares("qwen2_vl", shares.turns, shares.lengths, shares.widths, shares.order)

    assert list(fits(others)) == []
