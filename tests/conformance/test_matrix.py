"""The matrix of docs/conformance.md follows from reports, and every defect in it is shown."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance import run
from conformance.matrix import DEFECTS, PAGE, START, failures, page, section
from service.conformance.release import Release, changes

WRITTEN = PAGE.read_text("utf-8").partition(START)[2]
CASES = {
    case["id"]: case
    for content in Release.packaged().contents.values()
    for case in content["cases"]
}
SHOWN = {each.program: each for each in failures() if each.program}
PROGRAMS = {path.stem: path.read_text() for path in DEFECTS.iterdir() if path.suffix == ".py"}
NEAR = 5e-6


def numbers_of(value: Any) -> list[float]:
    if isinstance(value, dict):
        value = [*value.values()]
    return (
        [each for part in value for each in numbers_of(part)]
        if isinstance(value, list)
        else [value]
    )


def report(name: str, statuses: dict[str, str]) -> Any:
    cases = [
        {
            "id": case,
            "file": case.rpartition("/")[0],
            "status": status,
            "reason": "",
            "first": {"position": 257},
            "mistake": {"name": "wrong-base"},
        }
        for case, status in statuses.items()
    ]
    about = {"name": name, "version": "1"}
    return {"suite": "0" * 12, "implementation": about, "cases": cases}


PRINTED = dict.fromkeys(PROGRAMS, "1.0 2.0\n")
MLX = report("mlx-lm", {"rope/yarn/1": "passes", "rope/yarn/2": "fails", "resize/1": "unsupported"})
OTHERS = [report(name, {}) for name in {each.of for each in failures()} - {"mlx-lm"}]


def test_matrix_counts_cases_and_explains_each_failure() -> None:
    written = section([MLX], OTHERS, PRINTED)

    assert "| rope/yarn (2) | 1, ✗ 1 |" in written
    row = re.search(r"\| mlx-lm 1 \| rope/yarn/2 \| 257 \| wrong-base \| (.*) \|", written)
    assert row
    assert row[1].startswith("A defect, shown below. The key `truncate` is ignored")
    assert "| resize" not in written
    assert "No adapter answers resize." in written


def test_adapters_of_one_library_are_one_column_and_a_failure_of_any_counts() -> None:
    first = {"rope/yarn/5": "fails", "rope/yarn/2": "passes", "resize/1": "unsupported"}
    second = {"rope/yarn/5": "passes", "rope/yarn/2": "fails", "resize/1": "passes"}
    reports = [report("mlx-lm", each) for each in (first, second)]

    written = section(reports, OTHERS, PRINTED)

    assert "| rope/yarn (2) | ✗ 2 |" in written
    assert "| resize (1) | 1 |" in written
    assert written.count("mlx-lm 1 |") == 3


def test_failure_that_nobody_explained_is_refused() -> None:
    unexplained = report("mlx-lm", {"rope/yarn/1": "fails"})

    with pytest.raises(ValueError, match="does not say why mlx-lm 1 fails rope/yarn/1"):
        section([unexplained], OTHERS, PRINTED)


def test_defect_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="mlx_lm_truncate: the library has the exact number"):
        section([MLX], OTHERS, {**PRINTED, "mlx_lm_truncate": "2.0 2.0\n"})


def test_page_has_the_section_between_its_markers_alone() -> None:
    text = PAGE.read_text("utf-8")

    assert page(page(text, "another"), WRITTEN.partition("\n<!--")[0].strip("\n") + "\n") == text
    assert page(text, "another").count("another\n") == 1 + text.count("another\n")


def test_page_was_written_from_a_released_suite_and_explains_all_that_fails() -> None:
    version = re.search(r"Suite ([0-9a-f]{12}), \d+ cases", WRITTEN)
    explained = {(each.of, case) for each in failures() for case in each.cases}
    rows = re.findall(r"^\| (.+) \S+ \| (\S+/\d+) \|", WRITTEN, re.MULTILINE)

    assert version
    assert version[1] in changes()
    assert {*rows} == explained
    assert len(rows) == sum(map(int, re.findall(r"✗ (\d+)", WRITTEN.partition("### What")[0])))


@pytest.mark.parametrize("name", PROGRAMS)
def test_defect_is_shown_by_a_few_lines_that_have_the_exact_number(name: str) -> None:
    defect, program = SHOWN[name], PROGRAMS[name]
    said = re.search(rf"```python\n{re.escape(program)}```\n\n```text\n(\S+) (\S+)\n```", WRITTEN)

    assert len([line for line in program.splitlines() if line]) <= 5
    assert said
    got, want = map(float, said.groups())
    exact = [each for case in defect.cases for each in numbers_of(CASES[case]["expected"])]
    assert min(abs(each - want) for each in exact) <= NEAR
    assert abs(got - want) > 1000 * NEAR


def test_every_program_is_that_of_a_failure() -> None:
    assert SHOWN.keys() == PROGRAMS.keys()


def test_adapters_whose_compiler_is_missing_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = str(tmp_path / "numpy" / "bin" / "python")
    monkeypatch.setattr(shutil, "which", lambda name: name if name == python else None)

    found, missing = run.commands(tmp_path)

    programs = {name for names in run.LIBRARIES.values() for name in names}
    assert found.keys() == {*programs, "numpy_float32"}
    assert missing == {
        "c_iterated": "cc",
        "go_float32": "go",
        "rust_float32": "rustc",
        "javascript_float64": "node",
        "JavaFloat32": "java",
    }


def test_every_library_runs_in_an_environment_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    found, _ = run.commands(tmp_path)
    required = {path.stem for path in (run.HERE.parents[1] / "requirements/adapters").glob("*.in")}

    for library, programs in run.LIBRARIES.items():
        for name in programs:
            assert found[name][0] == str(tmp_path / library / "bin" / "python")
    assert required == {*run.LIBRARIES, "numpy"}


def test_requirements_of_adapters_are_pinned_with_hashes_and_have_no_registry() -> None:
    folder = run.HERE.parents[1] / "requirements" / "adapters"
    sets = {path.stem: path.read_text() for path in folder.glob("*.txt")}

    assert sets.keys() == {path.stem for path in folder.glob("*.in")}
    for text in sets.values():
        lines = text.splitlines()
        pins = [line for line in lines if not line.startswith("    --hash=sha256:")]
        assert all(re.fullmatch(r"[a-z0-9-]+==\S+( ; .+)? \\", pin) for pin in pins)
        assert len(pins) < len(lines)
        assert "://" not in text


def test_a_run_that_is_refused_is_not_taken_for_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "commands", lambda *_: ({"numpy_float32": ["true"]}, {}))
    monkeypatch.setattr(sys, "argv", ["run", str(tmp_path)])
    before = tmp_path / "reports" / "numpy_float32.json"
    before.parent.mkdir()
    before.write_text("{}")
    # No file: the run is refused.
    before.with_suffix(".xml").mkdir()

    assert run.main() == 1
    assert not before.exists()


def test_run_with_skipped_adapters_says_so_and_keeps_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"numpy_float32": [sys.executable, str(run.HERE / "numpy_float32.py")]}
    monkeypatch.setattr(run, "commands", lambda *_: (found, {"go_float32": "go"}))
    monkeypatch.setattr(sys, "argv", ["run", str(tmp_path)])
    monkeypatch.setattr(run, "PAGE", tmp_path / "page.md")

    assert run.main() == 0

    said = capsys.readouterr().out
    assert (
        said == "skipped go_float32: no go\npage.md stays as it is, since adapters were skipped\n"
    )
    written = {path.name for path in (tmp_path / "reports").iterdir()}
    assert written == {"numpy_float32.json", "numpy_float32.xml"}
