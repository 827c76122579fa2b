"""``GET /catalogue``: every family, rule and convention, with its parameters and an example.

All of it follows from the declarations of the families in the registry.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Literal

import orjson
from pydantic import Field, TypeAdapter

from service.analysis.array import TableRequest
from service.delivery.endpoints import ABSENT, Endpoint, NoInput, Report
from service.delivery.openapi.components import object_schema
from service.delivery.openapi.operations import example_request
from service.delivery.parameters import nearest, parse_query, read_parameters
from service.encodings.family import (
    Family,
    Integers,
    Parameters,
    PositionList,
    RealPositionList,
    Reals,
    TableFamily,
    optional,
)
from service.encodings.meaning import NamedVariant, sections
from service.encodings.registry import FAMILIES
from service.errors import Fault, InvalidParameters, shortened
from service.grammar import to_query
from service.numerics.tables import Document
from service.routes import ENDPOINTS
from service.routes.description import value_range
from service.routes.table_urls import url_of
from service.settings import Settings

_GROUPS = {
    "rotary": "Rotary (RoPE)",
    "absolute": "Sinusoids",
    "grid": "Grids of images and video",
    "relative": "Relative positions",
    "positions": "Position ids",
    "resize": "Resized tables",
}
"""The titles of the packages of families."""

_LARGE: Mapping[str, Sequence[str]] = {
    "seq_len": ("2048",),
    "num_timesteps": ("2048",),
    "query_len": ("512",),
    "key_len": ("512",),
    "offsets": ("-1024:1024",),
    "d_model": ("512", "513"),
    "head_dim": ("128",),
    "height": ("32",),
    "width": ("48",),
    "grid": ("32,48", "4,24,24"),
    "window_size": ("32,32",),
}
"""Values of usual models, the first possible of which replaces that of a short example."""

_SPELLINGS = {
    "Alibi": "ALiBi",
    "Deberta": "DeBERTa",
    "Fire": "FIRE",
    "Kerple": "KERPLE",
    "Rope": "RoPE",
    "SwinV2": "Swin V2",
    "TransformerXL": "Transformer-XL",
}
"""Words of class names that are written in another way in texts."""

# Parameters in place of which one of these is given.
_REPLACED = {"positions": "seq_len", "timesteps": "num_timesteps"}

_UNLESS_GIVEN = re.compile(r"(?:^|[;,] )([\w.-]+) unless given")
_OF_CONVENTION = re.compile(
    r"default (?:depends on|is the form of) the convention|the convention's unless given"
)
# How many items a list may have: no part of its kind.
_COUNT = re.compile(r"(?:\*|\{\d+,\d*\})\$$")


class CatalogueParameters(Parameters):
    """The parameters of ``GET /catalogue``."""

    entry: str | None = optional("Only the entry with this id.", "relative:t5")


class CatalogueGroup(Report):
    """A group of entries."""

    id: str
    title: str


class CatalogueParameter(Report):
    """A parameter; its default as a value, where it has one."""

    name: str
    type: Literal["integer", "number", "boolean", "string", "integers", "numbers", "positions"]
    default: Any = ABSENT
    minimum: Any = ABSENT
    maximum: Any = ABSENT
    exclusive_minimum: Any = ABSENT
    multiple_of: Any = ABSENT
    choices: list[str] = ABSENT
    description: str
    example: Any


class CatalogueEntry(Report):
    """A rule or a convention of a table, or all of a table that has none."""

    id: str
    group: str
    title: str
    summary: str
    path: str
    method: Literal["GET", "POST"]
    fixed: dict[str, str] = Field(description="The parameters that choose it.")
    example: str = Field(description="Path and query; with POST, body is sent to it.")
    parameters: list[str] = Field(description="The keys of the parameters that it takes.")
    required: list[str] = Field(description="The names of those without which there is none.")
    defaults: dict[str, Any] = Field(
        default=ABSENT,
        description="By name, where the default depends on the convention. Only with entry.",
    )
    body: dict[str, Any] = ABSENT
    axes: list[str] = Field(description="Of the example; empty if its arrays have others each.")
    value_range: list[float] | None = Field(
        description="Bounds of the numbers of the example; null if none is known."
    )
    frequencies: str | None = Field(description="The path of the frequencies.")
    models: str = Field(default=ABSENT, description="Names of models with such a table.")
    docs: dict[str, str] = Field(default=ABSENT, description="Only with entry.")


class Catalogue(Report):
    """Everything that has a table."""

    groups: list[CatalogueGroup]
    parameters: dict[str, CatalogueParameter]
    entries: list[CatalogueEntry]


def report_catalogue(parameters: CatalogueParameters, _: Settings) -> Catalogue:
    """Return the catalogue, or one of its entries; raises InvalidParameters."""
    whole, chosen = _catalogue(), parameters.entry
    if chosen is None:
        # They are 40 % of it, and few are read.
        entries = [entry.model_copy() for entry in whole.entries]
        for entry in entries:
            entry.model_fields_set.difference_update(("docs", "defaults"))
        return Catalogue(groups=whole.groups, parameters=whole.parameters, entries=entries)
    entries = [entry for entry in whole.entries if entry.id == chosen]
    if not entries:
        near = nearest(chosen, [entry.id for entry in whole.entries])
        rule = "there is no such entry" + (f"; did you mean {near}?" if near else "")
        raise InvalidParameters(Fault("entry", shortened(chosen), rule, suggestion=near))
    groups = [group for group in whole.groups if group.id == entries[0].group]
    known = {key: whole.parameters[key] for key in entries[0].parameters}
    return Catalogue(groups=groups, parameters=known, entries=entries)


@cache
def _catalogue() -> Catalogue:
    known: dict[str, dict[str, Any]] = {}
    entries = [
        entry for family in FAMILIES.values() for entry in _entries(family, _keys(family, known))
    ]
    used = {key for entry in entries for key in entry["parameters"]}
    known = {key: each for key, each in known.items() if key in used}
    groups = [{"id": name, "title": title} for name, title in _GROUPS.items()]
    return Catalogue.model_validate({"groups": groups, "parameters": known, "entries": entries})


def _entries(family: type[Family], keys: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the entry of each rule or convention."""
    variants = [*family.variants()]
    some = {name for variant in variants for name in variant.takes}
    for variant in variants:
        others = some - {*variant.takes} | variant.fixed.keys()
        taken = [key for name, key in keys.items() if name not in others]
        yield _entry(family, variant, taken)


def _entry(family: type[Family], variant: NamedVariant, taken: list[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": family.entry_id(variant.name),
        "group": family.__module__.split(".")[2],
        "title": ", ".join(filter(None, (_title(family), variant.name))),
        "summary": (variant.summary or family.summary).removesuffix("."),
        "path": family.path,
        "method": "GET" if issubclass(family, TableFamily) else "POST",
        "fixed": dict(variant.fixed),
        "parameters": taken,
        "axes": [],
        "value_range": None,
        "frequencies": None,
        "docs": {**sections(family.__doc__), **variant.docs},
    }
    if variant.models:
        entry["models"] = variant.models
    if issubclass(family, TableFamily):
        return entry | _table_of(family, variant)
    query, body = example_request(ENDPOINTS[family.path])
    required = object_schema(family).get("required", [])
    return entry | {
        "example": url_of(TableRequest(family.path[1:], query)),
        "body": body,
        "required": required,
    }


def _title(family: type[Family]) -> str:
    """Return the name of a family in words, with the usual spelling of proper names."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", " ", family.__name__).split()
    return " ".join(_SPELLINGS.get(word, word) for word in words)


def _table_of(family: type[TableFamily], variant: NamedVariant) -> dict[str, Any]:
    """Return what a table with an example of usual size has, and what a request for it needs.

    The defaults are those that the convention has for parameters of which others have another one.
    """
    published = {**variant.fixed, **parse_query(variant.published.encode())}
    short = parse_query(variant.example.encode())
    query = published | {_REPLACED.get(name, name): short[name] for name in short} | published
    for name in [name for name in query if name not in published]:
        several = ({**query, name: value} for value in _LARGE.get(name, ()))
        query = next((each for each in several if _read(family, each)), query)
    required: list[str] = []
    for name in reversed([*query]):
        rest = {each: value for each, value in query.items() if each != name}
        if not _read(family, rest):
            required = [name, *required] if name not in variant.fixed else required
        elif name not in published and name not in _LARGE:
            query = rest
    table = read_parameters(family, query)
    document, meaning, axes = table.resolve(), table.meaning(), table.axes
    some = {
        name
        for name, each in object_schema(family)["properties"].items()
        if variant.fixed and name not in query and _OF_CONVENTION.search(each["description"])
    }
    defaults = {name: own for name, own in document.parameters.items() if name in some}
    return ({"defaults": defaults} if defaults else {}) | {
        "example": url_of(TableRequest(family.path[1:], query)),
        "required": required,
        "axes": [axis.partition("(")[0] for axis in document.axes or axes],
        "value_range": value_range(meaning, document),
        "frequencies": meaning.frequencies,
    }


def _read(family: type[TableFamily], query: Mapping[str, Any]) -> Document | None:
    """Return the document of a query, None if it is impossible."""
    with suppress(InvalidParameters):
        return read_parameters(family, query).resolve()
    return None


# The members of a schema that have the same meaning for a parameter, with their names here.
_SAME = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "multipleOf": "multiple_of",
    "enum": "choices",
    "description": "description",
}
_KINDS: Mapping[str, tuple[Any, ...]] = {
    "integers": (Integers,),
    "numbers": (Reals,),
    "positions": (PositionList, RealPositionList),
}
_LISTS = {
    _COUNT.sub("", TypeAdapter(kind).json_schema()["pattern"]): name
    for name, kinds in _KINDS.items()
    for kind in kinds
}


def _list_kind(schema: Mapping[str, Any]) -> str | None:
    """Return the kind of a list, however many items it may have; None for others."""
    return _LISTS.get(_COUNT.sub("", schema.get("pattern", "")))


def _keys(family: type[Family], known: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the key of each parameter of a family by its name; new ones are added to ``known``."""
    keys = {}
    for name, schema in object_schema(family)["properties"].items():
        is_left_out = name in {"revision", *family.body_only, *family.not_in_queries}
        if is_left_out or schema.get("type") == "array" or "$ref" in schema:
            continue
        kind, default = _list_kind(schema) or schema.get("type", "string"), _default(schema)
        if kind in _KINDS:
            default = {key: to_query(each) for key, each in default.items()}
        described = {
            "name": name,
            "type": kind,
            **{own: schema[theirs] for theirs, own in _SAME.items() if theirs in schema},
            "example": schema.get("examples", [None])[0],
            **default,
        }
        same = (key for key in known if known[key] == described)
        keys[name] = next(same, f"{name}@{family.path}" if name in known else name)
        known[keys[name]] = described
    return keys


def _default(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default, also one that only the description states."""
    stated = _UNLESS_GIVEN.search(schema["description"])
    if stated and stated[1] in schema.get("enum", ()):
        return {"default": stated[1]}
    if stated:
        with suppress(orjson.JSONDecodeError):
            return {"default": orjson.loads(stated[1])}
    return {key: schema[key] for key in ("default",) if key in schema}


CATALOGUE = Endpoint(
    path="/catalogue",
    operation="Catalogue",
    summary="Every family, rule and convention, with its parameters and an example",
    parameters=CatalogueParameters,
    inputs=NoInput(),
    answer=report_catalogue,
    example="entry=relative:dynamic",
    report=Catalogue,
)
