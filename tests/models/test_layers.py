"""The layers of each entry, and those without a rotary embedding."""

import pytest

from service.errors import InvalidBody
from service.models.blocks import which_have
from service.models.resolve import resolve
from tests.models.settings import codes_of, entry_of, llama

LLAMA4 = {"model_type": "llama4_text", "num_hidden_layers": 8}


def test_an_entry_for_all_layers_has_every_layer() -> None:
    entry = entry_of(llama())

    assert entry.every_layer
    assert entry.layers is None


def test_layers_follow_the_pattern_of_the_class_or_of_the_config() -> None:
    config = {"model_type": "gemma3_text", "num_hidden_layers": 7}

    assert entry_of(config, "full_attention").layers == (5,)
    assert entry_of({**config, "sliding_window_pattern": 3}, "full_attention").layers == (2, 5)
    listed = {**config, "layer_types": ["full_attention"] * 2 + ["sliding_attention"]}
    assert entry_of(listed, "full_attention").layers == (0, 1)


def test_nope_layers_by_interval_or_list() -> None:
    listed = {**LLAMA4, "no_rope_layers": [1, 0, 1, 1]}

    assert entry_of(LLAMA4).layers == (0, 1, 2, 4, 5, 6)
    assert entry_of({**LLAMA4, "no_rope_layers": []}).layers == (0, 1, 2, 4, 5, 6)
    assert entry_of({**LLAMA4, "no_rope_layer_interval": 2}).layers == (0, 2, 4, 6)
    assert entry_of(listed).layers == (0, 2, 3)


def test_nope_layers_by_type() -> None:
    cohere = {"model_type": "cohere2", "num_hidden_layers": 8}
    exaone = {"model_type": "exaone4", "num_hidden_layers": 8, "sliding_window": 4096}

    assert entry_of(cohere).layers == (0, 1, 2, 4, 5, 6)
    assert entry_of(exaone).layers == (0, 1, 2, 4, 5, 6)
    assert "nope-layers" in codes_of(exaone)


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


def test_types_follow_from_a_count_of_layers_or_are_unknown() -> None:
    assert entry_of({"model_type": "gemma3_text"}, "full_attention").layers == (5, 11, 17, 23)
    bailing = {"model_type": "bailing_hybrid", "num_hidden_layers": 6}
    assert entry_of(bailing).layers == (5,)


def test_nope_layers_by_the_interval_of_the_class() -> None:
    kind = {"model_type": "smollm3", "num_hidden_layers": 8}

    assert entry_of(kind).layers == (0, 1, 2, 4, 5, 6)


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
