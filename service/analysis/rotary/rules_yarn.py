"""YaRN among measured frequencies: its factor, its ramp, and the lengths and betas behind it."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from decimal import Decimal
from math import exp, inf, log

import numpy as np

from service.analysis.plain import plain_numbers
from service.analysis.rotary.rules_measured import Found, Measured, between, factors_of
from service.tables import scaling
from service.tables.angle import Float64s
from service.tables.document import ParameterValue
from service.tables.rope_rules import Yarn

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


def yarn_rules(measured: Measured, base: float) -> Iterator[Found]:
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


def _factors(measured: Measured, share: Float64s, error: Float64s) -> Iterator[float]:
    """Give factors: what slow frequencies are divided by, or what the attention factor says."""
    given = list(factors_of(share, error))
    if measured.is_scaled and measured.scale is not None and measured.scale > 1:
        said = exp(min(10 * (measured.scale - 1), 20))
        off = 10 * measured.scale * max(measured.scale_error, 1e-9)
        given += list(plain_numbers(said, off, 1))
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


def _named(measured: Measured, shape: _Shape) -> Iterator[Found]:
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
        yield Found(rule, {**parameters, **said}, told)


def _attention(
    measured: Measured, factor: float
) -> Iterator[tuple[float, dict[str, ParameterValue]]]:
    """Give what the measured scale may be, and how that is said."""
    own = float(scaling.yarn_mscale(Decimal(factor)))
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
        for part in plain_numbers(mscale, off / max(mscale, off), 1):
            if round(part, 3) == part:
                exact = scaling.yarn_attention_factor(*map(Decimal, (factor, part, whole)))
                yield float(exact), {"mscale": part, "mscale_all_dim": whole}
    for number in plain_numbers(measured.scale, error, 2):
        yield number, {"attention_factor": number}
