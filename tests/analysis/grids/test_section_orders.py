import pytest

from service.analysis.grids.section_orders import orders
from service.tables.mrope import AXES, axis_of_frequency


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


def test_groups_in_no_known_order_have_none() -> None:
    assert list(orders([{0, 3}, {1, 5}, {2, 4}], 6)) == []
