"""What engines must be told: read back, it gives the frequencies of the model."""

import json
import tomllib
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from service.encodings.rotary.rope import Rope
from service.models.describe import describe
from service.models.documents import read_document
from service.models.engines import engine_settings, engine_tables, keys_for, rotary_models
from service.models.resolve import Resolved
from service.models.rotary_settings import LayerSettings
from service.routes.model_links import rope_of
from tests.client import Client
from tests.models.gguf_files import gguf_file

Json = dict[str, Any]
SIZES: Json = {
    "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 12,
    "max_position_embeddings": 8192,
}  # fmt: skip
LLAMA3: Json = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 1024,
}  # fmt: skip
YARN: Json = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
LISTS: Json = {
    "short_factor": [1.0 + k / 32 for k in range(32)],
    "long_factor": [2.0 + k for k in range(32)],
}
LONGROPE: Json = {
    "rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 2048, **LISTS
}  # fmt: skip


def config(model_type: str, **own: Any) -> Json:
    return {"model_type": model_type, **SIZES, **own}


def rule(**parameters: Any) -> Json:
    return {"rope_parameters": {"rope_theta": 5e5, **parameters}}


CONFIGS: dict[str, Json] = {
    "llama": config("llama", rope_theta=5e5),
    "llama, base of engines": config("llama", rope_theta=10000.0),
    "llama, wide heads": config("llama", head_dim=96, rope_theta=5e5),
    "llama, llama3": config("llama", **rule(**LLAMA3)),
    "mistral, llama3": config("mistral", **rule(**LLAMA3)),
    "qwen2, linear": config("qwen2", **rule(rope_type="linear", factor=4.0)),
    "qwen2, yarn": config("qwen2", **rule(**YARN)),
    "qwen2, yarn, own factor": config("qwen2", **rule(**YARN, attention_factor=1.5)),
    "qwen2, yarn, mscale": config("qwen2", **rule(**YARN, mscale=0.7, mscale_all_dim=0.5)),
    "phi3, longrope": config("phi3", original_max_position_embeddings=2048, **rule(**LONGROPE)),
    "phi3, own factor": config(
        "phi3", original_max_position_embeddings=2048, **rule(**LONGROPE, attention_factor=1.5)
    ),
    "stablelm, in part": config("stablelm", partial_rotary_factor=0.25, rope_theta=5e5),
    "gpt_neox": config("gpt_neox", rotary_pct=0.5, rotary_emb_base=5e4),
    "gpt_oss": config("gpt_oss", head_dim=64),
    "gemma3_text": config(
        "gemma3_text", head_dim=64, rope_theta=2e6, rope_local_base_freq=3e4, sliding_window=512,
        architectures=["Gemma3ForCausalLM"], rope_scaling={"rope_type": "linear", "factor": 8.0},
    ),
    "qwen2_vl": config(
        "qwen2_vl", rope_theta=1e6, rope_scaling={"type": "mrope", "mrope_section": [8, 12, 12]}
    ),
    "qwen3_vl": config("qwen3_vl", head_dim=64, rope_scaling={
        "rope_type": "default", "mrope_section": [12, 10, 10], "mrope_interleaved": True}),
    "cohere2": config("cohere2", head_dim=64, rope_theta=5e4, sliding_window=512),
    "smollm3": config("smollm3", rope_theta=2e6),
}  # fmt: skip


def resolved_of(sent: Json | bytes) -> Resolved:
    """Return the rotary settings of the text model in a document."""
    body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    return rotary_models(describe(read_document(body)).encodings)[0]


def told(sent: Json, form: str = "transformers") -> dict[str, Json]:
    return engine_settings(resolved_of(sent), form)


def rope(entry: LayerSettings, length: int | None = None) -> Rope:
    return rope_of(entry.at(length))


def tables(resolved: Resolved, length: int | None) -> list[Any]:
    """Return the layers, frequencies, attention factor and axes of each table."""
    found = []
    for entry in resolved.entries:
        asked = rope(entry, length)
        frequencies = asked.rule(asked.head_dim)
        omegas = [float(omega) for omega in frequencies.exact()]
        axes = (asked.mrope_section, bool(asked.mrope_interleaved))
        found.append((entry.layers, omegas, frequencies.scale, axes))
    return sorted(found, key=lambda each: (each[1], each[0] or ()))


def check_same(resolved: Resolved, other: Resolved, length: int | None = None) -> None:
    """Hold two models to the same tables."""
    pairs = zip(tables(resolved, length), tables(other, length), strict=True)
    for (layers, omegas, scale, axes), (own_layers, own, own_scale, own_axes) in pairs:
        assert (own_layers, own_axes) == (layers, axes)
        np.testing.assert_allclose(own, omegas, rtol=1e-6, atol=0)
        assert own_scale == pytest.approx(scale, rel=1e-6)


def quotients(resolved: Resolved, name: str) -> list[float]:
    """Return a tensor that divides the frequencies of the base alone."""
    entry = resolved.entries[0]
    if name != "rope_freqs.weight":
        factors: list[float] = LISTS["long_factor" if "long" in name else "short_factor"]
        return factors
    asked = rope(entry)
    scaled = asked.rule(asked.head_dim).exact()
    plain = Rope(head_dim=asked.head_dim, rope_theta=asked.rope_theta).rule(asked.head_dim)
    return [float(base / own) for base, own in zip(plain.exact(), scaled, strict=True)]


def written(resolved: Resolved, own: Json) -> bytes:
    """Return a GGUF file with what llama.cpp must be told, and the sizes of the model."""
    arch, tensors = own["architecture"], own.get("tensors", [])
    names = {
        "context_length": "max_position_embeddings", "embedding_length": "hidden_size",
        "block_count": "num_hidden_layers", "attention.head_count": "num_attention_heads",
    }  # fmt: skip
    sizes = {key: resolved.model.value(name, warns=False) for key, name in names.items()}
    keys = {f"{arch}.{key}": value.value for key, value in sizes.items() if value}
    if arch in {"gemma3", "cohere2"} or resolved.text_model_type == "olmo3":
        keys[f"{arch}.attention.sliding_window"] = 512
    factors = [(each["name"], quotients(resolved, each["name"])) for each in tensors]
    assert [each["shape"] for each in tensors] == [[len(values)] for _, values in factors]
    return gguf_file({"general.architecture": arch, **keys, **own.get("keys", {})}, factors)


@pytest.mark.parametrize("name", CONFIGS)
def test_keys_of_gguf_give_the_frequencies_of_the_model(name: str) -> None:
    resolved = resolved_of(CONFIGS[name])
    own = told(CONFIGS[name])["llama.cpp"]
    read = resolved_of(written(resolved, own))

    if "truncate" in resolved.entries[0].values:
        assert any(text.startswith("truncate") for text in own["cannot"])
        return
    lengths = (2048, 8192) if "phi3" in name else (None,)
    for length in lengths:
        check_same(resolved, read, length)
    assert (read.layout == resolved.layout) == ("weights" not in own)


@pytest.mark.parametrize("model_type", ["mistral3", "ministral3"])
def test_betas_are_keys_of_architectures_that_read_them(model_type: str) -> None:
    text = config("ministral3", **rule(**YARN, beta_fast=16.0, beta_slow=2.0))
    sent = {"model_type": "mistral3", "text_config": text} if model_type == "mistral3" else text
    resolved, own = resolved_of(sent), told(sent)["llama.cpp"]

    assert own["keys"]["mistral3.rope.scaling.yarn_beta_fast"] == 16
    assert own["keys"]["mistral3.rope.scaling.yarn_beta_slow"] == 2
    check_same(resolved, resolved_of(written(resolved, own)))


def test_limits_are_in_the_order_of_the_table() -> None:
    own = told(CONFIGS["phi3, own factor"])["mlx"]

    texts = [*TYPES["mlx"]["cannot"].values()]
    assert len(own["cannot"]) == 2
    assert own["cannot"] == sorted(own["cannot"], key=texts.index)


TYPES: Json = tomllib.loads(files("service.models").joinpath("engines.toml").read_text())


LLAMA_CPP: Json = TYPES["llama.cpp"]
COMPOSITES = {name: model for model, name in LLAMA_CPP["composites"].items()}
CLASSES = [(name, each) for name, own in LLAMA_CPP["types"].items() for each in own]
# The default of the class has heads of an odd number of channels.
WIDTHS = {"glm4_moe": {"head_dim": 128}}


def of_class(name: str, model_class: str, **own: Any) -> Json:
    """Return the config of a text model, or of the composite that its class makes of it."""
    sent: Json = {
        "model_type": name,
        "max_position_embeddings": 8192,
        **WIDTHS.get(name, {}),
        **own,
    }
    if model_class in COMPOSITES:
        sent = {"model_type": COMPOSITES[model_class], "text_config": sent}
    return {**sent, "architectures": [model_class]}


@pytest.mark.parametrize(("name", "model_class"), CLASSES)
def test_keys_of_gguf_give_the_frequencies_of_the_class(name: str, model_class: str) -> None:
    sent = of_class(name, model_class)
    resolved, own = resolved_of(sent), told(sent).get("llama.cpp")
    if own is None:
        assert name in {"qwen2_vl_text", "qwen2_5_vl_text"}  # without sections
        return
    if name == "gemma4_text":  # whose files are not read
        return
    read = resolved_of(written(resolved, own))

    if "cannot" in own:
        assert name == "gpt_oss"
    else:
        check_same(resolved, read)
    assert read.without == resolved.without
    assert (read.layout == resolved.layout) == ("weights" not in own)


def test_layers_of_gemma_4_are_told_one_by_one() -> None:
    sent = of_class("gemma4_text", "Gemma4ForConditionalGeneration", num_hidden_layers=6)

    own = told(sent)["llama.cpp"]

    assert own["keys"] == {
        "gemma4.rope.freq_base": 1e6,
        "gemma4.rope.freq_base_swa": 1e4,
        "gemma4.rope.dimension_count": 512,
        "gemma4.rope.dimension_count_swa": 256,
        "gemma4.attention.key_length": 512,
        "gemma4.attention.key_length_swa": 256,
        "gemma4.attention.sliding_window_pattern": [True] * 5 + [False],
    }
    assert own["tensors"] == [{"name": "rope_freqs.weight", "shape": [256]}]
    assert "cannot" not in own


DEEPSEEK = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}


@pytest.mark.parametrize("name", ["deepseek_v2", "deepseek_v3", "glm4_moe_lite"])
@pytest.mark.parametrize("all_dim", [0.707, 1.0])
def test_factors_of_latent_attention_are_those_of_one_multiplier(name: str, all_dim: float) -> None:
    scaling = {**DEEPSEEK, "mscale": all_dim, "mscale_all_dim": all_dim}
    sent = {"model_type": name, "rope_theta": 10000.0, "rope_scaling": scaling}
    resolved, own = resolved_of(sent), told(sent)["llama.cpp"]

    assert own["keys"]["deepseek2.rope.scaling.yarn_log_multiplier"] == pytest.approx(all_dim / 10)
    assert "cannot" not in own
    read = resolved_of(written(resolved, own))
    check_same(resolved, read)
    factors = [each.attention["softmax_scale_multiplier"] for each in (read, resolved)]
    assert factors[0] == pytest.approx(factors[1], rel=1e-6)
    assert told(sent).get("vllm", {}).get("hf_overrides", {}) == {}


@pytest.mark.parametrize("name", TYPES["mlx"]["types"])
def test_keys_of_mlx_give_the_frequencies_of_the_class(name: str) -> None:
    resolved, own = resolved_of({"model_type": name}), told({"model_type": name})["mlx"]
    read = resolved_of({"model_type": name, **own["keys"], "quantization": {"bits": 4}})

    if "cannot" not in own:
        check_same(resolved, read)
    assert read.layout == resolved.layout


@pytest.mark.parametrize("name", CONFIGS)
def test_keys_of_mlx_give_the_frequencies_of_the_model(name: str) -> None:
    sent = CONFIGS[name]
    resolved, own = resolved_of(sent), told(sent).get("mlx")
    if own is None:
        assert sent["model_type"] in {"cohere2", "smollm3", "qwen2_vl", "qwen3_vl"}
        return
    kept = {"model_type", "head_dim", "sliding_window", *SIZES}
    written = {key: value for key, value in sent.items() if key in kept}
    read = resolved_of({**written, **own["keys"], "quantization": {"bits": 4}})

    if "gpt_oss" in name or "own factor" in name:
        assert own["cannot"]
    else:
        check_same(resolved, read, 8192)
        assert read.layout == resolved.layout


@pytest.mark.parametrize("name", CONFIGS)
def test_config_of_tensorrt_llm_gives_the_frequencies_of_the_model(name: str) -> None:
    resolved, own = resolved_of(CONFIGS[name]), told(CONFIGS[name]).get("tensorrt-llm")
    if own is None:
        return
    written = {"architecture": "ForCausalLM", **SIZES, **own["config"]}

    if "cannot" in own:
        assert "yarn" in name
    else:
        check_same(resolved, resolved_of(written))


@pytest.mark.parametrize("name", CONFIGS)
def test_vllm_is_told_nothing_of_what_it_reads_as_sent(name: str) -> None:
    assert told(CONFIGS[name])["vllm"]["hf_overrides"] == {}


MISSING = [
    config("qwen2", rope_scaling={"type": "yarn", "original_max_position_embeddings": 2048}),
    config("llama", rope_scaling={**YARN, "factor": None}, rope_theta=5e5),
    config("llama", rope_scaling={"type": "linear", "scaling_factor": 4.0}),
    config("gpt_neox", rope_scaling={**YARN, "factor": None}, rotary_pct=0.5),
]


@pytest.mark.parametrize("sent", MISSING)
def test_overrides_of_vllm_say_what_was_missing(sent: Json) -> None:
    overrides = told(sent)["vllm"]["hf_overrides"]

    assert overrides["rope_parameters"]["factor"] == 4
    own = {key: value for key, value in sent.items() if key[:3] not in {"rop", "rot"}}
    check_same(resolved_of(sent), resolved_of({**own, **overrides}))


def test_names_that_vllm_alone_reads_are_told() -> None:
    overrides = told(config("llama", rotary_emb_base=5e5))["vllm"]["hf_overrides"]

    assert overrides == {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}
    assert told(config("llama", rotary_base=5e5))["vllm"]["hf_overrides"] == {}


@pytest.mark.parametrize("is_flat", [True, False])
def test_overrides_of_vllm_stand_where_the_text_model_is(is_flat: bool) -> None:
    text = {**SIZES, "head_dim": 64, "rope_scaling": {**YARN, "factor": None}}
    sent = text if is_flat else {"text_config": text}

    overrides = told({"model_type": "qwen2_vl", **sent})["vllm"]["hf_overrides"]

    assert overrides["text_config"]["rope_parameters"]["factor"] == 4


def test_sections_that_the_class_has_are_told_to_vllm() -> None:
    rule = {"rope_type": "default", "mrope_section": [12, 10, 10]}
    text = {**SIZES, "head_dim": 64, "rope_scaling": rule}
    other = {**text, "rope_scaling": {**rule, "mrope_interleaved": True}}

    first, second = (
        told({"model_type": "qwen3_vl", "text_config": own})["vllm"]["hf_overrides"]
        for own in (text, other)
    )

    overrides = first["text_config"]["rope_parameters"]
    assert (overrides["mrope_section"], overrides["mrope_interleaved"]) == ([12, 10, 10], True)
    assert second == {}


def test_onnx_has_caches_of_each_part(client: Client) -> None:
    sent = config("csm", depth_decoder_config={"rope_theta": 1e4, "head_dim": 32})

    onnx = client.post("/model?seq_len=16", json=sent).json()["engines"]["onnx"]

    (part,) = onnx["parts"].items()
    assert part[0] == "/depth_decoder_config"
    assert [each["id"] for each in part[1]["caches"]] == ["depth_decoder.rotary"]
    for cache in (*onnx["caches"], *part[1]["caches"]):
        assert client.get(cache["cos_cache"]).status_code == 200


def test_composite_without_a_class_of_the_converter_has_no_architecture() -> None:
    text = {"model_type": "llama", **SIZES}

    assert (
        told({"model_type": "llava", "text_config": text})["llama.cpp"]["architecture"] == "llama"
    )
    for name in ("idefics3", "llava_next"):
        engines = told({"model_type": name, "text_config": text})
        assert "llama.cpp" not in engines
        assert engines["vllm"]["hf_overrides"] == {}
    inner = {**text, "architectures": ["LlamaForCausalLM"]}
    sent = {"model_type": "idefics3", "architectures": ["X"], "text_config": inner}
    assert told(sent)["llama.cpp"]["architecture"] == "llama"
    assert "vllm" not in told({"model_type": "voxtral", "text_config": text})


WITHOUT_TRUNCATE = config("qwen2", **rule(**YARN, truncate=False))
DYNAMIC = config("llama", **rule(rope_type="dynamic", factor=4.0))
CANNOT: list[tuple[Json, str, str]] = [
    (WITHOUT_TRUNCATE, "llama.cpp", "truncate: false"),
    (WITHOUT_TRUNCATE, "mlx", "truncate: false"),
    (CONFIGS["qwen2, yarn"], "onnx", "the rounded range of YaRN, which truncate: true asks for"),
    (CONFIGS["qwen2, yarn"], "tensorrt-llm", "the rule yarn"),
    (CONFIGS["qwen2, yarn, own factor"], "llama.cpp", "flags for rope.scaling.attn_factor"),
    (CONFIGS["qwen2, yarn, own factor"], "mlx", "attention_factor"),
    (config("qwen2", **rule(**YARN, beta_fast=16.0)), "llama.cpp", "beta_fast in the file"),
    (CONFIGS["phi3, longrope"], "llama.cpp", "two regimes by length"),
    (CONFIGS["phi3, longrope"], "vllm", "two regimes by length"),
    (CONFIGS["phi3, longrope"], "mlx", "short_factor"),
    (CONFIGS["phi3, longrope"], "onnx", "a choice of caches by length"),
    (config("qwen2", original_max_position_embeddings=2048, **rule(**LONGROPE)), "llama.cpp",
     "qwen2 reads no tensor rope_factors_long.weight"),
    (config("qwen2", **rule(**LLAMA3)), "llama.cpp", "qwen2 reads no tensor rope_freqs"),
    (config("gpt_neox", **rule(**LLAMA3)), "llama.cpp", "gptneox reads no tensor rope_freqs"),
    (DYNAMIC, "llama.cpp", "a base that grows"),
    (DYNAMIC, "vllm", "a base that grows"),
    (DYNAMIC, "onnx", "the rule dynamic in onnxruntime-genai's builder"),
    (config("mixtral", **rule(rope_type="linear", factor=4.0)), "mlx", "the rule linear"),
    (config("llama", rope_scaling={"type": "mrope", "mrope_section": [8, 12, 12]}), "llama.cpp",
     "these axes of positions in llama"),
    (CONFIGS["qwen2_vl"], "onnx", "position_ids on several axes"),
    (config("qwen2_vl", rope_scaling={"type": "default", "mrope_section": [8, 12, 12],
     "mrope_interleaved": True}), "llama.cpp", "these axes of positions in qwen2vl"),
    (config("smollm3", no_rope_layers=[1] * 12), "llama.cpp", "these layers without rotation"),
    (config("deepseek_v3", rope_scaling=DEEPSEEK), "llama.cpp", "this softmax scale"),
    (config("deepseek_v3", rope_scaling={**DEEPSEEK, "mscale": 0.5, "mscale_all_dim": 1.0}),
     "llama.cpp", "this attention factor"),
    (config("deepseek_v3", rope_scaling={"type": "linear", "factor": 2.0}), "vllm",
     "the rule linear"),
    (config("deepseek_v2", rope_scaling={**DEEPSEEK, "truncate": False}), "vllm", "truncate"),
    (config("deepseek_v2", rope_scaling={**DEEPSEEK, "attention_factor": 1.5}), "vllm",
     "attention_factor"),
    (config("llama4_text", attn_temperature_tuning=False), "llama.cpp", "this factor of queries"),
    (config("llama4_text", floor_scale=4096), "llama.cpp", "this factor of queries"),
    (config("qwen3_next", layer_types=["full_attention"] * 12), "llama.cpp",
     "these layers without rotation"),
    (config("gemma3_text", architectures=["Gemma3ForCausalLM"], layer_types=[
        "full_attention", *["sliding_attention"] * 11]), "llama.cpp", "these layers with a window"),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "engine", "text"), CANNOT)
def test_what_an_engine_cannot_express_is_said(sent: Json, engine: str, text: str) -> None:
    assert [each for each in told(sent)[engine]["cannot"] if each.startswith(text)]


def test_flags_say_what_the_keys_say() -> None:
    betas = told(config("qwen2", **rule(**YARN, beta_fast=16.0)))["llama.cpp"]

    assert betas["flags"] == (
        "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 2048 --rope-freq-base 500000 "
        "--yarn-beta-fast 16"
    )
    assert "flags" not in told(CONFIGS["llama, base of engines"])["llama.cpp"]
    linear = told(CONFIGS["qwen2, linear"])["llama.cpp"]["flags"]
    assert linear == "--rope-scaling linear --rope-scale 4 --rope-freq-base 500000"


@pytest.mark.parametrize(
    "sent",
    [
        config("llama", architectures=["MyForCausalLM"]),
        config("gemma3_text", head_dim=64),
        config("deepseek_v32"),
    ],
)
def test_llama_cpp_is_left_out_where_the_architecture_is_not_certain(sent: Json) -> None:
    assert "llama.cpp" not in told(sent)
    assert "onnx" in told(sent)


def test_models_without_known_rotary_embedding_have_no_engines(client: Client) -> None:
    unknown = {"model_type": "my_model", "head_dim": 64, "rope_theta": 5e5}

    for sent in (unknown, {"model_type": "bert"}):
        report = client.post("/model", json=sent).json()
        assert report["engines"] == {}


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "gemma3_text", "phi3, longrope", "cohere2"])
def test_caches_of_onnx_are_half_as_wide_as_the_turned_channels(client: Client, name: str) -> None:
    report = client.post("/model?seq_len=16", json=CONFIGS[name]).json()
    onnx = report["engines"]["onnx"]
    rotary = [each for each in report["encodings"] if each["kind"] == "rope"]
    values = rotary[0]["values"]

    width = onnx["rotary_embedding_dim"] or values["head_dim"]["value"]
    assert width == values["rotary_dim"]["value"]
    assert onnx["interleaved"] == (rotary[0]["layout"] == "interleaved")
    assert len(onnx["caches"]) == sum(len(each.get("regimes", [1])) for each in rotary)
    for cache in onnx["caches"]:
        for part in ("cos_cache", "sin_cache"):
            answer = client.get(cache[part])
            assert answer.status_code == 200
            assert answer.headers["Array-Shape"].endswith(f", {width // 2}")


def test_text_has_a_line_for_each_setting(client: Client) -> None:
    text = client.post("/model", json=CONFIGS["qwen2, yarn"], headers={"Accept": "text/plain"}).text

    assert "llama.cpp.flags: --rope-scaling yarn --rope-scale 4" in text
    assert 'tensorrt-llm.cannot: ["the rule yarn in the config"]' in text


def test_a_mistake_has_the_keys_that_mend_it() -> None:
    tables = engine_tables()

    for mistake, key in tables["mistakes"].items():
        assert keys_for(mistake) == keys_for("wrong-parameter", key) != {}
    assert keys_for("positions-stuck") == {}
    assert keys_for("wrong-base", arch="qwen2")["gguf"] == "qwen2.rope.freq_base"
    for key, flag in tables["llama.cpp"]["flags"].items():
        assert any(
            each.get("gguf", "").startswith(f"{{arch}}.{key}")
            and each["llama.cpp"].startswith(flag)
            for each in tables["mends"].values()
        )
