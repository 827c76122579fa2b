"""Axial rotary tables: conventions and parameters."""

import pytest

from service.analysis.array import TableRequest
from service.analysis.families.axial_tables import bases, propose_axial
from service.analysis.families.series import GeometricSeries
from service.numerics.tables import ParameterValue
from tests.analysis.samples import input_of


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
