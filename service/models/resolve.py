"""From a model's config.json to its rotary settings: ``resolve(config)``.

The modules, in the order in which a config goes through them:

* ``model_types``: the config of the text model, its type, and the values at its top;
* ``blocks``: the parameters of frequency rules, flat or by layer type, in any spelling;
* ``layers``: the layers that each block is for;
* ``rule_entries``: the resolved settings of each block, by ``rotary_settings``, with origins;
* ``attention``: the layout of pairs, and what attention multiplies beside the table.

``keys`` has the names of keys and the readers of their values, ``lookup`` values with origins and
the report of faults and warnings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.models.attention import (
    attention_of,
    layout_of,
    warn_turning,
    warn_unread,
    written_layout_of,
)
from service.models.blocks import EVERY_LAYER, find_blocks
from service.models.layers import find_layers
from service.models.lookup import ConfigWarning, ReadingReport, read_object
from service.models.model_types import TextModel, find_text_model
from service.models.rule_entries import Entry, entries_of


@dataclass(frozen=True)
class Resolved:
    """The rotary settings of a model.

    Attributes:
        model_type: the type of the whole config.
        text_model_type: the type of its text model.
        layout: the channels that are pairs; ``none`` without a rotary embedding.
        warnings: assumptions, and values that engines read differently.
        writes: the layout of the rotated channels, where it is another.
        entries: the settings by layer type.
        attention: the factors of attention beside the table.
    """

    model_type: str | None
    text_model_type: str | None
    layout: str
    warnings: tuple[ConfigWarning, ...]
    writes: str | None = None
    entries: tuple[Entry, ...] = ()
    attention: Mapping[str, Any] = field(default_factory=dict)


def resolve(config: Mapping[str, Any], context_length: int | None = None) -> Resolved:
    """Resolve the rotary settings of a model.

    Args:
        config: its config.json, or params.json, in any spelling.
        context_length: the length that the model runs at; a warning if no rule depends on it.

    Raises:
        InvalidBody: with a pointer to each invalid or missing value.
    """
    report = ReadingReport()
    model = find_text_model(config, report)
    if _has_none(model, report):
        warn_unread(model, report, has_rope=False)
        report.check()
        return _resolved(model, "none", report)
    blocks = find_blocks(model, report)
    report.check()
    typed = any(block.label != EVERY_LAYER for block in blocks.blocks)
    layers = find_layers(model, blocks.without, report, typed=typed)
    report.check()
    rules, entries = entries_of(model, blocks, layers, report)
    report.check()
    if context_length is not None and not any(entry.lengths for entry in entries):
        detail = f"context_length={context_length} changes nothing: no rule depends on the length"
        report.warn("context-length-unused", detail, model.place.at("rope_scaling"))
    layout = layout_of(model, report)
    written = written_layout_of(model, layout, report)
    warn_turning(model, report)
    warn_unread(model, report, has_rope=True)
    attention = attention_of(model, rules, layers)
    return _resolved(model, layout, report, writes=written, entries=entries, attention=attention)


def _resolved(model: TextModel, layout: str, report: ReadingReport, **beside: Any) -> Resolved:
    name = model.type.name if model.is_known else model.model_type
    return Resolved(model.model_type, name, layout, tuple(report.warnings), **beside)


def _has_none(model: TextModel, report: ReadingReport) -> bool:
    """Return whether the model has no rotary embedding, with a warning."""
    pointer, instead = model.place.at("model_type"), model.type.instead
    for key, needed in model.type.rope_if.items():
        if model.says(key) != needed:
            pointer, instead = model.place.at(key), f"{key} other than {needed!r}"
            break
    else:
        if _has_null_theta(model, report):
            pointer, instead = model.place.at("rope_theta"), "rope_theta is null"
        elif model.type.no_rope is not True:
            return False
    detail = f"{model.type.name} has no rotary embedding"
    report.warn("no-rotary-embedding", f"{detail}: {instead}" if instead else detail, pointer)
    return True


def _has_null_theta(model: TextModel, report: ReadingReport) -> bool:
    """Return whether the base is null, where that means no rotary embedding."""
    if not model.type.null_theta_is_none:
        return False
    inner = (read_object(model.place, name, report) for name in ("rope_scaling", "rope_parameters"))
    block = next((place for place in inner if place is not None), model.place)
    content = block.content if "rope_theta" in block.content else model.place.content
    return "rope_theta" in content and content["rope_theta"] is None
