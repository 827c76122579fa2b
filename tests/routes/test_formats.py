"""``POST /model`` with files of other programs: values point into them, and every link works."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.client import Client
from tests.models.gguf_files import gguf_file, model
from tests.models.test_documents import DOCUMENTS, MEGATRON, TRT
from tests.models.test_gguf import LARGE, MODELS

OCTETS = {"Content-Type": "application/octet-stream"}


def bodies() -> Iterator[tuple[str, bytes, str, str]]:
    """Yield the name, the body, the format and the layout of each model."""
    for name, (document, form, _, layout, _) in DOCUMENTS.items():
        text = document if isinstance(document, str) else json.dumps(document)
        yield name, text.encode(), form, layout
    for name, (keys, layout, _) in MODELS.items():
        yield f"gguf {name}", gguf_file(keys), "gguf", layout


CASES = {name: rest for name, *rest in bodies()}


def report_of(client: Client, body: bytes) -> Any:
    answer = client.post("/model", content=body, headers=OCTETS)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_link_of_a_model_of_another_program_works(client: Client, case: list[Any]) -> None:
    body, form, layout = case

    report = report_of(client, body)

    assert report["format"]["name"] == form
    rotary = [each for each in report["encodings"] if each["kind"] == "rope"]
    assert rotary
    assert {each["layout"] for each in rotary} == {layout}
    links = [each["links"] for each in rotary]
    gets = [link for own in links for name, link in own.items() if name != "apply"]
    assert {answer.status_code for answer in map(client.head, gets)} == {200}
    assert client.get(links[0]["frequencies"]).json()["data"]["inv_freq"]


def test_values_of_a_gguf_file_point_to_its_keys(client: Client) -> None:
    report = report_of(client, LARGE[: 2**20])

    (encoding,) = report["encodings"]
    values = encoding["values"]
    assert not encoding["served"]
    assert report["model_type"] == "llama"
    assert report["knowledge"]["library"] == "llama.cpp of autumn 2026"
    assert values["rope_theta"] == {
        "value": 500000.0,
        "origin": "config",
        "from": ["/llama.rope.freq_base"],
    }
    assert values["head_dim"]["origin"] == "computed"
    assert values["head_dim"]["from"] == ["/llama.embedding_length", "/llama.attention.head_count"]
    assert report["read"]["truncated_at"] == "tokenizer.ggml.tokens"
    assert "permuted" in report["weights"]
    codes = [warning["code"] for warning in report["warnings"]]
    assert {"file-cut", "rope-freqs-not-seen"} <= set(codes)
    assert not {"model-type-missing", "layout-assumed"} & set(codes)


def test_values_of_layer_types_have_the_origin_of_each(client: Client) -> None:
    keys = model("gemma3", **{"attention.sliding_window": 512, "rope.freq_base": 1e6})

    full, sliding = report_of(client, gguf_file(keys))["encodings"]

    theta = {"value": 1e6, "origin": "config", "from": ["/gemma3.rope.freq_base"]}
    assert full["values"]["rope_theta"] == theta
    assert sliding["values"]["rope_theta"]["origin"] == "class default"
    assert sliding["values"]["rope_type"]["origin"] == "class default"


def test_fault_names_the_key_of_the_file(client: Client) -> None:
    for keys, name in (
        (model("llama", **{"rope.freq_base": "x"}), "llama.rope.freq_base"),
        (model("llama", **{"rope.new": 2}), "llama.rope.new"),
    ):
        problem = client.post("/model", content=gguf_file(keys), headers=OCTETS)

        assert problem.status_code == 422
        assert [each["parameter"] for each in problem.json()["errors"]] == [name]


@pytest.mark.parametrize(
    ("body", "kind", "served"),
    [
        (gguf_file(model("bloom")), "alibi", True),
        (gguf_file(model("gpt2")), "learned", False),
        (json.dumps({**TRT, "position_embedding_type": "alibi"}).encode(), "alibi", True),
        (
            json.dumps({**MEGATRON, "position_embedding_type": "learned_absolute"}).encode(),
            "learned",
            False,
        ),
        (gguf_file(model("llama"), [("rope_freqs.weight", [1.0] * 64)])[:-9], "rope", False),
    ],
)
def test_other_positions_have_their_link_or_a_reason(
    client: Client, body: bytes, kind: str, served: bool
) -> None:
    (encoding,) = report_of(client, body)["encodings"]

    assert (encoding["kind"], encoding["served"]) == (kind, served)
    links = encoding.get("links", {})
    assert {client.head(link).status_code for link in links.values()} <= {200}
    assert served == bool(links)


def test_onnx_genai_is_empty_with_its_reason(client: Client) -> None:
    body = json.dumps({"model": {"type": "phi3", "decoder": {"head_size": 96}}}).encode()

    report = report_of(client, body)

    assert report["encodings"] == []
    assert "/identify" in report["reason"]
