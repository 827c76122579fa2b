"""``POST /rope/config``: the rotary settings of a model, and the URLs of its tables."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from pydantic import ConfigDict, Field

from service.delivery.endpoints import ABSENT, Count, Endpoint, JsonObject, Number, Report
from service.delivery.parameters import read_parameters
from service.delivery.representation import MAX_TABLE_BYTES
from service.encodings.family import Parameters
from service.encodings.rotary.angles import RotaryAngles
from service.encodings.rotary.rope import Rope, RopeFrequencies
from service.encodings.rotary.rules import RULE_KEYS
from service.errors import Fault, InvalidBody, InvalidParameters
from service.grammar import Integer, to_query
from service.models.config_values import MEANINGS, RULE, RULE_TYPES, ResolvedValue
from service.models.resolve import resolve
from service.models.rotary_settings import LayerSettings
from service.numerics.limits import MAX_LENGTH

Layout = Literal["half", "interleaved"]
Layers = list[Count]
AtLeastOne = Annotated[int, Field(ge=1)]
Url = Annotated[str, Field(json_schema_extra={"format": "uri-reference"})]
RuleType = Annotated[str, Field(json_schema_extra={"enum": [*RULE_TYPES]})]
Origins = dict[str, str]

_SCHEMA_OF_TYPE: dict[type, dict[str, Any]] = {
    float: {"type": "number"},
    int: {"type": "integer", "minimum": 1},
    bool: {"type": "boolean"},
    tuple[float, ...]: {"type": "array", "items": {"type": "number"}},
}


class TableUrls(Report):
    """The URLs of the tables of rotary settings."""

    frequencies: Url
    table: Url
    file: Url


class LengthRegime(TableUrls):
    """The tables at a context length from which on other frequencies apply."""

    context_length: AtLeastOne


def _add_rule_keys(schema: dict[str, Any]) -> None:
    """Add the config keys of frequency rules to the properties of a JSON schema."""
    for name, kind in RULE_KEYS.items():
        if name in RULE:
            schema["properties"].setdefault(name, _SCHEMA_OF_TYPE[kind.__origin__])
    schema["additionalProperties"] = False


class RotarySettings(TableUrls):
    """The rotary settings of some or all layers, with the keys of their frequency rule."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_add_rule_keys)

    head_dim: AtLeastOne = Field(
        description="The channels of a head that rotary embeddings apply to."
    )
    rotary_dim: AtLeastOne = Field(description="The number of them that are rotated.")
    rotary_offset: Count = Field(
        default=ABSENT, description="The channels before the first rotated one; 0 if absent."
    )
    rope_theta: Number
    rope_type: RuleType
    max_position_embeddings: AtLeastOne
    context_length: AtLeastOne = ABSENT
    attention_factor: Number = Field(
        description="The factor that multiplies every cosine and sine."
    )
    mrope_section: list[int] = ABSENT
    mrope_interleaved: bool = ABSENT
    partial_rotary_factor: Number = ABSENT
    layers: Literal["all"] | Layers | None = Field(
        description="The layers that have these settings, from 0; null where the config does not "
        "name them."
    )
    origin: Origins = Field(description="The source of each value.")
    regimes: list[LengthRegime] = ABSENT


class QueryTemperature(Report):
    """The factor, depending on the position, that multiplies each query."""

    formula: str
    layers: Layers = ABSENT
    attn_scale: Number = ABSENT
    floor_scale: Number = ABSENT
    llama_4_scaling_beta: Number = ABSENT
    original_max_position_embeddings: Number = ABSENT


class AttentionReport(Report):
    """The settings of attention that depend on positions."""

    softmax_scale_multiplier: Number = ABSENT
    query_temperature: QueryTemperature = ABSENT
    origin: Origins = ABSENT


class WarningEntry(Report):
    """A warning about the settings."""

    code: str = Field(
        description="\n".join(f"- {code}: {meaning}." for code, meaning in MEANINGS.items()),
        json_schema_extra={"enum": [*MEANINGS]},
    )
    detail: str
    pointer: str = Field(description="A JSON pointer into the config.")


class RopeConfigReport(Report):
    """The rotary settings of the model."""

    model_type: str | None
    text_model_type: str | None = ABSENT
    layout: Literal["half", "interleaved", "none"]
    writes: Layout = ABSENT
    rope: dict[str, RotarySettings]
    attention: AttentionReport
    warnings: list[WarningEntry]


_LENGTH = "max_position_embeddings"
# A cosine and a sine in float32.
_BYTES_PER_ANGLE = 8
_TABLE_ONLY = ("mrope_section", "mrope_interleaved")


class ConfigParameters(Parameters):
    """Parameters of a report about a config."""

    context_length: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_LENGTH,
        description="The context length of the model in use, for frequency rules that depend on it "
        "(dynamic, longrope); the original length unless given.",
        examples=[131072],
    )


def report_config(parameters: ConfigParameters, config: Mapping[str, Any]) -> RopeConfigReport:
    """Return the report about a config; raises InvalidBody."""
    resolved, length = resolve(config, parameters.context_length), parameters.context_length
    faults: dict[Fault, None] = {}
    for entry in resolved.entries:
        for each in (length, *entry.lengths):
            faults |= dict.fromkeys(_faults(entry.at(each)))
    if faults:
        raise InvalidBody.at(*faults)
    optional: dict[str, Any] = {}
    if resolved.text_model_type != resolved.model_type:
        optional["text_model_type"] = resolved.text_model_type
    if resolved.writes:
        optional["writes"] = resolved.writes
    return RopeConfigReport(
        model_type=resolved.model_type,
        layout=resolved.layout,
        **optional,
        rope={entry.label: _settings(entry, length) for entry in resolved.entries},
        attention=AttentionReport(**resolved.attention),
        warnings=[WarningEntry(**vars(warning)) for warning in resolved.warnings],
    )


def _settings(entry: LayerSettings, context_length: int | None) -> RotarySettings:
    values = dict(entry.at(context_length))
    urls, attention_factor = _urls(values), _angles(values).scale
    if entry.offset:
        values["rotary_offset"] = entry.offset
    origin = {name: each.origin for name, each in values.items()}
    origin.setdefault("attention_factor", f"computed: by rope_type {values['rope_type'].value}")
    settings = {name: each.value for name, each in values.items()}
    settings["attention_factor"] = attention_factor
    if entry.lengths:
        settings["regimes"] = [
            LengthRegime(context_length=each, **_urls(entry.at(each))) for each in entry.lengths
        ]
    layers = "all" if entry.every_layer else entry.layers
    return RotarySettings(**settings, **urls, layers=layers, origin=origin)


def _faults(values: Mapping[str, ResolvedValue]) -> Iterator[Fault]:
    """Yield the faults in the config for which its table cannot be computed."""
    try:
        angles = _angles(values)
        if _BYTES_PER_ANGLE * angles.rows * angles.count > MAX_TABLE_BYTES:
            raise InvalidParameters(
                Fault(_LENGTH, None, f"{_LENGTH} makes the table too large for a file")
            )
    except InvalidParameters as error:
        for fault in error.faults:
            origin = values.get(fault.where or "", values["rope_type"])
            yield Fault(origin.pointer, fault.value, fault.detail, in_body=True)


def _angles(values: Mapping[str, ResolvedValue]) -> RotaryAngles:
    """Return the angles of the table; raises InvalidParameters."""
    return read_parameters(Rope, _query(values)).rotary_angles()


def _urls(values: Mapping[str, ResolvedValue]) -> dict[str, str]:
    """Return the URLs of a table: the fields of TableUrls, by name."""
    query = {name: to_query(value) for name, value in _query(values).items()}
    of_frequencies = {name: text for name, text in query.items() if name not in _TABLE_ONLY}
    text = urlencode(query, safe=",")
    return {
        "frequencies": f"{RopeFrequencies.path}?{urlencode(of_frequencies, safe=',')}",
        "table": f"{Rope.path}?{text}",
        "file": f"{Rope.path}.npy?{text}",
    }


def _query(values: Mapping[str, ResolvedValue]) -> dict[str, Any]:
    """Return the parameters of the table, without a rotary_dim that repeats head_dim."""
    is_whole = values["rotary_dim"].value == values["head_dim"].value
    return {
        name: each.value for name, each in values.items() if name != "rotary_dim" or not is_whole
    }


CONFIG = Endpoint(
    path="/rope/config",
    operation="RopeConfig",
    summary="The rotary settings of a model, from its config.json, and the URLs of its tables",
    parameters=ConfigParameters,
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
    answer=report_config,
    report=RopeConfigReport,
)
