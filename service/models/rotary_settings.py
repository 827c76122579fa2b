"""The settings that every frequency rule has: its type, widths, lengths, base and sections.

Each function returns a value with its origin, from the block of the rule, the top of the config, or
the class defaults, and reports what is missing or doubtful.
"""

from dataclasses import dataclass, field
from difflib import get_close_matches

from service.errors import shortened
from service.models.blocks import EVERY_LAYER, ConfigBlock
from service.models.keys import RULE_TYPE_ALIASES, RULE_TYPES
from service.models.lookup import ReadingReport, ResolvedValue, did_you_mean
from service.models.model_types import TextModel
from service.numerics.limits import MAX_CHANNELS

_MAX_COMPARED = 64


@dataclass
class Rule:
    """A frequency rule while its settings are collected.

    Attributes:
        model: whose rule it is.
        block: where it is read.
        pairs: of channels that turn.
        report: takes faults and warnings.
        parameters: what fixes its frequencies, by canonical name.
        lengths: where the frequencies depend on the length a model runs at, one of each regime.
        mscales: the attention factors of these, where a config says them outright.
    """

    model: TextModel
    block: ConfigBlock
    pairs: int
    report: ReadingReport
    parameters: dict[str, ResolvedValue] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    mscales: tuple[ResolvedValue, ...] = ()

    def put(self, *names: str) -> None:
        """Add the values that the block has."""
        self.parameters |= {name: self.block.values[name] for name in names if name in self}

    def __contains__(self, name: str) -> bool:
        return name in self.block.values

    def need(self, *names: str) -> bool:
        """Add values of the block; report a fault for each that is missing."""
        missing = [name for name in names if name not in self]
        rope_type = self.parameters["rope_type"].value
        for name in missing:
            hint = did_you_mean(name, list(self.block.place.content)[:_MAX_COMPARED])
            rule = f"is required for {rope_type}{hint.replace('did you mean', 'is it')}"
            self.report.fault(self.block.place.at(name), None, rule)
        self.put(*names)
        return not missing

    def number(self, name: str, default: float = 0.0) -> float:
        """Return a number of the block, or the default."""
        found = self.block.values.get(name)
        return default if found is None else float(found.value)

    def warn(self, code: str, detail: str, name: str) -> None:
        """Warn of a value of the block."""
        found = self.block.values.get(name)
        self.report.warn(code, detail, found.pointer if found else self.block.place.at(name))


def rope_type_of(block: ConfigBlock, report: ReadingReport) -> ResolvedValue:
    """Return the canonical rope_type of a block; a fault if there is no such rule."""
    found = block.values.get("rope_type")
    if found is None:
        return ResolvedValue(
            "default", "computed: no rope_type is given", block.place.at("rope_type")
        )
    other = block.place.content.get("type", found.value)
    if other != found.value and found.pointer != block.place.at("type"):
        detail = f"rope_type {shortened(found.value)} is used, and type is {shortened(other)}"
        report.warn("type-and-rope-type-disagree", detail, block.place.at("type"))
    name = RULE_TYPE_ALIASES.get(found.value, found.value)
    if name == "yarn" and "short_factor" in block.values and "factor" not in block.values:
        name = "longrope"
    if name not in RULE_TYPES:
        report.fault(found.pointer, found.value, _unknown_type(found.value))
        return found.computed("default", "unknown")
    return (
        found
        if name == found.value
        else ResolvedValue(name, f"alias {found.pointer}", found.pointer)
    )


def _unknown_type(name: str) -> str:
    near = get_close_matches(name[:64].lower(), [*RULE_TYPES, *RULE_TYPE_ALIASES], n=1)
    if near:
        return f"{shortened(name)} is not known; did you mean {near[0]}?"
    return f"{shortened(name)} is not known; there are {', '.join(RULE_TYPES)}"


def head_dim_of(model: TextModel, label: str, report: ReadingReport) -> ResolvedValue | None:
    """Return the width of the heads that rotary embeddings see; None and a fault if unknown.

    A config's own key wins over the class default, and that over hidden_size //
    num_attention_heads, as in transformers; an explicit null asks for the last.
    """
    if "head_dim" in model.type.fixed:
        return _fixed(model, report)
    own = model.type.head_dim_by_layer_type.get(label)
    if own is not None:
        return _outright(model, own, report)
    if model.type.head_dim is not None:
        return _outright(model, model.type.head_dim, report) or _share_of_hidden_size(model, report)
    is_null = "head_dim" in model.place.content and not model.given("head_dim")
    found = model.given("head_dim") if is_null else model.value("head_dim", report)
    return found or _share_of_hidden_size(model, report)


def _fixed(model: TextModel, report: ReadingReport) -> ResolvedValue | None:
    found = _share_of_hidden_size(model, report)
    if found is not None:
        model.warn_unread("head_dim", found, report)
    return found


def _outright(model: TextModel, key: str, report: ReadingReport) -> ResolvedValue | None:
    return model.values.get(key) or model.default(key, report) or model.value("head_dim", report)


def _share_of_hidden_size(model: TextModel, report: ReadingReport) -> ResolvedValue | None:
    hidden, heads = model.value("hidden_size", report), model.value("num_attention_heads", report)
    if hidden is None or heads is None:
        rule = "is required, or hidden_size with num_attention_heads (or n_embd with n_head)"
        report.fault(model.place.at("head_dim"), None, rule)
        return None
    formula, times = f"{hidden.origin} // {heads.origin}", model.type.hidden_times
    if times > 1:
        formula = f"{times} · {formula}"
    pointer = model.place.at("head_dim")
    if not model.is_known:
        detail = f"head_dim is not in the config: {hidden.value} // {heads.value} is used"
        report.warn("head-dim-computed", detail, pointer)
    if times * hidden.value % heads.value:
        detail = f"{heads.value} heads do not divide {times * hidden.value} channels"
        report.warn("heads-do-not-divide", detail, heads.pointer)
    width = times * hidden.value // heads.value
    if not 1 <= width <= MAX_CHANNELS:
        report.fault(hidden.pointer, hidden.value, f"// {heads.value} heads is no width of a head")
        return None
    return ResolvedValue(width, f"computed: {formula}", hidden.pointer)


def rotary_dim_of(
    model: TextModel,
    block: ConfigBlock,
    rope_type: str,
    head_dim: ResolvedValue,
    report: ReadingReport,
) -> ResolvedValue:
    """Return the number of channels that turn with a position, or for ``proportional`` all."""
    found = _rotary_dim_of(model, block, rope_type, head_dim, report)
    if model.type.axes == 1:
        return found
    return found.computed(found.value // model.type.axes, f"{found.origin} // axes")


def _rotary_dim_of(
    model: TextModel,
    block: ConfigBlock,
    rope_type: str,
    head_dim: ResolvedValue,
    report: ReadingReport,
) -> ResolvedValue:
    key = model.type.rotary_dim
    if key is not None:
        found = model.values.get(key) or model.default(key, report)
        if found is not None:
            _warn_outright(model, block, found, head_dim, report)
            return found
    if rope_type == "proportional":
        return head_dim
    share, outright = share_of(model, block, report), _rotary_dim_given(model, block)
    if rope_type == "default" and model.type.partial == "ignored":
        _warn_ignored(model, share, outright, head_dim, report)
        return head_dim
    if share is None:
        return outright or head_dim
    return _share_of(head_dim, share, outright, report)


def _warn_outright(
    model: TextModel,
    block: ConfigBlock,
    held: ResolvedValue,
    head_dim: ResolvedValue,
    report: ReadingReport,
) -> None:
    """Warn of a partial_rotary_factor that contradicts the number of channels."""
    inside = None if block.is_default else block.values.get("partial_rotary_factor")
    share = inside or model.given("partial_rotary_factor")
    if share is None or model.type.head_dim is not None:
        return
    turned = int(head_dim.value * share.value)
    if turned != held.value:
        detail = (
            f"{held.origin} is {held.value} channels, which is used; partial_rotary_factor "
            f"{share.value!r} of {head_dim.value} is {turned}"
        )
        report.warn("rotary-dim-and-factor-disagree", detail, share.pointer)


def share_of(model: TextModel, block: ConfigBlock, report: ReadingReport) -> ResolvedValue | None:
    """Return partial_rotary_factor; a rotary_dim of the config wins over the class default."""
    inside, top = block.values.get("partial_rotary_factor"), model.given("partial_rotary_factor")
    if block.is_default and inside and top and inside.value != top.value:
        detail = f"{inside.value} of the {inside.origin} is used, not {top.pointer}"
        report.warn("key-not-read", detail, top.pointer)
    given = inside or top
    if given is not None or _rotary_dim_given(model, block) is not None:
        return given
    whole = model.type.defaults.get("partial_rotary_factor", 1) == 1
    return None if whole else model.default("partial_rotary_factor", report)


def _rotary_dim_given(model: TextModel, block: ConfigBlock) -> ResolvedValue | None:
    return block.values.get("rotary_dim") or model.given("rotary_dim")


def _share_of(
    head_dim: ResolvedValue,
    share: ResolvedValue,
    outright: ResolvedValue | None,
    report: ReadingReport,
) -> ResolvedValue:
    rotary_dim = int(head_dim.value * share.value)
    if outright is not None and outright.value != rotary_dim:
        detail = (
            f"partial_rotary_factor {share.value!r} of {head_dim.value} channels is {rotary_dim}, "
            f"which is used; {outright.origin} is {outright.value}"
        )
        report.warn("rotary-dim-and-factor-disagree", detail, outright.pointer)
    if share.value == 1:
        return head_dim
    return share.computed(rotary_dim, f"head_dim · {share.origin}")


def _warn_ignored(
    model: TextModel,
    share: ResolvedValue | None,
    outright: ResolvedValue | None,
    head_dim: ResolvedValue,
    report: ReadingReport,
) -> None:
    turned = outright.value if outright else head_dim.value
    if share is not None:
        turned = int(head_dim.value * share.value)
    said = share or outright
    if said is None or turned == head_dim.value:
        return
    detail = (
        f"the class of {model.type.name} turns all {head_dim.value} channels where rope_type is "
        f"default, and ignores {said.pointer}, by which it would be {turned}"
    )
    report.warn("partial-rotary-ignored", detail, said.pointer)


def longest_of(rule: Rule) -> ResolvedValue | None:
    """Return max_position_embeddings; None and a fault if it is unknown."""
    found = rule.model.value("max_position_embeddings", rule.report)
    if found is None:
        rope_type = rule.parameters["rope_type"].value
        pointer = rule.model.place.at("max_position_embeddings")
        rule.report.fault(pointer, None, f"is required for {rope_type}")
    return found


def original_length_of(rule: Rule) -> ResolvedValue | None:
    """Return the length that a model was first trained at; None and a fault if it is unknown.

    As in transformers 5.23.0, that at the top wins over that of a flat block, and without any it is
    max_position_embeddings. Values of the config win over class defaults.
    """
    inside = rule.block.values.get("original_max_position_embeddings")
    top = rule.model.given("original_max_position_embeddings")
    said = [inside, top] if rule.block.is_nested else [top, inside]
    given = [found for found in said if found is not None]
    if len(given) == 2 and given[0].value != given[1].value:
        _warn_two(rule, given[0], given[1])
    if given:
        return given[0]
    other = rule.model.given("initial_context_length")
    if other is not None:
        return ResolvedValue(other.value, f"alias {other.pointer}", other.pointer)
    return rule.model.default("original_max_position_embeddings", rule.report) or _assumed(rule)


def _warn_two(rule: Rule, held: ResolvedValue, other: ResolvedValue) -> None:
    detail = f"{held.pointer} is {held.value} and is used; {other.pointer} is {other.value}"
    rule.report.warn("original-length-in-two-places", detail, other.pointer)


def _assumed(rule: Rule) -> ResolvedValue | None:
    longest = longest_of(rule)
    if longest is None:
        return None
    pointer = rule.block.place.at("original_max_position_embeddings")
    detail = (
        "original_max_position_embeddings is not in the config: "
        f"max_position_embeddings, {longest.value}, is used"
    )
    rule.report.warn("original-length-assumed", detail, pointer)
    return ResolvedValue(longest.value, f"computed: {longest.origin}", pointer)


def put_lengths_and_factor(rule: Rule) -> bool:
    """Add the original length and the factor, max_position_embeddings / original unless given.

    Returns False, with a fault, if either is unknown.
    """
    original = original_length_of(rule)
    factor = rule.block.values.get("factor")
    if factor is None:
        factor = _implied(longest_of(rule), original)
    if original is None or factor is None:
        return False
    rule.parameters["original_max_position_embeddings"] = original
    rule.parameters["factor"] = factor
    if "factor" in rule:
        longest = rule.model.value("max_position_embeddings")
        _warn_implicit(rule, factor, original, longest)
    return True


def _implied(longest: ResolvedValue | None, original: ResolvedValue | None) -> ResolvedValue | None:
    if longest is None or original is None:
        return None
    formula = f"{longest.origin} / {original.origin}"
    return longest.computed(longest.value / original.value, formula)


def _warn_implicit(
    rule: Rule, factor: ResolvedValue, original: ResolvedValue, longest: ResolvedValue | None
) -> None:
    is_assumed = original.origin.startswith("computed")
    if longest is None or is_assumed or longest.value == factor.value * original.value:
        return
    implicit = longest.value / original.value
    detail = (
        f"factor is {factor.value!r} and is used; max_position_embeddings / "
        f"original_max_position_embeddings is {longest.value} / {original.value} = {implicit!r}"
    )
    rule.report.warn("implicit-factor-differs", detail, factor.pointer)


ASSUMED = 10000.0


def rope_theta_of(model: TextModel, block: ConfigBlock, report: ReadingReport) -> ResolvedValue:
    """Return rope_theta: of the block, of the layer type's own key, of the top, or of the class.

    At the top, rope_ratio is a multiple of 10000 (GLM). A class default is a warning, and so is
    10000 where no class is known.
    """
    if "rope_theta" in model.type.fixed:
        return _fixed_base(model, report)
    inside = block.values.get("rope_theta")
    if inside is not None and not block.is_default:
        return inside
    own = model.type.rope_keys.get(block.label, {}).get("rope_theta")
    given = model.given(own) if own is not None else _at_the_top(model, block, report)
    if given is not None:
        return given
    return _class_default(model, block, report)


def _fixed_base(model: TextModel, report: ReadingReport) -> ResolvedValue:
    """Return the base that is fixed in the code of a class."""
    theta = float(model.type.defaults["rope_theta"])
    found = ResolvedValue(theta, model.type.origin, model.place.at("model_type"))
    model.warn_unread("rope_theta", found, report)
    return found


def _class_default(model: TextModel, block: ConfigBlock, report: ReadingReport) -> ResolvedValue:
    """Return the class default of a layer type, or of the model type, or 10000."""
    pointer = model.place.at(model.type.names.get("rope_theta", "rope_theta"))
    nested = model.type.rope_parameters_of(block.label)
    value = nested.get("rope_theta", model.type.rope_parameters.get("rope_theta"))
    value = model.type.defaults.get("rope_theta", value) if not nested else value
    if value is None:
        detail = f"rope_theta is not in the config, and {ASSUMED:.0f} is used"
        report.warn("theta-assumed", detail, pointer)
        return ResolvedValue(ASSUMED, "assumed", pointer)
    what = "rope_theta" if block.label == EVERY_LAYER else f"rope_theta of {block.label}"
    detail = f"{what} is not in the config: {value} is the {model.type.origin}"
    report.warn("class-default-used", detail, pointer)
    if model.type.rope_theta_4_57 is not None:
        detail = f"rope_theta is {value} by default, and {model.type.rope_theta_4_57} in 4.57.1"
        report.warn("theta-default-changed", detail, pointer)
    return ResolvedValue(float(value), model.type.origin, pointer)


def _at_the_top(
    model: TextModel, block: ConfigBlock, report: ReadingReport
) -> ResolvedValue | None:
    given = model.given("rope_theta")
    if given is None:
        ratio = model.given("rope_ratio")
        return ratio and ratio.computed(ASSUMED * ratio.value, f"10000 · {ratio.pointer}")
    if not block.is_default or not _differ_by_layer_type(model):
        if block.is_default:
            _warn_default_elsewhere(model, block, given, report)
        return given
    detail = f"rope_theta is not read by {model.type.name}, whose layer types have their own"
    report.warn("unknown-rope-key", detail, given.pointer)
    return None


def _differ_by_layer_type(model: TextModel) -> bool:
    blocks = model.type.rope_parameters.values()
    return len({own.get("rope_theta") for own in blocks if isinstance(own, dict)}) > 1


def _warn_default_elsewhere(
    model: TextModel, block: ConfigBlock, given: ResolvedValue, report: ReadingReport
) -> None:
    kind, layers = model.type, block.label
    own: object = kind.rope_parameters_of(layers).get("rope_theta", given.value)
    if layers == EVERY_LAYER:
        own, layers = kind.rope_parameters.get("rope_theta", given.value), "all layers"
    elif layers not in kind.unscaled:
        return
    if own != given.value:
        detail = f"transformers 5.23.0 keeps {own} for {layers}, whatever {given.pointer} says"
        report.warn("theta-not-everywhere", detail, given.pointer)


def put_sections(rule: Rule) -> None:
    """Add mrope_section and mrope_interleaved, where a config or a class has them.

    Sections for other than three axes, or in an order of their own, are a warning, and left out:
    the table's URL then is that of text, where all axes have the same position.
    """
    section, kind = rule.block.values.get("mrope_section"), rule.model.type.mrope
    if section is None and kind is not None and kind.section is not None:
        section = ResolvedValue(
            kind.section, rule.model.type.origin, rule.block.place.at("mrope_section")
        )
        if sum(kind.section) != rule.pairs:
            return
        detail = (
            f"mrope_section is not in the config: {kind.section} is the {rule.model.type.origin}"
        )
        rule.report.warn("class-default-used", detail, section.pointer)
    if section is None:
        return
    if len(section.value) != 3 or (kind is not None and kind.arrangement is not None):
        detail = f"sections {', '.join(map(str, section.value))} are not of axes t, h and w in turn"
        rule.warn("mrope-axes", detail, "mrope_section")
        return
    rule.parameters["mrope_section"] = section
    rule.parameters["mrope_interleaved"] = rule.block.values.get(
        "mrope_interleaved"
    ) or ResolvedValue(
        kind.interleaved if kind else False,
        rule.model.type.origin if kind else "computed: chunked unless given",
        rule.block.place.at("mrope_interleaved"),
    )
