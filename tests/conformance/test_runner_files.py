"""Files that commands write: the suite, and cases of one's own."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from service import conformance_command
from service.__main__ import main
from service.conformance.files.vector_file import Asked, VectorFile
from service.conformance.questions import Question
from service.conformance.recorded_cases import RecordedCase, cases_in
from service.conformance.release import Release
from service.errors import counted
from tests.conformance.engines.broken import BROKEN

ENGINE = Path(__file__).parent / "engines" / "rotary.py"
TABLE = "/rope?head_dim=8&rope_theta=10000&seq_len=64&pack=concat"


def table(width: int) -> Question:
    return Question("table", "/rope", {"head_dim": width, "rope_theta": 10000.0}, (0, 1, 5))


def asked() -> Iterator[Asked]:
    yield "eight channels", table(8)


def drawn(random: Random) -> Asked:
    return "some channels", table(2 * random.randrange(1, 20))


@pytest.fixture(autouse=True)
def _two_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the suite have two small files."""
    small = (VectorFile("rope/a", asked, drawn), VectorFile("rope/b", asked))
    monkeypatch.setattr(conformance_command, "FILES", small)


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_two_writes_are_equal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "one", "two"):
        assert main(["conformance", "write", str(tmp_path / name)]) == 0

    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert {"rope_a.json", "rope_b.json"} <= contents(tmp_path / "one").keys()
    line = capfd.readouterr().out.splitlines()[-1]
    assert line.startswith(f"{tmp_path / 'two'}: suite ")
    assert ", 2 cases, " in line
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_more_cases_are_drawn_from_a_seed(tmp_path: Path) -> None:
    for name, seed in (("one", "1"), ("two", "1"), ("three", "2")):
        given = ["--full", "3", "--seed", seed]
        assert main(["conformance", "write", str(tmp_path / name), *given]) == 0

    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert contents(tmp_path / "one") != contents(tmp_path / "three")
    cases = json.loads((tmp_path / "one" / "rope_a.json").read_bytes())["cases"]
    assert [each["id"] for each in cases] == ["rope/a/1", "rope/a/2", "rope/a/3", "rope/a/4"]


def test_only_files_that_a_server_has_have_urls(tmp_path: Path) -> None:
    for name, more in (("core", []), ("drawn", ["--full", "1"])):
        assert main(["conformance", "write", str(tmp_path / name), *more]) == 0

    core, drawn = (
        json.loads((tmp_path / name / "index.json").read_bytes()) for name in ("core", "drawn")
    )
    assert core["sums"]["url"] == f"/conformance/{core['version']}/SHA256SUMS"
    entries = [*drawn["files"], drawn["schema"], drawn["sums"], drawn["zip"]]
    assert not any("url" in each for each in entries)
    assert all(each["sha256"] for each in entries)


def test_a_count_of_one_is_singular(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert counted(1, "case") == "1 case"
    assert main(["conformance", "write", str(tmp_path / "two")]) == 0
    assert ", 2 cases, " in capfd.readouterr().out


def test_a_report_names_the_version_and_what_its_files_are_of_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    release = Release.packaged()
    folder, junit, report = (tmp_path / name for name in ("suite", "junit.xml", "report.json"))
    folder.mkdir()

    def told(place: Path = folder) -> str:
        reports = ["--junit", str(junit), "--json", str(report)]
        main(["conformance", "run", *reports, "--suite", str(place), "--", "/no/such/thing"])
        content = json.loads(report.read_bytes())
        parts = ", ".join(filter(None, (content["suite"], content["part"])))
        line = capfd.readouterr().out.splitlines()[0]
        assert line == f"unnamed implementation, suite {parts}"
        assert f'name="posref conformance {parts}"' in junit.read_text()
        return parts

    for name, body in {**release.files, "other.json": b"{}"}.items():
        (folder / name).write_bytes(body)
    many = len(release.listed) - 1
    assert told() == release.version
    assert told(folder / "rope_yarn.json") == f"{release.version}, 1 of {many} files"
    for name in ("rope_yarn.json", "resize.json"):
        (folder / name).unlink()
    assert told() == f"{release.version}, {many - 2} of {many} files"
    text = (folder / "rope_axial.json").read_text()
    (folder / "rope_axial.json").write_text(text.replace("rope/axial/1", "rope/axial/one", 1))
    changed = f"{release.version}, changed: 1 of {{}} files are not of this version"
    assert told() == changed.format(many - 2)
    (folder / "SHA256SUMS").unlink()
    assert told() == changed.format(many - 2)
    (folder / "SHA256SUMS").write_bytes(b"no sums\n\n\xff")
    assert told().endswith(f", {many - 2} files of your own")
    assert told(folder / "rope_axial.json").endswith(", 1 file of your own")


@pytest.mark.parametrize("full", [[], ["--full", "2"]])
def test_a_suite_that_was_written_has_the_version_that_was_printed(
    full: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "suite"
    assert main(["conformance", "write", str(folder), *full]) == 0
    version = capfd.readouterr().out.partition(": suite ")[2][:12]

    assert (
        main(["conformance", "run", "--suite", str(folder), "--", sys.executable, str(ENGINE)]) == 0
    )
    assert capfd.readouterr().out.splitlines()[0] == f"rotary 1, suite {version}"


def test_a_write_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write = Path.write_bytes

    def without_room(path: Path, body: bytes) -> int:
        if path.name == "rope_b.json":
            write(path, body[:10])
            raise OSError(28, "No space left on device", str(path))
        return write(path, body)

    monkeypatch.setattr(Path, "write_bytes", without_room)

    assert main(["conformance", "write", str(tmp_path / "suite")]) == 2
    assert "No space left on device" in capfd.readouterr().err
    assert [*tmp_path.rglob("*")] == [tmp_path / "suite"]


def test_other_files_of_a_folder_are_not_mixed_with_the_suite(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rope_old.json").write_text("{}")

    assert main(["conformance", "write", str(tmp_path)]) == 2
    assert "has other files: rope_old.json" in capfd.readouterr().err
    assert contents(tmp_path) == {"rope_old.json": b"{}"}


def test_nothing_is_replaced_where_a_folder_has_the_name_of_a_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rope_b.json").mkdir()
    (tmp_path / "rope_a.json").write_text("old")
    assert main(["conformance", "write", str(tmp_path)]) == 2

    assert "has other files: rope_b.json/" in capfd.readouterr().err
    assert (tmp_path / "rope_a.json").read_text() == "old"
    assert {each.name for each in tmp_path.iterdir()} == {"rope_a.json", "rope_b.json"}


def test_the_folder_of_a_write_that_was_killed_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".new-a1b2").mkdir()

    assert main(["conformance", "write", str(tmp_path)]) == 0
    assert (tmp_path / "rope_a.json").is_file()


def rope(rows: int, base: float = 10000.0, width: int = 8) -> Any:
    angles = np.arange(rows)[:, None] * base ** (-np.arange(0, width, 2) / width)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with arrays of an implementation that ignores the base."""
    monkeypatch.chdir(tmp_path)
    np.save("right.npy", np.concatenate(rope(64), axis=1))
    wrong = rope(64, 20000.0)
    np.save("wrong.npy", np.concatenate(wrong, axis=1))
    x = np.random.default_rng(0).standard_normal((2, 3, 16, 8)).astype(np.float32)
    np.save("x.npy", x)
    cos, sin = rope(16)
    one, other = x[..., :4], x[..., 4:]
    np.save("rotated.npy", np.concatenate([one * cos + other * sin, other * cos - one * sin], -1))
    cos, sin = rope(3000, 20000.0, 128)
    np.save("wide.npy", np.concatenate([cos, cos, sin, sin], axis=1))
    config = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4}
    more = {"num_hidden_layers": 2, "max_position_embeddings": 64, "rope_theta": 10000.0}
    Path("config.json").write_text(json.dumps(config | more))
    return tmp_path


def written() -> RecordedCase:
    (case,) = cases_in({"case.json": Path("case.json").read_text()})
    return case


def own(*arguments: str) -> RecordedCase:
    assert main(["diagnose", *arguments, "--write-case", "case.json"]) == 1
    assert Path("case.json").stat().st_size < 16_000
    return written()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("to", [TABLE, "config.json", TABLE.replace("concat", "half")])
def test_a_case_has_the_first_rows_that_are_wrong_and_the_right_numbers(
    to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = own("wrong.npy", "--to", to)

    assert case.question.kind == "table"
    assert case.question.positions is not None
    assert case.question.positions[:2] == (0, 1)
    assert case.question.positions[-1] == 63
    rows = [*case.question.positions]
    np.testing.assert_allclose(case.expected.arrays["cos"], rope(64)[0][rows], atol=1e-5)
    assert re.search(r"from position 1 on\. The base .* should be 10000\.", case.comment)
    assert "case.json: wrote a case" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_a_case_fails_with_the_implementation_and_passes_once_it_is_mended() -> None:
    np.save("complex.npy", np.load("wrong.npy")[:, :4] + 1j * np.load("wrong.npy")[:, 4:])
    for file, to in (
        ("wrong.npy", TABLE),
        ("wide.npy", "/rope?head_dim=128&pack=half_concat"),
        ("complex.npy", TABLE.replace("concat", "complex")),
    ):
        own(file, "--to", to)
        run = ["conformance", "run", "--suite", "case.json", "--", sys.executable, str(ENGINE)]
        assert main([*run, "twice-the-base"]) == 1
        assert main(run) == 0


# Of a broken engine: its name, the resource and the parameters, a change of its array, the query.
PAIRS: dict[str, tuple[str, str, dict[str, Any], Callable[[Any], Any]]] = {
    "heads": ("rewarded-distance", "/relative/alibi", {"num_heads": 12}, lambda each: each),
    "buckets": ("t5-both-ways", "/relative/t5", {"bidirectional": False}, lambda each: each),
    "a batch": (
        "rewarded-distance",
        "/relative/alibi",
        {"num_heads": 4},
        lambda each: np.repeat(each[None], 3, 0),
    ),
    "integers": (
        "deberta-backwards",
        "/relative/deberta",
        {"bucket_size": 4, "max_position": 16},
        lambda each: each.astype(np.int32),
    ),
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", PAIRS)
def test_a_table_of_queries_and_keys_has_a_case_of_those_that_are_wrong(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    engine, resource, parameters, change = PAIRS[name]
    given = {**parameters, "query_start": 3, "query_len": 40, "key_len": 50}
    asked = {"kind": "array", "resource": resource, "parameters": given}
    (array,) = BROKEN[engine]("float32").answer(asked).values()
    np.save("pairs.npy", change(array))
    query = "&".join(f"{key}={each}" for key, each in given.items()).lower()

    case = own("pairs.npy", "--to", f"{resource}?{query}")

    listed = case.question.parameters
    assert case.expected.shape[-2:] == (
        len(listed["query_positions"]),
        len(listed["key_positions"]),
    )
    assert set(listed["query_positions"]) <= set(range(3, 43))
    run = ["conformance", "run", "--suite", "case.json", "--", sys.executable, "-m"]
    assert main([*run, "tests.conformance.engines.broken", engine]) == 1
    assert main([*run, "tests.conformance.engines.honest"]) == 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("convention", ["bloom", "mpt"])
def test_a_bias_of_one_row_has_a_case(convention: str) -> None:
    bias = 2.0 ** -np.arange(1, 9)[:, None, None] * np.arange(60)
    np.save("bias.npy", np.float32(bias * 2))

    case = own(
        "bias.npy", "--to", f"/relative/alibi?num_heads=8&key_len=60&convention={convention}"
    )

    assert case.expected.shape[:2] == (8, 1)
    keys = np.array(case.question.parameters["key_positions"])
    right = bias[:, :, keys] - (bias[:, :, -1:] if convention == "mpt" else 0)
    np.testing.assert_allclose(next(iter(case.expected.arrays.values())), right)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "change",
    [
        lambda each: np.repeat(each[None], 3, 0),
        lambda each: each[:, None],
        lambda each: np.repeat(np.repeat(each[:, None], 3, 1)[None], 2, 0),
    ],
    ids=["batch", "one-head", "batch-and-heads"],
)
def test_equal_copies_have_the_case_of_one(change: Callable[[Any], Any]) -> None:
    right = own("wrong.npy", "--to", TABLE).question
    np.save("copies.npy", change(np.load("wrong.npy")))

    assert own("copies.npy", "--to", TABLE).question == right


@pytest.mark.usefixtures("folder")
def test_a_number_that_is_none_has_a_case() -> None:
    wrong = np.load("right.npy")
    wrong[63, 2] = np.nan
    np.save("nan.npy", wrong)

    assert own("nan.npy", "--to", TABLE).question.positions == (0, 63)


@pytest.mark.usefixtures("folder")
def test_a_transposed_row_has_a_case_if_it_is_wrong() -> None:
    right = np.concatenate(rope(1, width=2), axis=1).T
    to = ["--to", "/rope?head_dim=2&rope_theta=10000&seq_len=1&pack=concat"]
    np.save("row.npy", right)
    assert main(["diagnose", "row.npy", *to, "--write-case", "case.json"]) == 0
    assert not Path("case.json").exists()
    np.save("row.npy", right + 0.5)

    assert own("row.npy", *to).expected.shape == (1, 1)


@pytest.mark.usefixtures("folder")
def test_a_transposed_table_has_a_case_that_is_not_square() -> None:
    np.save("transposed.npy", np.load("right.npy").T)

    case = own("transposed.npy", "--to", TABLE)

    assert len({*case.expected.shape}) == 2
    run = ["conformance", "run", "--suite", "case.json", "--", sys.executable, str(ENGINE)]
    assert main([*run, "transposed"]) == 1
    assert main(run) == 0
    slopes = np.array([0.5, 0.25], dtype=np.float32)[:, None, None]
    far = -np.abs(np.subtract.outer(np.arange(5), np.arange(7))) * slopes
    np.save("pairs.npy", far.transpose(0, 2, 1))
    to = "/relative/alibi?num_heads=2&alibi_bias_max=2&form=symmetric&query_len=5&key_len=7"
    _, queries, keys = own("pairs.npy", "--to", to).expected.shape
    assert queries != keys


@pytest.mark.usefixtures("folder")
def test_heads_that_are_taken_for_positions_are_in_the_case() -> None:
    x, (cos, sin) = np.load("x.npy"), rope(3)
    cos, sin = cos[:, None], sin[:, None]
    one, other = x[..., :4], x[..., 4:]
    np.save("swapped.npy", np.concatenate([one * cos - other * sin, other * cos + one * sin], -1))
    to = "/rope/apply?head_dim=8&rope_theta=10000&layout=half"

    case = own("x.npy", "--rotated", "swapped.npy", "--to", to)

    np.testing.assert_array_equal(case.question.x[1][0], x[0, 1, 0])
    turned = np.load("swapped.npy")[0, :2]
    assert not np.allclose(case.expected.arrays["rotated"], turned[:, case.question.positions])


@pytest.mark.usefixtures("folder")
def test_axes_of_a_rotation_are_those_of_the_url() -> None:
    x, (cos, sin) = np.load("x.npy"), rope(16)
    one, other = x[..., :4], x[..., 4:]
    rotated = np.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)
    rotated[1, 2, 9] *= 1.5
    np.save("x.npy", np.moveaxis(x, 1, 2))
    np.save("mixed.npy", np.moveaxis(rotated, 1, 2))
    to = "/rope/apply?head_dim=8&rope_theta=10000&layout=half&axes=batch,seq,head,channel"

    case = own("x.npy", "--rotated", "mixed.npy", "--to", to)

    assert case.question.positions == (0, 9)
    np.testing.assert_array_equal(case.question.x, x[1, 2, [0, 9]])


@pytest.mark.usefixtures("folder")
def test_a_rule_that_takes_its_factor_from_the_length_keeps_it() -> None:
    rule = "rope_type=yarn&original_max_position_embeddings=16&max_position_embeddings=64"

    case = own("wrong.npy", "--to", f"{TABLE}&{rule}")

    assert case.question.parameters["max_position_embeddings"] == 64


@pytest.mark.usefixtures("folder")
def test_positions_of_rows_are_those_of_the_command() -> None:
    case = own("right.npy", "--to", TABLE, "--start", "100")
    assert case.question.positions is not None
    assert case.question.positions[0] == 100
    case = own("right.npy", "--to", "config.json", "--positions", "7:71")
    assert case.question.positions is not None
    assert (case.question.positions[0], case.question.positions[-1]) == (7, 70)


@pytest.mark.usefixtures("folder")
def test_a_rotation_has_a_case_of_one_head() -> None:
    to = "/rope/apply?head_dim=8&rope_theta=10000&layout=half"
    case = own("x.npy", "--rotated", "rotated.npy", "--to", to)

    assert case.question.kind == "rotate"
    assert np.shape(case.question.x) == case.expected.shape
    np.testing.assert_array_equal(case.question.x[0], np.load("x.npy")[0, 0, 0])


@pytest.mark.usefixtures("folder")
def test_a_rotation_with_one_wrong_head_has_a_case_of_that_head() -> None:
    x, (cos, sin) = np.load("x.npy"), rope(16)
    one, other = x[..., :4], x[..., 4:]
    rotated = np.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)
    rotated[0, -1] *= 1.5
    np.save("mixed.npy", rotated)
    to = "/rope/apply?head_dim=8&rope_theta=10000&layout=half"

    case = own("x.npy", "--rotated", "mixed.npy", "--to", to)

    np.testing.assert_array_equal(case.question.x[0], x[0, -1, 0])


@pytest.mark.usefixtures("folder")
def test_a_right_array_has_no_case(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "right.npy", "--to", TABLE, "--write-case", "case.json"]) == 0

    printed = capfd.readouterr()
    assert "verdict: equal" in printed.out
    assert printed.err.startswith("case.json: no number is further off")
    assert not Path("case.json").exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["slopes.npy", "--to", "/relative/alibi/slopes?num_heads=8"],
            "to: a case needs a table of queries and keys, or whose rows have one position each,",
        ),
        (
            ["mixed.npy", "--to", TABLE],
            "x (2, 64, 8): no packing of the table has such a shape",
        ),
        (
            ["head.npy", "--to", "/relative/alibi?num_heads=2&query_len=4&head=1"],
            "to: a case has the biases of all heads: leave out head",
        ),
        (
            ["masked.npy", "--to", "/relative/alibi?num_heads=2&query_len=4&masked=true"],
            "to: a case has finite numbers: name the bias before a mask is added",
        ),
        (
            ["x.npy", "--rotated", "rotated.npy", "--to", "/rope?head_dim=8&seq_len=16"],
            "to: name the rotation by its layout, as in /rope/apply?layout=half",
        ),
    ],
)
def test_other_tables_are_refused(
    arguments: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    np.save("slopes.npy", np.arange(8.0))
    np.save("mixed.npy", np.stack([np.load("right.npy"), np.load("wrong.npy")]))
    bias = np.array([[[1.0]], [[2.0]]]) * np.arange(4)
    np.save("head.npy", bias[0] + np.zeros((4, 1)))
    np.save("masked.npy", np.where(np.tri(4, dtype=bool), bias, -np.inf))

    assert main(["diagnose", *arguments, "--write-case", "case.json"]) == 2
    assert capfd.readouterr().err.startswith(f"case.json: {told}")
    assert not Path("case.json").exists()
