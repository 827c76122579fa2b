"""Rotary rules whose frequencies are one series, from the first number to the last."""

from collections.abc import Iterator
from math import ceil

import numpy as np

from service.analysis.plain import plain_numbers
from service.analysis.progression import Geometric, base_of, bases, geometric
from service.analysis.rotary.rules_measured import USUAL_BASES, Found, Measured, Parameters
from service.tables.document import ParameterValue
from service.tables.rope_rules import Default, DynamicAlpha, Linear, Ntk, Proportional

_FEW_DIGITS = 3
# No model is stretched further; beyond, a factor cannot be told from the base.
_MOST_STRETCH = 1e4
_FINEST_PART = 2.0**-12


def even_rules(measured: Measured) -> Iterator[Found]:
    """Find the rules whose frequencies are a series, the plainest first."""
    series = geometric(measured.omega, measured.error)
    if series is None:
        yield from _proportional(measured)
        return
    width = 2 * measured.count
    base = base_of(series, width)
    says = (
        f"{measured.count} frequencies fall from {series.first:.6g} as {base:.6g}^(-2k/{width})",
    )
    if abs(series.first - 1) <= 2 * series.first_error:
        for base in bases(series, width):
            yield Found(Default(width, base), {"rope_theta": base}, says)
        yield from _rescaled(series, width, says)
        return
    yield from sorted(
        [*_linear(series, width, says), *_ntk(series, width, says)], key=_digits_of_factor
    )


def _digits_of_factor(found: Found) -> int:
    factor = found.parameters["factor"]
    assert isinstance(factor, float)
    return digits(factor) + (0 if factor > 1 else 1)


def digits(number: float) -> int:
    """Count the digits that a number is written with; powers of two have one."""
    mantissa, _ = np.frexp(number)
    if mantissa == 0.5:
        return 1
    return len(repr(float(number)).split("e")[0].replace(".", "").strip("0") or "0")


def _rescaled(series: Geometric, width: int, says: tuple[str, ...]) -> Iterator[Found]:
    """Find a usual base with a plain alpha, where the base itself is no plain number."""
    if width < 4:
        return
    error = width / 2 * series.ratio_error
    measured = base_of(series, width)
    if error >= 0.5 or (plain := next(plain_numbers(measured, error), None)) is None:
        return
    if digits(plain) <= _FEW_DIGITS:
        return
    for base in USUAL_BASES:
        alpha = (measured / base) ** ((width - 2) / width)
        for part in _parts(alpha, error * (width - 2) / width):
            told = f"{measured:.8g} is {base:g}·{part:.8g}^({width}/{width - 2})"
            parameters: Parameters = {"rope_type": "dynamic", "rope_theta": base, "alpha": part}
            yield Found(DynamicAlpha(width, base, part), parameters, (*says, told))


def _parts(alpha: float, error: float) -> Iterator[float]:
    """Give the number of few digits, or the part of a power of two, that an alpha is."""
    if alpha < 1 + error:
        return
    plain = next(plain_numbers(alpha, error, 1), None)
    if plain is not None and digits(plain) <= _FEW_DIGITS:
        yield plain
        return
    part = 0.5
    while part >= max(_FINEST_PART, 2 * alpha * error):
        if abs(round(alpha / part) * part - alpha) <= alpha * error:
            yield round(alpha / part) * part
            return
        part /= 2


def _linear(series: Geometric, width: int, says: tuple[str, ...]) -> Iterator[Found]:
    base = bases(series, width)[0] if bases(series, width) else None
    if base is None:
        return
    for factor in plain_numbers(1 / series.first, 2 * series.first_error + 2.0**-52, 2):
        told = f"the first is 1/{factor:.8g}"
        parameters: Parameters = {"rope_type": "linear", "rope_theta": base, "factor": factor}
        yield Found(Linear(width, base, factor), parameters, (*says, told))


def _ntk(series: Geometric, width: int, says: tuple[str, ...]) -> Iterator[Found]:
    """Find f of ω_0 = f^(−2/r), and b of the series' base b·f."""
    if not (0 < series.first < 1) or series.ratio_error == float("inf"):
        return
    with np.errstate(over="ignore"):
        factor = float(np.float64(series.first) ** (-width / 2))
        scaled = float(np.float64(series.ratio) ** (-width / 2))
    if not factor < min(scaled, _MOST_STRETCH):
        return
    for plain in plain_numbers(factor, width * series.first_error, 2):
        error = width / 2 * series.ratio_error
        for base in plain_numbers(scaled / plain, error, 1):
            told = f"the first is {plain:.8g}^(-2/{width})"
            parameters: Parameters = {"rope_type": "ntk", "rope_theta": base, "factor": plain}
            yield Found(Ntk(width, base, plain), parameters, (*says, told))


def _proportional(measured: Measured) -> Iterator[Found]:
    """Find a series that ends before the last frequencies, which are 0."""
    count, width = measured.count, 2 * measured.count
    moving = np.flatnonzero(np.abs(measured.omega) > 2 * measured.error)
    turning = int(moving[-1]) + 1 if len(moving) else 0
    if not 0 < turning < count:
        return
    series = geometric(measured.omega[:turning], measured.error[:turning])
    if series is None:
        return
    share = turning / count
    if int(share * width // 2) != turning:
        share = ceil(share * 2**20) / 2**20
    told = f"{turning} of {count} frequencies turn, and the others are 0"
    parameters: dict[str, ParameterValue] = {
        "rope_type": "proportional",
        "partial_rotary_factor": share,
    }
    factor = 1.0
    if abs(series.first - 1) > 2 * series.first_error:
        factor = next(plain_numbers(1 / series.first, 2 * series.first_error), 1 / series.first)
        parameters["factor"] = factor
    for base in bases(series, width):
        rule = Proportional(width, base, share, factor)
        yield Found(rule, {**parameters, "rope_theta": base}, (told,))
