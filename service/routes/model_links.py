"""The links to the tables of a model, and what its reports share."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import isqrt
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from urllib.parse import parse_qsl, urlencode

from pydantic import BeforeValidator, ConfigDict, Field, create_model

from service.analysis.array import TableRequest
from service.delivery.endpoints import ABSENT, Count, JsonObject, Number, Report
from service.delivery.parameters import read_parameters
from service.delivery.representation import linked_format
from service.encodings.family import Parameters, optional
from service.encodings.resize.resize import Resize
from service.encodings.rotary.angles import packed
from service.encodings.rotary.rope import Rope, RopeFrequencies
from service.errors import Fault, InvalidBody, InvalidParameters
from service.formats.format import Block, Input, ReadableFormat
from service.formats.json_text import JSON
from service.formats.npy import NPY
from service.formats.raw import RAW
from service.formats.safetensors_file import SAFETENSORS
from service.grammar import Integer, to_query
from service.models.config_values import CODES, ConfigWarning, Origin, ResolvedValue
from service.models.describe import PartEncoding
from service.models.documents import format_names, read_document
from service.models.expressions import filled
from service.models.knowledge import SIZES, EncodingEntry, NumberedTokens
from service.models.resolve import Resolved
from service.models.rotary_settings import LayerSettings
from service.numerics.dtypes import FLOAT32
from service.numerics.limits import MAX_LENGTH
from service.numerics.tables import Document, size_bytes
from service.routes.table_urls import PostingReport, Url, links_to, url_of
from service.settings import Settings

GRID_AXES = ("depth", "height", "width")
Layers = list[Count]
AtLeastOne = Annotated[int, Field(ge=1)]

if TYPE_CHECKING:
    FormatName: TypeAlias = str
else:
    FormatName: TypeAlias = Literal[format_names()]


class OriginatedValue(Report):
    """A value and its origin."""

    model_config = ConfigDict(serialize_by_alias=True, populate_by_name=True)

    value: Any
    origin: Origin
    sources: list[str] = Field(
        default=ABSENT,
        alias="from",
        description="Pointers into the document, or the class and the version of its library.",
    )


class NumberingReport(Report):
    """The numbers of tokens, by the convention of /positions, with a request for an example."""

    convention: str | None = Field(description="Null where the code of the model is not known.")
    axes: list[str] = ABSENT
    asks: list[str] = Field(default=ABSENT, description="What a config does not have.")
    values: dict[str, OriginatedValue] = ABSENT
    rule: str = ABSENT
    url: Url = Field(default=ABSENT, description="Where to POST post.")
    post: dict[str, Any] = Field(default=ABSENT, description="It has examples of asks.")
    template: dict[str, Any] = Field(
        default=ABSENT, description="post with {depth}, {height} and {width} of the grid."
    )
    table: Url = Field(default=ABSENT, description="Where to POST the answer for its table.")

    def lines(self) -> Iterator[str]:
        if self.post:
            yield f"position_ids: POST {json.dumps(self.post)} to {self.url}"


# The parameters of a table that say where the cells of its grid are.
_OF_CELLS = ("grid", "spatial_merge_size", "grid_step", "grid_offset", "fps")


def numbering_report(
    numbered: NumberedTokens,
    values: dict[str, OriginatedValue],
    asked: Mapping[str, ResolvedValue],
    file: str,
) -> NumberingReport:
    """Return the report of how tokens are numbered, with the grid of the request or its example.

    ``file`` is the URL of the table of that grid, if there is one.
    """
    own, body = numbered.numbering, numbered.body
    grid = [asked[axis].value for axis in ("grid", *GRID_AXES) if axis in asked]
    grid = [*grid[0]][:3] if "grid" in asked else grid
    sizes = dict(zip(SIZES, [1] * (3 - len(grid)) + grid, strict=True))
    fields = {"axes": [*own.axes], "asks": [*own.asks], "values": values, "rule": own.rule}
    if body is not None:
        post = filled(body, lambda text: sizes.get(text, text))
        template = body if post != body else None
        fields |= {"url": "/positions", "post": post, "template": template}
        path, _, query = file.partition("?")
        if path.startswith("/rope/axial"):
            others = parse_qsl(query, keep_blank_values=True)
            kept: dict[str, Any] = {name: each for name, each in others if name not in _OF_CELLS}
            fields["table"] = f"{path}?{urlencode(kept | {**own.table}, safe=',:')}"
    given = {name: each for name, each in fields.items() if each}
    return NumberingReport(convention=own.convention, **given)


class TableUrls(PostingReport):
    """The URLs of the tables of rotary settings; ``pack`` is that of the layout."""

    frequencies: Url = Field(description="The frequencies, and the intermediates of the rule.")
    table: Url = Field(description="Cosines and sines, as JSON unless that would be too long.")
    file: Url = Field(description="Cosines and sines, as safetensors.")
    cos: Url = Field(
        default=ABSENT, description="The cosines, as npy; absent if the table is one array."
    )
    sin: Url = Field(default=ABSENT, description="The sines, as npy.")
    apply: Url = Field(
        default=ABSENT,
        description="POST queries or keys to it to rotate them, with positions on several axes.",
    )
    shape: list[Count] = Field(description="Rows and width of the cosines, and of the sines.")
    dtype: str = Field(description="The type of their elements.")


class LengthRegime(TableUrls):
    """The tables at a context length from which on other frequencies apply."""

    context_length: AtLeastOne


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
    origin: dict[str, Annotated[str, BeforeValidator(str)]] = ABSENT


_LENGTH = "max_position_embeddings"
_TABLE_ONLY = ("mrope_section", "mrope_interleaved", "mrope_layout")


class WarningEntry(Report):
    """A warning about the settings."""

    code: str = Field(
        description="What it is about; docs/configs.md explains each.",
        json_schema_extra={"enum": [*CODES]},
    )
    detail: str
    pointer: str = Field(description="A JSON pointer into the config.")


CONTEXT_LENGTH: Any = Field(
    default=None,
    ge=1,
    le=MAX_LENGTH,
    description="The context length of the model in use, for frequency rules that depend on it "
    "(dynamic, longrope); the original length unless given.",
    examples=[131072],
)
"""The parameter context_length of a config."""


class ConfigParameters(Parameters):
    """Parameters of a report about a config."""

    context_length: Integer | None = CONTEXT_LENGTH
    format: FormatName | None = optional(
        "The format of the document; found in its content unless given.", "gguf"
    )


Library: TypeAlias = Literal[
    "transformers", "diffusers", "vllm", "sglang", "flash_attn", "onnx", "ggml"
]

if TYPE_CHECKING:
    LibraryParameters = ConfigParameters
else:
    # No field of a class has the name of a Python keyword.
    LibraryParameters = create_model(
        "LibraryParameters",
        __base__=ConfigParameters,
        **{
            "for": (
                Library | None,
                optional(
                    "The library whose pack rotary tables have; the library of the model's class "
                    "unless given.",
                    "onnx",
                ),
            )
        },
    )


class FoundFormat(Report):
    """The format of the document."""

    name: str
    found_by: str = Field(description="The key or the bytes that tell the format.")


class Knowledge(Report):
    """The library that the answer is based on."""

    library: str | None
    status: Literal["known", "assumed"] = Field(
        description="known: the class is one of the library; assumed: the type is not known, and "
        "its config has the rotary settings, or a key that looks positional is not known."
    )


# Measured: a model of a text and a vision part, and a config of 100,000 keys.
_MODEL_SECONDS = 0.005
_KEY_SECONDS = 4e-6


def _no_arrays(body: Block, names: Sequence[str]) -> Input:  # noqa: ARG001
    return Input({})


class ModelFile(JsonObject):
    """A file that describes a model: JSON, YAML, a command line, or the head of a binary file."""

    shorter = "its head: a file is read as far as it goes"

    formats = MappingProxyType(
        {
            JSON.media_type: JSON,
            RAW.media_type: replace(RAW, name="a file", read=_no_arrays, with_header=None),
            "text/plain": replace(JSON, name="text", media_type="text/plain"),
        }
    )

    def read(self, form: ReadableFormat, body: Block) -> tuple[Mapping[str, Any], Any]:  # noqa: ARG002
        return {}, body

    def seconds_of(self, elements: int) -> float:
        return _MODEL_SECONDS + _KEY_SECONDS * elements

    def arguments(self, parameters: Parameters, content: Any) -> tuple[Any, ...]:
        assert isinstance(parameters, ConfigParameters)
        return (read_document(content, parameters.format),)


def check_settings(entries: Iterable[LayerSettings], context_length: int | None) -> None:
    """Raise InvalidBody for settings whose table cannot be computed."""
    values = [entry.at(each) for entry in entries for each in (context_length, *entry.lengths)]
    if faults := dict.fromkeys(chain.from_iterable(map(_faults, values))):
        raise InvalidBody.at(*faults)


def _faults(values: Mapping[str, ResolvedValue]) -> Iterator[Fault]:
    """Yield the faults in the config for which its table cannot be computed."""
    try:
        rope_of(values).rotary_angles()
    except InvalidParameters as error:
        for fault in error.faults:
            origin = values.get(fault.where or "", values["rope_type"])
            is_own = fault.where in values and origin.origin == "config"
            near = fault.suggestion if is_own else None
            yield Fault(origin.pointer, fault.value, fault.detail, in_body=True, suggestion=near)


def settings_at(
    entry: LayerSettings, context_length: int | None, rows: int | None
) -> dict[str, ResolvedValue]:
    """Return the values of settings at a context length; unless given, at that of so many rows.

    More positions than the original length are those of a longer context, which has frequencies
    of its own.
    """
    is_beyond = context_length is None and rows is not None
    if not is_beyond or not rows or rows <= min(entry.lengths, default=rows):
        return entry.at(context_length)
    values = entry.at(rows)
    return {**values, "context_length": replace(values["context_length"], sources=("?seq_len",))}


def rope_of(values: Mapping[str, ResolvedValue]) -> Rope:
    """Return the request for the table; raises InvalidParameters."""
    return read_parameters(Rope, rope_query(values))


def table_requests(
    request: TableRequest, document: Document, settings: Settings
) -> dict[str, tuple[TableRequest, str | None]]:
    """Return the requests for a table, as JSON where that is short, as a file, and by its parts."""
    binary = NPY if len(document.arrays) == 1 else SAFETENSORS
    form = linked_format(document, settings)
    requests = {"table": (request, form.extension), "file": (request, binary.extension)}
    for part in document.arrays if document.has_parts else ():
        requests[part] = (request.with_parameters(part=part), NPY.extension)
    return {**requests}


def examples_told(entry: EncodingEntry, asked: Mapping[str, ResolvedValue]) -> dict[str, str]:
    """Return what parameters that callers choose are, with the examples that the links have."""
    return {
        name: f"{text}; {to_query(asked[name].value)} in the links is an example"
        for name, text in entry.asks.items()
        if name in asked and asked[name].origin == "example"
    }


def bias_link(entry: EncodingEntry, query: Mapping[str, Any]) -> dict[str, str]:
    """Return the URL of the biases of slopes, for a few keys; {} if there are none."""
    own = {**query, "convention": entry.bias, "key_len": 8}
    return {"bias": url_of(TableRequest("relative/alibi", own))} if entry.bias else {}


def resize_link(
    encoding: PartEncoding, entry: EncodingEntry, grid: Sequence[int]
) -> dict[str, Any]:
    """Return the URLs that resize a learned table to a grid, or why there are none.

    Without a grid, the new one is twice the old one.
    """
    query = {name: each.value for name, each in encoding.resized.items()}
    reason, is_rearranged = entry.not_resized, query.pop("is_rearranged", False)
    if missing := ", ".join(name for name in entry.resized if name not in encoding.resized):
        return {"not_resized": f"neither the config nor its class has {missing}"}
    around = {name: query.pop(name) for name in ("kept", "dropped", "kept_behind") if name in query}
    if query and "old_size" not in query:
        rows = encoding.shape[-2].value - sum(around.values()) if len(encoding.shape) > 1 else 0
        query["old_size"] = isqrt(max(rows, 0))
        if rows < 1 or query["old_size"] ** 2 != rows:
            reason = f"the library reads {rows} rows as a square"
    if reason or not query:
        return {"not_resized": reason} if reason else {}
    old = _sides(query["old_size"])
    is_map = query.get("convention") == "sam_rel_pos"
    twice = [each + 1 if is_map else 2 * each for each in (old[0], old[0], old[-1])]
    asked = list(grid)[-3:]
    sizes = dict(zip(SIZES, (*twice[: 3 - len(asked)], *asked), strict=True))
    size = _sides(query.get("size", SIZES[1:]))
    query |= {"old_size": old, "size": tuple(sizes.get(each, each) for each in size)}
    try:
        read_parameters(Resize, query).document()
    except InvalidParameters as error:
        return {"not_resized": error.detail}
    links = {"resized": url_of(TableRequest("resize", query), SAFETENSORS.extension)}
    if not is_rearranged:
        applied = query | ({"num_prefix_tokens": around["kept"]} if "kept" in around else {})
        links["resized_apply"] = url_of(TableRequest("resize/apply", applied))
    return {**links, "resized_around": around}


def _sides(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


class SettingsLinker:
    """Makes the URLs of tables in a pack, with as many rows as one answer may have.

    Attributes:
        warnings: those about tables that have more rows.
    """

    def __init__(self, resolved: Resolved, settings: Settings, pack: str | None = None) -> None:
        self.warnings: dict[ConfigWarning, None] = {}
        self._layout, self._writes = resolved.layout, resolved.writes
        self._pack, self._settings = pack or resolved.layout, settings

    def urls(
        self, entry: LayerSettings, values: Mapping[str, ResolvedValue], rows: int | None = None
    ) -> dict[str, Any]:
        """Return the fields of TableUrls: tables with the rows that their frequencies are for.

        Args:
            entry: the settings.
            values: these at a context length.
            rows: another number of rows.
        """
        rope, rule, length = rope_of(values), rope_query(values), values[_LENGTH]
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
        request = TableRequest("rope", own | {"pack": self._pack})
        frequencies = RopeFrequencies.of(rope.rule(rope.head_dim))
        extension = linked_format(frequencies, self._settings).extension
        requests: dict[str, tuple[TableRequest, str | None]] = {
            "frequencies": (TableRequest("rope/frequencies"), extension),
            **table_requests(request, table, self._settings),
            "apply": (TableRequest("rope/apply", applied), None),
        }
        size = {"shape": list(table.shape or ()), "dtype": table.dtype}
        return links_to(requests, rule, self._settings) | size

    def regimes(self, entry: LayerSettings) -> list[LengthRegime]:
        """Return the tables at a context length of each regime; none for a single regime."""
        return [
            LengthRegime(context_length=each, **self.urls(entry, entry.at(each)))
            for each in entry.lengths
        ]

    def _table(self, rope: Rope, rows: int) -> Document:
        return packed(Rope.like(rope, seq_len=rows).rotary_angles(), self._pack, FLOAT32)

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


def rope_query(values: Mapping[str, ResolvedValue]) -> dict[str, Any]:
    """Return the parameters of the table, without a rotary_dim that repeats head_dim."""
    is_whole = values["rotary_dim"].value == values["head_dim"].value
    return {
        name: each.value for name, each in values.items() if name != "rotary_dim" or not is_whole
    }
