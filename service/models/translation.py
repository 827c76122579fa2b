"""Translate the keys of other programs into a config of transformers.

``formats.toml`` says what the keys of each format mean. A key with a rotary name that is not
understood is an error: it is never ignored.

Sources: the programs that formats.toml names, each with its version.
"""

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as validated_dataclass

from service.errors import MAX_FAULTS, Fault, InvalidBody, shortened
from service.models.config_values import (
    MAX_LAYERS,
    ConfigWarning,
    KeyPlace,
    Origin,
    ReadingReport,
    ResolvedValue,
    fault,
    nearest_word,
    under,
)
from service.models.positional_keys import ALIKE, KeyReader

Members = Mapping[str, Any]
_FACTS = ConfigDict(extra="forbid")


@cache
def format_tables() -> Members:
    """Return the content of formats.toml."""
    return tomllib.loads(files("service.models").joinpath("formats.toml").read_text("utf-8"))


@dataclass(frozen=True)
class ModelDocument:
    """The content of a document about a model, in the names of transformers.

    Attributes:
        format: the name of its format.
        found_by: the pointer of the key, or the bytes, by which the format was found.
        content: a config as transformers would have it; what was sent, where that is one.
        sources: the pointer into what was sent, even if nothing is there, by pointer of content.
        not_sent: the values of content that were not sent, by pointer.
        rotary: whether content has all that the rotary embeddings need.
        reason: why it has not, or why there are none.
        layout and writes: the pairs of channels, where the format fixes them.
        weights: how the rows of q and k stand in the file, where not as in transformers.
        scales_softmax: whether mscale_all_dim scales the softmax, too.
        warnings: those with pointers into what was sent.
        encodings: other encodings, as entries of ``bodies``; ``known`` is false where only shapes
            are known.
        read: how much of a file was read that may be cut.
        not_understood: the pointers of keys with a positional name that are not read.
        program and architecture: whose rules hold, and its name for the class of the model.
    """

    format: str
    found_by: str
    content: Members
    sources: Mapping[str, str] = field(default_factory=dict)
    not_sent: Mapping[str, ResolvedValue] = field(default_factory=dict)
    rotary: bool = True
    reason: str | None = None
    layout: str | None = None
    writes: str | None = None
    weights: str | None = None
    scales_softmax: bool = False
    encodings: tuple[Members, ...] = ()
    warnings: tuple[ConfigWarning, ...] = ()
    read: Members | None = None
    not_understood: tuple[str, ...] = ()
    program: str | None = None
    architecture: str | None = None

    def pointer(self, place: str) -> str:
        """Return the pointer into what was sent of a place in content."""
        head, tail = place, ""
        while head and head not in self.sources:
            head, _, name = head.rpartition("/")
            tail = f"/{name}{tail}"
        return self.sources[head] + tail if head else place


@validated_dataclass(frozen=True, config=_FACTS)
class FormatPart:
    """Keys of a format and what they mean, as the head of formats.toml explains them."""

    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    assumes: Members = field(default_factory=dict)
    when: str = ""
    off: float | None = None
    value: str | None = None
    layout: str | None = None
    writes: str | None = None
    rotary: bool = True
    encodings: tuple[Members, ...] = ()
    refuse: str | None = None
    reason: str | None = None
    ignores: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    name: str = ""
    type: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    known: tuple[str, ...] = ()

    def names(self) -> set[str]:
        """Return every name of a key that is understood."""
        read = (name for names in self.reads.values() for name in names)
        return {*read, *self.ignores, *self.known, *self.type, self.when}


@validated_dataclass(frozen=True, config=_FACTS)
class Form:
    """A format whose keys are not those of transformers."""

    program: str
    inside: tuple[str, ...] = ("",)
    merges: tuple[str, ...] = ()
    class_key: tuple[str, ...] = ()
    kind_key: str | None = None
    kind: str = ""
    kind_if: Mapping[str, str] = field(default_factory=dict)
    zero_is_absent: bool = False
    block: FormatPart | None = None
    shared: FormatPart = field(default_factory=FormatPart)
    rotary: FormatPart = field(default_factory=FormatPart)
    kinds: Mapping[str, FormatPart] = field(default_factory=dict)
    classes: Mapping[str, FormatPart] = field(default_factory=dict)
    rules: tuple[FormatPart, ...] = ()

    def names(self) -> set[str]:
        """Return every name of a key that is understood."""
        pieces = (self.shared, self.rotary, *self.kinds.values(), *self.classes.values())
        others = {*self.kind_if, self.kind_key or "", self.block.name if self.block else ""}
        return others.union(*(piece.names() for piece in (*pieces, *self.rules)))


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


def unknown(block: object, pointer: str, known: Iterable[str]) -> list[Fault]:
    """Return a fault for each of the first members of a block that are not understood."""
    members = block.items() if isinstance(block, dict) else ()
    others = ((name, own) for name, own in members if name not in known and own is not None)
    return [
        fault(under(pointer, name), value, "is not understood", nearest_word(name, known))
        for name, value in islice(others, MAX_FAULTS)
    ]


@dataclass(frozen=True)
class _Place(KeyPlace):
    """Members that stand in several places."""

    where: Callable[[str], str]

    def at(self, key: str) -> str:
        return self.where(key)


class Translation:
    """A document in keys of its own while it is read.

    Attributes:
        place: the members that have the keys of the model; ``pointers`` has where each stands.
        pieces: those that hold for this model.
    """

    def __init__(self, form: str, body: Members) -> None:
        self.form, self.body = forms()[form], body
        there = (at for at in self.form.inside if isinstance(member(body, at), dict))
        self.at = next(there, "none")
        if self.at == "none":
            raise InvalidBody.at(fault(self.form.inside[-1], None, "is required: an object"))
        self.place: dict[str, Any] = {}
        self.pointers: dict[str, str] = {}
        for at in (*(under(self.at, name) for name in self.form.merges), self.at):
            own = member(body, at)
            for key, value in own.items() if isinstance(own, dict) else ():
                if self.place.get(key) is None or self._is_there(value):
                    self.place[key], self.pointers[key] = value, under(at, key)
        self.pieces: list[FormatPart] = [self.form.shared]
        self.content: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.not_sent: dict[str, ResolvedValue] = {}
        self.report = ReadingReport()
        self.encodings: list[Members] = []
        self.facts: dict[str, Any] = {"format": form}

    def key(self, name: str) -> str:
        """Return the pointer to a key, even if it is missing."""
        return self.pointers.get(name) or under(self.at, name)

    def refuse(self, name: str, rule: str) -> None:
        """Add a fault of a key."""
        self.report.fault(self.key(name), self.place.get(name), rule)

    def warn(self, code: str, detail: str, name: str) -> None:
        """Warn of a key."""
        self.report.warn(code, detail, self.key(name))

    def put(self, path: str, value: Any, pointer: str) -> None:
        """Add a value of content that comes from a place in what was sent."""
        *outer, last = path.split("/")
        block = self.content
        for name in outer:
            block = block.setdefault(name, {})
        block[last] = value
        self.sources[f"/{path}"] = pointer

    def assume(self, path: str, value: Any, *sources: str) -> None:
        """Add a value that was not sent: of its program, or computed from values of content."""
        self.put(path, value, self.sources.get(f"/{path}", self.at))
        origin: Origin = "computed" if sources else "class default"
        own = sources or (f"{self.form.program}: {value}",)
        self.not_sent[f"/{path}"] = ResolvedValue(value, origin, own)

    def _is_there(self, value: Any) -> bool:
        is_zero = self.form.zero_is_absent and type(value) in {int, float} and value == 0
        return value is not None and not is_zero

    @property
    def rotary(self) -> bool:
        """True if the model has a rotary embedding."""
        return all(piece.rotary for piece in self.pieces)

    def choose(self, pieces: Mapping[str, FormatPart], value: Any, pointer: str) -> None:
        """Add the piece that a value names; a fault if there is none."""
        piece = pieces.get(value) if isinstance(value, str) else None
        if piece is not None and not piece.refuse:
            self.pieces.append(piece)
            return
        rule = f"{shortened(value)} is not known for {self.form.program}"
        if piece is not None:
            rule = f"{value} is not read: {piece.refuse}"
        near = nearest_word(value, pieces.keys() - {value}) if isinstance(value, str) else None
        self.report.fault(pointer, value, rule, near)

    def choose_pieces(self) -> None:
        """Choose the pieces of the class and of the kind of positions."""
        form = self.form
        if form.class_key:
            found = (key for key in form.class_key if member(self.body, key) is not None)
            pointer = next(found, form.class_key[-1])
            self.choose(form.classes, member(self.body, pointer), pointer)
            self.facts["architecture"] = member(self.body, pointer)
        if form.kind_key is not None:
            implied = (kind for key, kind in form.kind_if.items() if self.place.get(key))
            kind = next(implied, None) or self.place.get(form.kind_key)
            rotary = (name for names in form.rotary.reads.values() for name in names)
            if kind is None and any(self.place.get(name) is not None for name in rotary):
                rule = f"is required beside rotary keys: by default it is {form.kind}"
                self.refuse(form.kind_key, rule)
            self.choose(form.kinds, kind or form.kind, self.key(form.kind_key))

    def read_pieces(self) -> None:
        """Read the keys of the chosen pieces, and what their program takes where one is absent."""
        if self.rotary:
            self.pieces.insert(1, self.form.rotary)
            self._choose_rule()
        reads = {path: names for piece in self.pieces for path, names in piece.reads.items()}
        for path, names in reads.items():
            elsewhere = {name for other, own in reads.items() if other != path for name in own}
            self._read(path, names, elsewhere)
        for piece in reversed(self.pieces):
            for path, value in piece.assumes.items():
                if member(self.content, f"/{path}") is None:
                    is_rule = piece.when and path.endswith("rope_type")
                    self.assume(path, value, *([self.key(piece.when)] if is_rule else []))
            self.encodings += piece.encodings
            for name in filter(self.place.get, piece.ignores):
                detail = f"{self.form.program} does not read {name} for this class"
                self.warn("key-not-read", detail, name)
        if self.form.block is not None and self.rotary:
            self._read_block(self.form.block)
        for path in (path for piece in self.pieces for path in piece.needs):
            if member(self.content, f"/{path}") is None:
                self.report.fault(self.sources.get(f"/{path}", ""), None, "is required")

    def _refuse_others(self, layout: str) -> None:
        """Refuse keys with a positional name that are not understood."""
        names = self.form.names()
        place = _Place(self.place, "", self.report, self.key)
        KeyReader(self.form.program, names, layout=layout, refused=ALIKE).check(
            place, {*names, *self.form.merges}
        )

    def _choose_rule(self) -> None:
        """Choose the frequency rule; a fault if two hold, which cannot be combined."""
        ignored = {name for piece in self.pieces for name in piece.ignores}
        hold = [
            piece
            for piece in self.form.rules
            if piece.when not in ignored
            and (own := self.place.get(piece.when)) is not None
            and own is not False
            and own != piece.off
            and piece.value in {None, own if isinstance(own, str) else None}
        ]
        for piece in hold[1:]:
            self.refuse(piece.when, f"cannot be combined with {hold[0].when}")
        self.pieces += hold[:1]

    def _read(self, path: str, names: Sequence[str], elsewhere: Collection[str]) -> None:
        for name in reversed(names):
            self.sources[f"/{path}"] = self.key(name)
        for name in names:
            value = self.place.get(name)
            if isinstance(value, str) and value.startswith("${"):
                if name == names[-1]:
                    self.refuse(name, "refers to another key: send its value")
            elif self._is_there(value):
                self.put(path, value, self.key(name))
                others = names[names.index(name) + 1 :] if "rope" in path else ()
                others = [name for name in others if name not in elsewhere]
                for other in (o for o in others if self.place.get(o) not in (None, value)):
                    self.warn("said-twice", f"{name} is used, and {other} is another", other)
                return

    def _read_block(self, block: FormatPart) -> None:
        """Read the object with the parameters of a frequency rule."""
        own, at = self.place.get(block.name), self.key(block.name)
        if own is None or any(block.name in piece.ignores for piece in self.pieces):
            return
        key = next((name for name in block.type if member(own, f"/{name}")), block.type[0])
        kind = member(own, f"/{key}")
        if not isinstance(kind, str) or kind not in block.types:
            rule = f"must be one of {', '.join(block.types)}"
            self.report.fault(f"{at}/{key}" if isinstance(own, dict) else at, kind, rule)
            return
        self.put("rope_parameters/rope_type", block.types[kind], f"{at}/{key}")
        for path, names in block.reads.items():
            for name in names:
                if own.get(name) is not None:
                    self.put(f"rope_parameters/{path}", own[name], f"{at}/{name}")
        for each in unknown(own, at, block.names()):
            self.report.faults[each] = None

    def flags(self, name: str, value: Any, *, first: bool = False) -> list[bool]:
        """Return a flag for each layer: those of a list, or true for the last of each period.

        Args:
            name: the key of the value, for a fault.
            value: the list, or the period; 0 for no layer.
            first: whether it is the first of each period instead.
        """
        count = self.content.get("num_hidden_layers")
        if type(count) is not int or not 0 < count <= MAX_LAYERS:
            rule = f"must be an integer from 1 to {MAX_LAYERS}"
            self.report.fault(self.sources["/num_hidden_layers"], count, rule)
        elif type(value) is int and value >= 0:
            place = 0 if first else value - 1
            return [value > 0 and layer % value == place for layer in range(count)]
        elif isinstance(value, list) and len(value) == count and all(x in (0, 1) for x in value):
            return [bool(flag) for flag in value]
        else:
            self.refuse(name, "must be a period, or 0 or 1 for each layer")
        return []

    def split_layers(self, without: Sequence[bool], name: str) -> None:
        """Add the layers without a rotary embedding, as parameters by layer type."""
        if any(without):
            own = {"rope_type": "default", **self.content.pop("rope_parameters", {})}
            own["rope_theta"] = self.content.get("rope_theta")
            self.nest({"rotary": own, "no_rope": None}, "rotary")
            types = ["no_rope" if flag else "rotary" for flag in without]
            self.put("layer_types", types, self.key(name))

    def nest(self, blocks: Members, label: str) -> None:
        """Put blocks by layer type; the sources so far are those of one of them."""
        before, after = "/rope_parameters/", f"/rope_parameters/{label}/"
        for known in cast(tuple[dict[str, Any], ...], (self.sources, self.not_sent)):
            moved = {path: own for path, own in known.items() if path.startswith(before)}
            known |= {path.replace(before, after, 1): own for path, own in moved.items()}
            if "/rope_theta" in known:
                known[f"{after}rope_theta"] = known["/rope_theta"]
        self.put("rope_parameters", blocks, self.at)
        for name, block in blocks.items():
            for key, value in (block or {}).items():
                if f"{before}{name}/{key}" not in self.sources:
                    self.assume(f"rope_parameters/{name}/{key}", value)

    def document(self, found_by: str) -> ModelDocument:
        """Return the document; raise InvalidBody with all faults, if there are any."""
        layout, writes, reason = (
            next((own for piece in reversed(self.pieces) if (own := getattr(piece, name))), None)
            for name in ("layout", "writes", "reason")
        )
        if self.rotary:
            layout = "interleaved" if self.content.get("rope_interleave") else layout or "half"
            self.content["rope_interleave"] = layout == "interleaved"
        self._refuse_others(layout if layout and self.rotary else "none")
        self.report.check()
        known: dict[str, Any] = {"rotary": self.rotary, "layout": layout, "writes": writes}
        if not self.rotary and not self.encodings:
            known["reason"] = (
                reason or f"{self.form.program} has no rotary embedding for this model"
            )
        return ModelDocument(
            found_by=found_by,
            content=self.content,
            program=self.form.program,
            sources=self.sources,
            not_sent=self.not_sent,
            encodings=tuple(self.encodings),
            warnings=tuple(self.report.warnings),
            **{**known, **self.facts},
        )
