"""YaRN among frequencies."""

from service.analysis.rotary.rules_yarn import yarn_rules
from tests.analysis.rotary_tables import measured, named

_YARN = "/rope/frequencies?head_dim=128&rope_type=yarn&original_max_position_embeddings="
_ATTENTION_OF_16 = 1.2772588722239781


def test_factor_and_length_are_found() -> None:
    found = named(yarn_rules(measured(f"{_YARN}4096&factor=16", scale=None), 10000.0))

    assert found[0] == {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 16.0,
        "original_max_position_embeddings": 4096,
    }


def test_an_attention_factor_of_its_own_is_left_out() -> None:
    found = named(yarn_rules(measured(f"{_YARN}4096&factor=16", scale=_ATTENTION_OF_16), 10000.0))

    assert found
    assert "attention_factor" not in found[0]


def test_another_attention_factor_is_said() -> None:
    found = named(yarn_rules(measured(f"{_YARN}4096&factor=16", scale=1.5), 10000.0))

    assert found[0]["attention_factor"] == 1.5


def test_the_published_attention_factors_are_said_by_their_mscales() -> None:
    scale = (0.1 * 0.707 * 3.6888794541139363 + 1) / (0.1 * 3.6888794541139363 + 1)

    found = named(yarn_rules(measured(f"{_YARN}4096&factor=40", scale=scale), 10000.0))

    assert (found[0]["mscale"], found[0]["mscale_all_dim"]) == (0.707, 1.0)


def test_a_range_that_is_not_rounded_is_found() -> None:
    url = f"{_YARN}4096&factor=32&rope_theta=150000&truncate=false"

    found = named(yarn_rules(measured(url, scale=None), 150000.0))

    assert any(
        not each.get("truncate", True) and each["original_max_position_embeddings"] == 4096
        for each in found
    )


def test_other_betas_are_found_where_the_usual_ones_do_not_hold() -> None:
    found = named(yarn_rules(measured(f"{_YARN}4096&factor=8&beta_fast=8", scale=None), 10000.0))

    assert "beta_fast" in found[0]


def test_frequencies_of_one_series_are_no_yarn() -> None:
    assert not named(yarn_rules(measured("/rope/frequencies?head_dim=64", scale=None), 10000.0))
