"""Model types, from model_types.toml, and the text model of a config."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

import orjson
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as validated_dataclass

from service.errors import ModelNotKnown, shortened
from service.models import config_values as values
from service.models.config_values import (
    TEXT_CONFIGS,
    TOP,
    Key,
    KeyPlace,
    ReadingReport,
    ResolvedValue,
    Values,
    computed,
    did_you_mean,
)
from service.numerics.limits import MAX_CHANNELS

Members = Mapping[str, Any]
_FACTS = ConfigDict(extra="forbid")


@validated_dataclass(frozen=True, config=_FACTS)
class LayerPattern:
    """Layer i, counted from 0, is of type ``at`` if (i + offset) % every == 0, else ``otherwise``.

    Attributes:
        every_key: the key of a config that overrides ``every``.
        also: further layers of type ``at``; negative ones count from the end.
        ends: whether the last layer is one even in a list of a config.
    """

    every: int
    at: str
    otherwise: str
    every_key: str | None = None
    offset: int = 1
    also: tuple[int, ...] = ()
    ends: bool = False

    def of(self, layers: int, every: int) -> tuple[str, ...]:
        """Return the type of each of a number of layers."""
        also = {index % layers for index in self.also}
        return tuple(
            self.at if (i + self.offset) % every == 0 or i in also else self.otherwise
            for i in range(layers)
        )


@validated_dataclass(frozen=True, config=_FACTS)
class NoRope:
    """The rule that selects the layers without a rotary embedding.

    Attributes:
        layers_key: the key of a list that holds 1 for each layer with rotary embedding, else 0.
        only_key: the key of a list of the layers that have one, unless there are layer types.
        every: layers with (i + 1) % every == 0 have none.
        every_key: the key of a config that overrides ``every``.
        layer_types: the layers of these types have none.
        if_key: ``layer_types`` apply only if this key of a config is not null.
        listed: whether a config must list the types of its layers.
    """

    layers_key: str | None = None
    only_key: str | None = None
    every: int | None = None
    every_key: str | None = None
    layer_types: tuple[str, ...] = ()
    if_key: str | None = None
    listed: bool = False


@validated_dataclass(frozen=True, config=_FACTS)
class Attention:
    """The factors that attention applies beside the table.

    Attributes:
        softmax_mscale: whether (0.1·mscale_all_dim·ln factor + 1)² multiplies the softmax scale.
        query_temperature: the formula that scales queries by position, ``llama4`` or
            ``ministral3``.
    """

    softmax_mscale: bool = False
    query_temperature: str | None = None


@validated_dataclass(frozen=True, config=_FACTS)
class Sections:
    """The distribution of the frequencies of a class over several position axes.

    Attributes:
        arrangement: the order, by its name as mrope_layout, if other than chunked and interleaved.
    """

    section: tuple[int, ...] | None = None
    interleaved: bool = False
    arrangement: str | None = None


@validated_dataclass(frozen=True, config=_FACTS)
class ModelType:
    """The facts of a model type, as the head of model_types.toml explains them."""

    name: str
    source: str
    layout: str = "none"
    partial: str = "used"
    writes: str | None = None
    layout_key: str | None = None
    text: str | None = None
    text_model_type: str | None = None
    head_dim: str | None = None
    rotary_dim: str | None = None
    rope_if: Members = field(default_factory=dict)
    rope_theta_4_57: float | None = None
    theta_by_layer_key: str | None = None
    partial_by_layer_key: str | None = None
    scaling_layers_key: str | None = None
    mscale_keys: tuple[str, ...] = ()
    inverse: bool = False
    last_channels: bool = False
    fixed: tuple[str, ...] = ()
    hidden_times: int = 1
    not_read: Mapping[str, str] = field(default_factory=dict)
    not_in_config: str | None = None
    null_theta_is_none: bool = False
    needs: str | None = None
    refused: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    inside: str | None = None
    instead: str | None = None
    unscaled: tuple[str, ...] = ()
    reads: str | None = None
    rope_keys_of_defaults: bool = False
    has_aliases: bool = True
    by_layer_type: bool = False
    alpha: bool = False
    reads_rotary_dim: bool = False
    not_in_flat: tuple[str, ...] = ()
    keeps_share: tuple[str, ...] = ()
    own_names: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    defaults: Members = field(default_factory=dict)
    absent_text: Members = field(default_factory=dict)
    given_text: Members = field(default_factory=dict)
    has_fixed_text: bool = False
    has_flat_text: bool = True
    keeps_text_theta: bool = False
    around: str | None = None
    layer_types: LayerPattern | None = None
    rope_keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    head_dim_by_layer_type: Mapping[str, str] = field(default_factory=dict)
    no_rope: NoRope | bool = False
    attention: Attention = field(default_factory=Attention)
    mrope: Sections | None = None

    @property
    def origin(self) -> str:
        """The origin of class defaults."""
        return f"class default of {self.around or self.name} ({self.source.partition(':')[0]})"

    def default(self, value: Any, pointer: str) -> ResolvedValue:
        """Return a class default, for a place in a config."""
        return ResolvedValue(value, "class default", (self.origin,), pointer)

    def within(self, given: Members, name: str = "the model around it") -> "ModelType":
        """Return the type as a part of a model that gives it other defaults."""
        own = _defaults(given, self.names) | {k: given[k] for k in {"head_dim"} & given.keys()}
        if not own:
            return self
        kept = {k: v for k, v in self.defaults.items() if k not in given or k in own}
        return replace(self, defaults={**kept, **own}, around=name)

    @property
    def has_rotary_dim(self) -> bool:
        """True for classes that read rotary_dim: those of remote code, and few of transformers."""
        return self.has_aliases or self.reads_rotary_dim or self.rotary_dim == "rotary_dim"

    @property
    def not_of_rule(self) -> set[str]:
        """The parameters of flat frequency rules that are not read."""
        return {*self.not_in_flat, *(() if self.has_aliases or self.alpha else ("alpha",))}

    @property
    def known_layer_types(self) -> tuple[str, ...]:
        """The layer types of the pattern of layers; none without a pattern."""
        pattern = self.layer_types
        return (pattern.at, pattern.otherwise) if pattern else ()

    @property
    def rope_parameters(self) -> Members:
        """The default parameters of the frequency rule, or those by layer type."""
        parameters: Members = self.defaults.get("rope_parameters", {})
        return parameters

    def rope_parameters_of(self, label: str) -> Members:
        """Return the default parameters of one layer type; empty if all layers share them."""
        parameters = self.rope_parameters.get(label)
        return parameters if isinstance(parameters, Mapping) else {}


@cache
def library_facts() -> tuple[Mapping[str, Any], ...]:
    """Return the generated facts of each library."""
    folder = files("service.models") / "facts"
    listed = sorted(folder.iterdir(), key=lambda each: each.name, reverse=True)
    return tuple(orjson.loads(each.read_bytes()) for each in listed if each.name.endswith("json"))


@cache
def model_types() -> Mapping[str, ModelType]:
    """Return all model types, by name."""
    tables = tomllib.loads(files("service.models").joinpath("model_types.toml").read_text("utf-8"))
    read = TypeAdapter(ModelType).validate_python
    types: dict[str, ModelType] = {}
    for name, table in tables.items():
        own = table.get("same_as", name)
        is_class = any(own == name and own in facts["types"] for facts in library_facts())
        types[name] = read({"name": name, "has_aliases": not is_class, **_entry(own, tables)})
    return types


_OF_CLASSES = (
    "hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings",
    "original_max_position_embeddings", "qk_rope_head_dim",
)  # fmt: skip
_OF_RULES = ("rope_theta", "partial_rotary_factor")


def _entry(name: str, tables: Mapping[str, Members]) -> Members:
    """Return the table of a type, with what the facts of its class say."""
    own = {"partial": "ignored", **tables[name]}
    facts = next((each for each in library_facts() if name in each["types"]), None)
    if facts is None:
        return own
    known = facts["types"][name]
    own = {"source": f"{facts['library']}: {known['config']}, {known['model']}", **own}
    if own.get("no_rope") is True:
        return own
    if "text" in own:
        tower = known["towers"][own["text"]]
        text = {"text_model_type": tower["type"], **own}
        inner = _entry(text["text_model_type"], tables)
        text |= {"absent_text": tower["defaults"], "given_text": tower.get("given", {})}
        text |= {"has_fixed_text": "is_fixed" in tower, "has_flat_text": "is_flat" in tower}
        return {"layout": inner["layout"], "partial": inner["partial"], **text, **tables[name]}
    names = {key: value for key, value in known.get("names", {}).items() if key in _OF_CLASSES}
    names |= own.get("names", {})
    defaults = {**_defaults(known["defaults"], names), **own.get("defaults", {})}
    if own.get("no_rope", {}).get("listed"):
        defaults["layer_types"] = known["defaults"][names.get("layer_types", "layer_types")]
    for key in own.pop("not_of_class", ()):
        del defaults[key]
    return {"layout": _layout(known, facts), **own, "names": names, "defaults": defaults}


def _defaults(known: Members, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the class defaults; a rule only if it is not that of one base for all layers.

    Parameters by layer type stand in the order of most classes: sliding layers, then full ones.
    """
    defaults = {key: known.get(names.get(key, key), known.get(key)) for key in _OF_CLASSES}
    rule = known.get("rope_parameters") or {}
    is_flat = not any(isinstance(value, dict) for value in rule.values())
    for key in _OF_RULES:
        defaults[key] = known.get(names.get(key, key), known.get(key))
        if defaults[key] is None and is_flat:
            defaults[key] = rule.get(key)
    if not is_flat or rule.get("rope_type", "default") != "default":
        defaults["rope_parameters"] = rule if is_flat else dict(reversed(rule.items()))
    return {key: value for key, value in defaults.items() if value is not None}


def _layout(known: Members, facts: Members) -> str:
    """Return the layout of the functions that rotate, as it was measured, if it is one."""
    hashes = known.get("functions", {}).values()
    measured = {
        facts["layouts"].get(name) for each in hashes for name in facts["bodies"].get(each, ())
    } - {None}
    return measured.pop() if len(measured) == 1 else "none"


_MODEL_TYPE = Key(values.name)
_DEEPEST = 4
THETA_BY_LAYER, SHARE_BY_LAYER = "rope_theta by layer", "partial_rotary_factor by layer"


@dataclass(frozen=True)
class TextModel:
    """A text model.

    Attributes:
        place: its config.
        type: the facts of its type; assumptions for an unknown type.
        is_known: whether the type is known.
        model_type: the model_type of the whole config, if any.
        values: at the top of its config, by canonical name.
        unread: the values there that its class ignores.
        outer: the configs around its own, the outermost first.
    """

    place: KeyPlace
    type: ModelType
    is_known: bool
    model_type: str | None
    values: Values
    unread: Values
    outer: tuple[KeyPlace, ...] = ()

    @property
    def name(self) -> str:
        """Its model_type, or a description without one."""
        return self.type.name if self.is_known else self.model_type or "a config without model_type"

    @property
    def report(self) -> ReadingReport:
        return self.place.report

    def given(self, name: str | None) -> ResolvedValue | None:
        """Return a value of the config; None for no name."""
        return None if name is None else self.values.get(name)

    def default(self, name: str, *, warns: bool = True) -> ResolvedValue | None:
        """Return the class default of a value, or None; warn of it unless warns is False."""
        value = self.type.defaults.get(name)
        if value is None:
            return None
        key = self.type.names.get(name, name)
        if warns:
            detail = f"{name} is not in the config: {value} is the {self.type.origin}"
            self.place.warn("class-default-used", detail, key)
        return self.type.default(value, self.place.at(key))

    def value(self, name: str, *, warns: bool = True) -> ResolvedValue | None:
        """Return a value of the config, or else the class default, with a warning."""
        return self.given(name) or self.default(name, warns=warns)

    def raw(self, name: str) -> object:
        """Return a member of the config without reading it, or else the class default."""
        value = self.place.content.get(name)
        return self.type.defaults.get(name) if value is None else value


def head_dim_of(model: TextModel, label: str) -> ResolvedValue | None:
    """Return the channels of a head of a layer type; None, with a fault, if it is unknown.

    As in transformers, the key of the config takes precedence over the class default, and that
    over hidden_size // num_attention_heads, which an explicit null selects.
    """
    if "head_dim" in model.type.fixed:
        return _share_of_hidden_size(model)
    by_type = model.type.head_dim_by_layer_type.get(label)
    key = by_type or model.type.head_dim
    if key is not None:
        value = model.given(key) or model.default(key) or model.value("head_dim")
        return value if by_type else value or _share_of_hidden_size(model)
    value = model.given("head_dim")
    if value is None and "head_dim" not in model.place.content:
        value = model.default("head_dim")
    return value or _share_of_hidden_size(model)


def _share_of_hidden_size(model: TextModel) -> ResolvedValue | None:
    times = model.type.hidden_times
    hidden, heads = model.value("hidden_size"), model.value("num_attention_heads")
    if hidden is None or heads is None:
        rule = "is required, or hidden_size with num_attention_heads (or n_embd with n_head)"
        model.report.fault(model.place.at("head_dim"), None, rule)
        return None
    if not model.is_known:
        detail = f"head_dim is not in the config: {hidden.value} // {heads.value} is used"
        model.place.warn("head-dim-computed", detail, "head_dim")
    width, rest = divmod(times * hidden.value, heads.value)
    if rest:
        detail = f"{heads.value} heads do not divide {times * hidden.value} channels"
        model.report.warn("heads-do-not-divide", detail, heads.pointer)
    if not 1 <= width <= MAX_CHANNELS:
        rule = f"// {heads.value} heads is no width of a head"
        model.report.fault(hidden.pointer, hidden.value, rule)
        return None
    multiple = f"{times} · " if times > 1 else ""
    return computed(width, f"{multiple}{{}} // {{}}", hidden, heads)


def find_text_model(
    body: KeyPlace, inherited: str | None = None, known: ModelType | None = None
) -> TextModel:
    """Return the text model of a config, with a fault for each invalid value at its top.

    Args:
        body: the config.
        inherited: the type of a config without model_type.
        known: the facts of its type; those of its model_type unless given.
    """
    report, whole = body.report, body.read("model_type", _MODEL_TYPE)
    place, name, around = (body, known.name, None) if known else _innermost(body, inherited)
    known = known or model_types().get(name or "")
    if known is not None and around is not None:
        if known.name == around.text_model_type:
            place, known = _within(around, place, known, is_inner=place.pointer != body.pointer)
        elif "rope_parameters" in around.given_text and not place.has("rope_theta", *_BLOCKS):
            rule = f"is required: {around.name} has its own for its text model"
            report.fault(place.at("rope_theta"), None, rule)
    if known is None:
        _require_rope(place, name or (whole.value if whole else None))
        _warn_type(name, place)
    kind = known or _unknown_type(place, name)
    only_count = {"num_hidden_layers": TOP["num_hidden_layers"]}
    keys = only_count if kind.no_rope is True else _keys_of(kind)
    by_layer = _lists_by_layer(place, kind, keys)
    others = _unread_keys(kind, keys)
    inner = place.inner(kind.inside) if kind.inside else None
    inside = inner.read_all(keys, kind.names) if inner else {}
    if "rope_theta" in inside:
        pointer = inside["rope_theta"].pointer
        detail = f"{pointer} is used; transformers 5.23.0 reads rope_parameters alone"
        report.warn("theta-not-everywhere", detail, pointer)
    own = {name: place.read(kind.names[name], TOP[name]) for name in kind.own_names}
    top = {**inside, **place.read_all(keys, kind.names), **by_layer}
    top |= {name: value.alias() for name, value in own.items() if value}
    read = {value.pointer for value in top.values()}
    unread = {name: own for name, own in place.read_all(others).items() if own.pointer not in read}
    model_type = whole.value if whole else None
    outer = tuple(_outer(body, place)) or (body,) * (len(place.content) < len(body.content))
    return TextModel(place, kind, known is not None, model_type, top, unread, outer)


def _within(
    around: ModelType, place: KeyPlace, known: ModelType, *, is_inner: bool
) -> tuple[KeyPlace, ModelType]:
    """Return the config of a text model that the model around it reads, and what that gives it."""
    if is_inner:
        if around.keeps_text_theta and place.has("rope_theta") and not place.has("rope_parameters"):
            rule = f"is not read without rope_parameters: {around.name} has its own"
            place.report.fault(place.at("rope_theta"), place.content["rope_theta"], rule)
        return place, known.within(around.given_text, around.name)
    key, is_flat = around.text or "", around.has_flat_text
    is_given = isinstance(place.content.get(key), dict)
    if not is_given and place.has(*_spellings("hidden_size"), *(_BASES if is_flat else ())):
        if not is_flat:
            detail = f"it is missing: keys beside it are read, but not by {around.source}"
            place.warn("key-not-read", detail, key)
        return place, known
    if not is_flat:
        for key in filter(place.has, (*_spellings("rope_theta"), *_BASES)):
            place.warn("key-not-read", f"{known.name} does not read {place.at(key)}", key)
        place = KeyPlace({"model_type": around.name}, place.pointer, place.report)
    return place, known.within(around.given_text if is_given else around.absent_text, around.name)


def _outer(body: KeyPlace, place: KeyPlace) -> Iterator[KeyPlace]:
    """Yield the objects from the body to that of a place, without it."""
    for name in place.pointer.removeprefix(body.pointer).split("/")[1:]:
        yield body
        body = KeyPlace(body.content[name], body.at(name), body.report)


def _unread_keys(kind: ModelType, keys: dict[str, Key]) -> dict[str, Key]:
    """Remove the names from ``keys`` that the class of a type does not read, and return them."""
    others = (*kind.fixed, *kind.own_names, *(() if kind.has_rotary_dim else ("rotary_dim",)))
    unread = {name: keys.pop(name) for name in others if name in keys}
    if not kind.has_aliases:
        for name, key in keys.items():
            own = kind.names.get(name)
            aliases = tuple(each for each in key.aliases if each != own and each not in keys)
            if aliases:
                unread[name] = Key(key.read, aliases)
                keys[name] = Key(key.read)
    return unread


def _lists_by_layer(place: KeyPlace, kind: ModelType, keys: dict[str, Key]) -> Values:
    """Return the lists of one value per layer, which some classes have.

    If the key of the base holds a list, it is removed from ``keys``.
    """
    lists: dict[str, ResolvedValue | None] = {}
    theta, share = kind.theta_by_layer_key, kind.partial_by_layer_key
    if theta is not None and isinstance(place.content.get(theta), list):
        keys.pop(theta, None)
        lists[THETA_BY_LAYER] = place.read(theta, Key(values.bases))
    if share is not None:
        lists[SHARE_BY_LAYER] = place.read(share, Key(values.shares))
    return {name: listed for name, listed in lists.items() if listed is not None}


def _innermost(
    place: KeyPlace, inherited: str | None, depth: int = 0, around: ModelType | None = None
) -> tuple[KeyPlace, str | None, ModelType | None]:
    """Return the config of the text model within a config, its type, and the type around it."""
    if around is not None and around.has_fixed_text and inherited is not None:
        place = place.of_type(inherited, around.name)
    own = place.read("model_type", _MODEL_TYPE)
    name = own.value if own else inherited
    kind = None if name is None else model_types().get(name)
    inner = _inner(place, kind) if depth < _DEEPEST else None
    if inner is not None:
        return _innermost(inner, kind.text_model_type if kind else None, depth + 1, kind)
    while kind is not None and kind.text_model_type is not None:
        around = kind
        name, kind = kind.text_model_type, model_types().get(kind.text_model_type)
    return place, name, around


def _inner(place: KeyPlace, kind: ModelType | None) -> KeyPlace | None:
    """Return the config of the text model within a multimodal config; None for other configs."""
    if kind is not None and kind.text is not None:
        found: KeyPlace | None = place
        for name in kind.text.split("."):
            found = found and found.inner(name)
        return found
    if place.has(*_spellings("hidden_size"), *_spellings("head_dim")):
        return None
    inner = map(place.inner, TEXT_CONFIGS)
    return next((found for found in inner if found is not None), None)


def _spellings(name: str) -> Iterator[str]:
    yield name
    yield from TOP[name].aliases


_BLOCKS = ("rope_scaling", "rope_parameters", "yarn", "rope_adjustments")
_BASES = ("rope_local_base_freq", "global_rope_theta", "local_rope_theta", *_BLOCKS)


def _require_rope(place: KeyPlace, name: str | None) -> None:
    """Raise ModelNotKnown unless a config has a rotary base or rule, and the width of a head."""
    has_base = place.has(*_BASES, *_spellings("rope_theta"), *_spellings("rope_ratio"))
    sizes = map(_spellings, ("hidden_size", "num_attention_heads"))
    has_width = place.has("qk_rope_head_dim", *_spellings("head_dim"), *_spellings("rotary_dim"))
    if has_base and (has_width or all(place.has(*spellings) for spellings in sizes)):
        return
    place.report.check()
    near = () if name is None else get_close_matches(name[:64].lower(), model_types(), cutoff=0.75)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    of_type = "without model_type" if name is None else f"for model_type {shortened(name)}"
    missing = "no width of a head" if has_base else "no rotary base and no frequency rule"
    detail = f"no positional encoding is known {of_type}: the config has {missing}{hint}"
    raise ModelNotKnown(detail, place.at("model_type"), name and shortened(name), *near[:1])


def _warn_type(name: str | None, place: KeyPlace) -> None:
    code, detail = "missing", "there is no model_type: layout and defaults are assumed"
    if name is not None:
        hint = did_you_mean(name, model_types(), cutoff=0.87)
        code, detail = "unknown", f"unknown model_type {shortened(name)}{hint}"
    place.warn(f"model-type-{code}", detail, "model_type")


_LOCAL_THETA = {"full_attention": {}, "sliding_attention": {"rope_theta": "rope_local_base_freq"}}
_LOCAL_AND_GLOBAL_THETA = {
    "full_attention": {"rope_theta": "global_rope_theta"},
    "sliding_attention": {"rope_theta": "local_rope_theta"},
}


def _unknown_type(place: KeyPlace, name: str | None) -> ModelType:
    """Return the assumed facts of an unknown type."""
    rope_keys: Mapping[str, Mapping[str, str]] = {}
    if place.has("rope_local_base_freq"):
        rope_keys = _LOCAL_THETA
    elif place.has("global_rope_theta") and place.has("local_rope_theta"):
        rope_keys = _LOCAL_AND_GLOBAL_THETA
    return ModelType(
        name=name or "unknown",
        source="",
        layout="half",
        layout_key="rope_interleave" if place.has(*_spellings("rope_interleave")) else None,
        head_dim="qk_rope_head_dim" if place.has("qk_rope_head_dim") else None,
        rope_keys=rope_keys,
        unscaled=("sliding_attention",) if rope_keys is _LOCAL_THETA else (),
    )


def _keys_of(kind: ModelType) -> dict[str, Key]:
    """Return the keys of the config of a model type: those of all types, and its own."""
    no_rope_key = kind.no_rope.layers_key if isinstance(kind.no_rope, NoRope) else None
    widths = (kind.head_dim, kind.rotary_dim, *kind.head_dim_by_layer_type.values())
    bases = (key for own in kind.rope_keys.values() for key in own.values())
    keys = dict(TOP)
    for read, names in (
        (values.channels, widths),
        (values.flag, (kind.layout_key,)),
        (values.real, bases),
        (values.indices, (kind.scaling_layers_key,)),
        (values.flags, (no_rope_key,)),
    ):
        keys |= {name: Key(read) for name in names if name is not None and name not in keys}
    return keys
