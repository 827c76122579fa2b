"""docs/encodings.md is complete, and its examples print the documented output."""

import re
from pathlib import Path

import pytest

from service.encodings.absolute.conventions import ALIASES, CONVENTIONS
from service.encodings.grid.grid_conventions import CONVENTIONS as GRIDS
from service.routes import COMPOSITIONS, RESOURCES
from tests.client import Client
from tests.consoles import Step, steps_of
from tests.curl import sent

PAGE = Path(__file__).parents[1] / "docs" / "encodings.md"
ENTRIES = dict(re.findall(r"^### (.+)\n((?:(?!^##).*\n)*)", PAGE.read_text(), flags=re.MULTILINE))


def test_every_convention_and_family_has_an_entry() -> None:
    lines = [f"`{name}`" for name in CONVENTIONS]
    grids = [f"`{name}`, of grids" for name in GRIDS]
    families = [
        f"`{resource.path}`"
        for resource in RESOURCES
        if resource.path.startswith("/relative/") or resource.path == "/encoding/timesteps"
    ]
    posted = [f"`POST {composition.path}`" for composition in COMPOSITIONS]

    assert {*lines, *grids, *families, *posted} <= {*ENTRIES}


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_has_source_and_trap(entry: str) -> None:
    text = ENTRIES[entry]

    for said in ("- **Library**: ", "- **Parameters**: ", "- **Trap**: ", "\n$ curl -s "):
        assert said in text, said


@pytest.mark.parametrize("name", ALIASES)
def test_every_alias_is_documented(name: str) -> None:
    assert f"`{name}`" in PAGE.read_text()


@pytest.mark.parametrize("step", steps_of(PAGE), ids=lambda step: step.command[:80])
def test_every_example_prints_the_documented_output(step: Step, client: Client) -> None:
    answer = sent(step.command, client)

    assert answer.status_code == 200, answer.text
    if " -o " in step.command:
        assert not step.output
    else:
        assert answer.text == step.output.rstrip("\n")
