"""Rotary rules that divide each frequency by its own number, and frequencies given outright."""

from collections.abc import Iterator
from math import log, sqrt

import numpy as np

from service.analysis.plain import plain_numbers
from service.analysis.rotary.rules_measured import USUAL_BASES, Found, Measured, Parameters
from service.tables.angle import MAX_FREQUENCY, MIN_FREQUENCY, Float64s
from service.tables.document import ParameterValue
from service.tables.limits import MAX_ATTENTION_FACTOR, MAX_FACTOR, MIN_FACTOR
from service.tables.rope_rules import Default, LongRope, Ntk
from service.tables.rotary_rule import Given

_LENGTHS = (4096, 8192, 2048, 16384, 32768, 65536, 131072)
_FEW_DIGITS = 4


def listed_rules(measured: Measured) -> Iterator[Found]:
    """Find the rules with a list of factors: NTK mixed by a formula, longrope, ggml's."""
    if not (measured.omega > 2 * measured.error).all() or measured.count < 2:
        return
    if not measured.is_scaled:
        yield from _mixed(measured)
    base = USUAL_BASES[0]
    unscaled = measured.unscaled(base)
    factors = _plain(unscaled / measured.omega, measured.error / measured.omega)
    if min(factors) < MIN_FACTOR or max(factors) > MAX_FACTOR:
        return
    ends = f"from {min(factors):.6g} to {max(factors):.6g}"
    told = (f"frequencies of base {base:g} are divided by numbers {ends} that follow no formula",)
    if not measured.is_scaled:
        named: dict[str, ParameterValue] = {"rope_theta": base, "freq_factors": factors}
        yield Found(Default(2 * measured.count, base, factors), named, told)
        return
    yield from _longrope(measured, base, factors, told)


def given_rule(measured: Measured) -> Iterator[Found]:
    """Give the measured frequencies outright, whatever rule they come from."""
    shares = measured.error / np.maximum(np.abs(measured.omega), MIN_FREQUENCY)
    lost = np.abs(measured.omega) <= measured.error
    rounded = _plain(np.where(lost, 1.0, measured.omega), np.where(lost, 1.0, shares))
    omega = tuple(0.0 if no else number for no, number in zip(lost, rounded, strict=True))
    if min(omega) < 0 or max(omega) > MAX_FREQUENCY:
        return
    parameters: dict[str, ParameterValue] = {"inv_freq": omega}
    scale = 1.0
    if measured.is_scaled and measured.scale is not None:
        scale = next(plain_numbers(measured.scale, measured.scale_error), measured.scale)
        parameters["attention_factor"] = scale
    if not MIN_FACTOR <= scale <= MAX_ATTENTION_FACTOR:
        return
    ends = f"from {max(omega):.6g} to {min(omega):.6g}"
    told = (f"{measured.count} frequencies {ends} follow no known rule: they are as measured",)
    yield Found(Given(omega, scale), parameters, told)


def _plain(numbers: Float64s, shares: Float64s) -> tuple[float, ...]:
    """Round each number to the fewest digits that its error allows."""
    return tuple(
        next(plain_numbers(float(number), float(share), 1), float(number))
        for number, share in zip(numbers, shares, strict=True)
    )


def _mixed(measured: Measured) -> Iterator[Found]:
    """Find ln F_k = a·(k + 1)^B with a = ln f/(r/2)^B: a line in logarithms of both."""
    count = measured.count
    for base in USUAL_BASES[:3]:
        divided = np.log(measured.unscaled(base) / measured.omega)
        off = measured.error / measured.omega
        known = (divided > 4 * off) & (off < 0.2)
        if int(known.sum()) < max(2, count // 2):
            continue
        places, heights = np.log(np.arange(1, count + 1)[known]), np.log(divided[known])
        shares = off[known] / divided[known]
        weights = (shares.min() / shares) ** 2
        middle = weights @ places / weights.sum()
        leverage = weights * (places - middle)
        spread = leverage @ (places - middle)
        slope = leverage @ heights / spread
        error = np.abs(leverage) @ shares / spread
        end = weights @ heights / weights.sum() + slope * (log(count) - middle)
        reach = weights @ shares / weights.sum() + abs(log(count) - middle) * error
        if not (0 < slope < 16 and end < 20 and reach < 0.2):
            continue
        told = (f"the frequencies of base {base:g} are divided by exp(a·(k + 1)^{slope:.4g})",)
        for mixed in plain_numbers(float(slope), float(2 * error / slope), 1):
            logarithm = float(np.exp(end))
            for factor in plain_numbers(float(np.exp(logarithm)), float(2 * logarithm * reach), 1):
                named: Parameters = {"rope_type": "ntk", "rope_theta": base, "factor": factor}
                rule = Ntk(2 * count, base, factor, mixed)
                yield Found(rule, {**named, "mixed_b": mixed}, told)


def _longrope(
    measured: Measured, base: float, factors: tuple[float, ...], told: tuple[str, ...]
) -> Iterator[Found]:
    says = (
        *told,
        "one list of them holds for one length: it stands as short_factor and as long_factor",
    )
    parameters: dict[str, ParameterValue] = {
        "rope_type": "longrope",
        "rope_theta": base,
        "short_factor": factors,
        "long_factor": factors,
    }
    width = 2 * measured.count
    for length, attention, said in _attention(measured):
        rule = LongRope(width, base, length, length, attention, factors, factors)
        named = {**parameters, "original_max_position_embeddings": length, **said}
        yield Found(rule, named, says)


def _attention(measured: Measured) -> Iterator[tuple[int, float, dict[str, ParameterValue]]]:
    """Give lengths O and factors f with √(1 + ln f/ln O) as the scale; else the scale itself."""
    scale = measured.scale or 1.0
    if not MIN_FACTOR <= scale <= MAX_ATTENTION_FACTOR:
        return
    for length in _LENGTHS:
        logarithm = log(length) * (scale**2 - 1)
        if not 0 < logarithm < 20:
            continue
        error = 4 * scale**2 * log(length) * measured.scale_error
        factor = next(plain_numbers(float(np.exp(logarithm)), error, 1), None)
        if factor is not None and (factor == round(factor) or len(f"{factor:g}") <= _FEW_DIGITS):
            exact = sqrt(1 + log(factor) / log(length))
            yield length, exact, {"factor": factor}
            return
    for number in plain_numbers(scale, 2 * measured.scale_error, 1):
        yield _LENGTHS[0], number, {"attention_factor": number, "factor": 1.0}
