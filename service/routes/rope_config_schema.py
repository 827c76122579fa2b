"""The JSON schema of what ``/rope/config`` answers."""

from typing import Any

from service.configs.spellings import RULE_TYPES
from service.configs.warnings import MEANINGS

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_URL: Json = {"type": "string", "format": "uri-reference"}
_NUMBER: Json = {"type": "number"}
_COUNT: Json = {"type": "integer", "minimum": 1}
_NUMBERS: Json = {"type": "array", "items": _NUMBER}
_LAYERS: Json = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_LAYOUTS = ["half", "interleaved"]


def _object(properties: Json, *required: str, closed: bool = True) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": not closed,
    }


_RULE: Json = {
    "head_dim": {**_COUNT, "description": "The channels of a head that rotary embeddings see."},
    "rotary_dim": {**_COUNT, "description": "How many of them turn."},
    "rotary_offset": {
        "type": "integer",
        "minimum": 0,
        "description": "Channels before the first that turns; 0 unless it is there.",
    },
    "rope_theta": _NUMBER,
    "rope_type": {"type": "string", "enum": [*RULE_TYPES]},
    "max_position_embeddings": _COUNT,
    "original_max_position_embeddings": _COUNT,
    "context_length": _COUNT,
    "attention_factor": {
        **_NUMBER,
        "description": "What every cosine and sine is multiplied by.",
    },
    **dict.fromkeys(("short_factor", "long_factor"), _NUMBERS),
    "mrope_section": {"type": "array", "items": {"type": "integer"}},
    "mrope_interleaved": {"type": "boolean"},
    "truncate": {"type": "boolean"},
    **dict.fromkeys(
        (
            "factor",
            "alpha",
            "mixed_b",
            "beta_fast",
            "beta_slow",
            "mscale",
            "mscale_all_dim",
            "low_freq_factor",
            "high_freq_factor",
            "partial_rotary_factor",
        ),
        _NUMBER,
    ),
}

_URLS: Json = {"frequencies": _URL, "table": _URL, "file": _URL}

_ENTRY = _object(
    {
        **_RULE,
        **_URLS,
        "layers": {
            "description": "Which layers it is for, from 0; null where the config does not say.",
            "anyOf": [{"const": "all"}, _LAYERS, {"type": "null"}],
        },
        "origin": {
            "type": "object",
            "description": "Where each value came from.",
            "additionalProperties": _TEXT,
        },
        "regimes": {
            "type": "array",
            "items": _object({"context_length": _COUNT, **_URLS}, "context_length", *_URLS),
        },
    },
    "head_dim",
    "rotary_dim",
    "rope_theta",
    "rope_type",
    "max_position_embeddings",
    "attention_factor",
    "layers",
    "origin",
    *_URLS,
)

_TEMPERATURE = _object(
    {
        "formula": _TEXT,
        "layers": _LAYERS,
        **dict.fromkeys(
            (
                "attn_scale",
                "floor_scale",
                "llama_4_scaling_beta",
                "original_max_position_embeddings",
            ),
            _NUMBER,
        ),
    },
    "formula",
)

_WARNING = _object(
    {
        "code": {
            "type": "string",
            "enum": [*MEANINGS],
            "description": "\n".join(f"- {code}: {meaning}." for code, meaning in MEANINGS.items()),
        },
        "detail": _TEXT,
        "pointer": {**_TEXT, "description": "A JSON pointer into the config."},
    },
    "code",
    "detail",
    "pointer",
)

ROPE_CONFIG: Json = {
    "description": "The rotary settings of a model.",
    **_object(
        {
            "model_type": {"type": ["string", "null"]},
            "text_model_type": {"type": ["string", "null"]},
            "layout": {"type": "string", "enum": [*_LAYOUTS, "none"]},
            "writes": {"type": "string", "enum": _LAYOUTS},
            "rope": {"type": "object", "additionalProperties": _ENTRY},
            "attention": _object(
                {
                    "softmax_scale_multiplier": _NUMBER,
                    "query_temperature": _TEMPERATURE,
                    "origin": {"type": "object", "additionalProperties": _TEXT},
                }
            ),
            "warnings": {"type": "array", "items": _WARNING},
        },
        "model_type",
        "layout",
        "rope",
        "attention",
        "warnings",
    ),
}
"""What is said about a model."""
