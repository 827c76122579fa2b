"""The rotary settings of the layers of one type, with warnings."""

import pytest

from service.errors import InvalidBody
from service.models import rotary_settings
from service.models.resolve import resolve
from tests.exact import yarn_mscale
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


HIDDEN = {"hidden_size": 512, "num_attention_heads": 8}
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
        ({"model_type": "qwen3", **HIDDEN, "head_dim": None}, 64, "computed: /hidden_size // "),
        (
            {"model_type": "zamba2", "use_mem_rope": True, **HIDDEN},
            128,
            "computed: 2 · /hidden_size",
        ),
        ({"model_type": "minicpm3", "qk_rope_head_dim": None, "head_dim": 96}, 32, "class default"),
        ({"model_type": "unheard-of", "qk_rope_head_dim": None, "head_dim": 96}, 96, "/head_dim"),
    ],
)
def test_the_origin_of_head_dim(config: dict[str, object], head_dim: int, origin: str) -> None:
    assert value_of(config, "head_dim") == head_dim
    assert origin_of(config, "head_dim").startswith(origin)


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


LISTS = {"rope_type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0]}
PHI3 = {"model_type": "phi3", "head_dim": 4}


@pytest.mark.parametrize(
    ("config", "length", "origin"),
    [
        (llama(rope_scaling=LENGTHS_YARN), 8192, "computed: /max_position_embeddings"),
        (
            llama(rope_scaling=LENGTHS_YARN, initial_context_length=2048),
            2048,
            "alias /initial_context_length",
        ),
        ({**PHI3, "rope_scaling": LISTS}, 4096, "class default of phi3 (transformers 5.23.0)"),
        (
            {**PHI3, "rope_scaling": {**LISTS, ORIGINAL: 2048}},
            2048,
            f"/rope_scaling/{ORIGINAL}",
        ),
    ],
)
def test_the_origin_of_the_original_length(
    config: dict[str, object], length: int, origin: str
) -> None:
    assert value_of(config, ORIGINAL) == length
    assert origin_of(config, ORIGINAL) == origin


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


AT_2048 = {"original_max_position_embeddings": 2048}


def test_dynamic_has_a_regime_up_to_the_original_length_and_one_beyond() -> None:
    config = llama(rope_scaling={"type": "dynamic", "factor": 2.0, **AT_2048})

    assert entry_of(config).lengths == (8192, 16384)
    assert "original_max_position_embeddings" not in entry_of(config).values
    assert "unknown-rope-key" in codes_of(config)


def test_dynamic_with_alpha_does_not_depend_on_the_length() -> None:
    config = llama(rope_scaling={"type": "dynamic", "factor": 1.0, "alpha": 1000.0})

    assert entry_of(config).lengths == ()
    assert value_of(config, "alpha") == 1000.0
    assert "dynamic-is-stateful" not in codes_of(config)


def test_longrope_has_a_list_for_each_regime() -> None:
    lists = {"short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
    config = llama(rope_scaling={"type": "longrope", **lists, **AT_2048})

    assert entry_of(config).lengths == (2048, 8192)
    assert value_of(config, "factor") == 4.0


def test_mscales_of_phimoe_replace_the_attention_factor() -> None:
    lists = {"short_factor": [1.0] * 2, "long_factor": [2.0] * 2, **AT_2048}
    mscales = {"short_mscale": 1.25, "long_mscale": 1.5}
    scaling = {"type": "longrope", **lists, **mscales}
    entry = entry_of({"model_type": "phimoe", "head_dim": 4, "rope_scaling": scaling})

    assert entry.at(None)["attention_factor"].value == 1.25
    assert entry.at(2048)["attention_factor"].value == 1.25
    assert entry.at(2049)["attention_factor"].value == 1.5


@pytest.mark.parametrize("factor", [1.5, 4.0, 40.0, 1e6])
def test_telechat_s_attention_factor_is_its_own(factor: float) -> None:
    scaling = {"type": "telechat3-yarn", "factor": factor, **AT_2048}
    mscales = {"mscale": 1.0, "mscale_all_dim": 0.707}
    above, below = (yarn_mscale(factor, mscale, "0.07") for mscale in mscales.values())

    assert value_of(llama(rope_scaling=scaling), "attention_factor") == float(above)
    assert value_of(llama(rope_scaling={**scaling, **mscales}), "attention_factor") == float(
        above / below
    )
    shrunk = llama(rope_scaling={**scaling, "factor": 0.5})
    assert value_of(shrunk, "attention_factor") == 1.0


def test_deepseek_v4_s_yarn_has_an_attention_factor_of_1() -> None:
    scaling = {"type": "yarn", "factor": 16.0, "original_max_position_embeddings": 65536}
    config = {"model_type": "deepseek_v4", "rope_scaling": scaling}

    assert value_of(config, "attention_factor", "compress") == 1.0
    assert value_of(config, "rope_type", "main") == "default"


def test_a_share_of_proportional_is_the_rule_s_own() -> None:
    config = llama(rope_scaling={"rope_type": "proportional", "partial_rotary_factor": 0.25})

    assert value_of(config, "rotary_dim") == 128
    assert value_of(config, "partial_rotary_factor") == 0.25


def test_a_rule_without_warnings_of_its_own_needs_only_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rotary_settings, "_READERS", {})
    scaling = {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}

    entry = entry_of(llama(rope_scaling={**scaling, **AT_2048}))

    assert {name: entry.values[name].value for name in scaling if name != "type"} == {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }
    with pytest.raises(InvalidBody, match="low_freq_factor"):
        resolve(llama(rope_scaling={"type": "llama3", "factor": 8.0, **AT_2048}))


@pytest.mark.parametrize(
    ("rope_type", "name"), [("yarn", "beta_fast"), ("yarn", "beta_slow"), ("dynamic", "alpha")]
)
def test_a_0_that_counts_as_missing_is_a_warning(rope_type: str, name: str) -> None:
    config = llama(rope_scaling={"type": rope_type, "factor": 2.0, **AT_2048, name: 0})

    assert name not in entry_of(config).values
    assert "zero-ignored" in codes_of(config)


def test_attn_factor_is_read_with_a_warning() -> None:
    config = llama(rope_scaling={"type": "yarn", "factor": 4.0, **AT_2048, "attn_factor": 1.5})

    assert value_of(config, "attention_factor") == 1.5
    assert "attn-factor-alias" in codes_of(config)


def test_proportional_without_partial_rotary_factor_rotates_every_pair() -> None:
    entry = entry_of(llama(rope_scaling={"rope_type": "proportional", "factor": 2.0}))

    assert "partial_rotary_factor" not in entry.values
    assert entry.values["factor"].value == 2.0


def test_the_warning_of_an_unused_key_suggests_the_nearest_or_a_rope_type() -> None:
    said = resolve(llama(rope_scaling={"type": "linear", "factor": 2.0, "facter": 4.0})).warnings
    untyped = resolve(llama(rope_scaling={"factor": 4.0})).warnings

    assert said[0].detail == "linear does not use facter; did you mean factor?"
    assert untyped[0].detail == "default does not use factor: no rope_type is given"


def test_warnings_name_the_first_unused_keys_and_count_the_others() -> None:
    many = {f"k{i}": 1 for i in range(100_000)}
    warnings = resolve(llama(rope_scaling={"type": "linear", "factor": 2.0, **many})).warnings

    assert len(warnings) == 21
    assert warnings[-1].detail == "linear does not use 99980 more keys"


def test_the_context_length_is_the_original_length_unless_given() -> None:
    entry = entry_of(llama(rope_scaling={"type": "dynamic", "factor": 2.0}))

    assert entry.at(None)["context_length"].value == 8192
    assert entry.at(20000)["context_length"].value == 20000
    assert entry.at(20000)["context_length"].origin == "?context_length"
    assert "context_length" not in entry_of(llama()).at(20000)


def test_a_missing_maximal_length_is_computed_or_assumed() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    bare = {"head_dim": 64, "rope_theta": 1e4}

    assert value_of({**bare, "rope_scaling": yarn}, "max_position_embeddings") == 8192
    assert value_of(bare, "max_position_embeddings") == 4096
    assert origin_of(bare, "max_position_embeddings") == "assumed"
    assert "max-length-assumed" in codes_of(bare)


def test_layers_without_a_rule_are_a_warning() -> None:
    listed = llama(layer_types=["a", "b", "a"], rope_parameters={"a": {"rope_theta": 5.0}})
    misspelled = {
        "model_type": "gemma3_text",
        "layer_types": ["full_attention", "sliding_atention"],
    }

    assert "layers-without-rule" in codes_of(listed)
    assert "layers-without-rule" in codes_of(misspelled)
    assert any("mean sliding_attention" in w.detail for w in resolve(misspelled).warnings)
    assert "layers-without-rule" not in codes_of({"model_type": "gemma3_text"})


def test_the_warning_of_an_unknown_layer_type_suggests_the_nearest() -> None:
    nested = {"full_atention": {"rope_theta": 5.0}, "sliding_attention": {"rope_theta": 5.0}}
    warnings = resolve({"model_type": "gemma3_text", "rope_parameters": nested}).warnings

    assert any("did you mean full_attention?" in warning.detail for warning in warnings)


def test_the_warning_of_nope_layers_names_types_where_layers_are_unknown() -> None:
    nested = {"full_attention": None, "sliding_attention": {"rope_theta": 5.0}}
    warnings = resolve(llama(rope_parameters=nested)).warnings

    assert "layers of type full_attention have no rotary" in " ".join(w.detail for w in warnings)


def test_a_context_length_without_use_is_a_warning() -> None:
    dynamic = llama(rope_scaling={"type": "dynamic", "factor": 2.0})

    codes = [warning.code for warning in resolve(llama(), 20000).warnings]
    assert codes == ["context-length-unused"]
    assert "context-length-unused" not in [w.code for w in resolve(dynamic, 20000).warnings]


def test_a_long_label_has_no_suggestion() -> None:
    short, long = "full_atention", "full_atention" + "_" * 40
    known = {"full_attention": None, "sliding_attention": {"rope_theta": 5.0}}
    for label, has_hint in ((short, True), (long, False)):
        blocks = {"model_type": "gemma3_text", "rope_parameters": {**known, label: {}}}
        details = [w.detail for w in resolve(blocks).warnings if w.code == "layers-unknown"]
        assert any("did you mean" in detail for detail in details) == has_hint
