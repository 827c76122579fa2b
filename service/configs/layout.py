"""Which channels turn together, which way, and where they are put."""

from service.configs.lookup import Log
from service.configs.text import TextModel

_OF_PARAMS_JSON = ("dim", "n_heads", "n_layers")


def layout_of(model: TextModel, log: Log) -> str:
    """Give the layout; where nothing is known of the model type it is an assumption."""
    key = model.type.layout_key
    found = model.values.get(key) if key is not None else None
    if found is not None:
        return "interleaved" if found.value else "half"
    if model.is_known:
        return model.type.layout
    layout, reason = "half", "most models in the layout of transformers"
    if all(model.place.has(name) for name in _OF_PARAMS_JSON):
        layout, reason = "interleaved", "weights beside a params.json of Meta or Mistral"
    detail = f"layout {layout} was assumed, that of {reason}"
    log.caution("layout-assumed", detail, model.place.at("model_type"))
    return layout


def written_layout_of(model: TextModel, layout: str, log: Log) -> str | None:
    """Give the layout of what is turned, if it is not the one that is read."""
    writes = model.type.writes
    if writes is None or writes == layout:
        return None
    detail = f"{model.type.name} reads {layout} pairs and writes them {writes}: {model.type.source}"
    log.caution("mixed-layout", detail, model.place.at("model_type"))
    return writes


def caution_of_turning(model: TextModel, log: Log) -> None:
    """Warn of classes that turn the other way, other channels, or by more than the table says."""
    pointer = model.place.at("model_type")
    if model.type.inverse:
        detail = f"{model.type.name} turns by the negative angle: ask with inverse=true"
        log.caution("turns-inversely", detail, pointer)
    if model.type.axes > 1:
        detail = f"{model.type.name} has these frequencies for each of {model.type.axes} axes"
        log.caution("frequencies-per-axis", detail, pointer)
    if model.type.last_channels:
        detail = f"{model.type.name} turns the last channels of a head: ask with rotary_offset"
        log.caution("last-channels-turn", detail, pointer)
    if model.type.not_in_config is not None:
        detail = f"{model.type.name}: {model.type.not_in_config}"
        log.caution("table-incomplete", detail, pointer)
    for key, meaning in model.type.not_read.items():
        if model.place.content.get(key):
            log.caution("key-not-read", f"{key} is not resolved: {meaning}", model.place.at(key))
