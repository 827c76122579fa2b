"""The documentation of endpoints, made from what they are held to.

The documentation of endpoints that arrays are sent to.

The documentation of examinations: arrays in any format that is read, a report as JSON.

The documentation of endpoints beside the tables: pages, and reports about an object.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from service.delivery import problems
from service.delivery.negotiation import DIGEST_SUFFIX
from service.delivery.openapi.components import (
    COMPONENTS,
    HEADER_COMPONENTS,
    NEVER_KEPT,
    OF_JSON_BODIES,
    OF_NOT_MODIFIED,
    OF_PAGE,
    OF_PART,
    OF_POSTED,
    OF_WHOLE,
    Json,
    object_schema,
    problem_responses,
    query_parameters,
    shared_references,
    shared_responses,
)
from service.delivery.parameters import Model, parse_query, read_parameters
from service.delivery.problems import ProblemType
from service.delivery.resources import Composition, Examination, Report, Resource, Transform
from service.encodings.family import InputArray
from service.encodings.fields import Parameters
from service.errors import PosrefError
from service.formats import FORMATS
from service.formats.format import MAX_RANK
from service.formats.json_text import JSON
from service.grammar import to_query
from service.numerics.document import Document
from service.numerics.positions import Positions

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
                query_parameters(resource.parameters, query), document.revision
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


def _held_to_revision(parameters: list[Json], current: int) -> list[Json]:
    """Say of the parameter revision which is the current one."""
    for parameter in parameters:
        if parameter["name"] == "revision":
            parameter["schema"]["maximum"] = current
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
    schema["properties"]["revision"]["maximum"] = document.revision
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


_VECTORS = [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
_OF_VECTORS = InputArray(
    "x", "vectors, positions and channels last", tuple(range(2, MAX_RANK + 1)), _VECTORS
)


def posted_operation(posted: Transform | Composition, suffix: str) -> Json:
    """Document a POST of arrays.

    The parameters of the example are those of the query, where a body in any format has them.
    """
    described, required, sent = _arrays(posted)
    parameters = read_example(posted.parameters, posted.example)
    received = JSON.read(json.dumps(sent).encode(), posted.names)
    document = posted.resolve(parameters, received)
    schema = object_schema(posted.parameters)
    schema["properties"] = described | schema["properties"]
    schema["required"] = required
    content: Json = {
        JSON.media_type: {"schema": schema, "example": sent},
        **{
            FORMATS[name].media_type: {"schema": {**BINARY, "description": held}}
            for name, held in _held(posted).items()
        },
    }
    return operation(
        f"post{posted.operation}",
        posted.summary,
        suffix,
        {
            "tags": [tag_of(posted.path)],
            "parameters": query_parameters(posted.parameters, parse_query(posted.example.encode()))
            + path_parameters(suffix, document),
            "requestBody": {"required": True, "content": content},
            "responses": {"200": documents(written(document), suffix, OF_POSTED)}
            | problems_of(POST_PROBLEMS, suffix),
        },
    )


def _arrays(posted: Transform | Composition) -> tuple[Json, list[str], dict[str, Any]]:
    """Give the schema of each array, the names of those that have to be there, and an example."""
    if isinstance(posted, Transform):
        return {"x": lists(_OF_VECTORS)}, ["x"], {"x": _VECTORS}
    described: Json = {known.name: lists(known) for known in posted.inputs}
    required = [known.name for known in posted.inputs if known.is_required]
    sent = {known.name: known.example for known in posted.inputs if known.name in required}
    first = posted.inputs[0]
    return described, required, sent or {first.name: first.example}


def lists(known: InputArray) -> Json:
    """Give the schema of an array: lists in lists, as deep as it has axes."""
    leaves = ["integer", "boolean"] if known.is_integer else ["number"]
    kinds = [_nested(rank, leaf) for rank in known.ranks for leaf in leaves]
    said = kinds[0] if len(kinds) == 1 else {"type": "array", "anyOf": kinds}
    return {**said, "description": known.description}


def _nested(rank: int, leaf: str) -> Json:
    schema: Json = {"type": leaf}
    for _ in range(rank):
        schema = {"type": "array", "minItems": 1, "items": schema}
    return schema


_REALS = "float16, float32 or float64, in safetensors bfloat16, too"
_INTEGERS = "integers of any type, booleans, or real numbers that are integers"
_OF_TRANSFORMS = {
    "npy": f"An array of vectors, positions and channels last: {_REALS}.",
    "safetensors": f"Such arrays, each of which is answered under its name: {_REALS}.",
}


def _held(posted: Transform | Composition) -> dict[str, str]:
    """Say by binary format what its files hold; npy has one array, which is left without a name."""
    if isinstance(posted, Transform):
        return _OF_TRANSFORMS
    arrays = "; ".join(map(_described, posted.inputs))
    alone = posted.alone
    held = {"safetensors": f"Tensors by name. {arrays}."}
    if len(posted.inputs) == 1:
        held["safetensors"] = f"A tensor, under any name. {arrays}."
    if alone is not None:
        held["npy"] = f"One array. {_described(alone)}."
    elif posted.choice is not None:
        held["npy"] = f"One array, of which {posted.choice.parameter} says what it is. {arrays}."
    return held


def _described(known: InputArray) -> str:
    return f"{known.name}: {known.description} ({_INTEGERS if known.is_integer else _REALS})"


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
    query = {name: to_query(value) for name, value in example.items()}
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


_REPORT_PROBLEMS = (
    problems.INVALID_PARAMETERS,
    problems.INVALID_BODY,
    problems.BODY_TOO_LARGE,
    problems.UNSUPPORTED_MEDIA_TYPE,
    problems.INTERNAL_ERROR,
)
_PAGE_PROBLEMS = (problems.INVALID_PARAMETERS, problems.INTERNAL_ERROR)


def page_operation(name: str, summary: str, media_type: str, schema: Mapping[str, Any]) -> Json:
    """Document a page that takes no parameters."""
    content = {media_type: {"schema": dict(schema)}}
    shown = {"description": "Successful", "headers": OF_PAGE, "content": content}
    extra: Json = {
        "tags": ["pages"],
        "responses": {"200": shown} | problem_responses(_PAGE_PROBLEMS),
    }
    return operation(name, summary, "", extra)


def report_operation(report: Report) -> Json:
    """Document a POST of an object that something is said about."""
    example = report.report(report.parameters(), report.example)
    schema = {"$ref": f"#/components/schemas/{report.operation}"}
    said = {"schema": schema, "example": example}
    return operation(
        f"post{report.operation}",
        report.summary,
        "",
        {
            "tags": [tag_of(report.path)],
            "parameters": query_parameters(report.parameters, {}),
            "requestBody": {
                "required": True,
                "content": {
                    JSON.media_type: {"schema": {"type": "object"}, "example": report.example}
                },
            },
            "responses": {
                "200": {
                    "description": report.says,
                    "headers": NEVER_KEPT,
                    "content": {JSON.media_type: said},
                }
            }
            | problem_responses(_REPORT_PROBLEMS, OF_JSON_BODIES),
        },
    )


def report_schemas(reports: Iterable[Report | Examination]) -> Json:
    """Give the schemas that the documentation of reports and examinations refers to, by name."""
    return {report.operation: dict(report.schema) for report in reports}
