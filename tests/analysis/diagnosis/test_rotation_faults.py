"""Mistakes in channels, angles and factors.

Rotations of other channels than should turn.

Rows beyond some length that were treated otherwise.

Mistakes in positions, and in narrow types.

Frequencies that were used in place of those wanted.

Numbers that must be measured: factors, bases, shifts.
"""

from typing import Any

import numpy as np
import pytest

from service.analysis.diagnosis.applied_rotation import (
    Application,
    Evidence,
    RotationAngles,
    Target,
    Wiring,
)
from service.analysis.diagnosis.rotation_faults import (
    FrequencyEstimate,
    Gauge,
    angle_mistakes,
    frequency_mistakes,
    length_mistakes,
    narrow_mistakes,
    position_mistakes,
    size_mistakes,
    unnamed_frequencies,
    width_mistakes,
    wiring_mistakes,
)
from tests.analysis.rotating import Engine

PARTIAL = Application(Wiring(16, 8))


def test_every_mistake_changes_something_of_its_own() -> None:
    made = [*wiring_mistakes(PARTIAL), *angle_mistakes(PARTIAL), *size_mistakes(PARTIAL, 1.2)]

    assert all(one.wiring != PARTIAL.wiring or one.angles != PARTIAL.angles for one in made)
    assert len({one.mistakes[0].sentence for one in made}) == len(made)


def test_other_layouts_are_those_that_are_not_wanted() -> None:
    mixed = Application(Wiring(16, 16, read="interleaved", written="half"))

    names = [
        sorted(one.mistakes[0].name for one in wiring_mistakes(start) if "layout" in one.aspects)
        for start in (PARTIAL, mixed)
    ]

    assert names == [["layout-mixed", "layout-mixed", "layout-swapped"], ["layout-mixed"] * 3]


def test_one_pair_has_one_layout() -> None:
    made = wiring_mistakes(Application(Wiring(2, 2)))

    assert not {one.aspects[0] for one in made} & {"layout", "tiling"}


def test_only_channels_that_pass_through_can_be_zeroed() -> None:
    def aspects(wiring: Wiring) -> set[str]:
        return {one.aspects[0] for one in wiring_mistakes(Application(wiring))}

    assert "rest" in aspects(Wiring(16, 8))
    assert "rest" not in aspects(Wiring(16, 16))


def test_a_factor_of_one_cannot_be_missing() -> None:
    assert not list(size_mistakes(PARTIAL, 1.0))


def test_a_missing_factor_is_said_with_its_value_where_it_has_one() -> None:
    known, *_ = size_mistakes(PARTIAL, 1.25)
    growing, *_ = size_mistakes(PARTIAL, None)

    assert known.mistakes[0].values == {"factor": 1.25, "ratio": 0.8}
    assert "xPos" in growing.mistakes[0].correction


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

    assert wide.angles.omega is not None
    np.testing.assert_allclose(wide.angles.omega, Engine(16).frequencies(), rtol=1e-12)


def test_a_narrower_rotation_has_its_own_frequencies_or_the_first_of_those_wanted() -> None:
    narrow = [
        one
        for one in made(Engine(16), Engine(8))
        if (one.wiring.offset, one.wiring.width) == (0, 8)
    ]

    first, own = (one.angles.omega for one in narrow)
    assert first is not None
    assert own is not None
    np.testing.assert_allclose(first, Engine(16).frequencies()[:4], rtol=1e-12)
    np.testing.assert_allclose(own, Engine(8).frequencies(), rtol=1e-12)


def test_zeros_in_place_of_what_passes_through_are_seen() -> None:
    zeroed = RIGHT.with_changes(is_rest_zero=True)

    parts = {(one.wiring.width, one.wiring.is_rest_zero) for one in made(RIGHT, zeroed)}

    assert (8, False) not in parts
    assert (16, False) in parts


def test_another_part_of_the_head_is_tried_where_that_one_moved() -> None:
    (moved,) = [one for one in made(RIGHT, RIGHT.with_changes(offset=8)) if one.wiring.width == 8]

    assert moved.wiring.offset == 8
    assert moved.mistakes[0].values == {"have": 8, "want": 0}


LENGTHS_RIGHT = Application(Wiring(16, 16))


def evidence(**changes: Any) -> Evidence:
    want = Engine(16)
    x = np.random.default_rng(0).standard_normal((1, 60, 16))
    target = Target.of(*want.tables(60))
    return Evidence(x, want.with_changes(**changes).rotate(x), target, 2.0**-53)


def test_the_length_is_where_rows_are_no_longer_explained() -> None:
    made = list(length_mistakes(LENGTHS_RIGHT, evidence(beyond=(37, "clamped"))))

    assert [one.mistakes[0].values["have"] for one in made] == [37] * 4


def test_one_of_the_ways_to_go_on_explains_every_row() -> None:
    for beyond in ("unrotated", "zero", "clamped", "wrapped"):
        seen = evidence(beyond=(37, beyond))
        explained = [
            (seen.explained_shares(one, slice(None), np.arange(60)) == 1).all()
            for one in length_mistakes(LENGTHS_RIGHT, seen)
        ]
        assert sum(explained) == 1, beyond


def test_there_is_no_length_where_all_is_right_or_nothing_is() -> None:
    assert not list(length_mistakes(LENGTHS_RIGHT, evidence()))
    assert not list(length_mistakes(LENGTHS_RIGHT, evidence(layout="interleaved")))


POSITIONS_RIGHT = Application(Wiring(16, 16))


def target(rows: int, start: int = 0) -> Target:
    return Target.of(*Engine(16, start=start).tables(rows))


def names(rows: int, start: int = 0) -> list[str]:
    return [
        made.mistakes[0].name for made in position_mistakes(POSITIONS_RIGHT, target(rows, start))
    ]


def test_positions_can_be_narrow_only_where_they_do_not_fit() -> None:
    assert "narrow-positions" not in names(200)
    assert names(300).count("narrow-positions") == 1
    assert names(100, start=3000).count("narrow-positions") == 2


def test_narrow_positions_are_rounded() -> None:
    wanted = target(300)
    narrow = list(position_mistakes(POSITIONS_RIGHT, wanted))[-1]

    places = narrow.angles.positions(wanted, np.array([255, 256, 257, 258, 259]))

    np.testing.assert_array_equal(places, [255, 256, 256, 258, 260])


def test_one_row_cannot_be_in_reverse() -> None:
    assert names(1) == []


@pytest.mark.parametrize("start", [0, 100])
def test_rows_can_be_stuck_at_a_position_between_rows(start: int) -> None:
    measuring = gauge(start=start, positions="stuck")

    (stuck,) = [
        one
        for one in measuring.mistakes(MEASURED_RIGHT)
        if one.mistakes[0].name == "positions-stuck"
    ]

    positions = stuck.angles.positions(measuring.evidence.target, np.arange(10))
    np.testing.assert_array_equal(positions, start + 5.0)
    assert stuck.mistakes[0].values == {"position": start + 5.0}


def test_narrow_frequencies_and_tables_are_in_either_half_type() -> None:
    made = list(narrow_mistakes(POSITIONS_RIGHT, target(10)))

    said = [(one.mistakes[0].name, one.mistakes[0].values["dtype"]) for one in made]
    assert sorted(said) == [
        ("narrow-frequencies", "bfloat16"),
        ("narrow-frequencies", "float16"),
        ("narrow-tables", "bfloat16"),
        ("narrow-tables", "float16"),
    ]


FREQUENCIES_RIGHT = Application(Wiring(32, 32))


def measured(rows: int = 64, **changes: Any) -> FrequencyEstimate:
    omega = Engine(32, **changes).frequencies()
    return FrequencyEstimate(omega, 1e-9 + 1e-7 * omega, 32, rows)


def frequencies_made(want: Engine, have: FrequencyEstimate) -> list[tuple[str, dict[str, Any]]]:
    target = Target.of(*want.tables(64))
    return [
        (one.mistakes[0].name, dict(one.mistakes[0].values))
        for one in frequency_mistakes(FREQUENCIES_RIGHT, target, have)
    ]


def test_another_base_is_said_with_both() -> None:
    said = frequencies_made(Engine(32), measured(base=500000.0))

    assert ("wrong-base", {"have": 500000.0, "want": 10000.0}) in said


def test_a_common_factor_is_a_plain_number_or_one_over_it() -> None:
    assert ("linear-factor", {"ratio": 0.25}) in frequencies_made(Engine(32), measured(linear=4.0))
    assert ("linear-factor", {"ratio": 3.0}) in frequencies_made(Engine(32, linear=3.0), measured())
    assert ("linear-factor", {"ratio": 1 / 3}) in frequencies_made(Engine(32), measured(linear=3.0))


def test_a_base_without_the_rule_that_is_wanted_is_said() -> None:
    said = frequencies_made(Engine(32, llama3=True), measured(base=20000.0))

    assert ("config-key-ignored", {"have": 20000.0}) in said


def test_frequencies_that_are_right_are_no_mistake() -> None:
    assert frequencies_made(Engine(32), measured()) == []


def test_frequencies_without_a_name_are_taken_from_four_rows_on() -> None:
    target = Target.of(*Engine(32).tables(64))
    have = measured(llama3=True)

    (other,) = unnamed_frequencies(FREQUENCIES_RIGHT, target, have)

    assert other.mistakes[0].name == "wrong-rule"
    assert other.mistakes[0].values["pair"] > 0
    assert other.angles.omega is not None
    np.testing.assert_array_equal(other.angles.omega, have.omega)
    assert not list(unnamed_frequencies(FREQUENCIES_RIGHT, target, measured(rows=3, llama3=True)))


def test_a_rotation_the_other_way_has_no_frequencies_of_its_own() -> None:
    target = Target.of(*Engine(32).tables(64))
    backwards = FrequencyEstimate(-Engine(32).frequencies(), np.full(16, 1e-9), 32, 64)

    assert not list(unnamed_frequencies(FREQUENCIES_RIGHT, target, backwards))


MEASURED_RIGHT = Application(Wiring(32, 32))


def gauge(rows: int = 48, heads: int = 1, **changes: Any) -> Gauge:
    want = Engine(32, factor=1.1)
    x = np.random.default_rng(0).standard_normal((heads, rows, 32)).astype(np.float32)
    y = want.with_changes(**changes).rotate(x)
    target = Target.of(*want.tables(rows))
    evidence = Evidence(x.astype(float), y.astype(float), target, 2.0**-24)
    return Gauge(evidence, slice(0, 4), np.arange(rows))


def said(measuring: Gauge, start: Application = MEASURED_RIGHT) -> list[tuple[str, dict[str, Any]]]:
    return [
        (made.mistakes[-1].name, dict(made.mistakes[-1].values))
        for made in measuring.mistakes(start)
    ]


@pytest.mark.parametrize("heads", [1, 4])
def test_each_number_is_measured(heads: int) -> None:
    assert ("extra-factor", {"factor": 1.5}) in said(gauge(heads=heads, factor=1.65))
    assert ("wrong-factor", {"factor": 0.5}) in said(gauge(heads=heads, factor=0.55))
    base = {"have": 12345.0, "want": 10000.0}
    assert ("wrong-base", base) in said(gauge(heads=heads, base=12345.0))
    assert ("linear-factor", {"ratio": 0.125}) in said(gauge(heads=heads, linear=8.0))
    assert ("position-offset", {"rows": -12}) in said(gauge(heads=heads, start=-12))
    assert ("positions-stuck", {"position": 5.0}) in said(gauge(heads=heads, positions="stuck"))


def test_what_is_right_measures_no_factor_and_no_frequencies() -> None:
    assert {name for name, _ in said(gauge())} <= {"positions-stuck"}


def test_numbers_are_measured_beside_another_mistake() -> None:
    backwards = Application(MEASURED_RIGHT.wiring, RotationAngles(is_inverse=True))
    twice = Application(MEASURED_RIGHT.wiring, RotationAngles(times=2))

    base = {"have": 777.0, "want": 10000.0}
    assert ("wrong-base", base) in said(gauge(turns=-1.0, base=777.0), backwards)
    assert ("wrong-base", base) in said(gauge(turns=2.0, base=777.0), twice)
    assert ("position-offset", {"rows": 3}) in said(gauge(turns=2.0, start=3), twice)


def test_a_base_is_measured_on_rows_before_another_mistake_begins() -> None:
    cut = said(gauge(base=777.0, beyond=(20, "clamped")))

    assert ("wrong-base", {"have": 777.0, "want": 10000.0}) in cut


def test_a_wiring_is_measured_once() -> None:
    measuring = gauge()

    assert measuring.estimate(Wiring(32, 32)) is measuring.estimate(Wiring(32, 32))


def test_frequencies_without_a_name_are_measured() -> None:
    (other, *_) = gauge(llama3=True).unnamed_mistakes(MEASURED_RIGHT)

    expected = Engine(32, llama3=True).frequencies()
    assert other.angles.omega is not None
    np.testing.assert_allclose(other.angles.omega, expected, atol=1e-7)


def test_zeros_measure_nothing() -> None:
    target = Target.of(*Engine(32).tables(9))
    nothing = Evidence(np.zeros((1, 9, 32)), np.zeros((1, 9, 32)), target, 2.0**-24)
    measuring = Gauge(nothing, slice(0, 1), np.arange(9))

    assert said(measuring) == []
    assert not list(measuring.unnamed_mistakes(MEASURED_RIGHT))
