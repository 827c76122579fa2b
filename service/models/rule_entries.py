"""The settings of each frequency rule by its rope_type, and the entries of the report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from types import MappingProxyType

from service.encodings.rotary.rules import rule_of, yarn_mscale
from service.errors import shortened
from service.models.blocks import EVERY_LAYER, MAX_LABELS, Blocks, ConfigBlock
from service.models.keys import MAX_COUNT, OF_EVERY_RULE, RULE_SPELLINGS, RULE_TYPES
from service.models.layers import Layers, split_by_layer, which_have
from service.models.lookup import ReadingReport, ResolvedValue, did_you_mean
from service.models.model_types import TextModel
from service.models.rotary_settings import (
    Rule,
    head_dim_of,
    longest_of,
    original_length_of,
    put_lengths_and_factor,
    put_sections,
    rope_theta_of,
    rope_type_of,
    rotary_dim_of,
    share_of,
)
from service.numerics.limits import MAX_CHANNELS, MAX_LENGTH
from service.numerics.phase import exact_context

_MAX_UNKNOWN = 20
_SLOPE_OF_TELECHAT = Decimal("0.07")


def build(rule: Rule) -> None:
    """Add the parameters of the rope_type of a rule, with warnings."""
    rope_type = rule.parameters["rope_type"].value
    _warn_unknown(rule, rope_type)
    _BUILDERS.get(rope_type, _keys_of_rule)(rule)
    if "factor" in rule.parameters and rule.number("factor", 1) < 1:
        rule.warn("factor-below-one", f"factor is {rule.number('factor')!r}", "factor")


def _warn_unknown(rule: Rule, rope_type: str) -> None:
    if rule.block.is_default:
        return
    known = OF_EVERY_RULE.keys() | RULE_TYPES[rope_type]
    place = rule.block.place
    unknown = [
        key
        for key, value in place.content.items()
        if value is not None and RULE_SPELLINGS.get(key, key) not in known
    ]
    missing = "" if "rope_type" in rule else ": no rope_type is given"
    for key in unknown[:_MAX_UNKNOWN]:
        hint = missing if key in RULE_SPELLINGS else did_you_mean(key, known)
        detail = f"{rope_type} does not use {shortened(key)}{hint}"
        rule.report.warn("unknown-rope-key", detail, place.at(key))
    if len(unknown) > _MAX_UNKNOWN:
        detail = f"{rope_type} does not use {len(unknown) - _MAX_UNKNOWN} more keys"
        rule.report.warn("unknown-rope-key", detail, place.pointer)


def _keys_of_rule(rule: Rule) -> None:
    """Add the keys of the class of the rule: the required ones, and the others of the block."""
    kind = rule_of(rule.parameters["rope_type"].value, rule.block.values)
    rule.need(*kind.required_keys())
    rule.put(*kind.config_keys())


def _dynamic(rule: Rule) -> None:
    _put_unless_zero(rule, "alpha")
    if "alpha" in rule.parameters:
        return
    longest = longest_of(rule)
    if not rule.need("factor") or longest is None:
        return
    rule.parameters["max_position_embeddings"] = longest
    grown = min(max(rule.number("factor") * longest.value, longest.value + 1), MAX_LENGTH)
    rule.lengths = (longest.value, int(grown))
    detail = f"the base grows with lengths beyond {longest.value}: it depends on context_length"
    rule.warn("dynamic-is-stateful", detail, "factor")


def _yarn(rule: Rule) -> None:
    if not put_lengths_and_factor(rule):
        return
    _put_unless_zero(rule, "beta_fast", "beta_slow")
    rule.put("truncate", "mscale", "mscale_all_dim", "attention_factor")
    _warn_truncate(rule)
    _warn_mscale(rule)
    _warn_alias(rule)
    if "attention_factor" not in rule:
        _put_attention_factor(rule)


def _put_unless_zero(rule: Rule, *names: str) -> None:
    """Add values of the block that are not 0, which counts as absent, as in transformers."""
    for name in names:
        if rule.number(name):
            rule.put(name)
        elif name in rule:
            detail = f"{name} is 0, which counts as missing"
            rule.warn("zero-ignored", detail, name)


def _warn_alias(rule: Rule) -> None:
    found = rule.block.values.get("attention_factor")
    if found is not None and found.pointer.endswith("/attn_factor"):
        detail = "attn_factor is used, as in vLLM; transformers reads attention_factor alone"
        rule.warn("attn-factor-alias", detail, "attention_factor")


def _put_attention_factor(rule: Rule) -> None:
    """Add the attention factor of a class, or of TeleChat3, where it is not that of YaRN."""
    own = rule.model.type.defaults.get("attention_factor")
    said = rule.block.values.get("rope_type")
    if own is not None:
        pointer = rule.block.place.at("attention_factor")
        rule.parameters["attention_factor"] = ResolvedValue(own, rule.model.type.origin, pointer)
    elif said is not None and said.value == "telechat3-yarn":
        value, formula = _of_telechat(rule)
        rule.parameters["attention_factor"] = said.computed(value, formula)
        detail = f"attention_factor is {formula}; that of YaRN has 0.1 for 0.07"
        rule.warn("telechat-yarn", detail, "rope_type")


def _of_telechat(rule: Rule) -> tuple[float, str]:
    """Return (0.07·mscale·ln f + 1)/(0.07·mscale_all_dim·ln f + 1); 0.07·ln f + 1 without both."""
    mscales = [Decimal(rule.number(name)) for name in ("mscale", "mscale_all_dim")]
    has_both = all(mscales)
    factor = Decimal(rule.parameters["factor"].value)
    above, below = (
        yarn_mscale(factor, mscale, _SLOPE_OF_TELECHAT)
        for mscale in (mscales if has_both else (Decimal(1), Decimal(0)))
    )
    formula = "(0.07·mscale·ln factor + 1)/(0.07·mscale_all_dim·ln factor + 1)"
    value = float(exact_context().divide(above, below))
    return value, formula if has_both else "0.07·ln factor + 1"


def _warn_truncate(rule: Rule) -> None:
    if "truncate" not in rule or rule.block.values["truncate"].value:
        return
    detail = "ggml and mlx-lm 0.32 round the range of YaRN outwards, which truncate: false forbids"
    rule.warn("truncate-not-representable", detail, "truncate")
    if rule.block.is_nested:
        detail = f"truncate: false of {rule.block.label} is used; transformers 5.23.0 ignores it"
        rule.warn("truncate-ignored-when-nested", detail, "truncate")


def _warn_mscale(rule: Rule) -> None:
    mscale, all_dim = rule.number("mscale"), rule.number("mscale_all_dim")
    if "attention_factor" in rule and mscale and all_dim:
        detail = "attention_factor is used, not mscale and mscale_all_dim"
        rule.warn("attention-factor-and-mscale", detail, "mscale")
    elif "attention_factor" not in rule and mscale not in {0.0, 1.0} and not all_dim:
        detail = (
            f"mscale is {mscale!r} without mscale_all_dim: transformers takes 0.1·ln factor + 1 "
            "(as here), DeepSeek's own code and vLLM 0.1·mscale·ln factor + 1"
        )
        rule.warn("deepseek-mscale-ambiguity", detail, "mscale")


def _longrope(rule: Rule) -> None:
    has_lists = rule.need("short_factor", "long_factor")
    if not put_lengths_and_factor(rule) or not has_lists:
        return
    for name in ("short_factor", "long_factor"):
        found = rule.parameters[name]
        if len(found.value) != rule.pairs:
            detail = f"has {len(found.value)} factors, and {rule.pairs} pairs of channels turn"
            rule.report.fault(found.pointer, found.value, detail)
    original = rule.parameters["original_max_position_embeddings"]
    longest = rule.model.value("max_position_embeddings")
    rule.lengths = (original.value, max(longest.value if longest else 0, original.value + 1))
    rule.put("attention_factor")
    names = rule.model.type.mscale_keys or ("short_mscale", "long_mscale")
    if all(name in rule for name in names):
        rule.mscales = tuple(rule.block.values[name] for name in names)
        rule.parameters["attention_factor"] = rule.mscales[0]
    detail = f"short_factor is used up to a length of {original.value}, long_factor beyond"
    rule.warn("longrope-regimes", detail, "long_factor")


def _llama3(rule: Rule) -> None:
    has_factors = rule.need("factor", "low_freq_factor", "high_freq_factor")
    original = original_length_of(rule)
    if original is not None:
        rule.parameters["original_max_position_embeddings"] = original
    low = rule.number("low_freq_factor")
    if has_factors and low == rule.number("high_freq_factor"):
        detail = f"low_freq_factor and high_freq_factor are both {low!r}: nothing is smoothed"
        rule.warn("low-equals-high-freq-factor", detail, "high_freq_factor")


def _proportional(rule: Rule) -> None:
    share = share_of(rule.model, rule.block, rule.report)
    if share is not None:
        rule.parameters["partial_rotary_factor"] = share
    rule.put("factor")


# The others have only the keys of their class.
_BUILDERS: Mapping[str, Callable[[Rule], None]] = MappingProxyType(
    {
        "dynamic": _dynamic,
        "yarn": _yarn,
        "longrope": _longrope,
        "llama3": _llama3,
        "proportional": _proportional,
    }
)


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
        every_layer: whether it is for all layers.
        values: those of the config or the class, by canonical name.
        lengths: one context_length of each regime, the original first; empty if there is but one.
        mscales: the attention factor of each regime, where a config gives them.
        length: max_position_embeddings, or the assumed length.
        offset: channels of a head before the first that turns, where that is not the first.
    """

    label: str
    layers: tuple[int, ...] | None
    every_layer: bool
    values: Mapping[str, ResolvedValue]
    lengths: tuple[int, ...]
    mscales: tuple[ResolvedValue, ...]
    length: ResolvedValue
    offset: ResolvedValue | None = None

    def at(self, context_length: int | None) -> dict[str, ResolvedValue]:
        """Return the values at a context length, the original one unless given."""
        values = dict(self.values)
        if self.lengths:
            length = context_length or self.lengths[0]
            origin = "?context_length" if context_length else "computed: the original length"
            values["context_length"] = ResolvedValue(
                length, origin, self.values["rope_type"].pointer
            )
            if self.mscales:
                values["attention_factor"] = self.mscales[length > self.lengths[0]]
        return {**values, "max_position_embeddings": self.length}


def entries_of(
    model: TextModel, blocks: Blocks, layers: Layers, report: ReadingReport
) -> tuple[list[Rule], tuple[Entry, ...]]:
    """Resolve each block to a rule and its entry."""
    rules: list[Rule] = []
    entries: list[Entry] = []
    for block, found in split_by_layer(model, blocks.blocks, layers, report):
        rule = _rule(model, block, report)
        if rule is not None:
            rules.append(rule)
            entries.append(_entry(model, rule, found, layers, report))
        if len(entries) > MAX_LABELS:
            detail = f"comes to more than {MAX_LABELS} types of layers"
            report.fault(rules[0].block.place.pointer, None, detail)
            return rules, ()
    _check_lists(rules, report)
    if len(entries) > 1:
        labels = ", ".join(entry.label for entry in entries)
        pointer = blocks.blocks[0].place.pointer.rpartition("/")[0] or model.place.pointer
        report.warn("per-layer-rope", f"these have different tables: {labels}", pointer)
    _warn_nope(blocks, layers, report)
    _warn_uncovered(blocks, layers, report)
    return rules, tuple(entries)


def _check_lists(rules: Sequence[Rule], report: ReadingReport) -> None:
    lists = (found.value for rule in rules for found in rule.parameters.values())
    numbers = sum(len(listed) for listed in lists if isinstance(listed, tuple))
    if numbers > MAX_NUMBERS:
        detail = f"comes to lists of {numbers} numbers for {len(rules)} types of layers: at most "
        report.fault(rules[0].block.place.pointer, None, f"{detail}{MAX_NUMBERS} are read")


def _rule(model: TextModel, block: ConfigBlock, report: ReadingReport) -> Rule | None:
    rope_type, head_dim = rope_type_of(block, report), head_dim_of(model, block.label, report)
    rope_theta = rope_theta_of(model, block, report)
    if head_dim is None:
        return None
    rotary_dim = rotary_dim_of(model, block, rope_type.value, head_dim, report)
    rule = Rule(model, block, rotary_dim.value // 2, report)
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
    model: TextModel,
    rule: Rule,
    found: tuple[int, ...] | None,
    layers: Layers,
    report: ReadingReport,
) -> Entry:
    label = rule.block.label
    every_layer = label == EVERY_LAYER and not layers.without and found is None
    if found is None and not every_layer:
        types = dict.fromkeys((*_types_of(model), *(layers.types or ())))
        others = [kind for kind in islice(types, _MAX_COMPARED) if kind != label]
        hint = did_you_mean(label, others) if len(label) <= _MAX_LABEL_LENGTH else ""
        detail = f"the config does not say which layers {label} is for{hint}"
        report.warn("layers-unknown", detail, model.place.at("layer_types"))
    return Entry(
        label,
        found,
        every_layer,
        rule.parameters,
        rule.lengths,
        rule.mscales,
        _length(model, rule, report),
        _offset(rule) if model.type.last_channels else None,
    )


def _offset(rule: Rule) -> ResolvedValue:
    head_dim, rotary_dim = rule.parameters["head_dim"], rule.parameters["rotary_dim"]
    offset = head_dim.value - rotary_dim.value
    return head_dim.computed(offset, "head_dim - rotary_dim: the last channels of a head turn")


def _length(model: TextModel, rule: Rule, report: ReadingReport) -> ResolvedValue:
    """Return max_position_embeddings, else the original length · factor, else ASSUMED_LENGTH."""
    said = model.value("max_position_embeddings", report)
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
    report.warn("max-length-assumed", detail, pointer)
    return ResolvedValue(length, formula, pointer)


def _types_of(model: TextModel) -> tuple[str, ...]:
    """Return the layer types that a class knows."""
    pattern = model.type.layer_types
    return (pattern.at, pattern.otherwise) if pattern else ()


def _warn_nope(blocks: Blocks, layers: Layers, report: ReadingReport) -> None:
    if not layers.without and not blocks.without:
        return
    which = which_have(layers.without)
    if not layers.without:
        which = f"layers of type {', '.join(sorted(blocks.without))} have"
    report.warn("nope-layers", f"{which} no rotary embedding ({layers.origin})", layers.pointer)


def _warn_uncovered(blocks: Blocks, layers: Layers, report: ReadingReport) -> None:
    """Warn of layers whose type has no block."""
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
        report.warn("layers-without-rule", detail, layers.pointer)
