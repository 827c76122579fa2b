"""Logarithms and powers that grow with a length: their numbers from a few lengths."""

from dataclasses import dataclass
from math import log

import numpy as np

from service.tables.angle import Float64s

# Below, ln(1 + a·m) is a·m to float32, and above it is ln a + ln m: a cannot be told from ratios.
_LEAST, _MOST = 1e-7, 1e7
_HALVINGS = 60
_ROUNDS = 40
_DAMPING = 1e-3


@dataclass(frozen=True)
class Grown:
    """outer·ln(1 + inner·m^exponent) of lengths m, or outer·m^exponent where inner is 0."""

    outer: float
    inner: float
    exponent: float

    def at(self, lengths: Float64s) -> Float64s:
        """Evaluate lengths."""
        raised = lengths**self.exponent
        grown = np.log1p(self.inner * raised) if self.inner else raised
        return np.asarray(self.outer * grown, dtype=np.float64)

    def error(self, lengths: Float64s, sizes: Float64s) -> float:
        """Give how far sizes are from it at most, as a share of what they may be.

        That is a share of them, and as much more as an engine loses that adds 1 to a small number
        and takes the logarithm of the sum: 1/(inner·m^exponent) times the same share.
        """
        off = np.abs(self.at(lengths) / sizes - 1)
        if self.inner:
            off /= 1 + 1 / (self.inner * lengths**self.exponent)
        return float(off.max())


def inner_factor(lengths: Float64s, sizes: Float64s) -> float | None:
    """Find a of sizes that are as ln(1 + a·m) to each other, by the first length and the last.

    Their ratio falls from that of the lengths, at a = 0, to 1, as a grows; it is halved between.
    """
    first, last = float(lengths[0]), float(lengths[-1])
    ratio = float(sizes[-1] / sizes[0])
    low, high = log(_LEAST), log(_MOST)

    def ratio_of(exponent: float) -> float:
        factor = np.exp(exponent)
        return float(np.log1p(factor * last) / np.log1p(factor * first))

    if not ratio_of(high) < ratio < ratio_of(low):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if ratio_of(middle) > ratio:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))


def logarithm(lengths: Float64s, sizes: Float64s) -> Grown | None:
    """Fit a logarithm of lengths."""
    inner = inner_factor(lengths, sizes)
    if inner is None:
        return None
    outer = float(np.mean(sizes / np.log1p(inner * lengths)))
    return _refined(Grown(outer, inner, 1.0), lengths, sizes, has_exponent=False)


def power(lengths: Float64s, sizes: Float64s) -> Grown:
    """Fit a power of lengths, which is a straight line of logarithms."""
    exponent, offset = np.polyfit(np.log(lengths), np.log(sizes), 1)
    return Grown(float(np.exp(offset)), 0.0, float(exponent))


def logarithm_of_power(lengths: Float64s, sizes: Float64s) -> Grown:
    """Fit a logarithm of a power of lengths, from a few exponents to begin with."""
    fits = []
    for exponent in (0.5, 1.0, 1.5):
        raised = lengths**exponent
        inner = inner_factor(raised, sizes) or 1.0
        outer = float(np.mean(sizes / np.log1p(inner * raised)))
        begun = Grown(outer, inner, exponent)
        fits.append(_refined(begun, lengths, sizes, has_exponent=True))
    return min(fits, key=lambda fit: fit.error(lengths, sizes))


def _refined(begun: Grown, lengths: Float64s, sizes: Float64s, *, has_exponent: bool) -> Grown:
    """Bring the shares that sizes are off down (Levenberg and Marquardt), numbers by logarithms."""
    numbers = np.log([begun.outer, begun.inner, begun.exponent])
    kept = 3 if has_exponent else 2
    best, error, damping = begun, _misfit(begun, lengths, sizes), _DAMPING
    for _ in range(_ROUNDS):
        residual, slopes = _residual(best, lengths, sizes)
        slopes = slopes[:, :kept]
        normal = slopes.T @ slopes
        step = np.linalg.lstsq(normal + damping * np.diag(np.diag(normal)), slopes.T @ residual)[0]
        moved = numbers.copy()
        moved[:kept] -= np.clip(step, -1.0, 1.0)
        tried = Grown(*np.exp(moved).tolist())
        found = _misfit(tried, lengths, sizes)
        if found < error:
            best, error, numbers, damping = tried, found, moved, damping / 10
        else:
            damping *= 10
        if float(np.abs(step).max()) < 2.0**-50:
            break
    return best


def _misfit(fit: Grown, lengths: Float64s, sizes: Float64s) -> float:
    return float(np.sum((fit.at(lengths) / sizes - 1) ** 2))


def _residual(fit: Grown, lengths: Float64s, sizes: Float64s) -> tuple[Float64s, Float64s]:
    """Give shares that sizes are off, and how they change with the logarithm of each number."""
    share = fit.at(lengths) / sizes
    grown = fit.inner * lengths**fit.exponent
    by_inner = fit.outer * grown / (1 + grown) / sizes
    by_exponent = by_inner * fit.exponent * np.log(lengths)
    return share - 1, np.stack([share, by_inner, by_exponent], axis=1)
