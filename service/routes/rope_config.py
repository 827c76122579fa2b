"""``/rope/config``: the rotary settings of a model, and the URLs of its tables."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from pydantic import Field

from service.configs.entries import Entry
from service.configs.lookup import Found
from service.configs.resolve import Resolved, resolve
from service.delivery.parameters import Parameters, read_parameters
from service.delivery.reports import Report
from service.errors import Fault, InvalidBody, InvalidParameters
from service.grammar import Integer
from service.routes.rope import FREQUENCIES, ROPE, RopeParameters

Json = dict[str, Any]

_OF_TABLES = ("mrope_section", "mrope_interleaved")


class ConfigParameters(Parameters):
    """Parameters of a report about a config."""

    context_length: Integer | None = Field(
        default=None,
        ge=1,
        le=2**62,
        description="The length that the model runs at, for frequency rules that depend on it "
        "(dynamic, longrope); the original one unless given.",
        examples=[131072],
    )


def _report(parameters: ConfigParameters, config: Mapping[str, Any]) -> Json:
    resolved = resolve(config)
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
    urls = _urls(held, faults)
    regimes = [
        {"context_length": length, **_urls(entry.at(length), faults)} for length in entry.lengths
    ]
    scale = _attention_factor(held)
    shown = {name: found.value for name, found in held.items()}
    origin = {name: found.origin for name, found in held.items()}
    origin.setdefault("attention_factor", f"computed: by rope_type {shown['rope_type']}")
    return {
        **shown,
        "attention_factor": scale,
        "layers": "all" if entry.every_layer else entry.layers,
        "origin": origin,
        **urls,
        **({"regimes": regimes} if regimes else {}),
    }


def _urls(values: Mapping[str, Found], faults: dict[Fault, None]) -> Json:
    """Give the URLs of frequencies and table; what they cannot say is a fault in the body."""
    query = dict(_query(values))
    plain = {name: value for name, value in query.items() if name not in _OF_TABLES}
    urls = {}
    for name, resource, asked in (("frequencies", FREQUENCIES, plain), ("table", ROPE, query)):
        try:
            resource.resolve(read_parameters(resource.parameters, asked))
        except InvalidParameters as error:
            faults |= dict.fromkeys(_at(fault, values) for fault in error.faults)
        urls[name] = f"{resource.path}?{urlencode(asked, safe=',')}"
    return urls


def _query(values: Mapping[str, Found]) -> Iterator[tuple[str, str]]:
    """Spell values as parameters of a query, but those that only repeat others."""
    is_whole = values["rotary_dim"].value == values["head_dim"].value
    for name, found in values.items():
        if name != "rotary_dim" or not is_whole:
            yield name, _spelled(found.value)


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(repr, value))
    return value if isinstance(value, str) else repr(value)


def _at(fault: Fault, values: Mapping[str, Found]) -> Fault:
    """Point at where the value of a parameter came from."""
    found = values.get(fault.where or "", values["rope_type"])
    return Fault(found.pointer, fault.value, fault.detail, in_body=True)


def _attention_factor(values: Mapping[str, Found]) -> float | None:
    try:
        parameters = read_parameters(RopeParameters, dict(_query(values)))
        return parameters.rule(parameters.head_dim).scale
    except InvalidParameters:
        return None


CONFIG = Report(
    path="/rope/config",
    operation="RopeConfig",
    summary="The rotary settings of a model, from its config.json, and the URLs of its tables",
    parameters=ConfigParameters,
    report=_report,
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
