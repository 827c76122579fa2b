"""The documentation of endpoints, made from what they are held to."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from service import TABLE_REVISION
from service.delivery import problems
from service.delivery.negotiation import DIGEST_SUFFIX
from service.delivery.openapi_headers import (
    HEADER_COMPONENTS,
    OF_NOT_MODIFIED,
    OF_PART,
    OF_POSTED,
    OF_WHOLE,
)
from service.delivery.openapi_schemas import COMPONENTS, Json, object_schema, query_parameters
from service.delivery.parameters import Model, Parameters, parse_query, read_parameters
from service.delivery.problem_responses import (
    OF_JSON_BODIES,
    problem_responses,
    shared_references,
    shared_responses,
)
from service.delivery.problems import ProblemType
from service.delivery.resource import Resource
from service.errors import PosrefError
from service.formats import FORMATS
from service.formats.json_text import JSON
from service.tables.document import Document
from service.tables.positions import Positions

BINARY = {"type": "string", "format": "binary"}
_TEXT = {"type": "string"}
_CHECKSUM = {
    "type": "string",
    "description": "The line of a digest, as sha256sum --check reads it.",
    "pattern": "^[0-9a-f]{64}  [0-9a-z_]+[.][a-z]+\n$",
}
_QUERY_PROBLEMS = (
    problems.INVALID_PARAMETERS,
    problems.UNSUPPORTED_BY_FORMAT,
    problems.NOT_ACCEPTABLE,
    problems.ANSWER_TOO_LARGE,
    problems.INTERNAL_ERROR,
)
_GET_PROBLEMS = (
    *_QUERY_PROBLEMS,
    problems.REVISION_RETIRED,
    problems.PRECONDITION_FAILED,
    problems.RANGE_NOT_SATISFIABLE,
)
POST_PROBLEMS = (
    *_QUERY_PROBLEMS,
    problems.INVALID_BODY,
    problems.BODY_TOO_LARGE,
    problems.UNSUPPORTED_MEDIA_TYPE,
)


def get_operation(resource: Resource, suffix: str) -> Json:
    """Document a GET."""
    query, _, document = _exampled(resource)
    return operation(
        f"get{resource.operation}",
        resource.summary,
        suffix,
        {
            "tags": [tag_of(resource.path)],
            "parameters": _held_to_revision(
                query_parameters(resource.parameters, query), document.kind
            )
            + path_parameters(suffix, document)
            + [_RANGE],
            "responses": {
                "200": documents(written(document), suffix, OF_WHOLE),
                "206": _PART,
                "304": _NOT_MODIFIED,
            }
            | problems_of(_GET_PROBLEMS, suffix),
        },
    )


def _held_to_revision(parameters: list[Json], kind: str) -> list[Json]:
    """Say of the parameter revision which is the current one."""
    for parameter in parameters:
        if parameter["name"] == "revision":
            parameter["schema"]["maximum"] = TABLE_REVISION[kind]
    return parameters


_RANGE = {
    "name": "Range",
    "in": "header",
    "required": False,
    "description": "One range of bytes of a binary format; what is none is passed over.",
    "schema": {"type": "string", "examples": ["bytes=128-1151"]},
}
_PART = {
    "description": "The bytes that Range asks for, or the first of them.",
    "headers": OF_PART,
    "content": {
        form.media_type: {"schema": BINARY}
        for form in FORMATS.values()
        if not (form.is_text or form.is_drawn)
    },
}
_NOT_MODIFIED = {
    "description": "What the client has, by If-None-Match, is what there is.",
    "headers": OF_NOT_MODIFIED,
}


def post_operation(resource: Resource, suffix: str) -> Json:
    """Document a POST of parameters."""
    _, typed, document = _exampled(resource)
    schema = object_schema(resource.parameters)
    schema["properties"]["revision"]["maximum"] = TABLE_REVISION[document.kind]
    content = {"schema": schema, "example": typed}
    return operation(
        f"post{resource.operation}",
        f"{resource.summary}, parameters in the body",
        suffix,
        {
            "tags": [tag_of(resource.path)],
            "parameters": path_parameters(suffix, document),
            "requestBody": {"required": True, "content": {JSON.media_type: content}},
            "responses": {"200": documents(written(document), suffix, OF_POSTED)}
            | problems_of(POST_PROBLEMS, suffix, OF_JSON_BODIES),
        },
    )


def _exampled(resource: Resource) -> tuple[dict[str, str], Json, Document]:
    """Give the example of a resource: as a query, as values of their types, and its document."""
    query = parse_query(resource.example.encode())
    parameters = read_example(resource.parameters, resource.example)
    return query, typed(parameters), resource.resolve(parameters)


def read_example(model: type[Model], example: str) -> Model:
    """Read the example query of something that is documented."""
    return read_parameters(model, parse_query(example.encode()))


def typed(parameters: Parameters) -> Json:
    """Give parameters that were set as JSON values; positions as their text."""
    return {
        name: str(value) if isinstance(value, Positions) else value
        for name, value in parameters
        if name in parameters.model_fields_set
    }


def tag_of(path: str) -> str:
    """Name the group of a path."""
    return path.split("/")[1]


def operation(name: str, summary: str, suffix: str, extra: Json) -> Json:
    """Say what a framework documents an endpoint by; any may meet the problems that all share."""
    extra["responses"] = dict(sorted((extra["responses"] | shared_references()).items()))
    return {
        "operation_id": name + ("As" if suffix else ""),
        "summary": summary + (", in a format of choice" if suffix else ""),
        "openapi_extra": extra,
        "response_description": extra["responses"]["200"]["description"],
    }


def written(document: Document) -> Any:
    """Give the JSON of an example."""
    return json.loads(b"".join(JSON.body(document).blocks()))


def documents(example: Any, suffix: str, headers: Json) -> Json:
    """Document an answer that holds arrays, or where there is an extension their digest."""
    formats: Json = {
        form.media_type: {"schema": _TEXT if form.is_text else BINARY} for form in FORMATS.values()
    }
    formats[JSON.media_type] = {
        "schema": {"$ref": "#/components/schemas/Document"},
        "example": example,
    }
    if suffix:
        formats["text/plain"] = {"schema": _CHECKSUM}
    return {"description": "The arrays", "headers": headers, "content": formats}


def problems_of(
    listed: tuple[ProblemType, ...],
    suffix: str,
    examples: Mapping[ProblemType, PosrefError] | None = None,
) -> Json:
    """Document problems; an extension may be none that exists."""
    return problem_responses((*listed, problems.NOT_FOUND) if suffix else listed, examples)


def path_parameters(suffix: str, document: Document) -> list[Json]:
    """Document the extension, where the path has one."""
    if not suffix:
        return []
    return [
        {
            "name": "extension",
            "in": "path",
            "required": True,
            "description": f"The format of the answer, or of what {DIGEST_SUFFIX} digests.",
            "schema": {
                "type": "string",
                "enum": [name + end for end in ("", DIGEST_SUFFIX) for name in FORMATS],
            },
            "example": _possible_extension(document),
        }
    ]


def _possible_extension(document: Document) -> str:
    """Name a format that can hold the example, npy if it can."""
    forms = (FORMATS["npy"], *FORMATS.values())
    return next(form.extension for form in forms if form.refusal(document) is None)


def served_document(generate: Callable[[], Json], schemas: Mapping[str, Any]) -> Json:
    """Complete the document that the framework generates with the components it refers to.

    Args:
        generate: makes the document.
        schemas: further components, by name.
    """
    document = generate()
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update({**COMPONENTS, **schemas})
    components["responses"] = shared_responses()
    components["headers"] = HEADER_COMPONENTS
    components["securitySchemes"] = {"key": _KEY}
    document["security"] = [{}, {"key": []}]
    return document


_KEY = {
    "type": "http",
    "scheme": "bearer",
    "description": "One of POSREF_API_KEYS, where the server has any; the probes need none.",
}
