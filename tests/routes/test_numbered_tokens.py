"""``/model`` says how tokens are numbered, with requests to ``/positions`` that work."""

import re
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from service.encodings.positions.convention import Convention
from service.models.knowledge import known_names, numberings, part_type
from tests.client import Client, load_npy

OF_TYPES = {
    **dict.fromkeys(("qwen2_vl", "paddleocr_vl"), "qwen2_vl"),
    "qwen2_5_vl": "qwen2_5_vl",
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), "qwen3_vl"),
    **dict.fromkeys(("qwen4_exp", "glm4v", "glm4v_moe", "glm46v", "glm_ocr"), "qwen3_vl"),
    **dict.fromkeys(("cohere_compass", "cosmos3_omni", "cosmos3_edge"), "qwen3_vl"),
    "ernie4_5_vl_moe": "ernie4_5_vl",
    "hunyuan_vl": "hunyuan_vl",
    "glm_image": "glm_image",
    "minicpmv4_7": "minicpmv4_7",
    "qwen2_5_omni": "qwen2_5_omni",
    "qwen3_omni_moe": "qwen3_omni",
}
"""The convention of each model type with a get_rope_index in transformers 5.23.0."""

ONE_AXIS = {
    "roberta": "padding_idx",
    "opt": "opt",
    "bart": "arange",
    "bert": "arange",
    "whisper": "mask",
}


def encodings_of(client: Client, config: dict[str, Any], **query: Any) -> dict[str, Any]:
    report = client.post("/model", json=config, params=query).json()
    return {each["id"]: each for each in report.get("encodings", ())}


def config_of(name: str) -> dict[str, Any]:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [16, 16, 16, 16]}
    own = {"rope_parameters": rope} if name == "hunyuan_vl" else {}
    return {"_class_name" if name[0].isupper() else "model_type": name, **own}


def follow(client: Client, numbers: dict[str, Any]) -> None:
    """Follow the request of an encoding, which must be there as it is."""
    answer = client.post(numbers["url"], json=numbers["post"])
    assert answer.status_code == 200, (numbers, answer.text)
    parameters, axes = answer.json()["parameters"], numbers.get("axes")
    assert parameters["convention"] == numbers["convention"]
    assert axes is None or parameters["axes"] == ",".join(axes)


def numbered_encodings(client: Client, name: str) -> list[dict[str, Any]]:
    encodings = encodings_of(client, config_of(name)).values()
    return [each for each in encodings if "position_ids" in each]


def numbered(client: Client, name: str) -> list[dict[str, Any]]:
    return [each["position_ids"] for each in numbered_encodings(client, name)]


@pytest.mark.parametrize("name", OF_TYPES)
def test_text_with_pictures_has_a_request_for_its_numbers(client: Client, name: str) -> None:
    numbers = numbered(client, name)[0]

    assert numbers["convention"] == OF_TYPES[name]
    follow(client, numbers)


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen3_vl", "ernie4_5_vl_moe", "hunyuan_vl"])
def test_ids_of_the_request_go_with_the_link_that_rotates(client: Client, name: str) -> None:
    rotary = encodings_of(client, config_of(name))["rotary"]
    numbers = rotary["position_ids"]
    ids = client.post(numbers["url"], json=numbers["post"]).json()["data"]["position_ids"]
    x = [[[1.0] * rotary["values"]["head_dim"]["value"]] * len(ids[0][0])]

    body = {"x": x, "positions": ids, "axes": "batch,seq,channel"}
    answer = client.post(rotary["links"]["apply"], json=body)

    assert answer.status_code == 200, answer.text
    first, *_, last = answer.json()["data"][0]
    assert first == x[0][0]
    assert last != first


@pytest.mark.parametrize("name", ONE_AXIS)
def test_learned_table_of_tokens_has_a_request_for_its_rows(client: Client, name: str) -> None:
    numbers = numbered(client, name)[0]

    assert numbers["convention"] == ONE_AXIS[name]
    follow(client, numbers)


@pytest.mark.full
def test_every_request_for_numbers_can_be_followed(client: Client) -> None:
    found = [own for name in sorted({*known_names()}) for own in numbered(client, name)]

    requests = [own for own in found if "post" in own]
    assert len(requests) > 150
    for own in requests:
        follow(client, own)
    assert {own["convention"] for own in requests} <= {each.name for each in Convention.registered}


def test_values_for_the_numbers_are_those_of_the_config(client: Client) -> None:
    config = {"model_type": "qwen2_5_vl", "vision_config": {"tokens_per_second": 4}}

    numbers = encodings_of(client, config)["rotary"]["position_ids"]

    assert numbers["axes"] == ["t", "h", "w"]
    assert "second_per_grid_ts" in numbers["asks"]
    values = {name: (each["value"], each["origin"]) for name, each in numbers["values"].items()}
    assert values == {
        "spatial_merge_size": (2, "class default"),
        "tokens_per_second": (4, "config"),
    }
    assert numbers["post"]["tokens_per_second"] == 4


def test_request_for_patches_has_the_grid_asked_for(client: Client) -> None:
    encodings = encodings_of(client, {"model_type": "qwen2_vl"}, grid="2,8,12")

    numbers = encodings["vision.rotary"]["position_ids"]
    assert numbers["post"]["grids"] == [[2, 8, 12]]
    assert numbers["template"]["grids"] == [["{depth}", "{height}", "{width}"]]
    follow(client, numbers)


def test_ids_with_frames_give_the_table_of_their_grid(client: Client) -> None:
    config = {"model_type": "minimax_m3_vl_vision"}
    (rotary,) = (
        each
        for each in encodings_of(client, config, grid="2,4,6").values()
        if each["kind"] == "rope-axial"
    )
    ids = client.post("/positions.safetensors", json=rotary["position_ids"]["post"])
    of_grid = rotary["links"]["cos"]
    kind = {"content-type": ids.headers["content-type"]}

    by_ids = client.post(
        of_grid.replace("&grid=2,4,6", "").replace("&spatial_merge_size=2", ""),
        content=ids.content,
        headers=kind,
    )

    assert by_ids.status_code == 200, by_ids.text
    assert np.array_equal(load_npy(by_ids), load_npy(client.get(of_grid)))


def test_ids_of_sinusoids_are_positions_of_the_convention_that_their_rule_names(
    client: Client,
) -> None:
    own = encodings_of(client, {"model_type": "m2m_100"})["sinusoidal"]
    ids = client.post("/positions.safetensors", json=own["position_ids"]["post"])
    link, kind = own["links"]["file"], {"content-type": ids.headers["content-type"]}
    other = link.replace("convention=m2m100", "convention=fairseq").replace("&seq_len=1024", "")

    table = load_npy(client.post(other, content=ids.content, headers=kind))

    assert "convention=fairseq" in own["position_ids"]["rule"]
    assert np.array_equal(table[0, :4], load_npy(client.get(link))[:4])
    assert not table[0, 4:].any()


def test_tokens_of_unknown_rules_have_no_request(client: Client) -> None:
    for name in ("llama", "prophetnet"):
        assert part_type(name)
        assert not any("post" in own for own in numbered(client, name))


def test_every_numbering_is_of_a_convention_and_in_use() -> None:
    used = {entry.numbering for name in known_names() for entry in entries_of(name)}

    by_functions = {name for name, own in numberings().items() if own.functions}
    assert used - {None} | by_functions == {*numberings()}
    assert {own.convention for own in numberings().values()} <= {
        each.name for each in Convention.registered
    }


def entries_of(name: str) -> Any:
    known = part_type(name)
    return known.entries if known else ()


def test_value_for_the_numbers_that_cannot_be_read_is_refused(client: Client) -> None:
    config = b'{"model_type": "qwen2_5_vl", "vision_config": {"tokens_per_second": Infinity}}'

    answer = client.post("/model", content=config, headers={"Content-Type": "application/json"})

    assert answer.status_code == 422
    pointers = {each["pointer"] for each in answer.json()["errors"]}
    assert pointers == {"/vision_config/tokens_per_second"}


def test_windows_are_those_of_the_grid_asked_for(client: Client) -> None:
    encodings = encodings_of(client, {"model_type": "qwen2_5_vl"}, grid="1,34,46")

    for name in ("vision.rotary", "vision.permutation"):
        assert encodings[name]["position_ids"]["post"]["grids"] == [[1, 34, 46]]


@pytest.mark.parametrize("patch_size", [1, 2])
def test_ids_of_ltx_have_the_scale_of_its_table(client: Client, patch_size: int) -> None:
    config = {"_class_name": "LTXVideoTransformer3DModel", "patch_size": patch_size}

    rotary = encodings_of(client, config, grid="2,2,3")["rotary"]
    numbers = rotary["position_ids"]
    ids = client.post(numbers["url"], json=numbers["post"]).json()["data"]["position_ids"]

    values = {name: each["value"] for name, each in rotary["values"].items()}
    step, base = values["grid_step"], values["reference_grid"]
    seconds = step[0] / values["fps"] / base[0]
    last = [ids[axis][-1] for axis in range(3)]
    assert last == pytest.approx([seconds, step[1] / base[1], 2 * step[2] / base[2]])


def test_grid_of_another_rank_is_refused_by_its_name(client: Client) -> None:
    config = {"_class_name": "FluxTransformer2DModel"}

    (error,) = client.post("/model?grid=4,6", json=config).json()["errors"]

    assert (error["parameter"], error["value"]) == ("grid", "4,6")
    assert "one that does is 1," in error["detail"]


def test_config_of_baidu_names_the_convention_of_its_tokens(client: Client) -> None:
    """It has no temporal_merge_size, so that there is no request."""
    sizes = {"hidden_size": 2560, "num_attention_heads": 20, "max_position_embeddings": 131072}
    config = {"model_type": "ernie4_5_moe_vl", **sizes, "vision_config": {"spatial_merge_size": 2}}

    numbers = encodings_of(client, config)["rotary"]["position_ids"]

    assert numbers["convention"] == "ernie4_5_vl"
    assert numbers["values"]["spatial_merge_size"]["value"] == 2
    assert "post" not in numbers


def values_of(encoding: dict[str, Any], *names: str) -> list[Any]:
    return [encoding["values"][name]["value"] for name in names]


def test_audio_and_frames_beside_a_video_have_no_height_and_width(client: Client) -> None:
    config = {"_class_name": "LTX2VideoTransformer3DModel"}

    found = encodings_of(client, config, grid="5,8,12")

    names = ("rotary", "rotary.audio", "rotary.cross", "rotary.cross.audio")
    grids = {name: values_of(found[name], "grid")[0] for name in names}
    assert grids == dict(zip(names, ([5, 8, 12], [126], [5], [126]), strict=True))
    assert found["rotary.audio"]["position_ids"]["post"]["num_frames"] == 126
    assert found["rotary.cross"]["values"]["grid"]["origin"] == "request"


@pytest.mark.parametrize(
    ("name", "grid", "start"),
    [
        ("QwenImageTransformer2DModel", "1,16,24", 12),
        ("QwenImageTransformer2DModel", "1,33,24", 16),
        ("NucleusMoEImageTransformer2DModel", "2,16,25", 12),
        ("JoyImageEditTransformer3DModel", "2,16,24", 24),
    ],
)
def test_text_goes_on_from_the_picture_of_the_request(
    client: Client, name: str, grid: str, start: int
) -> None:
    config = {"_class_name": name} | ({"rope_type": "mrope"} if name.startswith("Joy") else {})

    text = encodings_of(client, config, grid=grid)["rotary.text"]

    positions = values_of(text, "positions_t", "positions_h", "positions_w")
    assert positions == [f"{start}:{start + 64}"] * 3
    assert f"positions_t={start}:{start + 64}" in text["links"]["table"]


@pytest.mark.parametrize(
    ("name", "grid", "encoding", "own"),
    [
        ("Flux2Transformer2DModel", "1,16,24,1", "rotary.text", [1, 1, 1, 64]),
        ("Lumina2Transformer2DModel", "1,16,24", "rotary.text", [64, 1, 1]),
        ("ErnieImageTransformer2DModel", "1,16,24", "rotary.text", [64, 1, 1]),
        ("ZImageTransformer2DModel", "1,16,24", "rotary.text", [64, 1, 1]),
        ("BriaFibo2Transformer2DModel", "1,16,24", "rotary.gist", None),
        ("AnyFlowFARTransformer3DModel", "2,16,24", "rotary.compressed", [5, 15, 26]),
        ("WanAnimate2Transformer3DModel", "2,16,24", "rotary.reference", [1, 30, 52]),
    ],
)
def test_tokens_beside_a_picture_do_not_have_its_grid(
    client: Client, name: str, grid: str, encoding: str, own: list[int] | None
) -> None:
    (example,) = values_of(encodings_of(client, {"_class_name": name})[encoding], "grid")
    found = encodings_of(client, {"_class_name": name}, grid=grid)

    assert own is None or example == own
    assert found[encoding]["values"]["grid"]["value"] == example
    assert found["rotary"]["values"]["grid"]["value"] == [*map(int, grid.split(","))]


@pytest.mark.parametrize("name", ["Flux2Transformer2DModel", "QwenImageTransformer2DModel"])
def test_ids_of_text_are_in_the_request_of_the_picture(client: Client, name: str) -> None:
    found = encodings_of(client, {"_class_name": name})

    numbers, request = (found[each]["position_ids"] for each in ("rotary.text", "rotary"))

    assert numbers["convention"] == request["convention"] == request["post"]["convention"]
    assert "post" not in numbers
    assert request["post"]["text"] > 0


@pytest.mark.parametrize("grid", ["5", "8,12", "1,5,8,12", "1,9007199254740993,1"])
@pytest.mark.parametrize("name", ["LTX2VideoTransformer3DModel", "QwenImageTransformer2DModel"])
def test_grid_without_three_lengths_is_refused_by_its_name(
    client: Client, name: str, grid: str
) -> None:
    answer = client.post("/model", json={"_class_name": name}, params={"grid": grid})

    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["parameter"], error["value"]) == (422, "grid", grid)
    assert re.search("the length of grid must be 3|from -2\\^53 to 2\\^53", error["detail"])


@pytest.mark.parametrize(
    ("config", "encoding", "convention"),
    [
        ({"_class_name": "LTX2VideoTransformer3DModel"}, "rotary.audio", "ltx2_audio"),
        ({"model_type": "gemma4_vision"}, "learned-2d", "gemma4"),
        ({"model_type": "tapas"}, "learned", "cell"),
        ({"model_type": "tapas", "reset_position_index_per_cell": False}, "learned", "arange"),
        ({"model_type": "m2m_100"}, "sinusoidal", "padding_idx"),
        ({"model_type": "kosmos_2_text_model"}, "sinusoidal", "padding_idx"),
        ({"model_type": "minicpmv4_6_vision"}, "learned", "buckets"),
        ({"model_type": "idefics2_vision"}, "learned", "buckets"),
        (
            {"model_type": "hunyuan_vl", "rope_parameters": {"xdrope_section": [16, 16, 16, 16]}},
            "rotary",
            "hunyuan_vl",
        ),
    ],
)
def test_audio_learned_axes_and_sections_by_another_name_are_numbered(
    client: Client, config: dict[str, Any], encoding: str, convention: str
) -> None:
    numbers = encodings_of(client, config)[encoding]["position_ids"]

    assert numbers["convention"] == convention
    follow(client, numbers)


HALVES = {"rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}
FITTING = {
    **{name: {"rope_parameters": HALVES} for name in ("glm4v", "glm46v", "glm_image")},
    "glm4v_moe": {"head_dim": 128, "rope_parameters": HALVES},
    "qwen4_exp": {"rope_parameters": {"rope_theta": 1e4, "mrope_section": [48, 40, 40]}},
}
"""Sections for the width of a head, where those of the class are for another."""


@pytest.mark.parametrize("name", OF_TYPES)
def test_ids_of_a_model_turn_the_table_that_its_report_links(client: Client, name: str) -> None:
    """An answer of /positions is the body of the link, in the order of axes that the model has."""
    thinker = {"thinker_config": {"text_config": {"head_dim": 128}}}
    own = {"text_config": FITTING[name]} if name in FITTING else {}
    own |= thinker if name == "qwen3_omni_moe" else {}
    rotary = next(
        each
        for each in encodings_of(client, config_of(name) | own).values()
        if each["kind"] == "rope" and "position_ids" in each
    )
    ids = client.post("/positions.safetensors", json=rotary["position_ids"]["post"])
    kind = {"content-type": ids.headers["content-type"]}

    table = client.post(rotary["links"]["file"], content=ids.content, headers=kind)

    assert (ids.status_code, table.status_code) == (200, 200), table.text


def arrays_of(answer: Any) -> dict[str, Any]:
    is_npy = answer.content.startswith(b"\x93NUMPY")
    return {"": load_npy(answer)} if is_npy else safetensors.numpy.load(answer.content)


def assert_ids_give_the_table(client: Client, encoding: dict[str, Any]) -> None:
    """Assert that the ids of an encoding give the rows of its grid, after those of text."""
    numbers = encoding["position_ids"]
    ids = client.post("/positions.safetensors", json=numbers["post"])
    kind = {"content-type": ids.headers["content-type"]}

    by_ids = client.post(numbers["table"], content=ids.content, headers=kind)

    assert by_ids.status_code == 200, (numbers, by_ids.text)
    of_grid = client.get(encoding["links"]["file"])
    found, expected = map(arrays_of, (by_ids, of_grid))
    assert found.keys() == expected.keys()
    for name, own in expected.items():
        rows = found[name].reshape(-1, own.shape[-1])
        np.testing.assert_allclose(rows[-len(own) :], own, rtol=0, atol=1e-10)
        assert len(rows) == len(own) + numbers["post"].get("text", 0)


@pytest.mark.parametrize(
    "name",
    [
        *("qwen2_5_vl_vision", "gemma4_vision", "kimi_k25_vision", "minimax_m3_vl_vision"),
        *("FluxTransformer2DModel", "Flux2Transformer2DModel", "QwenImageTransformer2DModel"),
        *("WanTransformer3DModel", "CosmosTransformer3DModel", "LTXVideoTransformer3DModel"),
        "LTX2VideoTransformer3DModel",
    ],
)
def test_ids_of_a_grid_have_a_link_that_takes_them(client: Client, name: str) -> None:
    found = [each for each in numbered_encodings(client, name) if "table" in each["position_ids"]]

    assert found
    for each in found:
        assert_ids_give_the_table(client, each)


@pytest.mark.full
def test_every_table_of_ids_is_that_of_its_grid(client: Client) -> None:
    names = sorted({*known_names()})
    found = [each for name in names for each in numbered_encodings(client, name)]
    found = [each for each in found if "table" in each["position_ids"]]

    assert len(found) > 70
    for each in found:
        assert_ids_give_the_table(client, each)
