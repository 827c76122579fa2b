"""Parameters of frequency rules in the spellings of several programs, and their layers."""

import pytest

from service.errors import InvalidBody
from service.models.blocks import which_have
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


LLAMA4 = {"model_type": "llama4_text", "num_hidden_layers": 8}


def test_an_entry_for_all_layers_has_every_layer() -> None:
    entry = entry_of(llama())

    assert entry.every_layer
    assert entry.layers is None


GEMMA3 = {"model_type": "gemma3_text", "num_hidden_layers": 7}
EXAONE = {"model_type": "exaone4", "num_hidden_layers": 8, "sliding_window": 4096}
LISTED = ["full_attention"] * 2 + ["sliding_attention"]


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        (GEMMA3, (5,)),
        ({**GEMMA3, "sliding_window_pattern": 3}, (2, 5)),
        ({**GEMMA3, "layer_types": LISTED}, (0, 1)),
        ({"model_type": "gemma3_text"}, (5, 11, 17, 23)),
    ],
)
def test_layer_types_follow_the_config_or_the_pattern_of_the_class(
    config: dict[str, object], layers: tuple[int, ...]
) -> None:
    assert entry_of(config, "full_attention").layers == layers


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        (LLAMA4, (0, 1, 2, 4, 5, 6)),
        ({**LLAMA4, "no_rope_layers": []}, (0, 1, 2, 4, 5, 6)),
        ({**LLAMA4, "no_rope_layer_interval": 2}, (0, 2, 4, 6)),
        ({**LLAMA4, "no_rope_layers": [1, 0, 1, 1]}, (0, 2, 3)),
        ({"model_type": "smollm3", "num_hidden_layers": 8}, (0, 1, 2, 4, 5, 6)),
        ({"model_type": "cohere2", "num_hidden_layers": 8}, (0, 1, 2, 4, 5, 6)),
        ({"model_type": "bailing_hybrid", "num_hidden_layers": 6}, (5,)),
        (EXAONE, (0, 1, 2, 4, 5, 6)),
    ],
)
def test_nope_layers_are_left_out_with_a_warning(
    config: dict[str, object], layers: tuple[int, ...]
) -> None:
    assert entry_of(config).layers == layers
    assert "nope-layers" in codes_of(config)


def test_layers_without_types_are_unknown() -> None:
    nested = {"full_attention": {"rope_theta": 1e4}}
    entry = entry_of(llama(rope_parameters=nested), "full_attention")

    assert entry.layers is None
    assert not entry.every_layer
    assert resolve(llama(rope_parameters=nested)).warnings[-1].code == "layers-unknown"


def test_a_pattern_of_letters_gives_layer_types() -> None:
    config = {"model_type": "exaone4", "num_hidden_layers": 8, "sliding_window": 4096}

    assert entry_of({**config, "sliding_window_pattern": "LLGL"}).layers == (0, 1, 3, 4, 5, 7)
    with pytest.raises(InvalidBody, match="letters L and G"):
        resolve({**config, "sliding_window_pattern": "LLXL"})


def test_warnings_name_the_first_layers_and_count_them() -> None:
    assert which_have([2]) == "layer 2 has"
    assert which_have([1, 0]) == "layers 0, 1 have"
    assert which_have(range(33)) == "layers 0, 1, 2, 3, 4, 5, 6, 7 … (33 in all) have"


def test_a_list_of_bases_gives_an_entry_for_each_base() -> None:
    config = {
        "model_type": "granite_swa",
        "num_hidden_layers": 4,
        "layer_rope_theta": [10000.0, 0, 500000.0, 10000.0],
    }
    entries = resolve(config).entries

    assert [(entry.values["rope_theta"].value, entry.layers) for entry in entries] == [
        (10000.0, (0, 3)),
        (500000.0, (2,)),
    ]


def test_a_list_of_scaled_layers_leaves_the_others_unscaled() -> None:
    config = {
        "model_type": "molmo2_text",
        "num_hidden_layers": 4,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "rope_scaling_layers": [1, 3],
    }
    entries = {entry.label: entry for entry in resolve(config).entries}

    assert entries["scaled"].layers == (1, 3)
    assert entries["scaled"].values["rope_type"].value == "linear"
    assert entries["unscaled"].layers == (0, 2)
    assert entries["unscaled"].values["rope_type"].value == "default"


STEP = {
    "model_type": "step3p5",
    "num_hidden_layers": 4,
    "layer_types": ["full_attention", "sliding_attention"] * 2,
}


def test_lists_of_bases_and_shares_give_an_entry_for_each_pair() -> None:
    yarn = {"rope_type": "linear", "factor": 2.0}
    lists = {"rope_theta": [5e6, 1e4] * 2, "partial_rotary_factors": [0.5, 1.0] * 2}
    entries = {
        entry.label: entry for entry in resolve({**STEP, **lists, "rope_scaling": yarn}).entries
    }

    full, sliding = entries["full_attention"], entries["sliding_attention"]
    assert (full.layers, sliding.layers) == ((0, 2), (1, 3))
    assert (full.values["rotary_dim"].value, sliding.values["rotary_dim"].value) == (64, 128)
    assert (full.values["rope_theta"].value, sliding.values["rope_theta"].value) == (5e6, 1e4)
    assert (full.values["rope_type"].value, sliding.values["rope_type"].value) == (
        "linear",
        "default",
    )


def test_one_base_goes_with_a_list_of_shares() -> None:
    config = {**STEP, "rope_theta": 7e4, "partial_rotary_factors": [0.5, 1.0, 0.25, 1.0]}
    entries = resolve(config).entries

    assert {entry.values["rope_theta"].value for entry in entries} == {7e4}
    assert [entry.values["rotary_dim"].value for entry in entries] == [64, 32, 128]
    assert entries[0].label == "full_attention partial_rotary_factor=0.5"


def test_a_layer_type_without_layers_has_no_entry() -> None:
    (entry,) = resolve({"model_type": "step3p5", "num_hidden_layers": 4}).entries

    assert (entry.label, entry.layers) == ("full_attention", (0, 1, 2, 3))


def test_layers_with_base_0_have_no_rotary_embedding() -> None:
    config = {"model_type": "granite_swa", "num_hidden_layers": 2, "layer_rope_theta": [1e4, None]}
    warnings = resolve(config).warnings

    assert "layer 1 has no rotary embedding" in [warning.detail for warning in warnings]
