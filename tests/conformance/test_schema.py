"""The schema of vector files: every file is valid, and what is not one is not."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import jsonschema
import orjson
import pytest

from service.conformance.release import SCHEMA, Release

RELEASE = Release.packaged()
VALIDATOR = jsonschema.Draft202012Validator(orjson.loads(RELEASE.listed[SCHEMA]))


def test_schema_is_a_schema() -> None:
    VALIDATOR.check_schema(VALIDATOR.schema)


@pytest.mark.parametrize("name", RELEASE.contents)
def test_every_vector_file_is_valid(name: str) -> None:
    VALIDATOR.validate(RELEASE.contents[name])


def _both(case: Any) -> None:
    case["flags"][0] |= {"times": 9.0, "shape": True}


INVALID: dict[str, Callable[[Any], object]] = {
    "another key": lambda case: case.update(note=""),
    "another kind": lambda case: case.update(kind="tables"),
    "no request": lambda case: case.pop("request"),
    "no resource": lambda case: case.pop("resource"),
    "the address of a request": lambda case: case.update(url="/rope"),
    "a body of a GET": lambda case: case["request"].update(body={}),
    "a POST without a body": lambda case: case["request"].update(method="POST"),
    "a flag that is nearly seen": lambda case: case["flags"][0].update(times=7.9),
    "a flag by size and by shape": _both,
    "a flag without a size": lambda case: case["flags"][0].pop("times"),
    "no cosines": lambda case: case["expected"].pop("cos"),
    "text for a number": lambda case: case["expected"]["cos"][0].append("1"),
    "half a tolerance": lambda case: case["tolerance"].pop("scale"),
    "a tolerance of integers and of numbers": lambda case: case["tolerance"].update(exact=True),
    "a position between others": lambda case: case["positions"].append(0.5),
    "an identifier without a number": lambda case: case.update(id="rope/default"),
}


@pytest.mark.parametrize("change", INVALID.values(), ids=INVALID)
def test_a_case_with_a_defect_is_not_valid(change: Callable[[Any], object]) -> None:
    content = deepcopy(RELEASE.contents["rope_default.json"])
    change(content["cases"][0])

    assert not VALIDATOR.is_valid(content)


def test_flags_of_cases_are_those_of_their_file() -> None:
    for name, content in RELEASE.contents.items():
        named = {flag["name"] for case in content["cases"] for flag in case["flags"]}
        assert named == {*content["flags"]}, name


def test_identifiers_count_the_cases_of_a_file() -> None:
    for content in RELEASE.contents.values():
        numbers = range(1, len(content["cases"]) + 1)
        assert [case["id"] for case in content["cases"]] == [
            f"{content['name']}/{number}" for number in numbers
        ]
