"""Original lengths, and the factor between them."""

import pytest

from service.configs.resolve import resolve
from service.errors import InvalidBody
from tests.configs.settings import codes_of, llama, origin_of, value_of

YARN = {"rope_type": "yarn", "factor": 4.0}
ORIGINAL = "original_max_position_embeddings"


def test_the_original_length_at_the_top_wins_over_that_of_a_flat_block() -> None:
    config = llama(rope_scaling={**YARN, ORIGINAL: 1024}, **{ORIGINAL: 2048})
    nested = llama(rope_parameters={"full_attention": {**YARN, ORIGINAL: 1024}}, **{ORIGINAL: 2048})

    assert value_of(config, ORIGINAL) == 2048
    assert value_of(nested, ORIGINAL, "full_attention") == 1024
    assert "original-length-in-two-places" in codes_of(config)


def test_an_original_length_of_the_config_wins_over_that_of_the_class() -> None:
    config = {
        "model_type": "phi3",
        "head_dim": 4,
        "rope_scaling": {
            "rope_type": "longrope",
            "short_factor": [1, 2],
            "long_factor": [3, 4],
            ORIGINAL: 2048,
        },
    }

    assert value_of(config, ORIGINAL) == 2048


def test_without_an_original_length_it_is_the_longest() -> None:
    config = llama(rope_scaling=YARN)

    assert value_of(config, ORIGINAL) == 8192
    assert origin_of(config, ORIGINAL) == "computed: /max_position_embeddings"


def test_without_a_factor_it_is_implied() -> None:
    config = llama(rope_scaling={"type": "yarn", "factor": None, ORIGINAL: 2048})

    assert value_of(config, "factor") == 4.0
    assert origin_of(config, "factor") == (
        "computed: /max_position_embeddings / /rope_scaling/original_max_position_embeddings"
    )


def test_the_factor_of_the_config_wins_over_the_implied_one() -> None:
    config = llama(rope_scaling={**YARN, "factor": 8.0, ORIGINAL: 2048})

    assert value_of(config, "factor") == 8.0
    assert "implicit-factor-differs" in codes_of(config)
    assert "implicit-factor-differs" not in codes_of(llama(rope_scaling={**YARN, ORIGINAL: 2048}))


def test_a_length_that_a_rule_needs_is_asked_for() -> None:
    with pytest.raises(InvalidBody, match="max_position_embeddings is required for dynamic"):
        resolve({"head_dim": 64, "rope_scaling": {"type": "dynamic", "factor": 2.0}})


def test_an_original_length_may_have_gpt_oss_s_name_or_be_the_class_s() -> None:
    config = llama(rope_scaling=YARN, initial_context_length=2048)
    lists = {"short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0]}
    phi3 = {"model_type": "phi3", "head_dim": 4, "rope_scaling": {"type": "longrope", **lists}}

    assert value_of(config, ORIGINAL) == 2048
    assert origin_of(config, ORIGINAL) == "alias /initial_context_length"
    assert value_of(phi3, ORIGINAL) == 4096


def test_without_any_length_a_rule_that_needs_one_is_a_problem() -> None:
    for scaling in (YARN, {"rope_type": "yarn", ORIGINAL: 2048}):
        with pytest.raises(InvalidBody, match="max_position_embeddings is required for yarn"):
            resolve({"head_dim": 64, "rope_scaling": scaling})


def test_a_factor_of_a_model_already_stretched_or_not_yet_is_a_warning() -> None:
    config = llama(rope_scaling={**YARN, ORIGINAL: 8192})

    assert "implicit-factor-differs" in codes_of(config)
