"""Describe a model: every positional encoding in it, with the origin of each value.

``describe`` walks the parts of a config. Of each part, ``knowledge`` has the encodings, and
``expressions`` finds their values; ``resolve`` reads the rotary ones of text.
A part that is not known is listed as such, and never has a table.

This module is long because one walk makes the entries of every part.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from service.errors import Fault, InvalidBody, ModelNotKnown, shortened
from service.models.attention_windows import window_of
from service.models.blocks import origin_of_layers
from service.models.config_values import (
    MAX_COUNT,
    TEXT_CONFIGS,
    ConfigWarning,
    KeyPlace,
    ReadingReport,
    ResolvedValue,
    asking,
    nearest_word,
)
from service.models.expressions import Missing, Scope, Source, Sources, Unusable, filled, in_words
from service.models.knowledge import (
    SIZES,
    EncodingEntry,
    NumberedTokens,
    Numbering,
    PartType,
    Tower,
    known_names,
    numberings,
    part_type,
)
from service.models.model_types import Attention, ModelType
from service.models.positional_keys import ALIKE, check_part, is_other_part
from service.models.resolve import Resolved, resolve_at
from service.models.rotary_settings import LayerSettings
from service.models.translation import ModelDocument

_MAX_DEPTH = 4
_THETA = 10000.0
_TEMPERATURE, _QUERIES = "/attention/temperature", 16384
_MAX_ENCODINGS = 64
# The key of the size of pictures: one side, or the height and the width.
_PICTURES, _SIDES = "image_size", 2
_COUNTS: list[Source] = ["/num_hidden_layers", "/depth", "/num_layers", "/encoder_layers"]
_IDS = {"rope": "rotary", "rope-axial": "rotary", "timesteps": "timestep"}


@dataclass(frozen=True)
class PartEncoding:
    """One positional encoding of a part of a model.

    Attributes:
        id: the part and the kind, unique in the model.
        at: the path of its module or function.
        config: the pointer to the config of the part.
        kind: the kind of encoding.
        layers: which layers have it.
        entry: the knowledge about it; None for the rotary embedding of a text model, and for an
            unknown one.
        values: the parameters of its table, and other values.
        asked: a value for each parameter that no config has.
        scope: where its values are from.
        shape: of a learned table.
        resized: the parameters of a resize of it.
        untouched_tokens: how many tokens have no rotation.
        settings: the settings of a text model, of which these are the layers of one type.
        numbered: how its tokens are numbered.
        resolved: all settings of that text model.
        reason: why there is no table.
        is_sent: whether the document has a config of the part.
        is_known: whether the body of the module is known.
    """

    id: str
    at: str
    config: str
    kind: str
    layers: Mapping[str, Any] = field(default_factory=dict)
    entry: EncodingEntry | None = None
    values: Mapping[str, ResolvedValue] = field(default_factory=dict)
    asked: Mapping[str, ResolvedValue] = field(default_factory=dict)
    scope: Scope | None = None
    shape: tuple[ResolvedValue, ...] = ()
    resized: Mapping[str, ResolvedValue] = field(default_factory=dict)
    untouched_tokens: tuple[ResolvedValue, ...] = ()
    settings: LayerSettings | None = None
    numbered: NumberedTokens | None = None
    resolved: Resolved | None = None
    reason: str | None = None
    is_sent: bool = True
    is_known: bool = True

    def misfit(self, asked: Mapping[str, ResolvedValue]) -> str | None:
        """Return the rule that values for what no config has break; None if they fit."""
        if self.scope is None or self.entry is None:
            return None
        own = {name: list(each.value) for name, each in asked.items() if name == "grid"}
        scope = self.scope.beside(own)
        broken = (each for each in self.entry.fits if not scope.holds(each))
        try:
            return next(map(in_words, broken), None)
        except Unusable as error:
            return f"grid {error.rule}"

    @property
    def is_assumed(self) -> bool:
        """True for the settings of a class that is not known."""
        return self.resolved is not None and not self.resolved.model.is_known


@dataclass(frozen=True)
class ModelDescription:
    """The positional encodings of a model.

    Attributes:
        model_type: of the config, or the name of its class.
        library: the library whose class it is, with its version; None for an unknown type.
        status: ``known``, or ``assumed`` where the type, or a key that looks positional, is not.
        encodings: in the order of the parts and of their modules.
        reason: why there are none.
        unread: pointers of positional keys without effect.
    """

    model_type: str | None
    library: str | None
    status: str
    encodings: tuple[PartEncoding, ...]
    warnings: tuple[ConfigWarning, ...]
    reason: str | None = None
    unread: tuple[str, ...] = ()


def describe(document: ModelDocument, context_length: int | None = None) -> ModelDescription:
    """Describe a model.

    Args:
        document: what was sent; pointers in the description are into its content.
        context_length: of the model in use.

    Raises:
        ModelNotKnown: nothing is known of its type, and the config has no rotary settings.
        InvalidBody: with a pointer to each invalid or missing value.
    """
    content, report = document.content, ReadingReport()
    walk = _Walk(report, document, context_length)
    body = KeyPlace(content, "", report)
    key = "_class_name" if document.format == "diffusers" else "model_type"
    name, library, status = _name(content, key), document.program, "known"
    part = part_type(name) if name is not None else None
    if document.format in OWN_CLASSES and part is not None:
        library = part.library
        walk.add(_Part(body, part))
    elif document.format == "diffusers":
        near = nearest_word(str(name), known_names())
        detail = f"no positional encoding is known for {shortened(name)}{asking(near)}"
        raise ModelNotKnown(detail, suggestion=near)
    elif document.format in OWN_CLASSES:
        status = "assumed"
        unknown = _Part(body, PartType(name or "", ""))
        walk.add_text(unknown)
        walk.add_other_towers(unknown)
    else:
        walk.add_given(body)
    report.check()
    reason = document.reason or (None if walk.encodings else walk.reason)
    if not walk.encodings and reason is None:
        raise ModelNotKnown(f"the positional encodings of {shortened(name)} are not known")
    pointers = (each.pointer for each in report.warnings if each.code == "unknown-rope-key")
    if any(ALIKE.search(pointer.rpartition("/")[2]) for pointer in pointers):
        status = "assumed"
    return ModelDescription(
        model_type=name or document.architecture,
        library=library,
        status=status,
        encodings=tuple(walk.encodings),
        warnings=tuple(report.warnings),
        reason=reason,
        unread=tuple(walk.unread),
    )


OWN_CLASSES = ("transformers", "mlx", "diffusers")
"""The formats whose keys are those of the classes of a library."""


def _name(content: Mapping[str, Any], key: str) -> str | None:
    name = content.get(key)
    if name is None or isinstance(name, str):
        return name
    raise InvalidBody.at(Fault(f"/{key}", None, f"{key} must be text", in_body=True))


@dataclass(frozen=True)
class _Part:
    """A part of a model.

    Attributes:
        place: its config.
        type: the facts of its type.
        prefix: of the ids of its encodings.
        at: the path of its modules.
        defaults: those that the model around it gives to it.
        depth: how many parts are around it.
        is_flat: whether its keys stand among those of the model around it.
        read: the keys that its encodings, and how its tokens are numbered, are found by.
    """

    place: KeyPlace
    type: PartType
    prefix: str = ""
    at: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0
    is_flat: bool = False
    read: set[str] = field(default_factory=set)


@dataclass
class _Walk:
    """Collects the encodings of the parts of a model.

    Attributes:
        resolved: the pointers of the configs whose text model is resolved.
    """

    report: ReadingReport
    document: ModelDocument
    context_length: int | None
    encodings: list[PartEncoding] = field(default_factory=list)
    resolved: set[str] = field(default_factory=set)
    unread: dict[str, None] = field(default_factory=dict)
    reason: str | None = None

    def add(self, part: _Part) -> None:
        """Add the encodings of a part, then those of the parts in it."""
        place, kind, prefix, at = part.place, part.type, part.prefix, part.at
        defaults = {**kind.defaults, **part.defaults}
        scope = Scope(place, kind.origin, defaults, kind.names, part.read)
        rotary = [entry for entry in kind.entries if entry.kind in {"rope", "rope-axial"}]
        is_text = not rotary or any(entry.resolver == "text" for entry in rotary)
        is_text &= not any(map(_has_text_inside, kind.towers))
        if kind.text is not None and is_text and place.pointer not in self.resolved:
            is_own = kind.text.text is None and bool(part.defaults)
            self.add_text(part, kind.text.within(part.defaults) if is_own else None)
        for entry in kind.entries:
            if entry.resolver is None:
                self._add_entry(scope, entry, prefix, at)
        for path in kind.unknown:
            self._add(
                f"{prefix}unknown", _joined(at, path), place.pointer, "unknown", is_known=False
            )
        if kind.none is not None and not kind.towers:
            self.reason = kind.none
        keys = (key for entry in kind.entries for key in (*entry.training_only, *entry.ignores))
        read = part.read | {key[1:] for key in keys} | {tower.key for tower in kind.towers}
        is_checked = place.pointer in self.resolved or part.is_flat
        check_part(place, kind, read, defaults, is_checked=is_checked)
        if part.is_flat:
            return
        # The text model is first, as for models with a single one.
        for tower in sorted(kind.towers, key=lambda each: not _has_text_inside(each)):
            self._add_tower(part, tower)
        self.add_other_towers(part)

    def add_text(self, part: _Part, known: ModelType | None = None) -> None:
        """Add the rotary embedding of a text model, an encoding for each type of layers."""
        place, prefix, at = part.place, part.prefix, part.at
        resolved = resolve_at(place, self.context_length, part.type.name or None, known)
        if self.document.layout is not None:
            resolved = replace(resolved, layout=self.document.layout, writes=self.document.writes)
        pointer = resolved.model.place.pointer
        path = pointer.removeprefix(place.pointer)[1:].split("/")
        towers = {each.key: each for each in part.type.towers}
        if len(path) > 1 and path[0] in towers:
            return  # The part in between has it.
        self.resolved.update((place.pointer, pointer))
        own_key = part.type.text.text if part.type.text else None
        tower = towers.get(path[0] or own_key or "text_config", Tower("", None))
        at = _joined(at, tower.at)
        own = part_type(tower.type) if tower.type else part.type
        modules = [each.at for each in own.entries if each.resolver] if own else []
        if pointer != place.pointer:
            prefix = f"{prefix}{_id(pointer.rpartition('/')[2])}."
        if not resolved.entries:
            self.reason = resolved.model.type.instead or "there is no rotary embedding"
            for each in [*place.report.warnings] if place.pointer else ():
                if each.code == "no-rotary-embedding":
                    del place.report.warnings[each]
        for entry in resolved.entries:
            label = "" if entry.label in {"default", "rotary"} else f".{entry.label}"
            self._add(
                f"{prefix}rotary{label}",
                ", ".join(_joined(at, each) for each in dict.fromkeys(modules or ["rotary_emb"])),
                pointer,
                "rope",
                layers=_rotary_layers(entry),
                settings=entry,
                numbered=self._numbered_text(part),
                is_sent=bool(resolved.model.values or not part.type.towers),
                resolved=resolved,
            )
        self._add_beside(resolved, prefix, at)

    def _numbered_text(self, part: _Part) -> NumberedTokens | None:
        """Return how a model numbers its tokens; its values are those of its parts, too."""
        kind, defaults = part.type, {**part.type.defaults}
        for tower in kind.towers:
            own = part_type(tower.type) if tower.type else None
            defaults[tower.key] = {**(own.defaults if own else {}), **tower.defaults}
        scope = Scope(part.place, kind.origin, defaults, kind.names, part.read)
        try:
            return self._numbered(scope, kind.numbering)
        except Unusable as error:
            part.place.report.fault(error.pointer, error.value, error.rule)
            return None

    def _numbered(self, scope: Scope, numbering: Numbering | None) -> NumberedTokens | None:
        if numbering is None:
            return None
        values = self._values(scope, numbering.values)
        if values.keys() != numbering.values.keys() or not numbering.body:
            return NumberedTokens(numbering, values)
        body = filled(
            {"convention": f"'{numbering.convention}'", **numbering.body},
            lambda text: text if text in SIZES else scope.value(text).value,
        )
        return NumberedTokens(
            numbering, values, body | {name: each.value for name, each in values.items()}
        )

    def _add_beside(self, resolved: Resolved, prefix: str, at: str) -> None:
        """Add the factors of queries, the window, and the layers without a rotary embedding."""
        pointer, known = resolved.model.place.pointer, resolved.model.type.attention
        temperature = resolved.attention.get("query_temperature")
        if temperature:
            origins, formula = resolved.attention["origin"], temperature["formula"]
            values = {name: origins[name] for name in temperature if name in origins}
            # Of a class that is not known, the keys imply the formula.
            convention = ResolvedValue(known.query_temperature or "ministral3", "fixed in code")
            implied = origins.get("query_temperature", convention)
            entry = EncodingEntry("temperature", url=_TEMPERATURE, counts=formula)
            self._add(
                f"{prefix}temperature",
                at,
                pointer,
                "temperature",
                layers={"only": temperature["layers"]} if "layers" in temperature else {},
                entry=replace(entry, asks={"seq_len": "positions of queries"}),
                values={"convention": replace(implied, value=convention.value), **values},
                asked={"seq_len": ResolvedValue(_QUERIES, "example")},
                is_known=known.query_temperature is not None,
            )
        if (window := window_of(resolved)) is not None:
            own = {"layers": window.layers, "values": {"window": window.size}}
            self._add(f"{prefix}window", at, pointer, "window", reason=window.sees, **own)
        if resolved.without:
            layers = {"only": sorted(resolved.without), **origin_of_layers(resolved.model)}
            reason = "these layers have no positional encoding"
            self._add(f"{prefix}none", at, pointer, "none", layers=layers, reason=reason)

    def add_given(self, body: KeyPlace) -> None:
        """Add the encodings of a document whose format says all of them."""
        document, content = self.document, body.content
        if document.rotary:
            known = ModelType(
                name=document.format,
                source=document.format,
                layout=document.layout or "half",
                layout_key="rope_interleave",
                head_dim="qk_rope_head_dim" if "qk_rope_head_dim" in content else None,
                defaults={"rope_theta": _THETA},
                attention=Attention(softmax_mscale=document.scales_softmax),
            )
            self.add_text(_Part(body, PartType(document.format, "")), known)
            self.add_other_towers(_Part(body, PartType(document.format, "")))
        scope = Scope(body, document.format)
        for own in document.encodings:
            if own.get("known", True):
                self._add_entry(scope, EncodingEntry(**own), "", "")
                continue
            values = {
                name: ResolvedValue(value, "config", (*({f"/{name}"} & document.sources.keys()),))
                for name, value in own.get("values", {}).items()
            }
            shape = tuple(ResolvedValue(length, "config") for length in own.get("shape", ()))
            kind, at = str(own["kind"]), str(own.get("at", ""))
            shapes = {"values": values, "shape": shape, "reason": own.get("reason")}
            self._add(_IDS.get(kind, kind), at, "", kind, is_known=False, **shapes)

    def _add_entry(self, scope: Scope, entry: EncodingEntry, prefix: str, at: str) -> None:
        pointer = scope.place.pointer
        try:
            if not all(map(scope.holds, entry.when)):
                return
            for condition in entry.must:
                if not scope.holds(condition):
                    raise scope.unmet(condition)
            values = self._values(scope, entry.query)
            examples = self._values(scope, entry.example)
            asked = {name: each.as_example() for name, each in examples.items()}
            asked |= self._configured(scope, entry)
            shape = self._listed(scope, entry.shape, least=1)
            resized = self._values(scope, entry.resized)
            untouched = self._listed(scope, entry.untouched_tokens)
            layers = self._layers(scope, entry)
            numbered = self._numbered(scope, numberings().get(entry.numbering or ""))
        except Unusable as error:
            scope.place.report.fault(error.pointer, error.value, error.rule)
            return
        for key in (*entry.training_only, *entry.ignores):
            if scope.place.content.get(key[1:]) is not None:
                self.unread[f"{pointer}{key}"] = None
        self._add(
            f"{prefix}{entry.id or _IDS.get(entry.kind, entry.kind)}",
            _joined(at, entry.at),
            pointer,
            entry.kind,
            layers=layers,
            entry=entry,
            values=values,
            asked=asked,
            scope=scope,
            shape=shape,
            resized=resized,
            untouched_tokens=untouched,
            numbered=numbered,
            reason=entry.not_served
            or _reason_of_missing(scope, entry, [*values, *(shape and ["shape"])]),
        )

    def _values(self, scope: Scope, query: Mapping[str, Sources]) -> dict[str, ResolvedValue]:
        """Return the values that a config and its class have; a missing one is left out."""
        found = {}
        for name, sources in query.items():
            try:
                found[name] = scope.value(sources)
            except Missing:
                continue
        return found

    def _configured(self, scope: Scope, entry: EncodingEntry) -> dict[str, ResolvedValue]:
        """Return the grid of the pictures of a config; that of its class is an example.

        A size that gives no grid is none: only links have it.
        """
        given = scope.place.content.get(_PICTURES)
        if isinstance(given, list) and len(given) != _SIDES:
            return {}
        try:
            found = self._values(scope, entry.configured)
        except Unusable:
            return {}
        return {
            name: each.as_example() if given is None else each
            for name, each in found.items()
            if all(isinstance(side, int) and side > 0 for side in each.value)
        }

    def _listed(
        self, scope: Scope, lengths: tuple[Sources, ...], least: int = 0
    ) -> tuple[ResolvedValue, ...]:
        try:
            found = tuple(map(scope.value, lengths))
        except Missing:
            return ()
        return tuple(replace(each, value=_counted(each, least)) for each in found)

    def _layers(self, scope: Scope, entry: EncodingEntry) -> dict[str, Any]:
        if entry.layers is None and entry.kind not in {"rope", "rope-axial", "alibi"}:
            return {}
        try:
            found = scope.value(_COUNTS if entry.layers is None else entry.layers)
        except Missing:
            return {}
        origin = {"origin": "class default"} if found.is_default else {}
        if isinstance(found.value, tuple):
            only = [_counted(replace(found, value=each)) for each in found.value]
            return {"only": only, **origin}
        return {"all": _counted(found), **origin}

    def _add_tower(self, around: _Part, tower: Tower) -> None:
        """Add the encodings of a part with a config of its own, or one that is not known."""
        place, path = around.place, _joined(around.at, tower.at)
        if around.depth > _MAX_DEPTH:
            self._add_unknown(place.absent(place.at(tower.key)), around.prefix, tower, path)
            return
        inner = place.inner(tower.key)
        if inner is None and self._is_flat(around, tower):
            inner = place
        if inner is None and place.content.get(tower.key) == {}:
            tower = replace(tower, defaults=tower.given)
        if inner is None:
            self._add_absent(around, tower, path)
            return
        own = inner.content.get("model_type") if inner is not place else None
        if tower.is_fixed and tower.type and part_type(str(own)) is not None:
            inner, own = inner.of_type(tower.type, around.type.name), tower.type
        # Configs of parts repeat the type of the whole model, which their classes ignore.
        name = own if isinstance(own, str) and own not in {"", around.type.name} else tower.type
        path = path if name == tower.type else path.removesuffix(".bert")
        kind = tower.part(name)
        if not (kind and (kind.entries or kind.unknown or kind.towers or kind.text or kind.none)):
            self._add_unknown(inner, around.prefix, Tower(tower.key, name), path)
            return
        defaults = tower.given if name == tower.type and inner is not place else {}
        prefix = f"{around.prefix}{_id(tower.key)}."
        self.add(_Part(inner, kind, prefix, path, defaults, around.depth + 1, inner is place))

    def _add_absent(self, around: _Part, tower: Tower, path: str) -> None:
        """Add a part that has no config, as its class makes it; its defaults have no warnings."""
        kind = tower.part(tower.type)
        report, pointer = ReadingReport(), around.place.at(tower.key)
        prefix, first = f"{around.prefix}{_id(tower.key)}.", len(self.encodings)
        if kind is None:
            self._add_unknown(around.place.absent(pointer), around.prefix, tower, path)
            return
        inner = KeyPlace({}, pointer, report)
        defaults = {**tower.defaults, **around.defaults.get(tower.key, {})}
        try:
            self.add(_Part(inner, kind, prefix, path, defaults, around.depth + 1))
            report.check()
        except InvalidBody as error:
            del self.encodings[first:]
            self._add_unknown(around.place.absent(pointer), around.prefix, tower, path)
            reason = f"the defaults of the class have no table: {error.detail}"
            self.encodings[-1] = replace(self.encodings[-1], reason=reason)
        self.encodings[first:] = [replace(each, is_sent=False) for each in self.encodings[first:]]
        self.report.warnings |= {
            each: None for each in report.warnings if each.code != "class-default-used"
        }

    def _is_flat(self, part: _Part, tower: Tower) -> bool:
        """Return whether the text model of a config was found at its top."""
        key = part.type.text.text if part.type.text else "text_config"
        kind = part_type(tower.type) if tower.type is not None and tower.key == key else None
        is_text = kind is not None and kind.text is not None and kind.text.no_rope is not True
        return is_text and part.place.pointer in self.resolved

    def add_other_towers(self, part: _Part) -> None:
        """Add the parts that the class does not have, by the types that their configs name."""
        place, known = part.place, {tower.key for tower in part.type.towers}
        for key, own in place.content.items():
            if key not in known and is_other_part(key, own) and place.at(key) not in self.resolved:
                self._add_tower(part, Tower(key, None))

    def _add_unknown(self, place: KeyPlace, prefix: str, tower: Tower, at: str) -> None:
        name = shortened(tower.type or "without model_type")
        detail = f"nothing is known of the positions of {tower.key}, {name}"
        self.report.warn("tower-not-known", detail, place.pointer)
        part = f"{prefix}{_id(tower.key)}"
        self._add(part, at, place.pointer, "unknown", is_known=False)

    def _add(self, wanted: str, at: str, config: str, kind: str, **fields: Any) -> None:
        """Add an encoding, with an id of its own, unless it is there: stages may be alike."""
        encoding = PartEncoding("", at, config, kind, **fields)
        if any(replace(each, id="") == encoding for each in self.encodings):
            return
        if len(self.encodings) == _MAX_ENCODINGS:
            raise InvalidBody(f"the model has more than {_MAX_ENCODINGS} positional encodings")
        names = (wanted, *(f"{wanted}.{number}" for number in range(2, _MAX_ENCODINGS + 1)))
        unique = next(name for name in names if all(each.id != name for each in self.encodings))
        self.encodings.append(replace(encoding, id=unique))


def _reason_of_missing(scope: Scope, entry: EncodingEntry, found: Collection[str]) -> str | None:
    """Return why there is no table, where a parameter would have to be guessed; None otherwise.

    A key whose default is null stands for a parameter that is left out.
    """
    missing: dict[str, object] = {
        name: sources
        for name, sources in entry.query.items()
        if name not in found and not scope.is_null_by_default(sources)
    }
    if entry.shape and not entry.url and "shape" not in found:
        missing["shape"] = entry.shape
    null = [f": {key} must not be null" for key in scope.null_keys(str([*missing.values()]))]
    names = ", ".join(missing)
    return f"neither the config nor its class has {names}{''.join(null[:1])}" if missing else None


def _counted(found: ResolvedValue, least: int = 0) -> int:
    """Return a number of layers, rows or channels; raises Unusable."""
    value = int(found.value) if isinstance(found.value, float) else found.value
    if type(value) is not int or value != found.value or not least <= value <= MAX_COUNT:
        rule = f"does not lead to an integer from {least} to 2^53"
        raise Unusable(next(iter(found.sources), ""), str(found.value), rule)
    return value


def _rotary_layers(entry: LayerSettings) -> dict[str, Any]:
    """Return which layers have the settings: all of a number, or those of a type or a list."""
    count = entry.model.value("num_hidden_layers", warns=False)
    layers: dict[str, Any] = {"all": count and count.value} if entry.every_layer else {}
    if entry.layers is not None:
        layers = {"only": list(entry.layers)}
    if layers:
        layers |= origin_of_layers(entry.model)
    return layers if entry.label in {"default", "rotary"} else {"type": entry.label, **layers}


def _has_text_inside(tower: Tower) -> bool:
    """Return whether the text model is in a part of a part."""
    is_text = tower.key in {*TEXT_CONFIGS, "vlm_config"}
    own = part_type(tower.type) if tower.type and is_text else None
    return own is not None and bool(own.towers)


def _id(key: str) -> str:
    """Return the name of a part, by the key of its config."""
    return key.removesuffix("_config")


def _joined(at: str, path: str) -> str:
    return f"{at}.{path}" if at and path else at or path
