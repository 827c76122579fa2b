"""Model types, read from model_types.toml, and the text model of a config."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, TypeVar

from service.errors import shortened
from service.models import keys as values
from service.models.keys import TEXT_CONFIGS, TOP, Key
from service.models.lookup import (
    KeyPlace,
    ReadingReport,
    ResolvedValue,
    Values,
    did_you_mean,
    read_object,
    read_value,
    read_values,
)

Facts = TypeVar("Facts")
Members = Mapping[str, Any]


@dataclass(frozen=True)
class LayerPattern:
    """Layer i, counted from 0, is of type ``at`` if (i + offset) % every == 0, else ``otherwise``.

    Attributes:
        every_key: the key of a config that overrides every.
        also: further layers of type ``at``, negative ones counted from the end.
    """

    every: int
    at: str
    otherwise: str
    every_key: str | None = None
    offset: int = 1
    also: tuple[int, ...] = ()

    def of(self, layers: int, every: int) -> tuple[str, ...]:
        """Return the type of each of so many layers."""
        also = {index % layers for index in self.also}
        return tuple(
            self.at if (i + self.offset) % every == 0 or i in also else self.otherwise
            for i in range(layers)
        )


@dataclass(frozen=True)
class NoRope:
    """Which layers have no rotary embedding.

    Attributes:
        layers_key: the key of a list that holds 1 for each layer with, 0 for each without.
        every: layers with (i + 1) % every == 0 have none.
        every_key: the key of a config that overrides every.
        layer_types: the layers of these types have none.
        if_key: the key of a config that must be there, and not null, for this to hold.
    """

    layers_key: str | None = None
    every: int | None = None
    every_key: str | None = None
    layer_types: tuple[str, ...] = ()
    if_key: str | None = None


@dataclass(frozen=True)
class Attention:
    """What attention multiplies beside the table.

    Attributes:
        softmax_mscale: whether the scale of the softmax is multiplied by
            (0.1·mscale_all_dim·ln factor + 1)².
        query_temperature: how queries grow with their position, ``llama4`` or ``ministral3``.
    """

    softmax_mscale: bool = False
    query_temperature: str | None = None


@dataclass(frozen=True)
class Sections:
    """How several position axes share the frequencies of a class.

    Attributes:
        arrangement: the name of an order that is neither chunked nor interleaved.
    """

    section: tuple[int, ...] | None = None
    interleaved: bool = False
    arrangement: str | None = None


@dataclass(frozen=True)
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
    axes: int = 1
    inverse: bool = False
    last_channels: bool = False
    fixed: tuple[str, ...] = ()
    hidden_times: int = 1
    not_read: Mapping[str, str] = field(default_factory=dict)
    not_in_config: str | None = None
    null_theta_is_none: bool = False
    inside: str | None = None
    instead: str | None = None
    unscaled: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    defaults: Members = field(default_factory=dict)
    layer_types: LayerPattern | None = None
    rope_keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    head_dim_by_layer_type: Mapping[str, str] = field(default_factory=dict)
    no_rope: NoRope | bool = False
    attention: Attention = field(default_factory=Attention)
    mrope: Sections | None = None

    @property
    def origin(self) -> str:
        """The origin of class defaults."""
        return f"class default of {self.name} ({self.source.partition(':')[0]})"

    @property
    def rope_parameters(self) -> Members:
        """The default parameters of the frequency rule, or those by layer type."""
        found: Members = self.defaults.get("rope_parameters", {})
        return found

    def rope_parameters_of(self, label: str) -> Members:
        """Return the default parameters of one layer type; empty where all layers share them."""
        found = self.rope_parameters.get(label)
        return found if isinstance(found, Mapping) else {}


@cache
def model_types() -> Mapping[str, ModelType]:
    """Return all model types, by name."""
    text = files("service.models").joinpath("model_types.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    return MappingProxyType(
        {
            name: _model_type(name, tables[table.get("same_as", name)])
            for name, table in tables.items()
        }
    )


_PARTS: Mapping[str, type[Any]] = {
    "layer_types": LayerPattern,
    "attention": Attention,
    "mrope": Sections,
}


def _model_type(name: str, table: dict[str, Any]) -> ModelType:
    read = {"name": name, **table}
    for key, part in _PARTS.items():
        if key in table:
            read[key] = _facts(part, table[key])
    if isinstance(table.get("no_rope"), dict):
        read["no_rope"] = _facts(NoRope, table["no_rope"])
    return _facts(ModelType, read)


def _facts(kind: type[Facts], table: dict[str, Any]) -> Facts:
    """Return the facts in a table; lists become tuples, unknown keys are errors."""
    known = {known.name for known in fields(kind)}  # type: ignore[arg-type]
    unknown = table.keys() - known
    if unknown:
        raise ValueError(f"model_types.toml has {sorted(unknown)} where there are {sorted(known)}")
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in table.items()})


_MODEL_TYPE = Key(values.name)
_DEEPEST = 4
THETA_BY_LAYER, SHARE_BY_LAYER = "rope_theta by layer", "partial_rotary_factor by layer"


@dataclass(frozen=True)
class TextModel:
    """A text model.

    Attributes:
        place: its config.
        type: the facts of its type; assumptions if it is unknown.
        is_known: whether the type is known.
        model_type: the model_type of the whole config, if there is one.
        values: those at the top of its config, by canonical name.
        unread: values there that its class does not read.
    """

    place: KeyPlace
    type: ModelType
    is_known: bool
    model_type: str | None
    values: Values
    unread: Values = field(default_factory=dict)

    def given(self, *names: str) -> ResolvedValue | None:
        """Return the first of these values that the config has."""
        return next((self.values[name] for name in names if name in self.values), None)

    def default(self, name: str, report: ReadingReport | None = None) -> ResolvedValue | None:
        """Return the class default of a value; add a warning to the report, if there is one."""
        value = self.type.defaults.get(name)
        if value is None:
            return None
        pointer = self.place.at(self.type.names.get(name, name))
        if report is not None:
            detail = f"{name} is not in the config: {value} is the {self.type.origin}"
            report.warn("class-default-used", detail, pointer)
        return ResolvedValue(value, self.type.origin, pointer)

    def value(self, name: str, report: ReadingReport | None = None) -> ResolvedValue | None:
        """Return a value of the config, or else the class default."""
        return self.given(name) or self.default(name, report)

    def warn_unread(self, name: str, held: ResolvedValue, report: ReadingReport) -> None:
        """Warn of a value that the class ignores, where it differs from the one that is used."""
        said = self.unread.get(name)
        if said is not None and said.value != held.value:
            detail = f"{self.type.name} does not read {said.pointer}: {name} is {held.value}"
            report.warn("key-not-read", detail, said.pointer)

    def says(self, name: str) -> object:
        """Return a member of the config unread, or else the class default."""
        sent = self.place.content.get(name)
        return self.type.defaults.get(name) if sent is None else sent


def find_text_model(config: Mapping[str, object], report: ReadingReport) -> TextModel:
    """Return the text model of a config, with a fault for each invalid value at its top."""
    body = KeyPlace(config)
    whole = read_value(body, "model_type", _MODEL_TYPE, report)
    place, name = _descended(body, None, report)
    known = None if name is None else model_types().get(name)
    if known is None:
        _warn_type(name, place, report)
    kind = known or _unknown(place, name)
    keys = _keys_of(kind)
    fixed = {name: keys.pop(name) for name in kind.fixed if name in keys}
    by_layer = _by_layer(place, kind, keys, report)
    inner = read_object(place, kind.inside, report) if kind.inside else None
    inside = read_values(inner, keys, kind.names, report) if inner else {}
    _warn_inside(inside, report)
    read = {**inside, **read_values(place, keys, kind.names, report), **by_layer}
    unread = read_values(place, fixed, kind.names, report)
    model_type = whole.value if whole else None
    return TextModel(place, kind, known is not None, model_type, read, unread)


def _warn_inside(inside: Values, report: ReadingReport) -> None:
    if "rope_theta" in inside:
        pointer = inside["rope_theta"].pointer
        detail = f"{pointer} is used; transformers 5.23.0 reads rope_parameters alone"
        report.warn("theta-not-everywhere", detail, pointer)


def _by_layer(
    place: KeyPlace, kind: ModelType, keys: dict[str, Key], report: ReadingReport
) -> Values:
    """Read lists of one value per layer, which some classes have.

    A list of bases may replace the one base, which is then not read.
    """
    found: dict[str, ResolvedValue | None] = {}
    theta, share = kind.theta_by_layer_key, kind.partial_by_layer_key
    if theta is not None and isinstance(place.content.get(theta), list):
        keys.pop(theta, None)
        found[THETA_BY_LAYER] = read_value(place, theta, Key(values.bases), report)
    if share is not None:
        found[SHARE_BY_LAYER] = read_value(place, share, Key(values.shares), report)
    return {name: listed for name, listed in found.items() if listed is not None}


def _descended(
    place: KeyPlace, inherited: str | None, report: ReadingReport, depth: int = 0
) -> tuple[KeyPlace, str | None]:
    """Return the config of the text model, and its type."""
    said = read_value(place, "model_type", _MODEL_TYPE, report)
    name = said.value if said else inherited
    kind = None if name is None else model_types().get(name)
    inner = _inner(place, kind, report) if depth < _DEEPEST else None
    if inner is None:
        return place, _text_type(name)
    return _descended(inner, kind.text_model_type if kind else None, report, depth + 1)


def _text_type(name: str | None) -> str | None:
    """Return the type of the innermost text model of a model type."""
    kind = None if name is None else model_types().get(name)
    if kind is None or kind.text_model_type is None:
        return name
    return _text_type(kind.text_model_type)


def _inner(place: KeyPlace, kind: ModelType | None, report: ReadingReport) -> KeyPlace | None:
    """Return the config of the text model in a multimodal config, None if there is none."""
    if kind is not None and kind.text is not None:
        for name in kind.text.split("."):
            found = read_object(place, name, report)
            if found is None:
                return None
            place = found
        return place
    if place.has(*_spellings("hidden_size"), *_spellings("head_dim")):
        return None
    inner = (read_object(place, name, report) for name in TEXT_CONFIGS)
    return next((found for found in inner if found is not None), None)


def _spellings(name: str) -> Iterator[str]:
    yield name
    yield from TOP[name].aliases


def _warn_type(name: str | None, place: KeyPlace, report: ReadingReport) -> None:
    pointer = place.at("model_type")
    if name is None:
        detail = "there is no model_type: layout and defaults are assumed"
        report.warn("model-type-missing", detail, pointer)
        return
    hint = did_you_mean(name, model_types(), cutoff=0.87)
    detail = f"unknown model_type {shortened(name)}{hint}"
    report.warn("model-type-unknown", detail, pointer)


_LOCAL_THETA = {"full_attention": {}, "sliding_attention": {"rope_theta": "rope_local_base_freq"}}
_LOCAL_AND_GLOBAL_THETA = {
    "full_attention": {"rope_theta": "global_rope_theta"},
    "sliding_attention": {"rope_theta": "local_rope_theta"},
}


def _unknown(place: KeyPlace, name: str | None) -> ModelType:
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
        rope_keys=MappingProxyType(rope_keys),
        unscaled=("sliding_attention",) if rope_keys is _LOCAL_THETA else (),
    )


def _keys_of(kind: ModelType) -> dict[str, Key]:
    """Return the keys of the config of a model type: those of all types, and its own."""
    keys = dict(TOP)
    for key in (kind.head_dim, kind.rotary_dim, *kind.head_dim_by_layer_type.values()):
        if key is not None:
            keys.setdefault(key, Key(values.channels))
    if kind.layout_key is not None:
        keys.setdefault(kind.layout_key, Key(values.flag))
    for own in kind.rope_keys.values():
        keys |= {key: Key(values.real) for key in own.values() if key not in keys}
    if kind.scaling_layers_key is not None:
        keys.setdefault(kind.scaling_layers_key, Key(values.indices))
    if not isinstance(kind.no_rope, bool) and kind.no_rope.layers_key is not None:
        keys.setdefault(kind.no_rope.layers_key, Key(values.flags))
    return keys
