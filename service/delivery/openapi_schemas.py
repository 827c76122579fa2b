"""The schemas of documentation: of answers, and of the models that parameters are held to."""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from service.delivery import problems
from service.delivery.parameters import Parameters

Json = dict[str, Any]

COMPONENTS: Json = {
    "Problem": {
        "type": "object",
        "description": "A problem document (RFC 9457).",
        "required": ["type", "title", "status", "detail", "errors"],
        "properties": {
            "type": {"type": "string", "enum": [problem.uri for problem in problems.PROBLEM_TYPES]},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["value", "detail"],
                    "properties": {
                        "parameter": {"type": "string"},
                        "pointer": {"type": "string"},
                        "value": {"type": ["string", "null"]},
                        "detail": {"type": "string"},
                    },
                },
            },
        },
    },
    "Document": {
        "type": "object",
        "description": "Arrays with everything that fixes their numbers.",
        "required": ["kind", "parameters", "shape", "dtype", "data"],
        "properties": {
            "kind": {"type": "string"},
            "parameters": {"type": "object"},
            "shape": {"type": ["array", "object"]},
            "dtype": {"type": ["string", "object"]},
            "error_bound": {"type": "number"},
            "axes": {"type": "array", "items": {"type": "string"}},
            "data": {"type": ["array", "number", "object"]},
        },
    },
}


def query_parameters(model: type[Parameters], example: Mapping[str, str]) -> list[Json]:
    """Document parameters of a query.

    Only those of the example have an example of their own, which documentation fills in: sent all
    together they would exclude each other. The others' examples are in their schemas.
    """
    schema = object_schema(model)
    parameters: list[Json] = []
    for name, described in schema["properties"].items():
        parameter: Json = {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": described.pop("description"),
            "schema": _as_text(described),
        }
        if name in example:
            parameter["example"] = example[name]
        parameters.append(parameter)
    return parameters


def _as_text(schema: Json) -> Json:
    """Narrow the schema of what may be text or a list to the text that it is in a query."""
    types = schema.get("type")
    if not isinstance(types, list):
        return schema
    return {
        name: "string" if name == "type" else value
        for name, value in schema.items()
        if name not in {"items", "minItems", "maxItems"}
    }


def object_schema(model: type[Parameters]) -> Json:
    """Document parameters of a JSON object."""
    schema = deepcopy(_schema(model))
    schema["properties"] = {
        name: _without_null(described) for name, described in schema["properties"].items()
    }
    for name in ("title", "description"):
        schema.pop(name, None)
    return schema


@cache
def _schema(model: type[Parameters]) -> Json:
    return model.model_json_schema()


def _without_null(schema: Json) -> Json:
    """Take the null out of an optional parameter: one that is not given is left out."""
    choices: list[Json] = schema.pop("anyOf", [])
    merged = {**schema, **next((choice for choice in choices if choice != {"type": "null"}), {})}
    merged.pop("title", None)
    if merged.get("default", 0) is None:
        merged.pop("default")
    return {_JSON_SCHEMA_NAMES.get(name, name): value for name, value in merged.items()}


# The bounds of an optional parameter are left under pydantic's own names, those of lists that may
# be text under the names of bounds of text.
_JSON_SCHEMA_NAMES = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "max_length": "maxItems",
    "maxLength": "maxItems",
    "min_length": "minItems",
    "minLength": "minItems",
    "multiple_of": "multipleOf",
}
