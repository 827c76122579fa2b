"""Rules with one series, with a list of factors, and given frequencies."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from service.analysis.families.series_rules import (
    MeasuredFrequencies,
    RuleMatch,
    given_rule,
    listed_rules,
    odd_digits,
    series_rules,
    unscaled,
)
from service.encodings.rotary.rules import Default, Linear
from tests.analysis.measured_rules import measured, named

URL = "/rope/frequencies?head_dim=64"


def test_frequencies_agree_with_their_own_rule_alone() -> None:
    of_10000 = measured(URL)

    assert of_10000.agrees(Default(64, 10000.0))
    assert not of_10000.agrees(Default(64, 10001.0))
    assert not of_10000.agrees(Linear(64, 10000.0, 2.0))


def test_a_rule_must_have_the_measured_scale() -> None:
    omega = unscaled(10000.0, 4)

    scaled = MeasuredFrequencies(omega, omega * 1e-7, 1.25, 1e-7)

    assert scaled.is_scaled
    assert not scaled.agrees(Default(8, 10000.0))


@pytest.mark.parametrize(
    ("rules", "query", "error", "expected"),
    [
        (series_rules, "rope_theta=1000042", 1e-9, {"rope_theta": 1000042.0}),
        (
            series_rules,
            "rope_type=linear&factor=2.5&rope_theta=1e6",
            1e-7,
            {"rope_type": "linear", "rope_theta": 1e6, "factor": 2.5},
        ),
        (
            series_rules,
            "rope_type=ntk&factor=8",
            1e-7,
            {"rope_type": "ntk", "rope_theta": 1e4, "factor": 8.0},
        ),
        (
            series_rules,
            "rope_type=proportional&partial_rotary_factor=0.25&factor=8",
            1e-7,
            {
                "rope_type": "proportional",
                "rope_theta": 1e4,
                "factor": 8.0,
                "partial_rotary_factor": 0.25,
            },
        ),
        (
            listed_rules,
            "rope_type=ntk&factor=8&mixed_b=0.625",
            1e-7,
            {"rope_type": "ntk", "rope_theta": 10000.0, "factor": 8.0, "mixed_b": 0.625},
        ),
    ],
)
def test_the_simplest_rule_comes_first(
    rules: Callable[[MeasuredFrequencies], Iterator[RuleMatch]],
    query: str,
    error: float,
    expected: dict[str, object],
) -> None:
    assert named(rules(measured(f"{URL}&{query}", error)))[0] == expected


def test_a_scaled_base_is_a_usual_one_with_an_alpha() -> None:
    found = named(series_rules(measured(f"{URL}&rope_type=dynamic&alpha=1000")))

    assert {"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0} in found


def test_yarn_frequencies_have_no_series_rule() -> None:
    yarn = "rope_type=yarn&factor=16&original_max_position_embeddings=4096"

    assert not named(series_rules(measured(f"{URL}&{yarn}")))


@pytest.mark.parametrize(("number", "count"), [(10000.0, 1), (8192.0, 1), (2.5, 2), (0.707, 3)])
def test_digits_are_counted(number: float, count: int) -> None:
    assert odd_digits(number) == count


FACTORS = (1, 1.05, 1.21, 1.3, 1.9, 2.5, 4.75, 8)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (1.0, {"freq_factors": FACTORS}),
        (
            float(np.sqrt(1 + np.log(32) / np.log(4096))),
            {
                "rope_type": "longrope",
                "short_factor": FACTORS,
                "long_factor": FACTORS,
                "original_max_position_embeddings": 4096,
                "factor": 32.0,
            },
        ),
    ],
    ids=["freq_factors", "longrope"],
)
def test_a_list_of_factors_has_few_decimals(scale: float, expected: dict[str, object]) -> None:
    factors = ",".join(map(str, FACTORS))
    url = f"/rope/frequencies?head_dim=16&freq_factors={factors}"

    assert {"rope_theta": 10000.0, **expected} in named(listed_rules(measured(url, scale=scale)))


def test_frequencies_of_no_rule_become_inv_freq() -> None:
    omega = np.array([1.0, 0.31, 0.0701, 0.00003])

    (found,) = named(given_rule(MeasuredFrequencies(omega, omega * 1e-7)))

    assert found == {"inv_freq": (1.0, 0.31, 0.0701, 0.00003)}


def test_negative_frequencies_have_no_rule() -> None:
    omega = np.array([1.0, -0.5])

    assert not named(given_rule(MeasuredFrequencies(omega, np.full(2, 1e-7))))
