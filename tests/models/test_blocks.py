"""Parameters of frequency rules, flat or by layer type, in the spellings of several programs."""

import pytest

from service.models.resolve import resolve
from tests.models.settings import codes_of, entry_of, llama, origin_of, value_of

LINEAR = {"rope_type": "linear", "factor": 8.0}


@pytest.mark.parametrize("name", ["rope_scaling", "rope_parameters"])
def test_either_name_is_read(name: str) -> None:
    config = llama(**{name: LINEAR})

    assert value_of(config, "factor") == 8.0
    assert origin_of(config, "factor") == f"/{name}/factor"


def test_rope_scaling_replaces_rope_parameters_unless_it_is_empty() -> None:
    other = {"rope_type": "linear", "factor": 2.0}

    assert value_of(llama(rope_scaling=LINEAR, rope_parameters=other), "factor") == 8.0
    assert value_of(llama(rope_scaling={}, rope_parameters=other), "factor") == 2.0
    assert codes_of(llama(rope_scaling=LINEAR, rope_parameters=LINEAR)) == []


def test_flat_scaling_does_not_apply_to_unscaled_layer_types() -> None:
    config = {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_scaling": LINEAR}

    assert value_of(config, "rope_type", "full_attention") == "linear"
    assert value_of(config, "rope_type", "sliding_attention") == "default"
    assert value_of(config, "rope_theta", "sliding_attention") == 10000.0


def test_parameters_by_layer_type_are_completed_by_the_class() -> None:
    nested = {"full_attention": {**LINEAR, "rope_theta": 5e5}}
    config = {"model_type": "gemma3_text", "rope_parameters": nested}

    assert value_of(config, "rope_theta", "full_attention") == 5e5
    assert value_of(config, "rope_theta", "sliding_attention") == 10000.0


def test_a_null_layer_type_has_no_rotary_embedding() -> None:
    types = ["full_attention", "sliding_attention"] * 2
    nested = {"full_attention": None, "sliding_attention": LINEAR}
    resolved = resolve(llama(layer_types=types, rope_parameters=nested))

    assert [(entry.label, entry.layers) for entry in resolved.entries] == [
        ("sliding_attention", (1, 3))
    ]
    assert "nope-layers" in [warning.code for warning in resolved.warnings]


def test_the_rule_of_the_class_is_used_with_a_warning_where_the_config_has_none() -> None:
    config = {"model_type": "apertus", "rope_theta": 5e6}

    assert value_of(config, "rope_type") == "llama3"
    assert value_of(config, "rope_theta") == 5e6
    assert "class-default-used" in codes_of(config)
    assert value_of({**config, "rope_scaling": LINEAR}, "rope_type") == "linear"


def test_a_block_with_a_rope_type_is_flat_despite_unknown_objects() -> None:
    config = llama(rope_scaling={**LINEAR, "x": {"a": 1}})
    null = {"model_type": "gemma3_text", "rope_scaling": {**LINEAR, "full_attention": None}}

    assert value_of(config, "factor") == 8.0
    assert "unknown-rope-key" in codes_of(config)
    assert value_of(null, "factor", "full_attention") == 8.0


def test_a_value_beside_parameters_by_layer_type_is_a_warning() -> None:
    nested = {"full_attention": {**LINEAR}, "sliding_attention": {}, "rope_theta": 5.0}
    config = {"model_type": "gemma3_text", "rope_parameters": nested}

    assert value_of(config, "rope_theta", "full_attention") == 1e6
    assert "unknown-rope-key" in codes_of(config)


def nested(depth: int) -> list[object]:
    found: list[object] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.full
def test_objects_too_deep_to_compare_differ() -> None:
    linear = {"type": "linear", "factor": 2}
    config = llama(
        rope_scaling={**linear, "x": nested(100_000)},
        rope_parameters={**linear, "x": nested(100_000)},
    )

    assert "rope-scaling-and-rope-parameters-both" in codes_of(config)


MISTRAL = {"dim": 4096, "n_heads": 32, "n_layers": 32, "head_dim": 128, "rope_theta": 1e6}
YARN = {"factor": 16.0, "original_max_position_embeddings": 16384, "beta": 32.0, "alpha": 1.0}
GPT_OSS = {
    "num_hidden_layers": 36,
    "head_dim": 64,
    "hidden_size": 2880,
    "initial_context_length": 4096,
    "rope_theta": 150000,
    "rope_scaling_factor": 32.0,
    "rope_ntk_alpha": 1,
    "rope_ntk_beta": 32,
}


def test_mistral_s_alpha_and_beta_are_the_betas_of_yarn() -> None:
    config = {**MISTRAL, "yarn": {**YARN, "apply_scale": False}}

    assert value_of(config, "beta_fast") == 32.0
    assert value_of(config, "beta_slow") == 1.0
    assert value_of(config, "attention_factor") == 1.0
    assert origin_of(config, "beta_fast") == "alias /yarn/beta"
    assert "attention_factor" not in entry_of({**MISTRAL, "yarn": YARN}).values


def test_weights_beside_a_params_json_are_interleaved() -> None:
    config = {**MISTRAL, "yarn": YARN, "max_position_embeddings": 262144}

    assert resolve(config).layout == "interleaved"
    assert codes_of(config) == ["model-type-missing", "layout-assumed"]


def test_gpt_oss_s_own_config_is_the_yarn_of_its_published_one() -> None:
    values = {name: found.value for name, found in entry_of(GPT_OSS).at(None).items()}

    assert values["rope_type"] == "yarn"
    assert (values["factor"], values["original_max_position_embeddings"]) == (32.0, 4096)
    assert (values["beta_fast"], values["beta_slow"], values["truncate"]) == (32.0, 1.0, False)
    assert values["max_position_embeddings"] == 131072


def test_litgpt_s_keys_are_read() -> None:
    size = {"head_size": 128, "n_layer": 32, "rope_base": 500000, "block_size": 131072}
    adjusted = {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_seq_len": 8192,
    }
    llama3 = {**size, "rope_adjustments": adjusted}

    assert value_of(llama3, "rope_type") == "llama3"
    assert value_of(llama3, "original_max_position_embeddings") == 8192
    assert value_of(llama3, "rope_theta") == 500000.0
    assert value_of({**size, "rope_condense_ratio": 4}, "factor") == 4.0
    assert value_of({**size, "rope_condense_ratio": 1}, "rope_type") == "default"


def test_meta_s_scaled_rope_has_the_numbers_of_its_code() -> None:
    config = {**MISTRAL, "use_scaled_rope": True, "rope_scaling_factor": 32.0}

    assert value_of(config, "factor") == 32.0
    assert origin_of(config, "factor") == "alias /rope_scaling_factor"
    assert value_of(config, "high_freq_factor") == 4.0
    assert "scaled-rope-assumed" in codes_of(config)


def test_mistral_s_scaling_of_queries_is_read_beside_its_yarn() -> None:
    tuned = {"beta": 0.1, "original_max_position_embeddings": 8192}
    config = {**MISTRAL, "yarn": YARN, "llama_4_scaling": tuned}

    temperature = resolve(config).attention["query_temperature"]
    assert temperature["llama_4_scaling_beta"] == 0.1
    assert "unknown-rope-key" not in codes_of(config)
    assert "unknown-rope-key" in codes_of({**MISTRAL, "llama_4_scaling": tuned})
