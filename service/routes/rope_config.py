"""The JSON schema of what ``/rope/config`` answers.

``/rope/config``: the rotary settings of a model, and the URLs of its tables.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from pydantic import Field

from service.delivery.endpoints import Endpoint, JsonObject, table_document
from service.delivery.parameters import read_parameters
from service.delivery.responses import MAX_TABLE_BYTES
from service.encodings.fields import Parameters
from service.encodings.rotary.rope import FREQUENCIES, ROPE, FrequenciesParameters
from service.encodings.rotary.rules import RULE_KEYS
from service.errors import Fault, InvalidBody, InvalidParameters
from service.grammar import Integer, to_query
from service.models.keys import RULE, RULE_TYPES
from service.models.lookup import MEANINGS, ResolvedValue
from service.models.resolve import Resolved, resolve
from service.models.rule_entries import Entry
from service.numerics.limits import MAX_LENGTH
from service.numerics.tables import size_bytes

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_URL: Json = {"type": "string", "format": "uri-reference"}
_NUMBER: Json = {"type": "number"}
_COUNT: Json = {"type": "integer", "minimum": 1}
_NUMBERS: Json = {"type": "array", "items": _NUMBER}
_OF_TYPE: dict[type, Json] = {
    float: _NUMBER,
    int: _COUNT,
    bool: {"type": "boolean"},
    tuple[float, ...]: _NUMBERS,
}
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
    "context_length": _COUNT,
    "mrope_section": {"type": "array", "items": {"type": "integer"}},
    "mrope_interleaved": {"type": "boolean"},
    "partial_rotary_factor": _NUMBER,
    **{name: _OF_TYPE[kind.__origin__] for name, kind in RULE_KEYS.items() if name in RULE},
    "attention_factor": {
        **_NUMBER,
        "description": "What every cosine and sine is multiplied by.",
    },
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


_LENGTH = "max_position_embeddings"
_OF_TABLES = ("mrope_section", "mrope_interleaved")


class ConfigParameters(Parameters):
    """Parameters of a report about a config."""

    context_length: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_LENGTH,
        description="The length that the model runs at, for frequency rules that depend on it "
        "(dynamic, longrope); the original one unless given.",
        examples=[131072],
    )


def _report(parameters: ConfigParameters, config: Mapping[str, Any]) -> Json:
    resolved = resolve(config, parameters.context_length)
    faults: dict[Fault, None] = {}
    rope = {
        entry.label: _entry(entry, parameters.context_length, faults) for entry in resolved.entries
    }
    if faults:
        raise InvalidBody.at(*faults)
    return {
        **_head(resolved),
        "rope": rope,
        "attention": resolved.attention,
        "warnings": [
            {"code": warning.code, "detail": warning.detail, "pointer": warning.pointer}
            for warning in resolved.warnings
        ],
    }


def _head(resolved: Resolved) -> Json:
    head: Json = {"model_type": resolved.model_type}
    if resolved.text_model_type != resolved.model_type:
        head["text_model_type"] = resolved.text_model_type
    head["layout"] = resolved.layout
    return head | ({"writes": resolved.writes} if resolved.writes else {})


def _entry(entry: Entry, context_length: int | None, faults: dict[Fault, None]) -> Json:
    held = entry.at(context_length)
    _check(held, faults)
    regimes = []
    for length in entry.lengths:
        values = entry.at(length)
        _check(values, faults)
        regimes.append({"context_length": length, **_urls(values)})
    beside = {"rotary_offset": entry.offset} if entry.offset else {}
    shown = {name: found.value for name, found in {**held, **beside}.items()}
    origin = {name: found.origin for name, found in {**held, **beside}.items()}
    origin.setdefault("attention_factor", f"computed: by rope_type {shown['rope_type']}")
    return {
        **shown,
        "attention_factor": None if faults else _attention_factor(held),
        "layers": "all" if entry.every_layer else entry.layers,
        "origin": origin,
        **_urls(held),
        **({"regimes": regimes} if regimes else {}),
    }


def _check(values: Mapping[str, ResolvedValue], faults: dict[Fault, None]) -> None:
    """Note what frequencies and table cannot be made of as faults in the body."""
    query = _query(values)
    for resource, asked in ((FREQUENCIES, _of_frequencies(query)), (ROPE, query)):
        try:
            document = table_document(resource, read_parameters(resource.parameters, asked))
            if sum(map(size_bytes, document.arrays.values())) > MAX_TABLE_BYTES:
                raise InvalidParameters(Fault(_LENGTH, None, f"{_LENGTH} has no room in a file"))
        except InvalidParameters as error:
            faults |= dict.fromkeys(_at(fault, values) for fault in error.faults)


def _urls(values: Mapping[str, ResolvedValue]) -> Json:
    query = {name: to_query(value) for name, value in _query(values).items()}
    frequencies, table = (
        f"{resource.path}?{urlencode(asked, safe=',')}"
        for resource, asked in ((FREQUENCIES, _of_frequencies(query)), (ROPE, query))
    )
    return {
        "frequencies": frequencies,
        "table": table,
        "file": table.replace(ROPE.path, f"{ROPE.path}.npy", 1),
    }


def _query(values: Mapping[str, ResolvedValue]) -> Json:
    """Give values as parameters, but those that only repeat others."""
    is_whole = values["rotary_dim"].value == values["head_dim"].value
    return {
        name: found.value for name, found in values.items() if name != "rotary_dim" or not is_whole
    }


def _of_frequencies(query: Json) -> Json:
    return {name: value for name, value in query.items() if name not in _OF_TABLES}


def _attention_factor(values: Mapping[str, ResolvedValue]) -> float:
    asked = _of_frequencies(_query(values))
    parameters = read_parameters(FrequenciesParameters, asked)
    return parameters.rule(parameters.head_dim).scale


def _at(fault: Fault, values: Mapping[str, ResolvedValue]) -> Fault:
    """Point at where the value of a parameter came from."""
    found = values.get(fault.where or "", values["rope_type"])
    return Fault(found.pointer, fault.value, fault.detail, in_body=True)


CONFIG = Endpoint(
    path="/rope/config",
    operation="RopeConfig",
    summary="The rotary settings of a model, from its config.json, and the URLs of its tables",
    parameters=ConfigParameters,
    answer=_report,
    says="The rotary settings of the model",
    report=ROPE_CONFIG,
    inputs=JsonObject(
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "max_position_embeddings": 131072,
            "rope_theta": 500000.0,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        }
    ),
)
