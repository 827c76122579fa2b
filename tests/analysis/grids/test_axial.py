import pytest

from service.analysis.call import Call
from service.analysis.grids.axial import propose
from service.tables.document import ParameterValue
from service.tables.packs import PACKS
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

    assert nearest(propose, question) <= 2**-23


@pytest.mark.parametrize("table", VIDEOS)
def test_the_table_of_a_video_is_found(table: str) -> None:
    question = question_of(f"/rope/axial?{table}&grid=3,4,6")

    assert nearest(propose, question) <= 2**-23


@pytest.mark.parametrize("pack", PACKS)
def test_a_table_is_found_in_every_pack(pack: str) -> None:
    question = question_of(f"/rope/axial?convention=dinov3&head_dim=16&grid=5,3&pack={pack}")

    assert nearest(propose, question) <= 2**-20


@pytest.mark.parametrize(("dtype", "near"), [("float16", 2**-10), ("bfloat16", 2**-7)])
def test_a_table_is_found_in_a_narrow_type(dtype: str, near: float) -> None:
    question = question_of(f"/rope/axial?convention=pixtral&head_dim=32&grid=6,5&dtype={dtype}")

    assert nearest(propose, question) <= near


def test_an_axis_of_one_token_is_a_grid_too() -> None:
    question = question_of("/rope/axial?convention=llama4&head_dim=16&grid=1,7")

    assert nearest(propose, question, first=12) <= 2**-23


def test_conventions_with_the_same_numbers_are_all_named() -> None:
    question = question_of("/rope/axial?convention=qwen2_vl&head_dim=16&grid=3,5")

    named = {proposal.call.parameters["convention"] for proposal in propose(question)}
    assert {"qwen2_vl", "timm", "rotary_embedding_torch", "flux"} <= named


def test_defaults_are_left_out() -> None:
    question = question_of("/rope/axial?convention=dinov3&head_dim=16&grid=3,5")

    expected: dict[str, ParameterValue] = {"convention": "dinov3", "head_dim": 16, "grid": (3, 5)}
    assert next(propose(question)).call == Call("rope/axial", expected)
