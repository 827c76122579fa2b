"""Published models, layouts of pairs, factors of attention, and keys that nothing reads."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.exact import yarn_mscale
from tests.models.settings import codes_of, llama, resolve

MODELS = json.loads((Path(__file__).parents[1] / "data/rope_models.json").read_text())["models"]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
def test_published_models_have_their_layouts_and_widths(model: dict[str, Any]) -> None:
    resolved = resolve(model["hf_config"])

    assert resolved.layout == model["layout"]
    assert {entry.label for entry in resolved.entries} == {
        label for label in model["rotary_dim"] if "(" not in label
    }
    for entry in resolved.entries:
        head_dim = model["head_dim"]
        if isinstance(head_dim, dict):
            head_dim = head_dim[entry.label]
        assert entry.values["head_dim"].value == head_dim
        assert entry.values["rotary_dim"].value == model["rotary_dim"][entry.label]


def test_verbatim_published_configs_have_no_assumed_or_unknown_warnings() -> None:
    for model in MODELS:
        if model["confidence"] == "verbatim-copy":
            codes = {warning.code for warning in resolve(model["hf_config"]).warnings}
            assert not {code for code in codes if code.endswith(("-assumed", "-unknown"))}


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bloom"},
        {"model_type": "falcon", "alibi": True},
        {"model_type": "esm", "position_embedding_type": "absolute"},
        {"model_type": "zamba2"},
        {"model_type": "cohere2", "sliding_window": None},
        {"model_type": "flint", "sliding_window": None},
    ],
)
def test_models_without_rotary_embedding_have_a_warning(config: dict[str, object]) -> None:
    resolved = resolve(config)

    assert resolved.entries == ()
    assert "no-rotary-embedding" in [warning.code for warning in resolved.warnings]


def test_rope_if_enables_rotary_embeddings() -> None:
    assert resolve({"model_type": "falcon", "alibi": False}).entries
    assert resolve({"model_type": "granitemoehybrid", "position_embedding_type": "rope"}).entries


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
        ({"head_dim": 4, "rope_theta": 1e4}, "half", None),
        ({"head_dim": 4, "rope_theta": 1e4, "rotary_interleaved": True}, "interleaved", None),
        ({"model_type": "bert"}, "none", None),
    ],
)
def test_layout_is_resolved_from_model_type_and_config(
    config: dict[str, object], layout: str, writes: str | None
) -> None:
    resolved = resolve(config)

    assert (resolved.layout, resolved.writes) == (layout, writes)


YARN = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
MSCALES = {"mscale": 1.0, "mscale_all_dim": 1.0}


def test_softmax_of_deepseek_is_scaled_by_mscale_all_dim() -> None:
    config = {"model_type": "deepseek_v3", "rope_scaling": {**YARN, **MSCALES}}

    exact = float(yarn_mscale(40.0, 1.0) ** 2)
    assert resolve(config).attention["softmax_scale_multiplier"] == exact
    assert resolve({"model_type": "deepseek_v3", "rope_scaling": YARN}).attention == {}


def test_query_temperature_of_llama_4_is_for_nope_layers() -> None:
    config = {"model_type": "llama4_text", "num_hidden_layers": 8, "floor_scale": 4096}
    off = {**config, "attn_temperature_tuning": False}

    temperature = resolve(config).attention["query_temperature"]
    assert (temperature["attn_scale"], temperature["floor_scale"]) == (0.1, 4096)
    assert temperature["layers"] == [3, 7]
    assert resolve(off).attention == {}


def test_query_temperature_of_ministral_3_uses_the_original_length() -> None:
    scaling = {**YARN, **MSCALES, "llama_4_scaling_beta": 0.1}
    attention = resolve({"model_type": "ministral3", "rope_parameters": scaling}).attention

    assert attention["query_temperature"]["llama_4_scaling_beta"] == 0.1
    assert attention["query_temperature"]["original_max_position_embeddings"] == 4096
    assert (
        str(attention["origin"]["llama_4_scaling_beta"]) == "/rope_parameters/llama_4_scaling_beta"
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {**YARN, "llama_4_scaling_beta": 0},
        {"rope_type": "default", "llama_4_scaling_beta": 0.1},
    ],
)
def test_no_query_temperature_with_beta_0_or_without_original_length(
    parameters: dict[str, object],
) -> None:
    assert resolve({"model_type": "ministral3", "rope_parameters": parameters}).attention == {}


def test_origin_of_a_query_temperature_of_an_unknown_class_is_its_beta() -> None:
    scaling = {**YARN, "llama_4_scaling_beta": 0.1}
    attention = resolve({"model_type": "llama", "rope_scaling": scaling}).attention

    assert str(attention["origin"]["query_temperature"]) == (
        "computed: implied by /rope_scaling/llama_4_scaling_beta"
    )


def test_mscale_all_dim_of_an_unknown_class_is_a_warning() -> None:
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
def test_warning_of_an_unknown_key_suggests_the_nearest(key: str, meant: str) -> None:
    assert details_of(llama(**{key: 5})) == [f"{key} is not read; did you mean {meant}?"]


@pytest.mark.parametrize(
    "config",
    [
        llama(rope_x=False, use_dynamic_ntk=False, alibi=False, rotary_scaling_factor=None),
        llama(rope_interleaved=False),
        # Keys that enable rotary embeddings, or name the other positions that a class has.
        llama(rotary=True, use_rotary_pos_emb=True),
        {"model_type": "mpt", "attn_config": {"alibi": True}},
        {"model_type": "smollm3", "no_rope_layer_interval": 4},
        {"model_type": "deepseek_v3", "rope_interleave": True},
        {"model_type": "modernbert", "global_rope_theta": 1e4},
    ],
)
def test_null_false_and_known_keys_have_no_warning(config: dict[str, object]) -> None:
    assert details_of(config) == []


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"model_type": "bert", "rope_pct": 0.5}, "/rope_pct"),
        ({"model_type": "gpt2", "rope_scaling": {"type": "linear"}}, "/rope_scaling"),
    ],
)
def test_rotary_keys_of_a_type_without_rotary_embedding_are_a_warning(
    config: dict[str, object], pointer: str
) -> None:
    warnings = resolve(config).warnings

    assert [warning.code for warning in warnings] == ["no-rotary-embedding", "key-not-read"]
    assert warnings[1].pointer.startswith(pointer)


def test_warnings_name_the_first_unread_keys_and_count_the_others() -> None:
    many = {f"rope_{i}": 1 for i in range(100_000)}

    assert len(details_of(llama(**many))) == 21
    assert details_of(llama(**many))[-1] == "99980 more keys are not read"
