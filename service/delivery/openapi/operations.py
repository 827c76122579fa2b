"""The OpenAPI document: the operations of each endpoint, and the components that they share."""

import json
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from service import errors
from service.delivery.endpoints import (
    Endpoint,
    EveryArray,
    JsonObject,
    NamedArrays,
    NoInput,
    ReportedArrays,
)
from service.delivery.negotiation import DIGEST_SUFFIX
from service.delivery.openapi.components import (
    COMPONENTS,
    EXAMPLES_OF_JSON_BODIES,
    HEADER_COMPONENTS,
    NOT_MODIFIED_HEADERS,
    PAGE_HEADERS,
    POST_HEADERS,
    RANGE_HEADERS,
    TABLE_HEADERS,
    UNCACHED_HEADERS,
    Json,
    object_schema,
    problem_responses,
    query_parameters,
    report_schema,
    shared_references,
    shared_responses,
)
from service.delivery.parameters import parse_query, read_parameters
from service.encodings.family import InputArray, Parameters
from service.formats import FORMATS
from service.formats.json_text import JSON
from service.numerics.positions import Positions
from service.numerics.tables import Document

_BINARY = {"type": "string", "format": "binary"}
_TEXT = {"type": "string"}
_BODY_ERRORS = (
    errors.InvalidParameters,
    errors.InvalidBody,
    errors.BodyTooLarge,
    errors.UnsupportedMediaType,
    errors.RequestTooLarge,
    errors.PosrefError,
)
_DOCUMENT_ERRORS = (
    errors.InvalidParameters,
    errors.UnsupportedByFormat,
    errors.NotAcceptable,
    errors.AnswerTooLarge,
    errors.RequestTooLarge,
    errors.PosrefError,
)
_GET_ERRORS = (
    *_DOCUMENT_ERRORS,
    errors.RevisionRetired,
    errors.PreconditionFailed,
    errors.RangeNotSatisfiable,
)
_POST_ERRORS = (*_DOCUMENT_ERRORS, *_BODY_ERRORS[1:4])
_PAGE_ERRORS = (errors.InvalidParameters, errors.PosrefError)

_RANGE = {
    "name": "Range",
    "in": "header",
    "required": False,
    "description": "One range of bytes of a binary format; a malformed range is ignored.",
    "schema": {"type": "string", "examples": ["bytes=128-1151"]},
}
_PART = {
    "description": "The requested range, or its first bytes.",
    "headers": RANGE_HEADERS,
    "content": {
        form.media_type: {"schema": _BINARY}
        for form in FORMATS.values()
        if not (form.is_text or form.is_drawn)
    },
}
_NOT_MODIFIED = {
    "description": "The client has this representation already (If-None-Match).",
    "headers": NOT_MODIFIED_HEADERS,
}
_CHECKSUM = {
    "type": "string",
    "description": "The SHA-256 of the file, as a line for sha256sum --check.",
    "pattern": "^[0-9a-f]{64}  [0-9a-z_]+[.][a-z]+\n$",
}
_KEY = {
    "type": "http",
    "scheme": "bearer",
    "description": "One of POSREF_API_KEYS, if the server has any; /livez and /readyz need none.",
}

_REALS = "float16, float32 or float64, in safetensors bfloat16, too"
_INTEGERS = "integers of any type, booleans, or real numbers that are integers"
_ANY_TYPE = "float16, float32, float64, complex64, complex128 or integers of any type"


@dataclass(frozen=True)
class _Example:
    """An endpoint with its example query and body."""

    endpoint: Endpoint

    @cached_property
    def query(self) -> dict[str, str]:
        return parse_query(self.endpoint.example.encode())

    @cached_property
    def parameters(self) -> Parameters:
        return read_parameters(self.endpoint.parameters, self.query)

    @cached_property
    def body(self) -> Json:
        """The example body of a POST, as JSON; for NoInput the parameters of the query."""
        inputs = self.endpoint.inputs
        if isinstance(inputs, NamedArrays):
            required = [array for array in inputs.inputs if array.is_required]
            return {array.name: array.example for array in required or inputs.inputs[:1]}
        if isinstance(inputs, EveryArray):
            return {"x": inputs.described.example}
        if isinstance(inputs, JsonObject | ReportedArrays):
            return dict(inputs.example)
        return {
            name: str(value) if isinstance(value, Positions) else value
            for name, value in self.parameters
            if name in self.parameters.model_fields_set
        }

    @cached_property
    def answer(self) -> Any:
        inputs = self.endpoint.inputs
        if isinstance(inputs, NoInput):
            return self.endpoint.answer(self.parameters)
        _, content = inputs.read(JSON, json.dumps(self.body).encode())
        arguments = inputs.arguments(self.parameters, content)
        return self.endpoint.answer(self.parameters, *arguments)


def get_operation(endpoint: Endpoint) -> Json:
    """Return the arguments of ``add_api_route`` that document a GET."""
    example = _Example(endpoint)
    parameters = query_parameters(endpoint.parameters, example.query)
    for parameter in parameters:
        if parameter["name"] == "revision":
            parameter["schema"]["maximum"] = example.answer.revision
    responses = {"200": _documents(example, TABLE_HEADERS), "206": _PART, "304": _NOT_MODIFIED}
    return _operation(
        f"get{endpoint.operation}",
        endpoint.summary,
        _tag(endpoint),
        responses | problem_responses(_GET_ERRORS),
        parameters=[*parameters, _RANGE],
    )


def post_operation(endpoint: Endpoint) -> Json:
    """Return the arguments of ``add_api_route`` that document a POST.

    The example has its parameters in the query, which is possible for bodies of any format.
    """
    example, is_table = _Example(endpoint), isinstance(endpoint.inputs, NoInput)
    is_json_only = isinstance(endpoint.inputs, NoInput | JsonObject)
    is_report = endpoint.report is not None
    response = _report(endpoint) if is_report else _documents(example, POST_HEADERS)
    listed = problem_responses(
        _BODY_ERRORS if is_report else _POST_ERRORS, EXAMPLES_OF_JSON_BODIES if is_json_only else {}
    )
    return _operation(
        f"post{endpoint.operation}",
        endpoint.summary + (", parameters in the body" if is_table else ""),
        _tag(endpoint),
        {"200": response} | listed,
        parameters=[] if is_table else query_parameters(endpoint.parameters, example.query),
        requestBody={"required": True, "content": _body(example)},
    )


def with_extension(endpoint: Endpoint, plain: Json) -> Json:
    """Return the documentation of an operation at its path with an extension."""
    described = deepcopy(plain)
    described["operation_id"] += "As"
    described["summary"] += ", in a format of choice"
    extra = described["openapi_extra"]
    place = len(extra["parameters"]) - (_RANGE in extra["parameters"])
    extra["parameters"].insert(place, _extension(_Example(endpoint).answer))
    extra["responses"]["200"]["content"]["text/plain"] = {"schema": _CHECKSUM}
    responses = extra["responses"] | problem_responses((errors.NotFound,))
    extra["responses"] = dict(sorted(responses.items()))
    return described


def _extension(document: Document) -> Json:
    forms = (FORMATS["npy"], *FORMATS.values())
    possible = next(form for form in forms if form.refusal(document) is None)
    return {
        "name": "extension",
        "in": "path",
        "required": True,
        "description": f"The format of the answer; with {DIGEST_SUFFIX}, its checksum alone.",
        "schema": {
            "type": "string",
            "enum": [name + end for end in ("", DIGEST_SUFFIX) for name in FORMATS],
        },
        "example": possible.extension,
    }


def page_operation(name: str, summary: str, media_type: str, schema: Mapping[str, Any]) -> Json:
    """Return the arguments of ``add_api_route`` that document a page without parameters."""
    content = {media_type: {"schema": dict(schema)}}
    shown = {"description": "Successful", "headers": PAGE_HEADERS, "content": content}
    return _operation(name, summary, "pages", {"200": shown} | problem_responses(_PAGE_ERRORS))


def _operation(name: str, summary: str, tag: str, responses: Json, **extra: Any) -> Json:
    """Return the arguments of ``add_api_route``, with the problems that all operations share."""
    listed = dict(sorted((responses | shared_references()).items()))
    return {
        "operation_id": name,
        "summary": summary,
        "openapi_extra": {"tags": [tag], **extra, "responses": listed},
        "response_description": responses["200"]["description"],
    }


def _tag(endpoint: Endpoint) -> str:
    return endpoint.path.split("/")[1]


def _documents(example: _Example, headers: Json) -> Json:
    """Return the OpenAPI response with arrays."""
    content: Json = {
        form.media_type: {"schema": _TEXT if form.is_text else _BINARY} for form in FORMATS.values()
    }
    content[JSON.media_type] = {
        "schema": {"$ref": "#/components/schemas/Document"},
        "example": json.loads(b"".join(JSON.body(example.answer).blocks())),
    }
    return {"description": "The arrays", "headers": headers, "content": content}


def _report(endpoint: Endpoint) -> Json:
    """Return the OpenAPI response with a report."""
    assert endpoint.report is not None
    name, description = endpoint.operation, endpoint.report.__doc__ or ""
    shown = {
        "schema": {"$ref": f"#/components/schemas/{name}"},
        "examples": {"report": {"$ref": f"#/components/examples/{name}"}},
    }
    return {
        "description": description.partition(".")[0],
        "headers": UNCACHED_HEADERS,
        "content": {JSON.media_type: shown},
    }


def _body(example: _Example) -> Json:
    """Return the OpenAPI content of a POST body, for every accepted format."""
    inputs = example.endpoint.inputs
    if isinstance(inputs, JsonObject):
        return {JSON.media_type: {"schema": {"type": "object"}, "example": example.body}}
    schema = object_schema(example.endpoint.parameters)
    arrays: Iterable[InputArray] = ()
    files: dict[str, str] = {}
    if isinstance(inputs, NoInput):
        schema["properties"]["revision"]["maximum"] = example.answer.revision
    elif isinstance(inputs, ReportedArrays):
        schema.pop("required", None)
        description = "An array of numbers, as deep as it has axes."
        arrays = [InputArray(name, description, (1, 2, 3, 4), None) for name in inputs.names]
        files = {
            "safetensors": f"Arrays by name ({', '.join(inputs.names)}): {_ANY_TYPE}.",
            "npy": f"One array: {_ANY_TYPE}.",
        }
    else:
        arrays, files = [EveryArray.described], _FILES_OF_VECTORS
        if isinstance(inputs, NamedArrays):
            arrays, files = inputs.inputs, _files(inputs)
        schema["required"] = [array.name for array in arrays if array.is_required]
    schema["properties"] = {array.name: _lists(array) for array in arrays} | schema["properties"]
    binary = {
        FORMATS[name].media_type: {"schema": {**_BINARY, "description": description}}
        for name, description in files.items()
    }
    return {JSON.media_type: {"schema": schema, "example": example.body}} | binary


_FILES_OF_VECTORS = {
    "npy": f"An array of vectors, positions and channels last: {_REALS}.",
    "safetensors": f"Such arrays; each is answered under its name: {_REALS}.",
}


def _files(inputs: NamedArrays) -> dict[str, str]:
    """Describe the content of binary files; npy holds one array without a name."""
    arrays = "; ".join(map(_described, inputs.inputs))
    files = {"safetensors": f"Tensors by name. {arrays}."}
    if len(inputs.inputs) == 1:
        files["safetensors"] = f"A tensor, under any name. {arrays}."
    if inputs.unnamed is not None:
        files["npy"] = f"One array. {_described(inputs.unnamed)}."
    elif inputs.choice is not None:
        files["npy"] = f"One array; {inputs.choice.parameter} says which. {arrays}."
    return files


def _described(array: InputArray) -> str:
    return f"{array.name}: {array.description} ({_INTEGERS if array.is_integer else _REALS})"


def _lists(array: InputArray) -> Json:
    """Return the schema of an array: nested lists, one level for each axis."""
    leaves = ["integer", "boolean"] if array.is_integer else ["number"]
    kinds = [_nested(rank, leaf) for rank in array.ranks for leaf in leaves]
    schema = kinds[0] if len(kinds) == 1 else {"type": "array", "anyOf": kinds}
    return {**schema, "description": array.description}


def _nested(rank: int, leaf: str) -> Json:
    schema: Json = {"type": leaf}
    for _ in range(rank):
        schema = {"type": "array", "minItems": 1, "items": schema}
    return schema


def complete_document(generate: Callable[[], Json], endpoints: Iterable[Endpoint]) -> Json:
    """Return the document that FastAPI generates with the components that it refers to.

    The examples of reports have null members, which FastAPI would leave out.
    """
    document = generate()
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(COMPONENTS)
    components["responses"] = shared_responses()
    components["headers"] = HEADER_COMPONENTS
    components["securitySchemes"] = {"key": _KEY}
    components["examples"] = {}
    for each in endpoints:
        if each.report is None:
            continue
        components["schemas"][each.operation] = report_schema(each.report)
        components["examples"][each.operation] = {"value": _Example(each).answer.content()}
    document["security"] = [{}, {"key": []}]
    return document
