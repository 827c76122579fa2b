"""Axial rotary tables: conventions and parameters."""

import numpy as np
import pytest

from service.analysis.array import TableRequest
from service.analysis.families.axial_tables import (
    bases,
    propose_axial,
    propose_axial_components,
)
from service.analysis.families.series import GeometricSeries
from service.analysis.identification.search import identify
from service.numerics.dtypes import to_float64
from service.numerics.tables import ParameterValue, size
from service.routes.table_urls import tables
from tests.analysis.samples import input_from, input_of


@pytest.mark.parametrize(
    ("table", "conventions", "others"),
    [
        ("qwen2_vl", {"qwen2_vl", "timm", "rotary_embedding_torch", "flux"}, {"llama4"}),
        ("timm&grid_offset=0.5", {"timm", "rotary_embedding_torch"}, {"qwen2_vl", "flux"}),
    ],
)
def test_all_conventions_with_equal_tables_are_proposed(
    table: str, conventions: set[str], others: set[str]
) -> None:
    request = input_of(f"/rope/axial?convention={table}&head_dim=16&grid=3,5")

    named = {proposal.request.parameters["convention"] for proposal in propose_axial(request)}

    assert conventions <= named
    assert not others & named


def test_default_parameters_are_left_out() -> None:
    request = input_of("/rope/axial?convention=dinov3&head_dim=16&grid=3,5")

    expected: dict[str, ParameterValue] = {"convention": "dinov3", "head_dim": 16, "grid": (3, 5)}
    assert next(propose_axial(request)).request == TableRequest("rope/axial", expected)


@pytest.mark.parametrize(
    ("of_axes", "expected"), [((100, None), [100]), ((100, 100), [100]), ((100, 1000), [])]
)
def test_axes_have_a_common_base(of_axes: tuple[int | None, ...], expected: list[int]) -> None:
    series = [base and GeometricSeries(1.0, base ** (-1 / 8), 1e-6, 1e-7) for base in of_axes]

    assert bases([each or None for each in series], [8, 8])[:1] == expected


def test_the_first_row_is_a_class_token_only_where_nothing_else_fits() -> None:
    rows = input_of("/rope/axial?convention=llama4&head_dim=16&grid=3,5&class_token=first")
    tokens = {each.request.parameters.get("class_token") for each in propose_axial(rows)}
    line = input_of("/rope/axial?convention=timm&head_dim=16&grid=5,1")

    assert tokens == {"first"}
    assert all("class_token" not in each.request.parameters for each in propose_axial(line))


@pytest.mark.parametrize("part", ["cos", "sin"])
@pytest.mark.parametrize(
    "table",
    [
        "convention=dinov3&head_dim=32&grid=4,6&pack=half",
        "convention=llama4&head_dim=32&grid=5,3&pack=interleaved",
        "convention=pixtral&head_dim=32&grid=4,4&pack=compact",
        "convention=qwen2_vl&head_dim=32&grid=4,6&spatial_merge_size=2&pack=half",
        "convention=cogvideox&head_dim=48&grid=3,4,6&pack=interleaved",
        "convention=sam2&head_dim=64&grid=16,16&pack=compact&dtype=float16",
    ],
)
def test_one_component_of_a_table_with_usual_parameters_is_identified(
    table: str, part: str
) -> None:
    request = input_of(f"/rope/axial?{table}&part={part}")

    found = identify(request, tables)

    assert found.outcome == "identified"
    assert {each.proposal.request.parameters["part"] for each in found.hypotheses} == {part}
    for each in found.hypotheses:
        (array,) = tables(each.proposal.request).arrays.values()
        numbers = to_float64(array.read(0, size(array)), array.dtype)
        assert np.array_equal(numbers.reshape(array.shape), request.sample.values)


def test_a_component_with_a_wrong_element_is_not_identified() -> None:
    request = input_of("/rope/axial?convention=dinov3&head_dim=32&grid=4,6&pack=half&part=cos")
    request.sample.values[7, 3] += 0.25

    assert identify(request, tables).outcome == "none"


@pytest.mark.parametrize(
    "table",
    [
        "/rope/axial?convention=dinov3&head_dim=16&grid=3,5&pack=half",
        "/rope/axial?convention=dinov3&head_dim=16&grid=3,5",
        "/rope?head_dim=16&seq_len=15&pack=half&part=cos",
    ],
)
def test_other_arrays_are_no_components_of_axial_tables(table: str) -> None:
    assert not [*propose_axial_components(input_of(table))]


@pytest.mark.parametrize("shape", [(2, 9), (9, 2), (1, 16), (4, 4), (12, 8), (24, 32)])
def test_noise_has_no_nearest_component_of_a_grid(shape: tuple[int, int]) -> None:
    noise = np.random.default_rng(7).uniform(-1, 1, shape).astype(np.float32)

    assert not [*propose_axial_components(input_from(noise))]
    found = identify(input_from(noise), tables)
    assert found.nearest is None or found.nearest.proposal.request.resource != "rope/axial"
