"""Rotary rules that keep fast frequencies, divide slow ones, and blend those between."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from service.analysis.plain import plain_numbers
from service.analysis.rotary.rules_measured import (
    Found,
    Measured,
    Parameters,
    between,
    factors_of,
    kept_bases,
)
from service.analysis.rotary.rules_yarn import yarn_rules
from service.tables.angle import Float64s
from service.tables.rope_rules import Llama3

_LOW, _HIGH = 1.0, 4.0

# No measured length is known better than this.
_LEAST_SHARE = 1e-9


def blended_rules(measured: Measured) -> Iterator[Found]:
    """Find the YaRN and Llama 3 rules that give frequencies."""
    if measured.count < 2:
        return
    for base in kept_bases(measured):
        yield from yarn_rules(measured, base)
        if not measured.is_scaled:
            yield from _llama3(measured, base)


def _llama3(measured: Measured, base: float) -> Iterator[Found]:
    unscaled = measured.unscaled(base)
    share, error = measured.omega / unscaled, measured.error / unscaled
    for factor in factors_of(share, error):
        kept = 1 - 1 / factor
        smooth, off = (share - 1 / factor) / kept, error / kept
        yield from _smoothed(unscaled, smooth, off, base, factor)


def _smoothed(
    unscaled: Float64s, smooth: Float64s, off: Float64s, base: float, factor: float
) -> Iterator[Found]:
    """Find O, low and high of t = (O·ω/2π − low)/(high − low); low is 1, as it is in all models.

    t depends on O/(high − low) and low/(high − low) alone.
    """
    width = 2 * len(unscaled)
    turns = unscaled / (2 * np.pi)
    inner = (smooth > 2 * off) & (smooth < 1 - 2 * off) & (off < 0.2)
    told = (
        f"frequencies are kept, or divided by {factor:g}; between, a blend rises with them",
        "of original_max_position_embeddings, low_freq_factor and high_freq_factor ratios count",
    )
    for high, lengths in _lengths(turns, smooth, off, inner):
        for length in lengths:
            rule = Llama3(width, base, factor, _LOW, high, round(length))
            parameters: Parameters = {
                "rope_type": "llama3",
                "rope_theta": base,
                "factor": factor,
                "low_freq_factor": _LOW,
                "high_freq_factor": high,
                "original_max_position_embeddings": round(length),
            }
            yield Found(rule, parameters, told)


def _lengths(
    turns: Float64s, smooth: Float64s, off: Float64s, inner: NDArray[np.bool_]
) -> Iterator[tuple[float, tuple[float, ...]]]:
    if not inner.any():
        is_fast = smooth > 0.5
        if is_fast.any() and not is_fast.all():
            slowest, fastest = turns[is_fast].min(), turns[~is_fast].max()
            yield _HIGH, between(_HIGH / slowest, _LOW / fastest)
        return
    weights = (turns[inner] / off[inner]) ** 2
    lengths = (smooth[inner] * (_HIGH - _LOW) + _LOW) / turns[inner]
    length = float(weights @ lengths / weights.sum())
    error = float(weights @ ((_HIGH - _LOW) * off[inner] / turns[inner]) / weights.sum())
    yield _HIGH, _plain_lengths(length, 2 * error / length)
    if inner.sum() < 2:
        return
    design = np.stack([turns[inner], -np.ones(int(inner.sum()))], axis=1) / off[inner, np.newaxis]
    (steep, offset), *_ = np.linalg.lstsq(design, smooth[inner] / off[inner], rcond=None)
    if offset <= 0 or steep <= 0:
        return
    spread = np.abs(np.linalg.pinv(design)).sum(axis=1)
    for high in plain_numbers(float(1 + 1 / offset), float(2 * spread[1] / offset), 2):
        relative = float(2 * (spread[0] / steep + spread[1] / offset))
        if high > _LOW and high != _HIGH:
            yield high, _plain_lengths(float(steep * (high - _LOW)), relative)


def _plain_lengths(length: float, share: float) -> tuple[float, ...]:
    """Give lengths that were plainly written down near a measured one: powers of two first."""
    share = min(share, 0.5) + _LEAST_SHARE
    return between(length * (1 - share), length * (1 + share))
