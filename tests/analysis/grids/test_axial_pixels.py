import pytest

from service.analysis.grids.axial import propose
from tests.analysis.grid_asking import nearest, question_of


@pytest.mark.parametrize("sides", ["separate", "max", "min"])
@pytest.mark.parametrize("offset", [0, 0.5])
def test_centres_of_patches_are_found_whatever_side_is_2_long(sides: str, offset: float) -> None:
    table = f"convention=dinov3&head_dim=32&normalize_coords={sides}&grid_offset={offset}"
    question = question_of(f"/rope/axial?{table}&grid=5,8")

    assert nearest(propose, question) <= 2**-23


@pytest.mark.parametrize("highest", [32, 224, 500])
def test_bands_are_found_for_scaled_coordinates(highest: int) -> None:
    table = f"convention=timm_pixels&head_dim=32&max_freq={highest}&interpolation_scale=2"
    question = question_of(f"/rope/axial?{table}&grid=5,8")

    assert nearest(propose, question) <= 2**-23
