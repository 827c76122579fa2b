"""Components of the OpenAPI document: schemas, headers, and problems with examples."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from service import errors
from service.delivery import problems
from service.delivery.endpoints import Report
from service.delivery.negotiation import unknown_format
from service.encodings.family import Parameters
from service.errors import Fault
from service.formats import FORMATS
from service.numerics.dtypes import COMPLEX64, COMPLEX128, INDEX_DTYPES, REAL_DTYPES

Json = dict[str, Any]
ErrorType = type[errors.PosrefError]

COMPONENTS: Json = {
    "Problem": {
        "type": "object",
        "description": "A problem document (RFC 9457).",
        "required": ["type", "title", "status", "detail", "errors"],
        "properties": {
            "type": {
                "type": "string",
                "enum": [problem.uri for problem in problems.TYPES.values()],
            },
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
    """Return the OpenAPI parameters of a query.

    Only parameters in ``example`` get an OpenAPI ``example``, which documentation pages fill in:
    other parameters may exclude each other. Every schema has its own examples.
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
    """Return the schema of a parameter in a query, where lists are text."""
    types = schema.get("type")
    if not isinstance(types, list):
        return schema
    return {
        name: "string" if name == "type" else value
        for name, value in schema.items()
        if name not in {"items", "minItems", "maxItems"}
    }


def object_schema(model: type[Parameters]) -> Json:
    """Return the schema of a JSON object of parameters."""
    schema = deepcopy(_schema(model))
    # The revision, which few requests have, comes last.
    names = sorted(schema["properties"], key=lambda name: name == "revision")
    schema["properties"] = {name: _without_null(schema["properties"][name]) for name in names}
    for name in ("title", "description"):
        schema.pop(name, None)
    return schema


@cache
def _schema(model: type[Parameters]) -> Json:
    return model.model_json_schema()


def _without_null(schema: Json) -> Json:
    """Return the schema of an optional parameter without null: it is left out instead."""
    choices: list[Json] = schema.pop("anyOf", [])
    merged = {**schema, **next((choice for choice in choices if choice != {"type": "null"}), {})}
    merged.pop("title", None)
    if merged.get("default", 0) is None:
        merged.pop("default")
    return {_JSON_SCHEMA_NAMES.get(name, name): value for name, value in merged.items()}


# pydantic leaves the bounds of optional parameters under its own names, and those of lists that may
# be text under the names for text.
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
    """Replace ``anyOf`` with a list of types, if at most one choice has more than a type."""
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


def _header(description: str, *, required: bool = False, **schema: Any) -> Json:
    described = {"type": "string", **schema}
    return {"description": description, "required": required, "schema": described}


HEADER_COMPONENTS: Json = {
    "Accept-Ranges": _header("Whether ranges can be requested.", enum=["bytes"]),
    "Array-Axes": _header("The names of the axes, where they have names.", minLength=1),
    "Array-Dtype": _header(
        "The type of the elements, unless it differs between arrays.",
        enum=[*REAL_DTYPES, *INDEX_DTYPES, COMPLEX64.name, COMPLEX128.name],
    ),
    "Array-Error-Bound": _header(
        "The largest error of the numbers, where they are not rounded once.",
        type="number",
        minimum=0,
    ),
    "Array-Shape": _header(
        "The lengths of the axes, unless they differ between arrays.",
        pattern="^([0-9]+(, [0-9]+)*)?$",
    ),
    "Cache-Control": _header(
        "How long the response may be cached.",
        required=True,
        pattern=r"^(public|private), max-age=(86400|31536000, immutable)$",
    ),
    "Content-Disposition": _header(
        "The name to save the file under.",
        required=True,
        pattern='^inline; filename="[0-9a-z_]+[.][a-z0-9.]+"$',
    ),
    "Content-Location": _header("The URL of the format that Accept selected.", minLength=1),
    "Content-Range": _header(
        "The range, and the length of the whole body.",
        required=True,
        pattern="^bytes ([0-9]+-[0-9]+|[*])/[0-9]+$",
    ),
    "ETag": _header(
        "Entity tag of this representation.", required=True, pattern='^(W/)?"[0-9a-f]{32}"$'
    ),
    "Link": _header("The other formats that can hold the table.", minLength=1),
    "No-Store": _header("The response is not cached.", required=True, enum=["no-store"]),
    "Repr-Digest": _header(
        "The SHA-256 of the whole body (RFC 9530), where it is known in advance.",
        pattern="^sha-256=:[0-9A-Za-z+/]{43}=:$",
    ),
    "Retry-After": _header(
        "Seconds to wait before the next attempt.", required=True, type="integer", minimum=1
    ),
    "Table-Revision": _header(
        "The revision of this kind of table.", required=True, type="integer", minimum=1
    ),
    "Vary": _header("The request headers that selected the representation.", minLength=1),
    "X-Request-Id": _header(
        "The identifier of the request: the one it was sent with, if that is valid, or a new one.",
        required=True,
        pattern="^[A-Za-z0-9._-]{1,128}$",
    ),
    "WWW-Authenticate": _header("How to send a key.", required=True, pattern="^Bearer "),
}

_ARRAY_HEADERS = ("Table-Revision", "Array-Shape", "Array-Dtype", "Array-Axes", "Array-Error-Bound")
_FILE_HEADERS = ("ETag", "Cache-Control", "Content-Disposition", "Content-Location", "Link", "Vary")
_BODY_HEADERS = ("Accept-Ranges", "Repr-Digest")


def _named(name: str, component: str | None = None) -> Json:
    """Return a header entry that refers to a shared component."""
    return {name: {"$ref": f"#/components/headers/{component or name}"}}


def _headers(*names: str) -> Json:
    return {known: each for name in names for known, each in _named(name).items()}


PAGE_HEADERS = _named("X-Request-Id")
UNCACHED_HEADERS = {**PAGE_HEADERS, **_named("Cache-Control", "No-Store")}
"""The headers of reports and of problems."""

POST_HEADERS = {**UNCACHED_HEADERS, **_headers(*_ARRAY_HEADERS, "Vary")}
NOT_MODIFIED_HEADERS = {**PAGE_HEADERS, **_headers(*_FILE_HEADERS, *_ARRAY_HEADERS)}
TABLE_HEADERS = {**NOT_MODIFIED_HEADERS, **_headers(*_BODY_HEADERS)}
RANGE_HEADERS = {**TABLE_HEADERS, **_named("Content-Range")}

_BY_STATUS = {"401": "WWW-Authenticate", "416": "Content-Range", "503": "Retry-After"}


def problem_headers(status: str) -> Json:
    """Return the headers of a problem response with this status code."""
    special = _BY_STATUS.get(status)
    return {**UNCACHED_HEADERS, **(_named(special) if special else {})}


_MISSPELLED = Fault("dmodel", "512", "dmodel is not a parameter here; did you mean d_model?")
_NO_BFLOAT16 = (
    "npy cannot hold this answer: NumPy has no bfloat16; "
    "these formats can: json, safetensors, bin, csv, png"
)


def _by_type(*examples: errors.PosrefError) -> Mapping[ErrorType, errors.PosrefError]:
    return {type(example): example for example in examples}


_EXAMPLES = _by_type(
    errors.InvalidParameters(_MISSPELLED),
    errors.UnsupportedByFormat(_NO_BFLOAT16, [Fault("extension", "npy", _NO_BFLOAT16)]),
    errors.InvalidBody("NaN is not JSON: only npy and safetensors have it", value="NaN"),
    unknown_format("np"),
    errors.NotAcceptable(
        "Accept allows none of the possible formats: "
        + ", ".join(form.media_type for form in FORMATS.values())
        + "; an extension names one without it"
    ),
    errors.PreconditionFailed(
        'If-Match does not name the current tag: "0015c94d9bb60ccc7ae9b72a9bffe638", '
        'the current one is "a489eb6064ad81b7235f2498d6d1fb07"'
    ),
    errors.RangeNotSatisfiable(192),
    errors.RevisionRetired("revision 1 of encoding is no longer served; the current one is 2"),
    errors.AnswerTooLarge(
        "the answer may take up to 8589934873 bytes and the limit is 134217728 "
        "(POSREF_MAX_TEXT_BYTES): request npy or safetensors, or a smaller table"
    ),
    errors.BodyTooLarge("the body is longer than 67108864 bytes (POSREF_MAX_BODY_BYTES)"),
    errors.RequestTooLarge(
        "the request needs more than 60 seconds of a processor (POSREF_MAX_REQUEST_SECONDS): "
        "request a smaller table, or send smaller arrays"
    ),
    errors.UnsupportedMediaType(
        "Content-Type is text/plain: send application/x-npy or "
        "application/vnd.safetensors or application/json"
    ),
    problems.FAILURE,
    errors.MalformedRequest("the bytes are not an HTTP request"),
    errors.Unauthorized(
        "The server needs an API key, and the request has no valid one: "
        "send one in the header Authorization: Bearer KEY"
    ),
    errors.RequestTimeout(
        "the body of the request took longer than 120 s to arrive (POSREF_BODY_SECONDS)"
    ),
    errors.URLTooLong(
        "the URL is longer than 65535 bytes (POSREF_MAX_URL_BYTES): "
        "send long lists in the body of a POST"
    ),
    errors.HeadersTooLarge(
        "the request line and headers are longer than 131072 bytes (POSREF_MAX_HEAD_BYTES)"
    ),
    errors.Overloaded("child work would not begin within 15 seconds (POSREF_WAIT_SECONDS)"),
    errors.NotReady("this process is about to end: send requests to another"),
)

EXAMPLES_OF_JSON_BODIES = _by_type(
    errors.InvalidBody("the body must be a JSON object"),
    errors.BodyTooLarge("the body is longer than 4194304 bytes (POSREF_MAX_JSON_BODY_BYTES)"),
    errors.UnsupportedMediaType("Content-Type is text/plain: send application/json"),
)
"""Examples for endpoints whose body is a JSON object."""

_OF_ANY_REQUEST = (
    errors.MalformedRequest,
    errors.Unauthorized,
    errors.RequestTimeout,
    errors.URLTooLong,
    errors.HeadersTooLarge,
    errors.Overloaded,
    errors.NotReady,
)


def shared_responses() -> Json:
    """Return the response components of the problems that can occur before routing."""
    responses = problem_responses(_OF_ANY_REQUEST)
    return {name: responses[status] for status, name in _component_names().items()}


def shared_references() -> Json:
    """Return references to the components of ``shared_responses``, by status code."""
    names = _component_names()
    return {status: {"$ref": f"#/components/responses/{name}"} for status, name in names.items()}


def _component_names() -> dict[str, str]:
    """Return the name of each component, by status: the title of its first problem."""
    shared = [problems.TYPES[error] for error in reversed(_OF_ANY_REQUEST)]
    return {str(problem.status): problem.title.replace(" ", "") for problem in shared}


def problem_responses(
    listed: Iterable[ErrorType], examples: Mapping[ErrorType, errors.PosrefError] | None = None
) -> Json:
    """Return the OpenAPI responses of errors, by status; problems with one status share a response.

    Args:
        listed: the error classes.
        examples: example errors that replace the default examples.
    """
    shown = {**_EXAMPLES, **(examples or {})}
    responses: Json = {}
    for error in listed:
        problem = problems.TYPES[error]
        schema = {"$ref": "#/components/schemas/Problem"}
        new: Json = {
            "description": problem.title,
            "headers": problem_headers(str(problem.status)),
            "content": {problems.MEDIA_TYPE: {"schema": schema, "examples": {}}},
        }
        response = responses.setdefault(str(problem.status), new)
        if response["description"] != problem.title:
            response["description"] += f"; {problem.title.lower()}"
        example = {"value": problems.problem_of(shown[error])}
        response["content"][problems.MEDIA_TYPE]["examples"][problem.name] = example
    return dict(sorted(responses.items()))
