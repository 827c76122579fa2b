"""Rotations of other channels than should turn."""

import numpy as np

from service.analysis.applied.evidence import Application, Evidence
from service.analysis.applied.spin import Target
from service.analysis.applied.widths import width_mistakes
from service.analysis.applied.wiring import Wiring
from tests.analysis.rotating import Engine

RIGHT = Engine(8)


def made(want: Engine, have: Engine) -> list[Application]:
    x = np.random.default_rng(0).standard_normal((2, 20, 16))
    evidence = Evidence(x, have.rotate(x), Target.of(*want.tables(20)), 2.0**-53)
    return list(width_mistakes(Application(Wiring(16, want.width)), evidence))


def test_no_part_is_tried_that_does_not_hold_all_that_moved() -> None:
    assert made(Engine(16), Engine(16)) == []
    assert {one.wiring.width for one in made(Engine(8), Engine(16))} == {16}


def test_a_wider_rotation_has_the_frequencies_of_its_width() -> None:
    (wide,) = made(Engine(8), Engine(16))

    assert wide.spin.omega is not None
    np.testing.assert_allclose(wide.spin.omega, Engine(16).frequencies(), rtol=1e-12)


def test_a_narrower_rotation_has_its_own_frequencies_or_the_first_of_those_wanted() -> None:
    narrow = [one for one in made(Engine(16), Engine(8)) if one.wiring.turning == slice(0, 8)]

    first, own = (one.spin.omega for one in narrow)
    assert first is not None
    assert own is not None
    np.testing.assert_allclose(first, Engine(16).frequencies()[:4], rtol=1e-12)
    np.testing.assert_allclose(own, Engine(8).frequencies(), rtol=1e-12)


def test_zeros_in_place_of_what_passes_through_are_seen() -> None:
    zeroed = RIGHT.having(is_rest_zero=True)

    parts = {(one.wiring.width, one.wiring.is_rest_zero) for one in made(RIGHT, zeroed)}

    assert (8, False) not in parts
    assert (16, False) in parts


def test_another_part_of_the_head_is_tried_where_that_one_moved() -> None:
    (moved,) = [one for one in made(RIGHT, RIGHT.having(offset=8)) if one.wiring.width == 8]

    assert moved.wiring.offset == 8
    assert moved.mistakes[0].values == {"have": 8, "want": 0}
