"""YaRN, Llama 3, and the order in which rules are tried."""

from typing import Any

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
    omega = unscaled(10000.0, 16).astype(arithmetic).astype(np.float64)

    found = named(find_rules(MeasuredFrequencies(omega, np.full(16, 1e-12), 1.0, 1e-9)))

    assert {"rope_theta": 10000.0} in found


def test_noise_matches_only_lists_of_numbers() -> None:
    omega = np.random.default_rng(1).uniform(0.001, 1, 16)

    found = named(find_rules(MeasuredFrequencies(omega, omega * 1e-7, 1.0, 1e-7)))

    assert {name for each in found for name in each} <= {"rope_theta", "freq_factors", "inv_freq"}


LLAMA3 = "/rope/frequencies?head_dim=128&rope_type=llama3&rope_theta=500000&low_freq_factor=1"


@pytest.mark.parametrize(
    ("factor", "high", "length"),
    [(8.0, 4.0, 8192), (32.0, 4.0, 8192), (4.0, 4.0, 2048), (8.0, 8.0, 8192)],
)
def test_llama3_is_found_with_its_parameters(factor: float, high: float, length: int) -> None:
    lengths = f"&factor={factor}&original_max_position_embeddings={length}"

    found = named(blended_rules(measured(f"{LLAMA3}&high_freq_factor={high}{lengths}", 1e-9)))

    assert {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": high,
        "original_max_position_embeddings": length,
    } in found


def test_a_length_is_a_power_of_two_where_the_frequencies_allow_several() -> None:
    url = "/rope?head_dim=64&rope_type=llama3&rope_theta=500000&factor=8&low_freq_factor=1"
    url += "&high_freq_factor=4&original_max_position_embeddings=8192&dtype=float16&seq_len=64"

    first = proposed(input_of(url), ROTARY_FAMILIES)[0].request.parameters

    assert first["original_max_position_embeddings"] == 8192


def test_one_frequency_has_no_blended_rule() -> None:
    assert not named(blended_rules(measured("/rope/frequencies?head_dim=2")))


YARN = "/rope/frequencies?head_dim=128&rope_type=yarn&original_max_position_embeddings=4096"
ATTENTION_OF_16 = 1.2772588722239781
ATTENTION_OF_MSCALES = (0.1 * 0.707 * 3.6888794541139363 + 1) / (0.1 * 3.6888794541139363 + 1)


@pytest.mark.parametrize(
    ("factor", "scale", "attention"),
    [
        (16.0, None, {}),
        (16.0, ATTENTION_OF_16, {}),
        (16.0, 1.5, {"attention_factor": 1.5}),
        (40.0, ATTENTION_OF_MSCALES, {"mscale": 0.707, "mscale_all_dim": 1.0}),
    ],
    ids=("unknown", "by the formula", "another", "published mscales"),
)
def test_yarn_gives_factor_length_and_attention(
    factor: float, scale: float | None, attention: dict[str, float]
) -> None:
    found = named(yarn_rules(measured(f"{YARN}&factor={factor}", scale=scale), 10000.0))

    assert found[0] == {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": factor,
        "original_max_position_embeddings": 4096,
        **attention,
    }


@pytest.mark.parametrize(
    ("query", "base", "expected"),
    [
        ("factor=4&rope_theta=1e6", 1e6, {"rope_theta": 1e6, "factor": 4.0}),
        ("factor=32&rope_theta=150000&truncate=false", 150000.0, {"truncate": False}),
        ("factor=8&beta_fast=8", 10000.0, {"beta_fast": 8.0}),
    ],
)
def test_yarn_is_found_with_its_parameters(
    query: str, base: float, expected: dict[str, Any]
) -> None:
    frequencies = measured(f"{YARN}&{query}", scale=None)
    found = named(yarn_rules(frequencies, base))

    assert kept_bases(frequencies)[0] == base
    assert any(expected.items() <= each.items() for each in found)


def test_frequencies_of_one_series_have_no_yarn_rule() -> None:
    assert not named(yarn_rules(measured("/rope/frequencies?head_dim=64", scale=None), 10000.0))


def test_a_nearly_level_ramp_has_no_yarn_rule() -> None:
    base, ratio = 1e40, np.array([1, 0.75, 0.7475, 0.745, 0.5])
    omega = ratio * unscaled(base, 5)

    assert not named(yarn_rules(MeasuredFrequencies(omega, 5e-4 * unscaled(base, 5)), base))


def test_slow_frequencies_give_the_factor() -> None:
    ratio = np.array([1.0, 0.9, 0.5, 0.125, 0.125, 0.125])

    assert next(factors_of(ratio, np.full(6, 1e-6))) == 8.0
    assert last_ratio(ratio, np.full(6, 1e-6)) == pytest.approx((0.125, 1e-6))


def test_frequencies_within_their_error_give_no_factor() -> None:
    assert last_ratio(np.ones(3), np.ones(3)) is None
    assert not list(factors_of(np.ones(3), np.ones(3)))


def test_between_two_numbers_a_power_of_two_comes_first() -> None:
    assert between(3900.0, 4300.0)[0] == 4096.0
    assert between(9000.0, 11000.0)[0] == 10000.0
