"""Adapters without a library, judged by the vector files alone."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from service.conformance.release import Release
from tests.conformance.by_hand import ADAPTERS, answers_of, share_of

CASES = [
    case
    for content in Release.packaged().contents.values()
    for case in content["cases"]
    if case["kind"] in {"table", "rotate"} and case["resource"] in {"/rope", "/rope/apply"}
]
OF_A_BASE = {"head_dim", "rope_theta"}
MOST_LINES = 40


def judged(command: Sequence[str]) -> dict[str, float]:
    """Return the share of what is allowed, by case; nothing but support may be refused."""
    shares = {}
    for case, answer in answers_of(command, CASES):
        assert answer["type"] in {"answer", "unsupported"}, answer
        if answer["type"] == "answer":
            shares[case["id"]] = share_of(case, answer)
        else:
            assert answer["reason"]
    return shares


def of_a_base() -> list[Any]:
    return [
        case for case in CASES if case["kind"] == "table" and {*case["parameters"]} == OF_A_BASE
    ]


def test_numpy_float32_passes_all_that_it_supports() -> None:
    shares = judged([sys.executable, str(ADAPTERS / "numpy_float32.py")])

    assert {case["id"] for case in of_a_base()} <= shares.keys()
    assert 0.1 < max(shares.values()) <= 1


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_javascript_float64_passes_all_that_it_supports() -> None:
    shares = judged(["node", str(ADAPTERS / "javascript_float64.mjs")])

    assert {case["id"] for case in of_a_base()} <= shares.keys()
    assert max(shares.values()) <= 1


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_frequencies_multiplied_on_and_on_fail_where_there_are_many(tmp_path: Path) -> None:
    program = tmp_path / "c_iterated"
    source = str(ADAPTERS / "c_iterated.c")
    subprocess.run(["cc", "-O2", "-ffp-contract=off", "-o", program, source, "-lm"], check=True)

    shares = judged([str(program)])

    assert {case["id"] for case in of_a_base()} <= shares.keys()
    wide = {
        case["id"]
        for case in of_a_base()
        if case["parameters"] == {"head_dim": 128, "rope_theta": 10000.0}
    }
    assert {name for name, share in shares.items() if share > 1} == wide
    assert all(share < 2 for share in shares.values())


@pytest.mark.parametrize(
    "adapter",
    [each for each in sorted(ADAPTERS.iterdir()) if each.is_file() and each.name != "loop.py"],
    ids=lambda path: path.name,
)
def test_adapter_is_short(adapter: Path) -> None:
    lines = [line for line in adapter.read_text().splitlines() if line.strip()]

    assert len(lines) <= MOST_LINES


def test_every_adapter_is_run_and_listed() -> None:
    programs = {each.name for each in ADAPTERS.iterdir() if each.is_file()} - {"loop.py"}
    commands = (ADAPTERS.parent / "run.py").read_text()
    listed = (ADAPTERS.parent / "README.md").read_text()

    assert len(programs) >= 20
    assert [name for name in programs if Path(name).stem not in commands] == []
    assert [name for name in programs if f"](adapters/{name})" not in listed] == []


def test_loop_answers_null_for_what_is_not_finite_and_keeps_standard_output(tmp_path: Path) -> None:
    program = tmp_path / "adapter.py"
    program.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(ADAPTERS)!r})\n"
        "from loop import serve\n"
        "print('a library greets')\n"
        "def answer(case):\n"
        "    print('and works')\n"
        "    if case['kind'] == 'table':\n"
        "        return {'dtype': 'float32', 'arrays': {'cos': [[float('nan'), 1.0]]}}\n"
        "    raise ValueError('x')\n"
        "serve('test', '1', answer)\n"
    )
    asked = [{"id": "1", "kind": "table"}, {"id": "2", "kind": "rotate"}]

    (_, first), (_, second) = answers_of([sys.executable, str(program)], asked)

    assert first["arrays"] == {"cos": [[None, 1.0]]}
    assert second == {"type": "error", "message": repr(ValueError("x"))}
    assert json.dumps(first)
