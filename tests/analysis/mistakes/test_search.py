"""What is measured in rows says what may have been done to waves."""

import numpy as np

from service.analysis.mistakes.search import turned
from service.analysis.mistakes.waves import waves_of
from tests.analysis.mistaken import Made

RIGHT = Made(40, 16, "concat")
EPSILON = 2.0**-24


def found(made: Made) -> list[list[str]]:
    waves = waves_of(RIGHT.table()["table"], is_pair=False, positions=None)
    assert waves is not None
    return [
        [mistake.name for mistake in each.mistakes]
        for each in turned(waves, made.table()["table"], EPSILON)
        if np.abs(each.table(waves, slice(None))[0] - made.table()["table"]).max() < 1e-9
    ]


def test_several_things_are_measured_at_once() -> None:
    made = Made(40, 16, "concat", base=500000.0, start=3, factor=1.25)

    assert sorted(found(made)[0]) == ["extra-factor", "position-offset", "wrong-base"]


def test_what_is_right_is_among_it() -> None:
    assert [] in found(RIGHT)


def test_zeros_say_nothing() -> None:
    waves = waves_of(RIGHT.table()["table"], is_pair=False, positions=None)
    assert waves is not None

    assert list(turned(waves, np.zeros((40, 16)), EPSILON)) == []
