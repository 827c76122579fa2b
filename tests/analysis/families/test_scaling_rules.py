"""YaRN, Llama 3, and the order in which rules are tried."""

import numpy as np
import pytest

from service.analysis.families.scaling_rules import (
    between,
    blended_rules,
    factors_of,
    find_rules,
    kept_bases,
    last_ratio,
    yarn_rules,
)
from service.analysis.families.series_rules import MeasuredFrequencies, unscaled
from tests.analysis.measured_rules import measured, named
from tests.analysis.samples import ROTARY_FAMILIES, input_of, proposed


def test_a_series_comes_before_a_list_of_factors() -> None:
    found = named(find_rules(measured("/rope/frequencies?head_dim=64")))

    assert found[0] == {"rope_theta": 10000.0}
    assert not any("freq_factors" in each for each in found)


@pytest.mark.parametrize("arithmetic", [np.float16, np.float32])
def test_frequencies_rounded_to_a_narrow_type_keep_their_base(arithmetic: type) -> None:
    exact = 10000.0 ** (-np.arange(16) / 16)
    omega = exact.astype(arithmetic).astype(np.float64)

    found = named(find_rules(MeasuredFrequencies(omega, np.full(16, 1e-12), 1.0, 1e-9)))

    assert {"rope_theta": 10000.0} in found


def test_noise_matches_only_lists_of_numbers() -> None:
    omega = np.random.default_rng(1).uniform(0.001, 1, 16)

    found = named(find_rules(MeasuredFrequencies(omega, omega * 1e-7, 1.0, 1e-7)))

    assert {name for each in found for name in each} <= {"rope_theta", "freq_factors", "inv_freq"}


_LLAMA3 = "/rope/frequencies?head_dim=128&rope_type=llama3&rope_theta=500000&low_freq_factor=1"


@pytest.mark.parametrize(("factor", "length"), [(8.0, 8192), (32.0, 8192), (4.0, 2048)])
def test_llama3_is_found_with_its_factor_and_length(factor: float, length: int) -> None:
    url = f"{_LLAMA3}&high_freq_factor=4&factor={factor}&original_max_position_embeddings={length}"

    found = named(blended_rules(measured(url)))

    assert {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": length,
    } in found


def test_another_high_freq_factor_is_found() -> None:
    url = f"{_LLAMA3}&high_freq_factor=8&factor=8&original_max_position_embeddings=8192"

    found = named(blended_rules(measured(url, 1e-9)))

    wanted = [each for each in found if each.get("high_freq_factor") == 8.0]
    assert wanted[0]["original_max_position_embeddings"] == 8192


def test_yarn_is_found_with_the_base_of_its_fast_frequencies() -> None:
    url = (
        "/rope/frequencies?head_dim=64&rope_type=yarn&factor=4&rope_theta=1e6"
        "&original_max_position_embeddings=32768"
    )

    found = named(blended_rules(measured(url, scale=None)))

    assert (found[0]["rope_type"], found[0]["rope_theta"]) == ("yarn", 1e6)


def test_one_frequency_is_no_blend() -> None:
    assert not named(blended_rules(measured("/rope/frequencies?head_dim=2")))


def test_a_length_is_a_power_of_two_where_the_frequencies_leave_room() -> None:
    url = "/rope?head_dim=64&rope_type=llama3&rope_theta=500000&factor=8&low_freq_factor=1"
    url += "&high_freq_factor=4&original_max_position_embeddings=8192&dtype=float16&seq_len=64"

    first = proposed(input_of(url), ROTARY_FAMILIES)[0].request.parameters

    assert first["original_max_position_embeddings"] == 8192


_YARN = "/rope/frequencies?head_dim=128&rope_type=yarn&original_max_position_embeddings="
_ATTENTION_OF_16 = 1.2772588722239781


@pytest.mark.parametrize(
    ("factor", "scale", "attention"),
    [
        (16.0, None, {}),
        (16.0, _ATTENTION_OF_16, {}),
        (16.0, 1.5, {"attention_factor": 1.5}),
        (
            40.0,
            (0.1 * 0.707 * 3.6888794541139363 + 1) / (0.1 * 3.6888794541139363 + 1),
            {"mscale": 0.707, "mscale_all_dim": 1.0},
        ),
    ],
    ids=("unknown", "own", "another", "published mscales"),
)
def test_yarn_gives_factor_length_and_attention(
    factor: float, scale: float | None, attention: dict[str, float]
) -> None:
    found = named(yarn_rules(measured(f"{_YARN}4096&factor={factor}", scale=scale), 10000.0))

    assert found[0] == {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": factor,
        "original_max_position_embeddings": 4096,
        **attention,
    }


def test_a_range_that_is_not_rounded_is_found() -> None:
    url = f"{_YARN}4096&factor=32&rope_theta=150000&truncate=false"

    found = named(yarn_rules(measured(url, scale=None), 150000.0))

    assert any(
        not each.get("truncate", True) and each["original_max_position_embeddings"] == 4096
        for each in found
    )


def test_another_beta_fast_is_found() -> None:
    found = named(yarn_rules(measured(f"{_YARN}4096&factor=8&beta_fast=8", scale=None), 10000.0))

    assert "beta_fast" in found[0]


def test_frequencies_of_one_series_are_no_yarn() -> None:
    assert not named(yarn_rules(measured("/rope/frequencies?head_dim=64", scale=None), 10000.0))


def test_unscaled_fast_frequencies_give_the_base() -> None:
    omega = unscaled(500000.0, 64)
    omega[40:] /= 8

    assert kept_bases(MeasuredFrequencies(omega, omega * 1e-7))[0] == 500000.0


def test_slow_frequencies_give_the_factor() -> None:
    share = np.array([1.0, 0.9, 0.5, 0.125, 0.125, 0.125])

    assert next(factors_of(share, np.full(6, 1e-6))) == 8.0
    assert last_ratio(share, np.full(6, 1e-6)) == pytest.approx((0.125, 1e-6))


def test_frequencies_within_their_error_give_no_factor() -> None:
    assert last_ratio(np.ones(3), np.ones(3)) is None
    assert not list(factors_of(np.ones(3), np.ones(3)))


def test_between_two_numbers_a_power_of_two_comes_first() -> None:
    assert between(3900.0, 4300.0)[0] == 4096.0
    assert between(9000.0, 11000.0)[0] == 10000.0


def test_a_nearly_level_ramp_has_no_yarn_rule() -> None:
    base, share = 1e40, np.array([1, 0.75, 0.7475, 0.745, 0.5])
    omega = share * unscaled(base, 5)

    assert not named(yarn_rules(MeasuredFrequencies(omega, 5e-4 * unscaled(base, 5)), base))
