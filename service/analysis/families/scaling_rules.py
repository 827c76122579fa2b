"""Find the rotary rules that give measured frequencies, with their parameters.

Rules with few numbers of their own come before rules with more: a geometric series; YaRN and
Llama 3, which keep fast frequencies, divide slow ones, and blend those between; a list of factors;
the frequencies themselves.
"""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from math import ceil, exp, log, log2, sqrt

import numpy as np

from service.analysis.families.series_rules import (
    USUAL_BASES,
    MeasuredFrequencies,
    RuleMatch,
    given_rule,
    listed_rules,
    series_rules,
    unscaled,
)
from service.analysis.measure import fit_geometric, fit_line, round_bases, weighted_mean
from service.analysis.round_numbers import round_numbers
from service.encodings.rotary.rules import Llama3, Yarn, yarn_attention_factor, yarn_mscale
from service.numerics.limits import MAX_BASE
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue

_MAX_RULES = 8

# Rounding of frequencies beside the measured error: none; a few units in the last place of
# float32; half a unit of float16; half a unit of bfloat16.
_ROUNDINGS = (0.0, 2.0**-21, 2.0**-11, 2.0**-8)
_NARROW = 2.0**-12
_MAX_BASES = 2
_TWO_PI = 2 * np.pi

_FAST, _SLOW = Yarn.beta_fast, Yarn.beta_slow

# A factor nearer to 1 changes frequencies by no more than rounding does.
_LEAST_FACTOR = 1.001

# Above the logarithm of every length that a model has.
_LONGEST = 40.0

# The mscale_all_dim of published models.
_ALL_DIMS = (1.0, 0.707, 0.8)

# low_freq_factor of all Llama 3 models, and their usual high_freq_factor.
_LOW, _HIGH = 1.0, 4.0

# The smallest relative error of a measured length.
_LEAST_ERROR = 1e-9


def find_rules(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Yield the rules that give frequencies and a scale within their errors, the simplest first.

    Lists of factors come only where frequencies rounded to float32 follow no other rule.
    """
    for rounding in _ROUNDINGS:
        rounded = replace(measured, error=measured.error + np.abs(measured.omega) * rounding)
        matches: list[RuleMatch] = []
        for rules in (series_rules, blended_rules):
            agreeing = (match for match in rules(rounded) if rounded.agrees(match.rule))
            matches = matches or list(islice(agreeing, _MAX_RULES))
        yield from matches
        if matches and rounding < _NARROW:
            return
        if matches:
            break
    yield from listed_rules(measured)
    yield from given_rule(measured)


def blended_rules(measured: MeasuredFrequencies) -> Iterator[RuleMatch]:
    """Yield the YaRN and Llama 3 rules that may give frequencies."""
    if measured.count < 2:
        return
    for base in kept_bases(measured):
        yield from yarn_rules(measured, base)
        if not measured.is_scaled:
            yield from _llama3(measured, base)


def yarn_rules(measured: MeasuredFrequencies, base: float) -> Iterator[RuleMatch]:
    """Yield the YaRN rules of a base that may give frequencies.

    Frequencies relative to the unscaled ones are 1 − γ·(1 − 1/f), where γ rises with k in a
    straight line from 0 to 1.
    """
    if base <= 1:
        return
    ratio, error = measured.ratios(base)
    for factor in _yarn_factors(measured, ratio, error):
        ramp, ramp_error = (1 - ratio) / (1 - 1 / factor), error / (1 - 1 / factor)
        for low, high, slack in _ramp_ends(ramp, ramp_error):
            fast, slow = _lengths_over_betas(base, measured.count, (low, high), slack)
            for length, beta_fast in _yarn_lengths(fast, slow):
                yield from _yarn(measured, base, factor, length, beta_fast, truncate=slack is None)


def _yarn_factors(
    measured: MeasuredFrequencies, ratio: Float64s, error: Float64s
) -> Iterator[float]:
    """Yield factors by which slow frequencies are divided, or that the attention factor gives."""
    factors, scale = list(factors_of(ratio, error)), measured.known_scale
    if measured.is_scaled and scale > 1:
        relative_error = 10 * scale * max(measured.scale_error, 1e-9)
        factors += round_numbers(exp(min(10 * (scale - 1), 20)), relative_error, 1)
    yield from dict.fromkeys(factor for factor in factors if factor > _LEAST_FACTOR)


def _ramp_ends(ramp: Float64s, error: Float64s) -> Iterator[tuple[float, float, float | None]]:
    """Yield where a ramp begins and ends, and its error; None where the ends are rounded."""
    indices = np.arange(len(ramp), dtype=np.float64)
    known = error < 0.2
    kept = known & (np.abs(ramp) <= 2 * error)
    divided = known & (np.abs(ramp - 1) <= 2 * error)
    inner = known & ~kept & ~divided
    if not kept.any() or (ramp[inner] < 0).any() or (ramp[inner] > 1).any():
        return
    if int(inner.sum()) < 2:
        if divided.any():
            yield float(indices[kept].max()), float(indices[divided].min()), None
        return
    line = fit_line(indices[inner], ramp[inner], error[inner])
    if line.slope <= 0:
        return
    low, high = (line.middle + (end - line.height) / line.slope for end in (0, 1))
    reach = max(line.middle - low, high - line.middle)
    slack = (line.height_error + reach * line.slope_error) / line.slope * 2 + 1e-9
    first, last = float(round(low)), float(round(high))
    if abs(low - first) <= slack and abs(high - last) <= slack and first >= 0:
        yield first, last, None
    yield low, high, slack


def _lengths_over_betas(
    base: float, count: int, ends: tuple[float, float], slack: float | None
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ranges of O/β_fast and O/β_slow for the ends of a ramp.

    The ends are the pairs r·ln(O/(2πβ))/(2·ln b), rounded outwards where the slack is None.
    """

    def over_beta(pair: float) -> float:
        return _TWO_PI * exp(min(log(base) * pair / count, _LONGEST))

    low, high = ends
    if slack is None:
        fast = (over_beta(low) if low > 0 else 0.0, over_beta(low + 1) * (1 - 1e-12))
        return fast, (over_beta(high - 1) * (1 + 1e-12), over_beta(high))
    fast = (over_beta(low - slack) if low > slack else 0.0, over_beta(low + slack))
    return fast, (over_beta(high - slack), over_beta(high + slack))


def _yarn_lengths(
    fast: tuple[float, float], slow: tuple[float, float]
) -> Iterator[tuple[int, float]]:
    """Yield lengths O and β_fast for ranges of O/β_fast and O/β_slow, the usual β_fast first.

    β_slow is 1: the ranges determine only the ratios of the three.
    """
    shared = max(fast[0] * _FAST, slow[0] * _SLOW), min(fast[1] * _FAST, slow[1] * _SLOW)
    if shared[0] <= shared[1]:
        yield from ((length, _FAST) for length in _round_integers(*shared))
        return
    # The exponential underflows for a ramp that is nearly level.
    if fast[1] == 0:
        return
    for length in _round_integers(*slow):
        most = length / fast[0] if fast[0] else 2 * length / fast[1]
        for beta in between(length / fast[1], most, 1):
            if beta >= _SLOW:
                yield length, beta


def _round_integers(low: float, high: float) -> Iterator[int]:
    for number in between(low, high, 3):
        if number == round(number) and number >= 1:
            yield round(number)


def _yarn(
    measured: MeasuredFrequencies,
    base: float,
    factor: float,
    length: int,
    beta_fast: float,
    *,
    truncate: bool,
) -> Iterator[RuleMatch]:
    width = 2 * measured.count
    blend = (
        f"fast frequencies fall as {base:.8g}^(-2k/{width}), slow ones are 1/{factor:g} of that, "
        "and between them the ratio falls in a straight line along k"
    )
    same = "other lengths and betas with the same ends of that line give the same numbers"
    for attention, named in _yarn_attention(measured, factor):
        rule = Yarn(width, base, factor, length, attention, beta_fast, _SLOW, truncate)
        yield RuleMatch.of(rule, blend, same, **named)


def _yarn_attention(
    measured: MeasuredFrequencies, factor: float
) -> Iterator[tuple[float, dict[str, ParameterValue]]]:
    """Yield attention factors that the measured scale may be, with their parameters."""
    own = float(yarn_mscale(Decimal(factor)))
    error = 2 * measured.scale_error
    if measured.scale is None or abs(own / measured.scale - 1) <= error:
        yield own, {}
        return
    slope = own - 1
    for all_dim in _ALL_DIMS:
        below = slope * all_dim + 1
        mscale = (measured.scale * below - 1) / slope
        mscale_error = error * measured.scale * below / slope
        for number in round_numbers(mscale, mscale_error / max(mscale, mscale_error), 1):
            if round(number, 3) == number:
                exact = yarn_attention_factor(*map(Decimal, (factor, number, all_dim)))
                yield float(exact), {"mscale": number, "mscale_all_dim": all_dim}
    for number in round_numbers(measured.scale, error, 2):
        yield number, {"attention_factor": number}


def _llama3(measured: MeasuredFrequencies, base: float) -> Iterator[RuleMatch]:
    """Find O and high of the smooth factor (O·ω/2π − low)/(high − low); low is 1 in all models.

    The factor depends on O/(high − low) and low/(high − low) alone.
    """
    width, rotations = 2 * measured.count, unscaled(base, measured.count) / _TWO_PI
    ratio, error = measured.ratios(base)
    for factor in factors_of(ratio, error):
        kept = 1 - 1 / factor
        support = (
            f"frequencies are kept, or divided by {factor:g}; between, a blend rises with them",
            "the frequencies determine only ratios of the length, low and high_freq_factor",
        )
        for high, length in _llama3_lengths(rotations, (ratio - 1 / factor) / kept, error / kept):
            rule = Llama3(width, base, factor, _LOW, high, round(length))
            yield RuleMatch.of(rule, *support)


def _llama3_lengths(
    rotations: Float64s, smooth: Float64s, error: Float64s
) -> Iterator[tuple[float, float]]:
    """Yield high_freq_factor and lengths.

    Args:
        rotations: the unscaled frequencies in rotations per position, (K,).
        smooth: the smooth factor of each frequency.
        error: of each smooth factor.
    """
    inner = (smooth > 2 * error) & (smooth < 1 - 2 * error) & (error < 0.2)
    if not inner.any():
        is_fast = smooth > 0.5
        if is_fast.any() and not is_fast.all():
            low, high = _HIGH / rotations[is_fast].min(), _LOW / rotations[~is_fast].max()
            yield from ((_HIGH, length) for length in between(low, high))
        return
    rotations, smooth, error = rotations[inner], smooth[inner], error[inner]
    length, length_error = weighted_mean(
        (smooth * (_HIGH - _LOW) + _LOW) / rotations, (_HIGH - _LOW) * error / rotations
    )
    yield from ((_HIGH, each) for each in _round_lengths(length, 2 * length_error / length))
    if len(rotations) < 2:
        return
    design = np.stack([rotations, -np.ones(len(rotations))], axis=1) / error[:, np.newaxis]
    (slope, offset), *_ = np.linalg.lstsq(design, smooth / error, rcond=None)
    if offset <= 0 or slope <= 0:
        return
    spread = np.abs(np.linalg.pinv(design)).sum(axis=1)
    relative_error = float(2 * (spread[0] / slope + spread[1] / offset))
    for high in round_numbers(float(1 + 1 / offset), float(2 * spread[1] / offset), 2):
        if high > _LOW and high != _HIGH:
            lengths = _round_lengths(float(slope * (high - _LOW)), relative_error)
            yield from ((high, each) for each in lengths)


def _round_lengths(length: float, error: float) -> tuple[float, ...]:
    """Return round lengths within a relative error of a measured one, a power of two first."""
    error = min(error, 0.5) + _LEAST_ERROR
    return between(length * (1 - error), length * (1 + error))


def kept_bases(measured: MeasuredFrequencies) -> tuple[float, ...]:
    """Return bases of the first frequencies, which a blending rule leaves unscaled.

    They follow from the longest run of first frequencies that is a series from 1 on; where it is
    too short, from the last frequencies, which such a rule divides by one factor.
    """
    count, omega, error = measured.count, measured.omega, measured.error
    for kept in sorted({count * eighths // 8 for eighths in range(1, 8)}, reverse=True):
        if kept < 2:
            break
        series = fit_geometric(omega[:kept], error[:kept])
        if series and abs(series.first - 1) <= 2 * series.first_error:
            return round_bases(series, 2 * count)[:_MAX_BASES]
    last = slice(-max(2, count // 2), None)
    tail = fit_geometric(omega[last], error[last])
    of_tail = round_bases(tail, 2 * count)[:1] if tail and tail.ratio < 1 else ()
    return tuple(dict.fromkeys((*of_tail, *USUAL_BASES[:3])))


def last_ratio(ratio: Float64s, error: Float64s) -> tuple[float, float] | None:
    """Return the common ratio of the last frequencies to the unscaled ones, and its error.

    None where all errors are too large.
    """
    known = error < 0.25 * np.abs(ratio)
    if not known.any():
        return None
    # The error is at least the spacing of float64.
    ratio, error = ratio[known], np.maximum(error[known], np.spacing(np.abs(ratio[known])))
    different = np.flatnonzero(np.abs(ratio - ratio[-1]) > error + error[-1])
    first = int(different[-1]) + 1 if len(different) else 0
    return weighted_mean(ratio[first:], error[first:])


def factors_of(ratio: Float64s, error: Float64s) -> Iterator[float]:
    """Yield round factors above 1 by which the last frequencies may be divided."""
    last = last_ratio(ratio, error)
    if last is None or last[0] <= 0:
        return
    mean, mean_error = last
    factors = round_numbers(1 / mean, 1.5 * mean_error / mean, 2)
    yield from (factor for factor in factors if factor > 1)


def between(low: float, high: float, most: int = 2) -> tuple[float, ...]:
    """Return round numbers of a range, a power of two first."""
    if not high <= MAX_BASE:
        return ()
    if not low > 0:
        return tuple(round_numbers(high / 2, 0.5, most)) if high > 0 else ()
    middle = sqrt(low) * sqrt(high)
    power = 2.0 ** ceil(log2(low))
    numbers = round_numbers(middle, min(1 - low / middle, high / middle - 1), 3)
    powers = (power,) if low <= power <= high else ()
    return tuple(dict.fromkeys((*powers, *numbers)))[:most]
