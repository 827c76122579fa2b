"""Keys of configs with positional names: a config with one that is not understood is refused.

``positional_keys.toml`` is the closed list. Names that are merely alike are refused among the
parameters of a frequency rule, and are a warning elsewhere.
"""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as validated_dataclass

from service.errors import shortened
from service.models.config_values import RULE_SPELLINGS, TOP, KeyPlace, did_you_mean
from service.models.knowledge import part_type
from service.models.model_types import NoRope, TextModel

ALIKE = re.compile(
    r"rope|rotary|yarn|mscale|alibi|axes_?dim|interpolation_factor|ntk|logn|llama_?4_?scaling",
    re.IGNORECASE,
)
"""The names that look like settings of positions."""

BLOCKS = ("rope_scaling", "rope_parameters", "yarn", "rope_adjustments", "llama_4_scaling")
"""The keys of objects with the parameters of a frequency rule."""

_SIZES = {"model_type", "hidden_size", "embed_dim", "d_model", "dim", "depth", "num_layers"}
_OF_ROPE = ("rope_theta", "rope_ratio", "partial_rotary_factor", "rotary_dim")
_ROTARY = {*BLOCKS, *_OF_ROPE, *(alias for name in _OF_ROPE for alias in TOP[name].aliases)}


@validated_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PositionalKey:
    """A key of the closed list, as the head of positional_keys.toml explains it."""

    use: Literal["read", "training", "unused"]
    means: str
    types: frozenset[str] = frozenset()
    neutral: tuple[Any, ...] = ()
    says: Literal["rotary", "no rotary", "kind", "interleaved", "half"] | None = None
    top: bool = False

    def agrees(self, value: object, model: TextModel, layout: str) -> bool:
        """Return whether a value changes nothing, or says what the model has."""
        if self.use != "read" or value in (None, [], {}):
            return True
        if self.says is None:
            return value is False or (value is not True and value in self.neutral)
        if self.says == "kind":
            learned = (model.type.instead or "").startswith("absolute")
            if value == "absolute":
                # Many configs say so of any class: that of the first ones that had this key.
                return learned if layout == "none" else model.is_known
            return value in {"rope", "rotary"} and layout != "none"
        is_so = layout != "none" if "rotary" in self.says else layout == self.says
        return value is (is_so if self.says != "no rotary" else not is_so)


@cache
def positional_keys() -> Mapping[str, PositionalKey]:
    """Return the closed list, by name."""
    text = files("service.models").joinpath("positional_keys.toml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, PositionalKey]).validate_python(tomllib.loads(text))


def refuse_in_a_rule(model: TextModel, rule: KeyPlace) -> None:
    """Add a fault for each unknown key of a frequency rule that looks positional."""
    listed = positional_keys()
    for key, value in rule.content.items():
        if key in RULE_SPELLINGS or key in model.type.mscale_keys:
            continue
        if key in listed:
            refused = not listed[key].agrees(value, model, model.type.layout)
        else:
            alike = ALIKE.search(key) or key.endswith("_attention")
            refused = value not in (None, False) and bool(alike)
        if refused:
            model.report.fault(rule.at(key), value, "is not understood in a frequency rule")


def refuse_positional_keys(model: TextModel, layout: str, used: Collection[str] = ()) -> None:
    """Add a fault for each key of the closed list that is not understood, wherever it stands.

    Args:
        model: the text model.
        layout: of its pairs; ``none`` without a rotary embedding.
        used: the JSON pointers of what its settings come from.
    """
    listed, own = positional_keys(), own_keys(model)
    names = {model.type.name, model.model_type}
    names |= {str(place.content.get("model_type")) for place in model.outer}
    for place, is_inside in _objects(model):
        for key in place.content.keys() & (listed.keys() | (_ROTARY if is_inside else ())):
            value, pointer = place.content[key], place.at(key)
            entry = listed.get(key)
            if entry is None:
                refused, means = bool(value), "a setting of rotary embeddings where none is read"
            else:
                understood = not names.isdisjoint(entry.types) or (not is_inside and key in own)
                understood |= is_inside and entry.top
                refused = not (understood or entry.agrees(value, model, layout))
                means = entry.means
            if entry and entry.says == "kind" and value == "absolute" and layout != "none":
                model.report.warn("key-not-read", f"{model.name} does not read {pointer}", pointer)
            if refused and pointer not in used:
                rule = f"is not understood for {shortened(model.name)}: {means}"
                model.report.fault(pointer, value, rule)


def refuse_unread_keys(
    place: KeyPlace, kind: str, read: Collection[str], defaults: Mapping[str, Any]
) -> None:
    """Add a fault for each key of the closed list that no encoding of a part reads.

    Keys that are merely alike have a warning.

    Args:
        place: the config of the part.
        kind: its type.
        read: the keys that its encodings read.
        defaults: the values of its class.
    """
    listed, alike = positional_keys(), []
    for key, value in place.content.items():
        if key in read or value in (None, False, [], {}) or value == defaults.get(key, ...):
            continue
        entry = listed.get(key)
        if entry is not None and entry.use == "read" and kind not in entry.types:
            if value is True or value not in entry.neutral:
                rule = f"is not understood for {shortened(kind)}: {entry.means}"
                place.report.fault(place.at(key), value, rule)
        elif entry is None and ALIKE.search(key):
            alike.append(key)

    def detail(key: str) -> str:
        return f"{shortened(key)} is read by no positional encoding of {shortened(kind)}"

    place.warn_unknown(alike, detail, "{} more keys are not read")


def _objects(model: TextModel) -> Iterator[tuple[KeyPlace, bool]]:
    """Yield the configs around a text model, its own, and the objects inside it.

    Objects with a size of their own, or at the key of a tower, are the configs of other parts.
    """
    kind = part_type(model.model_type or "")
    towers = {tower.key for tower in kind.towers} if kind else set()
    others = {*BLOCKS, *towers} - {"text_config", model.type.inside}
    yield from ((place, False) for place in model.outer)
    yield model.place, False
    pending = [model.place]
    while pending:
        place = pending.pop()
        for key, value in place.content.items():
            if not isinstance(value, dict) or key in others or not _SIZES.isdisjoint(value):
                continue
            inner = KeyPlace(value, place.at(key), model.report)
            if place is not model.place or key != model.type.inside:
                yield inner, True
            pending.append(inner)


def warn_unread(model: TextModel) -> None:
    """Warn of every key that looks like a rotary setting and is not read."""
    known = own_keys(model) | {alias for key in TOP.values() for alias in key.aliases}
    known = known.union(TOP, BLOCKS, positional_keys())
    unread = [
        key
        for key, value in model.place.content.items()
        if value and key not in known and ALIKE.search(key)
    ]

    def detail(key: str) -> str:
        return f"{shortened(key)} is not read{did_you_mean(key, known, cutoff=0.87)}"

    model.place.warn_unknown(unread, detail, "{} more keys are not read")
    for place in model.outer:
        for key in _ROTARY & place.content.keys():
            if place.content[key] and place.content[key] != model.place.content.get(key):
                detail_of_outer = f"{place.at(key)} is not read: the text model has a config inside"
                place.warn("key-not-read", detail_of_outer, key)


def warn_unread_without_rope(model: TextModel) -> None:
    """Warn of keys for a rotary embedding that the class lacks."""
    always_lacks = model.type.no_rope is True
    known = {*positional_keys(), *(() if always_lacks else (*model.type.rope_if, *BLOCKS))}
    unread = [
        key
        for key, value in model.place.content.items()
        if value and key not in known and ALIKE.search(key)
    ]
    model.place.warn_unknown(
        unread,
        lambda key: f"{shortened(key)} is for a rotary embedding, which the class lacks",
        "{} more keys are not read",
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
        *(key for keys in kind.rope_keys.values() for key in keys.values()),
        *kind.head_dim_by_layer_type.values(),
        *kind.names.values(),
        *kind.rope_if,
        *kind.not_read,
    }
    return frozenset(name for name in own if name is not None)
