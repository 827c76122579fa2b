"""The documentation of endpoints that arrays are sent to."""

import json
from typing import Any

from service.delivery.composition import Composition, InputArray
from service.delivery.openapi import (
    BINARY,
    POST_PROBLEMS,
    documents,
    operation,
    path_parameters,
    problems_of,
    read_example,
    tag_of,
    written,
)
from service.delivery.openapi_headers import OF_POSTED
from service.delivery.openapi_schemas import Json, object_schema, query_parameters
from service.delivery.parameters import parse_query
from service.delivery.resource import Transform
from service.formats import FORMATS
from service.formats.json_text import JSON
from service.formats.received import MAX_RANK

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
