"""Vector files that ``posref conformance run`` takes, and those that it refuses."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from service.__main__ import main
from service.conformance.recorded_cases import texts_of

CONVERSATION = Path(__file__).parent / "engines" / "conversation.py"


def suite_of(*cases: dict[str, Any], name: str = "own/bias") -> str:
    """Return a vector file of small cases, each with changes."""
    case = {
        "kind": "array",
        "comment": "",
        "resource": "/relative/alibi/slopes",
        "parameters": {"num_heads": 2},
        "expected": {"array": [0.0625, 0.00390625]},
        "shape": [2],
        "tolerance": {"angle": [0.0, 0.0], "scale": 1.0},
    }
    listed = [{"id": f"{name}/{n}", **case, **each} for n, each in enumerate(cases, 1)]
    content = {"suite": "posref-conformance", "format": 1, "name": name, "cases": listed}
    return json.dumps(content)


BAD_SUITES: dict[str, tuple[str, str]] = {
    "not JSON": ('{"cases" "flags"', "bad.json: is no vector file"),
    "another format": (
        '{"suite": "posref-conformance", "format": 2, "cases": [], "flags": {}}',
        "bad.json: has the format 2, not 1",
    ),
    "no cases": ("{}", "the suite has no cases"),
    "a case without a kind": (
        '{"suite": "posref-conformance", "format": 1, "name": "x", "flags": {}, "cases": [{}]}',
        "bad.json: is no vector file: KeyError('kind')",
    ),
    "a name for terminals": (suite_of({}, name="a\x1b[31m"), "is no text that can be printed"),
    "positions of no rows": (suite_of({"positions": [0, 1]}), "2 positions for the shape (2,)"),
    "two arrays": (
        suite_of({"expected": {"array": [1.0, 2.0], "other": [1.0, 2.0]}}),
        "expected has 2 arrays",
    ),
    "an array for terminals": (
        suite_of({"expected": {"a\x1b[31m": [1.0, 2.0]}}),
        "is no text that can be printed",
    ),
    "no array": (
        suite_of({"expected": {"array": [1.0], "other": [1.0]}}),
        "expected has 0 arrays",
    ),
    "two cases of one name": (
        suite_of({"id": "a/1"}, {"id": "a/1"}),
        "bad.json: the id a/1 is that of a case of bad.json",
    ),
}


BAD_CASES: dict[str, tuple[str, Any]] = {
    "expected of another shape": ("expected.cos", [1.0, 1.0]),
    "a tolerance of another shape": ("tolerance.angle", [[0.0]]),
    "a negative tolerance": ("tolerance.scale", -1.0),
    "no number": ("expected.sin.0", [None] * 4),
    "text in place of a number": ("expected.sin.0", ["1"] * 4),
    "parameters that are no object": ("parameters", []),
    "positions of other rows": ("positions", [0]),
    "an id for terminals": ("id", "a\x1b[31m"),
    "an id that is a number": ("id", 5),
    "a resource that is none": ("resource", ["/rope"]),
    "a resource for terminals": ("resource", "/rope\x1b[31m"),
    "a kind that is none": ("kind", 5),
    "positions that are no list": ("positions", "0123456789"),
    "a fraction of a position": ("positions.1", 1.5),
    "no position": ("positions.1", None),
}


@pytest.mark.parametrize("name", BAD_CASES)
def test_a_case_that_cannot_judge_is_refused(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, value = BAD_CASES[name]
    content = json.loads(texts_of(None)["rope_default.json"])
    *way, last = place.split(".")
    changed = content["cases"][0]
    for key in way:
        changed = changed[key]
    changed[int(last) if last.isdigit() else last] = value
    (tmp_path / "bad.json").write_text(json.dumps(content))

    assert main(["conformance", "run", "--suite", str(tmp_path), "--", "true"]) == 2
    assert "bad.json: is no vector file" in capfd.readouterr().err


def test_a_suite_that_is_a_pipe_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.json")

    assert main(["conformance", "run", "--suite", str(tmp_path), "--", "true"]) == 2
    assert "pipe.json: is no file" in capfd.readouterr().err


@pytest.mark.parametrize("name", BAD_SUITES)
def test_a_suite_that_is_none_is_refused(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content, told = BAD_SUITES[name]
    (tmp_path / "bad.json").write_text(content)

    assert main(["conformance", "run", "--suite", str(tmp_path), "--", "true"]) == 2
    assert told in capfd.readouterr().err


def test_two_cases_of_ones_own_with_one_name_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("one.json", "two.json"):
        (tmp_path / name).write_text(suite_of({}))

    assert main(["conformance", "run", "--suite", str(tmp_path), "--", "true"]) == 2
    told = "two.json: the id own/bias/1 is that of a case of one.json\n"
    assert capfd.readouterr().err == told


def test_a_resource_that_no_server_has_is_judged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(texts_of(None)["rope_default.json"])
    content["cases"] = [{**content["cases"][0], "resource": "/of/mine", "kind": "table"}]
    (tmp_path / "mine.json").write_text(json.dumps(content))
    script = "answering(pack='half_by_axis', arrays={'cos': [[1.0]], 'sin': [[0.0]]})"
    command = [sys.executable, str(CONVERSATION), script]

    assert main(["conformance", "run", "--suite", str(tmp_path), "--", *command]) == 1
    assert "and not that of pack=half_by_axis" in capfd.readouterr().out
