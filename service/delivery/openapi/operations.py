"""The OpenAPI document: the operations of each endpoint, and the components that they share."""

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from service import errors
from service.delivery.endpoints import (
    ArrayInputs,
    Endpoint,
    EveryArray,
    JsonObject,
    NamedArrays,
    NoInput,
    PositionInput,
    RawArray,
    ReportedArrays,
)
from service.delivery.negotiation import DIGEST_SUFFIX
from service.delivery.openapi.components import (
    ANSWER,
    BINARY,
    CONFIG,
    DOCUMENT,
    ELEMENTS,
    NOT_MODIFIED_HEADERS,
    PAGE_HEADERS,
    POSITIONS,
    POST_HEADERS,
    RANGE_HEADERS,
    REPORT_HEADERS,
    TABLE_HEADERS,
    TEXT,
    UNCACHED_HEADERS,
    Components,
    Json,
    pascal,
)
from service.delivery.parameters import parse_query, read_parameters
from service.encodings.family import InputArray, Parameters
from service.formats import FORMATS
from service.formats.json_text import JSON
from service.formats.raw import RAW
from service.grammar import to_json
from service.numerics.positions import Positions
from service.settings import default_settings

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
_GET_ERRORS = (*_DOCUMENT_ERRORS, errors.RevisionRetired, errors.PreconditionFailed)
_POST_ERRORS = (*_DOCUMENT_ERRORS, *_BODY_ERRORS[1:4])
_PAGE_ERRORS = (errors.InvalidParameters, errors.PosrefError)

_RANGE = {
    "name": "Range",
    "in": "header",
    "description": "One range of bytes of a binary format; a malformed range is ignored.",
    "schema": {"type": "string", "examples": ["bytes=128-1151"]},
}
_FILE: Json = {"schema": {"$ref": BINARY}}
_FILES = {form.media_type: _FILE for form in FORMATS.values()}
_CHECKSUM = "The SHA-256 of the file, as a line for sha256sum --check."
# Many clients take the first type that is listed, and all types for bytes.
_FILE_OR_CHECKSUM = {
    RAW.media_type: _FILE,
    **_FILES,
    JSON.media_type: {},
    "text/plain": {"schema": {"$ref": BINARY, "description": _CHECKSUM}},
}
_PART = {
    "description": "The requested range, or its first bytes.",
    "headers": RANGE_HEADERS,
    "content": {
        form.media_type: _FILE for form in FORMATS.values() if not (form.is_text or form.is_drawn)
    },
}
_NOT_MODIFIED = {
    "description": "The client has this representation already (If-None-Match).",
    "headers": NOT_MODIFIED_HEADERS,
}
_KEY = {
    "type": "http",
    "scheme": "bearer",
    "description": "One of POSREF_API_KEYS, if the server has any; /livez and /readyz need none.",
}

_REALS = "float16, float32 or float64, in safetensors bfloat16, too"
_INTEGERS = "integers of any type, booleans, or real numbers that are integers"
_ANY_TYPE = "float16, float32, float64, complex64, complex128 or integers of any type"

# The parameters that an array of positions replaces, or that only a URL needs.
_REPLACED = ("positions", "start", "seq_len", "revision")


@dataclass(frozen=True)
class Page:
    """A page without parameters: its path, operationId, summary and media type."""

    path: str
    name: str
    summary: str
    media_type: str


def openapi_document(info: Json, endpoints: Iterable[Endpoint], pages: Iterable[Page]) -> Json:
    """Return the OpenAPI document of endpoints and pages."""
    listed, components = [*endpoints], Components()
    components.add_reports([each.report for each in listed if each.report is not None])
    paths: Json = {}
    for endpoint in listed:
        paths |= _Operations(endpoint, components).paths()
    paths |= {page.path: {"get": _page(page, components)} for page in pages}
    return {
        "openapi": "3.1.0",
        "info": info,
        "paths": paths,
        "components": {**components.sections, "securitySchemes": {"key": _KEY}},
        "security": [{}, {"key": []}],
    }


def example_request(endpoint: Endpoint) -> tuple[Json, Json]:
    """Return the query and the JSON body of the example of a POST."""
    operations = _Operations(endpoint, Components())
    own = operations.in_body
    query = {name: value for name, value in operations.values.items() if name not in own}
    return query, operations.example


def _page(page: Page, components: Components) -> Json:
    schema = {"type": "object"} if page.media_type == JSON.media_type else {"$ref": TEXT}
    shown = {
        "description": "Successful",
        "headers": PAGE_HEADERS,
        "content": {page.media_type: {"schema": schema}},
    }
    answer = components.ref("responses", shown, pascal(page.media_type.partition("/")[2]) + "Page")
    responses = {"200": answer} | components.problems(_PAGE_ERRORS)
    return {
        "operationId": page.name,
        "summary": page.summary,
        "tags": ["pages"],
        "responses": dict(sorted(responses.items())),
    }


@dataclass(frozen=True)
class _Operations:
    """The operations of an endpoint, with examples; what they refer to is stored."""

    endpoint: Endpoint
    components: Components

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters of the example."""
        given = parse_query(self.endpoint.example.encode())
        return read_parameters(self.endpoint.parameters, given)

    @property
    def values(self) -> Json:
        """The parameters that the example has."""
        given = self.parameters.model_fields_set
        return {name: value for name, value in self.parameters if name in given}

    @property
    def in_body(self) -> Json:
        """The parameters of the example that its JSON body has, so that they go with any client.

        Required ones and those with a default are in the query, where generated clients send them.
        """
        inputs, fields = self.endpoint.inputs, self.endpoint.parameters.model_fields
        return {
            name: str(value) if isinstance(value, Positions) else value
            for name, value in self.values.items()
            if isinstance(inputs, NoInput)
            or (inputs.has_parameters and (fields[name].default is None))
        }

    @property
    def example(self) -> Json:
        """The example body of a POST, as JSON: arrays or a config, and parameters."""
        inputs, own = self.endpoint.inputs, {}
        if isinstance(inputs, NamedArrays):
            required = [array for array in inputs.inputs if array.is_required]
            own = {array.name: array.example for array in required or inputs.inputs[:1]}
        elif isinstance(inputs, EveryArray):
            own = {"x": inputs.described.example}
        elif isinstance(inputs, JsonObject | ReportedArrays):
            own = dict(inputs.example)
        return own | self.in_body

    @cached_property
    def answer(self) -> Any:
        """The answer to the example."""
        inputs = self.endpoint.inputs
        if isinstance(inputs, NoInput):
            return self.endpoint.answer_to(self.parameters, (), default_settings())
        _, content = inputs.read(JSON, json.dumps(self.example).encode())
        arguments = inputs.arguments(self.parameters, content)
        return self.endpoint.answer_to(self.parameters, arguments, default_settings())

    def paths(self) -> Json:
        """Return the operations by path and method; documents also have paths with an extension."""
        path = self.endpoint.path
        if self.endpoint.report is not None and self.endpoint.has_get:
            answers = {"200": self._report()}
            return {path: {"get": self._get("", answers, (*_GET_ERRORS, errors.NotFound))}}
        if self.endpoint.report is not None:
            by_get = self.endpoint.by_get
            got = _Operations(by_get, self.components).paths()[path] if by_get else {}
            return {path: {**got, "post": self._post("", self._report(), _BODY_ERRORS)}}
        plain, chosen = {}, {}
        file = {"description": "The file", "headers": POST_HEADERS, "content": _FILE_OR_CHECKSUM}
        if self.endpoint.has_get:
            answers = {"200": self._document(TABLE_HEADERS, "")}
            plain["get"] = self._get("", answers, _GET_ERRORS)
            answers = {
                "200": self.components.ref("responses", {**file, "headers": TABLE_HEADERS}, "File"),
                "206": self.components.ref("responses", _PART, "Part"),
            }
            listed = (*_GET_ERRORS, errors.RangeNotSatisfiable, errors.NotFound)
            chosen["get"] = self._get("As", answers, listed)
        plain["post"] = self._post("", self._document(POST_HEADERS, "Posted"), _POST_ERRORS)
        posted = self.components.ref("responses", file, "PostedFile")
        chosen["post"] = self._post("As", posted, (*_POST_ERRORS, errors.NotFound))
        return {path: plain, f"{path}.{{extension}}": chosen}

    def _get(self, suffix: str, answers: Json, listed: Iterable[type[errors.PosrefError]]) -> Json:
        answers |= {"304": self.components.ref("responses", _NOT_MODIFIED, "E304")}
        ranges = [self.components.ref("parameters", _RANGE, "Range")] if suffix else []
        responses = answers | self.components.problems(listed)
        return self._operation("get", suffix, responses, [*self._query(), *ranges])

    def _post(self, suffix: str, answer: Json, listed: Iterable[type[errors.PosrefError]]) -> Json:
        """Return the operation of a POST."""
        is_json_only = not isinstance(self.endpoint.inputs, ArrayInputs | PositionInput)
        every = (*listed, *self.endpoint.inputs.errors)
        responses = self.components.problems(every, is_json_only=is_json_only)
        own = self.endpoint.parameters.model_fields
        query = [] if self.endpoint.has_get else self._query()
        if isinstance(self.endpoint.inputs, PositionInput):
            others = {name for name in own if not name.startswith(_REPLACED)}
            query = self._beside_body(self.endpoint.parameters, others, "Posted")
        query += self._beside_body(RawArray, self.endpoint.raw_array.keys() - own.keys())
        operation = self._operation("post", suffix, {"200": answer} | responses, query)
        body = {"required": True, "content": self._body()}
        reference = self.components.ref("requestBodies", body, self.endpoint.operation)
        return {**operation, "requestBody": reference}

    def _operation(self, verb: str, suffix: str, responses: Json, parameters: list[Json]) -> Json:
        notes = ["by POST"] if verb == "post" and self.endpoint.has_get else []
        if suffix:
            notes.append("as a file")
            parameters = [*parameters, self._extension()]
        return {
            "operationId": f"{verb}{self.endpoint.operation}{suffix}",
            "summary": self.endpoint.summary + (f" ({', '.join(notes)})" if notes else ""),
            "tags": [self.endpoint.path.split("/")[1]],
            "parameters": parameters,
            "responses": dict(sorted(responses.items())),
        }

    def _query(self) -> list[Json]:
        shown = {
            key: to_json(value)
            for key, value in self.values.items()
            if self.endpoint.has_get or key not in self.in_body
        }
        return self.components.parameters(self.endpoint.parameters, self.endpoint.operation, shown)

    def _beside_body(
        self, model: type[Parameters], names: Container[str], prefix: str = ""
    ) -> list[Json]:
        """Return chosen parameters in the query of a body."""
        owner = prefix + self.endpoint.operation
        return self.components.parameters(model, owner, {}, names)

    def _extension(self) -> Json:
        forms = (FORMATS["npy"], *FORMATS.values())
        possible = next(form for form in forms if form.refusal(self.answer) is None)
        names = [name + end for end in ("", DIGEST_SUFFIX) for name in FORMATS]
        schema = self.components.ref("schemas", {"type": "string", "enum": names}, "Extension")
        described = {
            "name": "extension",
            "in": "path",
            "required": True,
            "description": f"The format of the answer; with {DIGEST_SUFFIX}, its checksum alone.",
            "schema": schema,
            "example": possible.extension,
        }
        return self.components.ref("parameters", described, "Extension")

    def _document(self, headers: Json, prefix: str) -> Json:
        """Return the response with arrays; a POST beside a GET has no example of its own."""
        name, shown = "Arrays", Json({"schema": {"$ref": DOCUMENT}})
        if headers is TABLE_HEADERS or not self.endpoint.has_get:
            name = self.endpoint.operation
            value = json.loads(b"".join(JSON.body(self.answer).blocks()))
            example = self.components.ref("examples", {"value": value}, name)
            shown["examples"] = {"answer": example}
        content = {**_FILES, JSON.media_type: shown}
        described = {"description": "The arrays", "headers": headers, "content": content}
        return self.components.ref("responses", described, f"{prefix}{name}")

    def _report(self) -> Json:
        """Return the response with a report."""
        name, report = self.endpoint.operation, self.endpoint.report
        assert report is not None
        example = self.components.ref("examples", {"value": self.answer.content()}, name)
        schema = {"$ref": f"#/components/schemas/{report.__name__}"}
        shown = {"schema": schema, "examples": {"report": example}}
        described = {
            "description": (report.__doc__ or "").partition(".")[0],
            "headers": REPORT_HEADERS if self.endpoint.has_get else UNCACHED_HEADERS,
            "content": {JSON.media_type: shown, "text/plain": {"schema": {"$ref": ANSWER}}},
        }
        return self.components.ref("responses", described, name)

    def _body(self) -> Json:
        """Return the content of a POST body, for every accepted format."""
        inputs, name = self.endpoint.inputs, self.endpoint.operation
        files: Mapping[str, str] = {}
        if isinstance(inputs, JsonObject):
            schema = {"$ref": CONFIG}
        elif isinstance(inputs, NoInput):
            schema = self.components.body(self.endpoint.parameters, name, {})
            if isinstance(inputs, PositionInput):
                sent = {media: {"schema": {"$ref": POSITIONS}} for media in inputs.formats}
                return {**sent, JSON.media_type: {"schema": schema, "example": self.example}}
        elif isinstance(inputs, ReportedArrays):
            arrays = dict.fromkeys(inputs.names, "An array of numbers, as deep as it has axes.")
            beside = inputs.beside()
            schema = self.components.body(self.endpoint.parameters, name, arrays, [], beside=beside)
            files = {
                "safetensors": f"Arrays by name ({', '.join(inputs.names)}): {_ANY_TYPE}.",
                "npy": f"One array: {_ANY_TYPE}.",
            }
        else:
            named, files = [EveryArray.described], _FILES_OF_VECTORS
            if isinstance(inputs, NamedArrays):
                named, files = [*inputs.inputs], _files(inputs)
            arrays = {array.name: f"Lists: {array.description}" for array in named}
            required = [array.name for array in named if array.is_required]
            if "npy" in files and "x" not in arrays:
                arrays, required = {"x": "The array, if it is the only one."} | arrays, []
            aliases = {other: array.name for array in named for other in array.aliases}
            schema = self.components.body(self.endpoint.parameters, name, arrays, required, aliases)
        raw = {RAW.media_type: {"schema": {"$ref": ELEMENTS}}} if self.endpoint.raw_array else {}
        described = {
            FORMATS[form].media_type: {"schema": {"$ref": BINARY, "description": description}}
            for form, description in files.items()
        }
        return {JSON.media_type: {"schema": schema, "example": self.example}, **described, **raw}


_FILES_OF_VECTORS = {
    "npy": f"An array of vectors, positions and channels last: {_REALS}.",
    "safetensors": f"Such arrays; each is answered under its name: {_REALS}.",
}


def _files(inputs: NamedArrays) -> dict[str, str]:
    """Describe the content of binary files; npy holds one array without a name."""
    arrays = "; ".join(map(_described, inputs.inputs))
    tensors = "A tensor, under any name" if len(inputs.inputs) == 1 else "Tensors by name"
    files = {"safetensors": f"{tensors}. {arrays}."}
    if inputs.unnamed is not None:
        files["npy"] = f"One array. {_described(inputs.unnamed)}."
    elif inputs.choice is not None:
        files["npy"] = f"One array; {inputs.choice.parameter} says which. {arrays}."
    return files


def _described(array: InputArray) -> str:
    return f"{array.name}: {array.description} ({_INTEGERS if array.is_integer else _REALS})"
