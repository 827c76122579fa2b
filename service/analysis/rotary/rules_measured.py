"""Frequencies that were measured, and the rotary rules that are found to give them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, log2, sqrt
from typing import TypeAlias

import numpy as np

from service.analysis.plain import plain_numbers
from service.analysis.progression import bases, geometric
from service.tables.angle import Float64s
from service.tables.document import ParameterValue
from service.tables.limits import MAX_BASE
from service.tables.rotary_rule import RotaryRule

# Bases of published models, for frequencies that say too little of theirs.
USUAL_BASES = (10000.0, 500000.0, 1000000.0, 100000.0, 5000000.0, 150000.0)

_MOST_BASES = 2


Parameters: TypeAlias = Mapping[str, ParameterValue]


@dataclass(frozen=True, eq=False)
class Measured:
    """Frequencies that were measured.

    Attributes:
        omega: radians per position, (K,).
        error: how far each may be from what is meant, (K,).
        scale: what cosines and sines are multiplied by; None where there are none.
        scale_error: how far it may be from what is meant, as a share of it.
    """

    omega: Float64s
    error: Float64s
    scale: float | None = None
    scale_error: float = 0.0

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.omega)

    @property
    def is_scaled(self) -> bool:
        """Tell whether cosines and sines are multiplied by anything but 1."""
        return self.scale is not None and abs(self.scale - 1) > self.scale_error

    def agrees(self, rule: RotaryRule) -> bool:
        """Tell whether a rule gives these frequencies and this scale, within their errors."""
        exact = frequencies(rule)
        if self.scale is not None:
            room = 2 * self.scale_error * abs(self.scale)
            if not abs(rule.scale - self.scale) <= room:
                return False
        return bool((np.abs(exact - self.omega) <= 2 * self.error).all())

    def unscaled(self, base: float) -> Float64s:
        """Give the frequencies that a base has without any scaling."""
        return unscaled(base, self.count)


@dataclass(frozen=True)
class Found:
    """A rule that gives frequencies.

    Attributes:
        rule: the rule.
        parameters: those that name it, all that is not left to a default.
        says: what in the frequencies speaks for it.
    """

    rule: RotaryRule
    parameters: Parameters
    says: tuple[str, ...]


def frequencies(rule: RotaryRule) -> Float64s:
    """Give the frequencies of a rule, each the float64 nearest to it."""
    return np.array([float(frequency) for frequency in rule.exact()])


def unscaled(base: float, count: int) -> Float64s:
    """Give base^(−k/count) for k below count."""
    series: Float64s = base ** (-np.arange(count) / count)
    return series


def kept_bases(measured: Measured) -> tuple[float, ...]:
    """Give bases that the first frequencies, which a rule may have kept, speak for.

    The most of them that are a series from 1 on are taken; where there are too few of them, the
    last ones, which a rule has all divided alike.
    """
    count, omega, error = measured.count, measured.omega, measured.error
    for kept in sorted({count * eighths // 8 for eighths in range(1, 8)}, reverse=True):
        if kept < 2:
            break
        series = geometric(omega[:kept], error[:kept])
        if series and abs(series.first - 1) <= 2 * series.first_error:
            return bases(series, 2 * count)[:_MOST_BASES]
    tail = geometric(omega[-max(2, count // 2) :], error[-max(2, count // 2) :])
    said = bases(tail, 2 * count)[:1] if tail and tail.ratio < 1 else ()
    return (*said, *(base for base in USUAL_BASES[:3] if base not in said))


def last_share(share: Float64s, error: Float64s) -> tuple[float, float] | None:
    """Give what the last frequencies are of unscaled ones, and its error; None if they are lost."""
    known = error < 0.25 * np.abs(share)
    if not known.any():
        return None
    # No share is known any better than to the step of the number that holds it.
    share, error = share[known], np.maximum(error[known], np.spacing(np.abs(share[known])))
    is_alike = np.abs(share - share[-1]) <= error + error[-1]
    alike = len(share) - (int(np.argmin(is_alike[::-1])) if not is_alike.all() else len(share))
    if is_alike.all():
        alike = 0
    weights = (error[alike:].min() / error[alike:]) ** 2
    mean = float(weights @ share[alike:] / weights.sum())
    return mean, float(weights @ error[alike:] / weights.sum())


def factors_of(share: Float64s, error: Float64s) -> Iterator[float]:
    """Give plain factors above 1 that the last frequencies may be divided by."""
    last = last_share(share, error)
    if last is None or last[0] <= 0:
        return
    mean, off = last
    for factor in plain_numbers(1 / mean, 1.5 * off / mean, 2):
        if factor > 1:
            yield factor


def between(low: float, high: float, most: int = 2) -> tuple[float, ...]:
    """Give plain numbers between two: powers of two and of ten first."""
    if not high <= MAX_BASE:
        return ()
    if not low > 0:
        return tuple(plain_numbers(high / 2, 0.5, most)) if high > 0 else ()
    middle = sqrt(low) * sqrt(high)
    power = 2.0 ** ceil(log2(low))
    given = [power] if low <= power <= high else []
    for number in plain_numbers(middle, min(1 - low / middle, high / middle - 1), 3):
        if number not in given:
            given.append(number)
    return tuple(given[:most])
