"""How wide a head is, and how many of its channels turn."""

import pytest

from service.configs.resolve import resolve
from service.errors import InvalidBody
from tests.configs.settings import codes_of, llama, origin_of, value_of

HEAD = {"model_type": "unheard-of", "head_dim": 128, "rope_theta": 1e4}


@pytest.mark.parametrize(
    ("config", "head_dim", "origin"),
    [
        (llama(head_dim=64), 64, "/head_dim"),
        (llama(), 128, "computed: /hidden_size // /num_attention_heads"),
        ({"model_type": "gptj", "n_embd": 64, "n_head": 4}, 16, "computed: alias /n_embd // "),
        ({"kv_channels": 96}, 96, "alias /kv_channels"),
        ({"head_dim": 192, "qk_rope_head_dim": 64}, 64, "/qk_rope_head_dim"),
        ({"model_type": "deepseek_v3", "head_dim": 192, "qk_rope_head_dim": 32}, 32, "/qk_rope"),
        ({"model_type": "qwen3", "hidden_size": 5120, "num_attention_heads": 40}, 128, "class"),
    ],
)
def test_where_the_width_of_a_head_is_said(
    config: dict[str, object], head_dim: int, origin: str
) -> None:
    assert value_of(config, "head_dim") == head_dim
    assert origin_of(config, "head_dim").startswith(origin)


def test_a_null_head_dim_asks_for_a_share_of_the_hidden_size() -> None:
    config = {"model_type": "qwen3", "hidden_size": 512, "num_attention_heads": 8, "head_dim": None}

    assert value_of(config, "head_dim") == 64


def test_without_any_width_the_problem_says_which_keys_would_do() -> None:
    with pytest.raises(InvalidBody, match="or hidden_size with num_attention_heads") as raised:
        resolve({"model_type": "unheard-of"})
    assert raised.value.faults[0].where == "/head_dim"


def test_more_heads_than_channels_are_no_width() -> None:
    with pytest.raises(InvalidBody, match="no width of a head"):
        resolve({"hidden_size": 4, "num_attention_heads": 8})
    with pytest.raises(InvalidBody, match="no width of a head"):
        resolve({"model_type": "cohere2", "hidden_size": 4, "num_attention_heads": 8})


@pytest.mark.parametrize(
    ("beside", "rotary_dim"),
    [
        ({"partial_rotary_factor": 0.5}, 64),
        ({"rotary_pct": 0.25}, 32),
        ({"rotary_percentage": 0.25}, 32),
        ({"rotary_emb_fraction": 0.5}, 64),
        ({"rotary_dim": 32}, 32),
        ({"rope_dim": 16}, 16),
        ({"partial_rotary_factor": 0.5, "rotary_dim": 32}, 64),
        ({"rope_parameters": {"partial_rotary_factor": 0.25}, "partial_rotary_factor": 1.0}, 32),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0, "rope_dim": 64}}, 64),
        ({}, 128),
    ],
)
def test_how_many_channels_turn(beside: dict[str, object], rotary_dim: int) -> None:
    assert value_of({**HEAD, **beside}, "rotary_dim") == rotary_dim


def test_llama_s_kin_turn_whole_heads_unless_scaled() -> None:
    scaling = {"rope_type": "linear", "factor": 1.0}

    assert value_of(llama(partial_rotary_factor=0.5), "rotary_dim") == 128
    assert value_of(llama(partial_rotary_factor=0.5, rope_scaling=scaling), "rotary_dim") == 64
    assert codes_of(llama(partial_rotary_factor=1.0)) == []


def test_a_layer_type_may_have_wider_heads() -> None:
    config = {"model_type": "gemma4_text", "global_head_dim": 384}

    assert value_of(config, "head_dim", "full_attention") == 384
    assert value_of(config, "head_dim", "sliding_attention") == 256


def test_of_several_axes_each_has_its_share() -> None:
    config = {"model_type": "sam2_video"}

    entry = resolve(config).entries[0]
    assert 2 * entry.values["rotary_dim"].value == entry.values["head_dim"].value


def test_without_the_key_of_its_class_a_width_is_that_of_any_head() -> None:
    config = {"qk_rope_head_dim": None, "head_dim": 96}

    assert value_of({"model_type": "minicpm3", **config}, "head_dim") == 32
    assert value_of({"model_type": "unheard-of", **config}, "head_dim") == 96


def test_a_number_of_channels_wins_over_a_share_that_disagrees_with_a_warning() -> None:
    gptj = {"model_type": "gptj", "head_dim": 256, "rotary_dim": 64, "partial_rotary_factor": 0.5}

    assert value_of(gptj, "rotary_dim") == 64
    assert "rotary-dim-and-factor-disagree" in codes_of(gptj)
    assert "rotary-dim-and-factor-disagree" not in codes_of({**gptj, "rotary_dim": 128})


def test_minimax_text_01_turns_whole_heads_with_a_warning() -> None:
    config = {"model_type": "minimax", "head_dim": 128, "rotary_dim": 64}

    assert value_of(config, "rotary_dim") == 128
    assert "partial-rotary-ignored" in codes_of(config)


def test_a_share_at_the_top_that_a_class_has_its_own_for_is_a_warning() -> None:
    config = {"model_type": "mimo_v2_flash", "partial_rotary_factor": 0.5}

    assert value_of(config, "rotary_dim", "full_attention") == 64
    assert "key-not-read" in codes_of(config)


def test_heads_that_do_not_divide_the_channels_are_a_warning() -> None:
    assert "heads-do-not-divide" in codes_of(llama(num_attention_heads=33))


def test_heads_of_zamba2_share_twice_the_channels() -> None:
    config = {"model_type": "zamba2", "use_mem_rope": True, "hidden_size": 1024}

    assert value_of({**config, "num_attention_heads": 16}, "head_dim") == 128
