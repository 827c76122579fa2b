"""What is known of each model type: class defaults and layouts, read from model_types.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, TypeVar

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
        """Name the type of each of so many layers."""
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
        """Say where its class defaults come from."""
        return f"class default of {self.name} ({self.source.partition(':')[0]})"

    @property
    def rope_parameters(self) -> Members:
        """Its parameters of the frequency rule, or those by layer type, where it has them."""
        found: Members = self.defaults.get("rope_parameters", {})
        return found

    def rope_parameters_of(self, label: str) -> Members:
        """Give its parameters for the layers of one type; none where it has them for all alike."""
        found = self.rope_parameters.get(label)
        return found if isinstance(found, Mapping) else {}


@cache
def model_types() -> Mapping[str, ModelType]:
    """Load every model type, once."""
    text = files("service.configs").joinpath("model_types.toml").read_text(encoding="utf-8")
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
    """Make facts of a table; its lists become tuples, and it must hold nothing unknown."""
    known = {known.name for known in fields(kind)}  # type: ignore[arg-type]
    unknown = table.keys() - known
    if unknown:
        raise ValueError(f"model_types.toml has {sorted(unknown)} where there are {sorted(known)}")
    return kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in table.items()})
