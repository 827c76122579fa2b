"""Frequencies: how fast each pair of channels turns.

Every one is evaluated in decimal arithmetic of PRECISION_DIGITS digits, from the exact values
of binary64 parameters.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from service.tables import scaling
from service.tables.angle import TWO_PI, exact_context


class FrequencyRule(Hashable, Protocol):
    """A hashable description of a list of frequencies."""

    @property
    def count(self) -> int:
        """How many there are."""

    def exact(self) -> list[Decimal]:
        """Evaluate them, in radians per position."""


@dataclass(frozen=True)
class Geometric:
    """The frequencies base^(−2k/dim) for k = 0 … count − 1.

    "Attention Is All You Need" (Vaswani et al. 2017), §3.5, with dim = d_model; "RoFormer" (Su et
    al. 2021), §3.2.2, with dim = rotary_dim, where the base is called rope_theta in configs.
    """

    base: float
    dim: int
    count: int

    def exact(self) -> list[Decimal]:
        """Evaluate them, in radians per position."""
        return scaling.default(Decimal(self.base), self.dim, self.count)


@dataclass(frozen=True)
class Spaced:
    """The frequencies first·(least/greatest)^(2k/dim) for k = 0 … count − 1.

    tensor2tensor 1.15.7 ``get_timing_signal_1d`` and ``add_timing_signal_nd``: first and least are
    min_timescale, greatest is max_timescale, so that a larger min_timescale makes every sinusoid
    faster. mlx 0.32.4 ``SinusoidalPositionalEncoding``: first and greatest are max_freq,
    least is min_freq, and each frequency is multiplied by 2π if it counts full turns.
    """

    first: float
    least: float
    greatest: float
    dim: int
    count: int
    full_turns: bool = False

    def exact(self) -> list[Decimal]:
        """Evaluate them, in radians per position."""
        context = exact_context()
        base = context.divide(Decimal(self.greatest), Decimal(self.least))
        fastest = Decimal(self.first)
        if self.full_turns:
            fastest = context.multiply(fastest, TWO_PI)
        series = scaling.default(base, self.dim, self.count)
        return [context.multiply(fastest, frequency) for frequency in series]


def wavelengths(frequencies: list[Decimal]) -> list[Decimal]:
    """Give 2π/ω of each frequency ω: the positions after which its channels repeat.

    The wavelength of a frequency of 0 is infinite.
    """
    context = exact_context()
    return [
        context.divide(TWO_PI, frequency) if frequency else Decimal("Infinity")
        for frequency in frequencies
    ]
