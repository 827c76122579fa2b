"""Reports: pydantic models from which both the JSON of an answer and its schema follow."""

from math import isfinite
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

ABSENT: Any = None
"""The default of a field that is left out of the JSON unless it is given."""


class Report(BaseModel):
    """Base of reports and of their parts; fields that are not given are left out of the JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def json_bytes(self) -> bytes:
        """Return the JSON of the report."""
        return orjson.dumps(self.content())

    def content(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return self.model_dump(exclude_unset=True)


Count = Annotated[int, Field(ge=0)]
# Integers stay integers in the JSON.
Number = int | float


def _finite(number: float | None) -> float | None:
    return number if number is not None and isfinite(number) else None


FiniteOrNull = Annotated[
    float | None,
    BeforeValidator(_finite),
    Field(description="Null where it is infinite or undefined."),
]


def report_schema(model: type[Report]) -> dict[str, Any]:
    """Return the JSON schema of a report, without references and in OpenAPI's short style."""
    schema = model.model_json_schema(mode="serialization")
    definitions = schema.pop("$defs", {})
    simplified: dict[str, Any] = _simplified(schema, definitions)
    return simplified


_OMITTED = (("default", None), ("additionalProperties", True))


def _simplified(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_simplified(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        own = {name: value for name, value in schema.items() if name != "$ref"}
        target = {name: value for name, value in target.items() if name != "description"}
        return _simplified(target | own, definitions)
    simple = {
        name: {key: _simplified(each, definitions) for key, each in value.items()}
        if name == "properties"
        else _simplified(value, definitions)
        for name, value in schema.items()
        if name != "title" and (name, value) not in _OMITTED
    }
    return _merged_choices(simple)


def _merged_choices(schema: dict[str, Any]) -> dict[str, Any]:
    """Return ``anyOf`` as a list of types, where at most one choice says more than its type."""
    choices = schema.get("anyOf")
    if choices is None or not all(isinstance(each.get("type"), str | list) for each in choices):
        return schema
    detailed = [each for each in choices if set(each) != {"type"}]
    if len(detailed) > 1:
        return schema
    types: list[str] = []
    for choice in choices:
        listed = choice["type"]
        types += [listed] if isinstance(listed, str) else listed
    if "number" in types:
        types = [each for each in types if each != "integer"]
    merged = {**(detailed[0] if detailed else {}), **schema}
    del merged["anyOf"]
    return {**merged, "type": types[0] if len(types) == 1 else types}
