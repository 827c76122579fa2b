"""Write docs/model-types.md from what is known of the model types and of the formats.

Run ``make docs``.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from service.models.documents import format_names
from service.models.knowledge import PartType, known_names, part_type
from service.models.translation import format_tables

PAGE = Path(__file__).parents[2] / "docs" / "model-types.md"

INTRODUCTION = """# Model types and formats

What `POST /model` knows ([from a model to its tables](models.md)). This page is written by
`make docs` from the facts of the libraries and the entries beside them.
"""
KINDS = {
    "rope": "Rotary embeddings of text and sound",
    "rope-axial": "Rotary embeddings of pictures and videos",
    "mrope-ids": "Positions on three axes",
    "sinusoidal": "Sinusoids",
    "timesteps": "Timesteps",
    "fourier": "Fourier features",
    "alibi": "ALiBi",
    "buckets": "Buckets of distances",
    "relative-bias": "Other relative positions",
    "learned": "Learned tables",
    "learned-2d": "Learned tables of grids",
    "conv": "Convolutions over positions",
    "temperature": "Query temperature",
}


def write_page() -> str:
    """Return the text of the page."""
    return "\n".join(_blocks())


def _blocks() -> Iterator[str]:
    yield INTRODUCTION
    yield "## Formats\n"
    yield "Found by their content, in this order; `format=` names one.\n"
    yield "| format | found by |\n| --- | --- |"
    signs = defaultdict(list)
    for sign in format_tables()["detect"]:
        keys = [*sign.get("all", ()), *sign.get("objects", ()), *sign.get("any", ())[:3]]
        signs[sign["form"]].append(" ".join(f"`{key}`" for key in keys))
    signs |= {"gguf": ["its first bytes, `GGUF`"], "safetensors": ["a length and `{`, or a header"]}
    for name in (*signs, *sorted(set(format_names()) - set(signs))):
        yield f"| {name} | {'; '.join(signs[name]) or 'its arguments'} |"
    types = {name: known for name in known_names() if (known := part_type(name)) is not None}
    yield f"\n## Types\n\n{len(types)} types. Parts with a config of their own are types, too.\n"
    listed: set[str] = set()
    for kind, title in KINDS.items():
        names = sorted(name for name, known in types.items() if kind in _kinds(known))
        listed.update(names)
        if names:
            yield f"### {title}\n\n{_names(names)}\n"
    unknown = sorted(name for name, known in types.items() if known.unknown)
    none = sorted(name for name, known in types.items() if known.none and not known.entries)
    made = sorted(name for name, known in types.items() if known.towers)
    rest = sorted(types.keys() - {*listed, *unknown, *none, *made})
    for title, names in (
        ("Models made of parts", made),
        ("No positional encoding", none),
        ("Not known in every part", unknown),
        ("Not known", rest),
    ):
        if names:
            yield f"### {title}\n\n{_names(names)}\n"


def _kinds(known: PartType) -> set[str]:
    kinds = {str(entry.kind) for entry in known.entries}
    if known.text is not None and known.text.layout != "none":
        kinds.add("rope")
    return kinds


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
