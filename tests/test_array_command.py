"""``posref compare``, ``diagnose`` and ``identify``: reports about arrays on this disk."""

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from service.__main__ import main

HALF = 4
TABLE = "/rope?head_dim=8&rope_theta=10000&seq_len=64&pack=concat"
LLAMA: Mapping[str, Any] = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
    "rope_theta": 10000.0,
}
COMMANDS = ("compare", "diagnose", "identify")


def rope(rows: int = 32, first: int = 0) -> tuple[Any, Any]:
    """Return cosines and sines of eight channels, (rows, 4)."""
    angles = np.arange(first, first + rows)[:, None] * 10000.0 ** (-np.arange(HALF) / HALF)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotated(x: Any) -> Any:
    """Return the vectors (…, 8) of positions 0, 1, … rotated with pairs (k, k + 4)."""
    cos, sin = rope(x.shape[-2])
    one, other = x[..., :HALF], x[..., HALF:]
    return np.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with right and wrong arrays."""
    monkeypatch.chdir(tmp_path)
    cos, sin = rope()
    table = np.concatenate([cos, sin], axis=1)
    np.save("right.npy", table)
    np.save("wrong.npy", table[:, ::-1].copy())
    np.save("noise.npy", np.random.default_rng(1).standard_normal((32, 8)))
    table.astype(ml_dtypes.bfloat16).tofile("bare.bin")
    Path("body.json").write_text(json.dumps({"x": table.tolist(), "to": TABLE}))
    vectors = np.random.default_rng(0).standard_normal((2, 16, 8), dtype=np.float32)
    np.save("x.npy", vectors)
    np.save("rotated.npy", rotated(vectors))
    tensors = {"m.cos_cached": cos, "m.sin_cached": sin, "q": vectors, "done": rotated(vectors)}
    save_file({**tensors, "count": np.arange(3)}, "all.safetensors")
    Path("config.json").write_text(json.dumps(LLAMA))
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "answer", "code"),
    [
        (["compare", "right.npy", "--to", TABLE], "in the first 32 along axis position", 0),
        (["compare", "wrong.npy", "--to", TABLE], "beyond the tolerance", 1),
        (["compare", "--to", f"https://host{TABLE}", "right.npy"], "in the first 32 along", 0),
        (["compare", f"{TABLE}&angle=float32", "--to", TABLE], "within the tolerance", 0),
        (["compare", f"{TABLE}&start=1", "--to", TABLE], "beyond the tolerance", 1),
        (["diagnose", "right.npy", "--to", TABLE], "verdict: equal", 0),
        (["identify", "right.npy"], "/rope?head_dim=8&rope_theta=10000&seq_len=32", 0),
        (["identify", "noise.npy"], "none", 1),
        (["compare", "body.json"], "in the first 32 along", 0),
        (["diagnose", "body.json"], "verdict: equal", 0),
        (["identify", "bare.bin", "--shape", "32,8", "--dtype", "bfloat16"], "/rope?", 0),
    ],
)
def test_verdict_is_printed_and_is_the_exit_code(
    arguments: list[str], answer: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code

    printed = capfd.readouterr()
    assert answer in printed.out
    assert printed.err == ""


@pytest.mark.usefixtures("folder")
def test_first_line_is_the_answer(capfd: pytest.CaptureFixture[str]) -> None:
    main(["identify", "right.npy", "--json"])
    url = json.loads(capfd.readouterr().out)["hypotheses"][0]["url"]
    main(["identify", "right.npy"])
    assert capfd.readouterr().out.startswith(f"{url}\n")
    main(["compare", "wrong.npy", "--to", TABLE])
    assert capfd.readouterr().out.startswith("beyond the tolerance")


@pytest.mark.usefixtures("folder")
def test_diagnosed_array_has_code_1(capfd: pytest.CaptureFixture[str]) -> None:
    np.save("late.npy", np.concatenate(rope(first=3), axis=1))

    assert main(["diagnose", "late.npy", "--to", TABLE, "--json"]) == 1

    assert json.loads(capfd.readouterr().out)["verdict"] == "diagnosed"
    assert main(["diagnose", "late.npy", "--to", TABLE, "--start", "3"]) == 0
    assert main(["compare", "late.npy", "--to", TABLE, "--positions", "3:35"]) == 0
    assert main(["diagnose", "late.npy", "--to", "config.json", "--start", "3"]) == 0
    assert main(["diagnose", "late.npy", "--to", "config.json", "--positions", "3:35"]) == 0


@pytest.mark.usefixtures("folder")
def test_parameters_are_in_the_query_or_in_a_body_where_the_query_prevails(
    capfd: pytest.CaptureFixture[str],
) -> None:
    near = (np.load("right.npy") + np.float32(1e-4)).tolist()
    Path("near.json").write_text(json.dumps({"x": near, "to": TABLE, "atol": 1e-3}))

    assert main(["compare", "near.json"]) == 0
    capfd.readouterr()
    assert main(["compare", "near.json", "--query", "atol=1e-5&rtol=0", "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["tolerance"] == {"atol": 1e-5, "rtol": 0}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("suffix", ["npy", "safetensors", "json"])
def test_format_of_standard_input_is_found_in_its_content(
    suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file({"x": np.load("right.npy")}, "right.safetensors")
    Path("right.json").write_text(json.dumps({"x": np.load("right.npy").tolist()}))
    content = io.BytesIO(Path(f"right.{suffix}").read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(content))

    assert main(["compare", "-", "--to", TABLE]) == 0


@pytest.mark.usefixtures("folder")
def test_pipe_is_read_as_a_file() -> None:
    reader, writer = os.pipe()
    os.write(writer, Path("right.npy").read_bytes())
    os.close(writer)

    assert main(["diagnose", f"/dev/fd/{reader}", "--to", TABLE]) == 0
    os.close(reader)


@pytest.mark.usefixtures("folder")
def test_tensors_of_a_checkpoint_are_chosen_and_renamed(capfd: pytest.CaptureFixture[str]) -> None:
    of_both = "/rope?head_dim=8&rope_theta=10000&seq_len=64&pack=compact"
    names = ["cos=m.cos_cached", "sin=m.sin_cached"]
    chosen = [each for name in names for each in ("--tensor", name)]

    assert main(["compare", "all.safetensors", "--to", of_both, *chosen]) == 0
    assert main(["diagnose", "all.safetensors", "--to", of_both, *chosen]) == 0
    plain = [each.replace("cos=", "").replace("sin=", "") for each in chosen]
    assert main(["identify", "all.safetensors", *plain]) == 0
    assert main(["identify", "all.safetensors"]) == 2
    assert main(["identify", "all.safetensors", "--tensor", "m.cos"]) == 2
    assert "there is no tensor m.cos; among them are m.cos_cached" in capfd.readouterr().err


def test_tensor_is_read_beside_tensors_of_types_that_are_not(folder: Path) -> None:
    header = {
        "odd": {"dtype": "F8_E4M3", "shape": [5], "data_offsets": [0, 5]},
        "x": {"dtype": "F32", "shape": [32, 8], "data_offsets": [5, 1029]},
    }
    text, table = json.dumps(header).encode(), np.load("right.npy").tobytes()
    content = len(text).to_bytes(8, "little") + text + bytes(5) + table
    (folder / "odd.safetensors").write_bytes(content)

    assert main(["compare", "odd.safetensors", "--to", TABLE]) == 2
    assert main(["compare", "odd.safetensors", "--to", TABLE, "--tensor", "x"]) == 0


@pytest.mark.usefixtures("folder")
def test_rotation_is_of_two_files_or_of_two_tensors(capfd: pytest.CaptureFixture[str]) -> None:
    to = ["--to", "/rope/apply?head_dim=8&rope_theta=10000&layout=half"]
    of_tensors = ["all.safetensors", "--tensor", "x=q", "--tensor", "rotated=done"]

    assert main(["diagnose", "x.npy", "--rotated", "rotated.npy", *to]) == 0
    assert main(["diagnose", *of_tensors, *to]) == 0
    assert main(["diagnose", "x.npy", "--rotated", "rotated.npy", "--to", "config.json"]) == 0
    assert main(["diagnose", "x.npy", "--rotated", "x.npy", *to]) == 1
    assert main(["diagnose", "x.npy", "--rotated", "all.safetensors", *to]) == 2
    assert capfd.readouterr().err.startswith("all.safetensors: --rotated takes one array")


@pytest.mark.usefixtures("folder")
def test_table_of_a_layer_is_that_of_the_config(capfd: pytest.CaptureFixture[str]) -> None:
    rates = {"rope_theta": 10000.0, "rope_local_base_freq": 500.0}
    types = {"layer_types": ["sliding_attention", "full_attention"]}
    gemma = {**LLAMA, **rates, **types, "model_type": "gemma3_text", "head_dim": 8}
    Path("two.json").write_text(json.dumps(gemma))

    for command in ("compare", "diagnose"):
        assert main([command, "right.npy", "--to", "config.json"]) == 0
        assert main([command, "right.npy", "--to", "two.json", "--layer", "1"]) == 0
        assert main([command, "right.npy", "--to", "two.json", "--layer", "0"]) == 1
        assert main([command, "right.npy", "--to", "two.json", "--layer", "2"]) == 2
        capfd.readouterr()
        assert main([command, "right.npy", "--to", "two.json"]) == 2
        assert "layers have different tables" in capfd.readouterr().err


@pytest.mark.usefixtures("folder")
def test_logged_rows_are_compared_with_those_of_the_table() -> None:
    # cos 5, cos 0.5, cos 9, cos 0.9, and cos -2, which is that of 2.
    rows = ["--at", "5", "0.2837,0.8776", "--at", "9", "-0.9111,0.6216"]
    rows += ["--at", "-2", "-0.4161,0.9801"]
    atol = ["--query", "atol=1e-4&rtol=0"]

    assert main(["compare", *rows, "--to", TABLE, *atol]) == 0
    assert main(["compare", *rows, "--to", "config.json", *atol]) == 0
    assert main(["compare", "--at", "6", "0.2837,0.8776", "--to", TABLE, *atol]) == 1


@pytest.mark.usefixtures("folder")
def test_whole_logged_rows_are_diagnosed_at_their_positions() -> None:
    whole = np.concatenate(rope(12), axis=1)
    rows = [["--at", str(each), ",".join(map(str, whole[each]))] for each in (3, 7, 11)]
    at = [each for row in rows for each in row]

    assert main(["diagnose", *at, "--to", TABLE]) == 0
    assert main(["diagnose", *at, "--to", "config.json"]) == 0
    assert main(["diagnose", *at, "--to", TABLE.replace("10000", "20000")]) == 1
    assert main(["identify", *at]) == 0


@pytest.mark.usefixtures("folder")
def test_the_few_decimals_of_a_log_are_right_and_those_of_a_file_are_not() -> None:
    whole = np.concatenate(rope(12), axis=1).round(4)
    np.save("rounded.npy", whole)
    at = ["--at", "5", ",".join(map(str, whole[5]))]

    assert main(["diagnose", *at, "--to", TABLE]) == 0
    assert main(["diagnose", *at, "--to", TABLE.replace("10000", "20000")]) == 1
    assert main(["diagnose", "rounded.npy", "--to", TABLE]) == 1


REFUSED: Mapping[str, tuple[list[str], str]] = {
    "no file": (["none.npy"], "none.npy: No such file or directory\n"),
    "a folder": (["."], ".: Is a directory\n"),
    "nothing": ([], "name one file, or give rows with --at\n"),
    "both": (["right.npy", "--at", "1", "2"], "name one file, or give rows with --at\n"),
    "cut": (["cut.npy"], "cut.npy: the header says 1024 bytes"),
    "empty": (["empty.npy"], "empty.npy: not a readable npy header"),
    "pickle": (["pickle.npy"], "pickle.npy: an array of Python objects is a pickle"),
    "archive": (["all.npz"], "all.npz: an archive, as npz and pt are, is not read"),
    "not tensors": (["cut.safetensors"], "cut.safetensors: not a safetensors file"),
    "not JSON": (["cut.json"], "cut.json: the body is not JSON"),
    "no header": (["bare.bin"], "bare.bin: without a known header, it needs --shape"),
    "shape": (["bare.bin", "--shape", "5,5", "--dtype", "float16"], "bare.bin: shape=5,5 of"),
    "no shape": (["bare.bin", "--shape", "-5,x", "--dtype", "float16"], "bare.bin: shape must"),
    "type": (["bare.bin", "--shape", "32,8", "--dtype", "float8"], "bare.bin: dtype: did you mean"),
    "no tensors": (["right.npy", "--tensor", "x"], "right.npy: --tensor goes with safetensors"),
    "query": (["right.npy", "--query", "foo=1"], "foo is not a parameter here"),
    "twice": (["right.npy", "--query", "a=1&a=2"], "right.npy: a is given twice\n"),
    "row": (["--at", "5", "1,nan"], "--at 5 1,nan: must be a list of numbers"),
    "position": (["--at", "5:7", "1,2"], "--at 5:7 1,2: must be a number"),
    "ragged": (["--at", "5", "1,2", "--at", "6", "1"], "rows of --at: x must be lists"),
    "positions": (["--at", "5", "1", "--positions", "5"], "--at, --positions and --start exclude"),
    "start": (["right.npy", "--positions", "5", "--start", "5"], "--at, --positions and --start"),
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_told_in_a_line_with_code_2(
    command: str, case: str, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = Path("right.npy").read_bytes()
    Path("cut.npy").write_bytes(whole[:-7])
    Path("empty.npy").touch()
    np.save("pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez("all.npz", x=np.arange(3))
    Path("cut.safetensors").write_bytes(Path("all.safetensors").read_bytes()[:90])
    Path("cut.json").write_text('{"x": [[1,')
    arguments, told = REFUSED[case]
    to = [] if command == "identify" else ["--to", TABLE]

    assert main([command, *arguments, *to]) == 2

    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(told)
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["--start", "4", "--to", TABLE], "--start: goes with a file"),
        (["--query", "rtoll=1", "--to", TABLE], "did you mean rtol?"),
        ([], "to is required"),
    ],
)
def test_of_two_tables_what_goes_with_a_file_is_refused(
    arguments: list[str], answer: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", TABLE, *arguments]) == 2
    assert answer in capfd.readouterr().err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["compare", "diagnose"])
@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("/rop?head_dim=8", "to names no table: There is no table at /rop; did you mean /rope?"),
        ("/rope?hed_dim=8", "to names no table: hed_dim is not a parameter here"),
        ("none.json", "none.json: No such file or directory"),
        ("right.npy", "model: "),
        ("http://[::1/rope?head_dim=8", "to names no table: http://[::1/rope?head_dim=8 is no URL"),
    ],
)
def test_expected_table_that_is_none_is_refused(
    command: str, to: str, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "right.npy", "--to", to]) == 2
    assert capfd.readouterr().err.startswith(told)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["compare", "diagnose"])
def test_expected_table_is_required(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([command, "right.npy"]) == 2
    assert capfd.readouterr().err.startswith("to")
    assert main([command, "right.npy", "--start", "3", "--to", "/encoding/grid?height=2"]) == 2
    capfd.readouterr()
    assert main([command, "right.npy", "--to", TABLE, "--layer", "1"]) == 2
    assert capfd.readouterr().err.startswith("layer goes with model")


@pytest.mark.usefixtures("folder")
def test_numbers_that_are_not_finite_are_no_table() -> None:
    array = np.load("right.npy")
    array[3, 2] = np.nan
    np.save("nan.npy", array)

    assert main(["compare", "nan.npy", "--to", TABLE]) == 1
    assert main(["identify", "nan.npy"]) == 1
    assert main(["diagnose", "nan.npy", "--to", TABLE]) in {1, 2}


def test_unknown_option_is_bad_usage(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (["identify", "x.npy", "--to", TABLE], ["compare", "x.npy", "--rotated", "y"]):
        with pytest.raises(SystemExit) as exited:
            main(arguments)
        assert exited.value.code == 2
    assert "unrecognized arguments" in capfd.readouterr().err
