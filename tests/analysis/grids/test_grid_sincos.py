import pytest

from service.analysis.call import Call
from service.analysis.grids.grid_sincos import propose
from service.tables.document import ParameterValue
from tests.analysis.grid_asking import nearest, question_of

TABLES = [
    "convention=mae&d_model=16",
    "convention=mae&d_model=16&cls_token=true&base=500",
    "convention=transformers&d_model=24",
    "convention=moco-v3&d_model=16",
    "convention=simple-vit&d_model=16",
    "convention=timm&d_model=16&reverse_coord=true",
    "convention=timm&d_model=16&interleave_sin_cos=true",
    "convention=timm-fourier&num_bands=5",
    "convention=detr&d_model=16",
    "convention=detr&d_model=16&normalize=true",
    "convention=detr&d_model=16&normalize=true&scale=2&base=20&channels_first=false",
    "convention=diffusers&d_model=16&base_size=32&interpolation_scale=2",
    "convention=diffusers&d_model=16&cls_token=true&extra_tokens=3",
    "convention=positional-encodings&d_model=14",
    "convention=tensor2tensor&d_model=18&min_timescale=2&max_timescale=5000",
    "convention=perceiver&num_bands=4&max_resolution=6,9",
    "convention=perceiver&num_bands=4&max_resolution=32&sine_only=true",
]
SIZES = ["height=6&width=9", "height=7&width=4", "height=8&width=8"]
ROUNDINGS = {"float64": 2**-53, "float32": 2**-24, "float16": 2**-11, "bfloat16": 2**-8}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_every_convention_is_found(table: str, size: str) -> None:
    question = question_of(f"/encoding/grid?{table}&{size}")

    assert nearest(propose, question) <= 2**-23


@pytest.mark.parametrize("dtype", ROUNDINGS)
@pytest.mark.parametrize("table", TABLES[::3])
def test_a_table_is_found_in_every_type(table: str, dtype: str) -> None:
    question = question_of(f"/encoding/grid?{table}&height=6&width=9&dtype={dtype}")

    assert nearest(propose, question) <= 2 * ROUNDINGS[dtype]


@pytest.mark.parametrize(
    "table",
    [
        "convention=diffusers&d_model=32&spatial_interpolation_scale=1.875",
        "convention=positional-encodings&d_model=7&channels_first=true",
        "convention=tensor2tensor&d_model=14",
    ],
)
def test_three_axes_are_found(table: str) -> None:
    question = question_of(f"/encoding/grid?{table}&depth=4&height=2&width=3")

    assert nearest(propose, question) <= 2**-23


def test_defaults_are_left_out() -> None:
    question = question_of("/encoding/grid?convention=mae&height=3&width=5&d_model=16")

    expected: dict[str, ParameterValue] = {
        "convention": "mae",
        "height": 3,
        "width": 5,
        "d_model": 16,
    }
    assert next(propose(question)).call == Call("encoding/grid", expected)


def test_two_conventions_with_the_same_numbers_are_both_named() -> None:
    question = question_of("/encoding/grid?convention=mae&height=16&width=16&d_model=16")

    named = {proposal.call.parameters["convention"] for proposal in propose(question)}
    assert {"mae", "diffusers"} <= named


def test_a_corrupted_axis_is_of_no_convention() -> None:
    question = question_of("/encoding/grid?convention=mae&height=6&width=6&d_model=16")
    question.sample.values[:, 3] *= 0.5

    assert list(propose(question)) == []


@pytest.mark.parametrize("size", SIZES)
def test_the_usual_resolution_goes_unsaid_where_it_gives_the_same_numbers(size: str) -> None:
    question = question_of(f"/encoding/grid?convention=timm-fourier&num_bands=8&{size}")

    said = [proposal.call.parameters for proposal in propose(question)]

    assert any("max_resolution" not in parameters for parameters in said)
