"""M-RoPE: groups of frequencies, sections and rules."""

import numpy as np
import pytest

from service.analysis.families.mrope_sections import grouped, orders, propose_mrope
from service.encodings.rotary.angles import AXES, axis_of_frequency
from tests.analysis.samples import input_of, nearest

# Text, an image of 3 by 4 patches, and text again.
POSITIONS = (
    "positions_t=0:4,4,4,4,4,4,4,4,4,4,4,4,4,8:12"
    "&positions_h=0:4,4,4,4,4,5,5,5,5,6,6,6,6,8:12"
    "&positions_w=0:4,4,5,6,7,4,5,6,7,4,5,6,7,8:12"
)
SECTIONS = [
    "head_dim=128&mrope_section=16,24,24&rope_theta=1000000",
    "head_dim=32&mrope_section=4,6,6",
    "head_dim=128&mrope_section=24,20,20&mrope_interleaved=true&rope_theta=5000000",
    "head_dim=64&mrope_section=12,10,10&mrope_interleaved=true&rope_theta=500000",
]


@pytest.mark.parametrize("section", SECTIONS)
def test_positions_of_a_grid_are_proposed_as_a_grid(section: str) -> None:
    question = input_of(f"/rope?{section}&grid=2,5,7")

    proposal = next(propose_mrope(question))

    said: dict[str, object] = dict(proposal.request.parameters)
    assert said["grid"] == (2, 5, 7)
    assert nearest(propose_mrope, question) <= 2**-23


RULES: list[dict[str, object]] = [
    {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
    {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        "rope_theta": 1000000.0,
    },
]


@pytest.mark.parametrize("rule", RULES, ids=["linear", "yarn"])
def test_a_text_before_the_image_determines_the_rule(rule: dict[str, object]) -> None:
    asked = "&".join(f"{name}={value}" for name, value in rule.items()).replace(".0", "")
    question = input_of(f"/rope?head_dim=64&mrope_section=16,8,8&{asked}&{POSITIONS}&dtype=float64")

    said = next(propose_mrope(question)).request.parameters
    assert rule.items() <= said.items()
    assert said["mrope_section"] == (16, 8, 8)


def test_a_sequence_has_no_mrope_proposal() -> None:
    assert list(propose_mrope(input_of("/rope?head_dim=64&seq_len=40"))) == []


def test_a_corrupted_row_has_no_mrope_proposal() -> None:
    question = input_of(f"/rope?{SECTIONS[1]}&{POSITIONS}")
    question.sample.values[7] = question.sample.values[7][::-1].copy()

    assert list(propose_mrope(question)) == []


_OMEGA = 10000.0 ** (-np.arange(32) / 32)
_POSITIONS = np.array([[0, 1, 2, 3, 3, 3], [0, 1, 2, 3, 3, 4], [0, 1, 2, 3, 4, 3]], dtype=float)
_AXIS = np.repeat([0, 1, 2], [12, 10, 10])


def _angles(unit: float) -> np.ndarray:
    exact = _POSITIONS[_AXIS].T * _OMEGA
    # A rounding to the worst side of every sine and cosine.
    cos, sin = np.cos(exact) * (1 + unit / 2), np.sin(exact) * (1 - unit / 2)
    return np.asarray(np.angle(cos + 1j * sin))


def test_groups_have_exact_positions_in_narrow_types() -> None:
    for unit in (2.0**-8, 2.0**-11, 2.0**-24):
        groups = grouped(_angles(unit), _OMEGA, unit, 0.0)

        assert groups is not None
        assert [each.integers.tolist() for each in groups] == _POSITIONS[[2, 1, 0]].tolist()


def test_four_position_sequences_have_no_groups() -> None:
    angles = _angles(2.0**-24)
    angles[:, 5] = np.array([0, 5, 1, 7, 2, 9]) * _OMEGA[5]

    assert grouped(angles, _OMEGA, 2.0**-24, 0.0) is None


def test_positions_with_a_common_divisor_are_not_counted() -> None:
    angles = np.outer(2 * np.arange(6.0), _OMEGA)

    groups = grouped(angles, _OMEGA, 2.0**-24, 0.0)

    assert groups is not None
    assert not groups[0].is_counted


def places_of(section: tuple[int, int, int], *, interleaved: bool) -> list[set[int]]:
    """List which frequencies turn with each axis."""
    named = axis_of_frequency(sum(section), section, interleaved=interleaved)
    return [{k for k, name in enumerate(named) if name == axis} for axis in AXES]


@pytest.mark.parametrize(
    ("section", "interleaved"),
    [((16, 24, 24), False), ((4, 2, 2), False), ((24, 20, 20), True), ((4, 2, 2), True)],
)
def test_sections_follow_from_which_frequencies_turn_together(
    section: tuple[int, int, int], interleaved: bool
) -> None:
    places = places_of(section, interleaved=interleaved)

    found = list(orders(places, sum(section)))

    assert [(each.section, each.interleaved) for each in found] == [(section, interleaved)]


def test_groups_in_no_known_order_have_no_sections() -> None:
    assert list(orders([{0, 3}, {1, 5}, {2, 4}], 6)) == []
