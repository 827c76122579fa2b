"""Rules that keep fast frequencies and divide slow ones."""

import pytest

from service.analysis.rotary.rules_blended import blended_rules
from tests.analysis.rotary_tables import asked, measured, named, proposed

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

    first = proposed(asked(url))[0].call.parameters

    assert first["original_max_position_embeddings"] == 8192
