"""Rules with a list of factors, and frequencies outright."""

import numpy as np

from service.analysis.rotary.rules_listed import given_rule, listed_rules
from service.analysis.rotary.rules_measured import Measured
from tests.analysis.rotary_tables import measured, named

_FACTORS = "1,1.05,1.21,1.3,1.9,2.5,4.75,8"


def test_a_list_of_factors_is_found_in_its_few_decimals() -> None:
    url = f"/rope/frequencies?head_dim=16&freq_factors={_FACTORS}"

    found = named(listed_rules(measured(url)))

    wanted = tuple(map(float, _FACTORS.split(",")))
    assert {"rope_theta": 10000.0, "freq_factors": wanted} in found


def test_a_scale_tells_longrope_with_its_factor_and_length() -> None:
    url = f"/rope/frequencies?head_dim=16&freq_factors={_FACTORS}"
    scale = float(np.sqrt(1 + np.log(32) / np.log(4096)))

    (found,) = named(listed_rules(measured(url, scale=scale)))

    assert (found["factor"], found["original_max_position_embeddings"]) == (32.0, 4096)
    assert found["short_factor"] == found["long_factor"] == tuple(map(float, _FACTORS.split(",")))


def test_mixed_ntk_is_found_by_its_formula() -> None:
    url = "/rope/frequencies?head_dim=64&rope_type=ntk&factor=8&mixed_b=0.625"

    found = named(listed_rules(measured(url)))

    assert found[0] == {"rope_type": "ntk", "rope_theta": 10000.0, "factor": 8.0, "mixed_b": 0.625}


def test_frequencies_of_no_rule_are_given_outright() -> None:
    omega = np.array([1.0, 0.31, 0.0701, 0.00003])

    (found,) = named(given_rule(Measured(omega, omega * 1e-7)))

    assert found == {"inv_freq": (1.0, 0.31, 0.0701, 0.00003)}


def test_frequencies_below_zero_are_given_by_nothing() -> None:
    omega = np.array([1.0, -0.5])

    assert not named(given_rule(Measured(omega, np.full(2, 1e-7))))
