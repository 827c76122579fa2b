"""``POST /rope/config``: the rotary settings of a model, and the URLs of its tables."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, WithJsonSchema

from service.delivery.endpoints import ABSENT, Count, Endpoint, Number, Report
from service.encodings.rotary.rules import RULE_KEYS
from service.models.config_values import RULE, RULE_TYPES
from service.models.rotary_settings import LayerSettings
from service.models.translation import ModelDocument
from service.routes.model import DescribedModel, EncodingReport
from service.routes.model_links import (
    AtLeastOne,
    AttentionReport,
    ConfigParameters,
    Layers,
    LengthRegime,
    ModelFile,
    SettingsLinker,
    TableUrls,
    WarningEntry,
    rope_of,
)
from service.settings import Settings

Layout = Literal["half", "interleaved"]
RuleType = Annotated[str, Field(json_schema_extra={"enum": [*RULE_TYPES]})]
Origins = dict[str, str]
_ROTARY = {"rope", "rope-axial"}


def _add_rule_keys(schema: dict[str, Any]) -> None:
    """Add the config keys of frequency rules to the properties of a JSON schema."""
    for name, kind in RULE_KEYS.items():
        if name in RULE:
            plain: Any = AtLeastOne if kind.__origin__ is int else kind.__origin__
            schema["properties"].setdefault(name, TypeAdapter(plain).json_schema())
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
    rope_theta: Number = ABSENT
    rope_type: RuleType = ABSENT
    max_position_embeddings: AtLeastOne = ABSENT
    context_length: AtLeastOne = ABSENT
    attention_factor: Number = Field(
        description="The factor that multiplies every cosine and sine."
    )
    mrope_section: list[int] = ABSENT
    mrope_interleaved: bool = ABSENT
    mrope_layout: str = ABSENT
    partial_rotary_factor: Number = ABSENT
    layers: Annotated[
        Literal["all"] | Layers | None,
        WithJsonSchema(
            {
                "description": "The layers that have these settings: all, or a list of numbers "
                "from 0; null where the config does not name them."
            }
        ),
    ]
    origin: Origins = Field(description="The source of each value.")
    regimes: list[LengthRegime] = ABSENT

    def lines(self) -> Iterator[str]:
        yield from super().lines()
        for each in self.regimes or ():
            yield from (f"regimes.{each.context_length}.{line}" for line in each.lines())


class RopeConfigReport(Report):
    """The rotary settings of the model."""

    model_type: str | None
    text_model_type: str | None = ABSENT
    layout: Literal["half", "interleaved", "half_by_axis", "none"] = Field(
        description="The pairs of the text model, or else of the first tower."
    )
    writes: Layout = ABSENT
    rope: dict[str, RotarySettings]
    attention: AttentionReport
    warnings: list[WarningEntry]

    def lines(self) -> Iterator[str]:
        """Yield the file of each entry of ``rope``, then the warnings and the settings."""
        files = (entry.request(entry.file) for entry in self.rope.values())
        yield " ".join(files) or "no rotary embedding"
        yield from (f"warning: {warning.detail}" for warning in self.warnings)
        yield from super().lines()
        for label, entry in self.rope.items():
            yield from (f"{label}.{line}" for line in entry.lines())


def report_config(
    parameters: ConfigParameters, document: ModelDocument, settings: Settings
) -> RopeConfigReport:
    """Return the rotary settings of a model; raises InvalidBody or ModelNotKnown."""
    described = DescribedModel(parameters, document, settings)
    text = next((each.resolved for each in described.model.encodings if each.resolved), None)
    rope: dict[str, RotarySettings] = {}
    layouts = [text.layout] if text is not None and text.entries else []
    without: list[WarningEntry] = []
    for each in described.model.encodings:
        if each.settings is None:
            reported = described.report(each)
            rope |= _of_tower(each.id, reported)
            if each.kind in _ROTARY and each.id not in rope:
                detail = f"{each.id} has no table: {reported.reason}"
                without.append(WarningEntry(code="no-table", detail=detail, pointer=each.config))
            layouts += [reported.layout] if each.id in rope and reported.layout else []
        else:
            label = each.settings.label if each.resolved is text else each.id
            linker = described.linker(each.resolved)
            rope[label] = _settings(each.settings, parameters.context_length, linker)
    warnings = described.warnings()
    optional: dict[str, Any] = {}
    if text is not None and text.text_model_type != text.model_type:
        optional["text_model_type"] = text.text_model_type
    if text is not None and text.writes:
        optional["writes"] = text.writes
    return RopeConfigReport(
        model_type=described.model.model_type,
        layout=next(iter(layouts), "none"),
        **optional,
        rope=rope,
        attention=AttentionReport(**text.attention) if text else AttentionReport(),
        warnings=[each for each in warnings if each.code != "window-not-known"] + without,
    )


def _of_tower(name: str, encoding: EncodingReport) -> dict[str, RotarySettings]:
    """Return the settings of a tower by its name; {} if it has no rotary table."""
    links, values = encoding.links or {}, encoding.values or {}
    if encoding.kind not in _ROTARY or "frequencies" not in links:
        return {}
    head_dim = values["head_dim"].value if "head_dim" in values else encoding.shape[-1]
    layers = encoding.layers or {}
    settings = RotarySettings(
        **links,
        shape=encoding.shape,
        dtype=encoding.dtype,
        head_dim=head_dim,
        rotary_dim=head_dim,
        attention_factor=1.0,
        layers="all" if "all" in layers else layers.get("only"),
        origin={key: ", ".join(value.sources or (value.origin,)) for key, value in values.items()},
    )
    return {name: settings}


def _settings(
    entry: LayerSettings, context_length: int | None, linker: SettingsLinker
) -> RotarySettings:
    values = dict(entry.at(context_length))
    urls, attention_factor = linker.urls(entry, values), rope_of(values).rotary_angles().scale
    if entry.offset:
        values["rotary_offset"] = entry.offset
    origin = {name: str(each) for name, each in values.items()}
    origin.setdefault("attention_factor", f"computed: by rope_type {values['rope_type'].value}")
    settings = {name: each.value for name, each in values.items()}
    settings["attention_factor"] = attention_factor
    if entry.lengths:
        settings["regimes"] = linker.regimes(entry)
    layers = "all" if entry.every_layer else entry.layers
    return RotarySettings(**settings, **urls, layers=layers, origin=origin)


CONFIG = Endpoint(
    path="/rope/config",
    operation="RopeConfig",
    summary="The rotary settings of a model, from its config.json, and the URLs of its tables",
    parameters=ConfigParameters,
    inputs=ModelFile(
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
