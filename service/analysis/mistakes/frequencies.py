"""Mistakes of frequencies: which known one makes measured frequencies of those that are wanted."""

from collections.abc import Iterator

import numpy as np

from service.analysis.mistakes.catalogue import Mistake
from service.analysis.mistakes.waves import Waves
from service.analysis.plain import plain_numbers
from service.analysis.progression import bases, geometric
from service.tables.angle import Float64s

Frequencies = tuple[tuple[Mistake, ...], Float64s]
"""Mistakes, and the frequencies that they lead to."""

_SIGN = Mistake("sine-sign")
_TWICE = Mistake("rotated-twice")
_FEWEST = 4


def frequency_mistakes(waves: Waves, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Give known mistakes and the frequencies that they lead to, as far as measured ones fit.

    Args:
        waves: what is wanted.
        omega: what was measured, (K,), radians per position.
        error: how far each may be from what is meant, (K,).
    """
    wanted = waves.omega
    yield (), wanted
    yield (_SIGN,), -wanted
    yield (_TWICE,), 2 * wanted
    yield (_SIGN, _TWICE), -2 * wanted
    yield (Mistake("not-rotated"),), np.zeros_like(wanted)
    sign = -1.0 if float(omega.sum()) * float(wanted.sum()) < 0 else 1.0
    signed = () if sign > 0 else (_SIGN,)
    for mistakes, speeds in _unsigned(waves, np.abs(omega), error):
        yield (*signed, *mistakes), sign * np.copysign(speeds, wanted)


def _unsigned(waves: Waves, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    wanted = np.abs(waves.omega)
    yield from _stretched(wanted, omega, error)
    yield from _narrower(waves, omega, error)
    if waves.base is None:
        return
    series = geometric(omega, error)
    base, span = waves.base
    places = np.arange(len(omega))
    if series is None or len(omega) < 2:
        return
    for other in bases(series, span)[:2]:
        if other != base and other > 1:
            said = Mistake("wrong-base", {"have": other, "want": base})
            for mistakes, first in _firsts(series.first, series.first_error):
                yield (said, *mistakes), first * float(other) ** (-2 * places / span)


def _firsts(first: float, error: float) -> Iterator[tuple[tuple[Mistake, ...], float]]:
    if abs(first - 1) <= max(error, 2.0**-7):
        yield (), 1.0
    elif abs(first - 2) <= max(2 * error, 2.0**-6):
        yield (_TWICE,), 2.0
    else:
        for mistake, ratio in _ratios(first, error):
            yield (mistake,), ratio


def _stretched(wanted: Float64s, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Find one factor between all frequencies, by those that are known best."""
    known = (wanted > 0) & (omega > 2 * error) & (omega < 1)
    if not known.any():
        return
    share = error[known] / omega[known]
    ratios = omega[known] / wanted[known]
    ratio = float(np.average(ratios, weights=1 / share**2))
    spread = float(share.min()) + 2.0**-24
    if (np.abs(ratios / ratio - 1) > 4 * share + 4 * spread).any():
        return
    for mistake, exact in _ratios(ratio, 4 * spread):
        if exact != 1:
            yield (_TWICE if exact == 2 else mistake,), exact * wanted


def _ratios(ratio: float, error: float) -> Iterator[tuple[Mistake, float]]:
    if ratio < 1:
        for factor in plain_numbers(1 / ratio, error, 1):
            values = {"ratio": 1 / factor, "factor": factor, "how": "divided"}
            yield Mistake("linear-factor", values), 1 / factor
    else:
        for factor in plain_numbers(ratio, error, 1):
            values = {"ratio": factor, "factor": factor, "how": "multiplied"}
            yield Mistake("linear-factor", values), factor


def _narrower(waves: Waves, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Find frequencies of fewer channels, those after them standing still."""
    wanted = np.abs(waves.omega)
    still = np.abs(omega) <= np.maximum(4 * error, 2.0**-30)
    count = len(omega) - int(np.argmin(still[::-1])) if not still.all() else 0
    if 0 < count < len(omega):
        said = Mistake("partial-width", {"have": 2 * count, "want": 2 * len(omega)})
        places = np.arange(len(omega))
        yield (said,), np.where(places < count, wanted, 0.0)
        first = slice(0, count)
        for mistakes, speeds in _stretched(wanted[first], omega[first], error[first]):
            yield (said, *mistakes), np.pad(speeds, (0, len(omega) - count))
        if waves.base:
            fewer = waves.base[0] ** (-2 * places / (2 * count))
            yield (said,), np.where(places < count, fewer, 0.0)
            yield from _narrower_base(waves, omega, error, count)
    if waves.base and len(omega) >= _FEWEST:
        yield from _other_width(waves, omega, error)


def _narrower_base(
    waves: Waves, omega: Float64s, error: Float64s, count: int
) -> Iterator[Frequencies]:
    assert waves.base is not None
    series = geometric(omega[:count], error[:count]) if count > 1 else None
    if series is None:
        return
    places = np.arange(len(omega))
    said = Mistake("partial-width", {"have": 2 * count, "want": 2 * len(omega)})
    for other in bases(series, 2 * count)[:1]:
        base = Mistake("wrong-base", {"have": other, "want": waves.base[0]})
        speeds = np.where(places < count, float(other) ** (-places / count), 0.0)
        yield (said, base), speeds


def _other_width(waves: Waves, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Find frequencies of the same base over another even number of channels."""
    assert waves.base is not None
    base, span = waves.base
    series = geometric(omega, error)
    if series is None or not 0 < series.ratio < 1:
        return
    other = -2 * np.log(base) / np.log(series.ratio)
    width = int(2 * round(other / 2))
    if width != span and abs(width - other) <= 2.0**-6 and 2 <= width <= 8 * span:
        places = np.arange(len(omega))
        said = Mistake("partial-width", {"have": width, "want": span})
        yield (said,), base ** (-2 * places / width)
