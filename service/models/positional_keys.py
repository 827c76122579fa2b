"""Keys of configs with positional names: a config with one that is not understood is refused.

``positional_keys.toml`` is the closed list. Names that are merely alike are refused among the
parameters of a frequency rule and the keys of other programs, and are a warning elsewhere.
"""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as validated_dataclass

from service.errors import shortened
from service.models.config_values import (
    RULE_SPELLINGS,
    TOP,
    KeyPlace,
    did_you_mean,
    differ,
    nearest_word,
    under,
)
from service.models.knowledge import PartType, part_type
from service.models.model_types import NoRope, TextModel

ALIKE = re.compile(
    r"rope|rotary|yarn|mscale|alibi|axes_?dim|interpolation_factor|ntk|logn|llama_?4_?scaling"
    r"|scale_positional"
    # Their number is a length of the model.
    r"|(?:positional|pos_?(?:enc|emb)|(?<!max_)(?<!num_)position_(?:enc|emb))(?!.*dropout)",
    re.IGNORECASE,
)
"""The names that look like settings of positions."""

BLOCKS = ("rope_scaling", "rope_parameters", "yarn", "rope_adjustments", "llama_4_scaling")
"""The keys of objects with the parameters of a frequency rule."""

_OF_ROPE = ("rope_theta", "rope_ratio", "partial_rotary_factor", "rotary_dim")
_ROTARY = {
    *BLOCKS,
    *_OF_ROPE,
    "theta",
    *(alias for name in _OF_ROPE for alias in TOP[name].aliases),
}
_IN_A_RULE = re.compile(f"{ALIKE.pattern}|_attention$", re.IGNORECASE)
_OF_A_TOWER = re.compile(
    r"(?:vision|audio|image|video|speech)_(?:config|encoder|tower)$"
    r"|^(?:img_processor|embd_layer|audio_processor|visual)$"
)


@validated_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PositionalKey:
    """A key of the closed list, as the head of positional_keys.toml explains it."""

    use: Literal["read", "training", "unused"]
    means: str
    types: frozenset[str] = frozenset()
    neutral: tuple[Any, ...] = ()
    switch: str = ""
    says: Literal["rotary", "no rotary", "kind", "interleaved", "half"] | None = None
    top: bool = False


@cache
def positional_keys() -> Mapping[str, PositionalKey]:
    """Return the closed list, by name."""
    text = files("service.models").joinpath("positional_keys.toml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, PositionalKey]).validate_python(tomllib.loads(text))


@cache
def _switches() -> frozenset[str]:
    """Return the keys that have an effect by what they switch on alone."""
    return frozenset(each.switch for each in positional_keys().values())


@dataclass(frozen=True)
class KeyReader:
    """A reader of the keys of an object: a class, a frequency rule, or another program.

    Attributes:
        name: for the details of faults.
        keys: those that it reads.
        types: the names by which the closed list knows it.
        layout: of its pairs; ``none`` without a rotary embedding.
        has_absolute: whether the kind of its positions may be called absolute.
        same: values without effect, by key: those of its class, or of the object that is read.
        used: the JSON pointers of values that are read.
        refused: the names that are refused, in addition to the closed list.
    """

    name: str
    keys: Collection[str]
    types: frozenset[str] = frozenset()
    layout: str = "none"
    has_absolute: bool = False
    same: Mapping[str, Any] = field(default_factory=dict)
    used: Collection[str] = ()
    refused: re.Pattern[str] | None = None

    def check(self, place: KeyPlace, apart: Collection[str] = ()) -> None:
        """Check an object and those inside it, except those that are ``apart``."""
        self._check_object(place)
        pending = [inner for key, inner in _objects(place) if key not in apart]
        while pending:
            place = pending.pop()
            self._check_object(place, is_inside=True)
            pending += [inner for _, inner in _objects(place)]

    def _check_object(self, place: KeyPlace, *, is_inside: bool = False) -> None:
        """Add a fault or a warning for each key that looks positional and is not understood."""
        unknown: list[str] = []
        known = () if is_inside else self.keys
        for key, value in place.content.items():
            pointer, entry = place.at(key), positional_keys().get(key)
            if value in (None, [], {}) or key in known or (value is False and entry is None):
                continue
            is_alike = entry is not None or key in _ROTARY or ALIKE.search(key)
            is_refused = self.refused is not None and self.refused.search(key)
            if pointer in self.used or not (is_alike or is_refused) or self.has(key, value):
                continue
            if entry is not None:
                self._check_listed(place, key, entry, is_inside=is_inside)
            elif is_refused or (is_inside and key in _ROTARY):
                near = nearest_word(key, known)
                hint = "" if near else ": no setting of positions is read there"
                place.report.fault(pointer, value, f"is not understood for {self.name}{hint}", near)
            elif not value:
                continue
            elif key in _ROTARY:
                place.warn("key-not-read", f"{shortened(self.name)} does not read {pointer}", key)
            else:
                unknown.append(key)
        place.warn_unknown(
            unknown,
            lambda key: f"{shortened(key)} is not read{did_you_mean(key, self.keys, cutoff=0.87)}",
            "{} more keys are not read",
        )

    def _check_listed(
        self, place: KeyPlace, key: str, entry: PositionalKey, *, is_inside: bool
    ) -> None:
        pointer, value = place.at(key), place.content[key]
        if entry.says == "kind" and value == "absolute" and self.layout != "none":
            place.warn("key-not-read", f"{self.name} does not read {pointer}", key)
        if is_inside and entry.top:
            return
        if not self._understands(entry, value):
            rule = f"is not understood for {shortened(self.name)}; it stands for {entry.means}"
            place.report.fault(pointer, value, rule)
        elif self._has_effect(place.content, key, entry):
            warn_unresolved(place, key, entry.means)

    def _understands(self, entry: PositionalKey, value: object) -> bool:
        """Return whether a value is read, changes nothing, or says what the model has."""
        if entry.use != "read" or not self.types.isdisjoint(entry.types):
            return True
        if entry.says is None:
            return value is False or (value is not True and value in entry.neutral)
        has_rope = self.layout != "none"
        if entry.says == "kind":
            # Many configs have "absolute" whatever their class: it was the default of all.
            if value == "absolute":
                return self.has_absolute or any(map(part_type, self.types))
            alike = {"rope", "rotary"} | ({"rope_gptj"} if self.layout == "interleaved" else set())
            return has_rope and value in alike
        is_so = has_rope if "rotary" in entry.says else self.layout == entry.says
        return value is (is_so if entry.says != "no rotary" else not is_so)

    def _has_effect(self, content: Mapping[str, Any], key: str, entry: PositionalKey) -> bool:
        """Return whether the class reads a key of an object, and its value changes something."""
        value = content[key]
        is_read = entry.use == "read" and not self.types.isdisjoint(entry.types)
        # A switch has its effect by the keys that it switches on.
        is_on = key not in _switches() and bool(content.get(entry.switch, True))
        is_neutral = value is False or (value is not True and value in entry.neutral)
        return is_read and is_on and not is_neutral

    def has(self, key: str, value: object) -> bool:
        """Return whether a value is the same as without the key."""
        return key in self.same and not differ(self.same[key], value)


def _objects(place: KeyPlace) -> Iterator[tuple[str, KeyPlace]]:
    """Yield the objects and the lists in an object, by key; frequency rules are read elsewhere."""
    for key, value in place.content.items():
        own = value
        if isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
            own = {str(i): each for i, each in enumerate(value)}
        if isinstance(own, dict) and key not in BLOCKS:
            yield key, KeyPlace(own, place.at(key), place.report)


def is_other_part(key: str, value: object) -> bool:
    """Return whether a member is the config of another part, by its type or its key."""
    if not isinstance(value, dict) or key == "slice_config":
        return False
    own = value.get("model_type")
    return (isinstance(own, str) and own != "") or _OF_A_TOWER.search(key) is not None


def _other_parts(place: KeyPlace, name: object) -> set[str]:
    """Return the keys of the configs of other parts of a model of this type."""
    kind = part_type(str(name))
    towers = {tower.key for tower in kind.towers} if kind else set()
    read = str([entry.query for entry in kind.entries]) if kind else ""
    towers |= {key for key, _ in _objects(place) if f"/{key}/" in read}
    return towers | {key for key, own in place.content.items() if is_other_part(key, own)}


def check_rule(model: TextModel, rule: KeyPlace) -> None:
    """Add a fault for each unknown key of a frequency rule that looks positional."""
    known = {*RULE_SPELLINGS, *model.type.mscale_keys}
    reader = KeyReader("a frequency rule", known, layout=model.type.layout, refused=_IN_A_RULE)
    reader.check(rule, apart=rule.content)


def check_text_model(model: TextModel, layout: str, used: Collection[str] = ()) -> None:
    """Add a fault or a warning for each positional key that is not understood, wherever it stands.

    Args:
        model: the text model.
        layout: of its pairs; ``none`` without a rotary embedding.
        used: the JSON pointers of what its settings come from.
    """
    kind = model.type
    general: Collection[str] = () if kind.no_rope is True else BLOCKS
    if layout != "none":
        general = {*BLOCKS, *TOP, *(alias for key in TOP.values() for alias in key.aliases)}
    own, inside = own_keys(model), model.place.inner(kind.inside) if kind.inside else None
    names = [kind.name, model.model_type, *(each.content.get("model_type") for each in model.outer)]
    learned = (kind.instead or "").startswith("absolute")
    reader = KeyReader(
        name=model.name,
        keys=own.union(general) - (positional_keys().keys() - own),
        types=frozenset(map(str, names)),
        layout=layout,
        has_absolute=learned if layout == "none" else model.is_known,
        used=used,
    )
    for place in model.outer:
        within = (key for key in place.content if model.place.pointer.startswith(place.at(key)))
        outer = replace(reader, keys=own, same=model.place.content)
        outer.check(place, _other_parts(place, place.content.get("model_type")).union(within))
    reader.check(model.place, _other_parts(model.place, model.model_type) | {str(kind.inside)})
    if inside is not None:
        reader.check(inside)


def check_part(
    place: KeyPlace,
    kind: PartType,
    read: Collection[str],
    defaults: Mapping[str, Any],
    *,
    is_checked: bool,
) -> None:
    """Add a fault or a warning for each positional key that no encoding of a part reads.

    A warning of its text model is withdrawn where another encoding reads the key, or the value is
    that of the class.

    Args:
        place: the config of the part.
        kind: its type.
        read: the keys that its encodings read.
        defaults: the values of its class.
        is_checked: whether the keys are checked as those of its text model.
    """
    layouts = [entry.layout for entry in kind.entries if entry.kind in {"rope", "rope-axial"}]
    reader = KeyReader(
        name=kind.name,
        keys=read,
        types=frozenset((kind.name,)),
        layout=next(filter(None, layouts), "none"),
        has_absolute=any(entry.kind == "learned" for entry in kind.entries),
        same=defaults,
    )
    if not is_checked:
        reader.check(place, _other_parts(place, kind.name))
    usual = {key for key, value in place.content.items() if reader.has(key, value)}
    known = place.content if kind.none else usual.union(read)
    pointers = tuple(f"{place.at(key)}/" for key in known)
    for each in [*place.report.warnings]:
        if each.code == "setting-not-resolved" and f"{each.pointer}/".startswith(pointers):
            del place.report.warnings[each]


def warn_unresolved(place: KeyPlace, key: str, means: str) -> None:
    """Warn of a setting with an effect that no encoding here has."""
    value = shortened(place.content[key])
    place.warn(
        "setting-not-resolved", f"{key}: {value} is not resolved; it stands for {means}", key
    )


def own_keys(model: TextModel) -> frozenset[str]:
    """Return the names of the keys at the top of a config that its type alone has."""
    kind = model.type
    no_rope = kind.no_rope if isinstance(kind.no_rope, NoRope) else NoRope()
    own = {
        kind.layout_key,
        kind.head_dim,
        kind.rotary_dim,
        kind.theta_by_layer_key,
        kind.partial_by_layer_key,
        kind.scaling_layers_key,
        no_rope.layers_key,
        no_rope.every_key,
        no_rope.only_key,
        *(key for keys in kind.rope_keys.values() for key in keys.values()),
        *kind.head_dim_by_layer_type.values(),
        *kind.names.values(),
        *kind.rope_if,
        *kind.not_read,
    }
    return frozenset(name for name in own if name is not None)


class NotedKeys(dict[str, Any]):
    """A config that notes which of its keys are asked for."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.asked = set[str]()
        own = {
            key: NotedKeys(each) if isinstance(each, dict) else each
            for key, each in content.items()
        }
        super().__init__(own)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def others(self, pointer: str = "") -> Iterator[str]:
        """Yield the pointers of the keys that nothing has asked for."""
        for key, value in self.items():
            if key not in self.asked:
                yield under(pointer, key)
            elif isinstance(value, NotedKeys):
                yield from value.others(under(pointer, key))
