"""Rows beyond some length that were treated otherwise."""

from typing import Any

import numpy as np

from service.analysis.applied.evidence import Application, Evidence
from service.analysis.applied.lengths import length_mistakes
from service.analysis.applied.spin import Target
from service.analysis.applied.wiring import Wiring
from tests.analysis.rotating import Engine

RIGHT = Application(Wiring(16, 16))


def evidence(**changes: Any) -> Evidence:
    want = Engine(16)
    x = np.random.default_rng(0).standard_normal((1, 60, 16))
    target = Target.of(*want.tables(60))
    return Evidence(x, want.having(**changes).rotate(x), target, 2.0**-53)


def test_the_length_is_where_rows_are_no_longer_explained() -> None:
    made = list(length_mistakes(RIGHT, evidence(beyond=(37, "clamped"))))

    assert [one.mistakes[0].values["have"] for one in made] == [37] * 4


def test_one_of_the_ways_to_go_on_explains_every_row() -> None:
    for beyond in ("unrotated", "zero", "clamped", "wrapped"):
        seen = evidence(beyond=(37, beyond))
        explained = [
            (seen.share_within(one, slice(None), np.arange(60)) == 1).all()
            for one in length_mistakes(RIGHT, seen)
        ]
        assert sum(explained) == 1, beyond


def test_there_is_no_length_where_all_is_right_or_nothing_is() -> None:
    assert not list(length_mistakes(RIGHT, evidence()))
    assert not list(length_mistakes(RIGHT, evidence(layout="interleaved")))
