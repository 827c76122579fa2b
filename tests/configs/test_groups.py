"""Layers of one block that differ all the same."""

from service.configs.resolve import resolve


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
