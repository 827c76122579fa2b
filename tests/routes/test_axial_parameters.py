"""The parameters of axial tables: what values they take, and what they say of themselves."""

from typing import Any, get_args

import pytest

from service.delivery.parameters import read_parameters
from service.errors import InvalidParameters
from service.routes.axial_parameters import AxialParameters
from service.tables.axial import CONVENTIONS

LEAST = {"convention": "qwen2_vl", "head_dim": "16"}


def read(**values: Any) -> AxialParameters:
    return read_parameters(AxialParameters, LEAST | values)


def test_every_convention_can_be_asked_for_and_is_described() -> None:
    field = AxialParameters.model_fields["convention"]

    assert get_args(field.annotation) == tuple(CONVENTIONS)
    assert field.description is not None
    for name, convention in CONVENTIONS.items():
        assert f"{name} ({convention.source})" in field.description


def test_what_is_not_said_is_left_to_the_convention() -> None:
    said = read(grid="3,5").model_dump(exclude_none=True)

    # How it is written has defaults of its own.
    assert said == {
        "convention": "qwen2_vl",
        "head_dim": 16,
        "grid": (3, 5),
        "pack": "pair",
        "batch": False,
        "dtype": "float32",
        "angle": "exact",
    }


def test_lists_are_read_from_text_and_from_json() -> None:
    assert read(grid="3,5") == read(grid=[3, 5])
    assert read(grid_offset="0.5,-1e-3").grid_offset == (0.5, -0.001)
    assert str(read(positions_h="0:8:2,9").positions_h) == "0:7:2,9"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("convention", "qwen"),
        ("head_dim", "0"),
        ("head_dim", "15"),
        ("head_dim", "65538"),
        ("grid", ""),
        ("grid", "1,,2"),
        ("grid", "1.5"),
        ("grid", "1,1,1,1,1"),
        ("axes_dim", "2,2,2,2,2"),
        ("positions_t", "1:1"),
        ("positions_w", "4611686018427387905"),
        ("grid_indexing", "yx"),
        ("rope_theta", "1"),
        ("rope_theta", "1e251"),
        ("rope_theta", "nan"),
        ("grid_offset", "1,2,3,4,5"),
        ("reference_grid", "1,x"),
        ("interpolation_scale", "1e999"),
        ("normalize_coords", "both"),
        ("min_period", "0"),
        ("max_period", "1e10"),
        ("max_freq", "0"),
        ("max_freq", "5e-324"),
        ("max_freq", "1e10"),
        ("linear_bands", "1"),
        ("class_token", "middle"),
        ("angle", "float16"),
        ("seq_len", "4"),
    ],
)
def test_values_out_of_bounds_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidParameters) as refused:
        read(**{name: value})

    assert [fault.where for fault in refused.value.faults] == [name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("head_dim", "2"),
        ("head_dim", "4096"),
        ("rope_theta", "1e250"),
        ("max_freq", "1e-9"),
        ("max_period", "1e9"),
        ("grid", "1,2,3,4"),
        ("positions_w", "-4611686018427387904"),
    ],
)
def test_values_on_their_bounds_are_taken(name: str, value: str) -> None:
    assert getattr(read(**{name: value}), name) is not None
