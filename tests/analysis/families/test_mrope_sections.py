"""M-RoPE: groups of frequencies, sections and rules."""

import numpy as np
import pytest

from service.analysis.families.mrope_sections import grouped, orders, propose_mrope
from tests.analysis.samples import input_of

# Text, an image of 3 by 4 patches, and text again.
POSITIONS = (
    "positions_t=0:4,4,4,4,4,4,4,4,4,4,4,4,4,8:12"
    "&positions_h=0:4,4,4,4,4,5,5,5,5,6,6,6,6,8:12"
    "&positions_w=0:4,4,5,6,7,4,5,6,7,4,5,6,7,8:12"
)


@pytest.mark.parametrize("interleaved", ["", "&mrope_interleaved=true"])
def test_positions_of_a_grid_are_proposed_as_a_grid(interleaved: str) -> None:
    url = f"/rope?head_dim=64&mrope_section=12,10,10{interleaved}&grid=2,5,7"

    parameters = dict(next(propose_mrope(input_of(url))).request.parameters)

    assert parameters["grid"] == (2, 5, 7)


@pytest.mark.parametrize(
    "rule",
    [
        {"rope_type": "linear", "factor": 4, "rope_theta": 10000},
        {
            "rope_type": "yarn",
            "factor": 4,
            "original_max_position_embeddings": 32768,
            "rope_theta": 1000000,
        },
    ],
    ids=["linear", "yarn"],
)
def test_text_before_the_image_determines_the_rule(rule: dict[str, object]) -> None:
    query = "&".join(f"{name}={value}" for name, value in rule.items())
    url = f"/rope?head_dim=64&mrope_section=16,8,8&{query}&{POSITIONS}&dtype=float64"

    parameters = next(propose_mrope(input_of(url))).request.parameters

    assert rule.items() <= parameters.items()
    assert parameters["mrope_section"] == (16, 8, 8)


def test_sequences_and_corrupted_rows_have_no_mrope_proposal() -> None:
    corrupted = input_of(f"/rope?head_dim=32&mrope_section=4,6,6&{POSITIONS}")
    corrupted.sample.values[7] = corrupted.sample.values[7][::-1].copy()

    assert not list(propose_mrope(input_of("/rope?head_dim=64&seq_len=40")))
    assert not list(propose_mrope(corrupted))


_OMEGA = 10000.0 ** (-np.arange(32) / 32)
_POSITIONS = np.array([[0, 1, 2, 3, 3, 3], [0, 1, 2, 3, 3, 4], [0, 1, 2, 3, 4, 3]], dtype=float)
_AXIS = np.repeat([0, 1, 2], [12, 10, 10])


def _angles(unit: float) -> np.ndarray:
    """Return angles of cosines and sines with the largest rounding errors."""
    exact = _POSITIONS[_AXIS].T * _OMEGA
    cos, sin = np.cos(exact) * (1 + unit / 2), np.sin(exact) * (1 - unit / 2)
    return np.asarray(np.angle(cos + 1j * sin))


@pytest.mark.parametrize("unit", [2.0**-8, 2.0**-11, 2.0**-24])
def test_groups_have_exact_positions_in_narrow_types(unit: float) -> None:
    groups = grouped(_angles(unit), _OMEGA, unit, 0.0)

    assert groups is not None
    assert [each.integers.tolist() for each in groups] == _POSITIONS[[2, 1, 0]].tolist()


def test_four_position_sequences_have_no_groups() -> None:
    angles = _angles(2.0**-24)
    angles[:, 5] = np.array([0, 5, 1, 7, 2, 9]) * _OMEGA[5]

    assert grouped(angles, _OMEGA, 2.0**-24, 0.0) is None


def test_positions_with_a_common_divisor_are_not_counted() -> None:
    groups = grouped(np.outer(2 * np.arange(6.0), _OMEGA), _OMEGA, 2.0**-24, 0.0)

    assert groups is not None
    assert not groups[0].is_counted


def test_groups_in_no_known_order_have_no_sections() -> None:
    assert not list(orders([{0, 3}, {1, 5}, {2, 4}], 6))
