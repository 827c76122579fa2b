"""Models whose positions are not rotary: what /model names for them, and the tables it links to."""

import json
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from service.models.knowledge import part_type
from tests.client import Client

MODELS = files("service.models")
FACTS: dict[str, Any] = json.loads((MODELS / "facts/transformers-5.23.0.json").read_bytes())
FILES = ("absolute", "learned", "relative")


def model(client: Client, model_type: str, **config: Any) -> list[dict[str, Any]]:
    answer = client.post("/model", json={"model_type": model_type, **config})
    assert answer.status_code == 200, answer.text
    encodings: list[dict[str, Any]] = answer.json()["encodings"]
    return encodings


def tables(client: Client, model_type: str, **config: Any) -> list[str]:
    """Return the links to the tables of a model."""
    found = model(client, model_type, **config)
    return [each["links"]["table"] for each in found if "links" in each]


@pytest.mark.parametrize("name", sorted(FACTS["types"]))
def test_every_type_has_an_outcome(name: str) -> None:
    kind = part_type(name)

    assert kind is not None
    outcomes = (kind.text, kind.entries, kind.none, kind.unknown, kind.towers)
    assert any(outcomes), "nothing says what positions it has, or that nobody knows"


def test_every_reviewed_class_is_one_of_the_library() -> None:
    known = {name for names in FACTS["bodies"].values() for name in names}
    listed = {name for body in bodies() for name in body["classes"]}

    assert listed - known == set()


def bodies() -> Iterator[dict[str, Any]]:
    for name in FILES:
        yield from tomllib.loads((MODELS / f"bodies/{name}.toml").read_text()).values()


@pytest.mark.parametrize(
    ("config", "path", "parameters"),
    [
        ({"model_type": "bloom", "n_head": 12}, "/relative/alibi/slopes", {"num_heads": 12}),
        (
            {"model_type": "falcon", "alibi": True, "num_attention_heads": 71},
            "/relative/alibi/slopes",
            {"num_heads": 71},
        ),
        (
            {"model_type": "baichuan", "hidden_size": 5120, "num_attention_heads": 40},
            "/relative/alibi/slopes",
            {"num_heads": 40},
        ),
        (
            {"model_type": "whisper", "d_model": 512, "max_source_positions": 100},
            "/encoding",
            {"convention": "whisper", "d_model": 512, "seq_len": 100},
        ),
        (
            {"model_type": "m2m_100", "d_model": 64, "pad_token_id": 3},
            "/encoding",
            {"convention": "m2m100", "d_model": 64, "padding_idx": 3, "seq_len": 1024},
        ),
        (
            {"model_type": "musicgen_decoder", "hidden_size": 8, "max_position_embeddings": 9},
            "/encoding/timesteps",
            {
                "d_model": 8,
                "num_timesteps": 9,
                "flip_sin_to_cos": "true",
                "downscale_freq_shift": 1,
            },
        ),
        (
            {"model_type": "deformable_detr", "d_model": 64},
            "/encoding/grid",
            {"convention": "deformable-detr", "d_model": 64, "height": 25, "width": 34},
        ),
        (
            {"model_type": "videomae", "hidden_size": 8, "num_frames": 4, "image_size": 32},
            "/encoding",
            {"convention": "vaswani", "d_model": 8, "seq_len": 8},
        ),
        (
            {"model_type": "mpnet", "relative_attention_num_buckets": 64},
            "/relative/t5",
            {
                "num_buckets": 32,
                "max_distance": 128,
                "bidirectional": "true",
                "query_len": 128,
                "key_len": 128,
            },
        ),
        (
            {"model_type": "deberta-v2", "relative_attention": True, "position_buckets": 32},
            "/relative/deberta",
            {"bucket_size": 32, "max_position": 512, "query_len": 8, "key_len": 8},
        ),
        (
            {"model_type": "swin", "window_size": 5},
            "/relative/swin",
            {"window_size": "5,5"},
        ),
        (
            {"model_type": "beit", "use_relative_position_bias": True, "image_size": 64},
            "/relative/swin",
            {"window_size": "4,4", "class_token": "true"},
        ),
        (
            {"model_type": "wav2vec2-bert", "left_max_position_embeddings": 9},
            "/relative/shaw",
            {"max_relative_position": 9, "max_after": 8, "query_len": 8, "key_len": 8},
        ),
        (
            {"model_type": "speecht5", "encoder_max_relative_position": 5},
            "/relative/shaw",
            {
                "max_relative_position": 4,
                "max_after": 5,
                "descending": "true",
                "query_len": 8,
                "key_len": 8,
            },
        ),
        (
            {"model_type": "parakeet_encoder", "hidden_size": 64},
            "/relative/conformer",
            {"d_model": 64, "seq_len": 8},
        ),
        (
            {"model_type": "xlnet", "d_model": 8, "attn_type": "uni", "clamp_len": 3},
            "/relative/xlnet",
            {"d_model": 8, "attn_type": "uni", "bi_data": "false", "clamp_len": 3, "key_len": 8},
        ),
    ],
    ids=lambda value: value.get("model_type") if isinstance(value, dict) else "",
)
def test_a_table_follows_the_config(
    client: Client, config: dict[str, Any], path: str, parameters: dict[str, Any]
) -> None:
    links = tables(client, **config)

    expected = {f"{name}={value}" for name, value in parameters.items()}
    found = [link for link in links if link.partition("?")[0].removesuffix(".json").endswith(path)]
    assert expected in [
        set(link.partition("?")[2].replace("%2C", ",").split("&")) for link in found
    ]
    assert all(client.get(link).status_code == 200 for link in found)


def test_encoders_have_buckets_for_both_directions_and_decoders_for_one(client: Client) -> None:
    found = {each["at"].split(".")[0]: each for each in model(client, "t5")}

    assert found["encoder"]["values"]["bidirectional"]["value"] is True
    assert found["decoder"]["values"]["bidirectional"]["value"] is False


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        ({"model_type": "gpt2", "n_positions": 7, "n_embd": 24}, [7, 24]),
        ({"model_type": "opt", "max_position_embeddings": 7, "hidden_size": 24}, [9, 24]),
        ({"model_type": "vit", "image_size": 64, "hidden_size": 24}, [1, 17, 24]),
        ({"model_type": "vit", "image_size": [64, 32], "hidden_size": 24}, [1, 9, 24]),
        ({"model_type": "led", "max_decoder_position_embeddings": 7}, [7, 1024]),
        ({"model_type": "sam_vision_model", "image_size": 64, "hidden_size": 24}, [1, 4, 4, 24]),
        ({"model_type": "layoutlmv3", "coordinate_size": 7, "shape_size": 9}, [1024, 7]),
    ],
    ids=str,
)
def test_learned_tables_have_the_shape_of_the_config(
    client: Client, config: dict[str, Any], shape: list[int]
) -> None:
    assert shape in [each.get("shape") for each in model(client, **config)]


@pytest.mark.parametrize("name", ["mamba", "jamba", "resnet", "segformer", "sam_mask_decoder"])
def test_a_type_without_positions_says_why(client: Client, name: str) -> None:
    answer = client.post("/model", json={"model_type": name}).json()

    assert answer["encodings"] == []
    assert "positions" in answer["reason"] or "convolutions" in answer["reason"]


def test_what_is_not_served_says_why(client: Client) -> None:
    for name in ("vits", "levit", "wav2vec2", "perceiver", "sam"):
        hidden = [each for each in model(client, name) if not each["served"]]
        assert hidden
        assert all(each["known"] for each in hidden)
        reasons = [each["reason"] for each in hidden if each["kind"] != "learned-2d"]
        assert all(reasons)


def test_a_class_of_another_library_is_not_known(client: Client) -> None:
    (found,) = model(client, "timm_wrapper")

    assert not found["known"]


def test_a_config_that_contradicts_the_class_has_no_table(client: Client) -> None:
    plain = tables(client, "mpt", attn_config={"alibi": True})
    (other,) = model(client, "mpt", attn_config={"alibi": True, "alibi_bias_max": 16})

    assert len(plain) == 1
    assert not other["served"]
    assert "MosaicML" in other["reason"]


def test_no_default_config_has_an_encoding_twice(client: Client) -> None:
    for name in ("bert", "clip_vision_model", "vit", "swinv2", "wavlm", "layoutlmv3", "sam2_video"):
        found = model(client, name)
        places = [(each["at"], each["kind"]) for each in found if "*" not in each["at"]]
        assert len(set(places)) == len(places)


SWITCHES = [
    (name, variant)
    for name, facts in FACTS["types"].items()
    for variant in facts.get("variants", ())
]
# The rotary embedding of the text model has its own name, and entries the paths of the whole model.
ELSEWHERE = {"rotary_embeddings", "position_emb", "encoder.layers.*.self_attn"}


@pytest.mark.parametrize(
    ("name", "variant"), SWITCHES, ids=[f"{n}-{v['when']}" for n, v in SWITCHES]
)
def test_a_switch_has_the_modules_of_its_position_and_no_others(
    client: Client, name: str, variant: dict[str, Any]
) -> None:
    config = {"model_type": name, **variant["when"]}
    answer = client.post("/model", json=config)
    found = [each["at"] for each in answer.json().get("encodings", ())]
    new = {module["at"] for module in variant["modules"]}

    assert answer.status_code == 200 or not new
    assert all(any(f"{at}.".startswith(f"{path}.") for at in found) for path in new - ELSEWHERE)
    assert not [
        at
        for at in found
        for path in {*variant["without"]} - new
        if f"{at}.".startswith(f"{path}.")
    ]


@pytest.mark.parametrize(
    ("config", "form"),
    [
        ({"model_type": "bloom", "n_head": 4}, [0, 1, 2]),
        ({"model_type": "mpt", "n_heads": 4}, [-2, -1, 0]),
    ],
)
def test_slopes_that_multiply_keys_link_their_biases(
    client: Client, config: dict[str, Any], form: list[int]
) -> None:
    (encoding,) = client.post("/model", json=config).json()["encodings"]

    slopes = client.get(encoding["links"]["table"]).json()["data"]
    biases = client.get(encoding["links"]["bias"].replace("key_len=8", "key_len=3")).json()["data"]

    assert biases == [[[slope * each for each in form]] for slope in slopes]


def test_a_number_of_layers_that_only_the_class_has_is_said_to_be_its_default(
    client: Client,
) -> None:
    def layers(**config: Any) -> Any:
        encodings = client.post("/model", json=config).json()["encodings"]
        return [each.get("layers") for each in encodings]

    default = {"origin": "class default"}
    assert layers(model_type="bloom") == [{"all": 2, **default}]
    assert layers(model_type="bloom", n_layer=2) == [{"all": 2}]
    assert layers(model_type="llama") == [{"all": 32, **default}]
    assert layers(model_type="llama", num_hidden_layers=32) == [{"all": 32}]
    assert all(each["origin"] == "class default" for each in layers(model_type="gemma3_text"))
    assert all(each["origin"] == "class default" for each in layers(model_type="smollm3"))
    flags = layers(model_type="smollm3", no_rope_layers=[1, 1, 0])
    assert flags == [{"only": [0, 1]}, {"only": [2]}]
    tower = {"model_type": "sam3_vit_model"}
    several = [7, 15, 23, 31]
    assert layers(**tower)[1:] == [{"only": several, **default}, {"all": 28, **default}]
    assert layers(**tower, num_hidden_layers=32)[1:] == [{"only": several, **default}, {"all": 28}]
    types = ["full_attention", "sliding_attention"]
    assert not any("origin" in each for each in layers(model_type="gemma3_text", layer_types=types))


def test_reformer_has_one_learned_table_without_axes(client: Client) -> None:
    (axial,), (plain,) = (
        model(client, "reformer", axial_pos_embds=is_axial, max_position_embeddings=512)
        for is_axial in (True, False)
    )

    assert axial["counts"].startswith("two tables")
    assert "shape" not in axial
    assert (plain["shape"], plain["counts"]) == ([512, 256], "tokens from 0, padding included")


def test_tables_of_boxes_of_lilt_have_a_sixth_of_the_channels(client: Client) -> None:
    sizes = {"max_2d_position_embeddings": 2048, "hidden_size": 96}
    _, *boxes, _ = model(client, "lilt", **sizes, num_attention_heads=4)

    assert [each["shape"] for each in boxes] == [[2048, 16]] * 4


def test_lengths_of_links_that_no_model_has_are_said_to_be_examples(client: Client) -> None:
    answer = client.post("/model", json={"model_type": "t5", "n_positions": 512}).json()

    for encoding in answer["encodings"]:
        assert encoding["asks"]["query_len"] == "queries; 128 in the links is an example"
        assert encoding["values"]["key_len"] == {"value": 128, "origin": "example", "from": []}
    assert answer["unread"] == ["/n_positions"]


@pytest.mark.parametrize(
    ("config", "grid"),
    [
        ({"model_type": "dinov3_vit", "image_size": 224}, [14, 14]),
        ({"model_type": "dinov3_vit", "image_size": 518, "patch_size": 14}, [37, 37]),
        ({"model_type": "sapiens2", "image_size": [1024, 768]}, [64, 48]),
        ({"model_type": "eomt_dinov3", "image_size": [320, 640], "patch_size": [16, 32]}, [20, 20]),
        ({"model_type": "mlcd_vision_model", "image_size": 448}, [32, 32]),
    ],
)
def test_grid_of_links_is_that_of_the_pictures_of_a_config(
    client: Client, config: dict[str, Any], grid: list[int]
) -> None:
    (rotary,) = (each for each in model(client, **config) if each["kind"] == "rope-axial")

    assert (rotary["values"]["grid"]["value"], rotary["asks"]) == (
        grid,
        {"grid": "patches: height, width"},
    )
    assert f"grid={grid[0]},{grid[1]}" in rotary["links"]["table"]
    other = client.post("/model?grid=2,3", json=config).json()["encodings"][0]
    assert other["values"]["grid"] == {"value": [2, 3], "origin": "request", "from": ["?grid"]}


@pytest.mark.parametrize("name", ["dinov3_vit", "sapiens2", "mlcd_vision_model"])
@pytest.mark.parametrize("size", [None, 8, 0, -224, [224], [3, 224, 448], [8, 224], "224", 224.5])
def test_a_config_without_a_size_of_pictures_has_the_example_of_a_grid(
    client: Client, name: str, size: Any
) -> None:
    (rotary,) = (
        each for each in model(client, name, image_size=size) if each["kind"] == "rope-axial"
    )

    assert rotary["values"]["grid"]["origin"] == "example"
    assert rotary["asks"] == {"grid": "patches: height, width; 4,6 in the links is an example"}


@pytest.mark.parametrize("given", [{}, {"patch_size": 14}])
def test_grid_of_the_pictures_of_a_class_is_an_example(
    client: Client, given: dict[str, Any]
) -> None:
    (rotary,) = model(client, "dinov3_vit", **given)

    side = 224 // given.get("patch_size", 16)
    assert rotary["values"]["grid"]["value"] == [side, side]
    assert rotary["values"]["grid"]["origin"] == "example"
    assert f"{side},{side} in the links is an example" in rotary["asks"]["grid"]
