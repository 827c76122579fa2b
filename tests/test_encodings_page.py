"""docs/encodings.md is what its generator writes, and has an entry for everything registered."""

import re

import pytest

from service.encodings.absolute.conventions import ALIASES
from service.encodings.absolute.conventions import CONVENTIONS as SINUSOIDS
from service.encodings.grid.grid_conventions import CONVENTIONS as GRIDS
from service.encodings.registry import FAMILIES
from service.encodings.rotary.angles import CONSUMERS, PACKS
from service.encodings.rotary.axial_conventions import CONVENTIONS as AXIALS
from service.encodings.rotary.rules import ROPE_TYPES
from tests.data.encodings_page import PAGE, heading_of, heading_of_grid, write_page

TEXT = PAGE.read_text()
ENTRIES = dict(re.findall(r"^##+ (.+)\n((?:(?!^##).*\n)*)", TEXT, flags=re.MULTILINE))
DOCUMENTED = [
    *map(heading_of, FAMILIES.values()),
    *(f"`/encoding?convention={name}`" for name in SINUSOIDS),
    *(heading_of_grid(name, known) for name, grids in GRIDS.items() for known in grids),
    *(f"`/rope?rope_type={name}`" for name in ROPE_TYPES),
    *(f"`/rope/axial?convention={name}`" for name in AXIALS),
]


def test_page_is_what_make_docs_writes() -> None:
    assert write_page() == TEXT


@pytest.mark.parametrize("heading", DOCUMENTED)
def test_every_family_convention_and_rule_has_an_entry(heading: str) -> None:
    for part in ("- **Formula**: ", "- **Source**: ", "\n$ curl -s "):
        assert part in ENTRIES[heading]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.path)
def test_every_family_has_a_trap(family: type) -> None:
    assert "- **Trap**: " in ENTRIES[heading_of(family)]


@pytest.mark.parametrize("name", [*ALIASES, *PACKS, *CONSUMERS])
def test_every_alias_pack_and_consumer_is_documented(name: str) -> None:
    text = TEXT if name in ALIASES else ENTRIES["`/rope?pack=…`"]

    assert f"`{name}`" in text
