"""Scaling rules of rotary frequencies, in the arithmetic of the array that they get."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from tests.analysis.matrix.floats import Reals

Value: TypeAlias = float | int | bool | tuple[float, ...]
Rng: TypeAlias = np.random.Generator

USUAL_BASES = (10000.0, 500000.0, 1000000.0, 150000.0, 100000.0, 25000.0, 5000000.0, 1000.0)


@dataclass(frozen=True)
class Rule:
    """The frequencies of a table: a rule, its keys, and the slips that its code may have.

    Attributes:
        name: the ``rope_type``; ``none`` is the default.
        base: the base of the unscaled frequencies.
        rotary: the number of rotary channels.
        keys: the query parameters of the rule.
        slip: a deviation from the formula, or nothing.
    """

    name: str
    base: float
    rotary: int
    keys: Mapping[str, Value] = field(default_factory=dict)
    slip: str = ""

    @property
    def count(self) -> int:
        return self.rotary // 2

    def number(self, key: str, default: float = 0.0) -> float:
        value = self.keys.get(key, default)
        assert not isinstance(value, tuple)
        return float(value)

    def factors(self, key: str) -> tuple[float, ...]:
        value = self.keys[key]
        assert isinstance(value, tuple)
        return value

    def having(self, **keys: Value) -> "Rule":
        """Return the rule with other values of some keys."""
        return replace(self, keys={**self.keys, **keys})

    @property
    def base_used(self) -> float:
        """The base of the frequencies that ``scaled`` gets."""
        r = self.rotary
        if self.name == "dynamic":
            factor, original = (
                self.number("factor"),
                self.number("original_max_position_embeddings"),
            )
            length = max(self.number("context_length", original), original)
            alpha = factor * length / original - (factor - 1)
            return self.base * float(alpha ** (r / (r - 2)))
        if self.name == "alpha":
            return self.base * float(self.number("alpha") ** (r / (r - 2)))
        if self.name == "ntk":
            return self.base * self.number("factor")
        return self.base

    def scaled(self, unscaled: Reals) -> Reals:
        """Return the frequencies of the rule, in the type of the unscaled ones."""
        real = unscaled.dtype.type
        if self.name == "linear":
            return unscaled / real(self.number("factor"))
        if self.name == "ntk":
            return unscaled / real(self.number("factor") ** (2 / self.rotary))
        if self.name == "yarn":
            return self._yarn(unscaled)
        if self.name == "llama3":
            return self._llama3(unscaled)
        if self.name == "longrope":
            return unscaled / np.array(self.factors_used(), dtype=unscaled.dtype)
        return unscaled

    def factors_used(self) -> tuple[float, ...]:
        """Return the list of longrope for the context length."""
        original = self.number("original_max_position_embeddings")
        is_long = self.number("context_length", original) > original
        return self.factors("long_factor" if is_long else "short_factor")

    def yarn_range(self) -> tuple[float, float]:
        """Return the pairs where the ramp begins and ends."""
        original = self.number("original_max_position_embeddings")
        fast, slow = self.number("beta_fast", 32.0), self.number("beta_slow", 1.0)
        if self.slip == "betas-exchanged":
            fast, slow = slow, fast
        low, high = (
            self.rotary * math.log(original / (beta * 2 * math.pi)) / (2 * math.log(self.base))
            for beta in (fast, slow)
        )
        if self.keys.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        return max(low, 0.0), min(high, self.rotary - 1.0)

    def _yarn(self, unscaled: Reals) -> Reals:
        real = unscaled.dtype.type
        low, high = self.yarn_range()
        width = high - low if high != low else 0.001
        pairs = np.arange(self.count, dtype=unscaled.dtype)
        ramp = np.clip((pairs - real(low)) / real(width), 0, 1).astype(unscaled.dtype)
        divided = unscaled / real(self.number("factor"))
        blend: Reals = divided * ramp + unscaled * (real(1) - ramp)
        return blend

    def _llama3(self, unscaled: Reals) -> Reals:
        real = unscaled.dtype.type
        original = real(self.number("original_max_position_embeddings"))
        low, high = self.number("low_freq_factor"), self.number("high_freq_factor")
        wavelengths = real(2 * math.pi) / unscaled
        if self.slip == "band-of-wavelengths":
            longest, shortest = original / real(low), original / real(high)
            shares = (longest - wavelengths) / (longest - shortest)
        else:
            shares = (original / wavelengths - real(low)) / real(high - low)
        shares = np.clip(shares, 0, 1).astype(unscaled.dtype)
        divided = unscaled / real(self.number("factor"))
        blend: Reals = (real(1) - shares) * divided + shares * unscaled
        return blend

    def attention(self) -> float:
        """Return the attention factor."""
        if "attention_factor" in self.keys:
            return self.number("attention_factor")
        factor = self.number("factor", 1.0)
        if self.name == "yarn":
            one, all_dim = self.number("mscale"), self.number("mscale_all_dim")
            if one and all_dim:
                return _mscale(factor, one) / _mscale(factor, all_dim)
            return _mscale(factor, 1.0)
        if self.name == "longrope" and factor > 1:
            original = self.number("original_max_position_embeddings")
            return math.sqrt(1 + math.log(factor) / math.log(original))
        return 1.0

    def query(self) -> dict[str, str]:
        """Return the query parameters."""
        query = {"rope_theta": written(self.base)} if self.base != 10000 else {}
        if self.name != "none":
            query["rope_type"] = "dynamic" if self.name == "alpha" else self.name
        return query | {name: written(value) for name, value in self.keys.items()}


def written(value: Value) -> str:
    """Return a value as in a URL."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(written, value))
    return repr(int(value)) if float(value).is_integer() else repr(float(value))


def _mscale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1


def draw_factor(rng: Rng) -> float:
    """Return a factor as configs have it."""
    if rng.random() < 0.7:
        return float(rng.choice([2, 4, 8, 16, 32]))
    return round(float(rng.uniform(1.3, 12)), 2)


def _linear(rng: Rng, _: int, __: int) -> dict[str, Value]:
    return {"factor": draw_factor(rng)}


def _dynamic(rng: Rng, rows: int, _: int) -> dict[str, Value]:
    original = int(rng.choice([max(rows // 2, 4), rows, 512, 2048, 4096]))
    longer = int(original * rng.choice([1.5, 2, 4, 8])) + int(rng.integers(0, 3))
    return {
        "factor": draw_factor(rng),
        "original_max_position_embeddings": original,
        "context_length": longer,
    }


def _alpha(rng: Rng, _: int, __: int) -> dict[str, Value]:
    return {"alpha": float(rng.choice([2, 4, 8, 1000, 3.5]))}


def _yarn(rng: Rng, rows: int, _: int) -> dict[str, Value]:
    original = int(rng.choice([max(rows // 4, 300), 512, 2048, 4096, 32768]))
    keys: dict[str, Value] = {
        "factor": draw_factor(rng),
        "original_max_position_embeddings": original,
    }
    if rng.random() < 0.3:
        keys["truncate"] = False
    if rng.random() < 0.2:
        keys |= {"beta_fast": float(rng.choice([16, 24, 48, 64]))}
        keys |= {"beta_slow": float(rng.choice([1, 2, 3]))}
    if rng.random() < 0.3:
        keys |= {"mscale": float(rng.choice([1, 0.707, 0.5]))}
        keys |= {"mscale_all_dim": float(rng.choice([0.8, 1.2, 0.3]))}
    return keys


def _llama3(rng: Rng, rows: int, _: int) -> dict[str, Value]:
    return {
        "factor": float(rng.choice([8, 32, 4])),
        "low_freq_factor": float(rng.choice([1, 1, 1, 2])),
        "high_freq_factor": float(rng.choice([4, 4, 4, 8])),
        "original_max_position_embeddings": int(rng.choice([max(rows // 2, 64), 2048, 8192])),
    }


def _longrope(rng: Rng, rows: int, count: int) -> dict[str, Value]:
    original = int(rng.choice([max(rows // 2, 8), max(rows // 3, 8), 4096]))
    short = np.sort(rng.uniform(1, rng.choice([1.2, 3.0]), count))
    long = np.sort(1 + rng.uniform(0, 1, count) ** 2 * rng.choice([8.0, 60.0]))
    digits = int(rng.choice([2, 4]))
    return {
        "short_factor": tuple(np.round(short, digits).tolist()),
        "long_factor": tuple(np.round(long, digits).tolist()),
        "factor": float(rng.choice([4, 8, 32])),
        "original_max_position_embeddings": original,
        "context_length": original * int(rng.choice([1, 4, 32])),
    }


def _none(_: Rng, __: int, ___: int) -> dict[str, Value]:
    return {}


_DRAWN: Mapping[str, Callable[[Rng, int, int], dict[str, Value]]] = {
    "none": _none,
    "linear": _linear,
    "dynamic": _dynamic,
    "alpha": _alpha,
    "ntk": _linear,
    "yarn": _yarn,
    "llama3": _llama3,
    "longrope": _longrope,
}

RULE_NAMES = tuple(_DRAWN)
SCALED_RULES = RULE_NAMES[1:]


def draw_rule(rng: Rng, name: str, rotary: int, rows: int) -> Rule:
    """Return a rule with usual and unusual values of its keys."""
    base = 10000.0 if rng.random() < 0.4 else float(rng.choice(USUAL_BASES))
    return Rule(name, base, rotary, _DRAWN[name](rng, rows, rotary // 2))


def numbers_in(document: Any) -> list[float]:
    """Return the numbers in a JSON value, those in strings included where a string is one."""
    if isinstance(document, bool) or document is None:
        return []
    if isinstance(document, int | float):
        return [float(document)]
    if isinstance(document, str):
        try:
            return [float(document)]
        except ValueError:
            return []
    parts = document.values() if isinstance(document, dict) else document
    return [number for part in parts for number in numbers_in(part)]
