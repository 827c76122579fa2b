"""The mistakes of applied rotations that are candidates; test_rotation.py names each of them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from service.analysis.diagnosis.applied_rotation import (
    Application,
    Evidence,
    Target,
    Wiring,
)
from service.analysis.diagnosis.mistakes import Mistake
from service.analysis.diagnosis.rotation_faults import (
    FrequencyEstimate,
    RotationMeasurement,
    angle_mistakes,
    frequency_mistakes,
    narrow_mistakes,
    position_mistakes,
    size_mistakes,
    unnamed_frequencies,
    wiring_mistakes,
)
from tests.analysis.rotating import Engine

PARTIAL = Application(Wiring(16, 8))
HALF = Application(Wiring(16, 16))
RIGHT = Application(Wiring(32, 32))

Named = tuple[str, dict[str, Any]]


def named(applications: Iterable[Application]) -> list[Named]:
    return [(one.mistakes[-1].name, dict(one.mistakes[-1].values)) for one in applications]


def test_each_mistake_changes_the_application_and_has_its_own_sentence() -> None:
    tried = [
        *wiring_mistakes(PARTIAL),
        *angle_mistakes(PARTIAL),
        *size_mistakes(PARTIAL, 1.2),
    ]

    assert all(one.wiring != PARTIAL.wiring or one.angles != PARTIAL.angles for one in tried)
    assert len({one.mistakes[0].sentence for one in tried}) == len(tried)


@pytest.mark.parametrize(
    ("wiring", "layouts"),
    [
        (PARTIAL.wiring, ["layout-mixed", "layout-mixed", "layout-swapped"]),
        (Wiring(16, 16, read="interleaved", written="half"), ["layout-mixed"] * 3),
        (Wiring(2, 2), []),
    ],
)
def test_every_other_layout_is_tried(wiring: Wiring, layouts: list[str]) -> None:
    tried = list(wiring_mistakes(Application(wiring)))

    assert sorted(one.mistakes[0].name for one in tried if "layout" in one.aspects) == layouts
    assert ("tiling" in {one.aspects[0] for one in tried}) == (wiring == PARTIAL.wiring)
    assert ("rest" in {one.aspects[0] for one in tried}) == (wiring == PARTIAL.wiring)


def test_missing_factor_has_its_value_where_it_is_one_number() -> None:
    known, *_ = size_mistakes(PARTIAL, 1.25)
    growing, *_ = size_mistakes(PARTIAL, None)

    assert known.mistakes[0].values == {"factor": 1.25, "ratio": 0.8}
    assert "xPos" in growing.mistakes[0].correction
    assert not list(size_mistakes(PARTIAL, 1.0))


def target(rows: int, start: int = 0) -> Target:
    return Target.of(*Engine(16, start=start).tables(rows))


@pytest.mark.parametrize(("rows", "start", "count"), [(200, 0, 0), (300, 0, 1), (100, 3000, 2)])
def test_narrow_positions_are_tried_for_types_that_round_them(
    rows: int, start: int, count: int
) -> None:
    names = [name for name, _ in named(position_mistakes(HALF, target(rows, start)))]

    assert names.count("narrow-positions") == count


def test_single_row_has_no_mistake_of_positions() -> None:
    assert not list(position_mistakes(HALF, target(1)))


@pytest.mark.parametrize(
    ("roundoff", "tables"),
    [(2.0**-24, ["bfloat16", "float16"]), (2.0**-11, []), (2.0**-8, [])],
)
def test_narrow_tables_are_tried_where_the_array_is_much_more_exact(
    roundoff: float, tables: list[str]
) -> None:
    found = named(narrow_mistakes(HALF, target(10), roundoff))

    tried = {(name, values["dtype"]) for name, values in found}
    frequencies = product(["narrow-frequencies"], ["bfloat16", "float16"])
    assert tried == {*frequencies, *product(["narrow-tables"], tables)}


def estimate(rows: int = 64, **changes: Any) -> FrequencyEstimate:
    omega = Engine(32, **changes).frequencies()
    return FrequencyEstimate(omega, 1e-9 + 1e-7 * omega, rows)


def test_unnamed_frequencies_are_the_measured_ones_of_four_rows_or_more() -> None:
    expected_tables = Target.of(*Engine(32).tables(64))
    sent = estimate(llama3=True)
    backwards = FrequencyEstimate(-Engine(32).frequencies(), np.full(16, 1e-9), 64)

    (other,) = unnamed_frequencies(RIGHT, expected_tables, sent)

    assert other.mistakes[0].name == "wrong-rule"
    assert other.mistakes[0].values["pair"] > 0
    assert other.angles.omega is sent.omega
    assert not list(unnamed_frequencies(RIGHT, expected_tables, estimate(rows=3, llama3=True)))
    assert not list(unnamed_frequencies(RIGHT, expected_tables, backwards))


def test_frequencies_that_are_measured_as_expected_need_no_mistake() -> None:
    expected_tables = Target.of(*Engine(32).tables(64))
    twice = RIGHT.with_angles("times", Mistake("rotated-twice"), times=2)
    half = replace(estimate(), omega=estimate().omega / 2)

    for application, measured in ((RIGHT, estimate()), (twice, half)):
        for mistakes in (frequency_mistakes, unnamed_frequencies):
            assert not list(mistakes(application, expected_tables, measured))


def test_measured_frequencies_are_no_mistake_of_a_repeated_rotation() -> None:
    twice = RIGHT.with_angles("times", Mistake("rotated-twice"), times=2)

    assert not list(
        unnamed_frequencies(twice, Target.of(*Engine(32).tables(64)), estimate(llama3=True))
    )


def test_factor_that_restores_the_expected_size_is_no_mistake() -> None:
    engine = Engine(32, factor=1.25)
    x = np.random.default_rng(0).standard_normal((1, 9, 32))
    evidence = Evidence(x, engine.rotate(x), Target.of(*engine.tables(9)), 2.0**-24)
    gauge = RotationMeasurement(evidence, slice(0, 1), np.arange(9))
    without = next(
        each for each in size_mistakes(RIGHT, 1.25) if each.mistakes[0].name == "missing-factor"
    )

    tried = [name for name, _ in named(gauge.mistakes(without))]

    assert "extra-factor" not in tried


@pytest.mark.parametrize(
    "measure", [RotationMeasurement.mistakes, RotationMeasurement.unnamed_mistakes]
)
def test_all_zero_arrays_yield_no_mistakes_and_each_wiring_is_measured_once(
    measure: Callable[[RotationMeasurement, Application], Iterable[Application]],
) -> None:
    zeros = np.zeros((1, 9, 32))
    evidence = Evidence(zeros, zeros, Target.of(*Engine(32).tables(9)), 2.0**-24)
    gauge = RotationMeasurement(evidence, slice(0, 1), np.arange(9))

    assert not list(measure(gauge, RIGHT))
    assert gauge.measured(RIGHT.wiring) is gauge.measured(RIGHT.wiring)
