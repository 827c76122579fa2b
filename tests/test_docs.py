"""The documents are complete."""

import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
from annotated_types import Ge, Le
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from service.analysis.explanation.catalogue import CATALOGUE
from service.delivery.endpoints import Endpoint, NamedArrays
from service.delivery.position_arrays import ignored
from service.delivery.problems import TYPES
from service.formats import FORMATS
from service.routes import COMPOSITIONS, REPORTS
from service.settings import Settings
from tests.consoles import files_of, steps_of

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_every_problem_is_documented_with_its_status() -> None:
    text = (ROOT / "docs/problems.md").read_text()

    for problem in TYPES.values():
        assert f"\n## {problem.name}\n\n{problem.status}. " in text
    ours, _, of_the_edge = text.partition("\n## At the edge\n")
    assert ours.count("\n## ") == len(TYPES.values())
    named = re.findall(r"^### (\S+)\n\n(\d+)\. ", of_the_edge, re.MULTILINE)
    assert dict(named) == {
        "too-many-requests": "429",
        "bad-gateway": "502",
        "gateway-timeout": "504",
    }


UNITS = {
    "port": "number",
    "workers": "processes",
    "threads": "threads",
    "max_connections": "connections",
}
"""The units of numeric settings whose names do not end with one."""


def unit_of(name: str) -> str:
    unit = name.rpartition("_")[2]
    return unit if unit in {"bytes", "seconds"} else UNITS.get(name, "–")


DEFAULTS_OF_THE_MACHINE = {
    "threads": "number of cores but one",
    "memory_bytes": "four fifths of the limit, see below",
}


def default_of(name: str, field: FieldInfo) -> str:
    if field.default_factory:
        return DEFAULTS_OF_THE_MACHINE[name]
    if isinstance(field.default, SecretStr) or field.default == "":
        return "none"
    return str(field.default).lower() if isinstance(field.default, bool) else str(field.default)


NETWORKS = "addresses and networks, with commas between"


def bounds_of(name: str, field: FieldInfo) -> str:
    """Describe the bounds of a setting."""
    if name == "trusted_proxies":
        return NETWORKS
    if get_origin(field.annotation) is Literal:
        *others, last = get_args(field.annotation)
        return f"{', '.join(others)} or {last}"
    if field.annotation is bool:
        return "true or false"
    if field.annotation is SecretStr:
        return "keys of 16 to 256 characters, with commas between"
    least = [f"at least {rule.ge}" for rule in field.metadata if isinstance(rule, Ge)]
    most = [f"at most {rule.le}" for rule in field.metadata if isinstance(rule, Le)]
    return ", ".join(least + most) or "any"


def test_every_setting_is_documented_with_unit_default_and_bounds() -> None:
    text = (ROOT / "docs/settings.md").read_text()

    rows = [line for line in text.splitlines() if line.startswith("| `POSREF_")]
    assert rows == [
        f"| `POSREF_{name.upper()}` | {unit_of(name)} | {default_of(name, field)} "
        f"| {bounds_of(name, field)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]


def test_every_format_is_documented() -> None:
    text = (ROOT / "docs/tables.md").read_text()

    for name in FORMATS:
        assert f"| `{name}` |" in text


def test_every_array_that_is_not_used_beside_positions_is_documented() -> None:
    text = (ROOT / "docs/positions.md").read_text().partition("beside\nit are not used")[2]

    assert [name for name in ignored() if f"`{name}`" not in text] == []


def test_every_input_array_is_documented() -> None:
    text = (ROOT / "docs/tables.md").read_text()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `/")]

    for composition in COMPOSITIONS.values():
        inputs = composition.inputs
        assert isinstance(inputs, NamedArrays)
        ((_, arrays, alone),) = [row for row in rows if f"`{composition.path}`" in row[0]]
        for known in inputs.inputs:
            assert f"`{known.name}`" in arrays
        of_integers = any(known.is_integer for known in inputs.inputs)
        assert of_integers == ("integers" in arrays)
        expected = f"`{inputs.unnamed.name}`" if inputs.unnamed else "nothing"
        if inputs.choice is not None:
            expected = f"`{inputs.choice.parameter}="
        assert expected in alone


def _required(endpoint: Endpoint) -> list[str]:
    assert endpoint.report is not None
    return [name for name, field in endpoint.report.model_fields.items() if field.is_required()]


@pytest.mark.parametrize(
    "examination", [*REPORTS.values()][3:], ids=lambda examination: examination.path
)
def test_every_examination_is_documented_with_parameters_and_outcomes(
    examination: Endpoint,
) -> None:
    text = (ROOT / "docs/http.md").read_text()
    _, _, passage = text.partition("\n## Reports about an array\n")
    passage, _, _ = passage.partition("\n## ")

    assert f"`POST {examination.path}`" in passage
    for name in [*examination.parameters.model_fields, *_required(examination)]:
        assert re.search(rf"\b{name}\b", passage), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_linked_document_exists(document: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_readme_begins_with_make_serve_and_make_test() -> None:
    first = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    assert first is not None
    assert first[1] == "make serve\nmake test\n"


def test_readme_runs_curl_and_the_installed_programs_alone() -> None:
    steps = steps_of(ROOT / "README.md")

    assert len(steps) >= 6
    assert all(step.command.startswith(("curl ", ".venv/bin/")) for step in steps)


def test_every_mistake_code_is_documented() -> None:
    rows = (ROOT / "docs/debugging.md").read_text().splitlines()

    sentences = {
        name: re.sub(r"{\w+}", "…", known.sentence)
        for name, known in CATALOGUE.items()
        if "/" not in name
    }
    assert {f"| `{name}` | {sentence} |" for name, sentence in sentences.items()} <= {*rows}


def test_files_shown_by_a_page_are_extracted() -> None:
    assert {"config.json", "engine.py", "old.py"} <= {*files_of(ROOT / "docs/debugging.md")}
