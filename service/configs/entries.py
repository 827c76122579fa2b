"""Entries: what a block and its model come to, for the layers that it is for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from service.configs.blocks import EVERY_LAYER, MAX_LABELS, Block, Blocks
from service.configs.groups import split_by_layer
from service.configs.layers import Layers, which_have
from service.configs.lookup import Found, Log, did_you_mean
from service.configs.rule import Rule, rope_type_of
from service.configs.rules import build
from service.configs.sections import put_sections
from service.configs.text import TextModel
from service.configs.theta import rope_theta_of
from service.configs.values import MAX_COUNT
from service.configs.widths import head_dim_of, rotary_dim_of
from service.errors import shortened
from service.tables.limits import MAX_CHANNELS

ASSUMED_LENGTH = 4096
MAX_NUMBERS = MAX_CHANNELS // 2
"""Numbers in the lists of all entries together: each is in several URLs of the answer."""

_MAX_COMPARED = 64
_MAX_LABEL_LENGTH = 40


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
        offset: channels of a head before the first that turns, where that is not the first.
    """

    label: str
    layers: tuple[int, ...] | None
    every_layer: bool
    values: Mapping[str, Found]
    lengths: tuple[int, ...]
    mscales: tuple[Found, ...]
    length: Found
    offset: Found | None = None

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
        if len(entries) > MAX_LABELS:
            detail = f"comes to more than {MAX_LABELS} types of layers"
            log.fault(rules[0].block.place.pointer, None, detail)
            return rules, ()
    _check_lists(rules, log)
    if len(entries) > 1:
        labels = ", ".join(entry.label for entry in entries)
        pointer = blocks.blocks[0].place.pointer.rpartition("/")[0] or model.place.pointer
        log.caution("per-layer-rope", f"these have a table each: {labels}", pointer)
    _caution_of_nope(blocks, layers, log)
    _caution_of_uncovered(blocks, layers, log)
    return rules, tuple(entries)


def _check_lists(rules: Sequence[Rule], log: Log) -> None:
    lists = (found.value for rule in rules for found in rule.parameters.values())
    numbers = sum(len(listed) for listed in lists if isinstance(listed, tuple))
    if numbers > MAX_NUMBERS:
        detail = f"comes to lists of {numbers} numbers for {len(rules)} types of layers: at most "
        log.fault(rules[0].block.place.pointer, None, f"{detail}{MAX_NUMBERS} are read")


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
        types = dict.fromkeys((*_types_of(model), *(layers.types or ())))
        others = [kind for kind in islice(types, _MAX_COMPARED) if kind != label]
        hint = did_you_mean(label, others) if len(label) <= _MAX_LABEL_LENGTH else ""
        detail = f"the config does not say which layers {label} is for{hint}"
        log.caution("layers-unknown", detail, model.place.at("layer_types"))
    return Entry(
        label,
        found,
        every_layer,
        rule.parameters,
        rule.lengths,
        rule.mscales,
        _length(model, rule, log),
        _offset(rule) if model.type.last_channels else None,
    )


def _offset(rule: Rule) -> Found:
    head_dim, rotary_dim = rule.parameters["head_dim"], rule.parameters["rotary_dim"]
    offset = head_dim.value - rotary_dim.value
    return head_dim.computed(offset, "head_dim - rotary_dim: the last channels of a head turn")


def _length(model: TextModel, rule: Rule, log: Log) -> Found:
    """Give max_position_embeddings, or else the length that the rule stretches to, or a guess."""
    said = model.value("max_position_embeddings", log)
    if said is not None:
        return said
    pointer = model.place.at("max_position_embeddings")
    original = rule.parameters.get("original_max_position_embeddings")
    factor = rule.parameters.get("factor")
    length, formula = ASSUMED_LENGTH, "assumed"
    if original is not None and factor is not None and factor.value >= 1:
        length = int(min(original.value * factor.value, MAX_COUNT))
        formula = f"computed: {original.origin} · {factor.origin}"
    detail = f"max_position_embeddings is not in the config: the table's URL is for {length} rows"
    log.caution("max-length-assumed", detail, pointer)
    return Found(length, formula, pointer)


def _types_of(model: TextModel) -> tuple[str, ...]:
    """Name the layer types that a class knows."""
    pattern = model.type.layer_types
    return (pattern.at, pattern.otherwise) if pattern else ()


def _caution_of_nope(blocks: Blocks, layers: Layers, log: Log) -> None:
    if not layers.without and not blocks.without:
        return
    which = which_have(layers.without)
    if not layers.without:
        which = f"layers of type {', '.join(sorted(blocks.without))} have"
    log.caution("nope-layers", f"{which} no rotary embedding ({layers.origin})", layers.pointer)


def _caution_of_uncovered(blocks: Blocks, layers: Layers, log: Log) -> None:
    """Warn of layers of a type that no block is for."""
    labels = {block.label for block in blocks.blocks}
    types = layers.types or ()
    if EVERY_LAYER in labels or not labels & set(types):
        return
    uncovered = [
        i for i, kind in enumerate(types) if kind not in labels and i not in layers.without
    ]
    if uncovered:
        kind = types[uncovered[0]]
        hint = did_you_mean(kind, labels)
        detail = f"{which_have(uncovered)} none of these: type {shortened(kind)}{hint}"
        log.caution("layers-without-rule", detail, layers.pointer)
