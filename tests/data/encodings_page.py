"""Write docs/encodings.md from the families, conventions, rules and packs of the service.

Run ``make docs``. The entry of a family is its class: the docstring (summary, Formula, Source,
Bound, Trap), the table of its parameters, the arrays that it is sent, its example and what a server
answers to it. The entries of its conventions or rules follow it, each from its own registry.
"""

import inspect
import json
import re
import shlex
from collections.abc import Callable, Container, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeAlias

from service.app import create_app
from service.delivery.openapi.components import object_schema
from service.encodings.absolute.conventions import ALIASES, SinusoidConvention
from service.encodings.absolute.conventions import CONVENTIONS as SINUSOIDS
from service.encodings.family import ComposedFamily, Family, Parameters, TableFamily
from service.encodings.grid.grid_conventions import CONVENTIONS as GRIDS
from service.encodings.grid.grid_conventions import GridConvention
from service.encodings.positions.position_ids import CONVENTIONS
from service.encodings.registry import FAMILIES
from service.encodings.rotary.angles import CONSUMERS, PACKS
from service.encodings.rotary.axial_conventions import CONVENTIONS as AXIALS
from service.encodings.rotary.rules import RULES, RotaryRule
from service.grammar import to_query
from tests.client import Client, client_of
from tests.curl import sent

PAGE = Path(__file__).parents[2] / "docs" / "encodings.md"
SECTIONS = ("Formula", "Source", "Notes", "Bound", "Trap")
ORDER = (*SECTIONS[:3], "Channels", "Parameters", "Keys", "Intermediates", *SECTIONS[3:])

INTRODUCTION = """# Every encoding

Every family of tables and every convention that posref serves: formula, source, error bound,
parameters, the trap it is known for, and an example, such as these two rows of Whisper's table. An
answer states the convention and every parameter that fixes the table, defaults included.
"""
FIRST_EXAMPLE = "convention=whisper&seq_len=2&d_model=4"

NOTATION = """[tables.md](tables.md) describes what all tables share: formats, element types,
positions, and how to send arrays. This page is written by `make docs` from the classes and
conventions of the service. The examples work with a server on port 8000 (`make serve`).

- u is 2^-53, half the distance from 1 to the next float64. Bounds hold for the float64 value; any
  other element type is that value rounded once, to nearest and ties to even.
- p is a position, d `d_model`, b `base` (10000), k = 0, 1, … numbers frequencies.
- "sin ‖ cos" are all sines, then all cosines (`layout=concatenated`); "sin, cos, …" alternate
  (`layout=interleaved`).
- Of rotary rules, r is `rotary_dim`, b `rope_theta`, f `factor`, O
  `original_max_position_embeddings`, L `context_length`, and ω_k = b^(−2k/r), k = 0 … r/2 − 1,
  numbers the pairs of channels. Every frequency is evaluated in 80 digits from the formula.
- [Shared parameters](#shared-parameters), which several families have, are listed at the end.
"""

PICTURES = """## Pictures

`/encoding.png?seq_len=100&d_model=512`

![Heat map of 100 positions by 512 channels](pictures/encoding_100x512.png)

`/encoding/grid.png?convention=mae&height=14&width=20&d_model=64`

![Heat map of a grid of 14 by 20 patches](pictures/grid_14x20.png)

`/encoding/curves.png?seq_len=100&d_model=20&dimensions=4,5,6,7`

![Four dimensions over 100 positions](pictures/curves_of_dimensions.png)

`/encoding/curves.png?positions=0,1,10,50&d_model=128&layout=concatenated`

![Four positions over 128 dimensions](pictures/curves_of_positions.png)

`/relative/alibi.png?num_heads=8&head=0&query_len=64&form=symmetric`

![The bias of the first of 8 heads of ALiBi](pictures/alibi_head_0.png)

`/relative/t5.png?query_len=200`

![The buckets of T5](pictures/t5_buckets.png)

These files have 256 colours, to keep them small; `make pictures` draws them again.
"""

_ODD = {
    "sine": "an odd d has one sine more, and the exponent is still over d",
    "zero": "an odd d ends with a channel of zeros",
    "more": "an odd d has one channel more",
    "fewer": "an odd d has one channel less",
    "cut": "of any d",
    "refused": "d is even",
}

PACK_SOURCES = """For S positions and r rotary channels, `pack` is one of these or a consumer.
`half` goes with the layout half, `interleaved` with interleaved; `complex` is sent as npy or bin.
Sources: transformers 5.23.0 (Llama and its kin; Cohere; GPT-J; Llama 4; SAM 2), diffusers 0.42.1
(Flux, CogVideoX; Stable Audio; Allegro; Lumina), Meta's Llama, vLLM 0.33.0 `cos_sin_cache`,
flash-attn 2.8.3, ONNX RotaryEmbedding-23, torchtune 0.6.1, ggml's cache, DINOv3, timm 1.0.31."""

_Lines: TypeAlias = Iterator[str]


def write_page() -> str:
    """Return the page: the introduction, every family, the shared parameters, the pictures."""
    with client_of(create_app()) as client:
        entries = [line for family in FAMILIES.values() for line in _entry(family, client)]
        example = _console(_get("/encoding", FIRST_EXAMPLE), client)
        first = [INTRODUCTION, *example, *_contents(), NOTATION]
    shared = ["## Shared parameters", "", *_shared_rows(), ""]
    return "\n".join([*first, *entries, *shared, PICTURES])


def _contents() -> _Lines:
    """Write the list of families, each a link to its entry."""
    yield from ("| family | gives |", "| --- | --- |")
    for family in FAMILIES.values():
        heading = heading_of(family)
        anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        yield f"| [{heading}](#{anchor}) | {_as_sentence(family.summary)} |"
    yield ""


def heading_of(family: type[Family]) -> str:
    """Return the heading of a family's entry: its path, with POST where arrays are sent to it."""
    return f"`{family.path}`" if issubclass(family, TableFamily) else f"`POST {family.path}`"


def sections_of(documented: object) -> dict[str, str]:
    """Split a docstring into its summary (under the empty name) and its named sections."""
    text = (inspect.getdoc(documented) or "").replace("``", "`")
    names = "|".join(SECTIONS)
    parts = re.split(rf"^({names}): ", text, flags=re.MULTILINE)
    sections = {"": parts[0].strip()}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        first, _, rest = body.partition("\n")
        sections[name] = f"{first}\n{dedent(rest)}".strip()
    return sections


def _entry(family: type[Family], client: Client) -> _Lines:
    yield from (f"## {heading_of(family)}", "")
    yield from _described(sections_of(family))
    yield from _parameters(family)
    if issubclass(family, ComposedFamily):
        yield from _arrays(family)
    yield from ("", *_console(_command(family), client))
    yield from _PARTS.get(family.path, _no_parts)(client)


def _no_parts(_: Client) -> _Lines:
    yield from ()


def _described(sections: dict[str, str]) -> _Lines:
    """Write the summary, then every section that is not empty, in the order of the page."""
    if sections.get(""):
        yield from (sections[""], "")
    for name in ORDER:
        if sections.get(name):
            yield f"- **{name}**: {_indented(sections[name])}"
    yield ""


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _arrays(family: type[ComposedFamily]) -> _Lines:
    yield from ("", "Arrays that are sent:", "")
    yield from ("| name | type | axes | description |", "| --- | --- | --- | --- |")
    for array in family.inputs:
        name = f"`{array.name}`{'' if array.is_required else ' (optional)'}"
        kind = "integer" if array.is_integer else "real"
        ranks = " or ".join(map(str, array.ranks))
        yield f"| {name} | {kind} | {ranks} | {array.description} |"


def _sinusoids(client: Client) -> _Lines:
    """Write the entries of the conventions of /encoding."""
    for name, known in SINUSOIDS.items():
        aliases = [f"`{alias}`" for alias, target in ALIASES.items() if target == name]
        named = sorted(known.parameters - (set() if known.is_free else {"layout"}))
        yield from (f"### `/encoding?convention={name}`", "")
        sections = {
            "": f"The same by another name: {', '.join(aliases)}." if aliases else "",
            "Formula": f"{known.formula}.",
            "Source": f"{known.source}.",
            "Notes": known.notes,
            "Channels": f"{_channels_of(known)}.",
            "Parameters": f"{', '.join(f'`{each}`' for each in named)}.",
            "Trap": known.trap,
        }
        yield from _described(sections)
        yield from _console(_get("/encoding", f"convention={name}&{known.example}"), client)


def _channels_of(known: SinusoidConvention) -> str:
    if known.spacing == "bands":
        return "coordinates, sines and cosines; see the notes"
    refused = "; d of 2 and 3 divide by zero in the library and are refused"
    return _ODD[known.odd] + (refused if known.span(2) == 0 else "")


def _grids(client: Client) -> _Lines:
    """Write the entries of the conventions of /encoding/grid."""
    for name, conventions in GRIDS.items():
        for known in conventions:
            yield from (f"### {heading_of_grid(name, known)}", "")
            sections = sections_of(known.layout)
            sections[""] = _as_sentence(sections[""])
            sections["Source"] = f"{known.source}."
            sections["Parameters"] = _parameters_of(known)
            yield from _described(sections)
            query = f"convention={name}&{known.example}"
            yield from _console(_get("/encoding/grid", query), client)


def heading_of_grid(name: str, known: GridConvention) -> str:
    """Return the heading of a convention of grids; those of one name differ in their axes."""
    axes = " or ".join(map(str, known.axes))
    return f"`/encoding/grid?convention={name}`" + (
        f" of {axes} axes" if len(GRIDS[name]) > 1 else ""
    )


def _as_sentence(summary: str) -> str:
    """Describe what a function returns, for readers who do not call it."""
    text = summary.removeprefix("Return ")
    return text[0].upper() + text[1:]


def _parameters_of(known: GridConvention) -> str:
    axes = " or ".join(map(str, known.axes))
    values = [f"`{name}={to_query(value)}`" for name, value in known.defaults.items()]
    values += [f"`{name}`" for name in known.optional]
    values += [f"`{name}` (required)" for name in known.required]
    width = "follows from the bands"
    if not known.gives_channels:
        width = f"a multiple of {known.multiple_of}" if known.multiple_of > 1 else "any"
    return f"{', '.join(values)}; {axes} axes; `d_model`: {width}."


def _axials(client: Client) -> _Lines:
    """Write the entries of the conventions of /rope/axial."""
    for name, known in AXIALS.items():
        axes = " or ".join(map(str, sorted(known.axes)))
        names = ", ".join(f"`{each}`" for each in known.takes)
        yield from (f"### `/rope/axial?convention={name}`", "")
        sections = {
            "Formula": f"{known.formula}.",
            "Source": f"{known.source}.",
            "Parameters": f"{axes} axes; {names}.",
        }
        yield from _described(sections)
        yield from _console(_get("/rope/axial", f"convention={name}&{known.example}"), client)


def _rules(client: Client) -> _Lines:
    """Write the entries of rotary rules, then the packs."""
    for rule in RULES:
        variant = f"&{rule.variant}=…" if rule.variant else ""
        yield from (f"### `/rope?rope_type={rule.rope_type}{variant}`", "")
        sections = sections_of(rule)
        sections["Keys"] = ", ".join(_keys(rule)) + "."
        if rule.intermediate_names:
            names = ", ".join(f"`{name}`" for name in rule.intermediate_names)
            sections["Intermediates"] = f"{names} of `/rope/frequencies`."
        yield from _described(sections)
        query = f"rope_type={rule.rope_type}&{rule.example}"
        yield from _console(_get("/rope/frequencies", query), client)
    yield from _packs()


def _keys(rule: type[RotaryRule]) -> _Lines:
    defaults = {field.name: field.default for field in fields(rule)}
    for name in rule.key_types():
        default = defaults.get(name, MISSING)
        has_default = default is not MISSING and default is not None and default != ()
        if has_default:
            yield f"`{name}={to_query(default)}`"
        else:
            is_required = default is MISSING and name in defaults and name not in rule.derived
            yield f"`{name}`{' (required)' if is_required else ''}"


def _packs() -> _Lines:
    yield from ("### `/rope?pack=…`", "")
    yield PACK_SOURCES
    yield from ("", "| pack | arrays | consumers |", "| --- | --- | --- |")
    for name, pack in PACKS.items():
        consumers = ", ".join(f"`{each}`" for each, used in CONSUMERS.items() if used == name)
        yield f"| `{name}` | {pack.description} | {consumers} |"
    yield ""


def _positions(client: Client) -> _Lines:
    """Write the entries of the conventions of /positions."""
    for name, known in CONVENTIONS.items():
        yield from (f"### `POST /positions`, convention `{name}`", "")
        sections = sections_of(known)
        names = [
            f"`{key}` (required)"
            if field.is_required()
            else f"`{key}`"
            if field.default is None
            else f"`{key}={to_query(field.default)}`"
            for key, field in known.model_fields.items()
        ]
        sections["Parameters"] = ", ".join(names) + "."
        arrays = ", ".join(f"`{array.name}`" for array in known.inputs)
        sections["Notes"] = f"Arrays: {arrays or 'none'}." + (
            f" Model types: {', '.join(known.models)}." if known.models else ""
        )
        yield from _described(sections)
        body = shlex.quote(json.dumps({"convention": name, **known.example}))
        url = "http://127.0.0.1:8000/positions"
        yield from _console(
            f"curl -s -H 'Content-Type: application/json' -d {body} '{url}'", client
        )


_PARTS: dict[str, Callable[[Client], _Lines]] = {
    "/positions": _positions,
    "/encoding": _sinusoids,
    "/encoding/grid": _grids,
    "/rope": _rules,
    "/rope/axial": _axials,
}
"""What follows the entry of a family, by its path."""


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


def _shared_rows_of(family: type[Family]) -> dict[str, str]:
    """Return the rows of the parameters that a family has from classes that others have, too."""
    shared = {name for mixin in _mixins_of(family) for name in inspect.get_annotations(mixin)}
    return {name: row for name, row in _rows(family).items() if name in shared}


def _common_rows() -> dict[str, str]:
    """Return the rows of shared parameters; of those with one name, the first."""
    rows: dict[str, str] = {}
    for family in FAMILIES.values():
        for name, row in _shared_rows_of(family).items():
            rows.setdefault(name, row)
    return rows


_HEAD = ("| parameter | value | default | description |", "| --- | --- | --- | --- |")


def _shared_rows() -> _Lines:
    yield from (*_HEAD, *_common_rows().values())


def _parameters(family: type[Family]) -> _Lines:
    """Write the table of a family's own parameters, and the names of those it shares."""
    common, shared = _common_rows(), _shared_rows_of(family)
    own = [
        row
        for name, row in _rows(family).items()
        if name != "revision" and not (name in shared and common[name] == row)
    ]
    yield from (*_HEAD, *own) if own else ()
    names = [f"`{name}`" for name, row in shared.items() if common[name] == row]
    if names:
        yield from ("", f"[Shared parameters](#shared-parameters): {', '.join(names)}.")


def _rows(model: type[Parameters]) -> dict[str, str]:
    """Return a row of the table of parameters for each of them."""
    schema = object_schema(model)
    required = schema.get("required", ())
    return {
        name: f"| `{name}` | {_value(known)} | {_default(name, known, required)} "
        f"| {_escaped(known.get('description', ''))} |"
        for name, known in schema["properties"].items()
    }


def _escaped(text: str) -> str:
    return text.replace("|", r"\|")


def _default(name: str, schema: dict[str, Any], required: Container[str]) -> str:
    if name in required:
        return "required"
    return f"`{to_query(schema['default'])}`" if "default" in schema else ""


def _value(schema: dict[str, Any]) -> str:
    """Describe the values of a parameter: choices, or the type with its bounds."""
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    kind = "list" if "pattern" in schema else schema.get("type", "")
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to"}
    bounds = [f"{words[name]} {_number(schema[name])}" for name in words if name in schema]
    return " ".join((kind, *bounds))


def _number(value: float) -> str:
    """Format a bound; powers of two of positions and lengths are readable as such."""
    size = abs(int(value)) if float(value).is_integer() else 0
    for offset, words in ((0, ""), (1, " - 1")):
        power = (size + offset).bit_length() - 1
        if size >= 2**20 and size + offset == 2**power:
            return f"{'-' if value < 0 else ''}2^{power}{words}"
    return to_query(value)


def _console(command: str, client: Client) -> _Lines:
    answer = sent(command, client)
    if answer.status_code != 200:
        raise ValueError(f"{command}: {answer.text}")
    yield from ("```console", f"$ {command}", answer.text, "```", "")


def _get(path: str, query: str) -> str:
    return f"curl -s 'http://127.0.0.1:8000{path}?{query}'"


def _command(family: type[Family]) -> str:
    if issubclass(family, TableFamily):
        return _get(family.path, family.example)
    body = shlex.quote(json.dumps(_body(family)))
    url = f"http://127.0.0.1:8000{family.path}?{family.example}".removesuffix("?")
    return f"curl -s -H 'Content-Type: application/json' -d {body} '{url}'"


def _body(family: type[Family]) -> dict[str, Any]:
    if not issubclass(family, ComposedFamily):
        return {"x": [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]}
    required = {array.name: array.example for array in family.inputs if array.is_required}
    return required or {family.inputs[0].name: family.inputs[0].example}


if __name__ == "__main__":
    PAGE.write_text(write_page())
