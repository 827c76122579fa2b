"""Mistakes in positions, and in narrow types."""

import numpy as np

from service.analysis.applied.evidence import Application
from service.analysis.applied.positions import narrow_mistakes, position_mistakes, stuck_at
from service.analysis.applied.spin import Target
from service.analysis.applied.wiring import Wiring
from tests.analysis.rotating import Engine

RIGHT = Application(Wiring(16, 16))


def target(rows: int, start: int = 0) -> Target:
    return Target.of(*Engine(16, start=start).tables(rows))


def names(rows: int, start: int = 0) -> list[str]:
    return [made.mistakes[0].name for made in position_mistakes(RIGHT, target(rows, start))]


def test_positions_can_be_narrow_only_where_they_do_not_fit() -> None:
    assert "narrow-positions" not in names(200)
    assert names(300).count("narrow-positions") == 1
    assert names(100, start=3000).count("narrow-positions") == 2


def test_narrow_positions_are_rounded() -> None:
    wanted = target(300)
    narrow = list(position_mistakes(RIGHT, wanted))[-1]

    places = narrow.spin.positions(wanted, np.array([255, 256, 257, 258, 259]))

    np.testing.assert_array_equal(places, [255, 256, 256, 258, 260])


def test_one_row_cannot_be_in_reverse() -> None:
    assert names(1) == []


def test_rows_can_be_stuck_at_any_position() -> None:
    wanted = target(10, start=100)
    for position in (0.0, 104.0):
        stuck = stuck_at(RIGHT, wanted, position)

        np.testing.assert_array_equal(stuck.spin.positions(wanted, np.arange(10)), position)
        assert stuck.mistakes[0].values == {"position": position}


def test_narrow_frequencies_and_tables_are_in_either_half_type() -> None:
    made = list(narrow_mistakes(RIGHT, target(10)))

    said = [(one.mistakes[0].name, one.mistakes[0].values["dtype"]) for one in made]
    assert sorted(said) == [
        ("narrow-frequencies", "bfloat16"),
        ("narrow-frequencies", "float16"),
        ("narrow-tables", "bfloat16"),
        ("narrow-tables", "float16"),
    ]
