"""Mistakes of applied rotations: which ones are tried, and the values that are measured."""

from collections.abc import Callable, Iterable
from itertools import product
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
HALF = Application(Wiring(16, 16))
RIGHT = Application(Wiring(32, 32))

Named = tuple[str, dict[str, Any]]


def named(applications: Iterable[Application]) -> list[Named]:
    return [(one.mistakes[-1].name, dict(one.mistakes[-1].values)) for one in applications]


def normal(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


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


def widths(expected: Engine, sent: Engine) -> list[Application]:
    x = normal((2, 20, 16))
    evidence = Evidence(x, sent.rotate(x), Target.of(*expected.tables(20)), 2.0**-53)
    return list(width_mistakes(Application(Wiring(16, expected.width)), evidence))


def test_widths_contain_all_changed_channels() -> None:
    zeroed = widths(Engine(8), Engine(8, is_rest_zero=True))

    assert widths(Engine(16), Engine(16)) == []
    assert {one.wiring.width for one in widths(Engine(8), Engine(16))} == {16}
    assert {(one.wiring.width, one.wiring.is_rest_zero) for one in zeroed} >= {(16, False)}
    assert (8, False) not in {(one.wiring.width, one.wiring.is_rest_zero) for one in zeroed}


def test_frequencies_of_another_width_are_its_own_or_the_first_expected_ones() -> None:
    (wide,) = widths(Engine(8), Engine(16))
    first, own = (
        one
        for one in widths(Engine(16), Engine(8))
        if (one.wiring.offset, one.wiring.width) == (0, 8)
    )

    for application, expected in (
        (wide, Engine(16).frequencies()),
        (first, Engine(16).frequencies()[:4]),
        (own, Engine(8).frequencies()),
    ):
        assert application.angles.omega is not None
        np.testing.assert_allclose(application.angles.omega, expected, rtol=1e-12)


def test_another_offset_is_tried_where_its_channels_changed() -> None:
    (moved,) = [one for one in widths(Engine(8), Engine(8, offset=8)) if one.wiring.width == 8]

    assert moved.wiring.offset == 8
    assert moved.mistakes[0].values == {"have": 8, "want": 0}


def long_evidence(**changes: Any) -> Evidence:
    x = normal((1, 60, 16))
    rotated = Engine(16, **changes).rotate(x)
    return Evidence(x, rotated, Target.of(*Engine(16).tables(60)), 2.0**-53)


@pytest.mark.parametrize("beyond", ["unrotated", "zero", "clamped", "wrapped"])
def test_length_is_the_first_row_that_is_not_explained(beyond: str) -> None:
    evidence = long_evidence(beyond=(37, beyond))
    tried = list(length_mistakes(HALF, evidence))

    explained = [
        (evidence.explained_shares(one, slice(None), np.arange(60)) == 1).all() for one in tried
    ]

    assert [one.mistakes[0].values["have"] for one in tried] == [37] * 4
    assert sum(explained) == 1


@pytest.mark.parametrize("changes", [{}, {"layout": "interleaved"}], ids=str)
def test_no_length_is_tried_where_all_rows_or_none_are_explained(changes: dict[str, Any]) -> None:
    assert not list(length_mistakes(HALF, long_evidence(**changes)))


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


def test_narrow_frequencies_and_tables_are_tried_in_both_half_types() -> None:
    tried = {(name, values["dtype"]) for name, values in named(narrow_mistakes(HALF, target(10)))}

    assert tried == set(product(["narrow-frequencies", "narrow-tables"], ["bfloat16", "float16"]))


def estimate(rows: int = 64, **changes: Any) -> FrequencyEstimate:
    omega = Engine(32, **changes).frequencies()
    return FrequencyEstimate(omega, 1e-9 + 1e-7 * omega, rows)


@pytest.mark.parametrize(
    ("expected", "sent", "mistake"),
    [
        ({}, {"base": 500000.0}, ("wrong-base", {"have": 500000.0, "want": 10000.0})),
        ({}, {"linear": 4.0}, ("linear-factor", {"ratio": 0.25})),
        ({}, {"linear": 3.0}, ("linear-factor", {"ratio": 1 / 3})),
        ({"linear": 3.0}, {}, ("linear-factor", {"ratio": 3.0})),
        ({"llama3": True}, {"base": 20000.0}, ("config-key-ignored", {"have": 20000.0})),
    ],
    ids=str,
)
def test_measured_frequencies_are_named(
    expected: dict[str, Any], sent: dict[str, Any], mistake: Named
) -> None:
    expected_tables = Target.of(*Engine(32, **expected).tables(64))

    assert mistake in named(frequency_mistakes(RIGHT, expected_tables, estimate(**sent)))
    assert not list(frequency_mistakes(RIGHT, expected_tables, estimate(**expected)))


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


def gauge(**changes: Any) -> Gauge:
    expected = Engine(32, factor=1.1)
    x = normal((1, 48, 32)).astype(np.float32)
    y = expected.with_changes(**changes).rotate(x)
    evidence = Evidence(x.astype(float), y.astype(float), Target.of(*expected.tables(48)), 2.0**-24)
    return Gauge(evidence, slice(0, 4), np.arange(48))


BASE = ("wrong-base", {"have": 777.0, "want": 10000.0})
TWICE = RotationAngles(times=2)


@pytest.mark.parametrize(
    ("angles", "changes", "expected"),
    [
        (RotationAngles(), {"factor": 0.55}, ("wrong-factor", {"factor": 0.5})),
        (RotationAngles(), {"base": 777.0, "beyond": (20, "clamped")}, BASE),
        (RotationAngles(is_inverse=True), {"angle_factor": -1.0, "base": 777.0}, BASE),
        (TWICE, {"angle_factor": 2.0, "base": 777.0}, BASE),
        (
            RotationAngles(times=2),
            {"angle_factor": 2.0, "start": 3},
            ("position-offset", {"rows": 3}),
        ),
    ],
)
def test_gauge_measures_a_mistake_beside_another(
    angles: RotationAngles, changes: dict[str, Any], expected: Named
) -> None:
    assert expected in named(gauge(**changes).mistakes(Application(RIGHT.wiring, angles)))


def test_gauge_measures_no_factor_and_no_frequencies_of_a_right_rotation() -> None:
    assert {name for name, _ in named(gauge().mistakes(RIGHT))} <= {"positions-stuck"}


@pytest.mark.parametrize("start", [0, 100])
def test_rows_are_stuck_at_a_measured_position(start: int) -> None:
    measuring = gauge(start=start, positions="stuck")

    (stuck,) = [
        one for one in measuring.mistakes(RIGHT) if one.mistakes[0].name == "positions-stuck"
    ]

    positions = stuck.angles.positions(measuring.evidence.target, np.arange(10))
    np.testing.assert_array_equal(positions, start + 5.0)
    assert stuck.mistakes[0].values == {"position": start + 5.0}


def test_gauge_measures_each_wiring_once() -> None:
    measuring = gauge()

    assert measuring.measured(Wiring(32, 32)) is measuring.measured(Wiring(32, 32))


@pytest.mark.parametrize("measure", [Gauge.mistakes, Gauge.unnamed_mistakes])
def test_gauge_finds_nothing_in_zeros(
    measure: Callable[[Gauge, Application], Iterable[Application]],
) -> None:
    zeros = np.zeros((1, 9, 32))
    evidence = Evidence(zeros, zeros, Target.of(*Engine(32).tables(9)), 2.0**-24)

    assert not list(measure(Gauge(evidence, slice(0, 1), np.arange(9)), RIGHT))
