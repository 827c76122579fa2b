"""Entries: what a block and its model come to."""

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
