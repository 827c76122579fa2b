"""The parameters of frequency rules in a config, and the layers that they apply to.

A config has one block of parameters, or one for each layer type. Configs of other programs
(Mistral's params.json, OpenAI's gpt-oss, litgpt, Meta's params.json) have them as keys at the top.
Layers are numbered from 0; some may have no rotary embedding.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from service.models import config_values as readers
from service.models.config_values import (
    LLAMA4_OF_MISTRAL,
    RULE,
    RULE_SPELLINGS,
    YARN_OF_MISTRAL,
    Key,
    KeyPlace,
    ResolvedValue,
    Values,
    computed,
    differ,
)
from service.models.model_types import (
    SHARE_BY_LAYER,
    THETA_BY_LAYER,
    ModelType,
    NoRope,
    TextModel,
)
from service.models.positional_keys import check_rule

EVERY_LAYER = "default"
MAX_LABELS = 64
_MAX_NAMED = 8


@dataclass(frozen=True)
class ConfigBlock:
    """The parameters of one frequency rule.

    Attributes:
        label: the layer type that has it, or EVERY_LAYER.
        values: by canonical name.
        place: the object in the body that holds it, empty for a default.
        is_default: whether it is the default of the class.
        is_nested: whether the config has it under its layer type.
        split_of: the label before lists of one value per layer split it.
    """

    label: str
    values: Values
    place: KeyPlace
    is_default: bool = False
    is_nested: bool = False
    split_of: str | None = None

    @property
    def layer_type(self) -> str:
        return self.split_of or self.label


@dataclass(frozen=True)
class Blocks:
    """Every block of a config.

    Attributes:
        without: the layer types without a rotary embedding.
    """

    blocks: tuple[ConfigBlock, ...]
    without: frozenset[str] = frozenset()


def find_blocks(model: TextModel) -> Blocks:
    """Return the blocks of a config, with a fault for each invalid value."""
    if "rope_parameters" in model.type.fixed:
        _warn_fixed(model)
        return Blocks((_default_block(EVERY_LAYER, model),))
    given, has_type = _given(model), True
    if given is not None and _is_nested(given, model):
        return _nested_blocks(given, model)
    if given is not None:
        given, has_type = _flat(given, model)
    if given is None:
        foreign = _foreign_values(model)
        if foreign is not None:
            place = model.place.absent(foreign["rope_type"].pointer)
            return Blocks((ConfigBlock(EVERY_LAYER, foreign, place),))
    else:
        check_rule(model, given)
    labels = _labels(model.type) or (EVERY_LAYER,)
    values = given.read_all(RULE) if given else {}
    if not has_type:
        del values["rope_type"]
    for name in values.keys() & model.type.not_of_rule:
        pointer = values.pop(name).pointer
        model.report.warn("key-not-read", f"{model.type.name} does not read {pointer}", pointer)
    flat = None if given is None else ConfigBlock(EVERY_LAYER, values, given)
    blocks = tuple(
        _default_block(label, model)
        if flat is None or label in model.type.unscaled
        else replace(flat, label=label)
        for label in labels
    )
    _warn_defaults(blocks, model)
    return Blocks(blocks)


def _warn_fixed(model: TextModel) -> None:
    for place in map(model.place.inner, ("rope_scaling", "rope_parameters")):
        if place is not None:
            detail = f"{model.type.name} does not read {place.pointer}: its frequencies are fixed"
            model.report.warn("key-not-read", detail, place.pointer)


def _flat(given: KeyPlace, model: TextModel) -> tuple[KeyPlace | None, bool]:
    """Return the flat parameters that a class reads in one key alone, and whether it reads type."""
    read = model.type.reads
    for name in ("rope_scaling", "rope_parameters"):
        if read not in (name, None) and model.place.has(name):
            detail = f"{model.type.name} does not read {model.place.at(name)}, which is flat"
            model.place.warn("key-not-read", detail, name)
    found = given if read is None else model.place.inner(read)
    if read != "rope_scaling" or found is None or found.has("rope_type") or not found.has("type"):
        return found, True
    found.warn("key-not-read", f"{model.type.name} reads rope_type, not type", "type")
    return found, False


def _given(model: TextModel) -> KeyPlace | None:
    """Return the object with the parameters; rope_scaling replaces rope_parameters.

    It is a fault if the class does not read parameters by layer type, or if it would merge both.
    """
    place, kind = model.place, model.type
    scaling, parameters = place.inner("rope_scaling"), place.inner("rope_parameters")
    given = scaling or parameters
    if given is not None and _is_nested(given, model):
        if not (kind.has_aliases or kind.by_layer_type or _labels(kind)):
            rule = f"is by layer type, and the class of {kind.name} has one rule for all layers"
            model.report.fault(given.pointer, None, rule)
    elif scaling and parameters and _labels(kind) and _is_nested(parameters, model):
        rule = f"has one rule for all layers, and {parameters.pointer} has them by layer type"
        model.report.fault(scaling.pointer, None, rule)
    elif scaling and parameters and differ(scaling.content, parameters.content):
        detail = "rope_scaling and rope_parameters differ; rope_scaling is used"
        place.warn("rope-scaling-and-rope-parameters-both", detail, "rope_parameters")
    return given


def _labels(kind: ModelType) -> tuple[str, ...]:
    """Return the layer types for which a class has parameters or keys of their own."""
    nested = [label for label, own in kind.rope_parameters.items() if isinstance(own, Mapping)]
    return tuple(dict.fromkeys([*nested, *kind.rope_keys]))


def _is_nested(given: KeyPlace, model: TextModel) -> bool:
    """Return whether an object has parameters by layer type.

    That is so if the member of a known layer type is an object. Without a rope_type, any object
    that is no parameter suffices.
    """
    layer_types = model.given("layer_types")
    labels = {*_labels(model.type), *(layer_types.value if layer_types else ())}
    content = given.content
    objects = {key for key, own in content.items() if isinstance(own, dict)} - RULE_SPELLINGS.keys()
    if objects & labels:
        return True
    return not given.has("rope_type", "type") and bool(objects or labels & content.keys())


def _nested_blocks(given: KeyPlace, model: TextModel) -> Blocks:
    blocks: list[ConfigBlock] = []
    without: set[str] = set()
    if len(given.content) > MAX_LABELS:
        rule = f"must be parameters of at most {MAX_LABELS} layer types"
        model.report.fault(given.pointer, None, rule)
        return Blocks(())
    for key, own in given.content.items():
        if key not in RULE_SPELLINGS and isinstance(own, list):
            given.report.fault(given.at(key), own, "must be the parameters of a frequency rule")
        elif key in RULE_SPELLINGS or not isinstance(own, dict | None):
            detail = f"{key} beside parameters by layer type is not read"
            given.warn("unknown-rope-key", detail, key)
        elif own is None:
            without.add(key)
        else:
            place = KeyPlace(own, given.at(key), model.report)
            check_rule(model, place)
            blocks.append(ConfigBlock(key, place.read_all(RULE), place, is_nested=True))
    missing = [label for label in _labels(model.type) if label not in given.content]
    blocks += [_default_block(label, model) for label in missing]
    _warn_defaults(blocks, model)
    return Blocks(tuple(blocks), frozenset(without))


def _default_block(label: str, model: TextModel) -> ConfigBlock:
    """Return the block of the class defaults, which may be empty."""
    pointer, defaults = model.place.at("rope_parameters"), model.type.rope_parameters
    if label != EVERY_LAYER:
        pointer, defaults = f"{pointer}/{label}", model.type.rope_parameters_of(label)
    values = {
        name: model.type.default(
            tuple(value) if isinstance(value, list) else value, f"{pointer}/{name}"
        )
        for name, value in defaults.items()
        if name in RULE
    }
    return ConfigBlock(label, values, model.place.absent(pointer), is_default=True)


def _warn_defaults(blocks: Collection[ConfigBlock], model: TextModel) -> None:
    for block in blocks:
        rope_type = block.values.get("rope_type")
        if block.is_default and rope_type is not None and rope_type.value != "default":
            layers = "all layers" if block.label == EVERY_LAYER else block.label
            rule = f"{rope_type.value} is the {model.type.origin}"
            detail = f"the rule of {layers} is not in the config: {rule}"
            model.report.warn("class-default-used", detail, block.place.pointer)


def _foreign_values(model: TextModel) -> Values | None:
    """Return the parameters of a rule as another program writes them, None if there are none."""
    readers = (_mistral, _litgpt_llama3, _litgpt_linear, _gpt_oss, _meta)
    return next((values for read in readers if (values := read(model)) is not None), None)


def _mistral(model: TextModel) -> Values | None:
    """Read ``yarn``: beta is β_fast, alpha β_slow; without apply_scale the factor is 1."""
    place = model.place.inner("yarn")
    if place is None:
        return None
    tuned = model.place.inner("llama_4_scaling")
    _refuse_others(place, YARN_OF_MISTRAL)
    if tuned is not None:
        _refuse_others(tuned, LLAMA4_OF_MISTRAL)
    values = tuned.read_all(LLAMA4_OF_MISTRAL) if tuned else {}
    values |= place.read_all(YARN_OF_MISTRAL)
    scale = values.pop("apply_scale", None)
    if scale is not None and not scale.value:
        values["attention_factor"] = computed(1.0, "{} is false", scale)
    return {"rope_type": _implied("yarn", place.pointer), **values}


def _refuse_others(place: KeyPlace, keys: Mapping[str, Key]) -> None:
    known = {*keys, *(alias for key in keys.values() for alias in key.aliases)}
    for name in place.content.keys() - known:
        place.report.fault(place.at(name), place.content[name], "is not known here")


def _litgpt_llama3(model: TextModel) -> Values | None:
    place = model.place.inner("rope_adjustments")
    if place is None:
        return None
    return {"rope_type": _implied("llama3", place.pointer), **place.read_all(RULE)}


def _litgpt_linear(model: TextModel) -> Values | None:
    ratio = model.given("rope_condense_ratio")
    if ratio is None or ratio.value == 1:
        return None
    return {"rope_type": _implied("linear", ratio.pointer), "factor": ratio.alias()}


def _gpt_oss(model: TextModel) -> Values | None:
    """Read gpt-oss's own keys for YaRN, whose range it does not round."""
    length, factor = model.given("initial_context_length"), model.given("rope_scaling_factor")
    fast, slow = model.given("rope_ntk_beta"), model.given("rope_ntk_alpha")
    if length is None or factor is None or fast is None or slow is None or factor.value <= 1:
        return None
    return {
        "rope_type": _implied("yarn", factor.pointer),
        "factor": factor.alias(),
        "original_max_position_embeddings": length.alias(),
        "beta_fast": fast.alias(),
        "beta_slow": slow.alias(),
        "truncate": computed(False, "gpt-oss does not round the range", factor),
    }


def _meta(model: TextModel) -> Values | None:
    """Read ``use_scaled_rope``: two numbers may be in the config, the others are in Meta's code."""
    scaled = model.given("use_scaled_rope")
    if scaled is None or not scaled.value:
        return None
    detail = "use_scaled_rope: low_freq_factor 1, an original length of 8192"
    assumed = {"low_freq_factor": 1.0, "original_max_position_embeddings": 8192}
    values = {"rope_type": _implied("llama3", scaled.pointer)}
    for name, key, number in (
        ("factor", "rope_scaling_factor", 8.0),
        ("high_freq_factor", "rope_high_freq_factor", 4.0),
    ):
        given = model.given(key)
        if given is None:
            assumed[name] = number
            detail += f", {name} {number:g}"
        else:
            values[name] = given.alias()
    detail += " are used, those of Llama 3.1"
    model.report.warn("scaled-rope-assumed", detail, scaled.pointer)
    for name, number in assumed.items():
        values[name] = ResolvedValue(number, "assumed", pointer=scaled.pointer)
    return values


def _implied(rope_type: str, pointer: str) -> ResolvedValue:
    return ResolvedValue(rope_type, "computed", (pointer,), pointer, f"implied by {pointer}")


@dataclass(frozen=True)
class Layers:
    """The layers of a model.

    Attributes:
        types: the type of each layer, if known.
        count: the number of layers, if known.
        without: the layers without a rotary embedding.
        origin: of the types, or of the list of layers without.
        pointer: the JSON pointer of either, even if it is missing.
    """

    types: tuple[str, ...] | None
    count: int | None
    without: frozenset[int]
    origin: str
    pointer: str

    def of(self, label: str | None) -> tuple[int, ...] | None:
        """Return the layers of a type, or all, with a rotary embedding; None if unknown."""
        if label is None:
            return self._with_rope(range(self.count)) if self.count else None
        if self.types is None or label not in self.types:
            return None
        return self._with_rope(i for i, kind in enumerate(self.types) if kind == label)

    def _with_rope(self, layers: Iterable[int]) -> tuple[int, ...]:
        return tuple(i for i in layers if i not in self.without)


def find_layers(model: TextModel, blocks: Blocks) -> Layers:
    """Return the layers of a model, with their types where blocks need them."""
    no_rope = model.type.no_rope if isinstance(model.type.no_rope, NoRope) else None
    types_without = blocks.without.union(_types_without(model, no_rope))
    is_typed = any(block.label != EVERY_LAYER for block in blocks.blocks)
    only = model.place.read(no_rope.only_key, Key(readers.indices)) if no_rope else None
    is_typed = (is_typed or bool(types_without)) and (only is None or "layer_types" in model.values)
    types = layer_types_of(model) if is_typed else None
    if types is None and no_rope is not None and no_rope.listed:
        key = model.type.names.get("layer_types", "layer_types")
        model.report.fault(model.place.at(key), None, "is required: not all layers rotate")
    flags = model.given(no_rope.layers_key) if no_rope else None
    listed = types or (flags if flags and flags.value else None)
    count = len(listed.value) if listed else None
    if count is None and no_rope is not None:
        layers = model.value("num_hidden_layers")
        count = layers.value if layers else None
    without = _without_by_position(model, no_rope, flags, count)
    if only is not None and types is None:
        without = set(range(count or 0)) - set(only.value)
    if types is not None:
        without |= {i for i, kind in enumerate(types.value) if kind in types_without}
    if listed is not None:
        _warn_count(model, listed)
    source = listed or only
    return Layers(
        types.value if types else None,
        count,
        frozenset(without),
        str(source) if source else model.type.origin,
        source.pointer if source else model.place.at("layer_types"),
    )


def origin_of_layers(model: TextModel) -> dict[str, str]:
    """Return the origin of the number of layers, if it is a default; {} for another one."""
    no_rope = model.type.no_rope
    # A config that lists layers says how many there are.
    lists = {"layer_types", no_rope.layers_key if isinstance(no_rope, NoRope) else None}
    count = model.value("num_hidden_layers", warns=False)
    is_listed = not lists.isdisjoint(model.values)
    is_default = count is not None and count.origin == "class default" and not is_listed
    return {"origin": "class default"} if is_default else {}


def _warn_count(model: TextModel, listed: ResolvedValue) -> None:
    count = model.given("num_hidden_layers")
    if count is not None and len(listed.value) != count.value:
        detail = f"{listed.pointer} names {len(listed.value)} layers, {count.pointer} {count.value}"
        model.report.warn("layer-count-differs", detail, listed.pointer)


def _types_without(model: TextModel, no_rope: NoRope | None) -> tuple[str, ...]:
    if no_rope is None:
        return ()
    key, content = no_rope.if_key, model.place.content
    is_off = key is not None and content.get(key, model.type.defaults.get(key)) is None
    return () if is_off else no_rope.layer_types


def layer_types_of(model: TextModel) -> ResolvedValue | None:
    """Return the type of each layer, from the list of the config or the pattern of the class."""
    given, pattern = model.given("layer_types"), model.type.layer_types
    if given is not None and given.value:
        if pattern is None or not pattern.ends or given.value[-1] == pattern.at:
            return given
        return computed((*given.value[:-1], pattern.at), f"{{}}, but {pattern.at} at last", given)
    own = model.type.defaults.get("layer_types")
    count = model.value("num_hidden_layers") if pattern or own else None
    if own is not None and count is not None and len(own) == count.value:
        name = model.type.names.get("layer_types", "layer_types")
        detail = f"{name} is not in the config: the list of {len(own)} layers is the "
        model.place.warn("class-default-used", f"{detail}{model.type.origin}", name)
        return model.type.default(tuple(own), model.place.at(name))
    if pattern is None or count is None:
        return None
    key = pattern.every_key
    if key is not None and isinstance(model.place.content.get(key), str | list):
        period = model.place.read(key, Key(readers.period))
        return period and computed(
            tuple(period.value[i % len(period.value)] for i in range(count.value)),
            "{}, repeated",
            period,
        )
    given = model.place.read(key, Key(readers.count))
    every = given.value if given else pattern.every
    which = "every layer" if every == 1 else f"one layer in {every}"
    which += f" (and {', '.join(map(str, pattern.also))})" if pattern.also else ""
    types = pattern.of(count.value, every)
    return computed(types, f"{which} is {pattern.at}, {{}}", given or count)


def _without_by_position(
    model: TextModel, no_rope: NoRope | None, flags: ResolvedValue | None, count: int | None
) -> set[int]:
    """Return the layers that a list of flags, or an interval, excludes from rotation."""
    if flags is not None and flags.value:
        return {i for i, has_rope in enumerate(flags.value) if not has_rope}
    if no_rope is None or no_rope.every is None or count is None:
        return set()
    given = model.place.read(no_rope.every_key, Key(readers.count))
    every = given.value if given else no_rope.every
    return set(range(every - 1, count, every))


def which_have(layers: Collection[int]) -> str:
    """Return the subject and verb of a sentence about layers, at most the first eight."""
    named = ", ".join(map(str, sorted(layers)[:_MAX_NAMED]))
    if len(layers) > _MAX_NAMED:
        named += f" … ({len(layers)} in all)"
    return f"layer {named} has" if len(layers) == 1 else f"layers {named} have"


Group = tuple[ConfigBlock, tuple[int, ...] | None]

_LISTS = {"rope_theta": THETA_BY_LAYER, "partial_rotary_factor": SHARE_BY_LAYER}


def split_by_layer(model: TextModel, blocks: Blocks, layers: Layers) -> Iterator[Group]:
    """Yield each block with its layers, split where lists of the config have several values.

    Layers are None for all layers, and for unknown ones. The default block of a layer type without
    layers is left out.
    """
    for block in blocks.blocks:
        label = None if block.label == EVERY_LAYER else block.label
        if label is not None and not block.is_nested and _is_absent(model, label, layers):
            continue
        own = layers.of(label) if label or layers.without else None
        yield from _split_by_scaling(model, block, own)


def _is_absent(model: TextModel, label: str, layers: Layers) -> bool:
    """Return whether all layers are of other types that the class has."""
    known = set(model.type.known_layer_types)
    return layers.types is not None and label in known and set(layers.types) <= known - {label}


def _split_by_scaling(
    model: TextModel, block: ConfigBlock, layers: tuple[int, ...] | None
) -> Iterator[Group]:
    """Split by the list of scaled layers (Molmo 2): the others have rope_type default."""
    scaled = model.given(model.type.scaling_layers_key)
    count = model.value("num_hidden_layers", warns=False)
    if scaled is None or count is None or not block.values or block.is_default:
        yield from _split_by_lists(model, block, layers)
        return
    every = range(count.value) if layers is None else layers
    plain = {name: block.values[name] for name in ("rope_theta",) if name in block.values}
    detail = "the listed layers are scaled, the others are not"
    model.report.warn("per-layer-rope", detail, scaled.pointer)
    listed = frozenset(scaled.value)
    yield replace(block, label="scaled"), tuple(i for i in every if i in listed)
    others = tuple(i for i in every if i not in listed)
    yield replace(block, label="unscaled", values=plain, is_default=True), others


def _split_by_lists(
    model: TextModel, block: ConfigBlock, layers: tuple[int, ...] | None
) -> Iterator[Group]:
    """Split by lists of one value per layer; a base of 0 or null disables the embedding."""
    lists = {name: model.values[key] for name, key in _LISTS.items() if key in model.values}
    if not lists:
        yield block, layers
        return
    if layers is None:
        layers = tuple(range(max(len(listed.value) for listed in lists.values())))
    for listed in lists.values():
        if layers and layers[-1] >= len(listed.value):
            rule = f"has {len(listed.value)} items, and there are layers up to {layers[-1]}"
            model.report.fault(listed.pointer, None, rule)
            return
    groups: dict[tuple[float, ...], list[int]] = {}
    for layer in layers:
        numbers = tuple(listed.value[layer] for listed in lists.values())
        groups.setdefault(numbers, []).append(layer)
    if len(groups) > MAX_LABELS:
        rule = f"must tell apart at most {MAX_LABELS} types of layers"
        model.report.fault(next(iter(lists.values())).pointer, None, rule)
        return
    for numbers, group in groups.items():
        values = {
            name: replace(listed, value=number)
            for (name, listed), number in zip(lists.items(), numbers, strict=True)
        }
        theta = values.get("rope_theta")
        if theta is not None and not theta.value:
            detail = f"{which_have(group)} no rotary embedding"
            model.report.warn("nope-layers", detail, theta.pointer)
            continue
        label = block.label
        if len(groups) > 1:
            label = " ".join((label, *(f"{name}={own.value!r}" for name, own in values.items())))
        split = replace(
            block,
            label=label,
            split_of=block.label,
            values={**block.values, **values},
            is_default=block.is_default and theta is None,
        )
        yield split, tuple(group)
