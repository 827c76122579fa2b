"""The scaling rules of rotary frequencies in float64, and the usual values of their keys.

Each function is the formula of the class of the same ``rope_type`` in
``service.encodings.rotary.rules``, where its source is; a test compares them. They serve to propose
tables: hundreds of settings are tried, and those claimed are computed exactly afterwards.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log, pi, sqrt
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from service.numerics.phase import Float64s

Keys: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Series:
    """The frequencies of a base before any rule: base^(−exponents).

    Attributes:
        base: the base.
        exponents: (K,); 2k/r for a rotary table.
        width: the number of rotary channels, r.
    """

    base: float
    exponents: Float64s = field(compare=False)
    width: int

    @property
    def omega(self) -> Float64s:
        """The frequencies, (K,)."""
        frequencies: Float64s = np.exp(-log(self.base) * self.exponents)
        return frequencies


@dataclass(frozen=True, eq=False)
class Rule:
    """A scaling rule with its keys; without a name it leaves frequencies as they are."""

    rope_type: str = "default"
    keys: Keys = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.rope_type != "default" or bool(self.keys)

    @property
    def scale(self) -> float:
        """The attention factor that the rule multiplies cosines and sines by."""
        if "attention_factor" in self.keys:
            return float(self.keys["attention_factor"])
        factor = float(self.keys.get("factor", 1))
        if self.rope_type == "yarn":
            if factor <= 1:
                return 1.0
            one, other = (float(self.keys.get(name, 0)) for name in ("mscale", "mscale_all_dim"))
            if one and other:
                return (0.1 * one * log(factor) + 1) / (0.1 * other * log(factor) + 1)
            return 0.1 * log(factor) + 1
        if self.rope_type == "longrope" and factor > 1:
            return sqrt(1 + log(factor) / log(float(self.keys[ORIGINAL])))
        return 1.0

    def frequencies(self, series: Series) -> Float64s:
        """Return the scaled frequencies of a series, (K,)."""
        return FORMULAS[self.rope_type](series, self.keys)

    def changed(self, **keys: Any) -> "Rule":
        """Return the rule with other values of some keys."""
        return Rule(self.rope_type, {**self.keys, **keys})


ORIGINAL = "original_max_position_embeddings"


def _default(series: Series, keys: Keys) -> Float64s:
    divisors = keys.get("freq_factors")
    return series.omega / _each(divisors, series) if divisors else series.omega


def _each(factors: Sequence[float], series: Series) -> Float64s:
    """Return the factor of each frequency; 1 for those beyond the list."""
    ones: Float64s = np.ones(len(series.exponents))
    count = min(len(factors), len(ones))
    ones[:count] = factors[:count]
    return ones


def _linear(series: Series, keys: Keys) -> Float64s:
    scaled: Float64s = _default(series, keys) / keys["factor"]
    return scaled


def _rescaled(series: Series, growth: float) -> Float64s:
    """Return the frequencies of the base b·growth^(r/(r − 2))."""
    width = max(series.width, 4)
    power = width / (width - 2)
    frequencies: Float64s = series.omega * np.exp(-log(growth) * power * series.exponents)
    return frequencies


def _ntk(series: Series, keys: Keys) -> Float64s:
    mixed = keys.get("mixed_b")
    if mixed is not None:
        k, count = np.arange(1, len(series.exponents) + 1), len(series.exponents)
        a = log(keys["factor"]) / count**mixed
        mixed_frequencies: Float64s = series.omega / np.exp(a * k**mixed)
        return mixed_frequencies
    factor = keys["factor"]
    frequencies: Float64s = series.omega * factor ** -(series.exponents + 2 / series.width)
    return frequencies


def _dynamic(series: Series, keys: Keys) -> Float64s:
    return _rescaled(series, dynamic_growth(keys))


def dynamic_growth(keys: Keys) -> float:
    """Return α of dynamic NTK: f·max(L, O)/O − (f − 1), or the key alpha."""
    if "alpha" in keys:
        return float(keys["alpha"])
    original, factor = float(keys[ORIGINAL]), float(keys["factor"])
    length = max(float(keys.get("context_length", original)), original)
    return factor * length / original - (factor - 1)


def _yarn(series: Series, keys: Keys) -> Float64s:
    low, high = yarn_range(series, keys)
    if keys.get("truncate", True):
        low, high = floor(low), ceil(high)
    low, high = max(low, 0), min(high, series.width - 1)
    ramp = np.clip((np.arange(len(series.exponents)) - low) / ((high - low) or 0.001), 0, 1)
    return _blended(series.omega, 1 - ramp, keys)


def yarn_range(series: Series, keys: Keys) -> tuple[float, float]:
    """Return the pair indices at which the ramp of YaRN begins and ends, before rounding."""
    low, high = (
        series.width
        * log(keys[ORIGINAL] / (2 * pi * float(keys.get(name, usual))))
        / (2 * log(series.base))
        for name, usual in (("beta_fast", 32.0), ("beta_slow", 1.0))
    )
    return low, high


def _llama3(series: Series, keys: Keys) -> Float64s:
    low, high = float(keys["low_freq_factor"]), float(keys["high_freq_factor"])
    turns = keys[ORIGINAL] * series.omega / (2 * pi)
    if high == low:
        return _blended(series.omega, (turns > low).astype(np.float64), keys)
    return _blended(series.omega, np.clip((turns - low) / (high - low), 0, 1), keys)


def llama3_by_wavelength(series: Series, keys: Keys) -> Float64s:
    """Return the frequencies of llama3 with a band that is linear in the wavelength: a slip."""
    low, high = float(keys["low_freq_factor"]), float(keys["high_freq_factor"])
    wavelength = 2 * pi / series.omega
    longest, shortest = keys[ORIGINAL] / low, keys[ORIGINAL] / high
    share = (longest - wavelength) / ((longest - shortest) or 1.0)
    return _blended(series.omega, np.clip(share, 0, 1), keys)


def _blended(omega: Float64s, kept: Float64s, keys: Keys) -> Float64s:
    blend: Float64s = kept * omega + (1 - kept) * omega / keys["factor"]
    return blend


def _longrope(series: Series, keys: Keys) -> Float64s:
    is_long = float(keys.get("context_length", 0)) > keys[ORIGINAL]
    factors = keys["long_factor" if is_long else "short_factor"]
    scaled: Float64s = series.omega / _each(factors, series)
    return scaled


def _proportional(series: Series, keys: Keys) -> Float64s:
    rotated = int(float(keys.get("partial_rotary_factor", 1)) * series.width // 2)
    still = np.arange(len(series.exponents)) >= rotated
    scaled: Float64s = np.where(still, 0.0, series.omega / float(keys.get("factor", 1)))
    return scaled


FORMULAS: Mapping[str, Callable[[Series, Keys], Float64s]] = MappingProxyType(
    {
        "default": _default,
        "linear": _linear,
        "ntk": _ntk,
        "dynamic": _dynamic,
        "yarn": _yarn,
        "llama3": _llama3,
        "longrope": _longrope,
        "proportional": _proportional,
    }
)

USUAL_FACTORS = (2, 4, 8, 16, 32, 40, 64)
USUAL_LENGTHS = (2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)

USUAL_VALUES: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "factor": USUAL_FACTORS,
        ORIGINAL: USUAL_LENGTHS,
        "context_length": USUAL_LENGTHS,
        "low_freq_factor": (1, 2),
        "high_freq_factor": (2, 4, 8),
        "beta_fast": (32, 64, 16),
        "beta_slow": (1, 2, 4),
        "truncate": (True, False),
        "partial_rotary_factor": (0.25, 0.5, 0.75, 1.0),
    }
)
"""The values that each key has in published configs."""

VARIED_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "linear": ("factor",),
        "ntk": ("factor",),
        "dynamic": ("factor", ORIGINAL, "context_length"),
        "llama3": ("factor", ORIGINAL, "low_freq_factor", "high_freq_factor"),
        "yarn": ("factor", ORIGINAL, "beta_fast", "beta_slow", "truncate"),
        "longrope": ("factor",),
        "proportional": ("factor", "partial_rotary_factor"),
    }
)
"""The keys of each rule in which a config and an engine may differ."""

_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True, "factor": 1.0}
)


def value_of(rule: Rule, key: str) -> Any:
    """Return the value of a key, or its default."""
    return rule.keys.get(key, _DEFAULTS.get(key))


def other_values(rule: Rule, key: str, factors: tuple[float, ...] = ()) -> Iterator[Any]:
    """Yield other values that a key may have had: usual ones, and measured factors first."""
    usual = (*factors, *USUAL_FACTORS) if key == "factor" else USUAL_VALUES[key]
    for value in dict.fromkeys(usual):
        if value != value_of(rule, key):
            yield value


def other_rules(
    rule: Rule, factors: tuple[float, ...], lengths: tuple[int, ...] = ()
) -> Iterator[Rule]:
    """Yield rules of other types, with each of some factors.

    Args:
        rule: the rule that they replace, whose original length they take.
        factors: the factors.
        lengths: the original lengths, if the rule has none.
    """
    known = rule.keys.get(ORIGINAL)
    for factor in factors:
        for name in ("linear", "ntk"):
            if name != rule.rope_type:
                yield Rule(name, {"factor": factor})
        if rule.rope_type != "dynamic":
            yield Rule("dynamic", {"alpha": factor})
        for length in (known,) if known else lengths or (8192,):
            if rule.rope_type != "yarn":
                yield Rule("yarn", {"factor": factor, ORIGINAL: length})
            if rule.rope_type != "llama3":
                bands = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
                yield Rule("llama3", {"factor": factor, ORIGINAL: length, **bands})
