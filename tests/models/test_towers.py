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
        ({"model_type": "voxtral", "text_config": {"model_type": "qwen2"}}, 128, 1e4),
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
