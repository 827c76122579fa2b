"""Components of the OpenAPI document: schemas, parameters, headers, and problems with examples.

Generators of clients set the rules: each component has a name, every number has a format, and no
schema has a choice of types, except with null. Where the service takes several types (a list or its
text, for instance), the schema has no type.

This module is long because it contains all components.
"""

import re
from collections.abc import Container, Iterable, Mapping
from functools import cache, partial
from itertools import chain, count
from math import inf
from string import ascii_uppercase
from types import MappingProxyType
from typing import Any

from pydantic.json_schema import models_json_schema

from service import errors
from service.delivery import problems
from service.delivery.endpoints import Report
from service.delivery.negotiation import unknown_path
from service.encodings.family import Parameters, TableFamily
from service.errors import Fault
from service.formats import FORMATS
from service.numerics.dtypes import COMPLEX64, COMPLEX128, INDEX_DTYPES, REAL_DTYPES

Json = dict[str, Any]
ErrorType = type[errors.PosrefError]

_SCHEMAS = "#/components/schemas/"
DOCUMENT, CONFIG, BINARY, ELEMENTS, POSITIONS, TEXT, ANSWER, PROBLEM = (
    f"{_SCHEMAS}{name}"
    for name in (
        *("Document", "Config", "Binary", "Elements", "PositionFile", "PlainText", "TextReport"),
        "Problem",
    )
)
_TEXT: Json = {"type": "string"}
_LISTS: Json = {"type": "array", "items": {}}
_PARAMETERS = "All parameters that determine the numbers, defaults included."
_ERROR = "The largest error of the numbers, where they are not rounded once."
_FURTHER = ("additionalProperties", True)
_SHAPE: Json = {"type": "array", "items": {"type": "integer", "format": "int64", "minimum": 1}}


def _by_name(schema: Json) -> Json:
    return {"type": "object", "additionalProperties": schema}


def _arrays(kind: str, description: str, own: Json, *required: str) -> Json:
    """Return the schema of one array or of several, as the property ``type`` tells."""
    # With an enumeration in place of a pattern, clients in Rust do not find the type.
    shared = {
        "kind": {**_TEXT, "description": "The path of its URL, with hyphens for slashes."},
        "type": {"type": "string", "pattern": f"^{kind}$"},
        "parameters": {"type": "object", "additionalProperties": True, "description": _PARAMETERS},
        "layout": {**_TEXT, "description": "The order of the channels, where there are pairs."},
        "pack": {**_TEXT, "description": "The packing of cosines and sines in a rotary table."},
        "shape": {**_SHAPE, "description": "The lengths of the axes."},
        "dtype": {**_TEXT, "description": "The type of the elements, such as float32."},
        "error_bound": {"type": "number", "format": "double", "minimum": 0, "description": _ERROR},
        "axes": {"type": "array", "items": _TEXT, "description": "The names of the axes."},
        "warnings": {"type": "array", "items": {"$ref": f"{_SCHEMAS}Caution"}},
    }
    return {
        "type": "object",
        "description": description,
        "required": ["kind", "type", "parameters", *required, *own],
        "properties": {**shared, **own},
    }


_SEVERAL = {"shapes": _by_name(_SHAPE), "dtypes": _by_name(_TEXT), "data": _by_name(_LISTS)}
# Clients in Python take the first schema whose required properties are there.
_KINDS = {
    "tables": _arrays("tables", "Arrays by name; shape and dtype if all share them.", _SEVERAL),
    "table": _arrays("table", "One array, as nested lists.", {"data": _LISTS}, "shape", "dtype"),
}
_ARRAYS = {kind: f"{_SCHEMAS}{kind.capitalize()}" for kind in _KINDS}

SCHEMAS: Json = {
    "Document": {
        "description": "Arrays with everything that determines their numbers.",
        "oneOf": [{"$ref": reference} for reference in _ARRAYS.values()],
        "discriminator": {"propertyName": "type", "mapping": _ARRAYS},
    },
    **{kind.capitalize(): schema for kind, schema in _KINDS.items()},
    "Caution": {
        "type": "object",
        "description": "What a client should know of the numbers.",
        "required": ["code", "detail"],
        "properties": {"code": _TEXT, "detail": _TEXT},
    },
    "NumberList": {"description": "A list: an array, its text as in a query, or its only item."},
    "FlatShape": {"description": "The lengths of the axes of an array that is a flat list."},
    "Config": {"type": "object", "additionalProperties": True, "description": "A config.json."},
    "Binary": {"type": "string", "format": "binary"},
    "PositionFile": {
        "type": "string",
        "format": "binary",
        "description": "An array of positions: (S), (B, S), or with axes first; in safetensors it "
        "is positions or position_ids. The query has the other parameters, as for a file.",
    },
    "Elements": {
        "type": "string",
        "format": "binary",
        "description": "The elements of one array, little-endian and in C order; the query has its "
        "shape and type.",
    },
    "PlainText": _TEXT,
    "TextReport": {
        **_TEXT,
        "description": "The answer as the first line; on the others, the main values: "
        "`name: value`.",
    },
    "Fault": {
        "type": "object",
        "description": "What is wrong with a parameter, or with the place of a pointer in a body.",
        "required": ["value", "detail"],
        "properties": {
            "parameter": _TEXT,
            "pointer": _TEXT,
            "value": {"anyOf": [_TEXT, {"type": "null"}]},
            "detail": _TEXT,
            "suggestion": {**_TEXT, "description": "What is likely meant."},
            "url": {**_TEXT, "description": "The repaired GET."},
        },
    },
    "Problem": {
        "type": "object",
        "description": "A problem document (RFC 9457).",
        "required": ["type", "title", "status", "detail", "errors"],
        "properties": {
            "type": {"type": "string", "format": "uri", "pattern": "^urn:posref:problem:[a-z-]+$"},
            "title": _TEXT,
            "status": {"type": "integer", "format": "int64"},
            "detail": _TEXT,
            "errors": {"type": "array", "items": {"$ref": f"{_SCHEMAS}Fault"}},
        },
    },
}


class Components:
    """The components of a document; each is stored once, under a name of its section."""

    def __init__(self) -> None:
        self.sections: dict[str, Json] = {
            "schemas": {**SCHEMAS},
            "headers": {**HEADER_COMPONENTS},
        }

    def ref(self, section: str, content: Json, *names: str) -> Json:
        """Return a reference to a component, stored under the first name that no other has.

        After the names come numbers: clients have types of the names of schemas alone.
        """
        known = self.sections.setdefault(section, {})
        every = chain(names, (f"{names[0]}{number}" for number in count(2)))
        name = next(name for name in every if known.setdefault(name, content) == content)
        return {"$ref": f"#/components/{section}/{name}"}

    def problems(self, listed: Iterable[ErrorType], *, is_json_only: bool = False) -> Json:
        """Return references to the responses of errors and of those of any request, by status.

        Problems with one status share a response; is_json_only says that a body can only be JSON.
        """
        shown = {**_EXAMPLES, **(_EXAMPLES_OF_JSON_BODIES if is_json_only else {})}
        responses: Json = {}
        for error in dict.fromkeys((*listed, *_OF_ANY_REQUEST)):
            problem = problems.TYPES[error]
            new: Json = {
                "description": problem.title,
                "headers": problem_headers(str(problem.status)),
                "content": {problems.MEDIA_TYPE: {"schema": {"$ref": PROBLEM}, "examples": {}}},
            }
            response = responses.setdefault(str(problem.status), new)
            if response["description"] != problem.title:
                response["description"] += f"; {problem.title.lower()}"
            example = {"value": problems.problem_of(shown[error])}
            name = pascal(problem.name)
            shared = self.ref("examples", example, name, f"{name}OfJson")
            response["content"][problems.MEDIA_TYPE]["examples"][problem.name] = shared
        for status, response in responses.items():
            # Most operations refer to a dozen of them: short names save a tenth of the document.
            names = (f"E{status}{letter}" for letter in ("", *ascii_uppercase))
            responses[status] = self.ref("responses", response, *names)
        return dict(sorted(responses.items()))

    def add_reports(self, models: Iterable[type[Report]]) -> None:
        """Store the schemas of reports and of their parts."""
        self.sections["schemas"] |= {
            name: self._generated(schema, name) for name, schema in report_schemas(*models).items()
        }

    def parameters(
        self,
        model: type[Parameters],
        owner: str,
        example: Mapping[str, Any],
        chosen: Container[str] | None = None,
    ) -> list[Json]:
        """Return the parameters of a query: all of a model, or chosen ones beside a body.

        Those are optional, without a default, which generated clients would send beside the body's.

        Only parameters in ``example`` get an OpenAPI ``example``, which documentation pages fill
        in: other parameters may exclude each other. Every schema has its own examples.
        """
        schema = object_schema(model)
        listed = []
        for name, known in schema["properties"].items():
            # A list of lists is only sent in a body.
            is_in_body = name in model.body_only or known.get("type") == "array"
            if is_in_body or (chosen is not None and name not in chosen):
                continue
            described: Json = {"name": name, "in": "query", "description": known["description"]}
            if chosen is not None:
                known.pop("default", None)
            elif name in schema.get("required", ()):
                described["required"] = True
            described["schema"] = self._of_parameter(name, known, owner)
            if name in example:
                described["example"] = example[name]
            if chosen is not None and described not in self.sections.get("parameters", {}).values():
                described["description"] = _beginning(known["description"])
            listed.append(self.ref("parameters", described, pascal(name)))
        return listed

    def _of_parameter(self, name: str, known: Json, owner: str) -> Json:
        schema = {key: value for key, value in known.items() if key != "description"}
        own = pascal(name)
        listed = self.sections["schemas"].items()
        shared = [known for known, other in listed if other == schema and known.endswith(own)]
        names = own, *shared, owner + own
        if "$ref" in schema:
            # An object is written in a query as names and values, name:value,name:value.
            return {**_TEXT, "examples": schema.get("examples", [])}
        return self.ref("schemas", schema, *names) if "enum" in schema else schema

    def body(
        self,
        model: type[Parameters],
        owner: str,
        arrays: Mapping[str, str],
        required: list[str] | None = None,
        aliases: Mapping[str, str] = MappingProxyType({}),
        *,
        beside: Mapping[str, Any] = MappingProxyType({}),
    ) -> Json:
        """Return the schema of a JSON object of parameters, and of arrays with their descriptions.

        Args:
            model: the parameters.
            owner: the stem of its name.
            arrays: the descriptions of arrays by name.
            required: what is required in place of the parameters that the model requires.
            aliases: the names of arrays by their other names.
            beside: the schema of further members, of a name or a pattern of names.
        """
        schema = object_schema(model)
        for name, part in _schema(model).get("$defs", {}).items():
            properties = {key: _without_null(each, ()) for key, each in part["properties"].items()}
            kept = {**part, "properties": properties}
            del kept["title"]
            self.sections["schemas"][name] = kept
        if required is not None:
            schema["required"] = required
        described = {name: {**_LISTS, "description": text} for name, text in arrays.items()}
        if arrays:
            described["shape"] = {"$ref": f"{_SCHEMAS}FlatShape"}
        for name, known in schema["properties"].items():
            own = {key: known[key] for key in ("$ref",) if key in known}
            own = own or self._of_parameter(name, known, owner)
            if "pattern" in own:
                own = {"$ref": f"{_SCHEMAS}NumberList"}
            # Generated clients send defaults: with arrays they are in the query already.
            for key in ("examples", "default")[: 1 + bool(arrays)]:
                own.pop(key, None)
            # Clients in C# write a bound of a body as an integer, also 1e300.
            if own.get("maximum", 0) > 2**63:
                del own["maximum"]
            # The parameters of the query are described in full.
            described.setdefault(name, {**own, "description": _beginning(known["description"])})
        if "positions" in described:
            aliases = {"position_ids": "positions", **aliases}
        for alias, meant in aliases.items():
            kind = _LISTS if meant in arrays else {"$ref": f"{_SCHEMAS}NumberList"}
            described[alias] = {**kind, "description": f"Another name of {meant}."}
        described |= beside.get("properties", {})
        schema |= {**beside, "properties": described}
        return self.ref("schemas", schema, f"{owner}Request")

    def _generated(self, schema: Any, owner: str) -> Any:
        """Return a schema of pydantic in the style of the document."""
        if isinstance(schema, list):
            return [self._generated(each, owner) for each in schema]
        if not isinstance(schema, dict):
            return schema
        if "enum" in schema:
            described = {key: schema[key] for key in ("description",) if key in schema}
            named = {"type": "string", "enum": schema["enum"]}
            return self.ref("schemas", named, owner) | described
        return formatted(
            {
                key: {
                    name: self._generated(each, owner + pascal(name))
                    for name, each in value.items()
                }
                if key == "properties"
                else self._generated(value, owner)
                for key, value in schema.items()
                if key != "title" and (key, value) != ("default", None)
            }
        )


# With as many spaces the words before a colon are no condition, as in "For yarn: …".
_FEW = 2


def _beginning(text: str) -> str:
    """Return the first sentence of a description, without a list of values at its end."""
    sentence, *_ = re.split(r"(?<=[\w)])\. ", text, maxsplit=1)
    clause, *others = sentence.split("; ")
    words = clause.split(": ")[0].count(" ")
    if others and words:
        sentence = clause.split(": ")[0] if words > _FEW else clause
    return f"{sentence.rstrip('.')}."


def pascal(name: str) -> str:
    """Return a name of a parameter or a title as that of a component."""
    words = name.replace("_", " ").replace("-", " ").split()
    return "".join(word[0].upper() + word[1:] for word in words)


_NUMBER_FORMATS = {"integer": "int64", "number": "double"}


def formatted(schema: Json) -> Json:
    """Return a schema with a format if it is that of a number."""
    number_format = _NUMBER_FORMATS.get(str(schema.get("type")))
    return {**schema, "format": number_format} if number_format else schema


def object_schema(model: type[Parameters]) -> Json:
    """Return the schema of an object of parameters, of which each is spelled as in a query."""
    schema = _schema(model)
    # The revision, which few requests have, comes last.
    names = sorted(schema["properties"], key=lambda name: name == "revision")
    properties = {
        name: _without_null(schema["properties"][name], model.model_fields[name].metadata)
        for name in names
    }
    if issubclass(model, TableFamily):
        current = model.revision_of_bytes
        properties["revision"] |= {"minimum": current, "maximum": current, "examples": [current]}
    kept: Json = {key: schema[key] for key in ("type", "required") if key in schema}
    return {**kept, "additionalProperties": False, "properties": properties}


def _counted(pattern: str, bounds: Iterable[Any]) -> str:
    """Return the pattern of a list with its bounds, unless it may be a long one."""
    most = min(getattr(bound, "max_length", inf) for bound in (*bounds, None))
    least = max(getattr(bound, "min_length", 1) for bound in (*bounds, None))
    # The regular expressions of Go count to 1000.
    return pattern if most > 1000 else pattern.removesuffix("*$") + f"{{{least - 1},{most - 1}}}$"


@cache
def _schema(model: type[Parameters]) -> Json:
    return model.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}")


def _without_null(schema: Json, bounds: Iterable[Any]) -> Json:
    """Return the schema of an optional parameter without null: it is left out instead."""
    choices: list[Json] = schema.get("anyOf", [])
    merged = {**schema, **next((choice for choice in choices if choice != {"type": "null"}), {})}
    named = {_JSON_SCHEMA_NAMES.get(name, name): value for name, value in merged.items()}
    omitted = {"title", "anyOf", *(["default"] if merged.get("default") is None else [])}
    if "pattern" in merged:
        omitted |= {"minItems", "maxItems", "minLength", "maxLength"}
        named["pattern"] = _counted(named["pattern"], bounds)
    return formatted({name: value for name, value in named.items() if name not in omitted})


# pydantic leaves the bounds of optional parameters under its own names.
_JSON_SCHEMA_NAMES = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "max_length": "maxLength",
    "min_length": "minLength",
    "multiple_of": "multipleOf",
}


def report_schemas(*models: type[Report]) -> Json:
    """Return the JSON schemas of reports and of their parts, by name."""
    named = [(model, "serialization") for model in models]
    _, schemas = models_json_schema(named, ref_template=f"{_SCHEMAS}{{model}}")  # type: ignore[arg-type]
    # Generators complain of a schema of a component that says what it may have further.
    return {
        name: {key: value for key, value in each.items() if (key, value) != _FURTHER}
        for name, each in schemas.get("$defs", {}).items()
    }


def _header(description: str, *, required: bool = False, **schema: Any) -> Json:
    described = formatted({"type": "string", **schema})
    return {"description": description, "required": required, "schema": described}


_required = partial(_header, required=True)


def _short(name: str) -> str:
    """Return the name of the component of a header: a hundred responses refer to it."""
    return "".join(word[0] for word in name.split("-"))


_NAMED_HEADERS: Json = {
    "Accept-Ranges": _header("Whether ranges can be requested.", pattern="^bytes$"),
    "Array-Axes": _header("The names of the axes, where they have names.", minLength=1),
    "Array-Dtype": _header(
        "The type of the elements, unless it differs between arrays.",
        pattern=f"^({'|'.join((*REAL_DTYPES, *INDEX_DTYPES, COMPLEX64.name, COMPLEX128.name))})$",
    ),
    "Array-Error-Bound": _header(_ERROR, type="number", minimum=0),
    "Array-Shape": _header(
        "The lengths of the axes, unless they differ between arrays.",
        pattern="^([0-9]+(, [0-9]+)*)?$",
    ),
    "Array-Warnings": _header("The codes of warnings about the numbers.", minLength=1),
    "Cache-Control": _required(
        "How long the response may be cached.",
        pattern=r"^(public|private), max-age=(86400|31536000, immutable)$",
    ),
    "Content-Disposition": _required(
        "The name to save the file under.",
        pattern='^inline; filename="[0-9a-z_]+[.][a-z0-9.]+"$',
    ),
    "Content-Location": _header("The URL of the format that Accept selected.", minLength=1),
    "Content-Range": _required(
        "The range, and the length of the whole body.",
        pattern="^bytes ([0-9]+-[0-9]+|[*])/[0-9]+$",
    ),
    "ETag": _required("Entity tag of this representation.", pattern='^(W/)?"[0-9a-f]{32}"$'),
    "Link": _header("The other formats that can hold the table.", minLength=1),
    "No-Store": _required("The response is not cached.", pattern="^no-store$"),
    "Repr-Digest": _header(
        "The SHA-256 of the whole body (RFC 9530), where it is known in advance.",
        pattern="^sha-256=:[0-9A-Za-z+/]{43}=:$",
    ),
    "Retry-After": _required("Seconds to wait before the next attempt.", type="integer", minimum=1),
    "Table-Revision": _required("The revision of this kind of table.", type="integer", minimum=1),
    "Vary": _header("The request headers that selected the representation.", minLength=1),
    "X-Request-Id": _required(
        "The identifier of the request: the one it was sent with, if that is valid, or a new one.",
        pattern="^[A-Za-z0-9._-]{1,128}$",
    ),
    "WWW-Authenticate": _required("How to send a key.", pattern="^Bearer "),
}

HEADER_COMPONENTS: Json = {_short(name): each for name, each in _NAMED_HEADERS.items()}

_ARRAY_HEADERS = (
    "Table-Revision",
    "Array-Shape",
    "Array-Dtype",
    "Array-Axes",
    "Array-Error-Bound",
    "Array-Warnings",
)
_FILE_HEADERS = ("ETag", "Cache-Control", "Content-Disposition", "Content-Location", "Link", "Vary")


def _headers(*names: str) -> Json:
    return {name: {"$ref": f"#/components/headers/{_short(name)}"} for name in names}


PAGE_HEADERS = _headers("X-Request-Id")
UNCACHED_HEADERS = {**PAGE_HEADERS, "Cache-Control": _headers("No-Store")["No-Store"]}
"""The headers of reports and of problems."""

REPORT_HEADERS = {**PAGE_HEADERS, **_headers("ETag", "Cache-Control", "Vary")}
"""The headers of reports that answer GET."""

POST_HEADERS = {**UNCACHED_HEADERS, **_headers(*_ARRAY_HEADERS, "Vary")}
NOT_MODIFIED_HEADERS = {**PAGE_HEADERS, **_headers(*_FILE_HEADERS, *_ARRAY_HEADERS)}
TABLE_HEADERS = {**NOT_MODIFIED_HEADERS, **_headers("Accept-Ranges", "Repr-Digest")}
RANGE_HEADERS = {**TABLE_HEADERS, **_headers("Content-Range")}

_BY_STATUS = {"401": "WWW-Authenticate", "416": "Content-Range", "503": "Retry-After"}


def problem_headers(status: str) -> Json:
    """Return the headers of a problem response with this status code."""
    special = _BY_STATUS.get(status)
    return {**UNCACHED_HEADERS, **(_headers(special) if special else {})}


_MISSPELLED = Fault(
    "dmodel",
    "512",
    "dmodel is not a parameter here; did you mean d_model?",
    suggestion="d_model",
)
_NO_BFLOAT16 = (
    "npy cannot hold this answer: NumPy has no bfloat16; "
    "these formats can: json, safetensors, bin, csv, png"
)


def _by_type(*examples: errors.PosrefError) -> Mapping[ErrorType, errors.PosrefError]:
    return {type(example): example for example in examples}


_EXAMPLES = _by_type(
    errors.InvalidParameters(_MISSPELLED),
    errors.UnsupportedByFormat(_NO_BFLOAT16, [Fault("extension", "npy", _NO_BFLOAT16)]),
    errors.InvalidBody(
        'an array is missing: send {"x": […]}, or arrays of any names in safetensors', "/x"
    ),
    errors.ModelNotKnown(
        "no positional encoding is known for model_type lama: the config has no rotary base and "
        "no frequency rule; did you mean llama or mllama or llama4?",
        "/model_type",
        "lama",
    ),
    unknown_path("/encodings", ["/encoding"], dict),
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
        "(POSREF_MAX_TEXT_BYTES): request /encoding.npy?seq_len=1048576&d_model=512, or a smaller "
        "table"
    ),
    errors.BodyTooLarge(
        "the body is longer than 68157440 bytes (POSREF_MAX_BODY_BYTES): send the first rows"
    ),
    errors.RequestTooLarge(
        "the request takes about 61 seconds of a processor, and at most 60 are possible "
        "(POSREF_MAX_REQUEST_SECONDS): send a smaller one"
    ),
    errors.UnsupportedMediaType(
        "Content-Type is text/plain: send the header Content-Type: application/x-npy or "
        "application/vnd.safetensors or application/json or application/octet-stream (elements "
        "alone, little-endian, with shape=50,512&dtype=float32 in the query)"
    ),
    problems.FAILURE,
    errors.MalformedRequest("the bytes are not an HTTP request"),
    errors.VersionNotSupported("HTTP/2.0 is not spoken here: send HTTP/1.1"),
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

_EXAMPLES_OF_JSON_BODIES = _by_type(
    errors.InvalidBody(
        "this is no document that describes a model: send the content of its config.json"
    ),
    errors.BodyTooLarge(
        "the body is longer than 4194304 bytes (POSREF_MAX_JSON_BODY_BYTES): send a shorter one"
    ),
    errors.UnsupportedMediaType(
        "Content-Type is text/plain: send the header Content-Type: application/json"
    ),
)

_OF_ANY_REQUEST = (
    errors.MalformedRequest,
    errors.Unauthorized,
    errors.RequestTimeout,
    errors.URLTooLong,
    errors.HeadersTooLarge,
    errors.VersionNotSupported,
    errors.Overloaded,
    errors.NotReady,
)
