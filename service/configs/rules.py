"""The parameters of each frequency rule, by its rope_type."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType

from service.configs.lengths import longest_of, original_length_of, put_lengths_and_factor
from service.configs.lookup import Found, did_you_mean
from service.configs.rule import Rule
from service.configs.spellings import EVERY_RULE, RULE_SPELLINGS, RULE_TYPES
from service.configs.widths import share_of
from service.errors import shortened
from service.tables.angle import exact_context
from service.tables.limits import MAX_LENGTH
from service.tables.scaling import yarn_mscale

_MAX_UNKNOWN = 20
_SLOPE_OF_TELECHAT = Decimal("0.07")


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
    place = rule.block.place
    unknown = [
        key
        for key, value in place.content.items()
        if value is not None and RULE_SPELLINGS.get(key, key) not in known
    ]
    missing = "" if "rope_type" in rule else ": no rope_type is given"
    for key in unknown[:_MAX_UNKNOWN]:
        hint = missing if key in RULE_SPELLINGS else did_you_mean(key, known)
        detail = f"{rope_type} has no use for {shortened(key)}{hint}"
        rule.log.caution("unknown-rope-key", detail, place.at(key))
    if len(unknown) > _MAX_UNKNOWN:
        detail = f"{rope_type} has no use for {len(unknown) - _MAX_UNKNOWN} more keys"
        rule.log.caution("unknown-rope-key", detail, place.pointer)


def _default(_: Rule) -> None:
    """Take nothing more."""


def _linear(rule: Rule) -> None:
    rule.need("factor")


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
    _put_unless_zero(rule, "beta_fast", "beta_slow")
    rule.put("truncate", "mscale", "mscale_all_dim", "attention_factor")
    _caution_of_truncate(rule)
    _caution_of_mscale(rule)
    _caution_of_alias(rule)
    if "attention_factor" not in rule:
        _put_attention_factor(rule)


def _put_unless_zero(rule: Rule, *names: str) -> None:
    """Take what the block has of these; 0 is as good as absent, as in transformers."""
    for name in names:
        if rule.number(name):
            rule.put(name)
        elif name in rule:
            detail = f"{name} is 0, which is read as if it were not given"
            rule.caution("zero-ignored", detail, name)


def _caution_of_alias(rule: Rule) -> None:
    found = rule.block.values.get("attention_factor")
    if found is not None and found.pointer.endswith("/attn_factor"):
        detail = "attn_factor holds, as in vLLM; transformers reads attention_factor alone"
        rule.caution("attn-factor-alias", detail, "attention_factor")


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
