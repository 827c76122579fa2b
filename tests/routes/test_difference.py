"""``POST /model/diff``: equal to a search through the tables of both models."""

import json
from typing import Any

import numpy as np
import pytest

from service.models.config_values import CODES
from service.routes.compared_models import _ASSUMPTIONS, _OTHER_NUMBERS
from tests.client import Client

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "head_dim": 128,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 4,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0] * 15 + [1.5],
    "long_factor": [2.0] * 15 + [4.0],
    "original_max_position_embeddings": 4096,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
STEP = 2.0**-8


def model(scaling: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    return {**LLAMA, **others} | ({"rope_scaling": scaling} if scaling else {})


def small(scaling: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    return model(scaling, head_dim=32, **others)


def reported(client: Client, a: Any, b: Any, **query: Any) -> Any:
    answer = client.post("/model/diff", json={"a": a, "b": b}, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def phasors(client: Client, url: str, positions: Any) -> Any:
    """Return the rotations by frequencies of this server, in extended precision."""
    table = client.get(url).json()["data"]
    angles = np.multiply.outer(positions, np.array(table["inv_freq"], dtype=np.longdouble))
    return table["attention_factor"] * np.array([np.cos(angles), np.sin(angles)])


def searched(client: Client, links: Any, epsilon: float, most: int) -> tuple[int, float]:
    """Return the first position at which tables differ by more than epsilon, and by how much."""
    for start in range(0, most, 1024):
        positions = np.arange(start, start + 1024, dtype=np.longdouble)
        both = [phasors(client, links[name], positions) for name in ("a", "b")]
        apart = np.sqrt(((both[0] - both[1]) ** 2).sum(axis=0)).max(axis=1)
        if (apart > epsilon).any():
            first = int((apart > epsilon).argmax())
            return start + first, float(apart[first])
    raise AssertionError("no position differs")


PAIRS = [
    (small(LLAMA3), small(), STEP),
    (small(LLAMA3), small(), 0.1),
    (small(LLAMA3), small({**LLAMA3, "factor": 32.0}), STEP),
    (small(LLAMA3), small({**LLAMA3, "factor": 32.0}), 0.1),
    (small(LLAMA3), small({**LLAMA3, "factor": 8.1}), STEP),
    (small(LLAMA3), small({**LLAMA3, "low_freq_factor": 2.0}), STEP),
    (small(LLAMA3), small({**LLAMA3, "high_freq_factor": 8.0}), STEP),
    (small(LLAMA3), small({**LLAMA3, "original_max_position_embeddings": 8000}), STEP),
    (small(LLAMA3), small(YARN), 0.5),
    (small(), small(rope_theta=1e6), STEP),
    (small(), small(rope_theta=1e6), 0.7),
    (small(), small(rope_theta=500100.0), STEP),
    (small(), small(rope_theta=10000.0), STEP),
    (small(), small(rope_theta=1e4), 0.25),
    (small(), small(rope_theta=4e5), STEP),
    (small({"rope_type": "linear", "factor": 2.0}), small(), STEP),
    (small({"rope_type": "linear", "factor": 4.0}), small(), 1.0),
    (
        small({"rope_type": "linear", "factor": 4.0}),
        small({"type": "linear", "factor": 4.01}),
        STEP,
    ),
    (small({"rope_type": "linear", "factor": 4.0}), small(YARN), 0.2),
    (small(YARN), small(), STEP),
    (small(YARN), small(), 0.25),
    (small(YARN), small({**YARN, "factor": 4.1}), STEP),
    (small(YARN), small({**YARN, "factor": 8.0}), STEP),
    (small(YARN), small({**YARN, "factor": 8.0}), 0.2),
    (small(YARN), small({**YARN, "beta_fast": 64.0}), STEP),
    (small(YARN), small({**YARN, "truncate": False}), STEP),
    (small({**YARN, "attention_factor": 1.0}), small(), STEP),
    (small(YARN), small({**YARN, "original_max_position_embeddings": 16000}), 0.1),
    (small(LONG), small({**LONG, "short_factor": [1.0] * 16}), STEP),
    (small(LONG), small(), 0.2),
    (small(LONG), small({**LONG, "short_factor": [1.0] * 14 + [1.25, 1.5]}), 0.1),
]


@pytest.mark.parametrize(("a", "b", "epsilon"), PAIRS)
def test_first_position_is_that_of_a_search_through_the_tables(
    client: Client, a: dict[str, Any], b: dict[str, Any], epsilon: float
) -> None:
    report = reported(client, a, b, epsilon=epsilon)

    (encoding,) = report["encodings"]
    first, by = searched(client, encoding["links"], epsilon, 60_000)
    assert (report["same"], report["verdict"]) == (False, "differs")
    assert (encoding["result"], encoding["first_position"]) == ("differs", first)
    assert encoding["by"] == pytest.approx(by, abs=1e-12)
    assert encoding["at_most"] >= by or first >= LLAMA["max_position_embeddings"]


@pytest.mark.parametrize(
    ("a", "b", "epsilon", "first"),
    [
        (model(LLAMA3), model(), STEP, 5),
        (model(LLAMA3), model(), 0.1, 113),
        (model(LLAMA3), model({**LLAMA3, "factor": 32.0}), STEP, 41),
        (model(LLAMA3), model({**LLAMA3, "factor": 32.0}), 0.1, 1050),
        (model(rope_theta=1e6), model(rope_theta=1e6 + 1), STEP, 147137),
    ],
)
def test_first_position_of_known_pairs(
    client: Client, a: dict[str, Any], b: dict[str, Any], epsilon: float, first: int
) -> None:
    (encoding,) = reported(client, a, b, epsilon=epsilon)["encodings"]

    assert encoding["first_position"] == first


PARAMETERS = {**LLAMA3, "rope_theta": 500000.0}
QWEN = {"model_type": "qwen2", "hidden_size": 896, "num_attention_heads": 14, "rope_theta": 1e6}
QWEN["num_hidden_layers"] = 24
QWEN_GGUF = {
    "general.architecture": "qwen2",
    "qwen2.context_length": 32768,
    "qwen2.embedding_length": 896,
    "qwen2.attention.head_count": 14,
    "qwen2.block_count": 24,
    "qwen2.rope.freq_base": 1e6,
}
LLAMA_GGUF = {
    "general.architecture": "llama",
    "llama.context_length": 131072,
    "llama.embedding_length": 4096,
    "llama.attention.head_count": 32,
    "llama.block_count": 4,
    "llama.rope.freq_base": 500000.0,
}


def dumped(keys: dict[str, Any], *tensors: str) -> dict[str, Any]:
    """Return keys and tensors of a GGUF file, as gguf-dump --json writes them."""
    metadata = {name: {"value": value} for name, value in keys.items()}
    return {"metadata": metadata, "tensors": {name: {} for name in ("output.weight", *tensors)}}


SPELLED = [
    (model(LLAMA3), {**model(), "rope_parameters": PARAMETERS}),
    (model(LLAMA3), model({**LLAMA3, "type": "llama3"})),
    (
        model({"rope_type": "linear", "factor": 2.0}),
        model({"type": "linear", "factor": 2.0}),
    ),
    (model({"rope_type": "linear", "factor": 1.0}), model()),
    (model(), model(head_dim=None)),
    (model(), dumped(LLAMA_GGUF)),
    (QWEN, dumped(QWEN_GGUF)),
    (dumped(LLAMA_GGUF), {"dim": 4096, "n_heads": 32, "n_layers": 4, "rope_theta": 5e5}),
    (small(LONG), small({**LONG, "rope_type": "su"})),
    (
        {"_class_name": "FluxTransformer2DModel"},
        {"_class_name": "FluxTransformer2DModel", "axes_dims_rope": [16, 56, 56]},
    ),
]


@pytest.mark.parametrize(("a", "b"), SPELLED)
def test_models_that_are_only_spelled_otherwise_are_the_same(
    client: Client, a: dict[str, Any], b: dict[str, Any]
) -> None:
    report = reported(client, a, b)

    assert report["verdict"] in {"same", "same in effect"}
    assert report["same"]
    assert {each["result"] for each in report["encodings"]} == {"same"}
    assert not any("values" in each for each in report["encodings"])
    spelled = any("also_spelled_differently" in each for each in report["encodings"])
    assert spelled == (report["verdict"] == "same in effect")


def test_one_document_is_the_same_as_itself(client: Client) -> None:
    for config in (model(LLAMA3), {"model_type": "qwen2_5_vl"}, {"model_type": "gemma3_text"}):
        assert reported(client, config, config)["verdict"] == "same"


def test_values_that_differ_have_their_origins(client: Client) -> None:
    config = {"dim": 4096, "n_heads": 32, "rope_theta": 1e4}

    (encoding,) = reported(client, model(), config)["encodings"]

    assert encoding["values"]["rope_theta"] == {
        "a": {"value": 5e5, "origin": "config", "from": ["/rope_theta"]},
        "b": {"value": 1e4, "origin": "config", "from": ["/rope_theta"]},
    }
    assert encoding["channels"] == "1:64,65:128"


def test_layers_are_those_in_which_both_turn(client: Client) -> None:
    a = {"model_type": "llama4_text", "num_hidden_layers": 8}
    b = {**a, "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 1]}

    report = reported(client, a, b)

    assert report["verdict"] == "differs"
    assert report["encodings"][0]["layers"] == {"only": [0, 1, 2, 4, 5, 6]}
    assert report["encodings"][0]["result"] == "same"
    assert report["only_in_a"] == []
    assert report["only_in_b"] == [
        {"id": "rotary", "kind": "rope", "known": True, "layers": {"only": [7]}}
    ]


def test_types_of_layers_are_compared_where_they_meet(client: Client) -> None:
    theta = {"rope_type": "default", "rope_theta": 1e4}
    linear = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}
    own = {"full_attention": linear, "sliding_attention": theta}

    report = reported(
        client, {"model_type": "gemma3_text"}, {"model_type": "gemma3_text", "rope_parameters": own}
    )

    results = {each["a"]: each for each in report["encodings"]}
    assert results["rotary.sliding_attention"]["result"] == "same"
    assert results["rotary.full_attention"]["result"] == "differs"
    assert results["rotary.full_attention"]["layers"]["only"] == [5, 11, 17, 23]


def test_each_regime_is_compared(client: Client) -> None:
    other = {**LONG, "long_factor": [2.0] * 16}

    (encoding,) = reported(client, small(LONG), small(other))["encodings"]
    short = reported(client, small(LONG), small(other), context_length=4096)

    assert encoding["regime_begins"] == [4097]
    first, second = encoding["regimes"]
    assert first == {"context_length": 4096, "same": True}
    assert (second["context_length"], second["same"]) == (131072, False)
    assert encoding["first_position"] == second["first_position"]
    assert short["verdict"] == "same in effect"


def test_base_that_grows_with_the_length_differs_beyond_it(client: Client) -> None:
    (encoding,) = reported(client, model(DYNAMIC), model())["encodings"]

    assert encoding["regime_begins"] == [131073]
    assert [each["same"] for each in encoding["regimes"]] == [True, False]


def test_layout_differs_from_position_1_on(client: Client) -> None:
    (encoding,) = reported(client, model(), model(model_type="cohere"))["encodings"]

    assert encoding["first_position"] == 1
    layout = encoding["values"]["layout"]
    assert [layout[name]["value"] for name in ("a", "b")] == ["half", "interleaved"]


def test_heads_of_other_widths_have_no_position_to_compare(client: Client) -> None:
    (encoding,) = reported(client, model(), model(head_dim=64))["encodings"]

    assert "first_position" not in encoding
    assert encoding["reason"] == "heads have 128 and 64 channels, so positions cannot be compared"
    assert encoding["values"]["head_dim"]["b"]["value"] == 64


def test_sections_of_axes_differ_for_pictures_alone(client: Client) -> None:
    config = {"model_type": "qwen2_vl_text", "rope_theta": 1e6, "hidden_size": 512}
    config |= {"num_attention_heads": 4, "num_hidden_layers": 2}
    section = {"rope_type": "default", "mrope_section": [16, 24, 24]}
    other = {**section, "mrope_section": [24, 20, 20]}

    (encoding,) = reported(
        client, {**config, "rope_scaling": section}, {**config, "rope_scaling": other}
    )["encodings"]

    assert encoding["result"] == "differs"
    assert "by_axis" in encoding
    assert "first_position" not in encoding
    assert encoding["channels"] == "16:24,40:44,80:88,104:108"
    (text,) = reported(
        client, {**config, "rope_scaling": section}, {**config, "model_type": "qwen2"}
    )["encodings"]
    assert text["channels"] == "16:64,80:128"


def test_frequencies_that_a_tensor_may_divide_are_unknown_and_never_the_same(
    client: Client,
) -> None:
    for keys in (LLAMA_GGUF, dumped(LLAMA_GGUF, "rope_freqs.weight")):
        for config in (model(), model(LLAMA3)):
            report = reported(client, keys, config)

            assert (report["same"], report["verdict"]) == (False, "unknown")
            assert "rope_freqs.weight" in report["encodings"][0]["reason"]


def test_unknown_part_is_never_the_same(client: Client) -> None:
    config = model(vision_config={"model_type": "my_tower"})

    report = reported(client, config, config)

    assert (report["same"], report["verdict"]) == (False, "unknown")
    assert [each["result"] for each in report["encodings"]] == ["same", "unknown"]
    assert reported(client, config, model())["verdict"] == "unknown"


def test_part_that_one_model_lacks_is_listed(client: Client) -> None:
    report = reported(client, {"model_type": "qwen2_5_vl"}, {"model_type": "qwen2"})

    assert "vision.rotary" in [each["id"] for each in report["only_in_a"]]
    assert report["verdict"] != "same"


def test_tower_is_compared_by_its_table(client: Client) -> None:
    config = {"model_type": "dinov3_vit"}

    report = reported(client, config, {**config, "rope_theta": 50.0})

    (encoding,) = report["encodings"]
    assert encoding["result"] == "differs"
    assert encoding["values"]["rope_theta"]["b"]["value"] == 50
    assert encoding["by"] > STEP


def test_slopes_differ_by_head_and_not_by_position(client: Client) -> None:
    config = {"model_type": "bloom", "n_head": 16}

    (encoding,) = reported(client, config, {**config, "n_head": 8})["encodings"]

    assert encoding["result"] == "differs"
    assert encoding["values"]["num_heads"]["b"]["value"] == 8
    assert "first_position" not in encoding


def test_layers_that_one_model_has_alone_are_listed(client: Client) -> None:
    report = reported(client, model(), model(num_hidden_layers=6))

    assert report["verdict"] == "differs"
    assert report["encodings"][0]["layers"] == {"all": 4}
    assert [each["layers"] for each in report["only_in_b"]] == [{"only": [4, 5]}]
    (slopes,) = reported(client, {"model_type": "bloom", "n_layer": 3}, {"model_type": "bloom"})[
        "encodings"
    ]
    assert slopes["values"]["layers"]["a"]["value"] == {"all": 3}


def test_buckets_are_compared_beyond_the_distances_of_an_example(client: Client) -> None:
    config = {"model_type": "t5", "relative_attention_max_distance": 128}
    other = {**config, "relative_attention_max_distance": 256}

    report = reported(client, config, other)

    assert {each["result"] for each in report["encodings"]} == {"differs"}


def test_factor_of_the_softmax_is_compared(client: Client) -> None:
    scaling = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
    scaling |= {"mscale": 1.0, "mscale_all_dim": 1.0}
    keys = {
        "general.architecture": "deepseek2",
        "deepseek2.context_length": 163840,
        "deepseek2.block_count": 61,
        "deepseek2.attention.head_count": 128,
        "deepseek2.embedding_length": 7168,
        "deepseek2.rope.dimension_count": 64,
        "deepseek2.rope.freq_base": 10000.0,
        "deepseek2.rope.scaling.type": "yarn",
        "deepseek2.rope.scaling.factor": 40.0,
        "deepseek2.rope.scaling.original_context_length": 4096,
        "deepseek2.rope.scaling.yarn_log_multiplier": 0.1,
    }
    config = {"model_type": "deepseek_v3", "num_hidden_layers": 61, "rope_theta": 10000}
    config |= {"rope_scaling": scaling, "max_position_embeddings": 163840}

    assert reported(client, config, dumped(keys))["verdict"] == "same in effect"
    (other,) = reported(
        client, config, {**config, "rope_scaling": scaling | {"mscale_all_dim": 0}}
    )["encodings"]
    value = other["values"]["softmax_scale_multiplier"]["a"]
    assert (value["origin"], value["value"]) == ("computed", pytest.approx(1.8738542))


def test_windows_are_compared(client: Client) -> None:
    a, b = (model(model_type="mistral", sliding_window=size) for size in (4096, 1024))

    report = reported(client, a, b)

    assert [each["result"] for each in report["encodings"]] == ["same", "differs"]
    assert report["encodings"][1]["values"]["window"]["b"]["value"] == 1024
    without = reported(client, a, {**a, "sliding_window": None})
    assert [each["id"] for each in without["only_in_a"]] == ["window"]
    keys = {**QWEN_GGUF, "qwen2.attention.sliding_window": 512}
    assert reported(client, QWEN, dumped(keys))["same"]
    quantized = reported(client, {**a, "quantization": {"bits": 4}}, b)
    assert quantized["encodings"][1]["result"] == quantized["verdict"] == "differs"


FIRST_QWEN = {**LLAMA, "model_type": "qwen"}
ROFORMER = {"model_type": "roformer"}
DEBERTA = {"model_type": "deberta-v2", "relative_attention": True, "position_buckets": 256}


@pytest.mark.parametrize(
    ("a", "b", "key"),
    [
        ({**FIRST_QWEN, "use_dynamic_ntk": True}, FIRST_QWEN, "use_dynamic_ntk"),
        ({**FIRST_QWEN, "use_logn_attn": True}, LLAMA, "use_logn_attn"),
        ({**ROFORMER, "rotary_value": True}, ROFORMER, "rotary_value"),
        ({**DEBERTA, "pos_att_type": "p2c|c2p"}, {**DEBERTA, "pos_att_type": "p2c"}, "pos_att"),
        (
            {"model_type": "hubert", "num_conv_pos_embeddings": 64},
            {"model_type": "hubert"},
            "num_conv_pos_embeddings",
        ),
    ],
    ids=str,
)
def test_settings_that_are_not_resolved_are_not_the_same(
    client: Client, a: dict[str, Any], b: dict[str, Any], key: str
) -> None:
    report = reported(client, a, b)

    assert report["verdict"] == "unknown"
    assert key in report["encodings"][0]["reason"]
    assert reported(client, a, a)["verdict"] == "same"
    described = client.post("/model", json=a).json()
    assert any(key in pointer for pointer in described["not_understood"])
    assert not any(key in pointer for pointer in described["unread"])


def test_biases_that_classes_apply_in_other_ways_differ(client: Client) -> None:
    bloom = {"model_type": "bloom", "n_head": 32, "hidden_size": 4096, "n_layer": 32}
    falcon = {"model_type": "falcon", "alibi": True, "num_attention_heads": 32}
    falcon |= {"hidden_size": 4096, "num_hidden_layers": 32}

    report = reported(client, bloom, falcon)

    assert report["verdict"] == "differs"
    assert "head_dim" in report["encodings"][0]["values"]["applied"]["b"]["value"]


def test_codes_of_doubts_are_those_of_warnings() -> None:
    assert CODES.keys() >= {*_OTHER_NUMBERS, *_ASSUMPTIONS}


@pytest.mark.parametrize(("factor", "verdict"), [(8.0, "same in effect"), (32.0, "unknown")])
def test_assumed_factor_of_meta_is_a_doubt_where_another_differs(
    client: Client, factor: float, verdict: str
) -> None:
    meta = {"dim": 4096, "n_heads": 32, "rope_theta": 5e5, "use_scaled_rope": True}

    report = reported(client, model({**LLAMA3, "factor": factor}), meta)

    assert report["verdict"] == verdict
    assert "use_scaled_rope" in report["encodings"][0]["reason"]


def test_text_model_is_compared_with_the_same_one_within_another(client: Client) -> None:
    thinker = {"model_type": "qwen2_5_omni_thinker"}

    report = reported(client, {"model_type": "qwen2_5_omni", "thinker_config": thinker}, thinker)

    assert [each["result"] for each in report["encodings"] if each["kind"] == "rope"]
    assert not report["only_in_b"]


def test_longer_table_differs_from_its_first_further_row_on(client: Client) -> None:
    config = {"model_type": "xglm", "max_position_embeddings": 1024}

    (encoding,) = reported(client, config, {**config, "max_position_embeddings": 512})["encodings"]

    assert (encoding["result"], encoding["first_position"], encoding["by"]) == ("differs", 512, 0)


@pytest.mark.parametrize(
    ("config", "url", "verdict"),
    [
        (model(), "/rope?head_dim=128&rope_theta=500000&seq_len=8", "same in effect"),
        (
            model(),
            "http://host/rope.npy?head_dim=128&rope_theta=500000&seq_len=8&pack=half",
            "same in effect",
        ),
        (model(), "/rope?head_dim=128&rope_theta=500000&seq_len=8&pack=interleaved", "differs"),
        (model(), "/rope/frequencies?rotary_dim=128&rope_theta=500000", "same in effect"),
        (model(), "/rope/frequencies?head_dim=128&rope_theta=10000", "differs"),
        (model(), "/rope?head_dim=64&rope_theta=500000&seq_len=8", "differs"),
        (
            {"model_type": "dinov3_vit"},
            "/rope/axial?convention=dinov3&head_dim=64&grid=3,5&rope_theta=100",
            "same in effect",
        ),
        (
            {"model_type": "dinov3_vit"},
            "/rope/axial?convention=dinov3&head_dim=64&grid=3,5&rope_theta=101",
            "differs",
        ),
    ],
)
def test_url_is_compared_with_the_encoding_that_has_such_a_table(
    client: Client, config: dict[str, Any], url: str, verdict: str
) -> None:
    assert reported(client, config, url)["verdict"] == verdict
    assert reported(client, url, config)["verdict"] == verdict


def test_defaults_of_a_url_are_its_values(client: Client) -> None:
    url = "/rope?head_dim=128&rope_theta=10000&seq_len=8"

    (encoding,) = reported(client, model(), url)["encodings"]

    assert {key for key, both in encoding["values"].items() if "b" in both} == {"rope_theta"}
    assert {"rotary_dim", "rope_type"}.isdisjoint(encoding["values"])


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"a": model()}, ""),
        ({"a": model(), "b": model(), "c": 1}, ""),
        ([], ""),
        ({"a": model(), "b": 3}, "/b"),
        ({"a": None, "b": model()}, "/a"),
        ({"a": "/rope?head_dim=8&seq_len=2", "b": "/rope?head_dim=8&seq_len=2"}, "/b"),
        ({"a": model(), "b": "/rope?head_dm=8&seq_len=2"}, "/b"),
        ({"a": model(), "b": "/rope/apply"}, "/b"),
        ({"a": model(), "b": "/encoding?seq_len=2&d_model=4"}, "/b"),
        ({"a": model(), "b": "/rope?head_dim=8&seq_len=2&xpos=query"}, "/b"),
        ({"a": model(hidden_size="x", head_dim=None), "b": model()}, "/a/hidden_size"),
        ({"a": model(), "b": model({"rope_type": "x"})}, "/b/rope_scaling/rope_type"),
        ({"a": {}, "b": model()}, "/a/model_type"),
        ({"a": model(), "b": "{"}, "/b"),
        (
            {"a": model(), "b": dumped({**QWEN_GGUF, "qwen2.rope.freq_base": "x"})},
            "/b/metadata/qwen2.rope.freq_base/value",
        ),
        ({"a": model(head_dim=65536), "b": model(head_dim=65536)}, ""),
    ],
)
def test_fault_has_a_pointer_into_the_pair(client: Client, body: Any, pointer: str) -> None:
    answer = client.post("/model/diff", json=body)

    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


def test_documents_may_be_texts_in_which_faults_have_their_place(client: Client) -> None:
    assert reported(client, json.dumps(model()), model())["verdict"] == "same"
    answer = client.post("/model/diff", json={"a": model(), "b": "{\n  'head_dim'"})
    assert "line 2 column 3" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": {"model_type": "llama"}, "a": {}, "b": {}}',
        b'{"a": ' + b"[" * 20_000,
        b'{"a": {"x": ' + b"[" * 900 + b"]" * 900 + b'}, "b": {}}',
        b"\xff",
    ],
)
def test_hostile_body_is_refused(client: Client, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}

    assert client.post("/model/diff", content=body, headers=headers).status_code in {400, 422}


def test_infinity_in_a_key_that_nobody_reads_is_read_over(client: Client) -> None:
    body = b'{"a": {"model_type": "llama", "x": Infinity}, "b": {"model_type": "llama"}}'
    headers = {"Content-Type": "application/json"}

    assert client.post("/model/diff", content=body, headers=headers).json()["verdict"] == "same"


def test_first_line_of_the_text_is_the_answer(client: Client) -> None:
    body = {"a": model(LLAMA3), "b": model()}

    text = client.post("/model/diff", json=body, headers={"Accept": "text/plain"}).text

    assert text.splitlines()[0] == "differs by more than 1/256, first at position 5"


BUCKETS = {"model_type": "t5", "d_model": 64, "num_heads": 8, "num_layers": 2}


@pytest.mark.parametrize(
    ("a", "b", "query", "summary"),
    [
        (
            model(LLAMA3),
            model({**LLAMA3, "factor": 32.0}),
            {},
            "channels 29 to 63 and 93 to 127 differ, first by more than 1/256 at position 41",
        ),
        (
            model(rope_theta=500000.0),
            model(rope_theta=500000.5),
            {"epsilon": "0.1"},
            "channels 1 to 63 and 65 to 127 differ, first by more than 0.1 at position 3569632",
        ),
        (
            {**BUCKETS, "relative_attention_max_distance": 64},
            BUCKETS,
            {},
            "the numbers differ by up to 2",
        ),
    ],
)
def test_what_differs_is_said_in_words(
    client: Client, a: Any, b: Any, query: dict[str, str], summary: str
) -> None:
    report = client.post("/model/diff", json={"a": a, "b": b}, params=query).json()

    assert report["encodings"][0]["summary"] == summary


def test_what_is_the_same_has_no_summary(client: Client) -> None:
    report = client.post("/model/diff", json={"a": model(), "b": model()}).json()

    assert "summary" not in report["encodings"][0]


def test_channels_that_stand_still_in_both_layouts_are_compared(client: Client) -> None:
    rule = {"rope_theta": 10000, "rope_type": "proportional", "partial_rotary_factor": 0.5}
    config = {"model_type": "foo", "head_dim": 64, "max_position_embeddings": 512}
    sides = {
        name: {**config, "rope_parameters": rule, "rope_interleave": is_interleaved}
        for name, is_interleaved in (("a", True), ("b", False))
    }

    answer = client.post("/model/diff", json=sides)

    assert (answer.status_code, answer.json()["verdict"]) == (200, "differs")
