"""The parameters of each frequency rule, by its rope_type."""

from collections.abc import Callable, Mapping
from math import log as ln
from types import MappingProxyType

from service.configs.lengths import (
    LONGEST,
    longest_of,
    original_length_of,
    put_lengths_and_factor,
)
from service.configs.lookup import Found
from service.configs.rule import Rule
from service.configs.spellings import EVERY_RULE, RULE, RULE_TYPES
from service.configs.widths import share_of
from service.errors import shortened


def build(rule: Rule) -> None:
    """Give a rule the parameters of its rope_type, with the warnings that they deserve."""
    rope_type = rule.parameters["rope_type"].value
    _caution_of_unknown(rule, rope_type)
    _BUILDERS[rope_type](rule)
    if "factor" in rule.parameters and rule.number("factor", 1) < 1:
        rule.caution("factor-below-one", f"factor is {rule.number('factor')!r}", "factor")


def _caution_of_unknown(rule: Rule, rope_type: str) -> None:
    if rule.block.is_default:
        return
    known = EVERY_RULE | set(RULE_TYPES[rope_type])
    spellings = {spelling: name for name, key in RULE.items() for spelling in (name, *key.aliases)}
    for key, value in rule.block.place.content.items():
        is_block = isinstance(value, dict) and not rule.block.is_nested
        if value is not None and not is_block and spellings.get(key, key) not in known:
            pointer = rule.block.place.at(key)
            rule.log.caution(
                "unknown-rope-key", f"{rope_type} has no use for {shortened(key)}", pointer
            )


def _default(_: Rule) -> None:
    """Take nothing more."""


def _linear(rule: Rule) -> None:
    rule.need("factor")


def _dynamic(rule: Rule) -> None:
    if rule.number("alpha"):
        rule.put("alpha")
        return
    longest = longest_of(rule)
    if not rule.need("factor") or longest is None:
        return
    rule.parameters["max_position_embeddings"] = longest
    grown = min(max(rule.number("factor") * longest.value, longest.value + 1), LONGEST)
    rule.lengths = (longest.value, int(grown))
    detail = (
        f"the base grows with the length beyond {longest.value}; each context_length has its own"
    )
    rule.caution("dynamic-is-stateful", detail, "factor")


def _ntk(rule: Rule) -> None:
    rule.need("factor")
    rule.put("mixed_b")


def _yarn(rule: Rule) -> None:
    if not put_lengths_and_factor(rule):
        return
    rule.put(*(name for name in ("beta_fast", "beta_slow") if rule.number(name)))
    rule.put("truncate", "mscale", "mscale_all_dim", "attention_factor")
    _caution_of_truncate(rule)
    _caution_of_mscale(rule)
    if "attention_factor" not in rule:
        _put_attention_factor(rule)


def _put_attention_factor(rule: Rule) -> None:
    """Take the attention factor of a class, or of TeleChat3, where it is not that of YaRN."""
    own = rule.model.type.defaults.get("attention_factor")
    said = rule.block.values.get("rope_type")
    if own is not None:
        pointer = rule.block.place.at("attention_factor")
        rule.parameters["attention_factor"] = Found(own, rule.model.type.origin, pointer)
    elif said is not None and said.value == "telechat3-yarn":
        value, formula = _of_telechat(rule)
        rule.parameters["attention_factor"] = said.computed(value, formula)
        detail = f"attention_factor is {formula}; that of YaRN has 0.1 for 0.07"
        rule.caution("telechat-yarn", detail, "rope_type")


def _of_telechat(rule: Rule) -> tuple[float, str]:
    """Give (0.07·mscale·ln f + 1)/(0.07·mscale_all_dim·ln f + 1), or 0.07·ln f + 1 without both."""
    growth = 0.07 * ln(max(rule.parameters["factor"].value, 1.0))
    mscale, all_dim = rule.number("mscale"), rule.number("mscale_all_dim")
    if not (mscale and all_dim):
        return growth + 1, "0.07·ln factor + 1"
    formula = "(0.07·mscale·ln factor + 1)/(0.07·mscale_all_dim·ln factor + 1)"
    return (mscale * growth + 1) / (all_dim * growth + 1), formula


def _caution_of_truncate(rule: Rule) -> None:
    if "truncate" not in rule or rule.block.values["truncate"].value:
        return
    detail = "ggml and mlx-lm 0.32 round the range of YaRN outwards, which truncate: false forbids"
    rule.caution("truncate-not-representable", detail, "truncate")
    if rule.block.is_nested:
        detail = f"truncate: false of {rule.block.label} holds here; transformers 5.23.0 ignores it"
        rule.caution("truncate-ignored-when-nested", detail, "truncate")


def _caution_of_mscale(rule: Rule) -> None:
    mscale, all_dim = rule.number("mscale"), rule.number("mscale_all_dim")
    if "attention_factor" in rule and mscale and all_dim:
        detail = "attention_factor holds, not mscale and mscale_all_dim"
        rule.caution("attention-factor-and-mscale", detail, "mscale")
    elif "attention_factor" not in rule and mscale not in {0.0, 1.0} and not all_dim:
        detail = (
            f"mscale is {mscale!r} without mscale_all_dim: transformers takes 0.1·ln factor + 1 "
            "(as here), DeepSeek's own code and vLLM 0.1·mscale·ln factor + 1"
        )
        rule.caution("deepseek-mscale-ambiguity", detail, "mscale")


def _longrope(rule: Rule) -> None:
    has_lists = rule.need("short_factor", "long_factor")
    if not put_lengths_and_factor(rule) or not has_lists:
        return
    for name in ("short_factor", "long_factor"):
        found = rule.parameters[name]
        if len(found.value) != rule.pairs:
            detail = f"has {len(found.value)} factors, and {rule.pairs} pairs of channels turn"
            rule.log.fault(found.pointer, found.value, detail)
    original = rule.parameters["original_max_position_embeddings"]
    longest = rule.model.value("max_position_embeddings")
    rule.lengths = (original.value, max(longest.value if longest else 0, original.value + 1))
    rule.put("attention_factor")
    names = rule.model.type.mscale_keys or ("short_mscale", "long_mscale")
    if all(name in rule for name in names):
        rule.mscales = tuple(rule.block.values[name] for name in names)
        rule.parameters["attention_factor"] = rule.mscales[0]
    detail = f"short_factor holds up to a length of {original.value}, long_factor beyond"
    rule.caution("longrope-regimes", detail, "long_factor")


def _llama3(rule: Rule) -> None:
    has_factors = rule.need("factor", "low_freq_factor", "high_freq_factor")
    original = original_length_of(rule)
    if original is not None:
        rule.parameters["original_max_position_embeddings"] = original
    low = rule.number("low_freq_factor")
    if has_factors and low == rule.number("high_freq_factor"):
        detail = f"low_freq_factor and high_freq_factor are both {low!r}: nothing is smoothed"
        rule.caution("low-equals-high-freq-factor", detail, "high_freq_factor")


def _proportional(rule: Rule) -> None:
    share = share_of(rule.model, rule.block, rule.log)
    if share is not None:
        rule.parameters["partial_rotary_factor"] = share
    rule.put("factor")


_BUILDERS: Mapping[str, Callable[[Rule], None]] = MappingProxyType(
    {
        "default": _default,
        "linear": _linear,
        "dynamic": _dynamic,
        "ntk": _ntk,
        "yarn": _yarn,
        "longrope": _longrope,
        "llama3": _llama3,
        "proportional": _proportional,
    }
)
