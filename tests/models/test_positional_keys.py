"""The closed list of positional keys: whatever is not understood is refused, never guessed."""

import json
from typing import Any

import pytest

from service.errors import InvalidBody, ModelNotKnown
from service.models.config_values import TOP
from service.models.describe import describe
from service.models.documents import read_document
from service.models.positional_keys import positional_keys
from tests.models.settings import codes_of, llama, resolve, scaled

ASSUMED = {
    "model_type": "unheard-of",
    "hidden_size": 64,
    "num_attention_heads": 8,
    "rope_theta": 10000.0,
    "max_position_embeddings": 512,
}
YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 256}
CONTRADICTIONS: tuple[dict[str, Any], ...] = (
    {"alibi": True},
    {"use_alibi": True},
    {"position_embedding_type": "alibi"},
    {"position_embedding_type": "relative_key"},
    {"positional": "alibi"},
    {"pos_encoding": "alibi"},
    {"positional_embedding": "sinusoidal"},
    {"use_rope": False},
    {"no_rope": True},
    {"mla_use_nope": True},
    {"no_rope_layers": [1, 0]},
    {"is_neox_style": False},
    {"rope_neox": False},
    {"rotary": False},
    {"factor": 8.0},
    {"mscale": 0.707},
    {"beta_fast": 16},
    {"short_factor": [1.0, 2.0]},
    {"rope_type": "yarn"},
    {"rope_scaling_factor": 8.0},
    {"use_dynamic_ntk": True},
    {"attn_temperature_tuning": True},
    {"seq_len_interpolation_factor": 4},
    {"use_rel_pos": True},
)


def pointers_of(config: dict[str, Any]) -> list[str | None]:
    with pytest.raises(InvalidBody) as raised:
        resolve(config)
    return [fault.where for fault in raised.value.faults]


@pytest.mark.parametrize("keys", CONTRADICTIONS, ids=str)
@pytest.mark.parametrize("model", [ASSUMED, llama()], ids=["unknown", "llama"])
def test_positional_keys_that_are_not_understood_are_refused(
    model: dict[str, Any], keys: dict[str, Any]
) -> None:
    assert pointers_of({**model, **keys}) == [f"/{key}" for key in keys]
    assert pointers_of({**model, "attention": keys} | keys)[0] == f"/{next(iter(keys))}"
    assert resolve({**model, **dict.fromkeys(keys)}).entries


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("llama", "rope_interleave", True),
        ("qwen2", "rope_interleave", True),
        ("glm4", "rope_interleave", False),
        ("cohere", "rope_interleave", False),
        ("deepseek_v2", "rope_interleave", False),
        ("nomic_bert", "rotary_emb_interleaved", True),
        ("gptj", "is_neox_style", True),
    ],
)
def test_a_layout_that_the_class_does_not_have_is_refused(name: str, key: str, value: bool) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 8}

    assert pointers_of({"model_type": name, **sizes, key: value}) == [f"/{key}"]
    assert resolve({"model_type": name, **sizes, key: not value}).entries


def test_positional_keys_stand_anywhere() -> None:
    outer = {"model_type": "llava", "alibi": True, "text_config": llama()}

    assert pointers_of(outer) == ["/alibi"]
    assert pointers_of(llama(attn={"bias": {"alibi": True}})) == ["/attn/bias/alibi"]
    assert pointers_of(llama(decoder={"rope_theta": 5e5})) == ["/decoder/rope_theta"]
    assert pointers_of(llama(foo={"rope_theta": 5, "hidden_size": 64})) == ["/foo/rope_theta"]
    assert pointers_of(llama(blocks=[{}, {"use_xpos": True}])) == ["/blocks/1/use_xpos"]
    assert pointers_of({**outer, "alibi": 0.0, "foo": {"alibi": True}})[-1] == "/foo/alibi"
    # The config of another part is not that of the text model, and names as general as factor count
    # at the top alone.
    tower = {"hidden_size": 64, "use_rel_pos": True}
    assert codes_of(llama(vision_config=tower, quantization={"factor": 2})) == []
    assert codes_of(llama(foo={"rope_foo": 3})) == ["unknown-rope-key"]


def test_an_object_that_an_encoding_of_the_type_reads_is_another_part() -> None:
    protein = {"model_type": "", "hidden_size": 1280, "num_attention_heads": 20}

    assert codes_of({"model_type": "evolla", "protein_encoder_config": protein}) == codes_of(
        {"model_type": "evolla", "protein_encoder_config": {**protein, "rope_theta": 5e4}}
    )


def test_unread_values_around_a_text_model_are_a_warning() -> None:
    outer = {"model_type": "llava", "rope_theta": 5e5, "text_config": llama()}

    assert codes_of(outer) == ["key-not-read"]
    assert codes_of({**outer, "rope_theta": 10000.0}) == []


@pytest.mark.parametrize("keys", [{"rope_foo": 3}, {"alibi": True}, {"my_mscale": 2.0}])
def test_names_that_look_positional_are_refused_within_a_rule(keys: dict[str, Any]) -> None:
    assert pointers_of(scaled(**YARN, **keys)) == [f"/rope_scaling/{key}" for key in keys]
    assert "unknown-rope-key" in codes_of(scaled(**YARN, finetuned=True))
    assert codes_of(llama(rope_foo=True)) == ["unknown-rope-key"]


@pytest.mark.parametrize(
    ("scaling", "pointer", "detail"),
    [
        ({"full_attention": [1]}, "/full_attention", "full_attention"),
        ({"rope_type": "linear", "factor": 2.0, "type": []}, "/type", "must be text"),
        ({"rope_type": "linear", "factor": 2.0, "type": 5}, "/type", "must be text"),
        ({"rope_type": ""}, "/rope_type", "without a name"),
        ({**YARN, "truncate": 3}, "/truncate", "must be true or false"),
        ({**YARN, "truncate": -1}, "/truncate", "must be true or false"),
    ],
)
def test_a_rule_that_is_malformed_is_refused(
    scaling: dict[str, Any], pointer: str, detail: str
) -> None:
    with pytest.raises(InvalidBody, match=detail) as raised:
        resolve(llama(rope_parameters=scaling))

    assert [fault.where for fault in raised.value.faults] == [f"/rope_parameters{pointer}"]


def test_type_may_be_null_beside_rope_type() -> None:
    assert codes_of(scaled(rope_type="linear", type=None, factor=2.0)) == []


def test_absolute_positions_are_refused_for_an_unknown_class_alone() -> None:
    absolute = {"position_embedding_type": "absolute"}

    assert codes_of({"model_type": "modernbert", **absolute}).count("key-not-read") == 1
    assert pointers_of({**ASSUMED, **absolute}) == ["/position_embedding_type"]


REMOTE: tuple[dict[str, Any], ...] = (
    {
        "model_type": "chatglm", "hidden_size": 4096, "kv_channels": 128, "num_layers": 28,
        "num_attention_heads": 32, "seq_length": 8192, "original_rope": True, "rope_ratio": 500,
        "apply_residual_connection_post_layernorm": False, "quantization_bit": 0,
    },
    {
        "model_type": "qwen", "hidden_size": 4096, "kv_channels": 128, "num_attention_heads": 32,
        "rotary_emb_base": 10000, "rotary_pct": 1.0, "seq_length": 8192, "use_dynamic_ntk": True,
        "use_logn_attn": True, "max_position_embeddings": 8192, "scale_attn_weights": True,
    },
    {
        "model_type": "hunyuan_v1_moe", "hidden_size": 4096, "attention_head_dim": 128,
        "num_attention_heads": 32, "rope_theta": 10000.0, "use_rotary_pos_emb": True,
        "position_embedding_xdrope": False, "max_position_embeddings": 32768,
        "rope_scaling": {
            "alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
            "mscale_all_dim": 1.0, "type": "dynamic",
        },
    },
    {
        "model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "n_positions": 8192,
        "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False,
        "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
    },
    {
        "model_type": "stablelm_epoch", "hidden_size": 2560, "num_attention_heads": 32,
        "rope_pct": 0.25, "rope_theta": 10000, "rotary_scaling_factor": 1.0,
    },
    {
        "model_type": "new", "hidden_size": 768, "num_attention_heads": 12, "rope_theta": 500000,
        "position_embedding_type": "rope", "max_position_embeddings": 8192,
        "rope_scaling": {"factor": 2.0, "type": "ntk"},
    },
    {"model_type": "openelm", "head_dim": 64, "rope_freq_constant": 10000, "rope_max_length": 4096},
    {"model_type": "xverse", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5},
)  # fmt: skip


@pytest.mark.parametrize("config", REMOTE, ids=lambda config: config["model_type"])
def test_published_models_of_remote_code_keep_their_tables(config: dict[str, Any]) -> None:
    assert resolve(config).entries


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert", "position_embedding_type": "alibi"},
        {"model_type": "bert", "alibi_starting_size": 512},
        {"model_type": "nomic_bert", "rotary_scaling_factor": 2},
    ],
)
def test_published_models_whose_positions_no_class_has_are_refused(config: dict[str, Any]) -> None:
    assert pointers_of(config) == [f"/{key}" for key in config if key != "model_type"]


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert", "position_embedding_type": "absolute"},
        {"model_type": "bloom", "use_rope": False},
        # A width that nothing turns may be 0.
        {"model_type": "glm5_next_text", "head_dim": 0, "qk_rope_head_dim": 0},
    ],
)
def test_a_class_without_rotary_embedding_may_say_so(config: dict[str, Any]) -> None:
    assert codes_of(config) == ["no-rotary-embedding"]


def test_other_names_of_positions_are_a_warning_but_for_dropout() -> None:
    config = llama(position_embedding_init="normal")

    assert codes_of(config) == ["unknown-rope-key"]
    assert codes_of(llama(position_embedding_dropout=0.1, pos_emb_dropout=0.1)) == []


def test_setting_that_an_encoding_other_than_the_rotary_one_reads_is_resolved() -> None:
    config = {"model_type": "mpt", "attn_config": {"alibi": True}}

    assert codes_of(config) == ["no-rotary-embedding", "setting-not-resolved"]
    document = read_document(json.dumps(config).encode())
    assert "setting-not-resolved" not in {each.code for each in describe(document).warnings}


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"model_type": "xlm-roberta", "position_embedding_type": "rotary"}, "/position_embed"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "/position_embed"),
        ({"model_type": "mpt", "attn_config": {"rope": True}}, "/attn_config/rope"),
        ({"model_type": "gpt2", "alibi": True}, "/alibi"),
    ],
)
def test_a_class_without_rotary_embedding_may_not_say_otherwise(
    config: dict[str, Any], pointer: str
) -> None:
    (found,) = pointers_of(config)

    assert found is not None
    assert found.startswith(pointer)


SIZES = {"hidden_size": 64, "num_attention_heads": 8}


@pytest.mark.parametrize(
    ("config", "detail"),
    [
        (SIZES, "without model_type"),
        ({"model_type": "siglip", **SIZES}, "siglip"),
        ({"model_type": "clip", "text_config": SIZES}, "for model_type clip"),
        ({"model_type": "lama", **SIZES}, "did you mean llama or"),
        ({"model_type": "x", "rope_theta": 1e4}, "no width of a head"),
        ({"model_type": "x", "rope_theta": None, **SIZES}, "no rotary base"),
        # DeepSeek's own config of inference has neither base nor rule.
        ({"dim": 7168, "n_heads": 128, "n_layers": 61, "qk_rope_head_dim": 64}, "no rotary base"),
    ],
)
def test_an_unknown_type_without_base_or_width_has_no_table(
    config: dict[str, Any], detail: str
) -> None:
    with pytest.raises(ModelNotKnown, match=detail):
        resolve(config)


def test_an_unknown_type_with_base_and_width_is_assumed_with_warnings() -> None:
    assert {"model-type-unknown", "layout-assumed"} <= set(codes_of(ASSUMED))
    block = {**ASSUMED, "rope_theta": None, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert "theta-assumed" in codes_of(block)


def test_two_names_of_a_setting_with_different_values_are_a_warning() -> None:
    assert codes_of(llama(rotary_emb_base=5e5)) == ["said-twice"]
    inside = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}
    assert codes_of(llama(rope_scaling=inside)) == ["said-twice"]
    assert codes_of(llama(rotary_emb_base=10000)) == []


def test_names_that_the_class_does_not_read_are_a_warning() -> None:
    config = {name: value for name, value in llama().items() if name != "rope_theta"}
    assert codes_of({**config, "rotary_emb_base": 5e5}) == ["class-default-used", "key-not-read"]


def test_an_original_length_that_no_rule_reads_is_a_warning() -> None:
    assert codes_of(llama(original_max_position_embeddings=2048)) == ["key-not-read"]
    assert codes_of(llama(original_max_position_embeddings=8192)) == []


def test_the_closed_list_has_no_key_that_is_always_read() -> None:
    always = {"rope_theta", "rope_ratio", "head_dim", "hidden_size", "partial_rotary_factor"}

    assert always <= set(TOP)
    assert not always & positional_keys().keys()
    assert len(positional_keys()) > 100


@pytest.mark.parametrize("is_tuned", [True, False])
def test_a_key_whose_switch_is_off_changes_nothing(is_tuned: bool) -> None:
    tuned = {"attn_temperature_tuning": is_tuned, "floor_scale": 4096}
    model = {"model_type": "llama4_text", "num_hidden_layers": 8, **tuned}
    assert "setting-not-resolved" not in codes_of(model)


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        ({"model_type": "qwen2_5_omni_thinker"}, {"position_id_per_seconds": 50}),
        ({"model_type": "qwen2_5_omni", "thinker_config": {}}, {"position_id_per_seconds": 50}),
        (
            {"model_type": "qwen3_omni_moe_thinker", "text_config": {"head_dim": 128}},
            {"position_id_per_seconds": 13},
        ),
    ],
)
def test_keys_that_number_tokens_are_resolved(config: dict[str, Any], keys: dict[str, Any]) -> None:
    inside = "thinker_config" in config
    sent = {**config, "thinker_config": keys} if inside else {**config, **keys}

    model = describe(read_document(json.dumps(sent).encode()))

    numbered = [each.numbered.values for each in model.encodings if each.numbered is not None]
    (speed,) = (own["tokens_per_second"] for own in numbered if "tokens_per_second" in own)
    assert (speed.value, speed.origin) == (keys["position_id_per_seconds"], "config")
    assert "setting-not-resolved" not in {each.code for each in model.warnings}


def test_seconds_of_a_talker_whose_tokens_are_not_numbered_are_not_resolved() -> None:
    sent = {"model_type": "qwen2_5_omni_talker", "position_id_per_seconds": 50}

    model = describe(read_document(json.dumps(sent).encode()))

    assert not any(each.numbered for each in model.encodings)
    assert "setting-not-resolved" in {each.code for each in model.warnings}


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"model_type": "wav2vec2-conformer", "max_source_positions": 4000}, None),
        ({"model_type": "wav2vec2-bert", "max_source_positions": 4000}, None),
        ({"model_type": "fastspeech2_conformer", "max_source_positions": 4000}, None),
        ({"model_type": "seamless_m4t", "rotary_embedding_base": 20000}, None),
        ({"model_type": "sam3_tracker_video", "memory_attention_rope_feat_sizes": [9, 9]}, None),
        (
            {"model_type": "pix2struct", "vision_config": {"relative_attention_num_buckets": 64}},
            "/vision_config/relative_attention_num_buckets",
        ),
    ],
)
def test_keys_without_effect_on_the_tables_of_a_class_are_unread(
    config: dict[str, Any], pointer: str | None
) -> None:
    model = describe(read_document(json.dumps(config).encode()))

    assert model.unread == (pointer or f"/{[*config][-1]}",)
    assert "setting-not-resolved" not in {each.code for each in model.warnings}


def test_a_base_is_read_where_positions_are_rotary() -> None:
    config = {"model_type": "seamless_m4t", "position_embeddings_type": "rotary"}
    model = describe(read_document(json.dumps({**config, "rotary_embedding_base": 2e4}).encode()))

    (rotary,) = (each for each in model.encodings if each.kind == "rope")
    assert (model.unread, rotary.values["rope_theta"].value) == ((), 20000)
