"""Resolve the rotary settings of a model from its config.json.

``resolve_at`` uses these modules one after the other:

* ``model_types``: the config of the text model, its type, and the values at its top;
* ``blocks``: the parameters of frequency rules, and the layers that each applies to;
* ``rotary_settings``: the settings of the layers of one type, with origins;
* ``positional_keys``: the keys that are not understood, or that nothing reads;
* this one: all settings, the layout of pairs, and the factors of attention beside the table.

``config_values`` has the names of keys, the readers of their values, and the report of faults and
warnings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import islice
from typing import Any

from service.encodings.rotary.rules import yarn_mscale
from service.errors import shortened
from service.models.blocks import (
    EVERY_LAYER,
    MAX_LABELS,
    Blocks,
    Layers,
    find_blocks,
    find_layers,
    split_by_layer,
    which_have,
)
from service.models.config_values import (
    ConfigWarning,
    KeyPlace,
    ResolvedValue,
    computed,
    did_you_mean,
)
from service.models.model_types import ModelType, TextModel, find_text_model
from service.models.positional_keys import check_text_model, warn_unresolved
from service.models.rotary_settings import LayerSettings
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import exact_context

MAX_NUMBERS = MAX_CHANNELS // 2
"""Numbers in the lists of all settings together: each is in several URLs of the answer."""

_MAX_COMPARED = 64
_MAX_LABEL_LENGTH = 40
_LLAMA4 = "1 + attn_scale·ln(1 + floor((position + 1)/floor_scale))"
_MINISTRAL3 = "1 + llama_4_scaling_beta·ln(1 + floor(position/original_max_position_embeddings))"
_OF_PARAMS_JSON = ("dim", "n_heads", "n_layers")


@dataclass(frozen=True)
class Resolved:
    """The rotary settings of a model.

    Attributes:
        model: the text model.
        text_model_type: its type.
        layout: of the pairs of channels; ``none`` without a rotary embedding.
        writes: the layout of the rotated channels, if it is another.
        entries: the settings by layer type.
        attention: the factors of attention beside the table.
        without: the layers without a rotary embedding.
    """

    model: TextModel
    text_model_type: str | None
    layout: str
    warnings: tuple[ConfigWarning, ...]
    writes: str | None = None
    entries: tuple[LayerSettings, ...] = ()
    attention: Mapping[str, Any] = field(default_factory=dict)
    without: frozenset[int] = frozenset()

    @property
    def model_type(self) -> str | None:
        """The type of the whole config."""
        return self.model.model_type


def resolve_at(
    body: KeyPlace,
    context_length: int | None = None,
    inherited: str | None = None,
    known: ModelType | None = None,
) -> Resolved:
    """Resolve the rotary settings of a model or of a part of one; raises InvalidBody.

    Args:
        body: its config.
        context_length: of the model in use.
        inherited: the type of a config without model_type.
        known: the facts of its type; those of its model_type unless given.
    """
    report = body.report
    model = find_text_model(body, inherited, known)
    name = model.type.name if model.is_known else model.model_type
    _refuse(model)
    if _has_no_rope(model):
        check_text_model(model, "none")
        report.check()
        return Resolved(model, name, "none", tuple(report.warnings))
    blocks = find_blocks(model)
    report.check()
    layers = find_layers(model, blocks)
    report.check()
    entries = _entries(model, blocks, layers)
    report.check()
    if context_length is not None and not any(entry.lengths for entry in entries):
        detail = f"context_length={context_length} changes nothing: no rule depends on the length"
        model.place.warn("context-length-unused", detail, "rope_scaling")
    layout = _layout(model)
    writes = _written_layout(model, layout)
    _warn_rotation(model)
    _warn_unused_original(model, entries)
    used = {value.pointer for block in blocks.blocks for value in block.values.values()}
    used |= {pointer.rpartition("/")[0] for pointer in used}
    attention = _attention(model, entries, layers)
    used |= {value.pointer for value in attention.get("origin", {}).values()}
    check_text_model(model, layout, used)
    report.check()
    warnings = tuple(report.warnings)
    return Resolved(model, name, layout, warnings, writes, entries, attention, layers.without)


def _refuse(model: TextModel) -> None:
    """Add a fault for each key that changes the layers in a way that is not resolved."""
    for key, usual in model.type.refused.items():
        value = model.place.content.get(key)
        items = value if isinstance(value, list) else [value]
        if value is not None and any(item not in usual for item in items):
            rule = f"changes the layers that rotate: only {shortened(usual[0])} is resolved"
            model.report.fault(model.place.at(key), value, rule)
    for key, needed in model.type.rope_if.items():
        value = model.raw(key)
        if isinstance(needed, bool) and isinstance(value, str):
            model.report.fault(model.place.at(key), value, "must be true or false, not text")


def _has_no_rope(model: TextModel) -> bool:
    """Return whether the model has no rotary embedding, with a warning."""
    kind = model.type
    unmet = [key for key, value in kind.rope_if.items() if model.raw(key) != value]
    key, instead = "model_type", kind.instead
    if unmet:
        key, instead = unmet[0], f"{unmet[0]} other than {kind.rope_if[unmet[0]]!r}"
    elif _has_null_theta(model):
        key, instead = "rope_theta", "rope_theta is null"
    elif kind.needs and model.place.content.get(kind.needs, "") is None:
        key, instead = kind.needs, f"{kind.needs} is null"
    elif kind.no_rope is not True:
        return False
    detail = f"{kind.name} has no rotary embedding"
    model.place.warn("no-rotary-embedding", f"{detail}: {instead}" if instead else detail, key)
    return True


def _has_null_theta(model: TextModel) -> bool:
    """Return whether the base is null, where that means no rotary embedding."""
    if not model.type.null_theta_is_none:
        return False
    top = model.place.content
    block = model.place.inner("rope_scaling") or model.place.inner("rope_parameters")
    content = block.content if block and "rope_theta" in block.content else top
    return "rope_theta" in content and content["rope_theta"] is None


def _entries(model: TextModel, blocks: Blocks, layers: Layers) -> tuple[LayerSettings, ...]:
    """Return the settings of each block and its layers, with warnings."""
    entries: list[LayerSettings] = []
    for block, own in split_by_layer(model, blocks, layers):
        every_layer = block.label == EVERY_LAYER and not layers.without and own is None
        entry = LayerSettings(model, block, own, every_layer)
        if entry.read():
            if own is None and not every_layer:
                _warn_unknown_layers(model, block.label, layers)
            entry.read_length()
            entries.append(entry)
        if len(entries) > MAX_LABELS:
            rule = f"comes to more than {MAX_LABELS} types of layers"
            model.report.fault(entries[0].block.place.pointer, None, rule)
            return ()
    lists = [value.value for entry in entries for value in entry.values.values()]
    numbers = sum(len(listed) for listed in lists if isinstance(listed, tuple))
    if numbers > MAX_NUMBERS:
        detail = f"comes to lists of {numbers} numbers for {len(entries)} types of layers: at most "
        pointer = entries[0].block.place.pointer
        model.report.fault(pointer, None, f"{detail}{MAX_NUMBERS} are read")
    if len(entries) > 1:
        labels = ", ".join(entry.label for entry in entries)
        pointer = blocks.blocks[0].place.pointer.rpartition("/")[0] or model.place.pointer
        model.report.warn("per-layer-rope", f"these have different tables: {labels}", pointer)
    _warn_layers_without(model, blocks, layers)
    return tuple(entries)


def _warn_unknown_layers(model: TextModel, label: str, layers: Layers) -> None:
    types = dict.fromkeys((*model.type.known_layer_types, *(layers.types or ())))
    others = [kind for kind in islice(types, _MAX_COMPARED) if kind != label]
    hint = did_you_mean(label, others) if len(label) <= _MAX_LABEL_LENGTH else ""
    detail = f"the config does not say which layers {label} is for{hint}"
    model.place.warn("layers-unknown", detail, "layer_types")


def _warn_layers_without(model: TextModel, blocks: Blocks, layers: Layers) -> None:
    """Warn of layers without a rotary embedding, and of those whose type has no block."""
    if layers.without or blocks.without:
        which = which_have(layers.without)
        if not layers.without:
            which = f"layers of type {', '.join(sorted(blocks.without))} have"
        detail = f"{which} no rotary embedding ({layers.origin})"
        model.report.warn("nope-layers", detail, layers.pointer)
    labels = {block.label for block in blocks.blocks}
    types = layers.types or ()
    if EVERY_LAYER in labels or not labels & set(types):
        return
    uncovered = {
        i: kind for i, kind in enumerate(types) if kind not in labels and i not in layers.without
    }
    if uncovered:
        kind = next(iter(uncovered.values()))
        hint = did_you_mean(kind, labels)
        detail = f"{which_have(uncovered)} none of these: type {shortened(kind)}{hint}"
        model.report.warn("layers-without-rule", detail, layers.pointer)


def _layout(model: TextModel) -> str:
    """Return the layout of pairs; assume one for unknown model types."""
    is_interleaved = model.given(model.type.layout_key)
    if is_interleaved is not None:
        return "interleaved" if is_interleaved.value else "half"
    if model.is_known:
        return model.type.layout
    layout, reason = "half", "most models in the layout of transformers"
    if all(map(model.place.has, _OF_PARAMS_JSON)):
        layout, reason = "interleaved", "weights beside a params.json of Meta or Mistral"
    detail = f"layout {layout} is assumed, that of {reason}"
    model.place.warn("layout-assumed", detail, "model_type")
    return layout


def _written_layout(model: TextModel, layout: str) -> str | None:
    """Return the layout of the rotated channels; None if it is that of the input."""
    kind, writes = model.type, model.type.writes
    if writes is None or writes == layout:
        return None
    detail = f"{kind.name} reads {layout} pairs and writes them {writes}: {kind.source}"
    model.place.warn("mixed-layout", detail, "model_type")
    return writes


def _warn_rotation(model: TextModel) -> None:
    """Warn of classes whose rotation differs from the table by sign or channels."""
    kind, place = model.type, model.place
    for is_so, code, detail in (
        (kind.inverse, "turns-inversely", "rotates by the negative angle: set inverse=true"),
        (
            kind.last_channels,
            "last-channels-turn",
            "rotates the last channels of a head: set rotary_offset",
        ),
    ):
        if is_so:
            place.warn(code, f"{kind.name} {detail}", "model_type")
    if kind.not_in_config is not None:
        place.warn("table-incomplete", f"{kind.name}: {kind.not_in_config}", "model_type")
    for key, meaning in kind.not_read.items():
        if place.content.get(key):
            warn_unresolved(place, key, meaning)


def _warn_unused_original(model: TextModel, entries: Sequence[LayerSettings]) -> None:
    """Warn of an original length at the top that no rule reads, and that says something."""
    name = "original_max_position_embeddings"
    given, longest = model.given(name), model.value("max_position_embeddings", warns=False)
    if given is None or any(name in entry.values for entry in entries):
        return
    if given.value not in {longest and longest.value, model.type.defaults.get(name)}:
        detail = f"{given.pointer} is not read: no frequency rule depends on it"
        model.report.warn("key-not-read", detail, given.pointer)


@dataclass
class AttentionFactors:
    """The factors that attention applies beside the table, with the origin of each.

    softmax_scale_multiplier multiplies 1/√d of the softmax: (0.1·mscale_all_dim·ln factor + 1)²,
    transformers 5.23.0 ``DeepseekV3Attention``. query_temperature multiplies queries:
    ``Llama4TextAttention``, ``Ministral3Attention``.
    """

    factors: dict[str, Any] = field(default_factory=dict)
    values: dict[str, ResolvedValue] = field(default_factory=dict)

    def add_softmax_scale(self, entry: LayerSettings) -> None:
        factor, all_dim = entry.values.get("factor"), entry.block.values.get("mscale_all_dim")
        if entry.rope_type == "default" or not all_dim or not all_dim.value or not factor:
            return
        if not entry.model.is_known:
            detail = (
                "classes such as DeepSeek's multiply the softmax scale where mscale_all_dim is set"
            )
            entry.warn("softmax-scale-unknown", detail, "mscale_all_dim")
        if not entry.model.type.attention.softmax_mscale:
            return
        mscale = yarn_mscale(Decimal(factor.value), Decimal(all_dim.value))
        scale, formula = float(exact_context().multiply(mscale, mscale)), "(0.1 · {} · ln {} + 1)^2"
        self.factors["softmax_scale_multiplier"] = scale
        self.values["softmax_scale_multiplier"] = computed(scale, formula, all_dim, factor)

    def add_ministral3(self, entry: LayerSettings) -> None:
        values, name = entry.block.values, "original_max_position_embeddings"
        beta = values.get("llama_4_scaling_beta")
        original = values.get("llama_4_scaling_length", entry.values.get(name))
        if not beta or not original or not beta.value:
            return
        self._add_temperature(
            _MINISTRAL3, llama_4_scaling_beta=beta, original_max_position_embeddings=original
        )
        if entry.model.type.attention.query_temperature != "ministral3":
            implied = computed(_MINISTRAL3, "implied by {}", replace(beta, is_alias=False))
            self.values["query_temperature"] = implied

    def add_llama4(self, model: TextModel, layers: Layers) -> None:
        tuned, scale, floor_scale = (
            model.value(name, warns=False)
            for name in ("attn_temperature_tuning", "attn_scale", "floor_scale")
        )
        if not tuned or not tuned.value or not scale or not floor_scale:
            return
        self._add_temperature(_LLAMA4, attn_scale=scale, floor_scale=floor_scale)
        self.factors["query_temperature"]["layers"] = sorted(layers.without)

    def _add_temperature(self, formula: str, **values: ResolvedValue) -> None:
        numbers = {name: value.value for name, value in values.items()}
        self.factors["query_temperature"] = {"formula": formula, **numbers}
        self.values |= values


def _attention(
    model: TextModel, entries: Sequence[LayerSettings], layers: Layers
) -> dict[str, Any]:
    attention = AttentionFactors()
    for entry in entries:
        attention.add_softmax_scale(entry)
        attention.add_ministral3(entry)
    if model.type.attention.query_temperature == "llama4":
        attention.add_llama4(model, layers)
    return {**attention.factors, "origin": attention.values} if attention.factors else {}
