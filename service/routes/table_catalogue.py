"""``GET /catalogue``: every family, rule and convention, with its parameters and an example.

All of it follows from the declarations of the families in the registry.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Literal
from urllib.parse import urlencode

from pydantic import Field, TypeAdapter

from service.delivery.endpoints import (
    ABSENT,
    COMPOSITIONS,
    RESOURCES,
    TRANSFORMS,
    Endpoint,
    NoInput,
    Report,
)
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
    impossible,
    optional,
)
from service.encodings.meaning import NamedVariant, sections
from service.encodings.registry import FAMILIES
from service.errors import InvalidParameters
from service.grammar import to_query
from service.numerics.tables import Document
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
    "query_len": ("1024",),
    "key_len": ("1024",),
    "offsets": ("-1024:1024",),
    "d_model": ("512", "513"),
    "head_dim": ("128", "96"),
    "height": ("32",),
    "width": ("48",),
    "grid": ("32,48", "4,24,24"),
    "window_size": ("32,32",),
}
"""Values of usual models, the first possible of which replaces that of a short example."""

# Parameters in place of which one of these is given.
_REPLACED = {"positions": "seq_len", "timesteps": "num_timesteps"}

_UNLESS_GIVEN = re.compile(r"(?:^|[;,] )(true|false|-?[0-9.]+(?:e-?[0-9]+)?) unless given")


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
    example: str = Field(description="Path and query.")
    parameters: list[str] = Field(description="The keys of the parameters that it takes.")
    required: list[str]
    body: dict[str, Any] = ABSENT
    axes: list[str]
    value_range: list[float] | None
    frequencies: str | None = Field(description="The path of the frequencies.")
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
            entry.model_fields_set.discard("docs")
        return Catalogue(groups=whole.groups, parameters=whole.parameters, entries=entries)
    entries = [entry for entry in whole.entries if entry.id == chosen]
    if not entries:
        near = nearest(chosen, [entry.id for entry in whole.entries])
        rule = f"there is no such entry; did you mean {near}?" if near else "there is no such entry"
        raise impossible("entry", chosen, rule, near)
    keys = entries[0].parameters
    groups = [group for group in whole.groups if group.id == entries[0].group]
    return Catalogue(
        groups=groups, parameters={key: whole.parameters[key] for key in keys}, entries=entries
    )


@cache
def _catalogue() -> Catalogue:
    known: dict[str, dict[str, Any]] = {}
    entries = [
        entry
        for family in FAMILIES.values()
        for variant in (family.variants() if family.path in RESOURCES else [_whole(family)])
        for entry in _entries(family, variant, _keys(family, known))
    ]
    used = {key for entry in entries for key in entry["parameters"]}
    known = {key: each for key, each in known.items() if key in used}
    groups = [{"id": name, "title": title} for name, title in _GROUPS.items()]
    return Catalogue.model_validate({"groups": groups, "parameters": known, "entries": entries})


def _whole(family: type[Family]) -> NamedVariant:
    return NamedVariant("", family.example)


def _entries(
    family: type[Family], variant: NamedVariant, keys: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the entry of a rule or a convention."""
    own = sections(family.__doc__)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", " ", family.__name__)
    entry: dict[str, Any] = {
        "id": family.entry_id(variant.name),
        "group": family.__module__.split(".")[2],
        "title": f"{words}: {variant.name}" if variant.name else words,
        "summary": variant.summary or family.summary,
        "path": family.path,
        "method": "GET" if issubclass(family, TableFamily) else "POST",
        "fixed": dict(variant.fixed),
        "parameters": [
            key
            for name, key in keys.items()
            if name not in variant.refuses and name not in variant.fixed
        ],
        "axes": [],
        "value_range": None,
        "frequencies": None,
        "docs": {**own, **variant.docs},
    }
    if issubclass(family, TableFamily):
        yield entry | _table_of(family, variant)
        return
    endpoint = next(
        group[family.path] for group in (TRANSFORMS, COMPOSITIONS) if family.path in group
    )
    query, body = example_request(endpoint)
    required = object_schema(family).get("required", [])
    yield entry | {"example": _url(family, query), "body": body, "required": required}


def _table_of(family: type[TableFamily], variant: NamedVariant) -> dict[str, Any]:
    """Return what a table with an example of usual size has, and what a request for it needs."""
    short = {**variant.fixed, **parse_query(variant.example.encode())}
    query = {
        _REPLACED.get(name, name) if _REPLACED.get(name) in family.model_fields else name: value
        for name, value in short.items()
        if name in family.model_fields
    }
    for name in [name for name in query if name in _LARGE]:
        several = ({**query, name: value} for value in _LARGE[name])
        query = next((each for each in several if _read(family, each)), query)
    table = read_parameters(family, query)
    document, meaning, axes = table.resolve(), table.meaning(), table.axes
    needed = [name for name in query if not _read(family, _without(query, name))]
    return {
        "example": _url(family, query),
        "required": [name for name in needed if name not in variant.fixed],
        "axes": [axis.partition("(")[0] for axis in document.axes or axes],
        "value_range": meaning.value_range,
        "frequencies": meaning.frequencies,
    }


def _without(query: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in query.items() if each != name}


def _read(family: type[TableFamily], query: Mapping[str, Any]) -> Document | None:
    """Return the document of a query, None if it is impossible."""
    with suppress(InvalidParameters):
        return read_parameters(family, query).resolve()
    return None


def _url(family: type[Family], query: Mapping[str, Any]) -> str:
    text = urlencode({name: to_query(value) for name, value in query.items()}, safe=",:")
    return f"{family.path}?{text}" if text else family.path


_BOUNDS = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "multipleOf": "multiple_of",
}
_LISTS = {
    TypeAdapter(kind).json_schema()["pattern"]: name
    for name, kind in {
        "integers": Integers,
        "numbers": Reals,
        "positions": PositionList,
    }.items()
} | {TypeAdapter(RealPositionList).json_schema()["pattern"]: "positions"}


def _keys(family: type[Family], known: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the key of each parameter of a family by its name; new ones are added to ``known``."""
    keys = {}
    for name, schema in object_schema(family)["properties"].items():
        is_in_body = name in family.body_only or schema.get("type") == "array" or "$ref" in schema
        if is_in_body or name == "revision":
            continue
        described = {
            "name": name,
            "type": _LISTS.get(schema.get("pattern"), schema.get("type", "string")),
            **{own: schema[theirs] for theirs, own in _BOUNDS.items() if theirs in schema},
            **({"choices": schema["enum"]} if "enum" in schema else {}),
            "description": schema["description"],
            "example": schema.get("examples", [None])[0],
        }
        stated = _UNLESS_GIVEN.search(schema["description"])
        if "default" in schema or stated:
            text = stated[1] if stated else None
            described["default"] = schema["default"] if text is None else _value(text)
        same = (key for key in known if known[key] == described)
        keys[name] = next(same, f"{name}@{family.path}" if name in known else name)
        known[keys[name]] = described
    return keys


def _value(text: str) -> bool | float:
    if text in {"true", "false"}:
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else float(text)


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
