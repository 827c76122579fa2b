"""GGUF: heads cut anywhere, keys as JSON, and the settings llama.cpp computes from them."""

import json
import struct
from contextlib import suppress
from typing import Any

import pytest

from service.errors import InvalidBody
from service.models.documents import read_document
from service.models.translation import ModelDocument, format_tables
from tests.fuzz.harness import held_to
from tests.models.gguf_files import ARRAY, I32, STRING, U32, U64, gguf_file, model, text
from tests.models.settings import resolve
from tests.models.test_documents import WRONG, codes, linear, plain, settings, spoiled

Json = dict[str, Any]


def read(keys: Json, **rest: Any) -> ModelDocument:
    """Return what a whole file says, after checking that its keys as JSON say the same."""
    tensors = rest.pop("tensors", ())
    document = read_document(gguf_file(keys, tensors, **rest))
    if not tensors:
        dumped = {key: {"value": value, "type": "?"} for key, value in keys.items()}
        for sent in (keys, {"metadata": dumped, "tensors": {"token_embd.weight": {}}}):
            assert read_document(json.dumps(sent).encode()).content == document.content
    return document


YARN: Json = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 2048,
}
YARN_VALUES: Json = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
WINDOW: Json = {"attention.sliding_window": 512}
MODELS: dict[str, tuple[Json, str, Json]] = {
    "llama": (
        model("llama", **{"rope.freq_base": 500000.0, "rope.dimension_count": 128}),
        "interleaved", plain(128, 500000.0),
    ),
    "qwen2, base by default": (model("qwen2"), "half", plain(128, 10000.0)),
    "phi2, partly": (
        model("phi2", **{"attention.head_count": 40, "rope.dimension_count": 32}),
        "half", plain(102, 10000.0, 32),
    ),
    "mistral, width given": (
        model("mistral3", **{"attention.key_length": 160, "rope.freq_base": 1e6}),
        "interleaved", plain(160, 1e6),
    ),
    "linear by default": (
        model("llama", **{"rope.scaling.factor": 4.0}), "interleaved", linear(128, 10000.0, 4.0)
    ),
    "linear, old name": (
        model("falcon", **{"rope.scale_linear": 2.0}), "half", linear(128, 10000.0, 2.0)
    ),
    "factor 0": (
        model("qwen3", **{"rope.scaling.factor": 0.0, "rope.scaling.type": "linear"}),
        "half", plain(128, 10000.0),
    ),
    "none, whatever the factor": (
        model("stablelm", **{"rope.scaling.factor": 8.0, "rope.scaling.type": "none"}),
        "half", plain(128, 10000.0),
    ),
    "yarn": (
        model("qwen2", **YARN, **{"rope.freq_base": 1e6}), "half", plain(128, 1e6, **YARN_VALUES)
    ),
    "yarn with betas, context as original length": (
        model(
            "qwen3",
            **{
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 2.0,
                "rope.scaling.yarn_beta_fast": 16.0,
                "rope.scaling.yarn_beta_slow": 2.0,
                "rope.scaling.yarn_ext_factor": 1.0,
            },
        ),
        "half",
        plain(
            128, 10000.0, rope_type="yarn", factor=2.0, original_max_position_embeddings=8192,
            beta_fast=16.0, beta_slow=2.0,
        ),
    ),
    "yarn with a factor of attention": (
        model("seed_oss", **YARN, **{"rope.scaling.attn_factor": 0.5}),
        "half", plain(128, 10000.0, **YARN_VALUES, attention_factor=0.5693147180559945),
    ),
    "deepseek 2": (
        model(
            "deepseek2",
            **YARN,
            **{
                "rope.dimension_count": 64,
                "attention.key_length": 192,
                "rope.scaling.yarn_log_multiplier": 0.0707,
            },
        ),
        "interleaved", plain(64, 10000.0, **YARN_VALUES, mscale=0.707, mscale_all_dim=0.707),
    ),
    "mistral 3, log multiplier": (
        model("mistral3", **YARN, **{"rope.scaling.yarn_log_multiplier": 1.0}),
        "interleaved", plain(128, 10000.0, **YARN_VALUES, mscale=1.0, mscale_all_dim=1.0),
    ),
    "qwen2-vl": (
        model("qwen2vl", **{"rope.dimension_sections": [16, 24, 24, 0]}),
        "half", plain(128, 10000.0, mrope_section=(16, 24, 24), mrope_interleaved=False),
    ),
    "qwen3-vl": (
        model("qwen3vl", **{"rope.dimension_sections": [24, 20, 20, 0]}),
        "half", plain(128, 10000.0, mrope_section=(24, 20, 20), mrope_interleaved=True),
    ),
    "glm 4": (
        model("glm4", **{"rope.dimension_count": 64}), "interleaved", plain(128, 10000.0, 64)
    ),
    "glm 4 with sections": (
        model("glm4", **{"rope.dimension_sections": [16, 24, 24, 0]}),
        "half", plain(128, 10000.0, mrope_section=(16, 24, 24), mrope_interleaved=False),
    ),
    "qwen2-vl without sections": (
        model("qwen2vl", **{"rope.dimension_sections": [0, 0, 0, 0]}), "half", plain(128, 10000.0)
    ),
    "gemma 2": (model("gemma2", **WINDOW), "half", plain(128, 10000.0)),
    "gpt-oss": (
        model("gpt-oss", **WINDOW, **{"rope.freq_base": 150000.0}), "half", plain(128, 150000.0)
    ),
    "gemma 3": (
        model("gemma3", **WINDOW, **{"rope.freq_base": 1e6, "rope.scaling.factor": 8.0}),
        "half",
        {
            "full_attention": linear(128, 1e6, 8.0),
            "sliding_attention": plain(128, 10000.0),
        },
    ),
    "gemma 3n": (
        model("gemma3n", **WINDOW, **{"rope.freq_base": 1e6, "rope.freq_base_swa": 5000.0}),
        "half",
        {"full_attention": plain(128, 1e6), "sliding_attention": plain(128, 5000.0)},
    ),
    "gemma 3 without a window": (
        model("gemma3", **{"rope.freq_base": 1e6}), "half", plain(128, 1e6)
    ),
    "modern-bert": (
        model("modern-bert", **WINDOW, **{"rope.freq_base": 160000.0}),
        "half",
        {"full_attention": plain(128, 160000.0), "sliding_attention": plain(128, 10000.0)},
    ),
    "olmo 3": (
        model("olmo2", **WINDOW, **YARN, **{"rope.freq_base": 500000.0}),
        "half",
        {
            "full_attention": plain(128, 500000.0, **YARN_VALUES),
            "sliding_attention": plain(128, 500000.0),
        },
    ),
    "cohere 2": (model("cohere2", **WINDOW), "interleaved", {"rotary": plain(128, 10000.0)}),
    "llama 4": (model("llama4"), "interleaved", {"rotary": plain(128, 10000.0)}),
    "smollm 3": (
        model("smollm3", **YARN), "interleaved", {"rotary": plain(128, 10000.0, **YARN_VALUES)}
    ),
    "hunyuan": (
        model("hunyuan-dense", **{"rope.scaling.alpha": 1000.0}),
        "half", plain(128, 10000.0, rope_type="dynamic", alpha=1000.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MODELS.values(), ids=MODELS.keys())
def test_settings_are_those_of_llama_cpp(case: tuple[Json, str, Json]) -> None:
    keys, layout, expected = case

    document = read(keys)

    resolved = resolve(document.content)
    assert (document.format, document.found_by) == ("gguf", "bytes GGUF")
    assert document.rotary
    assert settings(resolved) == expected
    assert (document.layout, resolved.layout) == (layout, layout)


def test_layers_are_those_of_llama_cpp() -> None:
    def layers(arch: str, **own: Any) -> Json:
        entries = resolve(read(model(arch, **own)).content).entries
        return {entry.label: entry.layers for entry in entries}

    assert layers("gemma3", **WINDOW)["full_attention"] == (5,)
    assert layers("modern-bert", **WINDOW)["full_attention"] == (0, 3, 6)
    assert layers("cohere2", **WINDOW)["rotary"] == (0, 1, 2, 4, 5, 6)
    for arch in ("llama4", "afmoe", "cohere2", "exaone-moe", "smollm3"):
        assert layers(arch)["rotary"] == (0, 1, 2, 4, 5, 6)
    assert layers("smallthinker", **WINDOW)["rotary"] == (1, 2, 3, 5, 6, 7)
    assert layers("exaone4") == {"default": None}
    assert len(layers("exaone4", block_count=64)["rotary"]) == 48
    assert layers("gemma3n")["full_attention"] == (4,)
    assert layers("llama4", **{"attention.sliding_window": 0}) == {"default": None}
    heads = {"attention.head_count_kv": [0, 0, 8, 0] * 2}
    assert layers("lfm2", **heads)["rotary"] == (2, 6)
    pattern = {"attention.sliding_window_pattern": [True, False] * 4}
    assert layers("gemma3", **WINDOW, **pattern)["full_attention"] == (1, 3, 5, 7)
    assert layers("cohere2", **WINDOW, **{"attention.sliding_window_pattern": 2})["rotary"] == (
        0, 2, 4, 6,
    )  # fmt: skip


def test_factors_of_queries_are_named() -> None:
    scaled = {"attention.temperature_scale": 0.125, "attention.temperature_length": 16384}

    mistral, llama = read(model("mistral3", **scaled)), read(model("llama4"))

    assert mistral.content["temperature"] == {"scale": 0.125, "length": 16384}
    assert mistral.encodings[0]["query"]["convention"] == "'ministral3'"
    assert llama.content["temperature"] == {"scale": 0.1, "length": 8192}
    assert llama.encodings[0]["query"]["convention"] == "'llama4'"
    assert "layers without rotation" in llama.encodings[0]["counts"]
    of_length = {"attention.temperature_scale": 0.125, "context_length": 4096}
    assert read(model("mistral3", **of_length)).content["temperature"]["length"] == 4096
    assert not read(model("llama4", **{"attention.temperature_scale": 0.0})).encodings
    assert not read(model("llama")).encodings


def test_the_context_length_is_no_other_original_length() -> None:
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}
    document = read(model("qwen2", **yarn, **{"rope.scaling.original_context_length": 7}))

    assert "said-twice" not in [each.code for each in document.warnings]
    own = document.not_sent["/rope_parameters/rope_type"]
    assert (own.origin, own.sources) == ("computed", ("/qwen2.rope.scaling.type",))


def test_values_point_to_keys_of_the_file() -> None:
    keys = model("llama", **{"rope.freq_base": 5.0, "rope.scaling.factor": 2.0})
    dumped = {"metadata": {key: {"value": value} for key, value in keys.items()}}

    file, dump = read(keys), read_document(json.dumps(dumped).encode())

    assert file.pointer("/rope_theta") == "/llama.rope.freq_base"
    assert file.pointer("/rope_parameters/factor") == "/llama.rope.scaling.factor"
    assert file.not_sent["/head_dim"].origin == "computed"
    assert file.not_sent["/head_dim"].sources == ("/hidden_size", "/num_attention_heads")
    assert dump.pointer("/rope_theta") == "/metadata/llama.rope.freq_base/value"
    assert "permuted" in (file.weights or "")
    assert read(model("qwen2")).weights is None


FACTORS = [1.0] * 32 + [8.0] * 32


def test_tensors_of_the_file_divide_the_frequencies() -> None:
    keys = model("llama", **{"rope.scaling.factor": 2.0})

    document = read_document(gguf_file(keys, [("x", [1.0]), ("rope_freqs.weight", FACTORS)]))

    values = settings(resolve(document.content))
    assert values["rope_type"] == "longrope"
    assert values["long_factor"] == values["short_factor"] == tuple(2 * f for f in FACTORS)
    assert values["attention_factor"] == 1.0
    assert document.pointer("/rope_parameters/long_factor") == "/rope_freqs.weight"
    assert not document.warnings


def test_two_lists_are_the_regimes_of_longrope() -> None:
    keys = model(
        "phi3",
        **{"rope.scaling.attn_factor": 1.25, "rope.scaling.original_context_length": 4096},
    )
    tensors = [("rope_factors_long.weight", FACTORS), ("rope_factors_short.weight", [1.0] * 64)]

    values = settings(resolve(read_document(gguf_file(keys, tensors)).content))

    assert values["long_factor"] == tuple(FACTORS)
    assert values["short_factor"] == (1.0,) * 64
    assert values["attention_factor"] == 1.25
    assert values["original_max_position_embeddings"] == 4096


def test_no_table_without_the_values_of_tensors_that_divide() -> None:
    keys = model("llama")
    file = gguf_file(keys, [("rope_freqs.weight", FACTORS)])
    dump = {**keys, "tensors": {"rope_freqs.weight": {"shape": [64]}}}

    for sent in (file[:-100], json.dumps(dump).encode()):
        document = read_document(sent)

        assert not document.rotary
        assert codes(document.warnings) == ["rope-freqs-not-sent"]
        assert document.encodings[0]["known"] is False
    phi = read_document(json.dumps(model("phi3", **{"rope.scaling.attn_factor": 1.2})).encode())
    assert codes(phi.warnings) == ["rope-freqs-not-sent"]


def test_keys_alone_do_not_show_whether_frequencies_are_divided() -> None:
    llama, gemma = (json.dumps(model(arch)).encode() for arch in ("llama", "gemma2"))

    document = read_document(llama)
    assert codes(document.warnings) == ["rope-freqs-not-seen"]
    assert not document.rotary
    assert "rope_freqs.weight" in str(document.reason)
    assert read_document(gemma).rotary
    assert not read_document(gemma).warnings


def vocabulary(count: int = 150_000) -> Json:
    tokens = [f"token{number}" for number in range(count)]
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": tokens}


LARGE = gguf_file(
    {**model("llama", **{"rope.freq_base": 500000.0}), **vocabulary(), "tokenizer.last": 5},
    [("token_embd.weight", [1.0] * 8)],
)


@pytest.mark.parametrize("size", [4096, 65_536, 2**20])
def test_a_head_may_be_cut_anywhere(size: int) -> None:
    document = read_document(memoryview(LARGE)[:size])

    assert settings(resolve(document.content)) == plain(128, 500000.0)
    assert codes(document.warnings) == ["file-cut", "rope-freqs-not-seen"]
    assert document.read == {
        "byte_order": "little",
        "keys": 7,
        "keys_in_file": 9,
        "tensors": 0,
        "tensors_in_file": 1,
        "truncated_at": "tokenizer.ggml.tokens",
    }


def test_a_whole_head_is_read_without_objects_for_its_vocabulary() -> None:
    with held_to(2**20):
        document = read_document(LARGE)

    assert document.read is not None
    assert (document.read["keys"], document.read["truncated_at"]) == (9, None)
    assert not document.warnings


def test_every_cut_is_answered_or_refused() -> None:
    keys = {**model("gemma3", **WINDOW), **vocabulary(3), "tokenizer.last": 5}
    file = gguf_file(keys, [("a", [1.0]), ("rope_freqs.weight", FACTORS)])
    vocabulary_at = file.index(b"tokenizer.ggml.model") + len("tokenizer.ggml.model")

    for size in range(len(file)):
        if size < vocabulary_at:
            with pytest.raises(InvalidBody):
                read_document(file[:size])
        else:
            read = read_document(file[:size])
            assert read.read is not None
            assert read.read["truncated_at"] or size > len(file) - 32 - 32 - 4 * 64


def test_versions_and_byte_orders() -> None:
    keys = model("qwen2", **{"rope.freq_base": 1e6})

    assert read_document(gguf_file(keys, version=2)).content == read(keys).content
    swapped = read_document(gguf_file(keys, order=">"))
    assert swapped.content == read(keys).content
    assert swapped.read is not None
    assert swapped.read["byte_order"] == "big"


def test_architectures_without_rotary_embedding_say_what_they_have() -> None:
    def kinds(arch: str, **own: Any) -> list[str]:
        document = read(model(arch, **own))
        assert not document.rotary
        return [entry["kind"] for entry in document.encodings]

    assert kinds("bloom") == ["alibi"]
    assert kinds("mpt", **{"attention.max_alibi_bias": 16.0}) == ["alibi"]
    assert kinds("gpt2") == ["learned"]
    assert kinds("bert") == ["learned"]
    assert kinds("t5", **{"attention.relative_buckets_count": 32}) == ["buckets"]
    assert kinds("mamba") == []
    assert kinds("baichuan", block_count=40) == ["alibi"]
    assert kinds("granitehybrid", **{"rope.scaling.finetuned": False}) == []
    tower = {
        "general.architecture": "clip",
        "clip.projector_type": "qwen2.5vl_merger",
        "clip.vision.image_size": 448,
        "clip.use_gelu": True,
    }
    found = read_document(json.dumps(tower).encode())
    assert found.encodings[0]["values"] == {
        "projector_type": "qwen2.5vl_merger",
        "vision.image_size": 448,
    }
    assert "projector" in (found.reason or "")


@pytest.mark.parametrize(
    ("keys", "pointer"),
    [
        (model("of-nobody"), "/general.architecture"),
        (model("llama", **{"rope.new_key": 2.0}), "/llama.rope.new_key"),
        (model("llama", **{"rope.scaling.type": "odd"}), "/llama.rope.scaling.type"),
        (model("llama", **{"rope.scaling.type": "longrope"}), "/llama.rope.scaling.type"),
        (model("llama", **{"rope.scaling.attn_factor": 2.0}), "/llama.rope.scaling.attn_factor"),
        (model("llama", **{"rope.scaling.factor": "2"}), "/llama.rope.scaling.factor"),
        (model("llama", **YARN, **{"rope.scaling.yarn_ext_factor": 0.5}),
         "/llama.rope.scaling.yarn_ext_factor"),
        (model("llama", **YARN, **{"rope.scaling.yarn_log_multiplier": 0.1}),
         "/llama.rope.scaling.yarn_log_multiplier"),
        (model("llama", **{"attention.head_count": [32] * 8}), "/llama.attention.key_length"),
        (model("dbrx", **WINDOW), "/dbrx.attention.sliding_window"),
        (model("qwen2", use_logn_attn=True), "/qwen2.use_logn_attn"),
        ({**model("llama"), "qwen2.rope.freq_base": 1e6}, "/qwen2.rope.freq_base"),
        (model("gemma4"), "/gemma4.attention.sliding_window"),
        (model("llama", **{"rope.freq_base_swa": 5.0}), "/llama.rope.freq_base_swa"),
        (model("gemma3", **WINDOW, block_count=0), "/gemma3.block_count"),
        (model("gemma3", **WINDOW, **{"attention.sliding_window_pattern": "x"}),
         "/gemma3.attention.sliding_window_pattern"),
        (model("gemma3", **WINDOW, **{"rope.dimension_count_swa": 5}),
         "/gemma3.rope.dimension_count_swa"),
        (model("qwen2vl"), "/qwen2vl.rope.dimension_sections"),
        (model("qwen2vl", **{"rope.dimension_sections": [8, 8, 8, 8]}),
         "/qwen2vl.rope.dimension_sections"),
    ],
)  # fmt: skip
def test_a_key_that_is_not_understood_is_an_error(keys: Json, pointer: str) -> None:
    with pytest.raises(InvalidBody) as raised:
        read_document(gguf_file(keys))
    assert pointer in [fault.where for fault in raised.value.faults]


@pytest.mark.parametrize("case", MODELS.values(), ids=MODELS.keys())
def test_any_wrong_value_is_refused_or_read(case: tuple[Json, str, Json]) -> None:
    for value in WRONG:
        for wrong in spoiled(case[0], value):
            with suppress(InvalidBody):
                resolve(read_document(json.dumps(wrong).encode(), "gguf-keys").content)


def test_arrays_left_out_of_a_dump_are_asked_for() -> None:
    keys = model("qwen2vl", **{"rope.dimension_sections": [16, 24, 24, 0]})
    dump = {key: {"value": value} for key, value in keys.items()}
    dump["qwen2vl.rope.dimension_sections"] = {"array_types": ["INT32"]}

    with pytest.raises(InvalidBody, match="--json-array"):
        read_document(json.dumps({"metadata": dump}).encode())


def test_a_range_of_yarn_that_llama_cpp_does_not_read_is_a_warning() -> None:
    for arch, beta, expected in (
        ("qwen2", 16.0, True),
        ("qwen2", 32.0, False),
        ("grok", 16.0, False),
    ):
        keys = model(arch, **YARN, **{"rope.scaling.yarn_beta_fast": beta})

        assert ("betas-not-read" in codes(read(keys).warnings)) == expected


def test_alpha_elsewhere_is_a_warning() -> None:
    document = read_document(gguf_file(model("llama", **{"rope.scaling.alpha": 50.0})))

    assert codes(document.warnings) == ["alpha-not-applied"]


def head(keys: int, rest: bytes = b"", tensors: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest


def key(kind: int, rest: bytes = b"") -> bytes:
    return text("general.architecture") + struct.pack("<I", kind) + rest


HUGE = struct.pack("<Q", 2**63 + 5)
HOSTILE = {
    "nothing": b"GGUF",
    "version": b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
    "future": b"GGUF" + struct.pack("<IQQ", 4, 0, 0),
    "no keys": head(0),
    "keys": head(2**63),
    "tensors": head(1, key(STRING, text("llama")), 2**63),
    "name": head(1, HUGE + b"x" * 100),
    "text": head(1, key(STRING, HUGE)),
    "type": head(1, key(99)),
    "array": head(1, key(ARRAY, struct.pack("<I", U64) + HUGE)),
    "array of arrays": head(1, key(ARRAY, struct.pack("<IQ", ARRAY, 2**20) * 4)),
    "array of nothing": head(1, key(ARRAY, struct.pack("<I", 77) + HUGE)),
    "texts": head(1, key(ARRAY, struct.pack("<I", STRING) + HUGE)),
    "text of texts": head(1, key(ARRAY, struct.pack("<IQ", STRING, 3) + HUGE * 3)),
    "twice": head(2, key(U32, b"\1\0\0\0") * 2),
    "architecture": head(1, key(U32, b"\1\0\0\0")),
    "many texts": head(1, key(ARRAY, struct.pack("<IQ", STRING, 5_000_000))),
    "numbers": head(1, key(ARRAY, struct.pack("<IQ", I32, 2**38) + b"1" * 5)),
    "axes": head(1, key(STRING, text("llama")) + text("t") + struct.pack("<I", 2**31), 1),
}


@pytest.mark.parametrize("file", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_head_is_refused_in_bounded_memory(file: bytes) -> None:
    with held_to(2**18), pytest.raises(InvalidBody):
        read_document(file)


def test_a_tensor_beyond_the_file_has_no_values() -> None:
    file = bytearray(gguf_file(model("llama"), [("rope_freqs.weight", FACTORS)]))
    offset_at = file.index(b"rope_freqs.weight") + len("rope_freqs.weight") + 4 + 8 + 4
    file[offset_at : offset_at + 8] = HUGE

    assert codes(read_document(bytes(file)).warnings) == ["rope-freqs-not-sent"]


def test_every_architecture_is_named_once() -> None:
    table = format_tables()["gguf"]
    kinds = ("norm", "neox", "mrope", "imrope", "learned", "alibi", "buckets", "none")
    listed = [arch for kind in kinds for arch in table[kind].split()]
    others = [
        name for key in table for name in str(table[key]).split() if isinstance(table[key], str)
    ]

    assert len(listed) == len(set(listed))
    assert set(others) <= set(listed)
    assert set(table["layers"]) <= set(listed)
