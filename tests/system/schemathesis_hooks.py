"""Hooks of schemathesis: they make requests valid more often, and recognize expected refusals.

Every check is enabled. A failure is suppressed only if a schema cannot express the violated rule,
and the answer names that rule.
"""

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import jsonschema
import numpy as np
import schemathesis
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.numpy import save
from schemathesis import HookContext, Response
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.core.parameters import ParameterLocation
from schemathesis.openapi.checks import RejectedPositiveData

from service import grammar
from service.delivery.endpoints import ArrayInputs
from service.delivery.openapi.components import object_schema
from service.delivery.parameters import parse_query, read_parameters
from service.encodings.family import Parameters
from service.errors import InvalidParameters
from service.formats.raw import RAW
from service.routes import ENDPOINTS
from tests.openapi import inlined

JSON = "application/json"
Case: TypeAlias = schemathesis.Case[Any]

MODELS: dict[str, type[Parameters]] = {each.path: each.parameters for each in ENDPOINTS.values()}
GET_MODELS: dict[str, type[Parameters]] = {
    each.path: each.by_get.parameters for each in ENDPOINTS.values() if each.by_get
}
RAW_FIELDS = {
    each.path: each.raw_array.keys() - each.parameters.model_fields.keys()
    for each in ENDPOINTS.values()
}
BODY_MAXIMUM = 2**63
DOCUMENT = json.loads((Path(__file__).parents[2] / "openapi.json").read_bytes())
OPERATIONS = inlined(DOCUMENT["paths"], DOCUMENT)

ELEMENTS = st.sampled_from(["<f2", "<f4", "<f8", "<i4", "<i8", "<c8", "|b1"])
TABLES = ELEMENTS.flatmap(
    lambda stored: arrays(stored, array_shapes(max_dims=3, min_side=1, max_side=6))
)
NAMES = sorted(
    {
        name
        for each in ENDPOINTS.values()
        if isinstance(each.inputs, ArrayInputs)
        for name in each.inputs.names
    }
)


def npy_file(table: Any) -> bytes:
    file = BytesIO()
    np.save(file, table)
    return file.getvalue()


schemathesis.openapi.media_type("application/x-npy", TABLES.map(npy_file))
schemathesis.openapi.media_type(
    "application/vnd.safetensors",
    st.dictionaries(st.sampled_from(NAMES), TABLES, min_size=1, max_size=2).map(save),
)


@schemathesis.hook
def map_case(_: HookContext, case: Case) -> Case:
    """Make generated requests more often valid than their schemas alone do."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return case
    case.query = _possible(case.query, _examples_of_query(case))
    if case.media_type != RAW.media_type:
        for name in RAW_FIELDS.get(_path(case), ()):
            case.query.pop(name, None)
    spelled = {True: "true", False: "false"}
    case.query = {
        name: spelled[value] if isinstance(value, bool) else value
        for name, value in case.query.items()
    }
    if isinstance(case.body, dict):
        case.body = _possible(case.body, _content(case).get("example", {}))
    return case


def _possible(generated: Mapping[str, Any], example: Mapping[str, Any]) -> dict[str, Any]:
    """Replace some parameters of an example by generated ones, more often than all of them.

    Most large sets of parameters contain some that exclude each other.
    """
    values = {name: _spelled(value) for name, value in generated.items()}
    chance = Random(repr(sorted(values.items())))
    count = chance.randint(0, 4)
    if count >= min(4, len(values)):
        return values
    return {**example, **{name: values[name] for name in chance.sample(sorted(values), count)}}


def _spelled(value: Any) -> Any:
    """Write integers without a decimal point, and make lists of equal lengths.

    JSON Schema takes 4.0 for an integer; the service does not.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, list):
        return value
    rows = [_spelled(item) for item in value]
    if not all(isinstance(row, list) for row in rows):
        return rows
    return [row[: min(map(len, rows))] for row in rows]


def _examples_of_query(case: Case) -> dict[str, Any]:
    known = _operation(case).get("parameters", ())
    return {p["name"]: p["example"] for p in known if p["in"] == "query" and "example" in p}


def _content(case: Case) -> Any:
    return _operation(case)["requestBody"]["content"][JSON]


def _operation(case: Case) -> Any:
    return OPERATIONS[case.path][case.method.lower()]


@schemathesis.hook
def filter_failure(_: HookContext, failure: Failure, case: Case, response: Response) -> bool:
    """Suppress failures of expected refusals."""
    if isinstance(failure, RejectedPositiveData):
        name = response.json()["type"].rpartition(":")[2]
        return name not in MEANT or not MEANT[name](case, response)
    if isinstance(failure, AcceptedNegativeData):
        return not _is_spelled_as_text(case)
    return True


def _always(_: Case, __: Response) -> bool:
    return True


def _is_of_bodies(case: Case, _: Response) -> bool:
    return _path(case) in {
        each.path for each in ENDPOINTS.values() if not each.has_get or each.raw_array
    }


def _is_read(case: Case, response: Response) -> bool:
    """Return whether every parameter is valid by itself, regardless of the others.

    A list or a number may be out of bounds, which its pattern cannot express, and the schemas of
    bodies leave out bounds that clients in C# cannot write. A parameter that JSON requires is
    optional in the query, where it must be beside a file. The keys of a segment of ``rows`` exclude
    each other.
    """
    path = _path(case)
    model = GET_MODELS.get(path, MODELS[path]) if case.method == "GET" else MODELS[path]
    query = parse_query(urlsplit(response.request.url or "").query.encode())
    try:
        read_parameters(model, query | _parameters_of_body(case, model))
    except InvalidParameters as error:
        schema = object_schema(model)
        known = schema["properties"]
        elsewhere = RAW_FIELDS[_path(case)]
        if case.media_type != JSON:
            elsewhere = elsewhere | (set(schema.get("required", ())) - query.keys())
        faulty = {fault.where: known.get(fault.where, {}) for fault in error.faults}
        return all(
            str(name).startswith("/rows/")
            or name in elsewhere
            or "pattern" in schema
            or schema.get("maximum", 0) > BODY_MAXIMUM
            for name, schema in faulty.items()
        )
    return True


def _parameters_of_body(case: Case, model: type[Parameters]) -> dict[str, Any]:
    body = case.body if isinstance(case.body, dict) else {}
    return {name: value for name, value in body.items() if name in model.model_fields}


def _path(case: Case) -> str:
    return case.path.removesuffix(".{extension}")


MEANT: Mapping[str, Callable[[Case, Response], bool]] = {
    # The limits of answers and of requests are settings, not part of the schema.
    "answer-too-large": _always,
    "request-too-large": _always,
    # The end of a table is not part of a header's schema.
    "range-not-satisfiable": _always,
    # The formats that can hold a table depend on its shape and type.
    "unsupported-by-format": _always,
    # Arrays must fit each other and the parameters, and a config must be that of a model.
    "invalid-body": _is_of_bodies,
    # Any object may be a config; most are of no model.
    "model-not-known": _is_of_bodies,
    # Valid parameters may exclude or require each other.
    "invalid-parameters": _is_read,
}


def _is_spelled_as_text(case: Case) -> bool:
    """Return whether a body is only invalid by numbers that are text, as in a query.

    The service accepts these; the schema has the documented type.
    """
    meta = case.meta
    negative = {place for place in ParameterLocation if meta and meta.is_negative_at(place)}
    if negative != {ParameterLocation.BODY} or case.media_type != JSON:
        return False
    rules = jsonschema.Draft202012Validator(_content(case)["schema"])
    return bool(rules.is_valid(_typed(case.body)))


def _typed(value: Any) -> Any:
    """Return a value with numbers and booleans in place of text that spells them."""
    if isinstance(value, dict):
        return {name: _typed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    for read in (grammar.integer, grammar.real, grammar.boolean):
        try:
            return read(value) if isinstance(value, str) else value
        except ValueError:
            continue
    return value
