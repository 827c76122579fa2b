"""Every format: found by its own keys, and its settings as its program has them."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from service.errors import InvalidBody, InvalidParameters, PosrefError
from service.models.config_values import ConfigWarning
from service.models.documents import format_names, read_document
from service.models.resolve import Resolved
from service.models.translation import ModelDocument, format_tables
from tests.models.settings import resolve

Json = dict[str, Any]


def read(document: object, form: str | None = None) -> ModelDocument:
    text = document if isinstance(document, str) else json.dumps(document)
    return read_document(text.encode(), form)


def settings(resolved: Resolved) -> dict[str, Any]:
    """Return the values of all entries by layer type; of the only one without it."""
    entries = {
        entry.label: {name: value.value for name, value in entry.values.items()}
        for entry in resolved.entries
    }
    return entries["default"] if list(entries) == ["default"] else entries


def plain(head_dim: int, theta: float, rotary_dim: int | None = None, **rule: Any) -> Json:
    return {
        "head_dim": head_dim,
        "rotary_dim": rotary_dim or head_dim,
        "rope_theta": theta,
        "rope_type": "default",
        **rule,
    }


def llama3(head_dim: int, theta: float, factor: float = 8.0) -> Json:
    return plain(
        head_dim,
        theta,
        rope_type="llama3",
        factor=factor,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    )


def linear(head_dim: int, theta: float, factor: float, rotary_dim: int | None = None) -> Json:
    return plain(head_dim, theta, rotary_dim, rope_type="linear", factor=factor)


TRT = {
    "architecture": "LlamaForCausalLM",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131072,
    "position_embedding_type": "rope_gpt_neox",
    "rotary_base": 500000.0,
}
LLAMA3_BLOCK = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
MEGATRON = {
    "num_layers": 8,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "kv_channels": 128,
    "max_position_embeddings": 8192,
    "position_embedding_type": "rope",
    "rotary_base": 10000,
    "rotary_percent": 1.0,
    "rotary_interleaved": False,
    "use_rope_scaling": False,
    "rope_scaling_factor": 8.0,
    "rotary_seq_len_interpolation_factor": None,
    "no_rope_freq": None,
    "apply_rope_fusion": True,
}
MLA = {**MEGATRON, "multi_latent_attention": True, "qk_pos_emb_head_dim": 64}
NEMO = {
    "encoder_seq_length": 4096,
    "max_position_embeddings": 4096,
    "num_layers": 2,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "position_embedding_type": "rope",
    "rotary_percentage": 0.5,
    "rotary_base": 1000000,
}
NOMIC: Json = {
    "model_type": "nomic_bert",
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 8192,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 0.5,
    "rotary_emb_interleaved": True,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "max_trained_positions": 2048,
}
MLC: Json = {
    "model_type": "llama",
    "quantization": "q4f16_1",
    "model_config": {
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "head_dim": 0,
        "position_embedding_base": 500000,
        "context_window_size": 131072,
    },
}


def keras(name: str, **config: Any) -> Json:
    shape = {"num_layers": 6, "num_query_heads": 32, "hidden_dim": 4096}
    return {
        "module": "keras_hub.src.models",
        "class_name": name,
        "config": {**shape, **config},
        "registered_name": f"keras_hub>{name}",
    }


def mlc(kind: str = "llama", **own: Any) -> Json:
    return {**MLC, "model_type": kind, "model_config": {**MLC["model_config"], **own}}


FORTY = [40.0] * 24
DOCUMENTS: dict[str, tuple[object, str, str, str, Json]] = {
    "tensorrt-llm llama 3": (
        {**TRT, "rotary_scaling": LLAMA3_BLOCK},
        "tensorrt-llm", "/position_embedding_type", "half", llama3(128, 500000.0),
    ),
    "tensorrt-llm engine": (
        {"version": "1.2", "pretrained_config": TRT, "build_config": {}},
        "tensorrt-llm", "/pretrained_config", "half", plain(128, 500000.0),
    ),
    "tensorrt-llm gptj": (
        {**TRT, "position_embedding_type": "rope_gptj", "rotary_base": None, "rotary_dim": 64},
        "tensorrt-llm", "/position_embedding_type", "interleaved", plain(128, 10000.0, 64),
    ),
    "tensorrt-llm neox, old names": (
        {**TRT, "rotary_base": None, "rotary_emb_base": 10000, "rotary_pct": 0.25},
        "tensorrt-llm", "/position_embedding_type", "half", plain(128, 10000.0, 32),
    ),
    "tensorrt-llm linear": (
        {**TRT, "rotary_scaling": {"type": "linear", "factor": 4.0}},
        "tensorrt-llm", "/position_embedding_type", "half", linear(128, 500000.0, 4.0),
    ),
    "tensorrt-llm mrope": (
        {
            **TRT,
            "position_embedding_type": "mrope",
            "rotary_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        },
        "tensorrt-llm", "/position_embedding_type", "half",
        plain(128, 500000.0, mrope_section=(16, 24, 24), mrope_interleaved=False),
    ),
    "tensorrt-llm phi 3": (
        {
            **TRT,
            "position_embedding_type": "long_rope",
            "hidden_size": 1536,
            "longrope_scaling_short_factors": [1.0] * 24,
            "longrope_scaling_long_factors": FORTY,
            "original_max_position_embeddings": 4096,
        },
        "tensorrt-llm", "/position_embedding_type", "half",
        plain(
            48, 500000.0, rope_type="longrope", factor=32.0, short_factor=(1.0,) * 24,
            long_factor=tuple(FORTY), original_max_position_embeddings=4096,
        ),
    ),
    "megatron": (MEGATRON, "megatron", "/rotary_percent", "half", plain(128, 10000.0)),
    "megatron, interleaved": (
        {**MEGATRON, "rotary_interleaved": True, "rotary_percent": 0.5},
        "megatron", "/rotary_percent", "interleaved", plain(128, 10000.0, 64),
    ),
    "megatron llama 3": (
        {**MEGATRON, "use_rope_scaling": True, "rope_scaling_factor": 32.0},
        "megatron", "/rotary_percent", "half", llama3(128, 10000.0, 32.0),
    ),
    "megatron, interpolated": (
        {**MEGATRON, "rotary_seq_len_interpolation_factor": 4},
        "megatron", "/rotary_percent", "half", linear(128, 10000.0, 4.0),
    ),
    "megatron, every fourth layer without": (
        {**MEGATRON, "no_rope_freq": 4},
        "megatron", "/rotary_percent", "half", {"rotary": plain(128, 10000.0)},
    ),
    "megatron mrope": (
        {**MEGATRON, "position_embedding_type": "mrope", "mrope_section": [16, 24, 24]},
        "megatron", "/rotary_percent", "half",
        plain(128, 10000.0, mrope_section=(16, 24, 24), mrope_interleaved=False),
    ),
    "megatron yarn": (
        {
            **MEGATRON,
            "position_embedding_type": "yarn",
            "yarn_rotary_scaling_factor": 32.0,
            "yarn_original_max_position_embeddings": 4096,
            "yarn_beta_fast": 32.0,
            "yarn_beta_slow": 1.0,
            "yarn_correction_range_round_to_int": False,
        },
        "megatron", "/rotary_percent", "half",
        plain(
            128, 10000.0, rope_type="yarn", factor=32.0, original_max_position_embeddings=4096,
            beta_fast=32.0, beta_slow=1.0, truncate=False,
        ),
    ),
    "megatron MLA": (
        {**MLA, "mscale": 1.0, "mscale_all_dim": 1.0},
        "megatron", "/rotary_percent", "interleaved",
        plain(
            64, 10000.0, rope_type="yarn", factor=40.0, original_max_position_embeddings=4096,
            beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
        ),
    ),
    "megatron MLA, one mscale": (
        {**MLA, "mscale": 0.707},
        "megatron", "/rotary_percent", "interleaved",
        plain(
            64, 10000.0, rope_type="yarn", factor=40.0, original_max_position_embeddings=4096,
            beta_fast=32.0, beta_slow=1.0, attention_factor=1.2608037774058554,
        ),
    ),
    "megatron MLA without yarn": (
        {**MLA, "rope_type": "rope"},
        "megatron", "/rotary_percent", "interleaved", plain(64, 10000.0),
    ),
    "megatron command line": (
        ("torchrun --nproc-per-node 8 pretrain_gpt.py \\\n  --num-layers 8 --hidden-size 4096 \\\n"
        "  --num-attention-heads=32 --seq-length 4096 --position-embedding-type rope \\\n"
        "  --rotary-base 500000 --rotary-percent '1.0' --use-rope-scaling --bf16\n"),
        "megatron", "/rotary_percent", "half", llama3(128, 500000.0),
    ),
    "nemo": (NEMO, "nemo", "/rotary_percentage", "half", plain(128, 1000000.0, 64)),
    "nemo, interpolated, under model": (
        {"name": "megatron_gpt", "model": {**NEMO, "seq_len_interpolation_factor": 4}},
        "nemo", "/model/seq_len_interpolation_factor", "half", linear(128, 1000000.0, 4.0, 64),
    ),
    "nemo in YAML": (
        ("name: gpt\nmodel:\n  encoder_seq_length: 4096\n  num_layers: 2\n"
        "  max_position_embeddings: ${.encoder_seq_length}\n  hidden_size: 4096\n"
        "  num_attention_heads: 32 # heads\n  position_embedding_type: 'rope'\n"
        "  rotary_percentage: 1.0\n  rotary_base: 1e6\n"),
        "nemo", "/model/rotary_percentage", "half", plain(128, 1000000.0),
    ),
    "nemo of Megatron core": (
        {**NEMO, "mcore_gpt": True, "rotary_interleaved": True},
        "nemo", "/rotary_percentage", "interleaved", plain(128, 1000000.0, 64),
    ),
    "mlc": (mlc(), "mlc", "/quantization", "half", plain(128, 500000.0)),
    "mlc llama 3": (
        mlc(rope_scaling=LLAMA3_BLOCK), "mlc", "/quantization", "half", llama3(128, 500000.0)
    ),
    "mlc, base under kwargs": (
        mlc(position_embedding_base=0, kwargs={"rope_theta": 250000}),
        "mlc", "/quantization", "half", plain(128, 250000.0),
    ),
    "mlc neox": (
        mlc("gpt_neox", rotary_pct=0.25),
        "mlc", "/quantization", "half", plain(128, 500000.0, 32),
    ),
    "mlc under text_config": (
        {**MLC, "model_config": {"text_config": MLC["model_config"]}},
        "mlc", "/quantization", "half", plain(128, 500000.0),
    ),
    "mlc mistral": (
        mlc("mistral", rope_scaling={"type": "linear", "factor": 2.0}),
        "mlc", "/quantization", "half", plain(128, 500000.0),
    ),
    "keras llama": (
        keras("LlamaBackbone", rope_max_wavelength=10000, rope_position_scaling_factor=1.0),
        "keras", "/class_name", "half", plain(128, 10000.0),
    ),
    "keras llama 3": (
        keras(
            "Llama3Backbone",
            rope_max_wavelength=500000,
            rope_frequency_adjustment_factor=8.0,
            rope_low_freq_factor=1.0,
            rope_high_freq_factor=4.0,
            rope_pretraining_sequence_length=8192,
        ),
        "keras", "/class_name", "half", llama3(128, 500000.0),
    ),
    "keras mistral": (
        keras("MistralBackbone", rope_max_wavelength=10000, rope_scaling_factor=4.0),
        "keras", "/class_name", "half", linear(128, 10000.0, 4.0),
    ),
    "keras gemma 3": (
        keras("Gemma3Backbone", head_dim=256, global_rope_scaling_factor=8.0),
        "keras", "/class_name", "half",
        {
            "full_attention": linear(256, 1000000.0, 8.0),
            "sliding_attention": linear(256, 10000.0, 1.0),
        },
    ),
    "keras neox": (
        keras("GPTNeoXBackbone", rotary_percentage=0.25, rotary_max_wavelength=10000),
        "keras", "/class_name", "half", plain(128, 10000.0, 32),
    ),
    "keras smollm 3": (
        keras("SmolLM3Backbone", rope_theta=5e6, rope_layer_enabled_list=[True, True, True, False]),
        "keras", "/class_name", "half", {"rotary": plain(128, 5000000.0)},
    ),
    "keras language model": (
        {"class_name": "MistralCausalLM", "config": {"backbone": keras("MistralBackbone")}},
        "keras", "/class_name", "half", plain(128, 10000.0),
    ),
    "nomic, remote code": (
        NOMIC, "nomic", "/model_type", "interleaved", plain(64, 1000.0, 32)
    ),
    "nomic, scaled": (
        {**NOMIC, "rotary_scaling_factor": 2},
        "nomic", "/model_type", "interleaved",
        plain(64, 1000.0, 32, rope_type="dynamic", factor=2.0, max_position_embeddings=2048),
    ),
    "mlx": (
        {
            "model_type": "llama",
            "quantization": {"group_size": 64, "bits": 4},
            "rope_traditional": True,
            "hidden_size": 4096,
            "num_attention_heads": 32,
        },
        "mlx", "/quantization", "interleaved", plain(128, 10000.0),
    ),
    "Meta's params.json": (
        {
            "dim": 4096,
            "n_layers": 32,
            "n_heads": 32,
            "rope_theta": 500000.0,
            "use_scaled_rope": True,
        },
        "params", "/dim", "interleaved", llama3(128, 500000.0),
    ),
    "Llama 2's params.json": (
        {"dim": 4096, "multiple_of": 256, "n_heads": 32, "n_layers": 32},
        "params", "/dim", "interleaved", plain(128, 10000.0),
    ),
    "Mistral's params.json": (
        {
            "dim": 5120,
            "n_layers": 40,
            "n_heads": 32,
            "head_dim": 128,
            "rope_theta": 1e9,
            "yarn": {
                "factor": 16,
                "original_max_position_embeddings": 16384,
                "beta": 32,
                "alpha": 1,
                "apply_scale": False,
            },
        },
        "params", "/dim", "interleaved",
        plain(
            128, 1e9, rope_type="yarn", factor=16.0, original_max_position_embeddings=16384,
            beta_fast=32.0, beta_slow=1.0, attention_factor=1.0,
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_format_is_found_and_its_settings_are_those_of_its_program(
    case: tuple[object, str, str, str, Json],
) -> None:
    document, name, found_by, layout, expected = case

    found = read(document)

    assert (found.format, found.found_by, found.layout) == (name, found_by, layout)
    assert found.rotary
    assert settings(resolve(found.content)) == expected
    assert read(document, name).content == found.content


WRONG: tuple[object, ...] = (
    None,
    -1,
    0,
    1e400,
    "x",
    "${x}",
    [],
    [[1]],
    [None] * 3,
    {},
    {"a": 1},
    True,
    2**70,
    0.5,
)


def spoiled(document: Json, value: object) -> Iterator[Json]:
    """Yield a document with each of its values replaced, at any depth."""
    for key, own in document.items():
        yield {**document, key: value}
        if isinstance(own, dict):
            yield from ({**document, key: inner} for inner in spoiled(own, value))


@pytest.mark.parametrize("case", DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_any_wrong_value_is_refused_or_read(case: tuple[object, str, str, str, Json]) -> None:
    document, name, *_ = case
    if isinstance(document, str):
        return
    assert isinstance(document, dict)
    for value in WRONG:
        for wrong in spoiled(document, value):
            for form in (name, None):
                with suppress(InvalidBody):
                    resolve(read(wrong, form).content)


@pytest.mark.parametrize("form", format_names())
def test_a_document_of_another_format_is_refused_or_read(form: str) -> None:
    others: list[object] = [{}, {"config": {}, "model_config": {}, "metadata": {}}, TENSORS]
    for document in (*(case[0] for case in DOCUMENTS.values()), *others):
        with suppress(InvalidBody):
            resolve(read(document, form).content)


def test_many_keys_that_are_not_understood_are_named_in_part() -> None:
    with pytest.raises(InvalidBody) as raised:
        read({**MEGATRON, **{f"rotary_{number}": 1 for number in range(5000)}})

    assert len(raised.value.faults) == 10


def test_layers_without_rotary_embedding_are_told() -> None:
    resolved = resolve(read({**MEGATRON, "no_rope_freq": [0, 0, 0, 1] * 2}).content)

    assert resolved.entries[0].layers == (0, 1, 2, 4, 5, 6)


def test_a_known_model_type_counts_before_the_shape_of_the_keys() -> None:
    distilbert = {"model_type": "distilbert", "dim": 768, "n_heads": 12, "n_layers": 6}
    jetmoe = {"model_type": "jetmoe", "kv_channels": 128}
    speech = {"model_type": "fastspeech2_conformer_with_hifigan", "model_config": {"a": 1}}

    assert [read(body).format for body in (distilbert, jetmoe)] == ["transformers"] * 2
    assert read({**speech, "model_type": "llama"}).format == "transformers"
    assert read({**distilbert, "model_type": "of-nobody", "rope_theta": 5}).format == "params"
    glm = {"model_type": "of-nobody", "architectures": ["A"], "kv_channels": 128}
    assert read(glm).format == "transformers"


def test_a_config_is_content_as_it_was_sent() -> None:
    config = {"model_type": "falcon_h1", "time_step_limit": [0.0, float("inf")], "x": None}

    document = read(config)

    assert (document.format, document.found_by) == ("transformers", "/model_type")
    assert document.content == config
    assert document.pointer("/rope_theta") == "/rope_theta"
    assert read({"_class_name": "FluxTransformer2DModel"}).format == "diffusers"
    assert read({"head_dim": 64}).found_by == ""


def test_values_of_a_translation_point_into_what_was_sent() -> None:
    document = read({"pretrained_config": {**TRT, "rotary_scaling": LLAMA3_BLOCK}})

    assert document.pointer("/rope_theta") == "/pretrained_config/rotary_base"
    assert document.pointer("/rope_parameters/factor") == "/pretrained_config/rotary_scaling/factor"
    assert document.pointer("/head_dim") == "/pretrained_config/head_size"
    assumed = read(MEGATRON | {"rotary_base": None, "use_rope_scaling": True}).not_sent
    assert assumed["/rope_theta"].sources == ("megatron-core 0.16.1: 10000.0",)
    assert assumed["/rope_parameters/low_freq_factor"].sources == ("megatron-core 0.16.1: 1.0",)


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({**TRT, "position_embedding_type": "rope_new"}, "/position_embedding_type"),
        ({**TRT, "position_embedding_type": "chatglm"}, "/position_embedding_type"),
        ({**TRT, "rotary_scaling": {"type": "odd", "factor": 2}}, "/rotary_scaling/type"),
        ({**TRT, "rotary_scaling": {**LLAMA3_BLOCK, "beta": 2}}, "/rotary_scaling/beta"),
        ({**TRT, "use_logn_attn": True}, "/use_logn_attn"),
        ({**TRT, "moe": {"llama_4_scaling": {"beta": 0.1}}}, "/moe/llama_4_scaling"),
        ({**MEGATRON, "use_xpos": True}, "/use_xpos"),
        (mlc("llama", use_dynamic_ntk=True), "/model_config/use_dynamic_ntk"),
        ({**TRT, "rotary_scaling": [4]}, "/rotary_scaling"),
        ({**TRT, "rotary_new": 2}, "/rotary_new"),
        ({**MEGATRON, "use_rope_scaling": True, "rotary_seq_len_interpolation_factor": 2},
         "/rotary_seq_len_interpolation_factor"),
        ({**MEGATRON, "no_rope_freq": [0, 1]}, "/no_rope_freq"),
        ({**MEGATRON, "no_rope_freq": "[0]*3+[1]"}, "/no_rope_freq"),
        ({**MEGATRON, "position_embedding_type": "yarn"}, "/yarn_rotary_scaling_factor"),
        ({**MEGATRON, "position_embedding_type": "mrope"}, "/mrope_section"),
        ({**TRT, "position_embedding_type": "mrope"}, ""),
        ({**MEGATRON, "position_embedding_type": None}, "/position_embedding_type"),
        ({**MLA, "rope_type": "longrope"}, "/rope_type"),
        ({**NEMO, "rotary_base": "${base}"}, "/rotary_base"),
        ({**NOMIC, "rotary_emb_scale_base": 512}, "/rotary_emb_scale_base"),
        ({**NEMO, "scale_positional_embedding": True}, "/scale_positional_embedding"),
        (mlc("gemma3"), "/model_type"),
        ({"quantization": "q4", "context_window_size": 5, "model_config": None, "model_type": "x",
          "head_dim": 1, "rope_scaling": {"type": "linear"}}, None),
        (mlc(rope_scaling={"rope_type": "yarn"}), "/model_config/rope_scaling/rope_type"),
        (keras("BertBackbone"), "/class_name"),
        (keras("MistralBackbone", rope_new_factor=2), "/config/rope_new_factor"),
        (keras("Phi3Backbone", rope_scaling_type="yarn"), "/config/rope_scaling_type"),
        ({"_class_name": "WanTransformer3DModel", "rope_scaling": {"a": 1}}, "/rope_scaling"),
        ({"dim": 512, "n_heads": 8, "yarn": {"factor": 2, "gamma": 3}}, "/yarn/gamma"),
        ({"dim": 512, "n_heads": 8, "n_layers": 2}, "/rope_theta"),
        ({"dim": 512, "n_heads": 8, "nope_layer_interval": 4}, "/nope_layer_interval"),
        ({"op_type": "RotaryEmbedding", "attributes": {"theta": 5}}, "/attributes/theta"),
        ({"op_type": "RotaryEmbedding", "attributes": {"interleaved": "yes"}},
         "/attributes/interleaved"),
    ],
)  # fmt: skip
def test_a_positional_key_that_is_not_understood_is_an_error(
    document: Json, pointer: str | None
) -> None:
    if pointer is None:
        assert read(document).format == "transformers"
        return
    with pytest.raises(InvalidBody) as raised:
        read(document)
    assert pointer in [fault.where for fault in raised.value.faults]


@pytest.mark.parametrize(
    ("document", "kinds"),
    [
        ({"num_layers": 4, "hidden_size": 64, "kv_channels": 8, "seq_length": 9}, ["learned"]),
        ({**MEGATRON, "position_embedding_type": "none"}, []),
        ({**TRT, "position_embedding_type": "alibi"}, ["alibi"]),
        ({**TRT, "position_embedding_type": "alibi_with_scale"}, ["alibi"]),
        ({**TRT, "position_embedding_type": "relative", "num_buckets": 32}, ["buckets"]),
        ({**NEMO, "position_embedding_type": "kerple"}, ["relative-bias"]),
        ({**NEMO, "position_embedding_type": "xpos"}, ["rope"]),
    ],
)
def test_other_kinds_of_positions_have_no_rotary_settings(document: Json, kinds: list[str]) -> None:
    found = read(document)

    assert not found.rotary
    assert [entry["kind"] for entry in found.encodings] == kinds
    assert not [key for key in found.content if "rope" in key or "rotary" in key]


def test_two_keys_of_one_thing_with_different_values_are_a_warning() -> None:
    document = read({**TRT, "rotary_emb_base": 10000.0})

    assert document.content["rope_theta"] == 500000.0
    assert [(each.code, each.pointer) for each in document.warnings] == [
        ("said-twice", "/rotary_emb_base")
    ]
    assert not read({**TRT, "rotary_emb_base": 500000.0}).warnings


def codes(warnings: tuple[ConfigWarning, ...]) -> list[str]:
    return [warning.code for warning in warnings]


def test_a_config_of_litgpt_is_read_like_one_of_transformers() -> None:
    sizes = {"n_embd": 64, "n_head": 4, "n_layer": 2, "block_size": 32}
    document = read({**sizes, "rope_base": 5000, "rotary_percentage": 0.5})

    assert document.format == "transformers"
    found = settings(resolve(document.content))
    assert (found["head_dim"], found["rotary_dim"], found["rope_theta"]) == (16, 8, 5000.0)


def test_yarn_of_latent_attention_scales_the_softmax() -> None:
    assert read({**MLA, "mscale_all_dim": 1.0}).scales_softmax
    assert not read({**MLA, "rope_type": "rope"}).scales_softmax


def test_mlx_has_the_long_factors_at_every_length() -> None:
    scaling = {"type": "su", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    sent = {"model_type": "phi3", "quantization": {}, "rope_scaling": scaling}

    document = read(sent)

    assert document.content["rope_scaling"]["short_factor"] == [2.0] * 4
    assert document.pointer("/rope_scaling/short_factor") == "/rope_scaling/long_factor"
    assert sent["rope_scaling"] is scaling
    assert scaling["short_factor"] == [1.0] * 4


@pytest.mark.parametrize(("model_type", "scale"), [("phimoe", 1.5), ("phi3", None)])
def test_mlx_has_no_attention_factor_but_the_long_one_of_phimoe(
    model_type: str, scale: float | None
) -> None:
    mscales = {"short_mscale": 1.25, "long_mscale": 1.5, "attention_factor": 2.0}
    scaling = {"type": "longrope", "long_factor": [2.0] * 4, **mscales}

    document = read({"model_type": model_type, "quantization": {}, "rope_scaling": scaling})

    block, ignored = document.content["rope_scaling"], ["key-not-read"] * (3 if not scale else 1)
    assert (block.get("short_mscale"), block.get("long_mscale")) == (scale, scale)
    assert "attention_factor" not in block
    assert codes(document.warnings) == [*ignored, "mlx-longrope"]


def test_mlx_has_no_attention_factor_of_yarn() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.0}

    document = read({"model_type": "qwen2", "quantization": {}, "rope_scaling": scaling})

    assert document.content["rope_scaling"] == {"rope_type": "yarn", "factor": 4.0}
    assert [each.pointer for each in document.warnings] == ["/rope_scaling/attention_factor"]


def test_what_a_program_ignores_is_a_warning() -> None:
    mistral = read(mlc("mistral", rope_scaling={"type": "linear", "factor": 2.0}))
    nemo = read({**NEMO, "seq_len_interpolation_factor": 4, "rotary_interleaved": True})
    mla = read({**MLA, "use_rope_scaling": True})
    quantized = {"quantization": {"bits": 4}, "rope_traditional": True}

    assert codes(mistral.warnings) == ["key-not-read"]
    assert mistral.warnings[0].pointer == "/model_config/rope_scaling"
    assert codes(nemo.warnings) == ["key-not-read", "nemo-regimes"]
    assert codes(mla.warnings) == ["key-not-read"]
    assert codes(read({"model_type": "cohere", **quantized}).warnings) == ["key-not-read"]
    scaled = {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}
    phi = read({"model_type": "phi3", "quantization": {}, "rope_scaling": scaled})
    yarn = {"type": "yarn", "truncate": False}
    qwen = read({"model_type": "qwen3", "quantization": {}, "rope_parameters": yarn})
    assert (codes(phi.warnings), codes(qwen.warnings)) == (["mlx-longrope"], ["mlx-yarn"])
    # The table is the one that mlx-lm computes.
    assert phi.content["rope_scaling"]["short_factor"] == [2.0]
    assert phi.pointer("/rope_scaling/short_factor") == "/rope_scaling/long_factor"
    assert "truncate" not in qwen.content["rope_parameters"]


def test_onnx_genai_has_no_rotary_setting_and_says_where_they_are() -> None:
    document = read(
        {"model": {"type": "phi3", "context_length": 4096, "decoder": {"head_size": 96}}}
    )

    assert (document.format, document.found_by) == ("ort-genai", "/model/decoder")
    assert not document.rotary
    assert not document.encodings
    assert "/identify" in (document.reason or "")
    assert document.content == {"head_dim": 96, "max_position_embeddings": 4096}


def test_onnx_node_tells_layout_and_width_in_both_spellings() -> None:
    attributes = {"interleaved": 1, "rotary_embedding_dim": 64, "num_heads": 32, "scale": 1.0}
    listed = [{"name": name, "i": str(value)} for name, value in attributes.items()]
    one = read({"op_type": "RotaryEmbedding", "domain": "com.microsoft", "attributes": attributes})
    two = read({"opType": "RotaryEmbedding", "attribute": listed})
    off = read({"op_type": "GroupQueryAttention", "attributes": {"do_rotary": 0, "scale": 0.1}})

    assert (one.layout, two.layout) == ("interleaved", "interleaved")
    assert one.encodings[0]["known"] is False
    assert one.encodings[0]["values"]["rotary_embedding_dim"] == 64
    assert one.encodings[0]["values"]["scale"] == 1.0
    assert not off.encodings
    assert off.reason == "do_rotary is 0: the node has no rotary embedding"


TENSORS = {
    "__metadata__": {"format": "pt"},
    **{
        f"model.layers.{i}.self_attn.rotary_emb.inv_freq": {
            "dtype": "F32",
            "shape": [64],
            "data_offsets": [256 * i, 256 * i + 256],
        }
        for i in range(3)
    },
    "embeddings.position_embeddings.weight": {
        "dtype": "F16",
        "shape": [514, 768],
        "data_offsets": [768, 790272],
    },
    "model.layers.0.mlp.weight": {
        "dtype": "F16",
        "shape": [2, 2],
        "data_offsets": [790272, 790280],
    },
}


@pytest.mark.parametrize(
    "name", ["embeddings.position_embeddings", "pos_embed", "visual.positional_embedding"]
)
@pytest.mark.parametrize("shape", [[577, 1024], [1, 577, 1024]])
def test_a_parameter_with_positions_is_found_in_a_header(name: str, shape: list[int]) -> None:
    header = {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * 577 * 1024]}}

    (entry,) = read(header).encodings

    assert entry["shape"] == shape
    assert entry["values"] == {"length": 577, "d_model": 1024}
    assert "OPT" not in entry["reason"]


def test_a_long_integer_is_named() -> None:
    with pytest.raises(InvalidBody, match="an integer of more than 4300 digits"):
        read('{"a": ' + "9" * 5000 + "}")


def test_a_header_of_safetensors_tells_shapes_and_where_the_bytes_are() -> None:
    text = json.dumps(TENSORS).encode()
    whole = len(text).to_bytes(8, "little") + text + b"\0" * 10

    header, file = read(TENSORS), read_document(whole)

    assert [entry["kind"] for entry in header.encodings] == ["rope", "learned"]
    assert header.encodings[0]["values"] == {"rotary_dim": 128}
    assert (header.encodings[0]["count"], header.encodings[1]["shape"]) == (3, [514, 768])
    assert all(entry["known"] is False for entry in header.encodings)
    assert file.encodings[0]["bytes"] == [8 + len(text), 8 + len(text) + 256]
    assert "bytes" not in header.encodings[0]
    with pytest.raises(InvalidBody, match="32 were sent"):
        read_document(whole[:40])


def test_a_file_of_the_library_tells_its_tables() -> None:
    tables = {
        "encoder.relative_attention_bias.weight": np.ones((32, 8), np.float32),
        "layers.0.attn.relative_position_bias_table": np.ones((169, 3), np.float32),
        "wpe.weight": np.ones((16, 4), np.float32),
        "wte.weight": np.ones((16, 4), np.float32),
    }

    document = read_document(save(tables)[:2000])

    assert {entry["kind"]: entry["values"] for entry in document.encodings} == {
        "buckets": {"num_buckets": 32, "num_heads": 8},
        "relative-bias": {"num_relative_positions": 169, "num_heads": 3},
        "learned": {"length": 16, "d_model": 4},
    }


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[1]", b"[" * 100_000, b'{"a":' * 100_000, b"{", b'{"a": 1, "a": 2}',
        b'{"a": ' + b"9" * 10_000 + b"}", b"\xff\xfe\x00", b"\x00" * 100, b"a: &x [1]\nb: *x\n",
        b"a: [" * 1000, b"- 1\n- 2", b"x" * 100_000, b"\xff" * 8 + b"{", b"!!python/object:a.b {}",
        b"? [a]\n: b",
    ],
    ids=lambda body: repr(body[:12]),
)  # fmt: skip
def test_what_is_no_document_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidBody):
        read_document(body)


def test_an_unknown_format_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidParameters, match="did you mean megatron"):
        read({}, "megatrn")


def test_every_sign_names_a_format_and_every_code_is_used_once() -> None:
    assert {sign["form"] for sign in format_tables()["detect"]} <= set(format_names())
    with pytest.raises(ValueError, match="not a code"):
        ConfigWarning("of-nobody", "", "")
    with pytest.raises(PosrefError):
        read({"model": {"decoder": {}}}, "mlc")


def test_keys_of_a_gguf_file_without_its_architecture_say_that_it_is_missing() -> None:
    keys = {"llama.rope.freq_base": 5e5, "llama.attention.head_count": 32}

    with pytest.raises(InvalidBody, match=r"required beside llama\.rope\.freq_base") as raised:
        read(keys)

    assert [each.where for each in raised.value.faults] == ["/general.architecture"]
