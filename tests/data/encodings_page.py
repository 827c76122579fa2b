"""Write docs/encodings.md from the classes of the families.

Run ``python -m tests.data.encodings_page``.

Every entry is a class: its docstring (summary, Formula, Source, Bound, Trap), the table of its
parameters, the arrays that it is sent, its example and what a server answers to it.
"""

import inspect
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

from service.app import create_app
from service.delivery.openapi.components import object_schema
from service.encodings.family import ComposedFamily, Family, TableFamily, TransformFamily
from service.encodings.fields import Parameters
from service.encodings.registry import FAMILIES
from service.grammar import to_query
from tests.client import Client, client_of
from tests.curl import sent

PAGE = Path(__file__).parents[2] / "docs" / "encodings.md"
INTRODUCTION = PAGE.with_name("encodings_introduction.md")
SECTIONS = ("Formula", "Source", "Bound", "Trap")
_BASES = {Family, TableFamily, ComposedFamily, TransformFamily, Parameters}


def write_page() -> str:
    """Return the page: an introduction written by hand, shared parameters, then every family."""
    with client_of(create_app()) as client:
        entries = [_entry(family, client) for family in FAMILIES]
    shared = ["## Shared parameters", "", *_shared_rows(), ""]
    return "\n".join([INTRODUCTION.read_text(), *shared, *entries])


def heading_of(family: type[Family]) -> str:
    """Return the heading of a family's entry: its path, with POST where arrays are sent to it."""
    return f"`{family.path}`" if issubclass(family, TableFamily) else f"`POST {family.path}`"


def sections_of(documented: type) -> dict[str, str]:
    """Split a docstring into its summary (under the empty name) and its named sections."""
    text = inspect.getdoc(documented) or ""
    names = "|".join(SECTIONS)
    parts = re.split(rf"^({names}): ", text, flags=re.MULTILINE)
    found = {"": parts[0].strip()}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        first, _, rest = body.partition("\n")
        found[name] = f"{first}\n{dedent(rest)}".strip()
    return found


def _entry(family: type[Family], client: Client) -> str:
    sections = sections_of(family)
    lines = [f"## {heading_of(family)}", "", sections.pop(""), ""]
    lines += [f"- **{name}**: {_indented(body)}" for name, body in sections.items()]
    lines += ["", *_parameters(family)]
    if issubclass(family, ComposedFamily):
        lines += ["", "Arrays that are sent:", "", "| name | type | axes | description |"]
        lines += ["| --- | --- | --- | --- |"]
        lines += [
            f"| `{array.name}`{'' if array.is_required else ' (optional)'} "
            f"| {'integer' if array.is_integer else 'real'} "
            f"| {' or '.join(map(str, array.ranks))} | {array.description} |"
            for array in family.inputs
        ]
    command = _command(family)
    lines += ["", "```console", f"$ {command}", sent(command, client).text, "```", ""]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _mixins_of(family: type[Family]) -> list[type[Parameters]]:
    """Return the classes from which a family has parameters that it shares with others."""
    return [
        base
        for base in family.__mro__
        if issubclass(base, Parameters)
        and not issubclass(base, Family)
        and base.__subclasses__() != [family]
        and inspect.get_annotations(base).keys() & base.model_fields.keys()
    ]


def _shared_names(family: type[Family]) -> list[str]:
    shared = {
        name
        for mixin in _mixins_of(family)
        for name in inspect.get_annotations(mixin)
        if name in family.model_fields
    }
    return [name for name in family.model_fields if name in shared]


def _shared_rows() -> Iterator[str]:
    """Write a table of the parameters that several families share, each once."""
    rows: dict[str, str] = {}
    for family in FAMILIES:
        head, rule, *lines = [*_rows(family, _shared_names(family))] or ["", ""]
        for line in lines:
            rows.setdefault(line.split(" |")[0], line)
    yield from (head, rule, *rows.values())


def _parameters(family: type[Family]) -> Iterator[str]:
    shared = _shared_names(family)
    own = [name for name in family.model_fields if name not in shared and name != "revision"]
    yield from _rows(family, own)
    if shared:
        names = ", ".join(f"`{name}`" for name in shared if name != "revision")
        yield from ("", f"[Shared parameters](#shared-parameters): {names}.")


def _rows(model: type[Parameters], names: Any) -> Iterator[str]:
    properties = object_schema(model)["properties"]
    shown = [name for name in names if name in properties]
    if not shown:
        return
    yield "| parameter | value | default | description |"
    yield "| --- | --- | --- | --- |"
    required = object_schema(model).get("required", ())
    for name in shown:
        schema = properties[name]
        default = "required" if name in required else _default(schema)
        description = schema.get("description", "").replace("|", r"\|")
        yield f"| `{name}` | {_value(schema)} | {default} | {description} |"


def _default(schema: dict[str, Any]) -> str:
    return f"`{to_query(schema['default'])}`" if "default" in schema else ""


def _value(schema: dict[str, Any]) -> str:
    """Describe the values of a parameter: choices, or the type with its bounds."""
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    types = schema.get("type", "")
    kind = "list" if isinstance(types, list) or types == "array" else types
    bounds = [
        f"{word} {_number(schema[name])}"
        for word, name in (("from", "minimum"), ("to", "maximum"))
        if name in schema
    ]
    return " ".join((kind, *bounds))


def _number(value: float) -> str:
    """Format a bound; powers of two of positions and lengths are readable as such."""
    size = abs(int(value)) if float(value).is_integer() else 0
    for offset, words in ((0, ""), (1, " - 1")):
        power = (size + offset).bit_length() - 1
        if size >= 2**20 and size + offset == 2**power:
            return f"{'-' if value < 0 else ''}2^{power}{words}"
    return to_query(value)


def _command(family: type[Family]) -> str:
    url = f"http://127.0.0.1:8000{family.path}?{family.example}".removesuffix("?")
    if issubclass(family, TableFamily):
        return f"curl -s '{url}'"
    body = shlex.quote(json.dumps(_body(family)))
    return f"curl -s -H 'Content-Type: application/json' -d {body} '{url}'"


def _body(family: type[Family]) -> dict[str, Any]:
    if not issubclass(family, ComposedFamily):
        return {"x": [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]}
    required = {array.name: array.example for array in family.inputs if array.is_required}
    return required or {family.inputs[0].name: family.inputs[0].example}


if __name__ == "__main__":
    PAGE.write_text(write_page())
