"""Which frequencies the axes of a table get, and what does not divide."""

from typing import Any

import pytest

from service.errors import InvalidParameters
from service.routes.axial_parameters import AxialParameters
from service.routes.axial_series import frequency_rules
from service.tables.axial import CONVENTIONS
from service.tables.bands import Ones, Periods, PixelBands
from service.tables.frequencies import FrequencyRule, Geometric
from service.tables.grid import Picked


def rules(convention: str, head_dim: int, axes: int, **others: Any) -> list[FrequencyRule]:
    values = {"convention": convention, "head_dim": head_dim, **others}
    parameters = AxialParameters.model_validate(values)
    return list(frequency_rules(parameters, CONVENTIONS[convention], axes))


WHOLE_HEAD = Geometric(10000.0, 16, 8)


@pytest.mark.parametrize(
    ("convention", "head_dim", "axes", "others", "expected"),
    [
        ("qwen2_vl", 16, 2, {}, [Geometric(10000.0, 8, 4)] * 2),
        ("qwen2_vl", 16, 2, {"rope_theta": 7.0}, [Geometric(7.0, 8, 4)] * 2),
        (
            "pixtral",
            16,
            2,
            {},
            [Picked(WHOLE_HEAD, (0, 2, 4, 6)), Picked(WHOLE_HEAD, (1, 3, 5, 7))],
        ),
        ("dinov3", 16, 2, {}, [Periods(1.0, 100.0, 4, 4)] * 2),
        ("dinov3", 16, 2, {"rope_theta": 50.0}, [Periods(1.0, 50.0, 4, 4)] * 2),
        ("dinov3", 16, 2, {"min_period": 0.5, "max_period": 2}, [Periods(0.5, 2.0, 3, 4)] * 2),
        ("timm_pixels", 16, 2, {}, [PixelBands(224.0, 4, False)] * 2),
        ("timm_pixels", 16, 2, {"linear_bands": True}, [PixelBands(224.0, 4, True)] * 2),
        ("rotary_embedding_torch_pixel", 8, 1, {}, [PixelBands(10.0, 4, True)]),
        (
            "rotary_embedding_torch_pixel",
            8,
            1,
            {"linear_bands": False, "max_freq": 8},
            [PixelBands(8.0, 4, False)],
        ),
        ("rotary_embedding_torch_constant", 12, 3, {}, [Ones(2)] * 3),
        ("cogvideox", 16, 3, {}, [Geometric(10000.0, d, d // 2) for d in (4, 6, 6)]),
        ("minimax_m3", 80, 3, {}, [Geometric(10000.0, 26, 13)] * 3),
        ("flux", 16, 3, {"axes_dim": [2, 4, 10]}, [Geometric(1e4, d, d // 2) for d in (2, 4, 10)]),
        ("lumina", 16, 2, {"axes_dim": [8, 8]}, [Geometric(10000.0, 8, 4)] * 2),
    ],
)
def test_axes_have_the_series_of_their_convention(
    convention: str,
    head_dim: int,
    axes: int,
    others: dict[str, Any],
    expected: list[FrequencyRule],
) -> None:
    assert rules(convention, head_dim, axes, **others) == expected


@pytest.mark.parametrize(
    ("convention", "head_dim", "axes", "others", "parameter", "value"),
    [
        ("qwen2_vl", 6, 2, {}, "head_dim", "6"),
        ("qwen2_vl", 2, 2, {}, "head_dim", "2"),
        ("timm", 16, 3, {}, "head_dim", "16"),
        ("cogvideox", 8, 3, {}, "head_dim", "8"),
        ("cogvideox", 24, 3, {}, "head_dim", "24"),
        ("minimax_m3", 4, 3, {}, "head_dim", "4"),
        ("pixtral", 2, 2, {}, "head_dim", "2"),
        ("pixtral", 16, 2, {"axes_dim": [8, 8]}, "axes_dim", "8,8"),
        ("lumina", 16, 2, {"axes_dim": [4, 12]}, "axes_dim", "4,12"),
        ("flux", 16, 3, {"axes_dim": [8, 8]}, "axes_dim", "8,8"),
        ("flux", 16, 3, {"axes_dim": [4, 4, 4]}, "axes_dim", "4,4,4"),
        ("flux", 16, 3, {"axes_dim": [3, 5, 8]}, "axes_dim", "3,5,8"),
        ("flux", 16, 3, {"axes_dim": [0, 8, 8]}, "axes_dim", "0,8,8"),
        ("flux", 16, 3, {"axes_dim": [-2, 10, 8]}, "axes_dim", "-2,10,8"),
        ("dinov3", 16, 2, {"min_period": 0.5}, "max_period", None),
        ("dinov3", 16, 2, {"max_period": 0.5}, "min_period", None),
        (
            "dinov3",
            16,
            2,
            {"min_period": 0.5, "max_period": 2, "rope_theta": 9},
            "rope_theta",
            "9",
        ),
    ],
)
def test_what_does_not_divide_or_go_together_is_named(
    convention: str,
    head_dim: int,
    axes: int,
    others: dict[str, Any],
    parameter: str,
    value: str | None,
) -> None:
    with pytest.raises(InvalidParameters) as refused:
        rules(convention, head_dim, axes, **others)

    assert [(fault.where, fault.value) for fault in refused.value.faults] == [(parameter, value)]


def test_every_frequency_of_the_head_is_one_of_an_axis() -> None:
    for name, convention in CONVENTIONS.items():
        for axes in convention.axes:
            counts = [rule.count for rule in rules(name, 48, axes)]
            assert (len(counts), sum(counts)) == (axes, 24)
