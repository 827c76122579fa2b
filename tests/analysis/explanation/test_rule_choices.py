"""Keys of rules that partly scaled frequencies show."""

import numpy as np
import pytest

from service.analysis.explanation.formulas import ORIGINAL, Rule, Series
from service.analysis.explanation.rule_choices import _lengths_of_band, _lengths_of_ramp
from service.numerics.phase import Float64s

YARN = Rule("yarn", {"factor": 8.0, ORIGINAL: 4096})
LLAMA3 = Rule("llama3", {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0})


def series_of(base: float) -> Series:
    return Series(base, np.arange(32) / 32, 64)


def kept_of(rule: Rule, series: Series) -> Float64s:
    """Return the share of each frequency that a rule keeps, 0 to 1."""
    kept: Float64s = (rule.frequencies(series) / series.omega - 1 / 8) / (1 - 1 / 8)
    return kept


@pytest.mark.parametrize("original", [4096, 40960, 163840])
def test_original_length_is_in_the_interval_that_a_ramp_shows(original: int) -> None:
    series = series_of(500000.0)
    kept = kept_of(YARN.changed(**{ORIGINAL: original}), series)
    (inside,) = np.nonzero((kept > 1e-3) & (kept < 1 - 1e-3))

    ends = _lengths_of_ramp(YARN, series, inside, kept[inside])

    assert ends is not None
    assert ends[0] <= original <= ends[1]
    assert ends[1] < 2 * ends[0]


@pytest.mark.parametrize(
    ("base", "pairs", "kept"),
    [
        (10000.0, [5], [0.5]),
        (10000.0, [3, 9], [0.2, 0.8]),
        (10000.0, [3, 31], [0.500, 0.499]),
        (1e300, [20, 31], [0.9, 0.5]),
    ],
    ids=["one pair", "rising", "flat", "beyond any number"],
)
def test_pairs_on_no_ramp_show_no_length(base: float, pairs: list[int], kept: list[float]) -> None:
    assert _lengths_of_ramp(YARN, series_of(base), np.array(pairs), np.array(kept)) is None


def test_ramp_without_whole_ends_shows_no_length() -> None:
    rule = YARN.changed(truncate=False)

    assert _lengths_of_ramp(rule, series_of(1e4), np.array([3, 9]), np.array([0.8, 0.2])) is None


def test_pairs_of_a_band_show_a_length_only_if_they_agree() -> None:
    series = series_of(500000.0)
    kept = kept_of(LLAMA3.changed(**{ORIGINAL: 10052}), series)
    inside = (kept > 1e-3) & (kept < 1 - 1e-3)
    omega, error = series.omega[inside], np.full(inside.sum(), 1e-6)

    ends = _lengths_of_band(LLAMA3, omega, kept[inside], error)

    assert ends is not None
    assert ends[0] <= 10052 <= ends[1]
    assert _lengths_of_band(LLAMA3, 2 * omega[::-1], kept[inside], error) is None
