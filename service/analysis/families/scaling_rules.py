"""YaRN among measured frequencies: its factor, its ramp, and the lengths and betas behind it.

Rotary rules that keep fast frequencies, divide slow ones, and blend those between.

From frequencies to the rotary rules that give them, with their parameters.
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from decimal import Decimal
from itertools import islice
from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray

from service.analysis.families.frequency_lists import (
    MeasuredFrequencies,
    Parameters,
    RuleMatch,
    between,
    even_rules,
    factors_of,
    given_rule,
    kept_bases,
    listed_rules,
)
from service.analysis.round_numbers import round_numbers
from service.encodings.rotary.rules import Llama3, Yarn, yarn_attention_factor, yarn_mscale
from service.numerics.document import ParameterValue
from service.numerics.phase import Float64s

_FAST, _SLOW = Yarn.beta_fast, Yarn.beta_slow
_TWO_PI = 2 * np.pi

# A factor nearer to 1 divides nothing by more than rounding does.
_LEAST_FACTOR = 1.001

# The logarithm of a length that no model has.
_LONGEST = 40.0

# The mscale_all_dim of published models.
_ALL_DIMS = (1.0, 0.707, 0.8)


@dataclass(frozen=True)
class _Shape:
    """What fixes the frequencies: the keys of a config, by their meaning."""

    base: float
    factor: float
    length: int
    fast: float
    truncate: bool


def yarn_rules(measured: MeasuredFrequencies, base: float) -> Iterator[RuleMatch]:
    """Find the YaRN rules of a base that give frequencies.

    The share 1 − γ·(1 − 1/f) of each frequency that is left has a γ that rises with k in a
    straight line from 0 to 1.
    """
    if base <= 1:
        return
    unscaled = measured.unscaled(base)
    share, error = measured.omega / unscaled, measured.error / unscaled
    for factor in _factors(measured, share, error):
        ramp = (1 - share) / (1 - 1 / factor)
        off = error / (1 - 1 / factor)
        for low, high, truncate, slack in _ranges(ramp, off):
            ends = _over_betas(base, measured.count, (low, high), None if truncate else slack)
            for length, fast in _lengths(*ends):
                shape = _Shape(base, factor, length, fast, truncate)
                yield from _named(measured, shape)


def _factors(measured: MeasuredFrequencies, share: Float64s, error: Float64s) -> Iterator[float]:
    """Give factors: what slow frequencies are divided by, or what the attention factor says."""
    given = list(factors_of(share, error))
    if measured.is_scaled and measured.scale is not None and measured.scale > 1:
        said = exp(min(10 * (measured.scale - 1), 20))
        off = 10 * measured.scale * max(measured.scale_error, 1e-9)
        given += list(round_numbers(said, off, 1))
    yield from dict.fromkeys(factor for factor in given if factor > _LEAST_FACTOR)


def _ranges(ramp: Float64s, off: Float64s) -> Iterator[tuple[float, float, bool, float]]:
    """Give where a ramp begins and ends, whether that is rounded, and how far it may be off."""
    places = np.arange(len(ramp), dtype=np.float64)
    known = off < 0.2
    kept = known & (np.abs(ramp) <= 2 * off)
    gone = known & (np.abs(ramp - 1) <= 2 * off)
    inner = known & ~kept & ~gone
    if not kept.any() or (ramp[inner] < 0).any() or (ramp[inner] > 1).any():
        return
    first = float(places[kept].max())
    last = float(places[gone].min()) if gone.any() else inf
    if not inner.any():
        if last < inf:
            yield first, last, True, 0.0
        return
    if int(inner.sum()) == 1:
        if last < inf:
            yield first, last, True, 0.0
        return
    weights = (off[inner].min() / off[inner]) ** 2
    total = weights.sum()
    middle = weights @ places[inner] / total
    height = weights @ ramp[inner] / total
    leverage = weights * (places[inner] - middle)
    spread = leverage @ (places[inner] - middle)
    slope = leverage @ ramp[inner] / spread
    if slope <= 0:
        return
    slope_error = np.abs(leverage) @ off[inner] / spread
    height_error = weights @ off[inner] / total
    low, high = middle - height / slope, middle + (1 - height) / slope
    reach = max(middle - low, high - middle)
    slack = float((height_error + reach * slope_error) / slope) * 2 + 1e-9
    whole = float(round(low)), float(round(high))
    if abs(low - whole[0]) <= slack and abs(high - whole[1]) <= slack and whole[0] >= 0:
        yield *whole, True, 0.0
    yield float(low), float(high), False, slack


def _over_betas(
    base: float, count: int, ends: tuple[float, float], slack: float | None
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Give what O/β_fast and O/β_slow lie between, for the ends of a ramp.

    The ends are the pairs r·ln(O/(2πβ))/(2·ln b), rounded outwards where there is no slack.
    """

    def over_beta(pair: float) -> float:
        return _TWO_PI * exp(min(log(base) * pair / count, _LONGEST))

    low, high = ends
    if slack is None:
        fast = (over_beta(low) if low > 0 else 0.0, over_beta(low + 1) * (1 - 1e-12))
        return fast, (over_beta(high - 1) * (1 + 1e-12), over_beta(high))
    fast = (over_beta(low - slack) if low > slack else 0.0, over_beta(low + slack))
    return fast, (over_beta(high - slack), over_beta(high + slack))


def _lengths(fast: tuple[float, float], slow: tuple[float, float]) -> Iterator[tuple[int, float]]:
    """Give lengths and β_fast with which a ramp has its ends, the usual one first.

    β_slow is 1: the ends fix no more than the ratios of the three.
    """
    shared = max(fast[0] * _FAST, slow[0] * _SLOW), min(fast[1] * _FAST, slow[1] * _SLOW)
    if shared[0] <= shared[1]:
        for length in _whole(*shared):
            yield length, _FAST
        return
    for length in _whole(*slow):
        most = length / fast[0] if fast[0] else 2 * length / fast[1]
        for beta in between(length / fast[1], most, 1):
            if beta >= _SLOW:
                yield length, beta


def _whole(low: float, high: float) -> Iterator[int]:
    """Give plain whole numbers between two."""
    for number in between(low, high, 3):
        if number == round(number) and number >= 1:
            yield round(number)


def _named(measured: MeasuredFrequencies, shape: _Shape) -> Iterator[RuleMatch]:
    base, factor, length, fast, truncate = astuple(shape)
    width = 2 * measured.count
    parameters: dict[str, ParameterValue] = {
        "rope_type": "yarn",
        "rope_theta": base,
        "factor": factor,
        "original_max_position_embeddings": length,
    }
    if fast != _FAST:
        parameters["beta_fast"] = fast
    if not truncate:
        parameters["truncate"] = False
    kept = f"fast frequencies fall as {base:.8g}^(-2k/{width}), slow ones are 1/{factor:g} of that"
    told = (
        f"{kept}, with a straight line along k between",
        "other lengths and betas with the same ends of that line give the same numbers",
    )
    for attention, said in _attention(measured, factor):
        rule = Yarn(width, base, factor, length, attention, fast, _SLOW, truncate)
        yield RuleMatch(rule, {**parameters, **said}, told)


def _attention(
    measured: MeasuredFrequencies, factor: float
) -> Iterator[tuple[float, dict[str, ParameterValue]]]:
    """Give what the measured scale may be, and how that is said."""
    own = float(yarn_mscale(Decimal(factor)))
    if measured.scale is None:
        yield own, {}
        return
    error = 2 * measured.scale_error
    if abs(own / measured.scale - 1) <= error:
        yield own, {}
        return
    for whole in _ALL_DIMS:
        slope = own - 1
        mscale = (measured.scale * (slope * whole + 1) - 1) / slope
        off = error * measured.scale * (slope * whole + 1) / slope
        for part in round_numbers(mscale, off / max(mscale, off), 1):
            if round(part, 3) == part:
                exact = yarn_attention_factor(*map(Decimal, (factor, part, whole)))
                yield float(exact), {"mscale": part, "mscale_all_dim": whole}
    for number in round_numbers(measured.scale, error, 2):
        yield number, {"attention_factor": number}


_LOW, _HIGH = 1.0, 4.0

# No measured length is known better than this.
_LEAST_SHARE = 1e-9


def blended_rules(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Find the YaRN and Llama 3 rules that give frequencies."""
    if measured.count < 2:
        return
    for base in kept_bases(measured):
        yield from yarn_rules(measured, base)
        if not measured.is_scaled:
            yield from _llama3(measured, base)


def _llama3(measured: MeasuredFrequencies, base: float) -> Iterator[RuleMatch]:
    unscaled = measured.unscaled(base)
    share, error = measured.omega / unscaled, measured.error / unscaled
    for factor in factors_of(share, error):
        kept = 1 - 1 / factor
        smooth, off = (share - 1 / factor) / kept, error / kept
        yield from _smoothed(unscaled, smooth, off, base, factor)


def _smoothed(
    unscaled: Float64s, smooth: Float64s, off: Float64s, base: float, factor: float
) -> Iterator[RuleMatch]:
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
    for high, lengths in _blended_lengths(turns, smooth, off, inner):
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
            yield RuleMatch(rule, parameters, told)


def _blended_lengths(
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
    for high in round_numbers(float(1 + 1 / offset), float(2 * spread[1] / offset), 2):
        relative = float(2 * (spread[0] / steep + spread[1] / offset))
        if high > _LOW and high != _HIGH:
            yield high, _plain_lengths(float(steep * (high - _LOW)), relative)


def _plain_lengths(length: float, share: float) -> tuple[float, ...]:
    """Give lengths that were plainly written down near a measured one: powers of two first."""
    share = min(share, 0.5) + _LEAST_SHARE
    return between(length * (1 - share), length * (1 + share))


_MOST = 8

# What frequencies may be off beside what was measured: nothing; a few units of the last place of
# float32; half a unit of the last place of float16, and of bfloat16.
_ARITHMETICS = (0.0, 2.0**-21, 2.0**-11, 2.0**-8)
_NARROW = 2.0**-12


def find_rules(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Find the rules that give frequencies and a scale within their errors, the plainest first.

    A rule with fewer numbers of its own comes before one with more: a series, then a blend of two,
    then a list of factors, which is looked for only where frequencies rounded to float32 are
    neither; the frequencies themselves come last.
    """
    for arithmetic in _ARITHMETICS:
        error = measured.error + np.abs(measured.omega) * arithmetic
        rounded = replace(measured, error=error)
        for kind in (even_rules, blended_rules):
            found = list(islice(_holding(rounded, kind(rounded)), _MOST))
            yield from found
            if found and arithmetic < _NARROW:
                return
            if found:
                break
        if found:
            break
    yield from listed_rules(measured)
    yield from given_rule(measured)


def _holding(measured: MeasuredFrequencies, found: Iterator[RuleMatch]) -> Iterator[RuleMatch]:
    return (each for each in found if measured.agrees(each.rule))
