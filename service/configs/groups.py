"""Layers of one block that differ all the same: by a list of bases, or of layers scaled."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from service.configs.blocks import EVERY_LAYER, Block
from service.configs.layers import Layers
from service.configs.lookup import Found, Log
from service.configs.text import THETA_BY_LAYER, TextModel

Group = tuple[Block, tuple[int, ...] | None]


def split_by_layer(
    model: TextModel, blocks: Iterable[Block], layers: Layers, log: Log
) -> Iterator[Group]:
    """Give each block with the layers it is for, split where lists of the config tell them apart.

    Layers are None where they are all, or not known.
    """
    for block in blocks:
        label = None if block.label == EVERY_LAYER else block.label
        found = layers.of(label) if label or layers.without else None
        yield from _by_scaling(model, block, found, log)


def _by_scaling(
    model: TextModel, block: Block, found: tuple[int, ...] | None, log: Log
) -> Iterator[Group]:
    """Split by the list of scaled layers (Molmo 2): the others have rope_type default."""
    key, count = model.type.scaling_layers_key, model.value("num_hidden_layers")
    scaled = model.values.get(key) if key is not None else None
    if scaled is None or count is None or not block.values or block.is_default:
        yield from _by_theta(model, block, found)
        return
    every = found if found is not None else tuple(range(count.value))
    plain = {name: block.values[name] for name in ("rope_theta",) if name in block.values}
    log.caution("per-layer-rope", "the layers listed are scaled, the others not", scaled.pointer)
    within = tuple(i for i in every if i in scaled.value)
    others = tuple(i for i in every if i not in scaled.value)
    yield replace(block, label="scaled"), within
    yield replace(block, label="unscaled", values=plain, is_default=True), others


def _by_theta(model: TextModel, block: Block, found: tuple[int, ...] | None) -> Iterator[Group]:
    """Split by the list of bases by layer, in which 0 or null is no rotary embedding."""
    listed = model.values.get(THETA_BY_LAYER)
    if listed is None:
        yield block, found
        return
    every = found if found is not None else tuple(range(len(listed.value)))
    bases = [base for base in dict.fromkeys(listed.value) if base]
    for base in bases:
        within = tuple(i for i in every if i < len(listed.value) and listed.value[i] == base)
        theta = Found(base, listed.origin, listed.pointer)
        label = f"{block.label} rope_theta={base!r}"
        inner = replace(block, label=label, values={**block.values, "rope_theta": theta})
        if within:
            yield replace(inner, is_default=False), within
