"""Waves that somebody made in place of others."""

import numpy as np
import pytest

from service.analysis.mistakes.sides import Side
from service.analysis.mistakes.turns import NARROWINGS, Narrowing, Turned, holding, reach, rounded
from service.analysis.mistakes.waves import waves_of
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from tests.analysis.mistaken import FORMS, Made, had


@pytest.mark.parametrize("form", FORMS)
def test_what_was_done_is_computed_in_the_form_that_is_wanted(form: str) -> None:
    right = Made(300, 16, form)
    side = Side.of(had(right, FLOAT64))
    waves = waves_of(side.table(), is_pair=len(side.names) == 2, positions=None)
    assert waves is not None
    made = Made(300, 16, form, start=2, sine=-1.0, factor=3.0, position_dtype=BFLOAT16)
    turned = Turned((), -waves.omega, -waves.omega, 2.0, Narrowing(BFLOAT16, positions=True), 3.0)

    table, reaches = turned.table(waves, np.arange(300))

    assert np.abs(table - Side.of(had(made, FLOAT64)).table()).max() < 1e-12
    assert reaches.max() == 300


def test_narrow_types_hold_whole_numbers_up_to_a_power_of_two() -> None:
    for dtype, exact in ((BFLOAT16, 256), (FLOAT16, 2048)):
        assert rounded(np.array([exact - 1.0, exact, exact + 1]), dtype).tolist() == [
            exact - 1,
            exact,
            exact,
        ]
    assert np.isfinite(rounded(np.array([1e9]), FLOAT16)).all()


def test_each_narrowing_has_its_names() -> None:
    names = [tuple(mistake.name for mistake in each.mistakes) for each in NARROWINGS]

    assert set(names) == {
        ("narrow-positions",),
        ("narrow-frequencies",),
        ("narrow-positions", "narrow-frequencies"),
        ("narrow-angles",),
    }


def test_slow_frequencies_may_be_off_by_more_of_themselves() -> None:
    angles, omega = np.array([[2.0, -2.0, 0.0]]), np.array([1.0, np.exp(-6.0), 0.0])

    assert reach(angles, omega).tolist() == [[2, 8, 0]]


def test_the_type_that_numbers_were_computed_in_shows_in_a_wider_one() -> None:
    values = np.sin(np.arange(100.0))

    assert holding(values, FLOAT64) is FLOAT64
    for dtype in (FLOAT32, FLOAT16, BFLOAT16):
        assert holding(rounded(values, dtype), FLOAT64) is dtype
    assert holding(rounded(values, BFLOAT16), FLOAT16) is BFLOAT16
