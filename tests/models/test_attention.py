"""Which channels turn together.

What attention multiplies beside the table.

Keys that sound like rotary settings and are none.
"""

import pytest

from service.models.resolve import resolve
from tests.exact import yarn_mscale
from tests.models.settings import codes_of, llama

DEEPSEEK = {"model_type": "deepseek_v3"}


@pytest.mark.parametrize(
    ("config", "layout", "writes"),
    [
        (llama(), "half", None),
        ({"model_type": "glm4"}, "interleaved", None),
        ({"model_type": "glm4_moe"}, "half", None),
        ({"model_type": "deepseek_v2"}, "interleaved", None),
        (DEEPSEEK, "interleaved", "half"),
        ({**DEEPSEEK, "rope_interleave": False}, "half", None),
        ({"head_dim": 4}, "half", None),
        ({"head_dim": 4, "rotary_emb_interleaved": True}, "interleaved", None),
        ({"model_type": "bert"}, "none", None),
    ],
)
def test_the_layout_of_a_model(config: dict[str, object], layout: str, writes: str | None) -> None:
    resolved = resolve(config)

    assert (resolved.layout, resolved.writes) == (layout, writes)


def test_a_layout_that_a_config_says_is_no_assumption() -> None:
    assert "layout-assumed" in codes_of({"head_dim": 4})
    assert "layout-assumed" not in codes_of({"head_dim": 4, "rope_traditional": True})


YARN = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
MSCALES = {"mscale": 1.0, "mscale_all_dim": 1.0}


def test_deepseek_s_softmax_is_scaled_by_mscale_all_dim() -> None:
    config = {"model_type": "deepseek_v3", "rope_scaling": {**YARN, **MSCALES}}

    exact = float(yarn_mscale(40.0, 1.0) ** 2)
    assert resolve(config).attention["softmax_scale_multiplier"] == exact
    assert resolve({"model_type": "deepseek_v3", "rope_scaling": YARN}).attention == {}


def test_queries_of_llama_4_grow_in_layers_without_rotary_embedding() -> None:
    config = {"model_type": "llama4_text", "num_hidden_layers": 8, "floor_scale": 4096}
    off = {**config, "attn_temperature_tuning": False}

    temperature = resolve(config).attention["query_temperature"]
    assert (temperature["attn_scale"], temperature["floor_scale"]) == (0.1, 4096)
    assert temperature["layers"] == [3, 7]
    assert resolve(off).attention == {}


def test_queries_of_ministral_3_grow_by_the_original_length() -> None:
    scaling = {**YARN, **MSCALES, "llama_4_scaling_beta": 0.1}
    attention = resolve({"model_type": "ministral3", "rope_parameters": scaling}).attention

    assert attention["query_temperature"]["llama_4_scaling_beta"] == 0.1
    assert attention["query_temperature"]["original_max_position_embeddings"] == 4096
    assert attention["origin"]["llama_4_scaling_beta"] == "/rope_parameters/llama_4_scaling_beta"


def test_a_beta_of_0_or_a_rule_without_original_length_leaves_queries_as_they_are() -> None:
    flat = {**YARN, "llama_4_scaling_beta": 0}

    assert resolve({"model_type": "ministral3", "rope_parameters": flat}).attention == {}
    plain = {"rope_type": "default", "llama_4_scaling_beta": 0.1}
    assert resolve({"model_type": "ministral3", "rope_parameters": plain}).attention == {}


def test_a_beta_in_a_class_that_is_not_known_for_it_is_said_to_imply_the_formula() -> None:
    scaling = {**YARN, "llama_4_scaling_beta": 0.1}
    attention = resolve({"model_type": "llama", "rope_scaling": scaling}).attention

    assert attention["origin"]["query_temperature"] == (
        "computed: implied by /rope_scaling/llama_4_scaling_beta"
    )


def test_without_a_known_class_a_softmax_multiplier_is_a_warning() -> None:
    config = {"model_type": "unheard-of", "head_dim": 64, "rope_scaling": {**YARN, **MSCALES}}

    assert resolve(config).attention == {}
    assert "softmax-scale-unknown" in codes_of(config)


def details_of(config: dict[str, object]) -> list[str]:
    return [w.detail for w in resolve(config).warnings if w.code == "unknown-rope-key"]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("rope_scalling", "rope_scaling"),
        ("ropeScaling", "rope_scaling"),
        ("rope_teta", "rope_theta"),
        ("rotary_pctt", "rotary_pct"),
    ],
)
def test_a_misspelled_key_is_told_the_nearest(key: str, meant: str) -> None:
    assert details_of(llama(**{key: 5})) == [f"{key} is not read; did you mean {meant}?"]


def test_what_says_nothing_or_is_read_is_no_warning() -> None:
    silent = dict.fromkeys(["rope_x", "use_dynamic_ntk", "alibi"], False)

    assert codes_of(llama(**silent, rotary_scaling_factor=None, rope_interleaved=True)) == []
    assert details_of({"model_type": "smollm3", "no_rope_layer_interval": 4}) == []
    assert details_of({"model_type": "deepseek_v3", "rope_interleave": True}) == []
    assert details_of({"model_type": "modernbert", "global_rope_theta": 1e4}) == []


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"model_type": "xlm-roberta", "position_embedding_type": "rotary"}, "/position_embedd"),
        ({"model_type": "mpt", "attn_config": {"rope": True}}, "/attn_config/rope"),
        ({"model_type": "gpt2", "rope_scaling": {"type": "linear"}}, "/rope_scaling"),
    ],
)
def test_rotary_settings_of_a_type_without_are_a_warning(
    config: dict[str, object], pointer: str
) -> None:
    warnings = resolve(config).warnings

    assert [warning.code for warning in warnings] == ["no-rotary-embedding", "unknown-rope-key"]
    assert warnings[1].pointer.startswith(pointer)


def test_of_many_keys_the_first_are_named_and_the_others_counted() -> None:
    many = {f"rope_{i}": 1 for i in range(100_000)}

    assert len(details_of(llama(**many))) == 21
    assert details_of(llama(**many))[-1] == "99980 more keys are not read"


def test_that_there_is_a_rotary_embedding_is_no_news() -> None:
    assert details_of(llama(rotary=True, use_rotary_pos_emb=True)) == []
    assert details_of({"model_type": "mpt", "attn_config": {"alibi": True}}) == []
