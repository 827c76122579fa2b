"""Rules whose frequencies are one series."""

import pytest

from service.analysis.rotary.rules_even import digits, even_rules
from tests.analysis.rotary_tables import measured, named


@pytest.mark.parametrize("base", [10000.0, 500000.0, 1000042.0])
def test_a_base_is_found(base: float) -> None:
    found = named(even_rules(measured(f"/rope/frequencies?head_dim=64&rope_theta={base}", 1e-9)))

    assert found[0] == {"rope_theta": base}


def test_a_factor_is_found_where_all_frequencies_are_divided() -> None:
    url = "/rope/frequencies?head_dim=64&rope_type=linear&factor=2.5&rope_theta=1e6"

    found = named(even_rules(measured(url)))

    assert found[0] == {"rope_type": "linear", "rope_theta": 1e6, "factor": 2.5}


def test_a_stretched_base_is_a_usual_one_with_an_alpha() -> None:
    url = "/rope/frequencies?head_dim=128&rope_type=dynamic&alpha=1000"

    found = named(even_rules(measured(url)))

    assert {"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0} in found


def test_ntk_is_found_before_the_odd_factor_that_says_the_same() -> None:
    url = "/rope/frequencies?head_dim=64&rope_type=ntk&factor=8"

    found = named(even_rules(measured(url)))

    assert found[0] == {"rope_type": "ntk", "rope_theta": 10000.0, "factor": 8.0}


def test_frequencies_that_end_in_zeros_turn_a_share_of_a_head() -> None:
    url = "/rope/frequencies?head_dim=64&rope_type=proportional&partial_rotary_factor=0.25&factor=8"

    found = named(even_rules(measured(url)))

    expected = {"rope_type": "proportional", "rope_theta": 10000.0, "factor": 8.0}
    assert found[0] == {**expected, "partial_rotary_factor": 0.25}


def test_a_bent_series_has_no_even_rule() -> None:
    url = (
        "/rope/frequencies?head_dim=64&rope_type=yarn&factor=16"
        "&original_max_position_embeddings=4096"
    )

    assert not named(even_rules(measured(url)))


@pytest.mark.parametrize(("number", "count"), [(10000.0, 1), (8192.0, 1), (2.5, 2), (0.707, 3)])
def test_digits_are_counted(number: float, count: int) -> None:
    assert digits(number) == count
