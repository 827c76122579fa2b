"""``POST /model``: every positional encoding of a model, and the URLs of its tables."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from service.analysis.array import TableRequest
from service.delivery.endpoints import ABSENT, Count, Endpoint, Report, table_document
from service.delivery.parameters import read_parameters
from service.encodings.family import Integers, Reals, about, impossible, optional
from service.encodings.rotary.angles import CONSUMERS
from service.errors import Fault, InvalidBody, InvalidParameters
from service.formats.npy import NPY
from service.formats.safetensors_file import SAFETENSORS
from service.grammar import Integer, to_query
from service.models.config_values import ConfigWarning, ResolvedValue
from service.models.describe import OWN_CLASSES, PartEncoding, describe
from service.models.engines import engine_settings, rotary_models
from service.models.knowledge import EncodingEntry
from service.models.positional_keys import NotedKeys
from service.models.resolve import Resolved
from service.models.rotary_settings import LayerSettings
from service.models.translation import ModelDocument
from service.numerics.limits import MAX_LENGTH
from service.numerics.tables import Document
from service.routes.model_links import (
    GRID_AXES,
    AttentionReport,
    ConfigParameters,
    FoundFormat,
    Knowledge,
    LengthRegime,
    LibraryParameters,
    ModelFile,
    NumberingReport,
    OriginatedValue,
    SettingsLinker,
    WarningEntry,
    bias_link,
    check_settings,
    examples_told,
    numbering_report,
    resize_link,
    rope_of,
    settings_at,
    table_requests,
)
from service.routes.table_urls import PostingReport, Url, links_to, table_at, url_of
from service.settings import Settings

# The packs of the first follow the layout; the caches of the others take rows of any positions.
_BY_LAYOUT, _BY_ROW = ("transformers", "diffusers"), ("flash_attn", "onnx")
_OF_TABLES = {"grid", "seq_len", "timesteps"}
_PACK = re.compile(r"\bpack=\w+")
_FILE = re.compile(r"^([^.?]+)\.\w+")
_POINTER = re.compile(r"(?<![\w/.])/[A-Za-z_][\w./~-]*")
_TOLD = (
    "at", "layers", "layout", "writes", "shape", "stored_shape", "stored", "resize", "resized",
    "resized_apply", "resized_around", "not_resized", "counts", "reason",
)  # fmt: skip
_LINKS = ("frequencies", "table", "file", "cos", "sin", "apply")


class ModelParameters(LibraryParameters):
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
    unread: Literal["positional", "all"] = about(
        "The keys listed as unread: positional ones, or all that nothing reads, of a config of "
        "transformers or diffusers.",
        "all",
        default="positional",
    )


class EncodingReport(PostingReport):
    """One positional encoding of the model."""

    id: str
    at: str = Field(description="The path of its module or function.")
    config: str = Field(description="The JSON pointer to the config of its part of the model.")
    kind: str
    known: bool = Field(
        description="Whether the code of its module is known, not assumed from the config."
    )
    served: bool = Field(description="Whether there is a table of it here.")
    reason: str = Field(default=ABSENT, description="Why there is no table.")
    layers: dict[str, Any] = Field(
        default=ABSENT, description="All of a number, or those listed; and the origin of a default."
    )
    layout: Literal["half", "interleaved", "half_by_axis"] = ABSENT
    writes: Literal["half", "interleaved"] = ABSENT
    counts: str = Field(default=ABSENT, description="What its positions count.")
    asks: dict[str, str] = Field(
        default=ABSENT,
        description="The parameters that callers choose, with the examples that links have.",
    )
    values: dict[str, OriginatedValue] = ABSENT
    untouched_tokens: list[OriginatedValue] = ABSENT
    shape: list[Count] = Field(default=ABSENT, description="The shape of the table.")
    dtype: str = Field(default=ABSENT, description="The type of its elements.")
    stored_shape: list[Count] = Field(
        default=ABSENT, description="The shape of a learned table whose rows the table chooses."
    )
    stored: str = Field(default=ABSENT, description="Where the numbers are: in the checkpoint.")
    resize: str = Field(default=ABSENT, description="How the library resizes the table.")
    resized: Url = Field(
        default=ABSENT, description="The weights of a resize, with an example of a size."
    )
    resized_apply: Url = Field(
        default=ABSENT,
        description="Where to POST the table, without the rows dropped or behind, to resize it.",
    )
    resized_around: dict[str, Count] = Field(
        default=ABSENT,
        description="Rows around those of the grid: kept or dropped before it, kept behind it.",
    )
    not_resized: str = Field(default=ABSENT, description="Why there are no weights of it.")
    position_ids: NumberingReport = Field(
        default=ABSENT, description="The numbers of its tokens, and a request for them."
    )
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
        for name in _TOLD:
            if own := getattr(self, name):
                told = json.dumps(own) if isinstance(own, dict) else to_query(own)
                yield f"{self.id}.{name}: {told}"
        if self.position_ids:
            yield from (f"{self.id}.{line}" for line in self.position_ids.lines())
        if self.attention and (factor := self.attention.softmax_scale_multiplier):
            yield f"{self.id}.softmax_scale_multiplier: {to_query(factor)}"
        for name, value in (self.values or {}).items():
            yield f"{self.id}.{name}: {to_query(value.value)} ({value.origin})"


class ModelReport(Report):
    """Every positional encoding of the model."""

    format: FoundFormat
    model_type: str | None
    knowledge: Knowledge
    encodings: list[EncodingReport]
    engines: dict[str, dict[str, Any]] = Field(
        description="What engines must be told of the text model where it differs from their "
        "defaults, what they cannot express, and the source of the rules.",
    )
    reason: str = Field(default=ABSENT, description="Why there is no encoding.")
    weights: str = Field(
        default=ABSENT, description="Where rows of weights stand in another order than elsewhere."
    )
    read: dict[str, Any] = Field(
        default=ABSENT, description="What was read of a file that may be cut."
    )
    unread: list[str] = Field(
        description="Pointers to positional keys without effect, or to all keys that are not read."
    )
    not_understood: list[str] = Field(
        description="Pointers to keys that look positional and are not understood."
    )
    warnings: list[WarningEntry]

    def lines(self) -> Iterator[str]:
        """Yield the number of encodings, then the links and values of each, then warnings."""
        kinds = ", ".join(each.id for each in self.encodings) or "no positional encoding"
        yield f"{kinds} ({self.model_type or self.format.name})"
        yield from super().lines()
        yield from (f"warning: {warning.detail}" for warning in self.warnings)
        for each in self.encodings:
            yield from each.lines()
        for engine, fields in self.engines.items():
            yield from (f"{engine}.{name}: {_line(own)}" for name, own in fields.items())


def _line(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def report_model(
    parameters: ModelParameters, document: ModelDocument, settings: Settings
) -> ModelReport:
    """Return the report about a model; raises InvalidBody, InvalidParameters or ModelNotKnown."""
    noted = None
    if parameters.unread == "all":
        if document.format not in OWN_CLASSES:
            raise impossible("unread", "all", f"unread=all is for {', '.join(OWN_CLASSES)}")
        noted = NotedKeys(document.content)
        document = replace(document, content=noted)
    described = DescribedModel(parameters, document, settings)
    model = described.model
    encodings = [*map(described.report, model.encodings)]
    # The encodings, or the reason, say what there is in its place.
    warnings = [each for each in described.warnings() if each.code != "no-rotary-embedding"]
    given = {"reason": model.reason, "weights": document.weights, "read": document.read}
    unread = [each.pointer for each in warnings if each.code == "key-not-read"]
    codes = {"unknown-rope-key", "setting-not-resolved"}
    unknown = [each.pointer for each in warnings if each.code in codes]
    return ModelReport(
        format=FoundFormat(name=document.format, found_by=document.found_by),
        model_type=model.model_type,
        knowledge=Knowledge(library=model.library, status=model.status),
        encodings=encodings,
        engines=_engines(model.encodings, encodings, document.format),
        unread=list(dict.fromkeys((*unread, *model.unread, *(noted.others() if noted else ())))),
        not_understood=list(dict.fromkeys((*document.not_understood, *unknown))),
        warnings=warnings,
        **{name: each for name, each in given.items() if each is not None},
    )


def _engines(
    encodings: Sequence[PartEncoding], reports: Sequence[EncodingReport], form: str
) -> dict[str, dict[str, Any]]:
    """Return what engines must be told, with the caches of ONNX, of other parts, too."""
    engines: dict[str, dict[str, Any]] = {}
    for resolved in rotary_models(encodings):
        own = engine_settings(resolved, form)
        pairs = zip(encodings, reports, strict=True)
        links = [each for encoding, each in pairs if encoding.resolved is resolved and each.links]
        if "onnx" in own:
            own["onnx"]["caches"] = [cache for each in links for cache in _caches(each)]
        if not engines:
            engines = own
        elif "onnx" in own and "onnx" in engines:
            part = {name: each for name, each in own["onnx"].items() if name != "source"}
            engines["onnx"].setdefault("parts", {})[resolved.model.place.pointer] = part
    return engines


def _caches(report: EncodingReport) -> Iterator[dict[str, Any]]:
    """Yield the links to the caches of a rotary embedding, at each regime of lengths."""
    tables: list[tuple[Mapping[str, str], Any]] = [(report.links, report.post)]
    if report.regimes:
        tables = [({"file": each.file}, each.post) for each in report.regimes]
    for urls, post in tables:
        url = _PACK.sub("pack=compact", _FILE.sub(r"\1.npy", urls["file"]))
        own = {f"{part}_cache": f"{url}&part={part}" for part in ("cos", "sin")}
        yield {"id": report.id, **own, **({"post": post} if post else {})}


class DescribedModel:
    """A model, and the links to its tables within the limits of this server.

    Raises InvalidBody or ModelNotKnown, with pointers into what was sent.

    Attributes:
        model: every encoding.
        used: the parameters of the request that encodings have asked for.
    """

    def __init__(
        self, parameters: ConfigParameters, document: ModelDocument, settings: Settings
    ) -> None:
        self.parameters, self.settings, self._document = parameters, settings, document
        self._linkers: dict[int, SettingsLinker] = {}
        self.used: set[str] = set()
        with self._pointing():
            model = describe(document, parameters.context_length)
            self.model = replace(model, encodings=tuple(map(self._checked, model.encodings)))

    def _checked(self, encoding: PartEncoding) -> PartEncoding:
        """Return an encoding whose table can be computed; raises InvalidBody."""
        if encoding.settings is None:
            return encoding
        try:
            check_settings([encoding.settings], self.parameters.context_length)
        except InvalidBody as error:
            if encoding.is_sent:
                raise
            return _without_table(encoding, error)
        return encoding

    @contextmanager
    def _pointing(self) -> Iterator[None]:
        """Convert the pointers of faults to those of what was sent."""
        try:
            yield
        except InvalidBody as error:
            faults = [
                replace(each, where=self._document.pointer(each.where or ""))
                for each in error.faults
            ]
            raise type(error)(error.detail, faults=faults) from error

    @property
    def limit_bytes(self) -> int:
        """The length of the longest answer."""
        return self.settings.max_response_bytes

    def linker(self, resolved: Resolved | None) -> SettingsLinker:
        """Return the linker of the tables of a text model."""
        assert resolved is not None
        linker = SettingsLinker(resolved, self.settings, self.pack(resolved.layout))
        return self._linkers.setdefault(id(resolved), linker)

    @property
    def library(self) -> str | None:
        """The library whose packs the links have; None for that of the model's class."""
        return getattr(self.parameters, "for", None)

    def pack(self, layout: str, own: str | None = None) -> str:
        """Return the pack of the library for a layout, or that of the class itself."""
        if self.library not in {None, *_BY_LAYOUT}:
            return CONSUMERS[str(self.library)]
        is_own = self.library is None or str(self.model.library).startswith(self.library)
        return own if own and is_own else layout

    def report(self, encoding: PartEncoding) -> EncodingReport:
        """Return the report of an encoding; raises InvalidBody or InvalidParameters."""
        with self._pointing():
            try:
                return _report(encoding, self)
            except InvalidBody as error:
                if encoding.is_sent:
                    raise
                return _report(_without_table(encoding, error), self)

    def warnings(self) -> list[WarningEntry]:
        """Return all warnings; those about links are there once their encodings are reported."""
        linked = (warning for linker in self._linkers.values() for warning in linker.warnings)
        given = self.parameters.model_fields_set & _OF_TABLES
        return [
            *map(WarningEntry.model_validate, self._document.warnings),
            *map(self._sent, (*self.model.warnings, *linked)),
            *(
                WarningEntry(
                    code="parameter-unused",
                    detail=f"{name} changes nothing: no encoding of the model asks for it",
                    pointer="",
                )
                for name in sorted(given - self.used)
            ),
        ]

    def _sent(self, warning: ConfigWarning) -> WarningEntry:
        detail, pointer = self._in_terms(warning.detail), self._document.pointer(warning.pointer)
        return WarningEntry(code=warning.code, detail=detail, pointer=pointer)

    def _in_terms(self, text: str) -> str:
        """Return a text with pointers into what was sent."""
        return _POINTER.sub(lambda match: self._document.pointer(match[0]), text)

    def found(self, values: Mapping[str, ResolvedValue]) -> dict[str, OriginatedValue]:
        """Return values with their origins in what was sent."""
        return {name: self.value(each) for name, each in values.items()}

    def value(self, found: ResolvedValue) -> OriginatedValue:
        """Return a value with its origin in what was sent."""
        value = list(found.value) if isinstance(found.value, tuple) else found.value
        origin, not_sent = found.origin, self._document.not_sent
        if origin == "config" and found.sources[0:1] and found.sources[0] in not_sent:
            origin = not_sent[found.sources[0]].origin
        sources = dict.fromkeys(self._sources(found)) or [found.formula]
        return OriginatedValue(value=value, origin=origin, sources=[*filter(None, sources)])

    def _sources(self, found: ResolvedValue) -> Iterator[str]:
        for source in found.sources:
            own = self._document.not_sent.get(source)
            yield from self._sources(own) if own else [self._in_terms(source)]


def _without_table(encoding: PartEncoding, error: InvalidBody) -> PartEncoding:
    reason = f"the defaults of the class have no table: {error.detail}"
    return replace(encoding, settings=None, resolved=None, entry=None, reason=reason)


def _report(encoding: PartEncoding, described: DescribedModel) -> EncodingReport:
    """Return the report of an encoding; raises InvalidBody or InvalidParameters."""
    fields: dict[str, Any] = {
        "id": encoding.id,
        "at": encoding.at,
        "config": encoding.config,
        "kind": encoding.kind,
        "known": encoding.is_known and not encoding.is_assumed,
    }
    optional_fields: dict[str, Any] = {"reason": encoding.reason, "layers": dict(encoding.layers)}
    if encoding.settings is not None:
        optional_fields |= _of_text(encoding.settings, encoding.resolved, described)
    elif encoding.entry is not None:
        optional_fields |= _of_entry(encoding, encoding.entry, described)
    else:
        optional_fields["values"] = described.found(encoding.values)
        optional_fields["shape"] = [each.value for each in encoding.shape]
    if encoding.numbered is not None:
        asked = _asked(encoding, described.parameters)
        values = described.found(encoding.numbered.values)
        optional_fields["position_ids"] = numbering_report(
            encoding.numbered, values, asked, (optional_fields.get("links") or {}).get("file", "")
        )
    given = {name: each for name, each in optional_fields.items() if each}
    return EncodingReport(**fields, served="links" in given, **given)


def _of_text(
    settings: LayerSettings, resolved: Resolved | None, described: DescribedModel
) -> dict[str, Any]:
    """Return the fields of a rotary embedding of a text model."""
    assert resolved is not None
    linker, length = described.linker(resolved), described.parameters.context_length
    rows = getattr(described.parameters, "seq_len", None)
    described.used.add("seq_len")
    values = settings_at(settings, length, rows)
    urls = linker.urls(settings, values, rows)
    if settings.offset:
        values["rotary_offset"] = settings.offset
    fields = {
        "layout": resolved.layout,
        "writes": resolved.writes,
        "values": described.found(values),
        "attention": AttentionReport(**resolved.attention) if resolved.attention else None,
    }
    if described.pack("half") != "half" and rope_of(values).rotary_angles().by_channel:
        return fields | _no_pack(described, _BY_LAYOUT)
    return {
        **fields,
        "links": {name: urls.pop(name) for name in _LINKS if name in urls},
        "regimes": linker.regimes(settings),
        **urls,
    }


def _no_pack(described: DescribedModel, others: Iterable[str]) -> dict[str, str]:
    return {"reason": f"{described.library} has no pack for it; these have: {', '.join(others)}"}


def _of_entry(
    encoding: PartEncoding, entry: EncodingEntry, described: DescribedModel
) -> dict[str, Any]:
    """Return the fields of an encoding whose table, if any, is named by its entry."""
    values, grid = dict(encoding.values), getattr(described.parameters, "grid", None)
    fields: dict[str, Any] = {
        "layout": entry.layout,
        "counts": entry.counts,
        "asks": dict(entry.asks),
        "values": described.found(values),
        "untouched_tokens": [described.value(each) for each in encoding.untouched_tokens],
        "shape": [each.value for each in encoding.shape],
        "stored": entry.stored,
        "resize": entry.resize,
        **resize_link(encoding, entry, grid or ()),
        "source": entry.source,
    }
    if "resized" in fields:
        described.used.add("grid")
    endpoint = table_at(entry.url or "")
    if entry.url is None or encoding.reason or endpoint is None:
        return fields
    asked = _asked(encoding, described.parameters)
    requested = (each.sources[0] for each in asked.values() if each.origin == "request")
    described.used.update(each[1:] for each in requested)
    if rule := encoding.misfit(asked):
        if asked["grid"].origin == "request":
            raise impossible("grid", asked["grid"].value, f"grid does not fit: {rule}")
        return fields | {"reason": f"the example of a grid does not fit: {rule}; send grid"}
    query = {name: each.value for name, each in (values | asked).items()}
    if entry.pack is not None:
        query["pack"] = described.pack(entry.layout or entry.pack, entry.pack)
        if described.library not in {None, *_BY_LAYOUT, *_BY_ROW}:
            return fields | _no_pack(described, (*_BY_LAYOUT, *_BY_ROW))
    document = _document(endpoint, query, values | asked, encoding.asked)
    fields["values"] |= described.found(asked)
    fields["asks"] |= examples_told(entry, asked)
    binary = NPY if len(document.arrays) == 1 else SAFETENSORS
    length_bytes, limit_bytes = binary.body(document).length_bytes, described.limit_bytes
    if (length_bytes or 0) > limit_bytes:
        rule = f"one answer has at most {limit_bytes} bytes (POSREF_MAX_RESPONSE_BYTES)"
        return fields | {"reason": f"its table has {length_bytes} bytes, and {rule}"}
    fields["stored_shape"] = fields["shape"]
    fields |= {"shape": list(document.shape or ()), "dtype": document.dtype}
    fields["bytes"] = {"file": length_bytes}
    fields |= _links(endpoint, document, query, tuple(asked), described.settings)
    fields["links"] |= bias_link(entry, query)
    return fields


def _asked(encoding: PartEncoding, parameters: ConfigParameters) -> dict[str, ResolvedValue]:
    """Return the values of the parameters that no config has: those of the request, or examples."""
    asked = dict(encoding.asked)
    for name in parameters.model_fields_set & _OF_TABLES:
        value = getattr(parameters, name)
        own_grid = encoding.entry.of_grid if encoding.entry else None
        if name == "grid" and own_grid is not None and encoding.scope is not None:
            scope = encoding.scope.beside({"grid": [*value]})
            found = {each: scope.value(sources).value for each, sources in own_grid.items()}
            sent = {each: ResolvedValue(own, "request", ("?grid",)) for each, own in found.items()}
            asked |= sent
        elif name in asked:
            asked[name] = ResolvedValue(value, "request", (f"?{name}",))
        elif name == "grid":
            own = [axis for axis in GRID_AXES if axis in asked]
            if own and len(own) <= len(value):
                for axis, length in zip(own, value[-len(own) :], strict=True):
                    asked[axis] = ResolvedValue(length, "request", ("?grid",))
    return asked


def _document(
    endpoint: Endpoint,
    query: Mapping[str, Any],
    values: Mapping[str, ResolvedValue],
    examples: Mapping[str, ResolvedValue],
) -> Document:
    """Return the table of a query; its errors name the values in the document or the request."""
    try:
        return table_document(endpoint, read_parameters(endpoint.parameters, query))
    except InvalidParameters as error:
        faults = []
        requested = [name for name, each in values.items() if each.origin == "request"]
        for fault in error.faults:
            found = values.get(fault.where or "")
            if requested and (found is None or found.origin not in {"config", "computed"}):
                # No value of the document is at fault: what the request asks for is.
                if fault.where in requested:
                    raise InvalidParameters(fault) from error
                name, sent = requested[0], to_query(values[requested[0]].value)
                example = to_query(examples[name].value)
                rule = f"{name}={sent} does not fit (one that does is {example}): {fault.detail}"
                raise InvalidParameters(Fault(name, sent, rule)) from error
            pointers = [each for each in found.sources if each[:1] in {"", "/"}] if found else []
            pointer, detail = pointers[0] if pointers else "", fault.detail
            is_own = found is not None and found.origin == "config" and len(pointers) == 1
            near = fault.suggestion if is_own else None
            if pointers[1:]:
                detail = f"{detail}: it is computed from {' and '.join(pointers)}"
            faults.append(Fault(pointer, fault.value, detail, in_body=True, suggestion=near))
        raise InvalidBody.at(*faults) from error


def _links(
    endpoint: Endpoint,
    document: Document,
    query: Mapping[str, Any],
    asked: tuple[str, ...],
    settings: Settings,
) -> dict[str, Any]:
    """Return the links to a table, and their templates."""
    own: dict[str, Any] = {}
    fixed = {name: value for name, value in query.items() if name not in asked}
    mine = {name: value for name, value in query.items() if name in asked}
    requests = table_requests(TableRequest(endpoint.path[1:], mine), document, settings)
    links = links_to(requests, fixed, settings)
    frequencies = table_at(f"{endpoint.path}/frequencies")
    if frequencies is not None:
        names = frequencies.parameters.model_fields
        listed = {name: value for name, value in query.items() if name in names}
        links["frequencies"] = url_of(TableRequest(frequencies.path[1:], listed))
    if "post" in links:
        own["post"] = links.pop("post")
    templates = {
        name: url_of(request.without(*mine).with_parameters(**fixed), form)
        + "".join(f"&{each}={{{each}}}" for each in mine)
        for name, (request, form) in requests.items()
        if mine and "post" not in own
    }
    return {"links": links, "templates": templates, **own}


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
