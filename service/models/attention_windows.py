"""The window of attention of a text model: how far a query sees, and in which layers.

``attention_windows.toml`` has the rules by model type. A window of a class without a rule is a
warning: nothing is guessed.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as validated_dataclass

from service.models.blocks import layer_types_of, origin_of_layers
from service.models.config_values import ResolvedValue
from service.models.expressions import Missing, Scope, Sources, Unusable
from service.models.knowledge import part_type
from service.models.model_types import LayerPattern
from service.models.resolve import Resolved

_KEYS = ("sliding_window", "attention_chunk_size", "local_attention", "sliding_window_size")
_SEES: Mapping[str, str] = {
    "before": "a query sees itself and the window - 1 positions before it",
    "sides": "a query sees itself and as many positions on each side",
    "chunk": "a query sees the positions of its own chunk of this length, up to itself",
}


@validated_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class WindowRule:
    """The rule of some model types, as the head of attention_windows.toml explains it."""

    types: tuple[str, ...]
    window: Sources | None = None
    sees: Literal["before", "sides", "chunk"] = "before"
    label: str | None = None
    pattern: LayerPattern | None = None
    from_key: str | None = None
    by_rope: Literal["with", "without"] | None = None
    if_key: str | None = None
    unless: tuple[str, ...] = ()


@dataclass(frozen=True)
class Window:
    """A window, what a query sees of it, and the layers that have it."""

    size: ResolvedValue
    sees: str
    layers: Mapping[str, Any] = field(default_factory=dict)


@cache
def _rules() -> Mapping[str, WindowRule]:
    text = files("service.models").joinpath("attention_windows.toml").read_text(encoding="utf-8")
    rules = TypeAdapter(dict[str, WindowRule]).validate_python(tomllib.loads(text))
    return {name: rule for rule in rules.values() for name in rule.types}


def window_of(resolved: Resolved) -> Window | None:
    """Return the window of a text model; None, with a warning if there may be one, otherwise."""
    model, name = resolved.model, resolved.model.type.name
    content, kind = model.place.content, part_type(name)
    rule = _rules().get(resolved.text_model_type or "") or _rules().get(name)
    if rule is None or kind is None or any(content.get(key) for key in rule.unless):
        known = {**(kind.defaults if kind else {}), **content}
        for key in filter(known.get, _KEYS):
            if known.get("use_sliding_window") is not False:
                detail = f"whether {model.name} applies {key}, and in which layers, is not known"
                model.place.warn("window-not-known", detail, key)
        return None
    scope = Scope(model.place, kind.origin, kind.defaults, kind.names)
    is_used = rule.if_key is None or scope.holds(f"/{rule.if_key}")
    if rule.window is None or not is_used or not model.is_known:
        return None
    try:
        size = scope.value(rule.window)
        if isinstance(size.value, float) and size.value.is_integer():
            size = replace(size, value=int(size.value))
        if type(size.value) is not int or size.value < 0:
            where = next(iter(size.sources), model.place.pointer)
            raise Unusable(where, size.value, "must be a number of positions")
        layers = _layers(resolved, rule, scope) if size.value else {"only": []}
    except Missing:
        return None
    except Unusable as error:
        model.report.fault(error.pointer, error.value, error.rule)
        return None
    return None if layers.get("only") == [] else Window(size, _SEES[rule.sees], layers)


def _layers(resolved: Resolved, rule: WindowRule, scope: Scope) -> Mapping[str, Any]:
    """Return the layers that have a window; those of a type are not numbered if not known."""
    model, types = resolved.model, layer_types_of(resolved.model)
    count = model.value("num_hidden_layers", warns=False)
    total = count.value if count else 0
    if rule.label is None:
        return {"all": total, **origin_of_layers(model)} if total else {}
    listed = {"type": rule.label, **origin_of_layers(model)}
    if types is not None:
        kinds = tuple(types.value)
    elif rule.pattern is not None and total:
        kinds = rule.pattern.of(total, rule.pattern.every)
    elif rule.from_key is not None:
        first = scope.value(f"/{rule.from_key}")
        if type(first.value) is not int:
            raise Unusable(model.place.at(rule.from_key), first.value, "must be a number of layers")
        return listed | {"only": [*range(max(first.value, 0), total)]}
    elif rule.by_rope is not None and total:
        is_with = rule.by_rope == "with"
        return listed | {
            "only": [i for i in range(total) if (i not in resolved.without) is is_with]
        }
    else:
        return listed
    return listed | {"only": [layer for layer, own in enumerate(kinds) if own == rule.label]}
