"""The windows of attention, against the masks that transformers 5.23.0 gives to the layers."""

from typing import Any

import pytest

from tests.client import Client

# Measured with small models of 14 layers, a window of 6 and max_window_layers of 3: w is a layer
# whose mask has the window.
MASKS = {
    "..w..w..w..w..": "recurrent_gemma",
    "..............": "laguna mellum qwen3_vl_moe_text step3p5",
    "...w...w...w..": "smollm3",
    "...wwwwwwwwwww": "dots1 qwen2 qwen2_5_omni_text qwen2_5_vl_text qwen2_vl_text qwen3",
    "..www.www.www.": "flint",
    ".ww.ww.ww.ww.w": "modernbert modernbert-decoder",
    ".www.www.www.w": "cwm granite_swa granitemoe_swa",
    ".wwww.wwwww.ww": "mimo_v2_flash",
    "w.w.w.w.w.w.w.": "gemma2 gpt_oss minimax vaultgemma",
    "www.www.www.ww": "afmoe cohere2 cohere2_moe exaone4 exaone_moe llama4_text olmo3",
    "wwww.wwww.wwww": "gemma3n_text kolibri1",
    "wwwww.wwwww.w.": "beam gemma4_text gemma4_unified_text",
    "wwwww.wwwww.ww": "gemma3_text",
    "wwwwwwwwwwwwww": (
        "blt_patcher doge ministral ministral3 mistral mixtral openai_privacy_filter phi3 phimoe "
        "qwen3_moe starcoder2"
    ),
}
CASES = [(name, mask) for mask, names in MASKS.items() for name in names.split()]
WINDOWS = {
    "sliding_window": 6,
    "attention_chunk_size": 6,
    "attention_window_size": 6,
    "local_attention": 12,
}
SEES = {
    "modernbert": "on each side",
    "openai_privacy_filter": "on each side",
    "llama4_text": "its own chunk",
}


def window_of(client: Client, config: dict[str, Any]) -> dict[str, Any] | None:
    encodings = client.post("/model", json=config).json()["encodings"]
    return next((each for each in encodings if each["kind"] == "window"), None)


@pytest.mark.parametrize(("name", "mask"), CASES)
def test_layers_with_a_window_are_those_of_the_library(
    client: Client, name: str, mask: str
) -> None:
    config = {"model_type": name, "num_hidden_layers": 14, "max_window_layers": 3, **WINDOWS}

    window = window_of(client, config | {"use_sliding_window": True})

    if "w" not in mask:
        assert window is None
        return
    assert window is not None
    layers = window["layers"]
    assert "".join("w" if i in layers.get("only", range(14)) else "." for i in range(14)) == mask
    assert window["values"]["window"]["value"] == 6
    assert SEES.get(name, "before it") in window["reason"]


def test_window_has_its_origin_and_the_listed_layers(client: Client) -> None:
    config = {
        "model_type": "gemma2",
        "num_hidden_layers": 3,
        "layer_types": ["full_attention", "full_attention", "sliding_attention"],
    }

    window = window_of(client, config)

    assert window is not None
    assert window["layers"] == {"type": "sliding_attention", "only": [2]}
    assert window["values"]["window"]["origin"] == "class default"
    assert not window["served"]


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "mistral", "sliding_window": None},
        {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False},
        {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 99},
        {"model_type": "llama"},
    ],
)
def test_layers_without_a_window_have_none(client: Client, config: dict[str, Any]) -> None:
    report = client.post("/model", json=config).json()

    assert [each["kind"] for each in report["encodings"]] == ["rope"]
    assert "window-not-known" not in {each["code"] for each in report["warnings"]}


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama", "sliding_window": 512},
        {"model_type": "lfm3"},
        {"model_type": "gemma3_text", "sliding_window": 512, "use_bidirectional_attention": True},
    ],
)
def test_window_that_a_class_may_not_apply_is_a_warning(
    client: Client, config: dict[str, Any]
) -> None:
    report = client.post("/model", json=config).json()

    assert window_of(client, config) is None
    (warning,) = (each for each in report["warnings"] if each["code"] == "window-not-known")
    assert warning["pointer"] == "/sliding_window"


def test_window_that_is_no_number_is_refused(client: Client) -> None:
    answer = client.post("/model", json={"model_type": "mistral", "sliding_window": "4096"})

    assert answer.status_code == 422
    assert [each["pointer"] for each in answer.json()["errors"]] == ["/sliding_window"]


@pytest.mark.parametrize("name", ["ministral3", "gpt_oss"])
def test_window_may_be_written_as_a_whole_real_number(client: Client, name: str) -> None:
    window = window_of(client, {"model_type": name, "sliding_window": 128.0})
    answer = client.post("/model", json={"model_type": name, "sliding_window": 128.5})

    assert window is not None
    assert window["values"]["window"]["value"] == 128
    assert isinstance(window["values"]["window"]["value"], int)
    assert answer.status_code == 422


def test_first_layer_with_a_window_that_is_no_number_is_refused(client: Client) -> None:
    config = {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": "3"}

    answer = client.post("/model", json=config | {"sliding_window": 8})

    assert [each["pointer"] for each in answer.json()["errors"]] == ["/max_window_layers"]


def test_older_key_of_a_window_does_not_count_the_query(client: Client) -> None:
    config = {"model_type": "mimo_v2_flash", "sliding_window": 128, "sliding_window_size": 128}

    older, newer = (
        window_of(client, own) for own in (config, {**config, "sliding_window_size": None})
    )

    assert older is not None
    assert older["values"]["window"]["value"] == 129
    assert newer is not None
    assert newer["values"]["window"]["value"] == 128
