"""From frequencies to rules."""

import numpy as np
import pytest

from service.analysis.rotary.rules import find_rules
from service.analysis.rotary.rules_measured import Measured
from tests.analysis.rotary_tables import measured, named


def test_a_series_comes_before_a_list_of_factors() -> None:
    found = named(find_rules(measured("/rope/frequencies?head_dim=64")))

    assert found[0] == {"rope_theta": 10000.0}
    assert not any("freq_factors" in each for each in found)


@pytest.mark.parametrize("arithmetic", [np.float16, np.float32])
def test_frequencies_rounded_to_a_narrow_type_keep_their_base(arithmetic: type) -> None:
    exact = 10000.0 ** (-np.arange(16) / 16)
    omega = exact.astype(arithmetic).astype(np.float64)

    found = named(find_rules(Measured(omega, np.full(16, 1e-12), 1.0, 1e-9)))

    assert {"rope_theta": 10000.0} in found


def test_noise_follows_no_rule_but_itself() -> None:
    omega = np.random.default_rng(1).uniform(0.001, 1, 16)

    found = named(find_rules(Measured(omega, omega * 1e-7, 1.0, 1e-7)))

    assert {name for each in found for name in each} <= {"rope_theta", "freq_factors", "inv_freq"}
