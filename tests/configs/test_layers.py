"""Which layers an entry is for."""

from service.configs.resolve import resolve
from tests.configs.settings import codes_of, entry_of, llama

LLAMA4 = {"model_type": "llama4_text", "num_hidden_layers": 8}


def test_an_entry_for_all_layers_says_so() -> None:
    entry = entry_of(llama())

    assert entry.every_layer
    assert entry.layers is None


def test_layers_follow_the_pattern_of_the_class_or_of_the_config() -> None:
    config = {"model_type": "gemma3_text", "num_hidden_layers": 7}

    assert entry_of(config, "full_attention").layers == (5,)
    assert entry_of({**config, "sliding_window_pattern": 3}, "full_attention").layers == (2, 5)
    listed = {**config, "layer_types": ["full_attention"] * 2 + ["sliding_attention"]}
    assert entry_of(listed, "full_attention").layers == (0, 1)


def test_layers_without_are_told_by_interval_or_list() -> None:
    listed = {**LLAMA4, "no_rope_layers": [1, 0, 1, 1]}

    assert entry_of(LLAMA4).layers == (0, 1, 2, 4, 5, 6)
    assert entry_of({**LLAMA4, "no_rope_layers": []}).layers == (0, 1, 2, 4, 5, 6)
    assert entry_of({**LLAMA4, "no_rope_layer_interval": 2}).layers == (0, 2, 4, 6)
    assert entry_of(listed).layers == (0, 2, 3)


def test_layers_without_are_told_by_type() -> None:
    cohere = {"model_type": "cohere2", "num_hidden_layers": 8}
    exaone = {"model_type": "exaone4", "num_hidden_layers": 8, "sliding_window": 4096}

    assert entry_of(cohere).layers == (0, 1, 2, 4, 5, 6)
    assert entry_of(exaone).layers == (0, 1, 2, 4, 5, 6)
    assert "nope-layers" in codes_of(exaone)


def test_layers_that_cannot_be_told_are_unknown() -> None:
    nested = {"full_attention": {"rope_theta": 1e4}}
    entry = entry_of(llama(rope_parameters=nested), "full_attention")

    assert entry.layers is None
    assert not entry.every_layer
    assert resolve(llama(rope_parameters=nested)).warnings[-1].code == "layers-unknown"
