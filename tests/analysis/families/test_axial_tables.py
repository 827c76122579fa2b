"""Axial rotary tables: shares of frequencies, bases and parameters of conventions."""

from typing import Any

import numpy as np
import pytest

from service.analysis.array import TableRequest
from service.analysis.families.axial_tables import AxisShares, bases, fits, propose_axial
from service.analysis.families.unwrapping import AxisWaves, axis_waves
from service.analysis.measure import GeometricSeries
from service.numerics.tables import ParameterValue
from tests.analysis.samples import input_of


def test_all_conventions_with_equal_tables_are_proposed() -> None:
    question = input_of("/rope/axial?convention=qwen2_vl&head_dim=16&grid=3,5")

    named = {proposal.request.parameters["convention"] for proposal in propose_axial(question)}
    assert {"qwen2_vl", "timm", "rotary_embedding_torch", "flux"} <= named


def test_default_parameters_are_left_out() -> None:
    question = input_of("/rope/axial?convention=dinov3&head_dim=16&grid=3,5")

    expected: dict[str, ParameterValue] = {"convention": "dinov3", "head_dim": 16, "grid": (3, 5)}
    assert next(propose_axial(question)).request == TableRequest("rope/axial", expected)


def shares_of(name: str, query: str) -> AxisShares:
    """Take the table of a 4 by 6 grid apart as a convention has it, the rows' axis first."""
    url = f"/rope/axial?convention={name}&head_dim=32&grid=4,6{query}"
    pairs = input_of(url).sample.reals()
    turns = pairs[..., 0] + 1j * pairs[..., 1]
    measured = [axis_waves(turns[::6, :8], 2**-24), axis_waves(turns[:6, 8:], 2**-24)]
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


def test_an_offset_has_no_fit_in_a_convention_without_offsets() -> None:
    shares = shares_of("timm", "&grid_offset=0.5")
    others = AxisShares("qwen2_vl", shares.turns, shares.lengths, shares.widths, shares.order)

    assert list(fits(others)) == []


STILL = AxisWaves(np.zeros(2), np.zeros(2), np.ones(2), 1e-7, 1)


def test_numbers_of_axes_are_listed_in_the_order_of_the_grid() -> None:
    shares = AxisShares("timm", (STILL, STILL), (3, 5), (4, 4), (1, 0))

    assert shares.listed([2.0, 7.0]) == (7.0, 2.0)
    assert shares.listed([2.0, 2.0]) == (2.0,)


def test_bases_follow_from_the_most_exact_axis() -> None:
    series = [GeometricSeries(1.0, 100 ** (-1 / 8), 1e-6, 1e-7), None]

    assert bases(series, [8, 8])[0] == pytest.approx(100)


def test_axes_of_different_bases_have_none() -> None:
    series = [GeometricSeries(1.0, base ** (-1 / 8), 1e-6, 1e-7) for base in (100, 1000)]

    assert bases(series, [8, 8]) == []
