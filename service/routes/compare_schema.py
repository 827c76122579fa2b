"""The JSON schema of what ``/compare`` answers."""

from typing import Any

Json = dict[str, Any]

_TRUTH: Json = {"type": "boolean"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_POSITION: Json = {
    "type": ["number", "null"],
    "description": "A position; null where not even the first is good.",
}
_ERROR: Json = {
    "type": ["number", "null"],
    "description": "Null where it is infinite or there is none.",
}
_VALUE: Json = {"type": ["number", "string"], "description": "NaN and infinities are words."}


def _object(properties: Json, optional: tuple[str, ...] = ()) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _or_null(schema: Json, description: str) -> Json:
    return {**schema, "type": ["object", "null"], "description": description}


_SPOT = _object(
    {
        "index": {"type": "array", "items": _COUNT, "description": "In the array that was sent."},
        "position": {"type": "number"},
        "channel": {"type": ["integer", "null"]},
        "error": _ERROR,
        "yours": _VALUE,
        "theirs": _VALUE,
        "part": {"enum": ["real", "imaginary"]},
    },
    optional=("part",),
)
_DESCRIBED = _object({"shape": {"type": "array", "items": _COUNT}, "dtype": {"type": "string"}})
_RANGES: Json = {
    "type": "array",
    "items": _object({"first": {"type": "number"}, "last": {"type": "number"}, "largest": _ERROR}),
}
_AXES = _object(
    {
        "position": {"type": "string", "description": "What positions count."},
        "channel": {"type": ["string", "null"], "description": "What channels count."},
        "removed": _object(
            {
                "yours": {"type": "array", "items": _COUNT},
                "theirs": {"type": "array", "items": _COUNT},
            }
        ),
        "order": {
            "type": "array",
            "items": {"type": ["integer", "null"]},
            "description": "For each axis of the table, that of the array.",
        },
        "prefix": _object(
            {
                "axis": {"type": ["string", "null"]},
                "yours": _COUNT,
                "theirs": _COUNT,
                "compared": _COUNT,
            }
        ),
    },
    optional=("removed", "order", "prefix"),
)
_TOLERANCE: Json = {
    "type": "object",
    "description": "atol + rtol·|number|; or so many ulp of a type, at the number or at "
    "at_least_of, whichever is larger.",
    "properties": {
        "atol": {"type": "number"},
        "rtol": {"type": "number"},
        "ulp": {"type": "integer"},
        "of": {"type": "string"},
        "at_least_of": {"type": "number"},
    },
    "additionalProperties": False,
}
_GOOD = _object(
    {
        "count": _COUNT,
        "of": _COUNT,
        "runs": {
            "type": "array",
            "items": _object({"first": {"type": "number"}, "last": {"type": "number"}}),
        },
        "further_runs": _COUNT,
    }
)
_VERDICTS: Json = {
    "equal": {**_TRUTH, "description": "Whether all numbers that are compared are equal."},
    "equal_bytes": {**_TRUTH, "description": "Whether type, shape and every byte are."},
    "within": {**_TRUTH, "description": "Whether all are within the tolerance."},
}
_FOUND: Json = {
    "array": _object({"yours": _DESCRIBED, "theirs": _DESCRIBED}),
    "tolerance": _TOLERANCE,
    "axes": _AXES,
    "largest": _object(
        {
            "absolute": _or_null(_SPOT, "The largest error."),
            "relative": _or_null(_SPOT, "As a share of the number in the table, 0 left out."),
            "ulp": _or_null(_SPOT, "In the ulp that the tolerance is in; null for integers."),
        }
    ),
    "first_beyond": _or_null(_SPOT, "The first number beyond the tolerance."),
    "first_not_finite": _or_null(_SPOT, "The first NaN or infinity where the other has none."),
    "good_to": {**_POSITION, "description": "Up to here every number is within the tolerance."},
    "good_positions": _GOOD,
    "errors_by_position": _RANGES,
    "errors_by_channel": _RANGES,
    "within_epsilon": {
        "type": "array",
        "items": _object({"epsilon": {"type": "number"}, "good_to": _POSITION}),
    },
}
_OF_ONE: Json = _object({**_VERDICTS, **_FOUND})
COMPARE_SCHEMA: Json = _object(
    {
        "to": {"type": "string", "format": "uri-reference"},
        **_VERDICTS,
        **_FOUND,
        "not_sent": {"type": "array", "items": {"type": "string"}},
        "arrays": {"type": "object", "additionalProperties": _OF_ONE},
    },
    optional=(*_FOUND, "not_sent", "arrays"),
)
