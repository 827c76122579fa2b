"""Layers of one block that differ all the same."""

import pytest

from service.configs.resolve import resolve
from service.errors import InvalidBody


def test_a_list_of_bases_tells_layers_apart() -> None:
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


def test_a_list_of_scaled_layers_leaves_the_others_as_they_are() -> None:
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


def test_lists_of_bases_and_shares_are_told_apart_together() -> None:
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


def test_a_type_of_layers_that_a_config_has_none_of_is_left_out() -> None:
    (entry,) = resolve({"model_type": "step3p5", "num_hidden_layers": 4}).entries

    assert (entry.label, entry.layers) == ("full_attention", (0, 1, 2, 3))


def test_layers_with_a_base_of_0_are_said_to_have_no_rotary_embedding() -> None:
    config = {"model_type": "granite_swa", "num_hidden_layers": 2, "layer_rope_theta": [1e4, None]}
    warnings = resolve(config).warnings

    assert "layer 1 has no rotary embedding" in [warning.detail for warning in warnings]


def test_a_list_shorter_than_the_layers_is_a_problem() -> None:
    with pytest.raises(InvalidBody, match="rope_theta has 1 items, and there are layers up to 3"):
        resolve({**STEP, "rope_theta": [1e4]})


def test_types_of_layers_that_a_list_tells_apart_are_bounded() -> None:
    bases = {"layer_rope_theta": [float(i + 2) for i in range(65)]}
    with pytest.raises(InvalidBody, match="at most 64 types of layers"):
        resolve({"model_type": "granite_swa", "num_hidden_layers": 65, **bases})
