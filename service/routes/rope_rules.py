"""From the keys that a request names to a rotary rule: which are required, taken, left out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, TypeAlias

from service.routes.parameters import impossible
from service.tables import scaling
from service.tables.limits import MAX_FACTOR, MAX_MIXED_CHANNELS, MAX_SCALED_BASE, MIN_FACTOR
from service.tables.rope_rules import (
    Default,
    Dynamic,
    DynamicAlpha,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    Proportional,
    Yarn,
)
from service.tables.rotary_rule import RotaryRule

Keys: TypeAlias = Mapping[str, Any]

_LENGTH = "max_position_embeddings"
_ORIGINAL = "original_max_position_embeddings"

SHARED = frozenset({_LENGTH, "partial_rotary_factor"})
"""Keys that mean something whatever the rule: how long a table is, how much of a head turns."""


@dataclass(frozen=True)
class _Maker:
    """How a rule is made.

    Attributes:
        make: of rotary_dim, rope_theta and keys.
        required: the keys without which it cannot be.
        optional: the others that it takes.
    """

    make: Callable[[int, float, Keys], RotaryRule]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def taken_by(rope_type: str, keys: Keys) -> frozenset[str]:
    """Name the keys that a rule takes."""
    maker = _maker(rope_type, keys)
    return SHARED.union(maker.required, maker.optional)


def chosen_by(rope_type: str, keys: Keys) -> str:
    """Name what chose a rule: its type, or the key that makes it another of that type."""
    return "alpha" if _maker(rope_type, keys) is _ALPHA else f"rope_type={rope_type}"


def make_rule(rope_type: str, rotary_dim: int, rope_theta: float, keys: Keys) -> RotaryRule:
    """Make a rule of the keys that it takes; raises InvalidParameters for what cannot be."""
    maker = _maker(rope_type, keys)
    for name in maker.required:
        if name not in keys:
            raise impossible(name, None, f"{name} is required with rope_type={rope_type}")
    if (rope_type != "default" or "freq_factors" in keys) and rope_theta > MAX_SCALED_BASE:
        rule = f"rope_theta must be at most {MAX_SCALED_BASE:g} where frequencies are scaled"
        raise impossible("rope_theta", rope_theta, rule)
    return maker.make(rotary_dim, rope_theta, keys)


def _maker(rope_type: str, keys: Keys) -> _Maker:
    return _ALPHA if rope_type == "dynamic" and "alpha" in keys else _MAKERS[rope_type]


def _default(dim: int, theta: float, keys: Keys) -> RotaryRule:
    return Default(dim, theta, _list_of("freq_factors", dim, keys))


def _linear(dim: int, theta: float, keys: Keys) -> RotaryRule:
    return Linear(dim, theta, keys["factor"], _list_of("freq_factors", dim, keys))


def _dynamic(dim: int, theta: float, keys: Keys) -> RotaryRule:
    _check_rescalable("dynamic", dim)
    original = keys.get(_ORIGINAL, keys.get(_LENGTH))
    if original is None:
        raise impossible(_LENGTH, None, f"{_LENGTH} is required with rope_type=dynamic")
    return Dynamic(dim, theta, keys["factor"], original, keys.get("context_length", original))


def _dynamic_alpha(dim: int, theta: float, keys: Keys) -> RotaryRule:
    _check_rescalable("dynamic", dim)
    return DynamicAlpha(dim, theta, keys["alpha"])


def _check_rescalable(rope_type: str, dim: int) -> None:
    if dim == 2:
        rule = f"rope_type={rope_type} rescales by r/(r - 2): it needs more than 2 rotary channels"
        raise impossible("rope_type", rope_type, rule)


def _ntk(dim: int, theta: float, keys: Keys) -> RotaryRule:
    mixed_b = keys.get("mixed_b")
    if mixed_b is not None and dim > MAX_MIXED_CHANNELS:
        rule = f"mixed_b is for at most {MAX_MIXED_CHANNELS} rotary channels"
        raise impossible("mixed_b", mixed_b, rule)
    return Ntk(dim, theta, keys["factor"], mixed_b)


def _yarn(dim: int, theta: float, keys: Keys) -> RotaryRule:
    if theta == 1:
        raise impossible("rope_theta", theta, "rope_theta must be more than 1 with rope_type=yarn")
    factor = _stretch("yarn", keys)
    fast, slow = keys.get("beta_fast", Yarn.beta_fast), keys.get("beta_slow", Yarn.beta_slow)
    if fast < slow:
        rule = f"beta_fast must be at least beta_slow, {slow:g}"
        raise impossible("beta_fast", fast, rule)
    return Yarn(
        dim,
        theta,
        factor,
        keys[_ORIGINAL],
        keys.get("attention_factor") or _yarn_attention_factor(factor, keys),
        fast,
        slow,
        keys.get("truncate", Yarn.truncate),
    )


def _yarn_attention_factor(factor: float, keys: Keys) -> float:
    mscales = (Decimal(keys.get(name, 0)) for name in ("mscale", "mscale_all_dim"))
    return float(scaling.yarn_attention_factor(Decimal(factor), *mscales))


def _longrope(dim: int, theta: float, keys: Keys) -> RotaryRule:
    original = keys[_ORIGINAL]
    if original == 1:
        rule = f"{_ORIGINAL} must be more than 1 with rope_type=longrope"
        raise impossible(_ORIGINAL, original, rule)
    return LongRope(
        dim,
        theta,
        original,
        keys.get("context_length", original),
        keys.get("attention_factor") or _longrope_attention_factor(original, keys),
        _list_of("short_factor", dim, keys),
        _list_of("long_factor", dim, keys),
    )


def _longrope_attention_factor(original: int, keys: Keys) -> float:
    factor = Decimal(_stretch("longrope", keys))
    return float(scaling.longrope_attention_factor(factor, original))


def _stretch(rope_type: str, keys: Keys) -> float:
    """Give the factor, or how much longer the model is than it was, as transformers does."""
    if "factor" in keys:
        return float(keys["factor"])
    if _LENGTH not in keys:
        rule = f"factor is required with rope_type={rope_type}, unless {_LENGTH} is given"
        raise impossible("factor", None, rule)
    factor = float(keys[_LENGTH] / keys[_ORIGINAL])
    if not MIN_FACTOR <= factor <= MAX_FACTOR:
        bounds = f"from {MIN_FACTOR:g} to {MAX_FACTOR:g}"
        rule = f"{_LENGTH}/{_ORIGINAL} is the factor, and must be {bounds}"
        raise impossible(_LENGTH, keys[_LENGTH], rule)
    return factor


def _llama3(dim: int, theta: float, keys: Keys) -> RotaryRule:
    low, high = keys["low_freq_factor"], keys["high_freq_factor"]
    if high < low:
        rule = f"high_freq_factor must be at least low_freq_factor, {low:g}"
        raise impossible("high_freq_factor", high, rule)
    return Llama3(dim, theta, keys["factor"], low, high, keys[_ORIGINAL])


def _proportional(dim: int, theta: float, keys: Keys) -> RotaryRule:
    share = keys.get("partial_rotary_factor", Proportional.partial_rotary_factor)
    return Proportional(dim, theta, share, keys.get("factor", Proportional.factor))


def _list_of(name: str, dim: int, keys: Keys) -> tuple[float, ...]:
    factors: tuple[float, ...] = keys.get(name, ())
    if factors and len(factors) != dim // 2:
        rule = f"{name} must have {dim // 2} numbers, one for each pair of rotary channels"
        raise impossible(name, len(factors), f"{rule}, and has {len(factors)}")
    for factor in factors:
        if not MIN_FACTOR <= factor <= MAX_FACTOR:
            rule = f"{name} must be numbers from {MIN_FACTOR:g} to {MAX_FACTOR:g}"
            raise impossible(name, factor, rule)
    return factors


_MAKERS: Mapping[str, _Maker] = MappingProxyType(
    {
        "default": _Maker(_default, optional=("freq_factors",)),
        "linear": _Maker(_linear, required=("factor",), optional=("freq_factors",)),
        "dynamic": _Maker(_dynamic, required=("factor",), optional=(_ORIGINAL, "context_length")),
        "ntk": _Maker(_ntk, required=("factor",), optional=("mixed_b",)),
        "yarn": _Maker(
            _yarn,
            required=(_ORIGINAL,),
            optional=(
                "factor",
                "attention_factor",
                "beta_fast",
                "beta_slow",
                "mscale",
                "mscale_all_dim",
                "truncate",
            ),
        ),
        "longrope": _Maker(
            _longrope,
            required=(_ORIGINAL, "short_factor", "long_factor"),
            optional=("factor", "attention_factor", "context_length"),
        ),
        "llama3": _Maker(
            _llama3, required=("factor", "low_freq_factor", "high_freq_factor", _ORIGINAL)
        ),
        "proportional": _Maker(_proportional, optional=("factor",)),
    }
)
_ALPHA = _Maker(_dynamic_alpha, required=("alpha",))

TAKEN = SHARED.union(*((*maker.required, *maker.optional) for maker in (*_MAKERS.values(), _ALPHA)))
"""Every key that some rule takes."""
