"""``posref model``: every positional encoding of a model on this disk."""

import io
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.__main__ import main

LLAMA: Mapping[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return tmp_path


def test_report_is_short_text_or_json(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["model", str(folder / "config.json")]) == 0
    assert capfd.readouterr().out.startswith("rotary (llama)\n")
    assert main(["model", str(folder / "config.json"), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["encodings"][0]["id"] == "rotary"


def test_standard_input_is_read(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = io.TextIOWrapper(io.BytesIO(json.dumps(LLAMA).encode()))
    monkeypatch.setattr("sys.stdin", text)

    assert main(["model", "-", "--query", "seq_len=5", "--json"]) == 0

    assert json.loads(capfd.readouterr().out)["encodings"][0]["shape"] == [5, 16]


def test_exit_code_tells_unknown_parts_and_refusals(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**LLAMA, "vision_config": {"model_type": "my_tower"}}))
    assert main(["model", str(file)]) == 3
    file.write_text(json.dumps({**LLAMA, "model_type": "my_llama"}))
    assert main(["model", str(file)]) == 3
    file.write_text('{"model_type": "lama"}')
    assert main(["model", str(file)]) == 1
    assert json.loads(capfd.readouterr().err)["type"] == "urn:posref:problem:model-not-known"
    assert main(["model", str(folder / "none.json")]) == 1
    file.unlink()
    assert main(["model", str(folder)]) == 1


@pytest.mark.parametrize(
    ("engine", "shapes"),
    [
        ("transformers", {"rotary.cos": [32, 16], "rotary.sin": [32, 16]}),
        ("onnx", {"rotary.cos_cache": [32, 8], "rotary.sin_cache": [32, 8]}),
        ("vllm", {"rotary.cos_sin_cache": [32, 16]}),
        ("ggml", {"rotary.rope_freqs.weight": [8]}),
    ],
)
def test_tables_are_written_with_the_names_of_an_engine(
    folder: Path, engine: str, shapes: dict[str, list[int]]
) -> None:
    out = folder / "out"

    assert main(["model", str(folder), "--write", str(out), "--for", engine]) == 0

    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["for"] == engine
    assert {each["file"]: each["shape"] for each in manifest["tables"]} == {
        f"{name}.npy": shape for name, shape in shapes.items()
    }
    for each in manifest["tables"]:
        body = (out / each["file"]).read_bytes()
        assert sha256(body).hexdigest() == each["sha256"]
        assert np.load(out / each["file"]).dtype == np.float32


def test_divisors_of_llama_cpp_turn_the_plain_frequencies_into_the_scaled_ones(
    folder: Path,
) -> None:
    assert main(["model", str(folder), "--write", str(folder), "--for", "ggml"]) == 0

    divisors = np.load(folder / "rotary.rope_freqs.weight.npy")
    plain = 500000.0 ** (-np.arange(8) / 8)
    wavelengths = 2 * np.pi / plain
    # Shorter than the original length / high_freq_factor: unchanged; longer than it: all of factor.
    assert np.all(divisors[wavelengths < 16 / 4] == 1)
    assert np.all(divisors[wavelengths > 16 / 1] == 8)


def test_models_are_compared_with_other_models_and_tables(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = folder / "other.json"
    other.write_text(json.dumps({**LLAMA, "rope_theta": 10000.0}))
    table = "/rope?head_dim=16&rope_theta=500000&seq_len=4"

    assert main(["model", str(folder), "--diff", str(folder / "config.json")]) == 0
    assert capfd.readouterr().out.startswith("same")
    assert main(["model", str(folder), "--diff", str(other), "--json"]) == 3
    assert json.loads(capfd.readouterr().out)["verdict"] == "differs"
    assert main(["model", str(folder), "--diff", table]) == 3
    assert main(["model", str(folder), "--diff", "/none"]) == 1


def test_rule_that_llama_cpp_computes_has_no_divisors(folder: Path) -> None:
    scaled = {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    (folder / "config.json").write_text(json.dumps(scaled))

    assert main(["model", str(folder), "--write", str(folder / "out"), "--for", "ggml"]) == 0

    assert json.loads((folder / "out" / "manifest.json").read_text())["tables"] == []
