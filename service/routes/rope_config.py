"""``POST /rope/config``: the rotary settings of a model, and the URLs of its tables."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, WithJsonSchema

from service.analysis.array import TableRequest
from service.delivery.endpoints import ABSENT, Count, Endpoint, JsonObject, Number, Report
from service.delivery.parameters import read_parameters
from service.delivery.representation import linked_format
from service.encodings.family import Parameters
from service.encodings.rotary.angles import packed
from service.encodings.rotary.rope import Rope, RopeFrequencies
from service.encodings.rotary.rules import RULE_KEYS
from service.errors import Fault, InvalidBody, InvalidParameters
from service.formats.npy import NPY
from service.formats.safetensors_file import SAFETENSORS
from service.grammar import Integer
from service.models.config_values import MEANINGS, RULE, RULE_TYPES, ConfigWarning, ResolvedValue
from service.models.resolve import Resolved, resolve
from service.models.rotary_settings import LayerSettings
from service.numerics.dtypes import FLOAT32
from service.numerics.limits import MAX_LENGTH
from service.numerics.tables import Document, size_bytes
from service.routes.table_urls import PostingReport, Url, links_to
from service.settings import Settings

Layout = Literal["half", "interleaved"]
Layers = list[Count]
AtLeastOne = Annotated[int, Field(ge=1)]
RuleType = Annotated[str, Field(json_schema_extra={"enum": [*RULE_TYPES]})]
Origins = dict[str, str]


class TableUrls(PostingReport):
    """The URLs of the tables of rotary settings; ``pack`` is that of the layout."""

    frequencies: Url = Field(description="The frequencies, and the intermediates of the rule.")
    table: Url = Field(description="Cosines and sines, as JSON unless that would be too long.")
    file: Url = Field(description="Cosines and sines, as safetensors.")
    cos: Url = Field(description="The cosines, as npy.")
    sin: Url = Field(description="The sines, as npy.")
    apply: Url = Field(
        default=ABSENT,
        description="POST queries or keys to it to rotate them; absent for several position axes.",
    )
    shape: list[Count] = Field(description="Rows and width of the cosines, and of the sines.")
    dtype: str = Field(description="The type of their elements.")


class LengthRegime(TableUrls):
    """The tables at a context length from which on other frequencies apply."""

    context_length: AtLeastOne


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

    def lines(self) -> Iterator[str]:
        """Yield the file of each entry of ``rope``, then the warnings and the settings."""
        files = (entry.request(entry.file) for entry in self.rope.values())
        yield " ".join(files) or "no rotary embedding"
        yield from (f"warning: {warning.detail}" for warning in self.warnings)
        yield from super().lines()
        for label, entry in self.rope.items():
            yield from (f"{label}.{line}" for line in entry.lines())


_LENGTH = "max_position_embeddings"
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


def report_config(
    parameters: ConfigParameters, config: Mapping[str, Any], settings: Settings
) -> RopeConfigReport:
    """Return the report about a config; raises InvalidBody."""
    resolved, length = resolve(config, parameters.context_length), parameters.context_length
    check_settings(resolved.entries, length)
    optional: dict[str, Any] = {}
    if resolved.text_model_type != resolved.model_type:
        optional["text_model_type"] = resolved.text_model_type
    if resolved.writes:
        optional["writes"] = resolved.writes
    linker = SettingsLinker(resolved, settings)
    return RopeConfigReport(
        model_type=resolved.model_type,
        layout=resolved.layout,
        **optional,
        rope={entry.label: _settings(entry, length, linker) for entry in resolved.entries},
        attention=AttentionReport(**resolved.attention),
        warnings=[*map(WarningEntry.model_validate, (*resolved.warnings, *linker.warnings))],
    )


def _settings(
    entry: LayerSettings, context_length: int | None, linker: "SettingsLinker"
) -> RotarySettings:
    values = dict(entry.at(context_length))
    urls, attention_factor = linker.urls(entry, values), _rope(values).rotary_angles().scale
    if entry.offset:
        values["rotary_offset"] = entry.offset
    origin = {name: each.origin for name, each in values.items()}
    origin.setdefault("attention_factor", f"computed: by rope_type {values['rope_type'].value}")
    settings = {name: each.value for name, each in values.items()}
    settings["attention_factor"] = attention_factor
    if entry.lengths:
        settings["regimes"] = [
            LengthRegime(context_length=each, **linker.urls(entry, entry.at(each)))
            for each in entry.lengths
        ]
    layers = "all" if entry.every_layer else entry.layers
    return RotarySettings(**settings, **urls, layers=layers, origin=origin)


def check_settings(entries: Iterable[LayerSettings], context_length: int | None) -> None:
    """Raise InvalidBody for settings whose table cannot be computed."""
    values = [entry.at(each) for entry in entries for each in (context_length, *entry.lengths)]
    if faults := dict.fromkeys(chain.from_iterable(map(_faults, values))):
        raise InvalidBody.at(*faults)


def _faults(values: Mapping[str, ResolvedValue]) -> Iterator[Fault]:
    """Yield the faults in the config for which its table cannot be computed."""
    try:
        _rope(values).rotary_angles()
    except InvalidParameters as error:
        for fault in error.faults:
            origin = values.get(fault.where or "", values["rope_type"])
            yield Fault(origin.pointer, fault.value, fault.detail, in_body=True)


def _rope(values: Mapping[str, ResolvedValue]) -> Rope:
    """Return the request for the table; raises InvalidParameters."""
    return read_parameters(Rope, _query(values))


class SettingsLinker:
    """Makes the URLs of tables in the pack of a layout, with as many rows as one answer may have.

    Attributes:
        warnings: those about tables that have more rows.
    """

    def __init__(self, resolved: Resolved, settings: Settings) -> None:
        self.warnings: dict[ConfigWarning, None] = {}
        self._layout, self._writes = resolved.layout, resolved.writes
        self._settings = settings

    def urls(
        self, entry: LayerSettings, values: Mapping[str, ResolvedValue], rows: int | None = None
    ) -> dict[str, Any]:
        """Return the fields of TableUrls: tables with the rows that their frequencies are for.

        Args:
            entry: the settings.
            values: these at a context length.
            rows: another number of rows.
        """
        rope, rule, length = _rope(values), _query(values), values[_LENGTH]
        own = {name: rule.pop(name) for name in _TABLE_ONLY if name in rule}
        rotation = {
            "layout": self._layout,
            "output_layout": self._writes,
            "rotary_offset": entry.offset and entry.offset.value,
            "inverse": entry.model.type.inverse,
        }
        applied = own | {name: value for name, value in rotation.items() if value}
        rows = rows or values.get("context_length", length).value
        rows = self._rows(self._table(rope, rows), rows, length.pointer)
        table = self._table(rope, rows)
        if rows != length.value:
            own["seq_len"] = rows
        request = TableRequest("rope", own | {"pack": self._layout})
        frequencies = RopeFrequencies.of(rope.rule(rope.head_dim))
        requests: dict[str, tuple[TableRequest, str | None]] = {
            "frequencies": (TableRequest("rope/frequencies"), self._extension(frequencies)),
            "table": (request, self._extension(table)),
            "file": (request, SAFETENSORS.extension),
            "cos": (request.with_parameters(part="cos"), NPY.extension),
            "sin": (request.with_parameters(part="sin"), NPY.extension),
        }
        if entry.model.type.axes == 1:
            requests["apply"] = (TableRequest("rope/apply", applied), None)
        size = {"shape": list(table.shape or ()), "dtype": table.dtype}
        return links_to(requests, rule, self._settings) | size

    def _extension(self, document: Document) -> str:
        return linked_format(document, self._settings).extension

    def _table(self, rope: Rope, rows: int) -> Document:
        return packed(Rope.like(rope, seq_len=rows).rotary_angles(), self._layout, FLOAT32)

    def _rows(self, table: Document, rows: int, pointer: str) -> int:
        """Return how many of the rows one answer may have, with a warning if not all."""
        limit_bytes = self._settings.max_response_bytes
        excess_bytes = SAFETENSORS.body(table).limit_bytes - limit_bytes
        if excess_bytes <= 0:
            return rows
        row_bytes = sum(map(size_bytes, table.arrays.values())) // rows
        fewer: int = max(1, rows - -(-excess_bytes // row_bytes))
        detail = (
            f"the links have {fewer} of {rows} rows: an answer has at most {limit_bytes} "
            "bytes (POSREF_MAX_RESPONSE_BYTES); start requests later rows"
        )
        self.warnings[ConfigWarning("fewer-rows", detail, pointer)] = None
        return fewer


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
