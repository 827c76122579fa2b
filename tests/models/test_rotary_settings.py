"""Settings of every frequency rule: type, widths, lengths, base and sections."""

import pytest

from service.models.resolve import resolve
from tests.models.settings import LLAMA, codes_of, entry_of, llama, origin_of, value_of

YARN = {"factor": 4.0, "original_max_position_embeddings": 2048}


@pytest.mark.parametrize(
    ("said", "rope_type"),
    [
        ({"type": "mrope"}, "default"),
        ({"rope_type": None}, "default"),
        ({"type": "linear", "factor": 2}, "linear"),
        ({"type": "yarn", **YARN}, "yarn"),
        ({"type": "deepseek_yarn", **YARN}, "yarn"),
        ({"rope_type": "deepseek_llama_scaling", **YARN}, "yarn"),
        ({"type": "telechat3-yarn", **YARN}, "yarn"),
        ({"type": "xdrope", "alpha": 1000}, "dynamic"),
        ({"type": "linear", "rope_type": "dynamic", "factor": 2}, "dynamic"),
    ],
)
def test_every_alias_of_a_rope_type(said: dict[str, object], rope_type: str) -> None:
    assert value_of(llama(rope_scaling=said), "rope_type") == rope_type


@pytest.mark.parametrize("name", ["su", "yarn", "longrope"])
def test_yarn_with_lists_of_factors_is_longrope(name: str) -> None:
    lists = {"short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0]}
    config = {"model_type": "phi3", "head_dim": 4, "rope_scaling": {"type": name, **lists}}

    assert value_of(config, "rope_type") == "longrope"
    assert origin_of(config, "rope_type") == "alias /rope_scaling/type"


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
def test_the_origin_of_head_dim(config: dict[str, object], head_dim: int, origin: str) -> None:
    assert value_of(config, "head_dim") == head_dim
    assert origin_of(config, "head_dim").startswith(origin)


def test_a_null_head_dim_is_computed_from_hidden_size() -> None:
    config = {"model_type": "qwen3", "hidden_size": 512, "num_attention_heads": 8, "head_dim": None}

    assert value_of(config, "head_dim") == 64


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
def test_rotary_dim(beside: dict[str, object], rotary_dim: int) -> None:
    assert value_of({**HEAD, **beside}, "rotary_dim") == rotary_dim


def test_llama_like_classes_ignore_partial_rotary_factor_unless_scaled() -> None:
    scaling = {"rope_type": "linear", "factor": 1.0}

    assert value_of(llama(partial_rotary_factor=0.5), "rotary_dim") == 128
    assert value_of(llama(partial_rotary_factor=0.5, rope_scaling=scaling), "rotary_dim") == 64
    assert codes_of(llama(partial_rotary_factor=1.0)) == []


def test_a_layer_type_may_have_wider_heads() -> None:
    config = {"model_type": "gemma4_text", "global_head_dim": 384}

    assert value_of(config, "head_dim", "full_attention") == 384
    assert value_of(config, "head_dim", "sliding_attention") == 256


def test_rotary_dim_of_several_axes_is_divided_by_them() -> None:
    config = {"model_type": "sam2_video"}

    entry = resolve(config).entries[0]
    assert 2 * entry.values["rotary_dim"].value == entry.values["head_dim"].value


def test_head_dim_is_read_where_the_key_of_the_class_is_missing() -> None:
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


def test_heads_of_zamba2_share_twice_the_channels() -> None:
    config = {"model_type": "zamba2", "use_mem_rope": True, "hidden_size": 1024}

    assert value_of({**config, "num_attention_heads": 16}, "head_dim") == 128


LENGTHS_YARN = {"rope_type": "yarn", "factor": 4.0}
ORIGINAL = "original_max_position_embeddings"


def test_the_original_length_at_the_top_wins_over_that_of_a_flat_block() -> None:
    config = llama(rope_scaling={**LENGTHS_YARN, ORIGINAL: 1024}, **{ORIGINAL: 2048})
    nested = llama(
        rope_parameters={"full_attention": {**LENGTHS_YARN, ORIGINAL: 1024}}, **{ORIGINAL: 2048}
    )

    assert value_of(config, ORIGINAL) == 2048
    assert value_of(nested, ORIGINAL, "full_attention") == 1024
    assert "original-length-in-two-places" in codes_of(config)


def test_an_original_length_of_the_config_wins_over_that_of_the_class() -> None:
    config = {
        "model_type": "phi3",
        "head_dim": 4,
        "rope_scaling": {
            "rope_type": "longrope",
            "short_factor": [1, 2],
            "long_factor": [3, 4],
            ORIGINAL: 2048,
        },
    }

    assert value_of(config, ORIGINAL) == 2048


def test_the_original_length_is_the_longest_unless_given() -> None:
    config = llama(rope_scaling=LENGTHS_YARN)

    assert value_of(config, ORIGINAL) == 8192
    assert origin_of(config, ORIGINAL) == "computed: /max_position_embeddings"


def test_the_factor_is_computed_from_lengths_unless_given() -> None:
    config = llama(rope_scaling={"type": "yarn", "factor": None, ORIGINAL: 2048})

    assert value_of(config, "factor") == 4.0
    assert origin_of(config, "factor") == (
        "computed: /max_position_embeddings / /rope_scaling/original_max_position_embeddings"
    )


def test_the_factor_of_the_config_wins_over_the_implied_one() -> None:
    config = llama(rope_scaling={**LENGTHS_YARN, "factor": 8.0, ORIGINAL: 2048})

    assert value_of(config, "factor") == 8.0
    assert "implicit-factor-differs" in codes_of(config)
    assert "implicit-factor-differs" not in codes_of(
        llama(rope_scaling={**LENGTHS_YARN, ORIGINAL: 2048})
    )


def test_an_original_length_may_have_gpt_oss_s_name_or_be_the_class_s() -> None:
    config = llama(rope_scaling=LENGTHS_YARN, initial_context_length=2048)
    lists = {"short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0]}
    phi3 = {"model_type": "phi3", "head_dim": 4, "rope_scaling": {"type": "longrope", **lists}}

    assert value_of(config, ORIGINAL) == 2048
    assert origin_of(config, ORIGINAL) == "alias /initial_context_length"
    assert value_of(phi3, ORIGINAL) == 4096


BARE = {name: value for name, value in LLAMA.items() if name != "rope_theta"}


@pytest.mark.parametrize(
    ("beside", "theta", "origin"),
    [
        ({"rope_theta": 5e5, "rotary_emb_base": 7}, 5e5, "/rope_theta"),
        ({"rotary_emb_base": 7e5}, 7e5, "alias /rotary_emb_base"),
        ({"rope_ratio": 500}, 5e6, "computed: 10000 · /rope_ratio"),
        (
            {"rope_theta": 1.0, "rope_parameters": {"rope_theta": 9e5}},
            9e5,
            "/rope_parameters/rope_theta",
        ),
        ({}, 10000.0, "class default of llama (transformers 5.23.0)"),
    ],
)
def test_the_origin_of_rope_theta(beside: dict[str, object], theta: float, origin: str) -> None:
    config = {**BARE, **beside}

    assert value_of(config, "rope_theta") == theta
    assert origin_of(config, "rope_theta") == origin


def test_layer_types_with_bases_of_their_own_keep_them() -> None:
    modern = {"model_type": "modernbert", "rope_theta": 7.0, "global_rope_theta": 8e4}
    gemma4 = {"model_type": "gemma4_text", "rope_theta": 7.0}

    assert value_of(modern, "rope_theta", "full_attention") == 8e4
    assert value_of(modern, "rope_theta", "sliding_attention") == 1e4
    assert value_of(gemma4, "rope_theta", "full_attention") == 1e6
    assert "unknown-rope-key" in codes_of(gemma4)


def test_an_unknown_type_has_a_base_of_10000_with_a_warning() -> None:
    config = {"model_type": "unheard-of", "head_dim": 64}

    assert value_of(config, "rope_theta") == 10000.0
    assert "theta-assumed" in codes_of(config)
    assert "theta-assumed" not in codes_of(llama())


def test_sections_and_their_order_are_read_or_the_class_s_own() -> None:
    said = {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True}
    class_s = {"model_type": "qwen3_vl_text"}

    assert value_of(llama(rope_scaling=said), "mrope_interleaved") is True
    assert value_of(class_s, "mrope_section") == (24, 20, 20)
    assert value_of(class_s, "mrope_interleaved") is True


def test_sections_of_a_class_that_do_not_fit_are_left_out() -> None:
    config = {"model_type": "qwen2_vl_text", "hidden_size": 64, "num_attention_heads": 8}

    assert "mrope_section" not in entry_of(config).values


def test_sections_in_another_order_are_left_out_of_the_table() -> None:
    assert "mrope_section" not in entry_of({"model_type": "ernie4_5_vl_moe_text"}).values
