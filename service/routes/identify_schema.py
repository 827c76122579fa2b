"""The JSON schema of what ``/identify`` answers."""

from typing import Any

Json = dict[str, Any]

_COUNT: Json = {"type": "integer", "minimum": 0}
_INDEX: Json = {"type": "array", "items": _COUNT, "description": "In the array that was sent."}
_POSITION: Json = {
    "type": ["number", "array", "null"],
    "items": {"type": "number"},
    "description": "A position, or one on each axis; null where rows have none.",
}
_SENTENCES: Json = {"type": "array", "items": {"type": "string"}}


def _object(properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _number(description: str) -> Json:
    return {"type": ["number", "null"], "description": f"{description}; null if not finite."}


_TABLE: Json = {
    "url": {"type": "string", "description": "Path and query of the table here."},
    "kind": {"type": "string"},
    "parameters": {
        "type": "object",
        "description": "Every parameter that fixes its numbers, in canonical form.",
    },
    "transposed": {
        "type": "boolean",
        "description": "Whether the array has the axes of the table in reverse order.",
    },
    "residual": {
        **_object(
            {
                "max_absolute": _number("The largest absolute error"),
                "max_ulp": {
                    "type": ["number", "null"],
                    "description": "The largest error in steps of the type; null for integers.",
                },
                "index": _INDEX,
                "position": _POSITION,
            }
        ),
        "description": "How far the array is from the table at most, and where.",
    },
    "support": {**_SENTENCES, "description": "What in the array speaks for it."},
}
_ARITHMETIC = _object({"name": {"type": "string"}, "description": {"type": "string"}})
_LEAVES_AT = _object(
    {
        "array": {"type": "string"},
        "index": _INDEX,
        "position": _POSITION,
        "channel": _COUNT,
        "yours": _number("The number there"),
        "expected": _number("That of the table"),
        "error": _number("How far they are apart"),
        "allowed": {
            "type": "number",
            "description": "How far the arithmetic that explains most lets a number be off.",
        },
    }
)
_NEAREST = _object(
    {
        **_TABLE,
        "agreeing": {"type": "number", "description": "The share of numbers that agree."},
        "leaves_at": {**_LEAVES_AT, "description": "The first number that does not."},
    }
)

IDENTIFY_SCHEMA: Json = _object(
    {
        "verdict": {
            "enum": ["identified", "ambiguous", "none"],
            "description": "ambiguous: several tables give these numbers, and would go on "
            "differently.",
        },
        "array": _object(
            {
                "shape": {"type": "array", "items": _COUNT},
                "dtype": {"type": "string"},
                "names": {
                    "type": ["array", "null"],
                    "items": {"type": "string"},
                    "description": "cos and sin where two arrays were sent.",
                },
            }
        ),
        "hypotheses": {
            "type": "array",
            "description": "The tables that give the whole array, the best first.",
            "items": _object(
                {
                    **_TABLE,
                    "arithmetic": {
                        "type": "array",
                        "items": _ARITHMETIC,
                        "description": "What it may have been computed in: within its own error "
                        "every number is explained.",
                    },
                }
            ),
        },
        "nearest": {
            **_NEAREST,
            "type": ["object", "null"],
            "description": "Where there are no hypotheses: the table nearest to the array.",
        },
        "notes": _SENTENCES,
    }
)
