"""Entries: what a block and its model come to, for the layers that it is for."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.configs.blocks import EVERY_LAYER, Block, Blocks
from service.configs.groups import split_by_layer
from service.configs.layers import Layers
from service.configs.lookup import Found, Log
from service.configs.rule import Rule, rope_type_of
from service.configs.rules import build
from service.configs.sections import put_sections
from service.configs.text import TextModel
from service.configs.theta import rope_theta_of
from service.configs.widths import head_dim_of, rotary_dim_of

ASSUMED_LENGTH = 4096


@dataclass(frozen=True)
class Entry:
    """The rotary settings of the layers of one type.

    Attributes:
        label: the layer type, or ``default`` for all that have any.
        layers: their numbers; None if all, or if they are not known.
        every_layer: whether it is all.
        values: what the config or the class says, by canonical name.
        lengths: one context_length of each regime, the original first; empty if there is but one.
        mscales: the attention factor of each regime, where a config says them outright.
        length: max_position_embeddings, or what was assumed for it.
    """

    label: str
    layers: tuple[int, ...] | None
    every_layer: bool
    values: Mapping[str, Found]
    lengths: tuple[int, ...]
    mscales: tuple[Found, ...]
    length: Found

    def at(self, context_length: int | None) -> dict[str, Found]:
        """Give the values that hold at a length; without one, at the original."""
        values = dict(self.values)
        if self.lengths:
            length = context_length or self.lengths[0]
            origin = "?context_length" if context_length else "computed: the original length"
            values["context_length"] = Found(length, origin, self.values["rope_type"].pointer)
            if self.mscales:
                values["attention_factor"] = self.mscales[length > self.lengths[0]]
        return {**values, "max_position_embeddings": self.length}


def entries_of(
    model: TextModel, blocks: Blocks, layers: Layers, log: Log
) -> tuple[list[Rule], tuple[Entry, ...]]:
    """Resolve each block: the rules, and an entry of each."""
    rules: list[Rule] = []
    entries: list[Entry] = []
    for block, found in split_by_layer(model, blocks.blocks, layers, log):
        rule = _rule(model, block, log)
        if rule is not None:
            rules.append(rule)
            entries.append(_entry(model, rule, found, layers, log))
    if len(entries) > 1:
        labels = ", ".join(entry.label for entry in entries)
        pointer = blocks.blocks[0].place.pointer.rpartition("/")[0] or model.place.pointer
        log.caution("per-layer-rope", f"these have a table each: {labels}", pointer)
    _caution_of_nope(model, blocks, layers, log)
    return rules, tuple(entries)


def _rule(model: TextModel, block: Block, log: Log) -> Rule | None:
    rope_type, head_dim = rope_type_of(block, log), head_dim_of(model, block.label, log)
    rope_theta = rope_theta_of(model, block, log)
    if head_dim is None:
        return None
    rotary_dim = rotary_dim_of(model, block, rope_type.value, head_dim, log)
    rule = Rule(model, block, rotary_dim.value // 2, log)
    rule.parameters = {
        "head_dim": head_dim,
        "rotary_dim": rotary_dim,
        "rope_theta": rope_theta,
        "rope_type": rope_type,
    }
    build(rule)
    put_sections(rule)
    return rule


def _entry(
    model: TextModel, rule: Rule, found: tuple[int, ...] | None, layers: Layers, log: Log
) -> Entry:
    label = rule.block.label
    every_layer = label == EVERY_LAYER and not layers.without and found is None
    if found is None and not every_layer:
        detail = f"the config does not say which layers {label} is for"
        log.caution("layers-unknown", detail, model.place.at("layer_types"))
    return Entry(
        label,
        found,
        every_layer,
        rule.parameters,
        rule.lengths,
        rule.mscales,
        _length(model, rule, log),
    )


def _length(model: TextModel, rule: Rule, log: Log) -> Found:
    """Give max_position_embeddings, or else the length that the rule stretches to, or a guess."""
    said = model.value("max_position_embeddings")
    if said is not None:
        return said
    pointer = model.place.at("max_position_embeddings")
    original = rule.parameters.get("original_max_position_embeddings")
    factor = rule.parameters.get("factor")
    length, formula = ASSUMED_LENGTH, "assumed"
    if original is not None and factor is not None and factor.value >= 1:
        length = int(min(original.value * factor.value, 2**53))
        formula = f"computed: {original.origin} · {factor.origin}"
    detail = f"max_position_embeddings is not in the config: the table's URL is for {length} rows"
    log.caution("max-length-assumed", detail, pointer)
    return Found(length, formula, pointer)


def _caution_of_nope(model: TextModel, blocks: Blocks, layers: Layers, log: Log) -> None:
    if not layers.without and not blocks.without:
        return
    which = f"layers {', '.join(map(str, sorted(layers.without)))}"
    if not layers.without:
        which = f"layers of type {', '.join(sorted(blocks.without))}"
    detail = f"{which} have no rotary embedding ({layers.origin})"
    log.caution("nope-layers", detail, model.place.at("layer_types"))
