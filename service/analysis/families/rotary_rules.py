"""Find the rotary rules that give measured frequencies, with their parameters.

In closed form: a base, a linear factor, NTK and alpha from the line of the logarithms. YaRN and
Llama 3 keep the fast frequencies, which give the base, and divide the slow ones, which give the
factor; their other keys are tried with their usual values. Where no rule fits, a list of factors or
the frequencies themselves do.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from math import ceil, exp, log, sqrt

import numpy as np

from service.analysis.explanation.formulas import ORIGINAL, USUAL_LENGTHS, Rule, Series
from service.analysis.explanation.measured import fewest_digits
from service.analysis.explanation.sources import USUAL_BASES
from service.analysis.families.readings import FrequencyFit, MeasuredFrequencies
from service.analysis.families.requests import USUAL_BASE
from service.analysis.families.series import (
    GeometricSeries,
    fit_geometric,
    plain_bases,
    plain_numbers,
)
from service.analysis.precision import rounded
from service.analysis.round_numbers import round_number
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, DType
from service.numerics.limits import MAX_ATTENTION_FACTOR, MAX_FACTOR, MIN_FACTOR
from service.numerics.phase import MAX_FREQUENCY, Float64s
from service.numerics.tables import ParameterValue

_MAX_FITS = 8
# Bounds of errors are generous: numbers of lists are rounded to parts of them, too, and at last not
# at all.
_SHARES = (1.0, 0.2, 0.04, 1e-4, 0.0)
_MOST_BASES, _MOST_FACTORS = 4, 3
_LENGTHS = (*USUAL_LENGTHS, *(2**k for k in range(4, 11)), 2**20)
_BETAS = ((32.0, 1.0), (64.0, 1.0), (16.0, 1.0), (32.0, 2.0), (32.0, 4.0))
_BANDS = ((1.0, 4.0), (1.0, 2.0), (1.0, 8.0), (1.0, 32.0), (2.0, 4.0))
# The mscale_all_dim of published models.
_ALL_DIMS = (1.0, 0.707, 0.8)
_FEW_DIGITS = 3
_FINEST_ALPHA = 2.0**-12
# A factor nearer to 1 changes frequencies by no more than rounding does; a larger one is no factor.
_LEAST_FACTOR, _MOST_FACTOR = 1.001, 1e4
_MOST_SCALE_LOGARITHM = 20.0


def exponents(count: int) -> Float64s:
    """Return 2k/r for r = 2·count."""
    return np.arange(count) / count


def rotary_fits(measured: MeasuredFrequencies) -> Iterator[FrequencyFit]:
    """Yield the rules that give frequencies and a scale within their errors, the plainest first."""
    found = list(islice(_rules(measured), _MAX_FITS))
    yield from found
    if not found:
        yield from _mixed(measured)
        for dtype in (BFLOAT16, FLOAT16):
            yield from _stored(measured, dtype)
        for share in _SHARES:
            yield from _lists(replace(measured, error=measured.error * share))
        for share in _SHARES:
            yield from _given(replace(measured, error=measured.error * share))
        yield from _stored(measured, FLOAT32)


def usual_fits(count: int) -> Iterator[FrequencyFit]:
    """Yield the unscaled frequencies of usual bases."""
    for base in USUAL_BASES:
        support = (f"frequencies are those of the usual base {base:g}",)
        yield FrequencyFit(
            {"rope_theta": base}, Series(base, exponents(count), 2 * count).omega, support
        )


def _rules(measured: MeasuredFrequencies) -> Iterator[FrequencyFit]:
    series = fit_geometric(measured.omega, measured.error)
    if series is not None and not measured.is_scaled:
        yield from _of_series(measured, series)
    if measured.count > 1:
        yield from _blended(measured)
    if series is None and not measured.is_scaled:
        yield from _proportional(measured)


def _fit(
    measured: MeasuredFrequencies, rule: Rule, base: float, support: str, **more: ParameterValue
) -> Iterator[FrequencyFit]:
    """Yield the fit of a rule if it gives the frequencies."""
    series = Series(base, exponents(measured.count), 2 * measured.count)
    omega = rule.frequencies(series)
    if measured.agrees(omega):
        own = {} if rule.rope_type == "default" else {"rope_type": rule.rope_type}
        keys = {name: value for name, value in rule.keys.items() if name != "attention_factor"}
        scale = measured.scale or 1.0
        yield FrequencyFit({**own, "rope_theta": base, **keys, **more}, omega, (support,), scale)


# Rules with one geometric series.


def _of_series(measured: MeasuredFrequencies, series: GeometricSeries) -> Iterator[FrequencyFit]:
    count, width = measured.count, 2 * measured.count
    base = series.base(count)[0]
    support = f"{count} frequencies fall from {series.first:.6g} as {base:.6g}^(-2k/{width})"
    if abs(series.first - 1) <= 2 * series.first_error + 2.0**-40:
        bases = plain_bases(series, width)
        alphas = list(_alphas(series, width))
        if all(_odd_digits(each) > _FEW_DIGITS for each in bases) and alphas:
            for own, alpha in alphas:
                yield from _fit(measured, Rule("dynamic", {"alpha": alpha}), own, support)
        for each in bases:
            yield from _fit(measured, Rule(), each, support)
        return
    bases = plain_bases(series, width)
    factors = plain_numbers(1 / series.first, 2 * series.first_error + 2.0**-50, (2.5,))
    linear = [(factor, each) for each in bases[:1] for factor in factors[:2]]
    ntk = list(_ntk(series, width))
    rules = [("linear", *each) for each in linear] + [("ntk", *each) for each in ntk]
    for name, factor, own in sorted(rules, key=lambda each: _odd_digits(each[1]) + (each[1] <= 1)):
        yield from _fit(measured, Rule(name, {"factor": factor}), own, support)


def _odd_digits(number: float) -> int:
    """Count the digits that a number is written with; powers of two count as one."""
    mantissa, _ = np.frexp(number)
    if mantissa == 0.5:
        return 1
    return len(repr(float(number)).split("e")[0].replace(".", "").strip("0") or "0")


def _alphas(series: GeometricSeries, width: int) -> Iterator[tuple[float, float]]:
    """Yield usual bases with a plain alpha that gives the measured base."""
    measured, error = series.base(width / 2)
    if width < 4 or error >= 0.5:
        return
    for base in list(USUAL_BASES)[:6]:
        power = (width - 2) / width
        alpha = (measured / base) ** power
        if alpha < 1 + error:
            continue
        nearest = fewest_digits(alpha * (1 - error * power), alpha * (1 + error * power))
        if nearest is not None and nearest[1] <= _FEW_DIGITS:
            yield base, nearest[0]
            continue
        unit = 0.5
        while unit >= max(_FINEST_ALPHA, 2 * alpha * error):
            if abs(round(alpha / unit) * unit - alpha) <= alpha * error:
                yield base, round(alpha / unit) * unit
                break
            unit /= 2


def _ntk(series: GeometricSeries, width: int) -> Iterator[tuple[float, float]]:
    """Yield f of ω_0 = f^(−2/r), and b of the series' base b·f."""
    if not (0 < series.first < 1) or not series.has_ratio:
        return
    if -log(series.first) * width / 2 > log(_MOST_FACTOR):
        return
    factor, product = exp(-log(series.first) * width / 2), series.base(width / 2)[0]
    if not factor < product:
        return
    for each in plain_numbers(factor, width * series.first_error, ())[:2]:
        for base in plain_numbers(product / each, width / 2 * series.ratio_error)[:1]:
            yield each, base


def _proportional(measured: MeasuredFrequencies) -> Iterator[FrequencyFit]:
    """Find a series that ends before the last frequencies, which are 0."""
    count, width = measured.count, 2 * measured.count
    moving = np.flatnonzero(np.abs(measured.omega) > 2 * measured.error)
    rotating = int(moving[-1]) + 1 if len(moving) else 0
    if not 0 < rotating < count:
        return
    series = fit_geometric(measured.omega[:rotating], measured.error[:rotating])
    if series is None:
        return
    part = rotating / count
    if int(part * width // 2) != rotating:
        part = ceil(part * 2**20) / 2**20
    keys: dict[str, ParameterValue] = {"partial_rotary_factor": part}
    if abs(series.first - 1) > 2 * series.first_error:
        factors = plain_numbers(1 / series.first, 2 * series.first_error, ())
        keys |= {"factor": factors[0]} if factors else {}
    support = f"the last {count - rotating} of {count} frequencies are 0"
    for base in plain_bases(series, width):
        yield from _fit(measured, Rule("proportional", keys), base, support)


# Rules that keep fast frequencies and divide slow ones.


def _blended(measured: MeasuredFrequencies) -> Iterator[FrequencyFit]:
    """Yield the YaRN and Llama 3 rules of usual keys that give frequencies."""
    support = "fast frequencies are kept, slow ones are divided by the factor, with a blend between"
    for base in kept_bases(measured):
        series = Series(base, exponents(measured.count), 2 * measured.count)
        for factor in _factors(measured, series):
            if _is_blend(measured, series, factor):
                for rule in _usual_rules(factor, is_scaled=measured.is_scaled):
                    for more in _attention(measured, rule):
                        yield from _fit(measured, rule, base, support, **more)


def _is_blend(measured: MeasuredFrequencies, series: Series, factor: float) -> bool:
    """Return whether frequencies lie between those of a series and these divided by a factor.

    Their ratio must not rise from pair to pair.
    """
    ratio, error = measured.omega / series.omega, 3 * measured.error / series.omega + 1e-12
    is_between = (ratio <= 1 + error) & (ratio >= 1 / factor - error)
    is_falling = np.diff(ratio) <= error[1:] + error[:-1]
    return bool(is_between.all() and is_falling.all())


def kept_bases(measured: MeasuredFrequencies) -> tuple[float, ...]:
    """Return bases of the first frequencies, which a blending rule leaves unscaled, and usual ones.

    They follow from the longest run of first frequencies that is a series from 1 on; where it is
    too short, from the last frequencies, which such a rule divides by one factor.
    """
    count, omega, error = measured.count, measured.omega, measured.error
    found: list[float] = []
    for kept in sorted({max(2, count * eighths // 8) for eighths in range(1, 8)}, reverse=True):
        series = fit_geometric(omega[:kept], error[:kept])
        if series and abs(series.first - 1) <= 2 * series.first_error + 2.0**-40:
            found = plain_bases(series, 2 * count)[:2]
            break
    last = slice(-max(2, count // 2), None)
    tail = fit_geometric(omega[last], error[last])
    if tail is not None and tail.ratio < 1:
        found += plain_bases(tail, 2 * count)[:1]
    usual = [
        base
        for base in USUAL_BASES
        if abs(omega[1] - base ** (-1 / count)) <= 4 * error[1] + 1e-9 and count > 1
    ]
    return tuple(dict.fromkeys((*found, *usual)))[:_MOST_BASES]


def _factors(measured: MeasuredFrequencies, series: Series) -> tuple[float, ...]:
    """Return the factors above 1 by which the last frequencies may be divided."""
    ratio, error = measured.omega / series.omega, measured.error / series.omega
    known = np.flatnonzero((error < 0.25 * np.abs(ratio)) & (ratio > 0))
    found: list[float] = []
    if len(known):
        last = known[np.abs(ratio[known] - ratio[known[-1]]) <= error[known] + error[known[-1]]]
        weight = 1 / np.maximum(error[last], 1e-18) ** 2
        mean = float((weight * ratio[last]).sum() / weight.sum())
        relative = float(error[last].min() / mean) * 1.5 + 2.0**-40
        found += plain_numbers(1 / mean, relative, ())[:2]
    scale = measured.scale or 1.0
    if measured.is_scaled and scale > 1:
        relative = 10 * scale * max(measured.scale_error, 1e-9)
        found += plain_numbers(exp(min(10 * (scale - 1), 20)), relative, ())[:1]
    factors = dict.fromkeys(each for each in found if _LEAST_FACTOR < each < _MOST_FACTOR)
    return tuple(factors)[:_MOST_FACTORS]


def _usual_rules(factor: float, *, is_scaled: bool) -> Iterator[Rule]:
    """Yield the blending rules of a factor with the usual values of their other keys."""
    for length in _LENGTHS:
        for fast, slow in _BETAS:
            betas = ({} if fast == 32 else {"beta_fast": fast}) | (
                {} if slow == 1 else {"beta_slow": slow}
            )
            for truncate in (True, False):
                rounding = {} if truncate else {"truncate": False}
                yield Rule("yarn", {"factor": factor, ORIGINAL: length, **betas, **rounding})
        for low, high in () if is_scaled else _BANDS:
            bands = {"low_freq_factor": low, "high_freq_factor": high}
            yield Rule("llama3", {"factor": factor, **bands, ORIGINAL: length})


def _attention(measured: MeasuredFrequencies, rule: Rule) -> Iterator[dict[str, ParameterValue]]:
    """Yield the keys of the attention factor that give the measured scale."""
    if rule.rope_type != "yarn" or measured.scale is None:
        yield {}
        return
    error = 2 * measured.scale_error
    if abs(rule.scale / measured.scale - 1) <= error:
        yield {}
        return
    slope = rule.scale - 1
    for all_dim in _ALL_DIMS:
        below = slope * all_dim + 1
        mscale = (measured.scale * below - 1) / slope
        spread = error * measured.scale * below / slope
        for number in plain_numbers(mscale, spread / max(mscale, spread, 1e-9) * 0.99, ())[:1]:
            if round(number, 3) == number:
                yield {"mscale": number, "mscale_all_dim": all_dim}
    for number in plain_numbers(measured.scale, error, ())[:2]:
        yield {"attention_factor": number}


# Rules with a number for each frequency.


def _rounded(values: Float64s, errors: Float64s) -> tuple[float, ...]:
    """Return numbers of few digits within relative errors of values."""
    pairs = zip(values.tolist(), errors.tolist(), strict=True)
    return tuple(round_number(value, error) for value, error in pairs)


def _lists(measured: MeasuredFrequencies) -> Iterator[FrequencyFit]:
    """Yield longrope where cosines and sines are scaled, and freq_factors where they are not."""
    omega, error, count = measured.omega, measured.error, measured.count
    if not (omega > 2 * error).all() or count < 2:
        return
    series = Series(USUAL_BASE, exponents(count), 2 * count)
    factors = _rounded(series.omega / omega, error / omega)
    if min(factors) < MIN_FACTOR or max(factors) > MAX_FACTOR:
        return
    ends = f"from {min(factors):.6g} to {max(factors):.6g}"
    support = (f"frequencies of base {USUAL_BASE:g} are divided by numbers {ends}",)
    base: dict[str, ParameterValue] = {"rope_theta": USUAL_BASE}
    if not measured.is_scaled:
        yield FrequencyFit(
            {**base, "freq_factors": factors}, series.omega / np.array(factors), support
        )
        return
    for length, named in _longrope_attention(measured):
        lists: dict[str, ParameterValue] = {
            "short_factor": factors,
            "long_factor": factors,
            ORIGINAL: length,
        }
        kind: dict[str, ParameterValue] = {"rope_type": "longrope"}
        parameters = kind | base | lists | named
        omega = series.omega / np.array(factors)
        one = "one length shows one list, which is given as short_factor and as long_factor"
        yield FrequencyFit(parameters, omega, (*support, one), measured.scale or 1.0)


def _given(measured: MeasuredFrequencies) -> Iterator[FrequencyFit]:
    """Yield the measured frequencies as inv_freq, whatever rule they come from."""
    still = np.abs(measured.omega) <= measured.error
    if (measured.omega[~still] < 0).any() or measured.omega.max() > MAX_FREQUENCY:
        return
    relative = measured.error / np.maximum(np.abs(measured.omega), 1e-300)
    numbers = _rounded(np.where(still, 1.0, measured.omega), np.minimum(relative, 0.5))
    omega = tuple(0.0 if none else each for each, none in zip(numbers, still, strict=True))
    parameters: dict[str, ParameterValue] = {"inv_freq": omega}
    scale = measured.scale or 1.0
    if measured.is_scaled:
        found = plain_numbers(scale, measured.scale_error, ())
        parameters["attention_factor"] = scale = found[0] if found else scale
    if MIN_FACTOR <= scale <= MAX_ATTENTION_FACTOR:
        ends = f"from {max(omega):.6g} to {min(omega):.6g}"
        support = f"{measured.count} frequencies {ends} follow no known rule: they are as measured"
        yield FrequencyFit(parameters, np.array(omega), (support,), scale)


def _stored(measured: MeasuredFrequencies, dtype: DType) -> Iterator[FrequencyFit]:
    """Yield measured frequencies that may be numbers of a type: of usual bases, and as they are."""
    omega, count = rounded(measured.omega, dtype), measured.count
    if not measured.agrees(omega):
        return
    for base in () if measured.is_scaled else USUAL_BASES:
        exact = Series(base, exponents(count), 2 * count).omega
        if np.array_equal(rounded(exact, dtype), omega):
            support = f"frequencies are those of base {base:g}, rounded to {dtype.name}"
            yield FrequencyFit({"rope_theta": base}, omega, (support,))
    yield from _given(replace(measured, omega=omega, error=np.zeros(count)))


def _mixed(measured: MeasuredFrequencies) -> Iterator[FrequencyFit]:
    """Find ln F_k = a·(k + 1)^B with a = ln f/(r/2)^B: a line in logarithms of both."""
    count = measured.count
    if measured.is_scaled or count < 2 or not (measured.omega > 0).all():
        return
    for base in list(USUAL_BASES)[:3]:
        series = Series(base, exponents(count), 2 * count)
        divided, error = np.log(series.omega / measured.omega), measured.error / measured.omega
        known = (divided > 4 * error) & (error < 0.2)
        if int(known.sum()) < max(2, count // 2):
            continue
        x, y = np.log(np.arange(1, count + 1)[known]), np.log(divided[known])
        weight = (divided[known] / error[known]) ** 2
        middle = float((weight * x).sum() / weight.sum())
        height = float((weight * y).sum() / weight.sum())
        spread = float((weight * (x - middle) ** 2).sum())
        slope = float((weight * (x - middle) * (y - height)).sum()) / spread
        slope_error = 6 / sqrt(spread)
        end = height + slope * (log(count) - middle)
        end_error = 4 / sqrt(weight.sum()) + abs(log(count) - middle) * slope_error
        # The factor of the last frequency is exp(exp(end)).
        if not (0 < slope < 16 and end < log(log(_MOST_FACTOR)) and end_error < 0.2):
            continue
        support = f"the frequencies of base {base:g} are divided by exp(a·(k + 1)^{slope:.4g})"
        for mixed_b in plain_numbers(slope, slope_error / slope, ())[:2]:
            factors = plain_numbers(exp(exp(end)), min(2 * exp(end) * end_error, 0.5), ())
            for factor in factors[:2]:
                rule = Rule("ntk", {"factor": factor, "mixed_b": mixed_b})
                yield from _fit(measured, rule, base, support)


def _longrope_attention(
    measured: MeasuredFrequencies,
) -> Iterator[tuple[int, dict[str, ParameterValue]]]:
    """Yield a length O and a factor f with √(1 + ln f/ln O) as the scale; else the scale itself."""
    scale = measured.scale or 1.0
    if not MIN_FACTOR <= scale <= MAX_ATTENTION_FACTOR:
        return
    for length in (4096, *USUAL_LENGTHS):
        logarithm = log(length) * (scale**2 - 1)
        if not 0 < logarithm < _MOST_SCALE_LOGARITHM:
            continue
        error = 4 * scale**2 * log(length) * measured.scale_error
        for factor in plain_numbers(exp(logarithm), min(error, 0.5), ())[:1]:
            if factor == round(factor) or len(f"{factor:g}") <= 4:
                yield length, {"factor": factor}
                return
    for number in plain_numbers(scale, 2 * measured.scale_error, ())[:1]:
        yield USUAL_LENGTHS[1], {"attention_factor": number, "factor": 1.0}
