"""The rotary settings of the layers of one type, with origins and warnings."""

import pytest

from service.errors import InvalidBody
from service.models import rotary_settings
from tests.exact import yarn_mscale
from tests.models.settings import (
    LLAMA,
    codes_of,
    entry_of,
    llama,
    origin_of,
    resolve,
    scaled,
    value_of,
)

ORIGINAL = "original_max_position_embeddings"
AT_2048 = {ORIGINAL: 2048}
YARN = {"rope_type": "yarn", "factor": 4.0}


def with_alpha(alpha: float) -> dict[str, object]:
    scaling = {"type": "dynamic", "factor": 1.0, "alpha": alpha}
    return llama(model_type="hunyuan_v1_dense", rope_scaling=scaling)


@pytest.mark.parametrize(
    ("scaling", "rope_type"),
    [
        ({"type": "mrope"}, "default"),
        ({"rope_type": None}, "default"),
        ({"type": "deepseek_yarn", "factor": 4.0, **AT_2048}, "yarn"),
        ({"rope_type": "deepseek_llama_scaling", "factor": 4.0, **AT_2048}, "yarn"),
        ({"type": "telechat3-yarn", "factor": 4.0, **AT_2048}, "yarn"),
        ({"type": "xdrope", "alpha": 1000}, "dynamic"),
        ({"type": "linear", "rope_type": "dynamic", "factor": 2}, "dynamic"),
    ],
)
def test_rope_type_has_aliases(scaling: dict[str, object], rope_type: str) -> None:
    config = llama(model_type="hunyuan_v1_dense", rope_scaling=scaling)

    assert value_of(config, "rope_type") == rope_type


LISTS = {"short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0]}
PHI3 = {"model_type": "phi3", "head_dim": 4}


@pytest.mark.parametrize("name", ["su", "yarn", "longrope"])
def test_yarn_with_lists_of_factors_is_longrope(name: str) -> None:
    config = {**PHI3, "rope_scaling": {"type": name, **LISTS}}

    assert value_of(config, "rope_type") == "longrope"
    read = "alias /rope_scaling/type"
    expected = read if name == "longrope" else f"computed: {read} is {name}"
    assert origin_of(config, "rope_type") == expected


BASE = {"rope_theta": 10000.0}
HIDDEN = {"hidden_size": 512, "num_attention_heads": 8}
ZAMBA2 = {"model_type": "zamba2", "use_mem_rope": True, "layers_block_type": ["hybrid"]}


@pytest.mark.parametrize(
    ("config", "head_dim", "origin"),
    [
        (llama(head_dim=64), 64, "/head_dim"),
        (llama(), 128, "computed: /hidden_size // /num_attention_heads"),
        ({"model_type": "gptj", "n_embd": 64, "n_head": 4}, 16, "computed: alias /n_embd // "),
        ({"kv_channels": 96, **BASE}, 96, "alias /kv_channels"),
        ({"head_dim": 192, "qk_rope_head_dim": 64, **BASE}, 64, "/qk_rope_head_dim"),
        ({"model_type": "deepseek_v3", "head_dim": 192, "qk_rope_head_dim": 32}, 32, "/qk_rope"),
        ({"model_type": "qwen3", "hidden_size": 5120, "num_attention_heads": 40}, 128, "class"),
        ({"model_type": "qwen3", **HIDDEN, "head_dim": None}, 64, "computed: /hidden_size // "),
        (
            {**ZAMBA2, **HIDDEN},
            128,
            "computed: 2 · /hidden_size",
        ),
        ({"model_type": "minicpm3", "qk_rope_head_dim": None, "head_dim": 96}, 32, "class default"),
        ({"model_type": "x", "qk_rope_head_dim": None, "head_dim": 96, **BASE}, 96, "/head_dim"),
    ],
)
def test_head_dim_has_an_origin(config: dict[str, object], head_dim: int, origin: str) -> None:
    assert value_of(config, "head_dim") == head_dim
    assert origin_of(config, "head_dim").startswith(origin)


UNKNOWN = {"model_type": "unheard-of", "head_dim": 128, "rope_theta": 1e4}
LINEAR = {"rope_type": "linear", "factor": 2.0}
GPTJ = {"model_type": "gptj", "head_dim": 256, "rotary_dim": 64, "partial_rotary_factor": 0.5}


@pytest.mark.parametrize(
    ("config", "rotary_dim"),
    [
        (UNKNOWN, 128),
        ({**UNKNOWN, "rotary_pct": 0.25}, 32),
        ({**UNKNOWN, "rope_dim": 16}, 16),
        ({**UNKNOWN, "partial_rotary_factor": 0.5, "rotary_dim": 32}, 64),
        (
            {
                **UNKNOWN,
                "rope_parameters": {"partial_rotary_factor": 0.25},
                "partial_rotary_factor": 1.0,
            },
            32,
        ),
        ({**UNKNOWN, "rope_scaling": {**LINEAR, "rope_dim": 64}}, 64),
        # Classes such as Llama's ignore the share unless a rule scales the frequencies.
        (llama(partial_rotary_factor=0.5), 128),
        (llama(partial_rotary_factor=0.5, rope_scaling=LINEAR), 64),
        ({"model_type": "minimax", "head_dim": 128, "rotary_dim": 64}, 128),
        # The number of channels wins over a share that disagrees.
        (GPTJ, 64),
        (scaled(rope_type="proportional", partial_rotary_factor=0.25), 128),
    ],
)
def test_rotary_dim_is_a_number_or_a_share_of_channels(
    config: dict[str, object], rotary_dim: int
) -> None:
    assert value_of(config, "rotary_dim") == rotary_dim


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (llama(partial_rotary_factor=1.0), "partial-rotary-ignored"),
        ({**GPTJ, "rotary_dim": 128}, "rotary-dim-and-factor-disagree"),
        (scaled(**YARN, **AT_2048), "implicit-factor-differs"),
        (llama(), "theta-assumed"),
        (with_alpha(1000.0), "dynamic-is-stateful"),
        ({"model_type": "gemma3_text"}, "layers-without-rule"),
        ({"model_type": "gemma3_text", "rope_theta": 5e5}, "key-not-read"),
        ({"head_dim": 64, "rope_theta": 5e5, "rope_local_base_freq": 1e4}, "key-not-read"),
    ],
)
def test_values_that_agree_have_no_warning(config: dict[str, object], code: str) -> None:
    assert code not in codes_of(config)


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"model_type": "mimo_v2_flash", "partial_rotary_factor": 0.5}, "key-not-read"),
        ({"model_type": "mistral4", "partial_rotary_factor": 0.25}, "key-not-read"),
        ({"model_type": "modernbert", "rope_theta": 5e5}, "key-not-read"),
        ({"model_type": "gpt_neox", "rope_theta": 5e5}, "key-not-read"),
        (scaled(**{**YARN, "factor": 8.0}, **AT_2048), "implicit-factor-differs"),
        ({"model_type": "gemma4_text", "rope_theta": 7.0}, "theta-not-everywhere"),
        (scaled(type="dynamic", factor=2.0, **AT_2048), "unknown-rope-key"),
        (
            {
                **llama(layer_types=["a", "b", "a"], rope_parameters={"a": {"rope_theta": 5.0}}),
                "model_type": "olmo3",
            },
            "layers-without-rule",
        ),
    ],
)
def test_values_that_are_not_used_have_a_warning(config: dict[str, object], code: str) -> None:
    assert code in codes_of(config)


NESTED = llama(
    model_type="olmo3", rope_parameters={"full_attention": {**YARN, ORIGINAL: 1024}}, **AT_2048
)
TOP_ONLY = {**NESTED, "rope_parameters": {"full_attention": YARN}}
MODERN = {"model_type": "modernbert", "rope_theta": 7.0, "global_rope_theta": 8e4}
DEEPSEEK4 = {
    "model_type": "deepseek_v4",
    "rope_scaling": {"type": "yarn", "factor": 16.0, ORIGINAL: 65536},
}
SECTIONS = {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True}


@pytest.mark.parametrize(
    ("config", "label", "name", "value"),
    [
        ({"model_type": "gemma4_text", "global_head_dim": 384}, "full_attention", "head_dim", 384),
        ({"model_type": "gemma4_text"}, "sliding_attention", "head_dim", 256),
        ({"model_type": "mimo_v2_flash"}, "full_attention", "rotary_dim", 64),
        # The length at the top wins over that of a flat block, but not over a nested one.
        (scaled(**YARN, **{ORIGINAL: 1024}) | AT_2048, "default", ORIGINAL, 2048),
        (NESTED, "full_attention", ORIGINAL, 1024),
        (TOP_ONLY, "full_attention", ORIGINAL, 8192),
        (scaled(**{**YARN, "factor": 8.0}, **AT_2048), "default", "factor", 8.0),
        (MODERN, "full_attention", "rope_theta", 8e4),
        (MODERN, "sliding_attention", "rope_theta", 1e4),
        ({"model_type": "gemma4_text", "rope_theta": 7.0}, "full_attention", "rope_theta", 1e6),
        (
            {"model_type": "unheard-of", "head_dim": 64, "rope_scaling": {"type": "default"}},
            "default",
            "rope_theta",
            10000.0,
        ),
        (llama(rope_scaling=SECTIONS), "default", "mrope_interleaved", True),
        ({"model_type": "qwen3_vl_text"}, "default", "mrope_section", (24, 20, 20)),
        ({"model_type": "qwen3_vl_text"}, "default", "mrope_interleaved", True),
        (with_alpha(1000.0), "default", "alpha", 1000.0),
        (DEEPSEEK4, "compress", "attention_factor", 1.0),
        (DEEPSEEK4, "main", "rope_type", "default"),
        (
            scaled(rope_type="proportional", partial_rotary_factor=0.25),
            "default",
            "partial_rotary_factor",
            0.25,
        ),
        (scaled(rope_type="proportional", factor=2.0), "default", "factor", 2.0),
        (scaled(**YARN, **AT_2048, attn_factor=1.5), "default", "attention_factor", 1.5),
    ],
)
def test_value_is_that_of_the_config_or_the_class(
    config: dict[str, object], label: str, name: str, value: object
) -> None:
    assert value_of(config, name, label) == value


@pytest.mark.parametrize(
    ("config", "name"),
    [
        # Sections of a class that do not fit the head.
        (
            {"model_type": "qwen2_vl_text", "hidden_size": 64, "num_attention_heads": 8},
            "mrope_section",
        ),
        (scaled(type="dynamic", factor=2.0, **AT_2048), ORIGINAL),
        (scaled(rope_type="proportional", factor=2.0), "partial_rotary_factor"),
    ],
)
def test_value_that_the_table_does_not_depend_on_is_left_out(
    config: dict[str, object], name: str
) -> None:
    assert name not in entry_of(config).values


BARE = {name: value for name, value in LLAMA.items() if name != "rope_theta"}


@pytest.mark.parametrize(
    ("config", "name", "value", "origin"),
    [
        (scaled(**YARN), ORIGINAL, 8192, "computed: /max_position_embeddings"),
        (
            scaled(**YARN) | {"initial_context_length": 2048},
            ORIGINAL,
            2048,
            "alias /initial_context_length",
        ),
        (
            {**PHI3, "rope_scaling": {"type": "longrope", **LISTS}},
            ORIGINAL,
            4096,
            "class default of phi3 (transformers 5.23.0)",
        ),
        (
            {**PHI3, "rope_scaling": {"type": "longrope", **LISTS, **AT_2048}},
            ORIGINAL,
            4096,
            "class default of phi3 (transformers 5.23.0)",
        ),
        (
            scaled(type="yarn", factor=None, **AT_2048),
            "factor",
            4.0,
            f"computed: /max_position_embeddings / /rope_scaling/{ORIGINAL}",
        ),
        ({**BARE, "rope_theta": 5e5, "rotary_emb_base": 7}, "rope_theta", 5e5, "/rope_theta"),
        (
            {**BARE, "model_type": "another", "rotary_emb_base": 7e5},
            "rope_theta",
            7e5,
            "alias /rotary_emb_base",
        ),
        ({**BARE, "rope_ratio": 500}, "rope_theta", 5e6, "computed: 10000 · /rope_ratio"),
        (
            {**BARE, "rope_theta": 1.0, "rope_parameters": {"rope_theta": 9e5}},
            "rope_theta",
            9e5,
            "/rope_parameters/rope_theta",
        ),
        (BARE, "rope_theta", 10000.0, "class default of llama (transformers 5.23.0)"),
        ({"head_dim": 64, **BASE}, "max_position_embeddings", 4096, "assumed"),
        (
            {"head_dim": 64, "rope_scaling": {**YARN, **AT_2048}},
            "max_position_embeddings",
            8192,
            f"computed: /rope_scaling/{ORIGINAL} · /rope_scaling/factor",
        ),
    ],
)
def test_lengths_factors_and_bases_have_an_origin(
    config: dict[str, object], name: str, value: float, origin: str
) -> None:
    assert value_of(config, name) == value
    assert origin_of(config, name) == origin


@pytest.mark.parametrize(
    ("scaling", "lengths"),
    [
        ({"type": "dynamic", "factor": 2.0}, (8192, 16384)),
        (
            {
                "type": "longrope",
                "short_factor": [1.0] * 64,
                "long_factor": [2.0] * 64,
                **AT_2048,
            },
            (2048, 8192),
        ),
    ],
)
def test_rules_that_depend_on_the_length_have_two_regimes(
    scaling: dict[str, object], lengths: tuple[int, ...]
) -> None:
    assert entry_of(llama(rope_scaling=scaling)).lengths == lengths
    assert entry_of(with_alpha(1000.0)).lengths == ()


def test_context_length_is_the_original_length_unless_given() -> None:
    entry = entry_of(scaled(type="dynamic", factor=2.0))

    assert entry.at(None)["context_length"].value == 8192
    assert entry.at(None)["context_length"].sources == ("/max_position_embeddings",)
    assert entry.at(20000)["context_length"].value == 20000
    assert entry.at(20000)["context_length"].sources == ("?context_length",)
    assert "context_length" not in entry_of(llama()).at(20000)


def test_context_length_has_a_warning_only_if_no_rule_depends_on_it() -> None:
    dynamic = resolve(scaled(type="dynamic", factor=2.0), 20000)

    assert [each.code for each in resolve(llama(), 20000).warnings] == ["context-length-unused"]
    assert "context-length-unused" not in [each.code for each in dynamic.warnings]


def test_mscales_of_phimoe_replace_the_attention_factor() -> None:
    scaling = {"type": "longrope", **LISTS, **AT_2048, "short_mscale": 1.25, "long_mscale": 1.5}
    entry = entry_of({"model_type": "phimoe", "head_dim": 4, "rope_scaling": scaling})

    factors = [entry.at(length)["attention_factor"].value for length in (None, 2048, 2049)]
    assert factors == [1.25, 1.25, 1.5]


@pytest.mark.parametrize("factor", [1.5, 4.0, 40.0, 1e6])
def test_attention_factor_of_telechat_has_a_slope_of_0_07(factor: float) -> None:
    scaling = {"type": "telechat3-yarn", "factor": factor, **AT_2048}
    mscales = {"mscale": 1.0, "mscale_all_dim": 0.707}
    above, below = (yarn_mscale(factor, mscale, "0.07") for mscale in mscales.values())

    assert value_of(scaled(**scaling), "attention_factor") == float(above)
    assert value_of(scaled(**scaling, **mscales), "attention_factor") == float(above / below)
    assert value_of(scaled(**{**scaling, "factor": 0.5}), "attention_factor") == 1.0


def test_rule_without_warnings_of_its_own_needs_only_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rotary_settings, "_READERS", {})
    factors = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}

    entry = entry_of(scaled(type="llama3", **factors, **AT_2048))

    assert {name: entry.values[name].value for name in factors} == factors
    with pytest.raises(InvalidBody, match="low_freq_factor"):
        resolve(scaled(type="llama3", factor=8.0, **AT_2048))


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (scaled(type="yarn", factor=2.0, **AT_2048, beta_fast=0), "beta_fast"),
        (scaled(type="yarn", factor=2.0, **AT_2048, beta_slow=0), "beta_slow"),
        (with_alpha(0), "alpha"),
    ],
)
def test_value_0_that_is_ignored_has_a_warning(config: dict[str, object], name: str) -> None:
    assert name not in entry_of(config).values
    assert "zero-ignored" in codes_of(config)


MANY = {f"k{i}": 1 for i in range(100_000)}
MISSPELLED = {"model_type": "gemma3_text", "layer_types": ["full_attention", "sliding_atention"]}
OTHERS = {"full_attention": None, "sliding_attention": {"rope_theta": 5.0}}


@pytest.mark.parametrize(
    ("config", "detail"),
    [
        (
            scaled(type="linear", factor=2.0, facter=4.0),
            "linear does not use facter; did you mean factor?",
        ),
        (scaled(factor=4.0), "default does not use factor: no rope_type is given"),
        (scaled(type="linear", factor=2.0, **MANY), "linear does not use 99980 more keys"),
        (MISSPELLED, "did you mean sliding_attention?"),
        (
            {"model_type": "gemma3_text", "rope_parameters": {**OTHERS, "full_atention": {}}},
            "did you mean full_attention?",
        ),
        (
            llama(model_type="another", rope_parameters=OTHERS),
            "layers of type full_attention have no rotary",
        ),
    ],
    ids=["typo", "no rope_type", "many keys", "layer type", "block", "types without rotation"],
)
def test_warning_names_its_key_or_layer_type(config: dict[str, object], detail: str) -> None:
    warnings = resolve(config).warnings

    assert any(detail in warning.detail for warning in warnings)
    assert len(warnings) <= 21


def test_long_label_has_no_suggestion() -> None:
    label = "full_atention" + "_" * 40
    config = {"model_type": "gemma3_text", "rope_parameters": {**OTHERS, label: {}}}
    (detail,) = [each.detail for each in resolve(config).warnings if each.code == "layers-unknown"]

    assert "did you mean" not in detail


@pytest.mark.parametrize(
    ("name", "label", "section", "layout"),
    [
        ("ernie4_5_vl_moe_text", "default", (22, 22, 20), "ernie4_5_vl"),
        ("neomme", "sliding_attention", (16, 16), "neomme"),
        ("neomme", "full_attention", (4, 4), "neomme"),
    ],
)
def test_orders_of_position_axes_have_the_name_of_their_layout(
    name: str, label: str, section: tuple[int, ...], layout: str
) -> None:
    config = {"model_type": name}

    assert value_of(config, "mrope_section", label) == section
    assert value_of(config, "mrope_layout", label) == layout
    assert "mrope-axes" not in codes_of(config)


@pytest.mark.parametrize("section", [[16, 24, 24], [16, 16, 16, 16]])
def test_sections_of_hunyuan_are_those_of_its_own_layout(section: list[int]) -> None:
    scaling = {"type": "xdrope", "alpha": 1000.0, "xdrope_section": section}
    config = {"model_type": "hunyuan_vl_text", "head_dim": 128, "rope_scaling": scaling}

    assert value_of(config, "mrope_section") == tuple(section)
    assert value_of(config, "mrope_layout") == "hunyuan_vl"
    assert "mrope_layout" not in entry_of({**config, "rope_scaling": None}).at(None)


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        (llama(rotary_pct=0.5, rope_scaling={"type": "linear", "factor": 2.0}), "rotary_dim", 128),
        (scaled(type="linear", factor=2.0, rotary_dim=64), "rotary_dim", 128),
        (scaled(type="dynamic", factor=2.0, alpha=1000.0), "factor", 2.0),
        (llama(n_embd=1024, n_head=4), "head_dim", 128),
        ({**BARE, "rotary_emb_base": 5e5}, "rope_theta", 10000.0),
        ({"model_type": "bamba", "partial_rotary_factor": 1.0}, "rotary_dim", 64),
        (
            {
                "model_type": "hunyuan_v1_dense",
                "partial_rotary_factor": 0.5,
                "rope_scaling": {"type": "dynamic", "alpha": 1000.0},
            },
            "rotary_dim",
            128,
        ),
        (
            {**ZAMBA2, "attention_head_dim": 64},
            "head_dim",
            64,
        ),
    ],
)
def test_width_is_that_of_the_keys_that_the_class_reads(
    config: dict[str, object], name: str, value: int
) -> None:
    assert value_of(config, name) == value
