"""The JSON schema of what ``/diagnose`` answers."""

from typing import Any

Json = dict[str, Any]

_NUMBER: Json = {"type": "number"}
_TEXT: Json = {"type": "string"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_TABLE: Json = {
    "type": "object",
    "properties": {"url": {"type": "string", "format": "uri-reference"}},
    "required": ["url"],
    "additionalProperties": False,
}
_MISTAKE: Json = {
    "type": "object",
    "description": "One thing that was done; beside what is named here, its own values.",
    "properties": {
        "name": _TEXT,
        "sentence": {**_TEXT, "description": "What it is, and how it shows."},
        "correction": {**_TEXT, "description": "What to do about it."},
    },
    "required": ["name", "sentence", "correction"],
    "additionalProperties": True,
}
_LEAVING: Json = {
    "type": "object",
    "description": "The first element that the mistakes do not explain.",
    "properties": {
        "array": _TEXT,
        "index": {"type": "array", "items": _COUNT},
        "position": {"type": "integer", "description": "Of its row, as the table counts."},
        "channel": _COUNT,
        "have": _NUMBER,
        "want": {**_NUMBER, "description": "What the nearest explanation would have there."},
        "error": _NUMBER,
        "allowed": _NUMBER,
    },
    "required": ["array", "index", "have", "want", "error", "allowed"],
    "additionalProperties": False,
}

DIAGNOSIS: Json = {
    "type": "object",
    "properties": {
        "verdict": {
            "enum": ["equal", "diagnosed", "none"],
            "description": "equal: no mistake; diagnosed: the mistakes explain every element; "
            "none: no list of known mistakes does, and those named come nearest.",
        },
        "mistakes": {"type": "array", "items": _MISTAKE},
        "residual": {
            **_NUMBER,
            "description": "How far an element is from what the mistakes make of what is wanted.",
        },
        "correct": {**_TABLE, "description": "The table that it should be."},
        "yours": {**_TABLE, "description": "The table that it is, where this server has it."},
        "leaves_at": _LEAVING,
        "checked": {
            "type": "object",
            "properties": {"elements": _COUNT, "allowed": _NUMBER},
            "required": ["elements", "allowed"],
            "additionalProperties": False,
        },
    },
    "required": ["verdict", "mistakes", "residual", "checked"],
    "additionalProperties": False,
}
