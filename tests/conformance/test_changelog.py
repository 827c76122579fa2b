"""The files of the package: written by the service, complete, in a version that is explained."""

import re
from pathlib import Path

from service.analysis.explanation.catalogue import CATALOGUE
from service.conformance.release import VERSION, Release, changes
from service.conformance.suite import core
from tests.data.vectors import VECTORS

CHANGELOG = Path(__file__).parents[2] / "conformance" / "CHANGELOG.md"


def test_files_of_the_package_are_written_again_byte_for_byte() -> None:
    written = {name: text.encode() for name, text in core().items()}

    assert {path.name for path in VECTORS.iterdir()} == written.keys(), "run make conformance"
    moved = [name for name, body in written.items() if (VECTORS / name).read_bytes() != body]
    assert not moved, "run make conformance"


def test_every_mistake_of_a_diagnosis_is_a_flag_and_every_flag_is_such_a_mistake() -> None:
    cases = [each for content in Release.packaged().contents.values() for each in content["cases"]]
    flags = {flag["name"] for case in cases for flag in case["flags"]}

    assert flags == {name.partition("/")[0] for name in CATALOGUE}
    assert len(cases) >= 100
    assert sum(map(len, Release.packaged().listed.values())) <= 1_000_000


def test_the_version_is_the_first_of_the_changelog() -> None:
    version = Release.packaged().version

    assert next(iter(changes())) == version, (
        f"write a section {version} into conformance/CHANGELOG.md: which cases changed, and why"
    )


def test_every_version_says_which_cases_changed_and_why() -> None:
    sections = re.findall(r"^## (.*)$", CHANGELOG.read_text(), re.MULTILINE)

    assert sections == [*changes()]
    for version, text in changes().items():
        assert VERSION.fullmatch(version)
        assert re.search(r"\b([Ee]very case|[a-z0-9-]+(/[a-z0-9-]+)+)\b", text), version
        assert len(text.split()) >= 8, version


def test_version_moves_with_any_byte() -> None:
    texts = {"a.json": "{}\n", "b.json": "[]\n"}
    releases = [texts, {**texts, "a.json": "{ }\n"}, {"a.json": "{}\n", "c.json": "[]\n"}]

    assert len({Release.of(each).version for each in releases}) == 3
    assert Release.of(dict(reversed(texts.items()))).version == Release.of(texts).version
