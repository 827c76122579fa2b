"""The layers that each block of parameters is for, and those without a rotary embedding."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from service.models import keys as values
from service.models.blocks import EVERY_LAYER, MAX_LABELS, ConfigBlock
from service.models.keys import Key
from service.models.lookup import ReadingReport, ResolvedValue, read_value
from service.models.model_types import SHARE_BY_LAYER, THETA_BY_LAYER, NoRope, TextModel

_LETTERS = {"L": "sliding_attention", "G": "full_attention"}
_MAX_NAMED = 8


@dataclass(frozen=True)
class Layers:
    """The layers of a model, numbered from 0.

    Attributes:
        types: the type of each, if that is known.
        count: how many there are, if that is known.
        without: those that have no rotary embedding.
        origin: where the types, or what is without, came from.
        pointer: where they are in the body, or would be given.
    """

    types: tuple[str, ...] | None
    count: int | None
    without: frozenset[int]
    origin: str
    pointer: str

    def of(self, label: str | None) -> tuple[int, ...] | None:
        """Return the layers of a type, or of every type, that have a rotary embedding.

        None where they are unknown.
        """
        if label is None:
            every = range(self.count or 0)
            return tuple(i for i in every if i not in self.without) if self.count else None
        if self.types is None or label not in self.types:
            return None
        return tuple(
            i for i, kind in enumerate(self.types) if kind == label and i not in self.without
        )


def find_layers(
    model: TextModel, without: Collection[str], report: ReadingReport, *, typed: bool
) -> Layers:
    """Return the layers of a model.

    Args:
        model: whose layers.
        without: layer types without a rotary embedding.
        report: takes faults and warnings.
        typed: whether the types of layers are needed.
    """
    rules = model.type.no_rope if isinstance(model.type.no_rope, NoRope) else None
    by_type = set(without) | set(_types_without(model, rules))
    types = _types(model, report) if typed or by_type else None
    flags = _flags(model, rules)
    count = _count(model, types, flags, report) if types or flags or rules else None
    left_out = _left_out(model, rules, flags, count, report)
    if types is not None:
        left_out |= {i for i, kind in enumerate(types.value) if kind in by_type}
    source = types or flags
    _warn_count(model, source, report)
    return Layers(
        types.value if types else None,
        count,
        frozenset(left_out),
        source.origin if source else model.type.origin,
        source.pointer if source else model.place.at("layer_types"),
    )


def _warn_count(model: TextModel, listed: ResolvedValue | None, report: ReadingReport) -> None:
    count = model.given("num_hidden_layers")
    if listed is not None and count is not None and len(listed.value) != count.value:
        detail = f"{listed.pointer} names {len(listed.value)} layers, {count.pointer} {count.value}"
        report.warn("layer-count-differs", detail, listed.pointer)


def _types_without(model: TextModel, rules: NoRope | None) -> tuple[str, ...]:
    if rules is None or (rules.if_key is not None and model.says(rules.if_key) is None):
        return ()
    return rules.layer_types


def _types(model: TextModel, report: ReadingReport) -> ResolvedValue | None:
    """Return the type of each layer: the list of the config, or by the pattern of the class."""
    given = model.given("layer_types")
    if given is not None and given.value:
        return given
    pattern = model.type.layer_types
    count = model.value("num_hidden_layers", report) if pattern else None
    if pattern is None or count is None:
        return None
    found, key = None, pattern.every_key
    if key is not None and isinstance(model.place.content.get(key), str):
        letters = read_value(model.place, key, Key(values.letters), report)
        return letters and letters.computed(
            tuple(_LETTERS[letters.value[i % len(letters.value)]] for i in range(count.value)),
            f"{letters.origin}, repeated",
        )
    if key is not None:
        found = read_value(model.place, key, Key(values.count), report)
    every = found.value if found else pattern.every
    which = "every layer" if every == 1 else f"one layer in {every}"
    formula = f"{which} is {pattern.at}, {(found or count).origin}"
    return (found or count).computed(pattern.of(count.value, every), formula)


def _flags(model: TextModel, rules: NoRope | None) -> ResolvedValue | None:
    """Return the list with 0 for each layer without a rotary embedding; None if it is empty."""
    found = model.values.get(rules.layers_key) if rules and rules.layers_key else None
    return found if found is not None and found.value else None


def _count(
    model: TextModel,
    types: ResolvedValue | None,
    flags: ResolvedValue | None,
    report: ReadingReport,
) -> int | None:
    for listed in (types, flags):
        if listed is not None:
            return len(listed.value)
    count = model.value("num_hidden_layers", report)
    return count.value if count else None


def _left_out(
    model: TextModel,
    rules: NoRope | None,
    flags: ResolvedValue | None,
    count: int | None,
    report: ReadingReport,
) -> set[int]:
    if flags is not None:
        return {i for i, has_rope in enumerate(flags.value) if not has_rope}
    if rules is None or rules.every is None or count is None:
        return set()
    key = rules.every_key
    found = read_value(model.place, key, Key(values.count), report) if key else None
    every = found.value if found else rules.every
    return {i for i in range(count) if (i + 1) % every == 0}


def which_have(layers: Collection[int]) -> str:
    """Return layers as a subject of a sentence, the first ones where they are many."""
    named = ", ".join(map(str, sorted(layers)[:_MAX_NAMED]))
    if len(layers) > _MAX_NAMED:
        named += f" … ({len(layers)} in all)"
    return f"layer {named} has" if len(layers) == 1 else f"layers {named} have"


Group = tuple[ConfigBlock, tuple[int, ...] | None]

_LISTS = {"rope_theta": THETA_BY_LAYER, "partial_rotary_factor": SHARE_BY_LAYER}


def split_by_layer(
    model: TextModel, blocks: Iterable[ConfigBlock], layers: Layers, report: ReadingReport
) -> Iterator[Group]:
    """Yield each block with its layers, split where lists of the config have several values.

    Layers are None where they are all, or not known. A class's block for a type of layers that a
    config has none of is left out.
    """
    for block in blocks:
        label = None if block.label == EVERY_LAYER else block.label
        if label is not None and not block.is_nested and _is_absent(model, label, layers):
            continue
        found = layers.of(label) if label or layers.without else None
        yield from _by_scaling(model, block, found, report)


def _is_absent(model: TextModel, label: str, layers: Layers) -> bool:
    """Return whether all layers are of types that a class knows, and none of this one."""
    pattern = model.type.layer_types
    if pattern is None or layers.types is None:
        return False
    known = {pattern.at, pattern.otherwise}
    return label in known and set(layers.types) <= known - {label}


def _by_scaling(
    model: TextModel, block: ConfigBlock, found: tuple[int, ...] | None, report: ReadingReport
) -> Iterator[Group]:
    """Split by the list of scaled layers (Molmo 2): the others have rope_type default."""
    key, count = model.type.scaling_layers_key, model.value("num_hidden_layers")
    scaled = model.values.get(key) if key is not None else None
    if scaled is None or count is None or not block.values or block.is_default:
        yield from _by_lists(model, block, found, report)
        return
    every = found if found is not None else tuple(range(count.value))
    plain = {name: block.values[name] for name in ("rope_theta",) if name in block.values}
    report.warn(
        "per-layer-rope", "the listed layers are scaled, the others are not", scaled.pointer
    )
    listed = frozenset(scaled.value)
    yield replace(block, label="scaled"), tuple(i for i in every if i in listed)
    others = tuple(i for i in every if i not in listed)
    yield replace(block, label="unscaled", values=plain, is_default=True), others


def _by_lists(
    model: TextModel, block: ConfigBlock, found: tuple[int, ...] | None, report: ReadingReport
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
            report.fault(listed.pointer, None, rule)
            return
    groups: dict[tuple[float, ...], list[int]] = {}
    for layer in every:
        groups.setdefault(tuple(listed.value[layer] for listed in lists.values()), []).append(layer)
    yield from _named(block, lists, groups, report)


def _named(
    block: ConfigBlock,
    lists: dict[str, ResolvedValue],
    groups: dict[tuple[float, ...], list[int]],
    report: ReadingReport,
) -> Iterator[Group]:
    if len(groups) > MAX_LABELS:
        rule = f"must tell apart at most {MAX_LABELS} types of layers"
        report.fault(next(iter(lists.values())).pointer, None, rule)
        return
    for numbers, within in groups.items():
        values = {
            name: ResolvedValue(number, listed.origin, listed.pointer)
            for (name, listed), number in zip(lists.items(), numbers, strict=True)
        }
        if "rope_theta" in values and not values["rope_theta"].value:
            detail = f"{which_have(within)} no rotary embedding"
            report.warn("nope-layers", detail, values["rope_theta"].pointer)
            continue
        label = block.label
        if len(groups) > 1:
            label = " ".join((label, *(f"{name}={f.value!r}" for name, f in values.items())))
        is_default = block.is_default and "rope_theta" not in values
        inner = replace(
            block, label=label, values={**block.values, **values}, is_default=is_default
        )
        yield inner, tuple(within)
