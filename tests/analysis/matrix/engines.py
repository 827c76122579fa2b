"""How engines compute angles: the arithmetic of each, from exponents to float32 products."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from tests.analysis.matrix.floats import Floats, Reals
from tests.analysis.matrix.rules import Rule

FLOAT = np.float32


@dataclass(frozen=True)
class Exponents:
    """The exponents start + k·stride of a base, k = 0 … count − 1."""

    count: int
    stride: float
    start: float = 0.0

    def exact(self) -> Floats:
        return self.start + np.arange(self.count, dtype=np.float64) * self.stride


Unscaled: TypeAlias = Callable[[float, Exponents], Reals]


def _power(base: float, exponents: Exponents) -> Reals:
    """1/b**e in float32: transformers, vLLM, Meta's Llama, GPT-J."""
    return FLOAT(1) / _powf(base, exponents.exact().astype(FLOAT))


def _powf(base: float, exponents: Reals) -> Reals:
    """Return the powers of a float32 base, each rounded to float32."""
    return (float(FLOAT(base)) ** exponents.astype(np.float64)).astype(FLOAT)


def _exponential_of_two(base: float, exponents: Exponents) -> Reals:
    """exp2(−e·log2 b): MLX."""
    binary = FLOAT(math.log2(base))
    products = -(exponents.exact().astype(FLOAT) * binary)
    return np.exp2(products.astype(np.float64)).astype(FLOAT)


def _exponential(base: float, exponents: Exponents) -> Reals:
    """exp(−k·(ln b·stride)): fairseq, tensor2tensor, the sinusoids of tutorials."""
    increment = FLOAT(math.log(base) * exponents.stride)
    products = -(np.arange(exponents.count, dtype=FLOAT) * increment)
    products -= FLOAT(exponents.start * math.log(base))
    return np.exp(products.astype(np.float64)).astype(FLOAT)


def _timescale(base: float, exponents: Exponents) -> Reals:
    """b**e in float32, by which positions are divided: JAX, MaxText."""
    return _powf(base, exponents.exact().astype(FLOAT))


def _double(base: float, exponents: Exponents) -> Reals:
    """b**−e in float64: NumPy, Marian, DeepSpeed."""
    powers: Floats = base ** -exponents.exact()
    return powers


@dataclass(frozen=True)
class Engine:
    """An engine's arithmetic.

    Attributes:
        unscaled: the frequencies of a base; of JAX, their inverses.
        angles: whether angles are products, quotients, or multiplied from pair to pair.
        packs: the packings that the engine has.
        sines: whether the engine's own float32 sines are taken, instead of the nearest ones.
    """

    name: str
    unscaled: Unscaled
    packs: tuple[str, ...]
    angles: Literal["product", "quotient", "repeated"] = "product"
    sines: bool = False

    @property
    def is_double(self) -> bool:
        return self.unscaled is _double

    def frequencies(self, rule: Rule, exponents: Exponents) -> Reals:
        """Return the frequencies of a rule, in the engine's arithmetic."""
        values = self.unscaled(rule.base_used, exponents)
        if self.angles == "quotient":
            values = FLOAT(1) / values
        return rule.scaled(values)

    def products(
        self, positions: Floats, rule: Rule, exponents: Exponents, factor: float = 1.0
    ) -> Reals:
        """Return the angles (S, r/2) of positions (S,), or (S, r/2) where pairs have their own."""
        if self.is_double:
            return positions * (self.frequencies(rule, exponents) * factor)
        real = positions.astype(FLOAT)
        if self.angles == "repeated":
            return self._repeated(real, rule, exponents) * FLOAT(factor)
        frequencies = self.frequencies(rule, exponents) * FLOAT(factor)
        if self.angles == "quotient":
            quotients: Reals = real / (FLOAT(1) / frequencies)
            return quotients
        return real * frequencies

    def _repeated(self, positions: Reals, rule: Rule, exponents: Exponents) -> Reals:
        """θ multiplied by b^(−stride) from pair to pair, and divided by the rule's divisors."""
        base = rule.base_used
        ratio = FLOAT(base**-exponents.stride)
        first = FLOAT(base**-exponents.start)
        theta = np.broadcast_to(positions, (len(positions), exponents.count)).copy()
        product = theta[:, 0] * first
        if positions.shape[1] == 1:
            for k in range(exponents.count):
                theta[:, k] = product
                product = product * ratio
        else:
            theta *= np.cumprod(np.full(exponents.count, ratio)) / ratio
        unscaled = base ** -exponents.exact()
        divisors = (unscaled / rule.scaled(unscaled)).astype(FLOAT)
        return theta / divisors


_TORCH = ("half", "interleaved", "compact", "cos", "sin", "half_concat", "pair")

ENGINES: Mapping[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine("torch", _power, _TORCH, sines=True),
        Engine("vllm", _power, ("concat", "compact")),
        Engine("ggml", _power, ("flat", "compact"), angles="repeated"),
        Engine("mlx", _exponential_of_two, ("compact", "half", "pair")),
        Engine("jax", _timescale, ("half", "compact", "concat"), angles="quotient"),
        Engine("meta", _power, ("complex", "pair", "interleaved")),
        Engine("llama2c", _power, ("flat", "compact")),
        Engine("gptj", _power, ("sin_concat", "interleaved")),
        Engine("double", _double, (*_TORCH, "concat", "flat", "sin_concat", "complex")),
    )
}
"""Engines of rotary tables."""

SINUSOIDS: Mapping[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine("tutorial", _exponential, ("paper", "sin_concat"), sines=True),
        Engine("fairseq", _exponential, ("sin_concat",), sines=True),
        Engine("tensor2tensor", _exponential, ("sin_concat",)),
        Engine("keras", _power, ("paper", "sin_concat")),
        Engine("marian", _double, ("paper", "sin_concat")),
    )
}
"""Engines of sinusoidal tables."""


def engine_named(name: str) -> Engine:
    return ENGINES[name] if name in ENGINES else SINUSOIDS[name]
