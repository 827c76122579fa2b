"""The positional encodings of each model type, as far as they are known.

The facts are generated from the libraries: the defaults of a class, its parts and their modules.
``bodies`` and ``types.toml`` are written by hand: what the body of a module or function computes,
as a query of this server, and what only a type has.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any, Literal, TypeAlias

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as validated_dataclass

from service.models.config_values import ResolvedValue
from service.models.expressions import Sources
from service.models.model_types import ModelType, library_facts, model_types

Kind: TypeAlias = Literal[
    "rope", "rope-axial", "mrope-ids", "sinusoidal", "timesteps", "learned", "learned-2d",
    "relative-bias", "alibi", "buckets", "fourier", "permutation", "conv", "temperature", "none",
]  # fmt: skip
_NO_TABLE = ("rope", "rope-axial", "permutation", "temperature", "none")
Pairs: TypeAlias = Literal["half", "interleaved", "half_by_axis"]


@validated_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class EncodingEntry:
    """One positional encoding of a model type.

    Attributes:
        at: the path of the module or function; that of the facts unless given, below it if it
            begins with a point. Of several modules with the same body, only the one at this path
            has the encoding.
        below: the entry holds only for modules in a part of the model with this name.
        resolver: ``text`` if the settings are those of ``resolve_at``.
        url, query: the path and the parameters of its table here.
        asks: the parameters that no config has, each with what it counts.
        example: a value of each of these, with which the links work.
        configured: the grids of pictures of its image_size, in place of the example.
        of_grid: these of the grid of a request; it has the grid itself unless given.
        fits: conditions that the grid meets, or it is refused.
        when: the entry holds only for configs that meet these conditions.
        must: conditions that a config meets, or the table is refused.
        layers: the number of layers that have it, or the list of them.
        layout: the pairs of channels that are rotated.
        shape, stored, resize: of a learned table, whose rows a table with a url chooses.
        resized: the parameters of ``/resize`` for it, how many rows are ``kept`` or ``dropped``
            before the grid, or ``kept_behind`` it, and whether the stored table ``is_rearranged``:
            no rows of channels that ``/resize/apply`` takes; old_size is the side of a square, and
            size the grid's (of SIZES), unless given.
        not_resized: why ``/resize`` has no weights for it.
        untouched_tokens: how many tokens have no rotation.
        counts: what positions count.
        applied: how attention differs from adding the biases to the scaled scores.
        bias: the convention of the biases that ``/relative/alibi`` has of slopes.
        numbering: the name of how its tokens are numbered, in position_ids.toml.
        training_only, ignores: keys without effect in inference, or at all.
        not_served: the reason why there is no table here.
    """

    kind: Kind
    at: str = ""
    below: str | None = None
    id: str | None = None
    resolver: Literal["text"] | None = None
    url: str | None = None
    query: Mapping[str, Sources] = field(default_factory=dict)
    asks: Mapping[str, str] = field(default_factory=dict)
    example: Mapping[str, Sources] = field(default_factory=dict)
    configured: Mapping[str, Sources] = field(default_factory=dict)
    of_grid: Mapping[str, Sources] | None = None
    fits: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    must: tuple[str, ...] = ()
    layers: Sources | None = None
    layout: Pairs | None = None
    pack: str | None = None
    shape: tuple[Sources, ...] = ()
    stored: str | None = None
    resize: str | None = None
    resized: Mapping[str, Sources] = field(default_factory=dict)
    not_resized: str | None = None
    untouched_tokens: tuple[Sources, ...] = ()
    counts: str | None = None
    applied: str | None = None
    bias: str | None = None
    numbering: str | None = None
    training_only: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    not_served: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class Tower:
    """A part of a model with a config of its own.

    Attributes:
        key: of the config.
        type: the model type of the part.
        at: the path of its modules.
        defaults: those of a model without this config that differ from the defaults of the type.
        given: those of a model with this config.
        is_fixed: whether the part has its type whatever type its config names.
        half: the half of an encoder-decoder that the part is; None for a whole one.
    """

    key: str
    type: str | None
    at: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    is_fixed: bool = False
    half: str | None = None

    def part(self, name: str | None) -> "PartType | None":
        """Return the facts of a type, without the half that this part lacks; None if unknown."""
        kind = part_type(name) if name is not None else None
        if kind is None or self.half is None:
            return kind
        other = {"encoder": "decoder.", "decoder": "encoder."}[self.half]
        own = tuple(entry for entry in kind.entries if not entry.at.startswith(other))
        unknown = tuple(path for path in kind.unknown if not path.startswith(other))
        return replace(kind, entries=own or kind.entries, unknown=unknown)


@validated_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Numbering:
    """The numbering of tokens, as the head of position_ids.toml explains it.

    Attributes:
        convention: of ``/positions``; None for functions that nobody has reviewed.
    """

    convention: str | None = None
    functions: Mapping[str, str] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    values: Mapping[str, Sources] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, Any] = field(default_factory=dict)
    rule: str | None = None


SIZES = ("{depth}", "{height}", "{width}")
"""The words that stand for the sizes of a grid."""


@dataclass(frozen=True)
class NumberedTokens:
    """The numbering of the tokens of an encoding, with its values.

    Attributes:
        body: what to POST to ``/positions``, with SIZES for a grid; None without a value, or where
            the ids are among those of another encoding.
    """

    numbering: Numbering
    values: Mapping[str, ResolvedValue]
    body: Any = None


@cache
def numberings() -> Mapping[str, Numbering]:
    """Return every numbering by its name, that of its convention unless it says another."""
    text = files("service.models").joinpath("position_ids.toml").read_text(encoding="utf-8")
    own = tomllib.loads(text).items()
    return {name: Numbering(**{"convention": name, **each}) for name, each in own}


def _numbering(name: str, functions: Mapping[str, str]) -> Numbering | None:
    """Return how the functions of a type number tokens; None without functions that do."""
    for each in numberings().values():
        if name in each.types or (each.functions and each.functions.items() <= functions.items()):
            return each
    return Numbering() if "get_rope_index" in functions else None


@dataclass(frozen=True)
class PartType:
    """The facts of a model type.

    Attributes:
        library: with its version.
        defaults: of the keys of its config.
        names: the class's own names of canonical keys.
        towers: the parts with configs of their own.
        entries: its encodings, in the order of the modules.
        unknown: the paths of positional modules whose body nobody has reviewed.
        none: why there is no encoding.
        text: the facts of its rotary embedding, if it is a text model with one.
        numbering: of its tokens, if it numbers them on several axes.
    """

    name: str
    library: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    towers: tuple[Tower, ...] = ()
    entries: tuple[EncodingEntry, ...] = ()
    unknown: tuple[str, ...] = ()
    none: str | None = None
    text: ModelType | None = None
    numbering: Numbering | None = None

    @property
    def origin(self) -> str:
        """The origin of its defaults."""
        return f"{self.library} {self.name}"


def part_type(name: str) -> PartType | None:
    """Return the facts of a model type or of a diffusers class; None for an unknown one."""
    return _part_type(name) if name in _known() else None


@cache
def _known() -> frozenset[str]:
    return frozenset((*known_names(), *_types()))


@cache
def _part_type(name: str) -> PartType | None:
    text = model_types().get(name)
    for facts in library_facts():
        known = facts["types"].get(name)
        if known is not None:
            return _from_facts(name, facts, known, text)
    own = _own(name)
    if text is None and not own:
        return None
    library = text.source.partition(":")[0] if text else own.get("library", "")
    towers: tuple[Tower, ...] = ()
    if text is not None and text.text is not None and "." not in text.text:
        towers = (Tower(text.text, text.text_model_type),)
    entries = tuple(map(_ENTRY.validate_python, own.get("encodings", ())))
    return PartType(
        name,
        library,
        towers=towers,
        entries=entries,
        none=own.get("none"),
        text=text,
        numbering=_numbering(name, {}),
    )


def known_names() -> Iterator[str]:
    """Yield the name of every type, for hints."""
    return chain(model_types(), *(facts["types"] for facts in library_facts()))


_ENTRY = TypeAdapter(EncodingEntry)


@cache
def _types() -> Mapping[str, Any]:
    """Return what is known of each type by its name: all tables that name no bodies."""
    path = files("service.models") / "types.toml"
    own = tomllib.loads(path.read_text(encoding="utf-8"))
    of_names = {name: each for name, each in _tables() if not _OF_BODIES & each.keys()}
    return {**of_names, **own}


_OF_BODIES = {"bodies", "classes", "only"}


def _tables() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in (files("service.models") / "bodies").iterdir():
        if path.name.endswith(".toml") and path.name != "unreviewed.toml":
            yield from tomllib.loads(path.read_text(encoding="utf-8")).items()


def _own(name: str) -> Mapping[str, Any]:
    """Return what only a type has, or the type that it is the same as."""
    own: Mapping[str, Any] = _types().get(name, {})
    return _types()[own["same_as"]] if "same_as" in own else own


@cache
def _bodies() -> Mapping[str, tuple[EncodingEntry, ...]]:
    """Return the encodings of each reviewed body, by its hash and by module.Class.

    Those of a single class are under ``only module.Class``, and come before those of its body.
    """
    entries: dict[str, tuple[EncodingEntry, ...]] = {}
    for _, body in _tables():
        only = (f"only {each}" for each in body.get("only", ()))
        if keys := (*body.get("bodies", ()), *body.get("classes", ()), *only):
            read = tuple(map(_ENTRY.validate_python, body.get("encodings", ())))
            entries |= dict.fromkeys(keys, read)
    return entries


def _from_facts(
    name: str, facts: Mapping[str, Any], known: Mapping[str, Any], text: ModelType | None
) -> PartType:
    own, bodies = _own(name), _bodies()
    entries = [_ENTRY.validate_python(each) for each in own.get("encodings", ())]
    unknown: list[str] = [*own.get("unknown", ())]
    replaced = {each.at for each in entries}
    modules = () if own.get("replace") else [*_modules(known)]
    paths = {module["at"] for module, _ in modules}
    for module, when in modules:
        if module["at"] in replaced or _has_only_ids(module):
            continue
        found = next((bodies[key] for key in _keys(module, facts["bodies"]) if key in bodies), None)
        if found is None or (text is None and any(each.resolver for each in found)):
            unknown += [] if when and "==" in when[0] else [module["at"]]
            continue
        parts, others = {None, *module["at"].split(".")}, paths - {module["at"]}
        entries += [
            replace(_placed(each, module, when), source=_source(each, module, name, facts))
            for each in found
            if each.below in parts and each.at not in others - {""}
        ]
    rotary = [each for each in entries if each.kind in {"rope", "rope-axial"}]
    if rotary and not any(each.resolver for each in rotary):
        text = None
    if known.get("model") is None and not (known["modules"] or entries or text or own):
        # The class could not be built alone: nobody has seen its modules.
        unknown.append("")
    towers = tuple(
        Tower(
            key,
            tower["type"],
            tower.get("at") or "",
            tower["defaults"],
            tower.get("given", {}),
            tower.get("is_fixed", False),
            own.get("halves", {}).get(key),
        )
        for key, tower in known.get("towers", {}).items()
    )
    return PartType(
        name=name,
        library=facts["library"],
        defaults=known.get("defaults", {}),
        names=known.get("names", {}),
        towers=towers,
        entries=tuple(entries),
        unknown=tuple(unknown),
        none=own.get("none"),
        text=text,
        numbering=_numbering(name, known.get("functions", {})),
    )


def _modules(known: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Yield each module, with the values of switches on which it is there."""
    variants = [
        (f"/{key} == {value!r}", variant)
        for variant in known.get("variants", ())
        for key, value in variant["when"].items()
    ]
    for module in known["modules"]:
        gone = (when for when, variant in variants if module["at"] in variant["without"])
        yield module, tuple(when.replace("==", "!=") for when in gone)
    for when, variant in variants:
        for module in variant["modules"]:
            yield module, (when,)


def _has_only_ids(module: Mapping[str, Any]) -> bool:
    """Return whether a module has numbers of positions, and nothing else."""
    names = module.get("tensors", {})
    return bool(names) and all("position_ids" in name for name in names)


def _keys(module: Mapping[str, Any], bodies: Mapping[str, list[str]]) -> list[str]:
    """Return the names of the body of a module, the most exact first, and its hash.

    The hash of a class is also that of the parts of torch in it. So the name of a part is that of a
    class and an attribute, which is on the path of the part.
    """
    kind, path = module["class"], module["at"].split(".")
    names = bodies.get(module["body"], [])
    own = [name for name in names if name.endswith(f".{kind}")]
    parts = [name for name in names if name.count(".") > 1 and name.split(".")[-1] in path]
    others = [name for name in names if name.count(".") == 1] if own else []
    return [*(f"only {name}" for name in own), *(own or parts), module["body"], *others]


def _placed(
    entry: EncodingEntry, module: Mapping[str, Any], when: tuple[str, ...]
) -> EncodingEntry:
    """Return the entry of a body at its module, with the shape that the facts have."""
    own = entry.at.removeprefix(".") if entry.at.startswith(".") else ""
    at = ".".join(filter(None, (module["at"], own))) if own or not entry.at else entry.at
    is_learned = entry.kind.startswith("learned") or str(entry.stored).startswith("learned")
    tensors = [*module.get("tensors", {})]
    if not entry.at and is_learned and len(tensors) == 1:
        at = ".".join(filter(None, (at, tensors[0].removesuffix("weight").rstrip("."))))
    shape = () if entry.not_served or entry.url or entry.kind in _NO_TABLE else _shape(module, own)
    return replace(entry, at=at, shape=entry.shape or shape, when=(*entry.when, *when))


def _source(
    entry: EncodingEntry, module: Mapping[str, Any], name: str, facts: Mapping[str, Any]
) -> str | None:
    """Return the class of a module, or what the entry says of this type; None if it is of another.

    Classes of many types have the same body, which is reviewed in one of them.
    """
    kind, told = module["class"], _OF_A_FILE.search(entry.source or "")
    names = [each for each in facts["bodies"].get(module["body"], ()) if each.endswith(f".{kind}")]
    if told is None or kind == told[2] or told[1].startswith(name.replace("-", "_")):
        return entry.source
    if not names:
        return None
    return f"{facts['library']} modeling_{names[0].partition('.')[0]}.py: {kind}"


_OF_A_FILE = re.compile(r"modeling_(\w+)\.py: (\w+)")


def _shape(module: Mapping[str, Any], name: str) -> tuple[Sources, ...]:
    """Return the shape of the first tensor of a module with this name, or with any if it is empty.

    Its lengths are expressions over pointers.
    """
    for own, tensor in module.get("tensors", {}).items():
        if own.startswith(name) and tensor["formula"] and all(tensor["formula"]):
            return tuple(map(_length, tensor["formula"]))
    return ()


def _length(formula: str) -> Sources:
    """Return a formula over keys as an expression over pointers.

    Of a square of patches, there are those for a picture and patches with two sides, too.
    """
    text = _KEY.sub(_pointer, formula)
    both = _SQUARE.sub(r"(\1/0 // \2/0) * (\1/1 // \2/1)", text)
    return text if both == text else [both, _SQUARE.sub(r"(\1/0 // \2) * (\1/1 // \2)", text), text]


_SQUARE = re.compile(r"\((/\w+) // (/\w+)\) \*\* 2")


_KEY = re.compile(r"([A-Za-z_]\w*)(?:\[(\d+)\])?(?!\w*\()")


def _pointer(key: re.Match[str]) -> str:
    return "/" + "/".join(filter(None, key.groups()))
