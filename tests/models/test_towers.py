"""A sample of what ``tests.models.sweep_towers`` compares."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client import Client
from tests.models.sweep_towers import outcome

SAMPLE = Path(__file__).parents[1] / "data" / "library_towers.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in SAMPLE.read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=[each["config"]["model_type"] for each in CASES])
def test_tables_of_towers_are_those_of_the_library(client: Client, case: dict[str, Any]) -> None:
    assert outcome(client, case) == ("right", "")


def test_another_base_is_not_right(client: Client) -> None:
    case = next(each for each in CASES if "spatial_merge_size" not in each["asks"])
    changed = {**case, "cos": [[-value for value in row] for row in case["cos"]]}

    assert outcome(client, changed)[0] == "wrong"


@pytest.mark.parametrize(
    ("config", "head_dim", "theta"),
    [
        ({"model_type": "voxtral"}, 128, 1e8),
        ({"model_type": "voxtral", "text_config": {"hidden_size": 4096}}, 128, 1e8),
        ({"model_type": "glmasr", "text_config": {"hidden_size": 320}}, 20, 1e4),
        ({"model_type": "got_ocr2"}, 64, 1e6),
        ({"model_type": "got_ocr2", "text_config": {"model_type": "qwen2"}}, 128, 1e4),
        ({"model_type": "mistral3"}, 128, 1e9),
        ({"model_type": "mistral3", "text_config": {}}, 128, 1e4),
    ],
)
def test_a_text_model_has_the_defaults_that_the_model_around_it_gives(
    client: Client, config: dict[str, Any], head_dim: int, theta: float
) -> None:
    rotary = client.post("/model", json=config).json()["encodings"][0]

    assert rotary["values"]["head_dim"]["value"] == head_dim
    assert rotary["values"]["rope_theta"]["value"] == theta


def test_another_text_model_needs_the_base_that_the_model_around_it_may_give(
    client: Client,
) -> None:
    text: dict[str, Any] = {"model_type": "qwen2"}
    answer = client.post("/model", json={"model_type": "voxtral", "text_config": text})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/text_config/rope_theta"

    text["rope_theta"] = 1e6
    rotary = client.post("/model", json={"model_type": "voxtral", "text_config": text}).json()
    assert rotary["encodings"][0]["values"]["rope_theta"]["value"] == 1e6


@pytest.mark.parametrize(
    ("vision_config", "shape"),
    [({}, [577, 1024]), ({"vision_config": {"model_type": "clip_vision_model"}}, [50, 768])],
)
def test_the_defaults_of_a_missing_tower_are_not_those_of_a_tower_that_is_sent(
    client: Client, vision_config: dict[str, Any], shape: list[int]
) -> None:
    answer = client.post("/model", json={"model_type": "llava", **vision_config}).json()
    learned = next(each for each in answer["encodings"] if each["kind"] == "learned")

    assert learned["shape"] == shape


@pytest.mark.parametrize(
    ("model_type", "path"),
    [
        ("sam", "vision_encoder.pos_embed"),
        ("mask2former", "pixel_level_module.encoder.swin"),
        ("blip-2", "language_model.model.decoder.embed_positions"),
        ("video_llava", "video_tower.embeddings.position_embedding"),
        ("llava", "language_model.rotary_emb"),
        ("colqwen2", "vlm.language_model.rotary_emb"),
        ("dia", "decoder.rotary_emb"),
        ("qwen2_5_omni", "thinker.language_model.rotary_emb"),
    ],
)
def test_paths_are_those_of_the_whole_model(client: Client, model_type: str, path: str) -> None:
    found = client.post("/model", json={"model_type": model_type}).json()["encodings"]

    assert [each for each in found if each["at"].startswith(path)]
    assert len({(each["at"], each["id"]) for each in found}) == len(found)


def test_a_part_with_an_empty_type_is_of_its_class_or_no_part(client: Client) -> None:
    parts = {"attn_config": {"model_type": "", "rope_theta": 5e5}, "ffn_config": {"model_type": ""}}
    sizes = {"d_model": 6144, "n_heads": 48, "n_layers": 4, "max_seq_len": 32768}
    sam = {"model_type": "sam", "vision_config": {"model_type": "", "hidden_size": 768}}

    dbrx = client.post("/model", json={"model_type": "dbrx", **sizes, **parts}).json()
    tower = client.post("/model", json=sam).json()

    assert [each["id"] for each in dbrx["encodings"]] == ["rotary"]
    assert all(each["known"] for each in tower["encodings"])


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"model_type": "qwen3_5", "text_config": {"model_type": "llama"}}, "/text_config"),
        ({"model_type": "qwen2_vl", "vision_config": {"model_type": "vit"}}, "/vision_config"),
        (
            {"model_type": "qwen2_5_omni", "thinker_config": {"model_type": "bert"}},
            "/thinker_config",
        ),
    ],
)
def test_a_part_whose_class_is_fixed_has_the_same_encodings_whatever_type_it_names(
    client: Client, config: dict[str, Any], pointer: str
) -> None:
    answer = client.post("/model", json=config).json()
    plain = client.post("/model", json={"model_type": config["model_type"]}).json()
    told = {(each["code"], each["pointer"]) for each in answer["warnings"]}

    assert ("key-not-read", f"{pointer}/model_type") in told
    tables = [[each["at"] for each in of["encodings"]] for of in (answer, plain)]
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("config", "theta", "warned"),
    [
        ({"model_type": "gemma3", "rope_theta": 777.0}, 1e6, "/rope_theta"),
        ({"model_type": "llava", "rope_theta": 777.0}, 1e4, "/rope_theta"),
        (
            {
                "model_type": "llava",
                "rope_theta": 777.0,
                "hidden_size": 5120,
                "num_attention_heads": 40,
            },
            777.0,
            "/text_config",
        ),
        ({"model_type": "qwen2_vl", "rope_theta": 777.0}, 777.0, None),
    ],
)
def test_keys_beside_a_missing_text_config_are_read_as_the_class_does_or_warned_of(
    client: Client, config: dict[str, Any], theta: float, warned: str | None
) -> None:
    answer = client.post("/model", json=config).json()
    bases = [
        each["values"]["rope_theta"]["value"]
        for each in answer["encodings"]
        if each["kind"] == "rope" and "sliding" not in each["id"]
    ]
    told = [each["pointer"] for each in answer["warnings"] if each["code"] == "key-not-read"]

    assert bases == [theta]
    assert told == ([] if warned is None else [warned])


def test_a_base_that_the_rule_of_the_model_around_replaces_is_refused(client: Client) -> None:
    text = {"model_type": "llama", "rope_theta": 777.0}
    refused = client.post("/model", json={"model_type": "glmasr", "text_config": text})

    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/text_config/rope_theta"


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"model_type": "musicgen"}, "decoder.block"),
        (
            {"model_type": "vision-encoder-decoder", "decoder": {"model_type": "mbart"}},
            "encoder.embed_positions",
        ),
    ],
)
def test_a_part_that_is_half_of_a_model_lacks_the_encodings_of_the_other_half(
    client: Client, config: dict[str, Any], path: str
) -> None:
    encodings = client.post("/model", json=config).json()["encodings"]

    assert encodings
    assert not [each["at"] for each in encodings if path in each["at"]]


@pytest.mark.parametrize("key", ["img_processor", "embd_layer", "audio_processor", "visual"])
def test_parts_under_other_keys_are_named(client: Client, key: str) -> None:
    config = {"model_type": "phi3_v", "hidden_size": 3072, "num_attention_heads": 32}
    answer = client.post("/model", json={**config, key: {"width": 1664}}).json()

    assert ("tower-not-known", f"/{key}") in {
        (each["code"], each["pointer"]) for each in answer["warnings"]
    }


def test_the_tables_of_bark_have_the_rows_of_its_parts(client: Client) -> None:
    own = {"model_type": "semantic", "block_size": 256, "hidden_size": 1024}
    answer = client.post("/model", json={"model_type": "bark", "semantic_config": own}).json()

    assert answer["encodings"][0]["shape"] == [256, 1024]
    assert "tower-not-known" not in {each["code"] for each in answer["warnings"]}
