"""The documentation of endpoints, made from what they are held to."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from service.delivery import problems
from service.delivery.parameters import Parameters, parse_query, read_parameters
from service.delivery.problem_responses import problem_responses
from service.delivery.problems import ProblemType
from service.delivery.resource import Resource, Transform
from service.formats import FORMATS
from service.formats.json_text import JSON
from service.tables.document import Document

Json = dict[str, Any]

_BINARY = {"type": "string", "format": "binary"}
_QUERY_PROBLEMS = (
    problems.INVALID_PARAMETERS,
    problems.UNSUPPORTED_BY_FORMAT,
    problems.NOT_ACCEPTABLE,
    problems.ANSWER_TOO_LARGE,
    problems.INTERNAL_ERROR,
)
_GET_PROBLEMS = (*_QUERY_PROBLEMS, problems.REVISION_RETIRED)
_POST_PROBLEMS = (
    *_QUERY_PROBLEMS,
    problems.INVALID_BODY,
    problems.BODY_TOO_LARGE,
    problems.UNSUPPORTED_MEDIA_TYPE,
)
_PAGE_PROBLEMS = (problems.INVALID_PARAMETERS, problems.INTERNAL_ERROR)

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
            "data": {"type": ["array", "object"]},
        },
    },
}


def get_operation(resource: Resource, suffix: str) -> Json:
    """Document a GET."""
    parameters = read_parameters(resource.parameters, parse_query(resource.example.encode()))
    example = _written(resource.resolve(parameters))
    return _operation(
        f"get{resource.operation}",
        resource.summary,
        suffix,
        {
            "parameters": _query_parameters(resource.parameters) + _path_parameters(suffix),
            "responses": {"200": _documents(example), "304": _NOT_MODIFIED}
            | _problems(_GET_PROBLEMS, suffix),
        },
    )


_NOT_MODIFIED = {"description": "What the client has, by If-None-Match, is what there is."}


def post_operation(resource: Resource, suffix: str) -> Json:
    """Document a POST of parameters."""
    query = parse_query(resource.example.encode())
    parameters = read_parameters(resource.parameters, query)
    content = {"schema": _object_schema(resource.parameters), "example": query}
    return _operation(
        f"post{resource.operation}",
        f"{resource.summary}, parameters in the body",
        suffix,
        {
            "parameters": _path_parameters(suffix),
            "requestBody": {"required": True, "content": {JSON.media_type: content}},
            "responses": {"200": _documents(_written(resource.resolve(parameters)))}
            | _problems(_POST_PROBLEMS, suffix),
        },
    )


def transform_operation(transform: Transform, suffix: str) -> Json:
    """Document a POST of arrays."""
    sent = {"x": [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]}
    query = parse_query(transform.example.encode())
    parameters = read_parameters(transform.parameters, query)
    received = JSON.read(json.dumps(sent).encode())
    content: Json = {
        JSON.media_type: {
            "schema": {
                "type": "object",
                "required": ["x"],
                "properties": {"x": {"type": "array"}}
                | _object_schema(transform.parameters)["properties"],
                "additionalProperties": False,
            },
            "example": sent | query,
        },
        FORMATS["npy"].media_type: {"schema": _BINARY},
        FORMATS["safetensors"].media_type: {"schema": _BINARY},
    }
    return _operation(
        f"post{transform.operation}",
        transform.summary,
        suffix,
        {
            "parameters": _query_parameters(transform.parameters) + _path_parameters(suffix),
            "requestBody": {"required": True, "content": content},
            "responses": {
                "200": _documents(_written(transform.resolve(parameters, received.arrays)))
            }
            | _problems(_POST_PROBLEMS, suffix),
        },
    )


def page_operation(
    operation: str, summary: str, media_type: str, schema: Mapping[str, Any]
) -> Json:
    """Document a page that takes no parameters."""
    content = {media_type: {"schema": dict(schema)}}
    responses = {"200": {"description": "Successful", "content": content}}
    extra = {"responses": responses | problem_responses(_PAGE_PROBLEMS)}
    return _operation(operation, summary, "", extra)


def _operation(operation: str, summary: str, suffix: str, extra: Json) -> Json:
    return {
        "operation_id": operation + ("As" if suffix else ""),
        "summary": summary + (", in a format of choice" if suffix else ""),
        "openapi_extra": extra,
        "response_description": extra["responses"]["200"]["description"],
    }


def _written(document: Document) -> Any:
    return json.loads(b"".join(JSON.body(document).blocks()))


def _documents(example: Any) -> Json:
    formats: Json = {form.media_type: {"schema": _BINARY} for form in FORMATS.values()}
    formats[JSON.media_type] = {
        "schema": {"$ref": "#/components/schemas/Document"},
        "example": example,
    }
    return {"description": "The arrays", "content": formats}


def _problems(listed: tuple[ProblemType, ...], suffix: str) -> Json:
    """Document problems; an extension may be none that exists."""
    return problem_responses((*listed, problems.NOT_FOUND) if suffix else listed)


def _path_parameters(suffix: str) -> list[Json]:
    if not suffix:
        return []
    return [
        {
            "name": "extension",
            "in": "path",
            "required": True,
            "description": "The format of the answer.",
            "schema": {"type": "string", "enum": list(FORMATS)},
            "example": "npy",
        }
    ]


def _query_parameters(model: type[Parameters]) -> list[Json]:
    schema = _object_schema(model)
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": described.pop("description"),
            "example": described.pop("examples")[0],
            "schema": described,
        }
        for name, described in schema["properties"].items()
    ]


def _object_schema(model: type[Parameters]) -> Json:
    schema = model.model_json_schema()
    schema["properties"] = {
        name: _without_null(described) for name, described in schema["properties"].items()
    }
    for name in ("title", "description"):
        schema.pop(name, None)
    return schema


def _without_null(schema: Json) -> Json:
    """Take the null out of an optional parameter: one that is not given is left out."""
    choices: list[Json] = schema.pop("anyOf", [])
    merged = {**schema, **next((choice for choice in choices if choice != {"type": "null"}), {})}
    merged.pop("title", None)
    if merged.get("default", 0) is None:
        merged.pop("default")
    return merged


def served_document(generate: Callable[[], Json]) -> Json:
    """Complete the document that the framework generates with the components it refers to."""
    document = generate()
    document.setdefault("components", {}).setdefault("schemas", {}).update(COMPONENTS)
    return document
