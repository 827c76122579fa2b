"""The parameters of frequency rules in a config: one block, or one for each layer type.

Configs of other programs (Mistral's params.json, OpenAI's gpt-oss, litgpt, Meta's params.json) have
them as keys at the top.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from service.models.keys import LLAMA4_OF_MISTRAL, RULE, RULE_SPELLINGS, YARN_OF_MISTRAL
from service.models.lookup import (
    KeyPlace,
    ReadingReport,
    ResolvedValue,
    Values,
    read_object,
    read_values,
)
from service.models.model_types import ModelType, TextModel


def foreign_block(model: TextModel, report: ReadingReport) -> Values | None:
    """Return the parameters of a rule in another program's spelling, None if there are none."""
    for read in (_mistral, _litgpt_llama3, _litgpt_linear, _gpt_oss, _meta):
        found = read(model, report)
        if found is not None:
            return found
    return None


def _mistral(model: TextModel, report: ReadingReport) -> Values | None:
    """Read ``yarn``: beta and alpha are β_fast and β_slow, without apply_scale the factor is 1."""
    place = read_object(model.place, "yarn", report)
    if place is None:
        return None
    tuned = read_object(model.place, "llama_4_scaling", report)
    beside = read_values(tuned, LLAMA4_OF_MISTRAL, {}, report) if tuned else {}
    values = {**beside, **read_values(place, YARN_OF_MISTRAL, {}, report)}
    scale = values.pop("apply_scale", None)
    if scale is not None and not scale.value:
        values["attention_factor"] = scale.computed(1.0, f"{scale.pointer} is false")
    return {"rope_type": _implied("yarn", place.pointer), **values}


def _litgpt_llama3(model: TextModel, report: ReadingReport) -> Values | None:
    place = read_object(model.place, "rope_adjustments", report)
    if place is None:
        return None
    values = read_values(place, RULE, {}, report)
    return {"rope_type": _implied("llama3", place.pointer), **values}


def _litgpt_linear(model: TextModel, _: ReadingReport) -> Values | None:
    ratio = model.given("rope_condense_ratio")
    if ratio is None or ratio.value == 1:
        return None
    return {"rope_type": _implied("linear", ratio.pointer), "factor": _alias(ratio)}


def _gpt_oss(model: TextModel, _: ReadingReport) -> Values | None:
    """Read gpt-oss's own keys: its range of YaRN is not rounded."""
    length, factor = model.given("initial_context_length"), model.given("rope_scaling_factor")
    fast, slow = model.given("rope_ntk_beta"), model.given("rope_ntk_alpha")
    if length is None or factor is None or fast is None or slow is None or factor.value <= 1:
        return None
    return {
        "rope_type": _implied("yarn", factor.pointer),
        "factor": _alias(factor),
        "original_max_position_embeddings": _alias(length),
        "beta_fast": _alias(fast),
        "beta_slow": _alias(slow),
        "truncate": factor.computed(False, "gpt-oss does not round the range"),
    }


def _meta(model: TextModel, report: ReadingReport) -> Values | None:
    """Read ``use_scaled_rope``, whose numbers are in Meta's code; a config may name two."""
    scaled = model.given("use_scaled_rope")
    if scaled is None or not scaled.value:
        return None
    detail = "use_scaled_rope: low_freq_factor 1, an original length of 8192"
    assumed = {"low_freq_factor": 1.0, "original_max_position_embeddings": 8192}
    values = {"rope_type": _implied("llama3", scaled.pointer)}
    given = {"factor": "rope_scaling_factor", "high_freq_factor": "rope_high_freq_factor"}
    for name, number in {"factor": 8.0, "high_freq_factor": 4.0}.items():
        found = model.given(given[name])
        if found is None:
            assumed[name] = number
            detail += f", {name} {number:g}"
        else:
            values[name] = _alias(found)
    report.warn("scaled-rope-assumed", f"{detail} are used, those of Llama 3.1", scaled.pointer)
    values |= {
        name: ResolvedValue(number, "assumed", scaled.pointer) for name, number in assumed.items()
    }
    return values


def _implied(rope_type: str, pointer: str) -> ResolvedValue:
    return ResolvedValue(rope_type, f"computed: implied by {pointer}", pointer)


def _alias(found: ResolvedValue) -> ResolvedValue:
    return ResolvedValue(found.value, f"alias {found.pointer}", found.pointer)


EVERY_LAYER = "default"
MAX_LABELS = 64


@dataclass(frozen=True)
class ConfigBlock:
    """The parameters of one frequency rule.

    Attributes:
        label: the layer type that it is for, or EVERY_LAYER.
        values: by canonical name.
        place: the object in the body that it is read from, or that could give it.
        is_default: whether it is the default of the class.
        is_nested: whether the config has it under its layer type.
    """

    label: str
    values: Values
    place: KeyPlace
    is_default: bool = False
    is_nested: bool = False


@dataclass(frozen=True)
class Blocks:
    """Every block of a config.

    Attributes:
        without: the layer types without a rotary embedding.
    """

    blocks: tuple[ConfigBlock, ...]
    without: frozenset[str] = frozenset()


def find_blocks(model: TextModel, report: ReadingReport) -> Blocks:
    """Return the blocks of a config, with a fault for each invalid value."""
    if "rope_parameters" in model.type.fixed:
        _warn_unread(model, report)
        return Blocks((_default(EVERY_LAYER, model.type, model.place),))
    given = _given(model.place, report)
    if given is not None and _is_nested(given, model):
        return _nested(given, model, report)
    if given is None:
        foreign = foreign_block(model, report)
        if foreign is not None:
            pointer = foreign["rope_type"].pointer
            return Blocks((ConfigBlock(EVERY_LAYER, foreign, KeyPlace({}, pointer)),))
    labels = _labels(model.type) or (EVERY_LAYER,)
    flat = None if given is None else read_values(given, RULE, {}, report)
    blocks = tuple(_of_label(label, given, flat, model) for label in labels)
    for block in blocks:
        _warn_default(block, model, report)
    return Blocks(blocks)


def _warn_unread(model: TextModel, report: ReadingReport) -> None:
    for name in ("rope_scaling", "rope_parameters"):
        found = read_object(model.place, name, report)
        if found is not None:
            detail = f"{model.type.name} does not read {found.pointer}: its frequencies are fixed"
            report.warn("key-not-read", detail, found.pointer)


def _given(place: KeyPlace, report: ReadingReport) -> KeyPlace | None:
    """Return the object with the parameters; rope_scaling replaces rope_parameters."""
    scaling = read_object(place, "rope_scaling", report)
    parameters = read_object(place, "rope_parameters", report)
    if scaling and parameters and _differ(scaling, parameters):
        report.warn(
            "rope-scaling-and-rope-parameters-both",
            "rope_scaling and rope_parameters differ; rope_scaling is used",
            parameters.pointer,
        )
    return scaling or parameters


def _differ(one: KeyPlace, other: KeyPlace) -> bool:
    try:
        return one.content != other.content
    except RecursionError:
        return True


def _labels(kind: ModelType) -> tuple[str, ...]:
    """Return the layer types that have rotary embeddings of their own in a class."""
    nested = [label for label, own in kind.rope_parameters.items() if isinstance(own, Mapping)]
    return tuple(dict.fromkeys([*nested, *kind.rope_keys]))


def _is_nested(given: KeyPlace, model: TextModel) -> bool:
    """Return whether an object has parameters by layer type.

    It has where a member with the name of a layer type is an object or, unless it has a rope_type,
    where any member is an object that is no parameter.
    """
    layer_types = model.given("layer_types")
    labels = {*_labels(model.type), *(layer_types.value if layer_types else ())}
    content = given.content
    objects = {key for key, own in content.items() if isinstance(own, dict)} - RULE_SPELLINGS.keys()
    if objects & labels:
        return True
    return not given.has("rope_type", "type") and bool(objects or labels & content.keys())


def _nested(given: KeyPlace, model: TextModel, report: ReadingReport) -> Blocks:
    blocks: list[ConfigBlock] = []
    without: set[str] = set()
    if len(given.content) > MAX_LABELS:
        report.fault(given.pointer, None, f"must be parameters of at most {MAX_LABELS} layer types")
        return Blocks(())
    known = _labels(model.type)
    for key, own in given.content.items():
        if isinstance(own, dict) and key not in RULE_SPELLINGS:
            place = KeyPlace(own, given.at(key))
            values = read_values(place, RULE, {}, report)
            blocks.append(ConfigBlock(key, values, place, is_nested=True))
        elif own is None and key not in RULE_SPELLINGS:
            without.add(key)
        else:
            detail = f"{key} beside parameters by layer type is not read"
            report.warn("unknown-rope-key", detail, given.at(key))
    missing = [label for label in known if label not in given.content]
    blocks += [_default(label, model.type, model.place) for label in missing]
    for block in blocks:
        _warn_default(block, model, report)
    return Blocks(tuple(blocks), frozenset(without))


def _of_label(
    label: str, given: KeyPlace | None, flat: Values | None, model: TextModel
) -> ConfigBlock:
    """Return the block of a layer type: the flat one of the config, or the class's own."""
    if given is None or flat is None or label in model.type.unscaled:
        return _default(label, model.type, model.place)
    return ConfigBlock(label, flat, given)


def _warn_default(block: ConfigBlock, model: TextModel, report: ReadingReport) -> None:
    rope_type = block.values.get("rope_type")
    if block.is_default and rope_type is not None and rope_type.value != "default":
        layers = "all layers" if block.label == EVERY_LAYER else block.label
        detail = f"the rule of {layers} is not in the config: {rope_type.value}"
        report.warn(
            "class-default-used", f"{detail} is the {model.type.origin}", block.place.pointer
        )


def _default(label: str, kind: ModelType, place: KeyPlace) -> ConfigBlock:
    """Return the block of the class defaults, which may be empty."""
    pointer = place.at("rope_parameters")
    own = kind.rope_parameters
    if label != EVERY_LAYER:
        own = kind.rope_parameters_of(label)
        pointer = f"{pointer}/{label}"
    values = {
        name: ResolvedValue(_plain(value), kind.origin, f"{pointer}/{name}")
        for name, value in own.items()
        if name in RULE
    }
    return ConfigBlock(label, values, KeyPlace({}, pointer), is_default=True)


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
