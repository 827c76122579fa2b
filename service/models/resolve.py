"""From a model's config.json to its rotary settings: ``resolve(config)``.

The modules, in the order in which a config goes through them:

* ``text``: the config of the text model in it, and its type (``model_types``);
* ``blocks``, ``foreign``: the parameters of frequency rules, flat or by layer type;
* ``layers``, ``groups``: which layers each is for;
* ``entries``: what each comes to, by ``theta``, ``widths``, ``rules``, ``lengths``, ``sections``,
  every value with its origin (``lookup``);
* ``layout``, ``attention``: which channels turn together, what is multiplied beside the table;
* ``unread``: what sounds like a rotary setting and is none.

``spellings`` has the names of keys, ``values`` what each must be, ``warnings`` every warning.
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
        model_type: that of the whole config.
        text_model_type: that of its text model.
        layout: which channels turn together; ``none`` without a rotary embedding.
        warnings: what was assumed, and what can go wrong elsewhere.
        writes: the layout of what is turned, where that is another.
        entries: the settings by layer type.
        attention: what attention multiplies beside the table.
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
        context_length: the length that it is asked for, if any: without use, it is a warning.

    Raises:
        InvalidBody: with a pointer to each value that is not what it must be, or is missing.
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
    """Return whether models of this type, or with this config, have no rotary embedding."""
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
    """Return whether a config says that its base is null, where that means no rotary embedding."""
    if not model.type.null_theta_is_none:
        return False
    inner = (read_object(model.place, name, report) for name in ("rope_scaling", "rope_parameters"))
    block = next((place for place in inner if place is not None), model.place)
    content = block.content if "rope_theta" in block.content else model.place.content
    return "rope_theta" in content and content["rope_theta"] is None
