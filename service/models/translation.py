"""Translate the keys of other programs into a config of transformers.

``formats.toml`` says what the keys of each format mean. A key with a rotary name that is not
understood is an error: it is never ignored.

Sources: the programs that formats.toml names, each with its version.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as validated_dataclass

from service.errors import Fault, InvalidBody, shortened
from service.models.config_values import did_you_mean

Members = Mapping[str, Any]
FACTS = ConfigDict(extra="forbid")
_ROTARY_NAME = re.compile(
    r"rope|rotary|yarn|mscale|alibi|axes_dim|interpolation_factor|scale_positional", re.IGNORECASE
)


@cache
def format_tables() -> Members:
    """Return the content of formats.toml."""
    return tomllib.loads(files("service.models").joinpath("formats.toml").read_text("utf-8"))


@dataclass(frozen=True)
class FormatWarning:
    """A warning about a document: something is assumed, ignored or not seen.

    Attributes:
        code: a key of ``[warnings]`` in formats.toml.
        detail: the sentence for this document.
        pointer: the JSON pointer into what was sent.
    """

    code: str
    detail: str
    pointer: str

    def __post_init__(self) -> None:
        if self.code not in format_tables()["warnings"]:
            raise ValueError(f"{self.code} is not a code of a warning")


@dataclass(frozen=True)
class ModelDocument:
    """What a document says about a model, in the names of transformers.

    Attributes:
        format: the name of its format.
        found_by: the pointer of the key, or the bytes, by which the format was found.
        content: a config as transformers would have it; what was sent, where that is one.
        sources: the pointer into what was sent, even if nothing is there, by pointer of content.
        assumed: why a value of content that was not sent is what it is, by its pointer.
        rotary: whether content says all of the rotary embeddings, so that they can be resolved.
        reason: why there is nothing to resolve.
        layout: of the pairs of channels, where the format fixes it.
        writes: the layout of the turned channels, where it is another.
        weights: how the rows of q and k stand in the file, where not as in transformers.
        encodings: what the format itself says of other encodings, or of unknown ones, as entries
            of ``bodies``; ``known: false`` marks those of which only shapes are known.
        read: for a file that may be cut: keys and tensors read, and where it ends.
        not_understood: keys with a positional name that are not read.
    """

    format: str
    found_by: str
    content: Members
    sources: Mapping[str, str] = field(default_factory=dict)
    assumed: Mapping[str, str] = field(default_factory=dict)
    rotary: bool = True
    reason: str | None = None
    layout: str | None = None
    writes: str | None = None
    weights: str | None = None
    encodings: tuple[Members, ...] = ()
    warnings: tuple[FormatWarning, ...] = ()
    read: Members | None = None
    not_understood: tuple[str, ...] = ()

    def pointer(self, place: str) -> str:
        """Return the pointer into what was sent of a place in content."""
        head, tail = place, ""
        while head and head not in self.sources:
            head, _, name = head.rpartition("/")
            tail = f"/{name}{tail}"
        return self.sources[head] + tail if head else place


@validated_dataclass(frozen=True, config=FACTS)
class Piece:
    """Keys of a format and what they mean, as the head of formats.toml explains them."""

    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    assumes: Members = field(default_factory=dict)
    when: str | None = None
    off: float | None = None
    layout: str | None = None
    writes: str | None = None
    rotary: bool = True
    encodings: tuple[Members, ...] = ()
    refuse: str | None = None
    ignores: tuple[str, ...] = ()


@validated_dataclass(frozen=True, config=FACTS)
class Block:
    """An object with the parameters of a frequency rule: its types, by name, and its keys."""

    name: str
    type: tuple[str, ...]
    types: Mapping[str, str]
    reads: Mapping[str, tuple[str, ...]]
    known: tuple[str, ...] = ()


@validated_dataclass(frozen=True, config=FACTS)
class Form:
    """A format whose keys are not those of transformers."""

    program: str
    inside: tuple[str, ...]
    merges: tuple[str, ...] = ()
    class_key: tuple[str, ...] = ()
    kind_key: str | None = None
    kind: str = ""
    kind_if: Mapping[str, str] = field(default_factory=dict)
    zero_is_absent: bool = False
    known: tuple[str, ...] = ()
    block: Block | None = None
    shared: Piece = field(default_factory=Piece)
    rotary: Piece = field(default_factory=Piece)
    kinds: Mapping[str, Piece] = field(default_factory=dict)
    classes: Mapping[str, Piece] = field(default_factory=dict)
    rules: tuple[Piece, ...] = ()

    def names(self) -> frozenset[str]:
        """Return every name of a key that is understood."""
        others = (self.shared, self.rotary, *self.kinds.values(), *self.classes.values())
        names: set[str] = {*self.known, *self.kind_if, self.kind_key or ""}
        for piece in (*others, *self.rules):
            names.update(*piece.reads.values(), piece.ignores, (piece.when or "",))
        return frozenset(names | ({self.block.name} if self.block else set()))


@cache
def forms() -> Mapping[str, Form]:
    """Return the formats with keys of their own, by name."""
    read = TypeAdapter(Form).validate_python
    return {name: read(table) for name, table in format_tables()["forms"].items()}


def member(body: object, pointer: str) -> Any:
    """Return the member at a pointer, or None."""
    for name in pointer.split("/")[1:]:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def fault(pointer: str, value: object, rule: str) -> Fault:
    """Return a fault whose detail begins with the name of the key."""
    name = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~") or "the body"
    sent = None if value is None else shortened(value)
    return Fault(pointer, sent, f"{shortened(name)} {rule}", in_body=True)


def unknown(block: object, pointer: str, known: Iterable[str]) -> list[Fault]:
    """Return a fault for each member of a block that is not understood."""
    members = block.items() if isinstance(block, dict) else ()
    return [
        fault(_under(pointer, name), value, f"is not understood{did_you_mean(name, known)}")
        for name, value in members
        if name not in known and value is not None
    ]


def _under(pointer: str, name: str) -> str:
    return f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"


class Translation:
    """A document in keys of its own while it is read.

    Attributes:
        place: the members that have the keys of the model.
        pointers: where each of them stands in what was sent.
        pieces: those that hold for this model.
    """

    def __init__(self, name: str, body: Members) -> None:
        self.name, self.form, self.body = name, forms()[name], body
        there = (at for at in self.form.inside if isinstance(member(body, at), dict))
        self.at = next(there, None)
        if self.at is None:
            raise InvalidBody.at(fault(self.form.inside[-1], None, "is required: an object"))
        own = member(body, self.at)
        self.place: dict[str, Any] = {}
        self.pointers: dict[str, str] = {}
        for at, members in [
            *((_under(self.at, inner), own.get(inner)) for inner in self.form.merges),
            (self.at, own),
        ]:
            for key, value in members.items() if isinstance(members, dict) else ():
                if self.place.get(key) is None or self._is_there(value):
                    self.place[key], self.pointers[key] = value, _under(at, key)
        self.pieces: list[Piece] = [self.form.shared]
        self.content: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.assumed: dict[str, str] = {}
        self.warnings: list[FormatWarning] = []
        self.faults: list[Fault] = []
        self.encodings: list[Members] = []
        self.not_understood: list[str] = []
        self.reason: str | None = None

    def key(self, name: str) -> str:
        """Return the pointer to a key, even if it is missing."""
        return self.pointers.get(name) or _under(self.at or "", name)

    def refuse(self, name: str, rule: str) -> None:
        """Add a fault of a key."""
        self.faults.append(fault(self.key(name), self.place.get(name), rule))

    def warn(self, code: str, detail: str, name: str) -> None:
        """Warn of a key."""
        self.warnings.append(FormatWarning(code, detail, self.key(name)))

    def put(self, path: str, value: Any, pointer: str) -> None:
        """Add a value of content that comes from a place in what was sent."""
        *outer, last = path.split("/")
        block = self.content
        for name in outer:
            block = block.setdefault(name, {})
        block[last] = value
        self.sources[f"/{path}"] = pointer

    def assume(self, path: str, value: Any, reason: str | None = None) -> None:
        """Add a value that was not sent."""
        self.put(path, value, self.sources.get(f"/{path}", self.at or ""))
        self.assumed[f"/{path}"] = reason or f"{self.form.program}: {value}"

    def _is_there(self, value: Any) -> bool:
        is_zero = self.form.zero_is_absent and type(value) in {int, float} and value == 0
        return value is not None and not is_zero

    def choose(self, pieces: Mapping[str, Piece], value: Any, pointer: str) -> None:
        """Add the piece that a value names; a fault if there is none."""
        piece = pieces.get(value) if isinstance(value, str) else None
        if piece is None:
            near = did_you_mean(value, pieces) if isinstance(value, str) else ""
            rule = f"{shortened(value)} is not known for {self.form.program}{near}"
            self.faults.append(fault(pointer, value, rule))
            return
        if piece.refuse:
            self.faults.append(fault(pointer, value, f"{value} is not read: {piece.refuse}"))
        self.pieces.append(piece)

    def choose_pieces(self) -> None:
        """Choose the pieces of the class, of the kind of positions and of the frequency rule."""
        form = self.form
        if form.class_key:
            found = (key for key in form.class_key if member(self.body, key) is not None)
            pointer = next(found, form.class_key[-1])
            self.choose(form.classes, member(self.body, pointer), pointer)
        if form.kind_key is not None:
            implied = (kind for key, kind in form.kind_if.items() if self.place.get(key))
            kind = next(implied, None) or self.place.get(form.kind_key) or form.kind
            self.choose(form.kinds, kind, self.key(form.kind_key))
        if not self.rotary:
            return
        self.pieces.insert(1, form.rotary)
        ignored = {name for piece in self.pieces for name in piece.ignores}
        hold = [
            piece
            for piece in form.rules
            if piece.when not in ignored
            and (value := self.place.get(piece.when or "")) is not None
            and value is not False
            and value != piece.off
        ]
        for piece in hold[1:]:
            self.refuse(piece.when or "", f"cannot be combined with {hold[0].when}")
        self.pieces += hold[:1]

    @property
    def rotary(self) -> bool:
        """Whether the model has a rotary embedding."""
        return all(piece.rotary for piece in self.pieces)

    def read_pieces(self) -> None:
        """Read the keys of the chosen pieces, and what their program takes where one is absent."""
        reads = {path: names for piece in self.pieces for path, names in piece.reads.items()}
        for path, names in reads.items():
            self._read(path, names)
        for piece in reversed(self.pieces):
            for path, value in piece.assumes.items():
                if member(self.content, f"/{path}") is None:
                    self.assume(path, value)
            self.encodings += piece.encodings
            for name in piece.ignores:
                if self.place.get(name):
                    detail = f"{self.form.program} does not read {name} for this class"
                    self.warn("key-not-read", detail, name)
        if self.form.block is not None and self.rotary:
            self._read_block(self.form.block)
        known = self.form.names()
        for name, value in self.place.items():
            if name in known or value is None or value is False or not _ROTARY_NAME.search(name):
                continue
            self.refuse(name, f"is not understood{did_you_mean(name, known)}")

    def _read(self, path: str, names: Sequence[str]) -> None:
        if names:
            self.sources.setdefault(f"/{path}", self.key(names[0]))
        for name in names:
            outer, _, inner = name.rpartition("/")
            value = member(self.place, f"/{name}") if outer else self.place.get(name)
            pointer = f"{self.key(outer)}/{inner}" if outer else self.key(name)
            if isinstance(value, str) and value.startswith("${"):
                if name == names[-1]:
                    self.refuse(name, "refers to another key: send its value")
            elif self._is_there(value):
                self.put(path, value, pointer)
                return

    def _read_block(self, block: Block) -> None:
        """Read the object with the parameters of a frequency rule."""
        own, at = self.place.get(block.name), self.key(block.name)
        if own is None or any(block.name in piece.ignores for piece in self.pieces):
            return
        if not isinstance(own, dict):
            self.refuse(block.name, "must be an object")
            return
        key = next((name for name in block.type if own.get(name) is not None), block.type[0])
        kind = own.get(key)
        if not isinstance(kind, str) or kind not in block.types:
            rule = f"must be one of {', '.join(block.types)}"
            self.faults.append(fault(f"{at}/{key}", kind, rule))
            return
        self.put("rope_parameters/rope_type", block.types[kind], f"{at}/{key}")
        for path, names in block.reads.items():
            for name in names:
                if own.get(name) is not None:
                    self.put(f"rope_parameters/{path}", own[name], f"{at}/{name}")
        known = {*block.type, *block.known, *(n for names in block.reads.values() for n in names)}
        self.faults += unknown(own, at, known)

    def split_layers(self, without: Sequence[bool], name: str) -> None:
        """Say which layers do not turn, as parameters by layer type."""
        if any(without):
            own = {"rope_type": "default", **self.content.pop("rope_parameters", {})}
            own["rope_theta"] = self.content.get("rope_theta")
            self.nest({"rotary": own, "no_rope": None}, "rotary")
            types = ["no_rope" if flag else "rotary" for flag in without]
            self.put("layer_types", types, self.key(name))

    def nest(self, blocks: Members, label: str) -> None:
        """Put blocks by layer type; the sources so far are those of one of them."""
        before, after = "/rope_parameters/", f"/rope_parameters/{label}/"
        for known in (self.sources, self.assumed):
            moved = {path: own for path, own in known.items() if path.startswith(before)}
            known |= {path.replace(before, after, 1): own for path, own in moved.items()}
            if "/rope_theta" in known:
                known[f"{after}rope_theta"] = known["/rope_theta"]
        self.put("rope_parameters", blocks, self.at or "")
        for name, block in blocks.items():
            for key, value in (block or {}).items():
                if f"{before}{name}/{key}" not in self.sources:
                    self.assume(f"rope_parameters/{name}/{key}", value)

    def document(self, found_by: str, **facts: Any) -> ModelDocument:
        """Return the document; raise InvalidBody with all faults, if there are any."""
        if self.faults:
            raise InvalidBody.at(*self.faults)
        layout, writes = (
            next((own for piece in reversed(self.pieces) if (own := getattr(piece, name))), None)
            for name in ("layout", "writes")
        )
        if self.rotary:
            layout = "interleaved" if self.content.get("rope_interleave") else layout or "half"
            self.content["rope_interleave"] = layout == "interleaved"
        return ModelDocument(
            **{
                "format": self.name,
                "found_by": found_by,
                "content": self.content,
                "sources": self.sources,
                "assumed": self.assumed,
                "rotary": self.rotary,
                "reason": self.reason,
                "layout": layout,
                "writes": writes,
                "encodings": tuple(self.encodings),
                "warnings": tuple(self.warnings),
                "not_understood": tuple(self.not_understood),
                **facts,
            }
        )
