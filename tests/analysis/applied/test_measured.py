"""Numbers that must be measured: factors, bases, shifts."""

from typing import Any

import numpy as np
import pytest

from service.analysis.applied.evidence import Application, Evidence
from service.analysis.applied.measured import Gauge
from service.analysis.applied.spin import Spin, Target
from service.analysis.applied.wiring import Wiring
from tests.analysis.rotating import Engine

RIGHT = Application(Wiring(32, 32))


def gauge(rows: int = 48, heads: int = 1, **changes: Any) -> Gauge:
    want = Engine(32, factor=1.1)
    x = np.random.default_rng(0).standard_normal((heads, rows, 32)).astype(np.float32)
    y = want.having(**changes).rotate(x)
    target = Target.of(*want.tables(rows))
    evidence = Evidence(x.astype(float), y.astype(float), target, 2.0**-24)
    return Gauge(evidence, slice(0, 4), np.arange(rows))


def said(measuring: Gauge, start: Application = RIGHT) -> list[tuple[str, dict[str, Any]]]:
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
    backwards = Application(RIGHT.wiring, Spin(is_inverse=True))
    twice = Application(RIGHT.wiring, Spin(times=2))

    base = {"have": 777.0, "want": 10000.0}
    assert ("wrong-base", base) in said(gauge(turns=-1.0, base=777.0), backwards)
    assert ("wrong-base", base) in said(gauge(turns=2.0, base=777.0), twice)
    assert ("position-offset", {"rows": 3}) in said(gauge(turns=2.0, start=3), twice)


def test_a_base_is_measured_on_rows_before_another_mistake_begins() -> None:
    cut = said(gauge(base=777.0, beyond=(20, "clamped")))

    assert ("wrong-base", {"have": 777.0, "want": 10000.0}) in cut


def test_a_wiring_is_measured_once() -> None:
    measuring = gauge()

    assert measuring.turned(Wiring(32, 32)) is measuring.turned(Wiring(32, 32))


def test_frequencies_without_a_name_are_measured() -> None:
    (other, *_) = gauge(llama3=True).others(RIGHT)

    expected = Engine(32, llama3=True).frequencies()
    assert other.spin.omega is not None
    np.testing.assert_allclose(other.spin.omega, expected, atol=1e-7)


def test_zeros_measure_nothing() -> None:
    target = Target.of(*Engine(32).tables(9))
    nothing = Evidence(np.zeros((1, 9, 32)), np.zeros((1, 9, 32)), target, 2.0**-24)
    measuring = Gauge(nothing, slice(0, 1), np.arange(9))

    assert said(measuring) == []
    assert not list(measuring.others(RIGHT))
