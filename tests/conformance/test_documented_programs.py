"""The programs of docs/conformance.md, run as they stand on the files of the package."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.__main__ import main
from service.conformance.release import Release
from tests.conformance.by_hand import answers_of, share_of
from tests.system import debian

RELEASE = Release.packaged()
FILE = "rope_default.json"
PLAIN = [
    case
    for case in RELEASE.contents[FILE]["cases"]
    if {*case["parameters"]} == {"head_dim", "rope_theta"}
]
PAGE = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
PROGRAMS: dict[str, str] = dict(
    re.findall(r"```\w+\n(?://|#) (\S+\.\w+)\n(.*?)```", PAGE, re.DOTALL)
)
# The mistakes of each program: its base is a thousandth less, or its numbers are none.
WRONG = {
    "base": {"rope_theta **": "0.999 * rope_theta **", "math.Pow(base,": "math.Pow(0.999*base,"},
    "NaN": {"rope_theta **": "NaN * rope_theta **", "math.Pow(base,": "math.Pow(math.NaN(),"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / FILE).write_bytes(RELEASE.listed[FILE])
    return tmp_path


def run(folder: Path, name: str, *command: str, mistake: str = "") -> tuple[int, str]:
    text = PROGRAMS[name]
    for right, wrong in WRONG.get(mistake, {}).items():
        text = text.replace(right, wrong)
    (folder / name).write_text(text)
    ended = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)
    return ended.returncode, ended.stdout.decode()


def test_page_has_the_programs() -> None:
    assert PROGRAMS.keys() == {"rope_default.test.mjs", "rope_default_test.go", "adapter.py"}


def test_report_of_the_page_is_what_the_runner_prints(capfd: pytest.CaptureFixture[str]) -> None:
    shown = re.search(r"^    FAIL .*(?:\n      .*)+", PAGE, re.MULTILINE)
    assert shown
    engine = [sys.executable, "-m", "tests.conformance.engines.broken", "fixed-base"]

    assert main(["conformance", "run", "--only", "rope/default/3", "--", *engine]) == 1
    lines = [re.escape(line[4:]).replace("…", ".*") for line in shown[0].split("\n")]
    pattern = "\n(?:.*\n)*".join(lines)
    assert re.search(f"^{pattern}$", capfd.readouterr().out, re.MULTILINE)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_javascript_program_passes_and_fails(folder: Path) -> None:
    command = ("node", "--test", "--test-reporter=tap")

    code, said = run(folder, "rope_default.test.mjs", *command)
    assert (code, f"# pass {len(PLAIN)}\n" in said) == (0, True), said
    for mistake in WRONG:
        code, said = run(folder, "rope_default.test.mjs", *command, mistake=mistake)
        assert (code, f"# fail {len(PLAIN)}\n" in said) == (1, True), said


def test_adapter_passes_all_that_it_supports(folder: Path) -> None:
    (folder / "adapter.py").write_text(PROGRAMS["adapter.py"])
    cases = [case for content in RELEASE.contents.values() for case in content["cases"]]

    answered = {
        case["id"]: share_of(case, answer)
        for case, answer in answers_of([sys.executable, str(folder / "adapter.py")], cases)
        if answer["type"] == "answer"
    }

    assert answered.keys() == {case["id"] for case in PLAIN}
    assert max(answered.values()) <= 1
    lines = [line for line in PROGRAMS["adapter.py"].splitlines() if line.strip()]
    assert len(lines) <= 20


@pytest.mark.system
def test_go_program_passes_and_fails(folder: Path) -> None:
    debian.install(["golang-go"])
    (folder / "go.mod").write_text("module rope\n\ngo 1.19\n")

    assert run(folder, "rope_default_test.go", "go", "test", "./...")[0] == 0
    for mistake in WRONG:
        code, said = run(folder, "rope_default_test.go", "go", "test", "./...", mistake=mistake)
        assert code == 1
        assert all(case["id"] in said for case in PLAIN)
