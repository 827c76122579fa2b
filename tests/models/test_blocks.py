"""Parameters of frequency rules in the spellings of several programs, and their layers."""

from typing import Any

import pytest

from service.errors import InvalidBody
from service.models.blocks import which_have
from tests.models.settings import codes_of, entry_of, llama, origin_of, resolve, value_of

LINEAR = {"rope_type": "linear", "factor": 8.0}


FLAT_GEMMA3 = {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_scaling": LINEAR}
NESTED_GEMMA3 = {
    "model_type": "gemma3_text",
    "rope_parameters": {"full_attention": {**LINEAR, "rope_theta": 5e5}, "rope_theta": 5.0},
}
FLAT_WITH_NULL = {**FLAT_GEMMA3, "rope_scaling": {**LINEAR, "full_attention": None}}
APERTUS = {"model_type": "apertus", "rope_theta": 5e6}


@pytest.mark.parametrize(
    ("config", "label", "name", "value"),
    [
        (FLAT_GEMMA3, "full_attention", "rope_type", "linear"),
        # A flat block does not apply to unscaled layer types.
        (FLAT_GEMMA3, "sliding_attention", "rope_type", "default"),
        (FLAT_GEMMA3, "sliding_attention", "rope_theta", 10000.0),
        # The class completes parameters by layer type, and values beside them are not read.
        (NESTED_GEMMA3, "full_attention", "rope_theta", 5e5),
        (NESTED_GEMMA3, "sliding_attention", "rope_theta", 10000.0),
        # A block with a rope_type is flat.
        (FLAT_WITH_NULL, "full_attention", "factor", 8.0),
        (llama(rope_scaling={**LINEAR, "x": {"a": 1}}), "default", "factor", 8.0),
        # The rule of the class applies if the config has none.
        (APERTUS, "default", "rope_type", "llama3"),
        (APERTUS, "default", "rope_theta", 12e6),
        ({**APERTUS, "rope_scaling": LINEAR}, "default", "rope_type", "linear"),
    ],
)
def test_parameters_are_those_of_the_block_of_a_layer_type(
    config: dict[str, object], label: str, name: str, value: object
) -> None:
    assert value_of(config, name, label) == value


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (NESTED_GEMMA3, "unknown-rope-key"),
        (llama(rope_scaling={**LINEAR, "x": {"a": 1}}), "unknown-rope-key"),
        (APERTUS, "class-default-used"),
    ],
)
def test_parameters_that_are_assumed_or_not_read_have_a_warning(
    config: dict[str, object], code: str
) -> None:
    assert code in codes_of(config)


@pytest.mark.parametrize("name", ["rope_scaling", "rope_parameters"])
def test_rope_scaling_and_rope_parameters_are_read(name: str) -> None:
    config = llama(**{name: LINEAR})

    assert value_of(config, "factor") == 8.0
    assert origin_of(config, "factor") == f"/{name}/factor"


def test_rope_scaling_replaces_rope_parameters_unless_it_is_empty() -> None:
    other = {"rope_type": "linear", "factor": 2.0}

    assert value_of(llama(rope_scaling=LINEAR, rope_parameters=other), "factor") == 8.0
    assert value_of(llama(rope_scaling={}, rope_parameters=other), "factor") == 2.0
    assert codes_of(llama(rope_scaling=LINEAR, rope_parameters=LINEAR)) == []


def test_null_layer_type_has_no_rotary_embedding() -> None:
    types = ["full_attention", "sliding_attention"] * 2
    nested = {"full_attention": None, "sliding_attention": LINEAR}
    resolved = resolve(llama(model_type="gemma3_text", layer_types=types, rope_parameters=nested))

    assert [(entry.label, entry.layers) for entry in resolved.entries] == [
        ("sliding_attention", (1, 3))
    ]
    assert "nope-layers" in [warning.code for warning in resolved.warnings]


def nested(depth: int) -> list[object]:
    items: list[object] = []
    for _ in range(depth):
        items = [items]
    return items


@pytest.mark.full
def test_objects_too_deep_to_compare_differ() -> None:
    scaling, parameters = ({**LINEAR, "x": nested(100_000)} for _ in range(2))
    config = llama(rope_scaling=scaling, rope_parameters=parameters)

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


LITGPT = {"head_size": 128, "n_layer": 32, "rope_base": 500000, "block_size": 131072}
ADJUSTED = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_seq_len": 8192,
}


@pytest.mark.parametrize(
    ("config", "values"),
    [
        (
            {**MISTRAL, "yarn": {**YARN, "apply_scale": False}},
            {"beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 1.0},
        ),
        (
            GPT_OSS,
            {
                "rope_type": "yarn",
                "factor": 32.0,
                "original_max_position_embeddings": 4096,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "max_position_embeddings": 131072,
            },
        ),
        (
            {**LITGPT, "rope_adjustments": ADJUSTED},
            {
                "rope_type": "llama3",
                "original_max_position_embeddings": 8192,
                "rope_theta": 500000.0,
            },
        ),
        ({**LITGPT, "rope_condense_ratio": 4}, {"rope_type": "linear", "factor": 4.0}),
        ({**LITGPT, "rope_condense_ratio": 1}, {"rope_type": "default"}),
        (
            {**MISTRAL, "use_scaled_rope": True, "rope_scaling_factor": 32.0},
            {"rope_type": "llama3", "factor": 32.0, "high_freq_factor": 4.0},
        ),
    ],
    ids=["mistral", "gpt-oss", "litgpt llama3", "litgpt linear", "litgpt", "meta"],
)
def test_keys_of_other_programs_are_read(
    config: dict[str, object], values: dict[str, object]
) -> None:
    assert {name: value_of(config, name) for name in values} == values


def test_keys_of_a_params_json_are_aliases_and_its_layout_is_interleaved() -> None:
    config = {**MISTRAL, "yarn": YARN, "max_position_embeddings": 262144}

    assert origin_of(config, "beta_fast") == "alias /yarn/beta"
    assert "attention_factor" not in entry_of(config).values
    assert resolve(config).layout == "interleaved"
    assert codes_of(config) == ["model-type-missing", "layout-assumed"]


def test_mistral_scaling_of_queries_is_read_beside_its_yarn() -> None:
    tuned = {"beta": 0.1, "original_max_position_embeddings": 8192}
    config = {**MISTRAL, "yarn": YARN, "llama_4_scaling": tuned}

    temperature = resolve(config).attention["query_temperature"]
    assert temperature["llama_4_scaling_beta"] == 0.1
    assert temperature["original_max_position_embeddings"] == 8192
    assert "unknown-rope-key" not in codes_of(config)


@pytest.mark.parametrize(
    ("keys", "pointer"),
    [
        ({"llama_4_scaling": {"beta": 0.1}}, "/llama_4_scaling"),
        ({"yarn": {**YARN, "gamma": 2}}, "/yarn/gamma"),
        ({"yarn": YARN, "llama_4_scaling": {"floor": 2}}, "/llama_4_scaling/floor"),
        ({"yarn": YARN, "rope_scaling": {"type": "linear", "factor": 2.0}}, "/yarn"),
    ],
)
def test_rules_of_mistral_that_are_not_understood_are_refused(
    keys: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidBody) as raised:
        resolve({**MISTRAL, **keys})

    assert [fault.where for fault in raised.value.faults] == [pointer]


LLAMA4 = {"model_type": "llama4_text", "num_hidden_layers": 8}


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


def test_the_list_of_layers_with_attention_is_the_origin() -> None:
    config = {"model_type": "lfm2", "num_hidden_layers": 6, "full_attn_idxs": [2, 5]}

    (warning,) = [each for each in resolve(config).warnings if each.code == "nope-layers"]
    assert (warning.pointer, "(/full_attn_idxs)" in warning.detail) == ("/full_attn_idxs", True)


def test_the_last_layer_is_what_the_class_makes_it() -> None:
    types = ["full_attention", "sliding_attention", "sliding_attention"]

    assert entry_of(
        {"model_type": "gemma4_text", "layer_types": types}, "full_attention"
    ).layers == (
        0,
        2,
    )
    exaone = {"model_type": "exaone4", "layer_types": ["full_attention"] * 2}
    assert entry_of({**exaone, "sliding_window": None}).every_layer


COHERE = {"model_type": "cohere2_moe", "num_hidden_layers": 2}
GRANITE_HYBRID = {"model_type": "granitemoehybrid", "position_embedding_type": "rope"}
GRIFFIN = {"model_type": "recurrent_gemma", "num_hidden_layers": 7}
ZAMBA2 = {"model_type": "zamba2", "num_hidden_layers": 3, "use_mem_rope": True}


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
        # Layers without attention.
        ({"model_type": "lfm2", "num_hidden_layers": 6, "full_attn_idxs": [2, 5]}, (2, 5)),
        ({"model_type": "bamba", "num_hidden_layers": 6, "attn_layer_indices": [1]}, (1,)),
        (GRIFFIN, (2, 5)),
        ({**GRIFFIN, "block_types": ["recurrent", "attention"]}, (1, 3, 5)),
        ({**ZAMBA2, "layers_block_type": ["mamba", "hybrid", "mamba"]}, (1,)),
        ({**ZAMBA2, "num_hidden_layers": 54}, (6, 12, 18, 24, 30, 36, 42, 47, 51)),
        ({"model_type": "bamba", "num_hidden_layers": 3}, ()),
        ({**GRANITE_HYBRID, "num_hidden_layers": 3}, ()),
        ({**GRANITE_HYBRID, "layer_types": ["mamba", "attention"]}, (1,)),
    ],
)
def test_nope_layers_are_left_out_with_a_warning(
    config: dict[str, object], layers: tuple[int, ...]
) -> None:
    assert entry_of(config).layers == layers
    assert "nope-layers" in codes_of(config)


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (ZAMBA2, "layers_block_type"),
        ({**GRIFFIN, "block_types": ["mamba"]}, "block_types"),
        ({**COHERE, "first_k_dense_replace": 1}, "first_k_dense_replace"),
        ({**COHERE, "mlp_layer_types": ["dense", "sparse"]}, "mlp_layer_types"),
        ({"model_type": "falcon", "alibi": "false"}, "alibi"),
    ],
)
def test_layers_that_are_not_certain_are_refused(config: dict[str, object], key: str) -> None:
    with pytest.raises(InvalidBody) as raised:
        resolve(config)

    assert [fault.where for fault in raised.value.faults] == [f"/{key}"]


def test_keys_that_change_no_layers_are_not_refused() -> None:
    config = {**COHERE, "first_k_dense_replace": 0, "mlp_layer_types": ["sparse"] * 2}

    assert entry_of(config).every_layer


def test_layers_without_types_are_unknown() -> None:
    nested = {"full_attention": {"rope_theta": 1e4}}
    config = llama(model_type="another", rope_parameters=nested)
    entry = entry_of(config, "full_attention")

    assert entry.layers is None
    assert not entry.every_layer
    assert "layers-unknown" in codes_of(config)


def test_pattern_of_letters_gives_layer_types() -> None:
    assert entry_of({**EXAONE, "sliding_window_pattern": "LLGL"}).layers == (0, 1, 3, 4, 5, 7)
    with pytest.raises(InvalidBody, match="letters L and G"):
        resolve({**EXAONE, "sliding_window_pattern": "LLXL"})


def test_warnings_name_the_first_layers_and_count_them() -> None:
    assert which_have([2]) == "layer 2 has"
    assert which_have([1, 0]) == "layers 0, 1 have"
    assert which_have(range(33)) == "layers 0, 1, 2, 3, 4, 5, 6, 7 … (33 in all) have"


GRANITE = {
    "model_type": "granite_swa",
    "num_hidden_layers": 4,
    "layer_rope_theta": [10000.0, 0, 500000.0, 10000.0],
}
MOLMO2 = {
    "model_type": "molmo2_text",
    "num_hidden_layers": 4,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    "rope_scaling_layers": [1, 3],
}
STEP = {
    "model_type": "step3p5",
    "num_hidden_layers": 4,
    "layer_types": ["full_attention", "sliding_attention"] * 2,
}
STEP_LISTS = {"rope_theta": [5e6, 1e4] * 2, "partial_rotary_factors": [0.5, 1.0] * 2}
SHARES = {"rope_theta": 7e4, "partial_rotary_factors": [0.5, 1.0, 0.25, 1.0]}


@pytest.mark.parametrize(
    ("config", "names", "expected"),
    [
        (GRANITE, ("rope_theta",), [((0, 3), 10000.0), ((2,), 500000.0)]),
        (MOLMO2, ("rope_type",), [((1, 3), "linear"), ((0, 2), "default")]),
        (
            {**STEP, **STEP_LISTS, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
            ("rotary_dim", "rope_theta", "rope_type"),
            [((0, 2), 64, 5e6, "linear"), ((1, 3), 128, 1e4, "default")],
        ),
        (
            {**STEP, **SHARES},
            ("rope_theta", "rotary_dim"),
            [((0,), 7e4, 64), ((2,), 7e4, 32), ((1, 3), 7e4, 128)],
        ),
        # A layer type without layers has no entry.
        ({"model_type": "step3p5", "num_hidden_layers": 4}, (), [((0, 1, 2, 3),)]),
    ],
    ids=["bases", "scaled layers", "bases and shares", "shares", "one type"],
)
def test_lists_by_layer_give_an_entry_for_each_set_of_values(
    config: dict[str, object], names: tuple[str, ...], expected: list[tuple[object, ...]]
) -> None:
    assert [
        (entry.layers, *(entry.values[name].value for name in names))
        for entry in resolve(config).entries
    ] == expected


def test_unscaled_layers_keep_the_base_of_the_rule() -> None:
    rule = {"rope_type": "linear", "factor": 2.0, "rope_theta": 7e4}
    config = {"model_type": "molmo2_text", "rope_scaling_layers": [0, 1], "rope_scaling": rule}

    assert value_of(config, "rope_theta", "scaled") == 7e4
    assert value_of(config, "rope_theta", "unscaled") == 7e4
    assert value_of(config, "rope_type", "unscaled") == "default"


def test_labels_of_layers_contain_their_values() -> None:
    first = resolve({**STEP, **SHARES}).entries[0]

    assert first.label == "full_attention partial_rotary_factor=0.5"


def test_layers_with_base_0_have_no_rotary_embedding() -> None:
    config = {"model_type": "granite_swa", "num_hidden_layers": 2, "layer_rope_theta": [1e4, None]}
    warnings = resolve(config).warnings

    assert "layer 1 has no rotary embedding" in [warning.detail for warning in warnings]
