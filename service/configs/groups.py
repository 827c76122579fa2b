"""Layers of one block that differ all the same: by lists of values, or of layers scaled."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from service.configs.blocks import EVERY_LAYER, MAX_LABELS, Block
from service.configs.layers import Layers, which_have
from service.configs.lookup import Found, Log
from service.configs.text import SHARE_BY_LAYER, THETA_BY_LAYER, TextModel

Group = tuple[Block, tuple[int, ...] | None]

_LISTS = {"rope_theta": THETA_BY_LAYER, "partial_rotary_factor": SHARE_BY_LAYER}


def split_by_layer(
    model: TextModel, blocks: Iterable[Block], layers: Layers, log: Log
) -> Iterator[Group]:
    """Give each block with the layers it is for, split where lists of the config tell them apart.

    Layers are None where they are all, or not known. A class's block for a type of layers that a
    config has none of is left out.
    """
    for block in blocks:
        label = None if block.label == EVERY_LAYER else block.label
        if label is not None and not block.is_nested and _is_absent(model, label, layers):
            continue
        found = layers.of(label) if label or layers.without else None
        yield from _by_scaling(model, block, found, log)


def _is_absent(model: TextModel, label: str, layers: Layers) -> bool:
    """Tell whether all layers are of types that a class knows, and none of this one."""
    pattern = model.type.layer_types
    if pattern is None or layers.types is None:
        return False
    known = {pattern.at, pattern.otherwise}
    return label in known and set(layers.types) <= known - {label}


def _by_scaling(
    model: TextModel, block: Block, found: tuple[int, ...] | None, log: Log
) -> Iterator[Group]:
    """Split by the list of scaled layers (Molmo 2): the others have rope_type default."""
    key, count = model.type.scaling_layers_key, model.value("num_hidden_layers")
    scaled = model.values.get(key) if key is not None else None
    if scaled is None or count is None or not block.values or block.is_default:
        yield from _by_lists(model, block, found, log)
        return
    every = found if found is not None else tuple(range(count.value))
    plain = {name: block.values[name] for name in ("rope_theta",) if name in block.values}
    log.caution("per-layer-rope", "the layers listed are scaled, the others not", scaled.pointer)
    listed = frozenset(scaled.value)
    yield replace(block, label="scaled"), tuple(i for i in every if i in listed)
    others = tuple(i for i in every if i not in listed)
    yield replace(block, label="unscaled", values=plain, is_default=True), others


def _by_lists(
    model: TextModel, block: Block, found: tuple[int, ...] | None, log: Log
) -> Iterator[Group]:
    """Split by lists of one value per layer; a base of 0 or null is no rotary embedding."""
    lists = {name: model.values[key] for name, key in _LISTS.items() if key in model.values}
    if not lists:
        yield block, found
        return
    longest = max(len(listed.value) for listed in lists.values())
    every = found if found is not None else tuple(range(longest))
    for listed in lists.values():
        if every and every[-1] >= len(listed.value):
            rule = f"has {len(listed.value)} items, and there are layers up to {every[-1]}"
            log.fault(listed.pointer, None, rule)
            return
    groups: dict[tuple[float, ...], list[int]] = {}
    for layer in every:
        groups.setdefault(tuple(listed.value[layer] for listed in lists.values()), []).append(layer)
    yield from _named(block, lists, groups, log)


def _named(
    block: Block,
    lists: dict[str, Found],
    groups: dict[tuple[float, ...], list[int]],
    log: Log,
) -> Iterator[Group]:
    if len(groups) > MAX_LABELS:
        rule = f"must tell apart at most {MAX_LABELS} types of layers"
        log.fault(next(iter(lists.values())).pointer, None, rule)
        return
    for numbers, within in groups.items():
        values = {
            name: Found(number, listed.origin, listed.pointer)
            for (name, listed), number in zip(lists.items(), numbers, strict=True)
        }
        if "rope_theta" in values and not values["rope_theta"].value:
            detail = f"{which_have(within)} no rotary embedding"
            log.caution("nope-layers", detail, values["rope_theta"].pointer)
            continue
        label = block.label
        if len(groups) > 1:
            label = " ".join((label, *(f"{name}={f.value!r}" for name, f in values.items())))
        is_default = block.is_default and "rope_theta" not in values
        inner = replace(
            block, label=label, values={**block.values, **values}, is_default=is_default
        )
        yield inner, tuple(within)
