"""Frequencies that were used in place of those wanted."""

from typing import Any

import numpy as np

from service.analysis.applied.evidence import Application
from service.analysis.applied.frequencies import Measured, frequency_mistakes, other_frequencies
from service.analysis.applied.spin import Target
from service.analysis.applied.wiring import Wiring
from tests.analysis.rotating import Engine

RIGHT = Application(Wiring(32, 32))


def measured(rows: int = 64, **changes: Any) -> Measured:
    omega = Engine(32, **changes).frequencies()
    return Measured(omega, 1e-9 + 1e-7 * omega, 32, rows)


def made(want: Engine, have: Measured) -> list[tuple[str, dict[str, Any]]]:
    target = Target.of(*want.tables(64))
    return [
        (one.mistakes[0].name, dict(one.mistakes[0].values))
        for one in frequency_mistakes(RIGHT, target, have)
    ]


def test_another_base_is_said_with_both() -> None:
    said = made(Engine(32), measured(base=500000.0))

    assert ("wrong-base", {"have": 500000.0, "want": 10000.0}) in said


def test_a_common_factor_is_a_plain_number_or_one_over_it() -> None:
    assert ("linear-factor", {"ratio": 0.25}) in made(Engine(32), measured(linear=4.0))
    assert ("linear-factor", {"ratio": 3.0}) in made(Engine(32, linear=3.0), measured())
    assert ("linear-factor", {"ratio": 1 / 3}) in made(Engine(32), measured(linear=3.0))


def test_a_base_without_the_rule_that_is_wanted_is_said() -> None:
    said = made(Engine(32, llama3=True), measured(base=20000.0))

    assert ("config-key-ignored", {"have": 20000.0}) in said


def test_frequencies_that_are_right_are_no_mistake() -> None:
    assert made(Engine(32), measured()) == []


def test_frequencies_without_a_name_are_taken_from_four_rows_on() -> None:
    target = Target.of(*Engine(32).tables(64))
    have = measured(llama3=True)

    (other,) = other_frequencies(RIGHT, target, have)

    assert other.mistakes[0].name == "wrong-rule"
    assert other.mistakes[0].values["pair"] > 0
    assert other.spin.omega is not None
    np.testing.assert_array_equal(other.spin.omega, have.omega)
    assert not list(other_frequencies(RIGHT, target, measured(rows=3, llama3=True)))


def test_a_rotation_the_other_way_has_no_frequencies_of_its_own() -> None:
    target = Target.of(*Engine(32).tables(64))
    backwards = Measured(-Engine(32).frequencies(), np.full(16, 1e-9), 32, 64)

    assert not list(other_frequencies(RIGHT, target, backwards))
