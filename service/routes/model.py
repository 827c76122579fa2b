"""``POST /model``: every positional encoding of a model, and the URLs of its tables."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from service.analysis.array import TableRequest
from service.delivery.endpoints import ABSENT, Count, Endpoint, JsonObject, Report
from service.delivery.parameters import read_parameters
from service.delivery.plans import table_document
from service.delivery.representation import linked_format
from service.encodings.family import Integers, Parameters, Reals, optional
from service.errors import Fault, InvalidBody, InvalidParameters
from service.formats.format import Block, Input, ReadableFormat
from service.formats.json_text import JSON
from service.formats.npy import NPY
from service.formats.raw import RAW
from service.formats.safetensors_file import SAFETENSORS
from service.grammar import Integer, to_query
from service.models.config_values import ConfigWarning, ResolvedValue
from service.models.describe import PartEncoding, describe
from service.models.documents import format_names, read_document
from service.models.expressions import FoundValue, Origin
from service.models.knowledge import EncodingEntry
from service.models.resolve import Resolved
from service.models.rotary_settings import LayerSettings
from service.models.translation import ModelDocument
from service.numerics.limits import MAX_LENGTH
from service.numerics.tables import Document
from service.routes.rope_config import (
    AttentionReport,
    ConfigParameters,
    LengthRegime,
    SettingsLinker,
    check_settings,
)
from service.routes.table_urls import PostingReport, Url, links_to, table_at, url_of
from service.settings import Settings

_GRID_AXES = ("depth", "height", "width")
_COMPUTED: Origin = "computed"
_POINTER = re.compile(r"(?<![\w/.])/[A-Za-z_][\w./~-]*")
_LINKS = ("frequencies", "table", "file", "cos", "sin", "apply")


if TYPE_CHECKING:
    FormatName: TypeAlias = str
else:
    FormatName: TypeAlias = Literal[format_names()]


def _no_arrays(body: Block, names: Sequence[str]) -> Input:  # noqa: ARG001
    return Input({})


class ModelFile(JsonObject):
    """A file that describes a model: JSON, YAML, a command line, or the head of a binary file."""

    formats = MappingProxyType(
        {
            JSON.media_type: JSON,
            RAW.media_type: replace(RAW, name="a file", read=_no_arrays, with_header=None),
            "text/plain": replace(JSON, name="text", media_type="text/plain"),
        }
    )

    def read(self, form: ReadableFormat, body: Block) -> tuple[Mapping[str, Any], Any]:  # noqa: ARG002
        return {}, body

    def arguments(self, parameters: Parameters, content: Any) -> tuple[Any, ...]:
        assert isinstance(parameters, ModelParameters)
        return (read_document(content, parameters.format),)


class ModelParameters(ConfigParameters):
    """Parameters of a report about a model: what no config has."""

    grid: Integers | None = optional(
        "The grid of tokens of a picture or video in the links: height and width, or frames, "
        "height and width; an example unless given.",
        "1,34,46",
        max_length=4,
    )
    seq_len: Integer | None = optional(
        "The number of positions in the links.", 4096, ge=1, le=MAX_LENGTH
    )
    timesteps: Reals | None = optional("The timesteps in the links.", "999,500,1")
    format: FormatName | None = optional(
        "The format of the document; found in its content unless given.", "gguf"
    )


class FoundFormat(Report):
    """The format of the document."""

    name: str
    found_by: str = Field(description="The key or the bytes that tell the format.")


class Knowledge(Report):
    """What the answer is based on."""

    library: str | None
    status: Literal["known", "assumed"] = Field(
        description="known: the class is one of the library; assumed: the type is not known, and "
        "its config has the rotary settings."
    )


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


class EncodingReport(PostingReport):
    """One positional encoding of the model."""

    id: str
    at: str = Field(description="The path of its module or function.")
    config: str = Field(description="The JSON pointer to the config of its part of the model.")
    kind: str
    known: bool = Field(description="Whether the code of its module is known.")
    served: bool = Field(description="Whether there is a table of it here.")
    reason: str = Field(default=ABSENT, description="Why there is no table.")
    layers: dict[str, Any] = Field(
        default=ABSENT, description="Which layers have it: all of a number, or only those listed."
    )
    layout: Literal["half", "interleaved"] = ABSENT
    writes: Literal["half", "interleaved"] = ABSENT
    counts: str = Field(default=ABSENT, description="What its positions count.")
    asks: dict[str, str] = Field(
        default=ABSENT,
        description="The parameters that no config has; links have examples of them.",
    )
    values: dict[str, OriginatedValue] = ABSENT
    untouched_tokens: list[OriginatedValue] = ABSENT
    shape: list[Count] = Field(default=ABSENT, description="The shape of the table.")
    dtype: str = Field(default=ABSENT, description="The type of its elements.")
    stored: str = Field(default=ABSENT, description="Where the numbers are: in the checkpoint.")
    resize: str = Field(default=ABSENT, description="How the library resizes the table.")
    attention: AttentionReport = ABSENT
    regimes: list[LengthRegime] = ABSENT
    links: dict[str, Url] = ABSENT
    templates: dict[str, str] = Field(
        default=ABSENT, description="The links with {name} in place of each parameter in asks."
    )
    bytes: dict[str, Count] = Field(
        default=ABSENT, description="The length of the file at each link, where it is known."
    )
    source: str = Field(default=ABSENT, description="The class or function of the library.")

    def lines(self) -> Iterator[str]:
        for name, link in (self.links or {}).items():
            yield f"{self.id}.{name}: {self.request(link)}"
        for name, value in (self.values or {}).items():
            yield f"{self.id}.{name}: {to_query(value.value)} ({value.origin})"
        if self.reason:
            yield f"{self.id}.reason: {self.reason}"


class ModelWarning(Report):
    """A value that is assumed, ignored, or read differently elsewhere."""

    code: str
    detail: str
    pointer: str = Field(description="A JSON pointer, or the name of a key, in what was sent.")


class ModelReport(Report):
    """Every positional encoding of the model."""

    format: FoundFormat
    model_type: str | None
    knowledge: Knowledge
    encodings: list[EncodingReport]
    reason: str = Field(default=ABSENT, description="Why there is no encoding.")
    weights: str = Field(
        default=ABSENT, description="Where rows of weights stand in another order than elsewhere."
    )
    read: dict[str, Any] = Field(
        default=ABSENT, description="What was read of a file that may be cut."
    )
    unread: list[str] = Field(description="Pointers to positional keys without effect.")
    not_understood: list[str] = Field(
        description="Pointers to keys that look positional and are not understood."
    )
    warnings: list[ModelWarning]

    def lines(self) -> Iterator[str]:
        """Yield the number of encodings, then the links and values of each, then warnings."""
        kinds = ", ".join(each.id for each in self.encodings) or "no positional encoding"
        yield f"{kinds} ({self.model_type or self.format.name})"
        yield from super().lines()
        yield from (f"warning: {warning.detail}" for warning in self.warnings)
        for each in self.encodings:
            yield from each.lines()


def report_model(
    parameters: ModelParameters, document: ModelDocument, settings: Settings
) -> ModelReport:
    """Return the report about a model; raises InvalidBody, InvalidParameters or ModelNotKnown."""
    try:
        return _reported(parameters, document, settings)
    except InvalidBody as error:
        faults = [replace(each, where=document.pointer(each.where or "")) for each in error.faults]
        raise type(error)(error.detail, faults=faults) from error


def _reported(
    parameters: ModelParameters, document: ModelDocument, settings: Settings
) -> ModelReport:
    model = describe(document, parameters.context_length)
    texts = [each.settings for each in model.encodings if each.settings]
    check_settings(texts, parameters.context_length)
    linkers = _Linkers(parameters, settings, document)
    encodings = [_report(each, linkers) for each in model.encodings]
    warnings = [
        *map(ModelWarning.model_validate, document.warnings),
        *map(linkers.sent, (*model.warnings, *linkers.warnings())),
    ]
    given = {"reason": model.reason, "weights": document.weights, "read": document.read}
    unread = [each.pointer for each in warnings if each.code == "key-not-read"]
    unknown = [each.pointer for each in warnings if each.code == "unknown-rope-key"]
    return ModelReport(
        format=FoundFormat(name=document.format, found_by=document.found_by),
        model_type=model.model_type,
        knowledge=Knowledge(library=model.library, status=model.status),
        encodings=encodings,
        unread=list(dict.fromkeys((*unread, *model.unread))),
        not_understood=list(dict.fromkeys((*document.not_understood, *unknown))),
        warnings=warnings,
        **{name: each for name, each in given.items() if each is not None},
    )


@dataclass
class _Linkers:
    """The parameters and limits of links, and the linkers of the text models."""

    parameters: ModelParameters
    settings: Settings
    document: ModelDocument
    of_text: dict[int, SettingsLinker] = field(default_factory=dict)

    def of(self, resolved: Resolved) -> SettingsLinker:
        return self.of_text.setdefault(id(resolved), SettingsLinker(resolved, self.settings))

    def warnings(self) -> Iterator[ConfigWarning]:
        for linker in self.of_text.values():
            yield from linker.warnings

    def sent(self, warning: ConfigWarning) -> ModelWarning:
        """Return a warning with pointers into what was sent."""
        detail, pointer = self.in_terms(warning.detail), self.document.pointer(warning.pointer)
        return ModelWarning(code=warning.code, detail=detail, pointer=pointer)

    def in_terms(self, text: str) -> str:
        """Return a text with pointers into what was sent."""
        return _POINTER.sub(lambda match: self.document.pointer(match[0]), text)

    def found(self, found: FoundValue) -> OriginatedValue:
        return self.value(found.value, found.origin, found.sources)

    def value(self, value: Any, origin: Origin, sources: Iterable[str]) -> OriginatedValue:
        """Return a value with its origin in what was sent."""
        listed = [*sources]
        assumed = [self.document.assumed[each] for each in listed if each in self.document.assumed]
        if origin == "config" and assumed:
            origin, listed = "class default", assumed
        value = list(value) if isinstance(value, tuple) else value
        return OriginatedValue(value=value, origin=origin, sources=[*map(self.in_terms, listed)])


def _report(encoding: PartEncoding, linkers: _Linkers) -> EncodingReport:
    """Return the report of an encoding; raises InvalidBody or InvalidParameters."""
    fields: dict[str, Any] = {
        "id": encoding.id,
        "at": encoding.at,
        "config": encoding.config,
        "kind": encoding.kind,
        "known": encoding.is_known,
    }
    optional_fields: dict[str, Any] = {"reason": encoding.reason, "layers": dict(encoding.layers)}
    if encoding.settings is not None:
        optional_fields |= _of_text(encoding.settings, encoding.resolved, linkers)
    elif encoding.entry is not None:
        optional_fields |= _of_entry(encoding, encoding.entry, linkers)
    else:
        optional_fields["values"] = {
            name: linkers.found(each) for name, each in encoding.values.items()
        }
        optional_fields["shape"] = [each.value for each in encoding.shape]
    given = {name: each for name, each in optional_fields.items() if each}
    return EncodingReport(**fields, served="links" in given, **given)


def _of_text(
    settings: LayerSettings, resolved: Resolved | None, linkers: _Linkers
) -> dict[str, Any]:
    """Return the fields of a rotary embedding of a text model."""
    assert resolved is not None
    linker, length = linkers.of(resolved), linkers.parameters.context_length
    values = settings.at(length)
    urls = linker.urls(settings, values, linkers.parameters.seq_len)
    if settings.offset:
        values["rotary_offset"] = settings.offset
    return {
        "layout": resolved.layout,
        "writes": resolved.writes,
        "values": {name: _originated(each, linkers) for name, each in values.items()},
        "attention": AttentionReport(**resolved.attention) if resolved.attention else None,
        "links": {name: urls.pop(name) for name in _LINKS if name in urls},
        "regimes": [
            LengthRegime(context_length=each, **linker.urls(settings, settings.at(each)))
            for each in settings.lengths
        ],
        **urls,
    }


def _originated(resolved: ResolvedValue, linkers: _Linkers) -> OriginatedValue:
    """Return a value of a text model, with its origin in the terms of all other values."""
    origin, kind = resolved.origin.removeprefix("computed: ").removeprefix("alias "), _COMPUTED
    if resolved.origin.startswith(("/", "alias /")):
        kind = "config"
    elif resolved.origin.startswith("class default"):
        kind = "class default"
    elif resolved.origin.startswith("?"):
        kind = "request"
    return linkers.value(resolved.value, kind, [origin])


def _of_entry(encoding: PartEncoding, entry: EncodingEntry, linkers: _Linkers) -> dict[str, Any]:
    """Return the fields of an encoding whose table, if any, is named by its entry."""
    values = dict(encoding.values)
    fields: dict[str, Any] = {
        "layout": entry.layout,
        "writes": entry.writes,
        "counts": entry.counts,
        "asks": dict(entry.asks),
        "values": {name: linkers.found(each) for name, each in values.items()},
        "untouched_tokens": [*map(linkers.found, encoding.untouched_tokens)],
        "shape": [each.value for each in encoding.shape],
        "stored": entry.stored,
        "resize": entry.resize,
        "source": entry.source,
    }
    endpoint = table_at(entry.url or "")
    if entry.url is None or entry.not_served or endpoint is None:
        return fields
    asked = _asked(encoding, linkers.parameters)
    query = {name: each.value for name, each in (values | asked).items()}
    if entry.pack is not None:
        query["pack"] = entry.pack
    document = _document(endpoint, query, values | asked)
    fields["values"] |= {name: linkers.found(each) for name, each in asked.items()}
    fields["shape"] = list(document.shape or ())
    return fields | _links(endpoint, document, query, tuple(asked), linkers.settings)


def _asked(encoding: PartEncoding, parameters: ModelParameters) -> dict[str, FoundValue]:
    """Return the values of the parameters that no config has: those of the request, or examples."""
    asked = dict(encoding.asked)
    for name in parameters.model_fields_set & {"grid", "seq_len", "timesteps"}:
        value = getattr(parameters, name)
        if name in asked:
            asked[name] = FoundValue(value, "request", (f"?{name}",))
        elif name == "grid":
            own = [axis for axis in _GRID_AXES if axis in asked]
            if own and len(own) <= len(value):
                lengths = zip(own, value[-len(own) :], strict=True)
                asked |= {axis: FoundValue(each, "request", ("?grid",)) for axis, each in lengths}
    return asked


def _document(
    endpoint: Endpoint, query: Mapping[str, Any], values: Mapping[str, FoundValue]
) -> Document:
    """Return the table of a query; its errors name the values in the document or the request."""
    try:
        return table_document(endpoint, read_parameters(endpoint.parameters, query))
    except InvalidParameters as error:
        faults = []
        for fault in error.faults:
            found = values.get(fault.where or "")
            if found is not None and found.origin == "request":
                raise InvalidParameters(fault) from error
            pointers = [each for each in found.sources if each[:1] in {"", "/"}] if found else []
            pointer = pointers[0] if pointers else ""
            faults.append(Fault(pointer, fault.value, fault.detail, in_body=True))
        raise InvalidBody.at(*faults) from error


def _links(
    endpoint: Endpoint,
    document: Document,
    query: Mapping[str, Any],
    asked: tuple[str, ...],
    settings: Settings,
) -> dict[str, Any]:
    """Return the links to a table, their templates, and the lengths of the files."""
    path, own = endpoint.path[1:], {}
    form = linked_format(document, settings)
    fixed = {name: value for name, value in query.items() if name not in asked}
    mine = {name: value for name, value in query.items() if name in asked}
    requests = {"table": (TableRequest(path, mine), None if form is JSON else form.extension)}
    binary = NPY if len(document.arrays) == 1 else SAFETENSORS
    requests["file"] = (TableRequest(path, mine), binary.extension)
    if len(document.arrays) > 1 and "part" in endpoint.parameters.model_fields:
        for part in document.arrays:
            requests[part] = (TableRequest(path, mine | {"part": part}), NPY.extension)
    links = links_to(requests, fixed, settings)
    frequencies = table_at(f"{endpoint.path}/frequencies")
    if frequencies is not None:
        names = frequencies.parameters.model_fields
        listed = {name: value for name, value in query.items() if name in names}
        links["frequencies"] = url_of(TableRequest(frequencies.path[1:], listed))
    if "post" in links:
        own["post"] = links.pop("post")
    templates = {
        name: url_of(TableRequest(request.resource, fixed | _others(request, mine)), extension)
        + "".join(f"&{each}={{{each}}}" for each in mine)
        for name, (request, extension) in requests.items()
        if mine and "post" not in own
    }
    sizes = {"file": binary.body(document).length_bytes}
    return {"links": links, "templates": templates, "bytes": sizes, **own}


def _others(request: TableRequest, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.parameters.items() if name not in asked}


MODEL = Endpoint(
    path="/model",
    operation="Model",
    summary="Every positional encoding of a model, and the URLs of its tables",
    parameters=ModelParameters,
    inputs=ModelFile(
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "max_position_embeddings": 8192,
            "rope_theta": 500000.0,
        }
    ),
    answer=report_model,
    report=ModelReport,
)
