"""Which layers an entry is for, and which have no rotary embedding."""

from collections.abc import Collection
from dataclasses import dataclass

from service.configs import values
from service.configs.lookup import Found, Log, read_value
from service.configs.model_types import NoRope
from service.configs.spellings import Key
from service.configs.text import TextModel

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
        """Give the layers of a type, or of every type, that have a rotary embedding.

        None where that cannot be told.
        """
        if label is None:
            every = range(self.count or 0)
            return tuple(i for i in every if i not in self.without) if self.count else None
        if self.types is None or label not in self.types:
            return None
        return tuple(
            i for i, kind in enumerate(self.types) if kind == label and i not in self.without
        )


def find_layers(model: TextModel, without: Collection[str], log: Log, *, typed: bool) -> Layers:
    """Find the layers of a model.

    Args:
        model: whose layers.
        without: layer types that the config says to have no rotary embedding.
        log: takes faults and warnings.
        typed: whether their types matter.
    """
    rules = model.type.no_rope if isinstance(model.type.no_rope, NoRope) else None
    by_type = set(without) | set(_types_without(model, rules))
    types = _types(model, log) if typed or by_type else None
    flags = _flags(model, rules)
    count = _count(model, types, flags, log) if types or flags or rules else None
    left_out = _left_out(model, rules, flags, count, log)
    if types is not None:
        left_out |= {i for i, kind in enumerate(types.value) if kind in by_type}
    source = types or flags
    _caution_of_count(model, source, log)
    return Layers(
        types.value if types else None,
        count,
        frozenset(left_out),
        source.origin if source else model.type.origin,
        source.pointer if source else model.place.at("layer_types"),
    )


def _caution_of_count(model: TextModel, listed: Found | None, log: Log) -> None:
    count = model.given("num_hidden_layers")
    if listed is not None and count is not None and len(listed.value) != count.value:
        detail = f"{listed.pointer} names {len(listed.value)} layers, {count.pointer} {count.value}"
        log.caution("layer-count-differs", detail, listed.pointer)


def _types_without(model: TextModel, rules: NoRope | None) -> tuple[str, ...]:
    if rules is None or (rules.if_key is not None and model.says(rules.if_key) is None):
        return ()
    return rules.layer_types


def _types(model: TextModel, log: Log) -> Found | None:
    """Give the type of each layer: as the config lists them, or by the pattern of the class."""
    given = model.given("layer_types")
    if given is not None and given.value:
        return given
    pattern = model.type.layer_types
    count = model.value("num_hidden_layers", log) if pattern else None
    if pattern is None or count is None:
        return None
    found, key = None, pattern.every_key
    if key is not None and isinstance(model.place.content.get(key), str):
        letters = read_value(model.place, key, Key(values.letters), log)
        return letters and letters.computed(
            tuple(_LETTERS[letters.value[i % len(letters.value)]] for i in range(count.value)),
            f"{letters.origin}, repeated",
        )
    if key is not None:
        found = read_value(model.place, key, Key(values.count), log)
    every = found.value if found else pattern.every
    which = "every layer" if every == 1 else f"one layer in {every}"
    formula = f"{which} is {pattern.at}, {(found or count).origin}"
    return (found or count).computed(pattern.of(count.value, every), formula)


def _flags(model: TextModel, rules: NoRope | None) -> Found | None:
    """Give the list of a config that holds 0 for each layer without; an empty one says nothing."""
    found = model.values.get(rules.layers_key) if rules and rules.layers_key else None
    return found if found is not None and found.value else None


def _count(model: TextModel, types: Found | None, flags: Found | None, log: Log) -> int | None:
    for listed in (types, flags):
        if listed is not None:
            return len(listed.value)
    count = model.value("num_hidden_layers", log)
    return count.value if count else None


def _left_out(
    model: TextModel, rules: NoRope | None, flags: Found | None, count: int | None, log: Log
) -> set[int]:
    if flags is not None:
        return {i for i, has_rope in enumerate(flags.value) if not has_rope}
    if rules is None or rules.every is None or count is None:
        return set()
    key = rules.every_key
    found = read_value(model.place, key, Key(values.count), log) if key else None
    every = found.value if found else rules.every
    return {i for i in range(count) if (i + 1) % every == 0}


def which_have(layers: Collection[int]) -> str:
    """Name layers as a subject of a sentence, the first ones where they are many."""
    named = ", ".join(map(str, sorted(layers)[:_MAX_NAMED]))
    if len(layers) > _MAX_NAMED:
        named += f" … ({len(layers)} in all)"
    return f"layer {named} has" if len(layers) == 1 else f"layers {named} have"
