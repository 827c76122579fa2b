"""Reports: their JSON and their schema."""

import json
from typing import Literal

import jsonschema
import pytest
from pydantic import Field

from service.delivery.endpoints import ABSENT, Count, FiniteOrNull, Number, Report
from service.delivery.openapi.components import report_schema


class Part(Report):
    """A part."""

    error: FiniteOrNull
    place: Number | None


class Whole(Report):
    """A whole."""

    kind: Literal["a", "b"]
    worst: Part | None = Field(description="The worst part.")
    parts: list[Part]
    count: Count = ABSENT


WHOLE = Whole(kind="a", worst=None, parts=[Part(error=float("nan"), place=3)])


def test_absent_fields_are_left_out_and_null_fields_are_sent() -> None:
    assert json.loads(WHOLE.json_bytes()) == {
        "kind": "a",
        "worst": None,
        "parts": [{"error": None, "place": 3}],
    }


def test_schema_has_types_in_place_of_choices_and_no_references() -> None:
    schema = report_schema(Whole)
    part = schema["properties"]["parts"]["items"]

    assert schema["required"] == ["kind", "worst", "parts"]
    assert part["properties"]["error"]["type"] == part["properties"]["place"]["type"]
    assert part["properties"]["place"]["type"] == ["number", "null"]
    worst = {**part, "type": ["object", "null"], "description": "The worst part."}
    assert schema["properties"]["worst"] == worst
    assert schema["properties"]["count"] == {"type": "integer", "minimum": 0}


@pytest.mark.parametrize("broken", [{"kind": "c"}, {"more": 1}, {"parts": [{}]}, {"count": -1}])
def test_schema_accepts_the_report_and_nothing_else(broken: dict[str, object]) -> None:
    schema, content = report_schema(Whole), WHOLE.content()

    jsonschema.validate(content, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content | broken, schema)
