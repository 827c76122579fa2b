"""``POST /model``: every positional encoding of a model, with links that work."""

import json
import math
from typing import Any

import pytest

from tests.client import Client, load_npy

MEGATRON = "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --position-embedding-type rope"
OCTETS = {"Content-Type": "application/octet-stream"}
TEXT = {"Content-Type": "text/plain"}


def header(tensors: dict[str, Any]) -> bytes:
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text


INV_FREQ = {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}


@pytest.mark.parametrize(
    ("content", "headers", "form", "found_by"),
    [
        (b'{"model_type": "llama"}', {}, "transformers", "/model_type"),
        (b'{"model_type": "llama", "x": Infinity}', {}, "transformers", "/model_type"),
        (b'{"dim": 64, "n_heads": 4, "rope_theta": 5}', {}, "params", "/dim"),
        (MEGATRON.encode(), TEXT, "megatron", "arguments"),
        (header({"rotary_emb.inv_freq": INV_FREQ}), OCTETS, "safetensors", "bytes"),
    ],
)
def test_format_is_found_in_the_content(
    client: Client, content: bytes, headers: dict[str, str], form: str, found_by: str
) -> None:
    sent = {"Content-Type": "application/json"} | headers
    report = client.post("/model", content=content, headers=sent).json()

    assert report["format"]["name"] == form
    assert report["format"]["found_by"].startswith(found_by)
    assert [each["kind"] for each in report["encodings"]] == ["rope"]


def test_format_of_the_request_replaces_the_found_one(client: Client) -> None:
    config = {"model_type": "llama", "dim": 64, "n_heads": 4, "rope_theta": 5}

    report = client.post("/model?format=params", json=config).json()

    assert report["format"] == {"name": "params", "found_by": "format"}
    assert report["encodings"][0]["layout"] == "interleaved"


def test_values_have_origins_in_what_was_sent(client: Client) -> None:
    config = {
        "num_layers": 2,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "kv_channels": 96,
        "rotary_base": 5e5,
        "position_embedding_type": "rope",
    }

    (encoding,) = client.post("/model", json=config).json()["encodings"]

    values = encoding["values"]
    assert values["head_dim"] == {"value": 96, "origin": "config", "from": ["/kv_channels"]}
    assert values["rope_theta"] == {"value": 5e5, "origin": "config", "from": ["/rotary_base"]}


GGUF = {
    "general.architecture": "qwen2",
    "qwen2.embedding_length": 896,
    "qwen2.attention.head_count": 14,
    "qwen2.context_length": 64,
}


@pytest.mark.parametrize(
    ("config", "name", "origin", "sources"),
    [
        (GGUF, "head_dim", "computed", ["/qwen2.embedding_length", "/qwen2.attention.head_count"]),
        (GGUF, "rope_theta", "class default", ["llama.cpp of autumn 2026: 10000.0"]),
        ({"head_dim": 8, "rope_scaling": {"type": "linear", "factor": 2}}, "rope_theta",
         "assumed", []),
        ({"model_type": "qwen2_5_vl"}, "grid", "example",
         ["transformers 5.23.0 qwen2_5_vl_vision"]),
        ({"model_type": "llama4_text"}, "attn_scale", "class default",
         ["class default of llama4_text (transformers 5.23.0)"]),
        ({"model_type": "llama4_text", "attn_scale": 0.2}, "attn_scale", "config", ["/attn_scale"]),
    ],
)  # fmt: skip
def test_origin_is_of_a_kind_and_sources_are_listed(
    client: Client, config: dict[str, Any], name: str, origin: str, sources: list[str]
) -> None:
    encodings = client.post("/model", json=config).json()["encodings"]

    found = [each["values"][name] for each in encodings if name in each.get("values", {})]
    listed = [(each["origin"], each["from"]) for each in found[:1]]
    assert listed == [(origin, sources)]


def test_fault_has_a_pointer_into_what_was_sent(client: Client) -> None:
    config = {"num_layers": 2, "kv_channels": "x", "position_embedding_type": "rope"}

    problem = client.post("/model", json=config).json()

    assert [fault["pointer"] for fault in problem["errors"]] == ["/kv_channels"]


def test_unknown_part_has_no_table(client: Client) -> None:
    config = {"model_type": "llama", "vision_config": {"model_type": "my_tower"}}

    text, tower = client.post("/model", json=config).json()["encodings"]

    assert (text["known"], text["served"]) == (True, True)
    assert (tower["id"], tower["known"], tower["served"]) == ("vision", False, False)
    assert "links" not in tower


def test_model_of_which_nothing_is_known_is_refused(client: Client) -> None:
    for config in ({"model_type": "lama"}, {"_class_name": "NoTransformer2DModel"}, {}):
        answer = client.post("/model", json=config)

        assert answer.status_code == 422
        assert answer.json()["type"] == "urn:posref:problem:model-not-known"


def encodings_of(client: Client, config: dict[str, Any], **query: Any) -> dict[str, Any]:
    report = client.post("/model", json=config, params=query).json()
    return {each["id"]: each for each in report["encodings"]}


def test_parts_of_a_model_of_unknown_type_are_those_that_their_configs_name(
    client: Client,
) -> None:
    config = {
        "model_type": "my_model",
        "text_config": {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4},
        "other_config": {"model_type": "qwen3", "head_dim": 32},
        "projector_config": {"hidden_size": 64},
    }

    encodings = encodings_of(client, config)

    assert list(encodings) == ["text.rotary", "other.rotary"]
    assert encodings["other.rotary"]["values"]["head_dim"]["from"] == ["/other_config/head_dim"]


def test_layers_without_rotary_embedding_and_query_temperature_are_encodings(
    client: Client,
) -> None:
    config = {"model_type": "llama4_text", "num_hidden_layers": 8}

    encodings = encodings_of(client, config)

    assert encodings["rotary"]["layers"] == {"only": [0, 1, 2, 4, 5, 6]}
    assert encodings["none"]["layers"] == {"only": [3, 7]}
    assert encodings["temperature"]["layers"] == {"only": [3, 7]}
    assert encodings["temperature"]["values"]["attn_scale"]["value"] == 0.1
    factors = load_npy(client.get(encodings["temperature"]["links"]["file"]))
    assert factors[8190:8192].tolist() == pytest.approx([1, 1 + 0.1 * math.log(2)], rel=1e-7)


MISTRAL_SMALL = {
    "dim": 4096,
    "n_layers": 8,
    "n_heads": 32,
    "head_dim": 128,
    "rope_theta": 1e6,
    "max_position_embeddings": 65536,
}
YARN = {"original_max_position_embeddings": 8192, "factor": 8, "apply_scale": False}
GGUF = {"embedding_length": 4096, "attention.head_count": 32, "block_count": 8}


@pytest.mark.parametrize(
    ("document", "step", "is_known"),
    [
        (
            {
                **MISTRAL_SMALL,
                "yarn": {**YARN, "beta": 32, "alpha": 1},
                "llama_4_scaling": {"beta": 0.1, "original_max_position_embeddings": 4096},
            },
            4096,
            False,
        ),
        (
            {
                "general.architecture": "llama4",
                **{f"llama4.{key}": own for key, own in GGUF.items()},
            },
            8191,
            True,
        ),
        (
            {
                "general.architecture": "mistral3",
                **{f"mistral3.{key}": own for key, own in GGUF.items()},
                "mistral3.attention.temperature_scale": 0.1,
                "mistral3.attention.temperature_length": 8192,
            },
            8192,
            True,
        ),
    ],
    ids=["params.json", "GGUF of Llama 4", "GGUF of Mistral 3"],
)
def test_files_of_other_programs_link_the_factor_of_queries(
    client: Client, document: dict[str, Any], step: int, is_known: bool
) -> None:
    if "general.architecture" in document:
        document |= {f"{document['general.architecture']}.context_length": 65536}

    own = encodings_of(client, document)["temperature"]

    assert (own["served"], own["known"]) == (True, is_known)
    factors = load_npy(client.get(own["links"]["file"]))
    jump = [1, 1 + 0.1 * math.log(2)]
    assert factors[step - 1 : step + 1].tolist() == pytest.approx(jump, rel=1e-7)


def test_key_that_no_encoding_reads_is_refused_with_its_pointer(client: Client) -> None:
    config = {"model_type": "clip", "text_config": {"alibi": True}}

    answer = client.post("/model", json=config)

    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/text_config/alibi"]


def test_rows_of_the_links_follow_the_request(client: Client) -> None:
    rotary = encodings_of(client, {"model_type": "llama"}, seq_len=16)["rotary"]

    assert rotary["shape"] == [16, 128]
    assert client.get(rotary["links"]["cos"]).headers["Array-Shape"] == "16, 128"


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"_class_name": "FluxTransformer2DModel", "axes_dims_rope": 5}, "/axes_dims_rope"),
        ({"_class_name": "FluxTransformer2DModel", "num_layers": "x"}, "/num_layers"),
        ({"_class_name": "ErnieImageTransformer2DModel", "num_layers": [[1]]}, "/num_layers"),
        ({"model_type": "clip_text_model", "hidden_size": 1e300}, "/hidden_size"),
        ({"model_type": "clip_text_model", "max_position_embeddings": 2.5}, ""),
    ],
)
def test_value_of_another_type_is_refused_with_its_pointer(
    client: Client, config: dict[str, Any], pointer: str
) -> None:
    answer = client.post("/model", json=config)

    assert answer.status_code == 422
    assert pointer in {fault["pointer"] for fault in answer.json()["errors"]} or not pointer


def test_table_beyond_the_longest_answer_has_no_link(client: Client) -> None:
    config = {"model_type": "whisper", "max_source_positions": 2**40}

    sinusoidal = encodings_of(client, config)["sinusoidal"]

    assert not sinusoidal["served"]
    assert "POSREF_MAX_RESPONSE_BYTES" in sinusoidal["reason"]


@pytest.mark.parametrize("content", [b'{"model_type": "\\ud800x"}', b'{"rope_\\ud800": 1}'])
def test_half_of_a_surrogate_pair_is_refused(client: Client, content: bytes) -> None:
    for path in ("/model", "/rope/config"):
        answer = client.post(path, content=content, headers={"Content-Type": "application/json"})

        assert answer.status_code == 422
        assert "surrogate" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        (b"3: 4", "the key 3 is no text"),
        (b"a: {b: {c: 1, c: 1}}", "a name stands twice in one object"),
        (b"rotary_base: 5\nrotary_base: 6", "a name stands twice in one object"),
    ],
)
def test_keys_of_yaml_are_texts_and_stand_once(client: Client, line: bytes, detail: str) -> None:
    answer = client.post("/model", content=b"encoder_seq_length: 8\n" + line, headers=TEXT)

    assert answer.status_code == 422
    assert answer.json()["detail"] == detail


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"model_type": "swin", "window_size": "7"}, "/window_size"),
        ({"model_type": "gpt2", "n_positions": 0}, "/n_positions"),
        ({"model_type": "llama", "_class_name": "FluxTransformer2DModel"}, "/_class_name"),
        ({"model_type": "efficientloftr", "partial_rotary_factor": 0.5}, "/partial_rotary_factor"),
    ],
)
def test_values_that_no_class_takes_are_refused(
    client: Client, config: dict[str, Any], pointer: str
) -> None:
    problem = client.post("/model", json=config).json()

    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_one_of_two_rules_of_a_tower_is_read(client: Client) -> None:
    rules = {"rope_scaling": {"rope_type": "default"}, "rope_parameters": {"rope_theta": 500.0}}

    (encoding,) = client.post("/model", json={"model_type": "pixtral", **rules}).json()["encodings"]

    assert encoding["values"]["rope_theta"]["value"] == 10000.0


def test_tower_that_is_null_is_that_of_the_class(client: Client) -> None:
    without, null = (
        encodings_of(client, {"model_type": "qwen2_5_vl", **own})
        for own in ({}, {"vision_config": None})
    )

    assert null == without
    assert null["vision.rotary"]["served"]


def test_grid_that_a_model_cannot_have_is_a_fault_of_the_request(client: Client) -> None:
    for config, grid in (
        ({"_class_name": "FluxTransformer2DModel"}, "34,46"),
        ({"model_type": "qwen2_vl"}, "1,33,45"),
    ):
        answer = client.post("/model", json=config, params={"grid": grid})

        assert answer.status_code == 422
        assert [fault["parameter"] for fault in answer.json()["errors"]] == ["grid"]


@pytest.mark.parametrize(
    ("config", "tower"),
    [
        ({"dim": 64, "n_heads": 4, "n_layers": 2, "rope_theta": 1e6}, "vision_encoder"),
        ({"model_type": "foo", "head_dim": 8, "rope_theta": 1e6}, "vision_config"),
        ({"model_type": "llama"}, "audio_config"),
    ],
)
def test_tower_without_a_type_is_listed_as_not_known(
    client: Client, config: dict[str, Any], tower: str
) -> None:
    encodings = encodings_of(client, {**config, tower: {"hidden_size": 64, "image_size": 32}})

    assert [each["known"] for each in encodings.values()][-1:] == [False]
    assert [each["served"] for each in encodings.values()] == [True, False]


@pytest.mark.parametrize(
    ("config", "grid", "rule"),
    [
        ({"rope_max_seq_len": 64}, "5,30,65", "the largest of grid must be at most"),
        ({"_class_name": "ChronoEditTransformer3DModel"}, "2,30,52", "grid/0 must not be 2"),
    ],
)
def test_grid_beyond_the_table_of_a_class_is_refused(
    client: Client, config: dict[str, Any], grid: str, rule: str
) -> None:
    sent = {"_class_name": "WanTransformer3DModel", **config}

    answer = client.post("/model", json=sent, params={"grid": grid})

    assert [each["parameter"] for each in answer.json()["errors"]] == ["grid"]
    assert rule in answer.json()["detail"]


def test_example_of_a_grid_beyond_the_table_of_a_class_has_no_link(client: Client) -> None:
    config = {"_class_name": "WanTransformer3DModel", "rope_max_seq_len": 16}

    assert not encodings_of(client, config)["rotary"]["served"]
    assert encodings_of(client, config, grid="5,16,16")["rotary"]["served"]


def test_condition_that_a_config_does_not_meet_is_a_sentence_about_its_keys(
    client: Client,
) -> None:
    config = {"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [16, 56]}

    (fault,) = client.post("/model", json=config).json()["errors"]

    assert fault["pointer"] == "/axes_dims_rope"
    assert fault["detail"].endswith("the sum of axes_dims_rope must be attention_head_dim")


def test_parameter_that_no_encoding_asks_for_has_a_warning(client: Client) -> None:
    for config, query, unused in (
        ({"model_type": "llama"}, {"grid": "1,2", "seq_len": 3}, ["grid"]),
        ({"_class_name": "FluxTransformer2DModel"}, {"grid": "1,2,3", "timesteps": 5}, []),
        ({"_class_name": "FluxTransformer2DModel"}, {"seq_len": 5}, ["seq_len"]),
    ):
        warnings = client.post("/model", json=config, params=query).json()["warnings"]

        own = [each["detail"] for each in warnings if each["code"] == "parameter-unused"]
        assert [detail.split()[0] for detail in own] == unused


def test_settings_that_a_config_alone_tells_are_not_known(client: Client) -> None:
    config = {"model_type": "foo", "head_dim": 8, "rope_theta": 1e6}

    (encoding,) = client.post("/model", json=config).json()["encodings"]

    assert (encoding["known"], encoding["served"]) == (False, True)


@pytest.mark.parametrize(
    ("library", "pack", "names"),
    [
        ("transformers", "half", {"table", "file", "cos", "sin", "frequencies", "apply"}),
        ("vllm", "concat", {"table", "file", "frequencies", "apply"}),
        ("onnx", "compact", {"table", "file", "cos", "sin", "frequencies", "apply"}),
        ("ggml", "flat", {"table", "file", "frequencies", "apply"}),
    ],
)
def test_links_have_the_pack_of_the_library_asked_for(
    client: Client, library: str, pack: str, names: set[str]
) -> None:
    config = {"model_type": "llama", "max_position_embeddings": 16}

    report = client.post("/model", json=config, params={"for": library}).json()

    links = report["encodings"][0]["links"]
    assert links.keys() == names
    assert f"pack={pack}" in links["file"]
    (caches,) = report["engines"]["onnx"]["caches"]
    for url in [*(links[name] for name in names - {"apply"}), caches["sin_cache"]]:
        assert client.get(url).status_code == 200
    assert client.get(caches["sin_cache"]).headers["Array-Shape"] == "16, 64"


def test_library_without_a_pack_is_refused_with_those_that_have_one(client: Client) -> None:
    config = {"model_type": "qwen2_vl"}

    encodings = encodings_of(client, config, **{"for": "vllm"})
    answer = client.post("/model", json=config, params={"for": "keras"})

    assert encodings["rotary"]["served"]
    assert "flash_attn, onnx" in encodings["vision.rotary"]["reason"]
    assert answer.status_code == 422
    assert "'vllm'" in answer.json()["errors"][0]["detail"]


def test_all_keys_that_nothing_reads_are_listed_on_request(client: Client) -> None:
    config = {
        "model_type": "qwen2_5_vl",
        "hidden_act": "silu",
        "vision_config": {"in_chans": 3, "num_heads": 16, "other": {"rows": 1}},
    }

    of_positions, of_all = (
        client.post("/model", json=config, params=query).json() for query in ({}, {"unread": "all"})
    )

    assert of_positions.pop("unread") == []
    assert of_all.pop("unread") == [
        "/hidden_act",
        "/vision_config/in_chans",
        "/vision_config/other",
    ]
    assert of_all == of_positions
    assert client.post("/model?unread=all", json={"dim": 8, "n_heads": 1}).status_code == 422


@pytest.mark.parametrize(
    ("config", "unread"),
    [
        (
            {
                "model_type": "qwen2_5_vl",
                "vision_config": {"model_type": "qwen2_vl", "num_heads": 16, "hidden_act": "silu"},
            },
            ["/vision_config/model_type", "/vision_config/hidden_act"],
        ),
        (
            {
                "model_type": "qwen3_5",
                "text_config": {"model_type": "llama", "head_dim": 64, "hidden_act": "silu"},
            },
            ["/text_config/model_type", "/text_config/hidden_act"],
        ),
    ],
)
def test_keys_of_a_part_whose_class_has_its_own_type_are_read(
    client: Client, config: dict[str, Any], unread: list[str]
) -> None:
    answer = client.post("/model?unread=all", json=config).json()

    assert answer["unread"] == unread


def test_rows_beyond_the_original_length_have_the_frequencies_of_that_length(
    client: Client,
) -> None:
    config = {
        "model_type": "phi3",
        "original_max_position_embeddings": 4096,
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1.0] * 48,
            "long_factor": [2.0] * 48,
        },
    }

    for rows, context_length in ((4096, 4096), (4097, 4097)):
        rotary = encodings_of(client, config, seq_len=rows)["rotary"]

        assert f"context_length={context_length}" in rotary["links"]["cos"]
        assert rotary["shape"] == [rows, 96]
        lengths = [each["context_length"] for each in rotary["regimes"]]
        assert [each["shape"][0] for each in rotary["regimes"]] == lengths


COLPALI = {"model_type": "paligemma", "text_config": {"model_type": "gemma", "hidden_size": 2048}}


def test_text_model_of_a_part_is_listed_once_with_the_path_of_its_module(client: Client) -> None:
    for config, at in (
        ({"model_type": "qwen2_5_omni"}, {"thinker.rotary": "thinker.language_model.rotary_emb"}),
        ({"model_type": "qwen2_5_vl"}, {"rotary": "language_model.rotary_emb"}),
        ({"model_type": "csm"}, {"rotary": "backbone_model.rotary_emb"}),
        ({"model_type": "colpali", "vlm_config": COLPALI}, {}),
    ):
        encodings = encodings_of(client, config)

        places = [each["at"] for each in encodings.values()]
        assert len(set(places)) == len(places)
        assert {name: encodings[name]["at"] for name in at} == at


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("bert", "transformers 5.23.0 modeling_bert.py: BertEmbeddings"),
        ("t5", "transformers 5.23.0 modeling_t5.py: T5Attention._relative_position_bucket"),
        ("gpt2", None),
    ],
)
def test_source_is_a_class_of_the_type_itself(
    client: Client, name: str, source: str | None
) -> None:
    encodings = encodings_of(client, {"model_type": name})

    assert next(iter(encodings.values())).get("source") == source
