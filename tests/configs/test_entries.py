"""Entries: what a block and its model come to."""

import pytest

from service.configs.resolve import resolve
from service.errors import InvalidBody
from tests.configs.settings import codes_of, entry_of, llama, origin_of, value_of


def test_the_original_length_holds_unless_another_is_asked_for() -> None:
    entry = entry_of(llama(rope_scaling={"type": "dynamic", "factor": 2.0}))

    assert entry.at(None)["context_length"].value == 8192
    assert entry.at(20000)["context_length"].value == 20000
    assert entry.at(20000)["context_length"].origin == "?context_length"
    assert "context_length" not in entry_of(llama()).at(20000)


def test_a_length_that_nothing_says_is_what_the_rule_stretches_to_or_an_assumption() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    bare = {"head_dim": 64, "rope_theta": 1e4}

    assert value_of({**bare, "rope_scaling": yarn}, "max_position_embeddings") == 8192
    assert value_of(bare, "max_position_embeddings") == 4096
    assert origin_of(bare, "max_position_embeddings") == "assumed"
    assert "max-length-assumed" in codes_of(bare)


def test_layers_of_a_type_that_nothing_is_said_about_are_a_warning() -> None:
    listed = llama(layer_types=["a", "b", "a"], rope_parameters={"a": {"rope_theta": 5.0}})
    misspelled = {
        "model_type": "gemma3_text",
        "layer_types": ["full_attention", "sliding_atention"],
    }

    assert "layers-without-rule" in codes_of(listed)
    assert "layers-without-rule" in codes_of(misspelled)
    assert any("mean sliding_attention" in w.detail for w in resolve(misspelled).warnings)
    assert "layers-without-rule" not in codes_of({"model_type": "gemma3_text"})


def test_a_misspelled_layer_type_of_a_block_is_told_the_nearest() -> None:
    nested = {"full_atention": {"rope_theta": 5.0}, "sliding_attention": {"rope_theta": 5.0}}
    warnings = resolve({"model_type": "gemma3_text", "rope_parameters": nested}).warnings

    assert any("did you mean full_attention?" in warning.detail for warning in warnings)


def test_layer_types_said_to_be_without_are_named_where_layers_are_not_known() -> None:
    nested = {"full_attention": None, "sliding_attention": {"rope_theta": 5.0}}
    warnings = resolve(llama(rope_parameters=nested)).warnings

    assert "layers of type full_attention have no rotary" in " ".join(w.detail for w in warnings)


def test_lists_of_all_entries_together_are_bounded() -> None:
    lists = {"short_factor": [1.0] * 32768, "long_factor": [1.0] * 32768}
    longrope = {"rope_type": "longrope", "original_max_position_embeddings": 64, **lists}
    nested = dict.fromkeys(("a", "b", "c"), longrope)

    with pytest.raises(InvalidBody, match="lists of 196608 numbers"):
        resolve(llama(head_dim=65536, rope_parameters=nested))


def test_a_context_length_without_use_is_a_warning() -> None:
    dynamic = llama(rope_scaling={"type": "dynamic", "factor": 2.0})

    codes = [warning.code for warning in resolve(llama(), 20000).warnings]
    assert codes == ["context-length-unused"]
    assert "context-length-unused" not in [w.code for w in resolve(dynamic, 20000).warnings]


def test_types_of_layers_are_bounded_all_together() -> None:
    """By blocks and by lists at once: each is an entry with several URLs."""
    config = {
        "model_type": "granite_swa",
        "layer_rope_theta": [10000.0 + i % 9 for i in range(81)],
        "layer_types": [f"t{i // 9}" for i in range(81)],
        "rope_parameters": {f"t{i}": {"rope_theta": 1e4} for i in range(9)},
    }

    with pytest.raises(InvalidBody, match="more than 64 types of layers"):
        resolve(config)


def test_a_label_too_long_to_be_a_misspelling_is_compared_with_none() -> None:
    short, long = "full_atention", "full_atention" + "_" * 40
    known = {"full_attention": None, "sliding_attention": {"rope_theta": 5.0}}
    for label, has_hint in ((short, True), (long, False)):
        blocks = {"model_type": "gemma3_text", "rope_parameters": {**known, label: {}}}
        details = [w.detail for w in resolve(blocks).warnings if w.code == "layers-unknown"]
        assert any("did you mean" in detail for detail in details) == has_hint
