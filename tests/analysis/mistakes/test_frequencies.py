"""Mistakes of frequencies, from measured ones."""

import numpy as np
import pytest

from service.analysis.mistakes.frequencies import frequency_mistakes
from service.analysis.mistakes.waves import Waves, waves_of
from service.tables.angle import Float64s
from tests.analysis.mistaken import Made

PLACES = np.arange(8)


def wanted() -> Waves:
    waves = waves_of(Made(30, 16, "concat").table()["table"], is_pair=False, positions=None)
    assert waves is not None
    return waves


def explained(omega: Float64s) -> list[tuple[list[str], dict[str, object]]]:
    error = np.full(8, 1e-9)
    return [
        ([mistake.name for mistake in mistakes], dict(mistakes[0].values) if mistakes else {})
        for mistakes, speeds in frequency_mistakes(wanted(), omega, error)
        if np.abs(speeds - omega).max() < 1e-12
    ]


def powers(base: float, channels: int = 16) -> Float64s:
    return np.asarray(base ** (-2 * PLACES / channels))


@pytest.mark.parametrize(
    ("omega", "names"),
    [
        (powers(10000), []),
        (-powers(10000), ["sine-sign"]),
        (2 * powers(10000), ["rotated-twice"]),
        (0 * powers(10000), ["not-rotated"]),
        (powers(500000), ["wrong-base"]),
        (powers(10000) / 8, ["linear-factor"]),
        (2 * powers(500000), ["wrong-base", "rotated-twice"]),
        (powers(500000) / 8, ["wrong-base", "linear-factor"]),
        (-powers(500000), ["sine-sign", "wrong-base"]),
        (np.where(PLACES < 4, powers(10000), 0), ["partial-width"]),
        (np.where(PLACES < 4, powers(10000, 8), 0), ["partial-width"]),
        (np.where(PLACES < 4, powers(10000) / 4, 0), ["partial-width", "linear-factor"]),
        (np.where(PLACES < 4, powers(500000, 8), 0), ["partial-width", "wrong-base"]),
    ],
    ids=str,
)
def test_frequencies_are_explained(omega: Float64s, names: list[str]) -> None:
    assert names in [found for found, _ in explained(omega)]


def test_both_bases_and_both_widths_are_given() -> None:
    assert explained(powers(500000))[0][1] == {"have": 500000, "want": 10000}
    narrow = explained(np.where(PLACES < 4, powers(10000, 8), 0))

    assert narrow[0][1] == {"have": 8, "want": 16}


def test_the_same_base_over_another_width_is_one() -> None:
    assert (["partial-width"], {"have": 20, "want": 16}) in explained(powers(10000, 20))


def test_other_frequencies_have_no_explanation() -> None:
    assert explained(np.array([1, 0.9, 0.5, 0.2, 0.19, 0.1, 0.01, 0.001])) == []
