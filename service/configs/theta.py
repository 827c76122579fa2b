"""The base of the frequencies: where it is said, or what it is by default."""

from service.configs.blocks import EVERY_LAYER, Block
from service.configs.lookup import Found, Log
from service.configs.text import TextModel

ASSUMED = 10000.0


def rope_theta_of(model: TextModel, block: Block, log: Log) -> Found:
    """Give rope_theta: of the block, of the layer type's own key, of the top, of the class.

    At the top, rope_ratio says it as a multiple of 10000 (GLM). What the class would have is a
    warning, and so is 10000 where no class is known.
    """
    if "rope_theta" in model.type.fixed:
        return _fixed(model, log)
    inside = block.values.get("rope_theta")
    if inside is not None and not block.is_default:
        return inside
    own = model.type.rope_keys.get(block.label, {}).get("rope_theta")
    given = model.given(own) if own is not None else _at_the_top(model, block, log)
    if given is not None:
        return given
    return _class_default(model, block, log)


def _fixed(model: TextModel, log: Log) -> Found:
    """Give the base that a class has in its code."""
    theta = float(model.type.defaults["rope_theta"])
    found = Found(theta, model.type.origin, model.place.at("model_type"))
    model.caution_of_unread("rope_theta", found, log)
    return found


def _class_default(model: TextModel, block: Block, log: Log) -> Found:
    """Give the class default of a layer type, or of the model type, or 10000."""
    pointer = model.place.at(model.type.names.get("rope_theta", "rope_theta"))
    nested = model.type.rope_parameters_of(block.label)
    value = nested.get("rope_theta", model.type.rope_parameters.get("rope_theta"))
    value = model.type.defaults.get("rope_theta", value) if not nested else value
    if value is None:
        detail = f"rope_theta is not in the config, and {ASSUMED:.0f} was taken"
        log.caution("theta-assumed", detail, pointer)
        return Found(ASSUMED, "assumed", pointer)
    what = "rope_theta" if block.label == EVERY_LAYER else f"rope_theta of {block.label}"
    detail = f"{what} is not in the config: {value} is the {model.type.origin}"
    log.caution("class-default-used", detail, pointer)
    if model.type.rope_theta_4_57 is not None:
        detail = f"rope_theta is {value} by default, and {model.type.rope_theta_4_57} in 4.57.1"
        log.caution("theta-default-changed", detail, pointer)
    return Found(float(value), model.type.origin, pointer)


def _at_the_top(model: TextModel, block: Block, log: Log) -> Found | None:
    given = model.given("rope_theta")
    if given is None:
        ratio = model.given("rope_ratio")
        return ratio and ratio.computed(ASSUMED * ratio.value, f"10000 · {ratio.pointer}")
    if not block.is_default or not _differ_by_layer_type(model):
        if block.is_default:
            _caution_of_default_elsewhere(model, block, given, log)
        return given
    detail = f"rope_theta is not read by {model.type.name}, whose layer types have their own"
    log.caution("unknown-rope-key", detail, given.pointer)
    return None


def _differ_by_layer_type(model: TextModel) -> bool:
    blocks = model.type.rope_parameters.values()
    return len({own.get("rope_theta") for own in blocks if isinstance(own, dict)}) > 1


def _caution_of_default_elsewhere(model: TextModel, block: Block, given: Found, log: Log) -> None:
    kind, layers = model.type, block.label
    own: object = kind.rope_parameters_of(layers).get("rope_theta", given.value)
    if layers == EVERY_LAYER:
        own, layers = kind.rope_parameters.get("rope_theta", given.value), "all layers"
    elif layers not in kind.unscaled:
        return
    if own != given.value:
        detail = f"transformers 5.23.0 keeps {own} for {layers}, whatever {given.pointer} says"
        log.caution("theta-not-everywhere", detail, given.pointer)
