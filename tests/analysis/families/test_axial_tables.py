""" """

from typing import Any

import numpy as np
import pytest

from service.analysis.array import TableRequest
from service.analysis.families.axial_tables import AxisShares, bases, fits, propose_axial
from service.analysis.families.coordinate_series import AxisSeries, AxisTurns, axis_turns
from service.encodings.rotary.packs import PACKS
from service.numerics.document import ParameterValue
from tests.analysis.grid_asking import nearest, question_of

TABLES = [
    "convention=qwen2_vl&head_dim=32",
    "convention=qwen2_vl&head_dim=32&spatial_merge_size=2",
    "convention=pixtral&head_dim=32&rope_theta=1000",
    "convention=llama4&head_dim=32",
    "convention=llama4&head_dim=32&class_token=last",
    "convention=dinov3&head_dim=32",
    "convention=dinov3&head_dim=32&normalize_coords=max&min_period=0.5&max_period=20",
    "convention=timm&head_dim=32&reference_grid=16,16&grid_indexing=xy",
    "convention=timm&head_dim=32&grid_offset=1&class_token=first",
    "convention=timm_pixels&head_dim=32",
    "convention=timm_pixels&head_dim=32&max_freq=64&linear_bands=true",
    "convention=rotary_embedding_torch&head_dim=32&grid_offset=2,5",
    "convention=rotary_embedding_torch_pixel&head_dim=32",
    "convention=rotary_embedding_torch_constant&head_dim=32",
    "convention=diffusers_2d&head_dim=32&grid_start=2,1&grid_stop=10,9",
    "convention=lumina&head_dim=32&rope_theta=20000&interpolation_scale=2",
    "convention=flux&head_dim=32&axes_dim=8,24",
]
VIDEOS = [
    "convention=cogvideox&head_dim=48",
    "convention=allegro&head_dim=48&interpolation_scale=1,2,2",
    "convention=flux&axes_dim=8,20,20",
    "convention=minimax_m3&head_dim=48",
]


@pytest.mark.parametrize("grid", ["4,6", "8,8"])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_every_convention_is_found(table: str, grid: str) -> None:
    question = question_of(f"/rope/axial?{table}&grid={grid}")

    assert nearest(propose_axial, question) <= 2**-23


@pytest.mark.parametrize("table", VIDEOS)
def test_the_table_of_a_video_is_found(table: str) -> None:
    question = question_of(f"/rope/axial?{table}&grid=3,4,6")

    assert nearest(propose_axial, question) <= 2**-23


@pytest.mark.parametrize("pack", PACKS)
def test_a_table_is_found_in_every_pack(pack: str) -> None:
    question = question_of(f"/rope/axial?convention=dinov3&head_dim=16&grid=5,3&pack={pack}")

    assert nearest(propose_axial, question) <= 2**-20


@pytest.mark.parametrize(("dtype", "near"), [("float16", 2**-10), ("bfloat16", 2**-7)])
def test_a_table_is_found_in_a_narrow_type(dtype: str, near: float) -> None:
    question = question_of(f"/rope/axial?convention=pixtral&head_dim=32&grid=6,5&dtype={dtype}")

    assert nearest(propose_axial, question) <= near


def test_an_axis_of_one_token_is_a_grid_too() -> None:
    question = question_of("/rope/axial?convention=llama4&head_dim=16&grid=1,7")

    assert nearest(propose_axial, question, first=12) <= 2**-23


def test_conventions_with_the_same_numbers_are_all_named() -> None:
    question = question_of("/rope/axial?convention=qwen2_vl&head_dim=16&grid=3,5")

    named = {proposal.request.parameters["convention"] for proposal in propose_axial(question)}
    assert {"qwen2_vl", "timm", "rotary_embedding_torch", "flux"} <= named


def test_defaults_are_left_out() -> None:
    question = question_of("/rope/axial?convention=dinov3&head_dim=16&grid=3,5")

    expected: dict[str, ParameterValue] = {"convention": "dinov3", "head_dim": 16, "grid": (3, 5)}
    assert next(propose_axial(question)).request == TableRequest("rope/axial", expected)


def shares_of(name: str, query: str) -> AxisShares:
    """Take the table of a 4 by 6 grid apart as a convention has it, the rows' axis first."""
    url = f"/rope/axial?convention={name}&head_dim=32&grid=4,6{query}"
    pairs = question_of(url).sample.reals()
    turns = pairs[..., 0] + 1j * pairs[..., 1]
    measured = [axis_turns(turns[::6, :8], 2**-24), axis_turns(turns[:6, 8:], 2**-24)]
    known = tuple(each for each in measured if each is not None)
    return AxisShares(name, known, (4, 6), (16, 16), (0, 1))


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
    others = AxisShares("qwen2_vl", shares.turns, shares.lengths, shares.widths, shares.order)

    assert list(fits(others)) == []


STILL = AxisTurns(np.zeros(2), np.zeros(2), np.ones(2), 1e-7, 1)


def test_numbers_of_axes_are_listed_in_the_order_of_the_grid() -> None:
    shares = AxisShares("timm", (STILL, STILL), (3, 5), (4, 4), (1, 0))

    assert shares.listed([2.0, 7.0]) == (7.0, 2.0)
    assert shares.listed([2.0, 2.0]) == (2.0,)


def test_bases_follow_from_the_most_exact_axis() -> None:
    series = [AxisSeries(1.0, np.log(100) / 8, 1e-6, 1e-7, 8), None]

    assert bases(series, [8, 8])[0] == pytest.approx(100)


def test_axes_of_different_bases_have_none() -> None:
    series = [AxisSeries(1.0, np.log(base) / 8, 1e-6, 1e-7, 8) for base in (100, 1000)]

    assert bases(series, [8, 8]) == []


@pytest.mark.parametrize("sides", ["separate", "max", "min"])
@pytest.mark.parametrize("offset", [0, 0.5])
def test_centres_of_patches_are_found_whatever_side_is_2_long(sides: str, offset: float) -> None:
    table = f"convention=dinov3&head_dim=32&normalize_coords={sides}&grid_offset={offset}"
    question = question_of(f"/rope/axial?{table}&grid=5,8")

    assert nearest(propose_axial, question) <= 2**-23


@pytest.mark.parametrize("highest", [32, 224, 500])
def test_bands_are_found_for_scaled_coordinates(highest: int) -> None:
    table = f"convention=timm_pixels&head_dim=32&max_freq={highest}&interpolation_scale=2"
    question = question_of(f"/rope/axial?{table}&grid=5,8")

    assert nearest(propose_axial, question) <= 2**-23
