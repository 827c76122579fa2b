"""The layout of pairs, the factors of attention beside the table, and keys that nothing reads."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from service.encodings.rotary.rules import yarn_mscale
from service.errors import shortened
from service.models.keys import TOP
from service.models.layers import Layers
from service.models.lookup import KeyPlace, ReadingReport, ResolvedValue, did_you_mean
from service.models.model_types import NoRope, TextModel
from service.models.rotary_settings import Rule
from service.numerics.phase import exact_context

_OF_PARAMS_JSON = ("dim", "n_heads", "n_layers")


def layout_of(model: TextModel, report: ReadingReport) -> str:
    """Return the layout of pairs, which is assumed for unknown model types."""
    key = model.type.layout_key
    found = model.values.get(key) if key is not None else None
    if found is not None:
        return "interleaved" if found.value else "half"
    if model.is_known:
        return model.type.layout
    layout, reason = "half", "most models in the layout of transformers"
    if all(model.place.has(name) for name in _OF_PARAMS_JSON):
        layout, reason = "interleaved", "weights beside a params.json of Meta or Mistral"
    detail = f"layout {layout} is assumed, that of {reason}"
    report.warn("layout-assumed", detail, model.place.at("model_type"))
    return layout


def written_layout_of(model: TextModel, layout: str, report: ReadingReport) -> str | None:
    """Return the layout of the rotated channels, None if it is the one that is read."""
    writes = model.type.writes
    if writes is None or writes == layout:
        return None
    detail = f"{model.type.name} reads {layout} pairs and writes them {writes}: {model.type.source}"
    report.warn("mixed-layout", detail, model.place.at("model_type"))
    return writes


def warn_turning(model: TextModel, report: ReadingReport) -> None:
    """Warn of classes whose rotation differs from the table by sign, channels, axes or factors."""
    pointer = model.place.at("model_type")
    if model.type.inverse:
        detail = f"{model.type.name} rotates by the negative angle: set inverse=true"
        report.warn("turns-inversely", detail, pointer)
    if model.type.axes > 1:
        detail = f"{model.type.name} has these frequencies for each of {model.type.axes} axes"
        report.warn("frequencies-per-axis", detail, pointer)
    if model.type.last_channels:
        detail = f"{model.type.name} turns the last channels of a head: set rotary_offset"
        report.warn("last-channels-turn", detail, pointer)
    if model.type.not_in_config is not None:
        detail = f"{model.type.name}: {model.type.not_in_config}"
        report.warn("table-incomplete", detail, pointer)
    for key, meaning in model.type.not_read.items():
        if model.place.content.get(key):
            report.warn("key-not-read", f"{key} is not resolved: {meaning}", model.place.at(key))


_LLAMA4 = "1 + attn_scale·ln(1 + floor((position + 1)/floor_scale))"
_MINISTRAL3 = "1 + llama_4_scaling_beta·ln(1 + floor(position/original_max_position_embeddings))"


def attention_of(model: TextModel, rules: Sequence[Rule], layers: Layers) -> dict[str, Any]:
    """Return softmax_scale_multiplier and query_temperature, if any, with their origins.

    The first multiplies 1/√d of the softmax: (0.1·mscale_all_dim·ln factor + 1)², transformers
    5.23.0 ``DeepseekV3Attention``. The second multiplies queries: ``Llama4TextAttention``,
    ``Ministral3Attention``.
    """
    found: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for rule in rules:
        _add_softmax(model, rule, found, origin)
        _add_ministral3(model, rule, found, origin)
    if model.type.attention.query_temperature == "llama4":
        _add_llama4(model, layers, found, origin)
    return {**found, "origin": origin} if found else {}


def _add_softmax(
    model: TextModel, rule: Rule, found: dict[str, Any], origin: dict[str, str]
) -> None:
    factor, all_dim = rule.parameters.get("factor"), rule.block.values.get("mscale_all_dim")
    is_scaled = rule.parameters["rope_type"].value != "default"
    if not is_scaled or not all_dim or not all_dim.value or not factor:
        return
    if not model.is_known:
        detail = "classes such as DeepSeek's multiply the softmax scale where mscale_all_dim is set"
        rule.warn("softmax-scale-unknown", detail, "mscale_all_dim")
    if not model.type.attention.softmax_mscale:
        return
    mscale = yarn_mscale(Decimal(factor.value), Decimal(all_dim.value))
    found["softmax_scale_multiplier"] = float(exact_context().multiply(mscale, mscale))
    formula = f"(0.1 · {all_dim.origin} · ln {factor.origin} + 1)^2"
    origin["softmax_scale_multiplier"] = f"computed: {formula}"


def _add_ministral3(
    model: TextModel, rule: Rule, found: dict[str, Any], origin: dict[str, str]
) -> None:
    beta = rule.block.values.get("llama_4_scaling_beta")
    original = rule.parameters.get("original_max_position_embeddings")
    if not beta or not original or not beta.value:
        return
    values = {"llama_4_scaling_beta": beta, "original_max_position_embeddings": original}
    _add_temperature(_MINISTRAL3, values, found, origin)
    if model.type.attention.query_temperature != "ministral3":
        origin["query_temperature"] = f"computed: implied by {beta.pointer}"


def _add_llama4(
    model: TextModel, layers: Layers, found: dict[str, Any], origin: dict[str, str]
) -> None:
    tuned = model.value("attn_temperature_tuning")
    scale, floor_scale = model.value("attn_scale"), model.value("floor_scale")
    if not tuned or not tuned.value or not scale or not floor_scale:
        return
    values = {"attn_scale": scale, "floor_scale": floor_scale}
    _add_temperature(_LLAMA4, values, found, origin)
    found["query_temperature"]["layers"] = sorted(layers.without)


def _add_temperature(
    formula: str, values: dict[str, ResolvedValue], found: dict[str, Any], origin: dict[str, str]
) -> None:
    numbers = {name: value.value for name, value in values.items()}
    found["query_temperature"] = {"formula": formula, **numbers}
    origin |= {name: value.origin for name, value in values.items()}


_SOUNDS_ROTARY = re.compile(r"rope|rotary|ntk|logn|alibi|yarn|llama_?4_?scaling", re.IGNORECASE)
_BLOCKS = ("rope_scaling", "rope_parameters", "yarn", "rope_adjustments")
_MAX_NAMED = 20


def warn_unread(model: TextModel, report: ReadingReport, *, has_rope: bool) -> None:
    """Warn of every key that looks like a rotary setting and is not read."""
    known = _read_by(model) if has_rope else frozenset((*model.type.rope_if, *_BLOCKS))
    if not has_rope and model.type.no_rope is True:
        known = frozenset()
    places = [model.place]
    if not has_rope and isinstance(model.place.content.get("attn_config"), dict):
        places.append(KeyPlace(model.place.content["attn_config"], model.place.at("attn_config")))
    for place in places:
        unread = [key for key in _sounding(place, has_rope=has_rope) if key not in known]
        for key in unread[:_MAX_NAMED]:
            hint = did_you_mean(key, known, cutoff=0.87) if has_rope else ""
            detail = f"{shortened(key)} is not read{hint}"
            if not has_rope:
                detail = f"{shortened(key)} is for a rotary embedding, which the class lacks"
            report.warn("unknown-rope-key", detail, place.at(key))
        if len(unread) > _MAX_NAMED:
            detail = f"{len(unread) - _MAX_NAMED} more keys are not read"
            report.warn("unknown-rope-key", detail, place.pointer or place.at("model_type"))


def _sounding(place: KeyPlace, *, has_rope: bool) -> Iterator[str]:
    """Yield keys whose name, or text, looks rotary and whose value is not null, 0 or empty."""
    for key, value in place.content.items():
        # Keys that only enable or disable rotary embeddings are known already.
        if (has_rope and value is True) or (not has_rope and "alibi" in key.lower()):
            continue
        is_kind = not has_rope and "position" in key and isinstance(value, str)
        if value and (_SOUNDS_ROTARY.search(key) or (is_kind and _SOUNDS_ROTARY.search(value))):
            yield key


def _read_by(model: TextModel) -> frozenset[str]:
    """Return the names of the keys that are read at the top of a config."""
    kind = model.type
    blocks = (*_BLOCKS, *(("llama_4_scaling",) if model.place.has("yarn") else ()))
    no_rope = kind.no_rope if isinstance(kind.no_rope, NoRope) else NoRope()
    outright = (
        kind.layout_key,
        kind.head_dim,
        kind.rotary_dim,
        kind.theta_by_layer_key,
        kind.partial_by_layer_key,
        kind.scaling_layers_key,
        no_rope.layers_key,
        no_rope.every_key,
    )
    aliases = (alias for key in TOP.values() for alias in key.aliases)
    by_layer = (name for own in kind.rope_keys.values() for name in own.values())
    tables = (TOP, kind.rope_if, kind.not_read, kind.names.values(), blocks)
    return frozenset(name for name in outright if name is not None).union(
        aliases, by_layer, kind.head_dim_by_layer_type.values(), *tables
    )
