"""``posref model``: every positional encoding of a model on this disk."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from service.__main__ import main
from tests.models.gguf_files import gguf_file

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


def test_file_of_a_folder_that_is_refused_is_named(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "params.json").write_text('{"dim": 64, "n_heads": 0}')

    assert main(["model", str(folder)]) == 1

    assert json.loads(capfd.readouterr().err)["file"] == "params.json"


def test_model_of_a_folder_that_is_not_known_is_named(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "vae").mkdir()
    (folder / "vae" / "config.json").write_text('{"model_type": "my_model"}')

    assert main(["model", str(folder)]) == 3

    printed = capfd.readouterr()
    assert printed.out.startswith("config.json: rotary")
    assert printed.err.startswith("vae/config.json: no positional encoding is known")
    (folder / "config.json").unlink()
    assert main(["model", str(folder)]) == 1
    assert main(["model", str(folder / "none")]) == 1
    assert capfd.readouterr().err.endswith("none: No such file or directory\n")


def test_head_of_a_large_file_is_read_alone(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keys = {"general.architecture": "qwen2", "qwen2.embedding_length": 64}
    sizes = {"qwen2.attention.head_count": 4, "qwen2.context_length": 64}
    for name, head in (
        ("w.gguf", gguf_file({**keys, **sizes, "qwen2.rope.freq_base": 5e5})),
        ("w.safetensors", (2).to_bytes(8, "little") + b"{}"),
    ):
        file = folder / name
        file.write_bytes(head)
        os.truncate(file, 5 * 2**30)
        assert main(["model", str(file)]) == 0
        file.unlink()
    assert "rope_theta=500000" in capfd.readouterr().out


def test_reports_of_a_folder_as_json_have_their_file(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", str(folder), "--json"]) == 0

    assert json.loads(capfd.readouterr().out)["file"] == "config.json"


def test_models_with_tables_of_the_same_names_are_refused(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "params.json").write_text('{"dim": 64, "n_heads": 4, "rope_theta": 5.0}')
    out = folder / "out"

    assert main(["model", str(folder), "--write", str(out)]) == 1

    assert capfd.readouterr().err.startswith("config.json and params.json have tables of the same")
    assert not (out / "manifest.json").exists()
    assert np.load(out / "rotary.cos.npy").shape == (32, 16)


def test_table_that_an_engine_has_no_pack_for_is_not_written(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "qwen2_vl"}')
    of_text, of_both = ["rotary.cos_sin_cache"], ["rotary", "vision.rotary"]
    caches = [f"{name}.{part}_cache" for name in of_both for part in ("cos", "sin")]
    for engine, names in (("vllm", of_text), ("onnx", caches)):
        write = ["--write", str(folder / engine), "--for", engine]
        assert main(["model", str(folder), *write, "--query", "seq_len=8&grid=1,4,4"]) == 0
        written = [each.stem for each in sorted((folder / engine).glob("*.npy"))]
        assert written == names


def test_reader_may_close_the_pipe(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "service", "model", str(folder), "--json"]

    process = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)

    assert (process.returncode, process.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("engine", "shapes"),
    [
        (
            "transformers",
            {"rotary.cos": [32, 16], "rotary.sin": [32, 16], "rotary.inv_freq": [8]},
        ),
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
    for each in (*manifest["tables"], *manifest["of_all_tables"]):
        assert sha256((out / each["file"]).read_bytes()).hexdigest() == each["sha256"]
    (together,) = manifest["of_all_tables"]
    arrays = load_file(out / together["file"])
    assert {name: [*array.shape] for name, array in arrays.items()} == shapes
    for name, array in arrays.items():
        np.testing.assert_array_equal(np.load(out / f"{name}.npy"), array)
        assert array.dtype == (np.float64 if "inv_freq" in name else np.float32)


LONGROPE: Mapping[str, Any] = {
    **LLAMA,
    "model_type": "phi3",
    "original_max_position_embeddings": 16,
    "rope_scaling": {
        "rope_type": "longrope",
        "short_factor": [1.0] * 7 + [1.5],
        "long_factor": [2.0] * 7 + [4.0],
    },
}


def test_regimes_of_lengths_have_tables_of_their_own(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(LONGROPE))
    for engine in ("ggml", "vllm"):
        assert main(["model", str(folder), "--write", str(folder / engine), "--for", engine]) == 0

    for name, factors, length in (("short", [1] * 7 + [1.5], 16), ("long", [2] * 7 + [4], 32)):
        written = np.load(folder / "ggml" / f"rotary.rope_factors_{name}.weight.npy")
        np.testing.assert_allclose(written, factors, rtol=1e-6)
        cache = np.load(folder / "vllm" / f"rotary.{length}.cos_sin_cache.npy")
        assert cache.shape == (length, 16)
    manifest = json.loads((folder / "ggml" / "manifest.json").read_text())
    assert [each["context_length"] for each in manifest["tables"]] == [16, 32]


def test_channels_that_stand_still_have_a_divisor_of_llama_cpp(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "gemma4_text"}')

    assert main(["model", str(folder), "--write", str(folder / "out"), "--for", "ggml"]) == 0

    divisors = np.load(folder / "out" / "rotary.full_attention.rope_freqs.weight.npy")
    np.testing.assert_array_equal(divisors, np.array([1] * 64 + [1e30] * 192, dtype=np.float32))


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


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.0001, 3)])
def test_divisors_of_a_file_may_be_rounded(
    folder: Path, capfd: pytest.CaptureFixture[str], factor: float, code: int
) -> None:
    assert main(["model", str(folder), "--write", str(folder), "--for", "ggml"]) == 0
    divisors = factor * np.load(folder / "rotary.rope_freqs.weight.npy")
    keys = {"embedding_length": 64, "attention.head_count": 4, "rope.freq_base": 5e5}
    sizes: dict[str, Any] = {f"llama.{name}": value for name, value in keys.items()}
    sizes |= {"general.architecture": "llama", "llama.context_length": 32, "llama.block_count": 32}
    file = folder / "w.gguf"
    file.write_bytes(gguf_file(sizes, [("rope_freqs.weight", divisors.tolist())]))
    capfd.readouterr()

    assert main(["model", str(file), "--diff", str(folder / "config.json")]) == code

    assert ("within a share of 2^-20" in capfd.readouterr().out) == (code == 0)


def test_rule_that_llama_cpp_computes_has_no_divisors(folder: Path) -> None:
    scaled = {**LLAMA, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    (folder / "config.json").write_text(json.dumps(scaled))

    assert main(["model", str(folder), "--write", str(folder / "out"), "--for", "ggml"]) == 0

    assert json.loads((folder / "out" / "manifest.json").read_text())["tables"] == []
