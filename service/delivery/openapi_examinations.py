"""The documentation of examinations: arrays in any format that is read, a report as JSON."""

import json
from collections.abc import Iterable
from typing import Any

from service.delivery import problems
from service.delivery.composition import InputArray
from service.delivery.examinations import Examination
from service.delivery.openapi import BINARY, operation, tag_of
from service.delivery.openapi_arrays import lists
from service.delivery.openapi_headers import NEVER_KEPT
from service.delivery.openapi_schemas import Json, object_schema, query_parameters
from service.delivery.parameters import read_parameters
from service.delivery.problem_responses import problem_responses
from service.formats import FORMATS
from service.formats.json_text import JSON
from service.grammar import spelled

_PROBLEMS = (
    problems.INVALID_PARAMETERS,
    problems.INVALID_BODY,
    problems.BODY_TOO_LARGE,
    problems.UNSUPPORTED_MEDIA_TYPE,
    problems.INTERNAL_ERROR,
)
_RANKS = (1, 2, 3, 4)
_TYPES = "float16, float32, float64, complex64, complex128 or integers of any type"


def examination_operation(examination: Examination) -> Json:
    """Document a POST of arrays that something is said about.

    The parameters of the example are those of the query, where a body in any format has them.
    """
    names, example = examination.names, dict(examination.example)
    sent = {name: example.pop(name) for name in names if name in example}
    schema = object_schema(examination.parameters)
    schema["properties"] = {name: _array(name) for name in names} | schema["properties"]
    schema.pop("required", None)
    described = ", ".join(names)
    content: Json = {
        JSON.media_type: {"schema": schema, "example": sent},
        FORMATS["safetensors"].media_type: {
            "schema": {**BINARY, "description": f"Arrays by name ({described}): {_TYPES}."}
        },
        FORMATS["npy"].media_type: {"schema": {**BINARY, "description": f"One array: {_TYPES}."}},
    }
    said = {
        "schema": {"$ref": f"#/components/schemas/{examination.operation}"},
        "examples": {"report": {"$ref": f"#/components/examples/{examination.operation}"}},
    }
    query = {name: spelled(value) for name, value in example.items()}
    return operation(
        f"post{examination.operation}",
        examination.summary,
        "",
        {
            "tags": [tag_of(examination.path)],
            "parameters": query_parameters(examination.parameters, query),
            "requestBody": {"required": True, "content": content},
            "responses": {
                "200": {
                    "description": examination.says,
                    "headers": NEVER_KEPT,
                    "content": {JSON.media_type: said},
                }
            }
            | problem_responses(_PROBLEMS),
        },
    )


def with_examples(document: Json, examinations: Iterable[Examination]) -> Json:
    """Complete a document with the reports that it refers to.

    They have members that are null, which the framework leaves out of what it generates.
    """
    examples = {known.operation: {"value": _report(known)} for known in examinations}
    document["components"]["examples"] = examples
    return document


def _array(name: str) -> Any:
    return lists(InputArray(name, "An array of numbers, as deep as it has axes.", _RANKS, None))


def _report(examination: Examination) -> Any:
    """Examine the example."""
    content = JSON.read(json.dumps(examination.example).encode(), examination.names)
    parameters = read_parameters(examination.parameters, content.parameters)
    return dict(examination.examine(parameters, content))
