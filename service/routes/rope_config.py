"""``/rope/config``: the rotary settings of a model, and the URLs of its tables."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from pydantic import Field

from service.configs.entries import Entry
from service.configs.lookup import Found
from service.configs.resolve import Resolved, resolve
from service.delivery.parameters import Parameters, read_parameters
from service.delivery.reports import Report
from service.delivery.representation import MAX_TABLE_BYTES
from service.errors import Fault, InvalidBody, InvalidParameters
from service.grammar import Integer, spelled
from service.routes.rope import FREQUENCIES, ROPE, FrequenciesParameters
from service.routes.rope_config_schema import ROPE_CONFIG
from service.tables.limits import MAX_LENGTH
from service.tables.table import size_bytes

Json = dict[str, Any]

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


def _check(values: Mapping[str, Found], faults: dict[Fault, None]) -> None:
    """Note what frequencies and table cannot be made of as faults in the body."""
    query = _query(values)
    for resource, asked in ((FREQUENCIES, _of_frequencies(query)), (ROPE, query)):
        try:
            document = resource.resolve(read_parameters(resource.parameters, asked))
            if sum(map(size_bytes, document.arrays.values())) > MAX_TABLE_BYTES:
                raise InvalidParameters(Fault(_LENGTH, None, f"{_LENGTH} has no room in a file"))
        except InvalidParameters as error:
            faults |= dict.fromkeys(_at(fault, values) for fault in error.faults)


def _urls(values: Mapping[str, Found]) -> Json:
    query = {name: spelled(value) for name, value in _query(values).items()}
    frequencies, table = (
        f"{resource.path}?{urlencode(asked, safe=',')}"
        for resource, asked in ((FREQUENCIES, _of_frequencies(query)), (ROPE, query))
    )
    return {
        "frequencies": frequencies,
        "table": table,
        "file": table.replace(ROPE.path, f"{ROPE.path}.npy", 1),
    }


def _query(values: Mapping[str, Found]) -> Json:
    """Give values as parameters, but those that only repeat others."""
    is_whole = values["rotary_dim"].value == values["head_dim"].value
    return {
        name: found.value for name, found in values.items() if name != "rotary_dim" or not is_whole
    }


def _of_frequencies(query: Json) -> Json:
    return {name: value for name, value in query.items() if name not in _OF_TABLES}


def _attention_factor(values: Mapping[str, Found]) -> float:
    asked = _of_frequencies(_query(values))
    parameters = read_parameters(FrequenciesParameters, asked)
    return parameters.rule(parameters.head_dim).scale


def _at(fault: Fault, values: Mapping[str, Found]) -> Fault:
    """Point at where the value of a parameter came from."""
    found = values.get(fault.where or "", values["rope_type"])
    return Fault(found.pointer, fault.value, fault.detail, in_body=True)


CONFIG = Report(
    path="/rope/config",
    operation="RopeConfig",
    summary="The rotary settings of a model, from its config.json, and the URLs of its tables",
    parameters=ConfigParameters,
    report=_report,
    says="The rotary settings of the model",
    schema=ROPE_CONFIG,
    example={
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
    },
)
