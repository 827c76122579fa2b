"""Frequency rules: which frequency each pair of channels turns with.

Every rule is evaluated in decimal arithmetic of PRECISION_DIGITS digits, from the exact values
of its binary64 parameters.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from service.tables.angle import TWO_PI, exact_context


class FrequencyRule(Protocol):
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
        context = exact_context()
        exponent = context.divide(Decimal(-2), Decimal(self.dim))
        ratio = context.exp(context.multiply(context.ln(Decimal(self.base)), exponent))
        frequencies = [Decimal(1)]
        while len(frequencies) < self.count:
            frequencies.append(context.multiply(frequencies[-1], ratio))
        return frequencies


@dataclass(frozen=True)
class Given:
    """Frequencies given outright: an engine's own inv_freq, as the binary64 numbers they are."""

    inv_freq: tuple[float, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.inv_freq)

    def exact(self) -> list[Decimal]:
        """Give them as decimals, exactly."""
        return [Decimal(frequency) for frequency in self.inv_freq]


def wavelengths(frequencies: list[Decimal]) -> list[Decimal]:
    """Give 2π/ω of each frequency ω: the positions after which its channels repeat.

    The wavelength of a frequency of 0 is infinite.
    """
    context = exact_context()
    return [
        context.divide(TWO_PI, frequency) if frequency else Decimal("Infinity")
        for frequency in frequencies
    ]
