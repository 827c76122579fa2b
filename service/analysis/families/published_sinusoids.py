"""Match measured frequencies with the published conventions of absolute encodings.

The order of sines and cosines selects conventions; the frequencies give their parameters: a base,
or the highest and the lowest frequency.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import numpy as np

from service.analysis.families.readings import FrequencyFit, MeasuredFrequencies, RowReading
from service.analysis.families.requests import USUAL_BASE, unless_default
from service.analysis.families.series import (
    GeometricSeries,
    fit_geometric,
    plain_bases,
    plain_numbers,
)
from service.encodings.absolute.conventions import CONVENTIONS, SinusoidConvention
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue

Parameters: TypeAlias = Mapping[str, ParameterValue]

# The lowest frequency of mlx, unless given.
_LOWEST_FREQUENCY = 0.0001
_MAX_BASE_ERROR = 0.5
_UNKNOWN = GeometricSeries(1.0, 1.0, np.inf, np.inf)


def falling(base: float, span: float, count: int) -> Float64s:
    """Return base^(−2k/span) for k = 0 … count - 1, within about half an ulp of float64."""
    exponent = np.arange(count).astype(np.longdouble) * -2 / (span or 1)
    omega: Float64s = np.exp(exponent * np.log(np.longdouble(base))).astype(np.float64)
    return omega


def series_of(measured: MeasuredFrequencies | None) -> GeometricSeries | None:
    """Return the series of frequencies; one that determines nothing if they are unknown."""
    if measured is None:
        return _UNKNOWN
    return fit_geometric(measured.omega, measured.error)


def base_fits(
    measured: MeasuredFrequencies | None, span: float, count: int, name: str = "base"
) -> Iterator[FrequencyFit]:
    """Yield fits of frequencies base^(−2k/span), k = 0 … count - 1.

    Frequencies that are unknown, or determine no base, such as a single one, get the usual base.
    """
    series = series_of(measured)
    for base in () if series is None else plain_bases(series, span if count > 1 else 0):
        yield FrequencyFit(
            dict(unless_default(name, base, USUAL_BASE)),
            falling(base, span, count),
            (_support(count, base, span, series),),
        )


def _support(count: int, base: float, span: float, series: GeometricSeries | None) -> str:
    if count == 1 or series is None:
        return "there is one frequency, which does not determine a base"
    if not series.has_ratio:
        return f"the numbers do not show how frequencies fall: {base:.9g} is the usual base"
    return (
        f"{count} frequencies are proportional to {base:.9g}^(-2k/{span:g}); the ratio of "
        f"neighbours has a relative error of {series.ratio_error:.1e}"
    )


def convention_fits(
    name: str, d_model: int, measured: MeasuredFrequencies | None, *, has_first: bool = True
) -> Iterator[FrequencyFit]:
    """Yield the parameters and frequencies of a convention that fit measured ones.

    Args:
        name: of the convention.
        d_model: the width of its table.
        measured: the frequencies; None if they are unknown.
        has_first: whether the highest frequency itself is known, and not just the ratio.
    """
    convention, series = CONVENTIONS[name], series_of(measured)
    if series is None:
        return
    count, span = convention.count(d_model), convention.span(d_model)
    for number, is_full_turns in _first_numbers(convention, series if has_first else None):
        fastest = number * (2 * np.pi if is_full_turns else 1.0)
        unit = unless_default("full_turns", is_full_turns, default=False)
        for parameters, base in _ends(convention, number, series, span if count > 1 else 0):
            omega = fastest * falling(base, span, count)
            support = _support(count, base, span, series)
            yield FrequencyFit({**unit, **parameters}, omega, (support,))


def _first_numbers(
    convention: SinusoidConvention, series: GeometricSeries | None
) -> Iterator[tuple[float, bool]]:
    """Yield (highest frequency, is_full_turns): 1 or the plain numbers near the measured one."""
    yield 1.0, False
    if series is None or not convention.has_two_ends:
        return
    first, error = series.first, 2 * series.first_error + 2.0**-50
    if abs(first - 1) > error:
        yield from ((number, False) for number in plain_numbers(first, error, ())[:1])
    if convention.has_bounds:
        yield from ((number, True) for number in plain_numbers(first / (2 * np.pi), error, ())[:1])


def _ends(
    convention: SinusoidConvention, first: float, series: GeometricSeries, span: float
) -> Iterator[tuple[Parameters, float]]:
    """Yield the parameters of the highest and lowest frequency, and the ratio of both."""
    if convention.has_bounds:
        for lowest in _other_ends(series, span, first, -1, _LOWEST_FREQUENCY):
            bounds = unless_default("max_freq", first, 1)
            least = unless_default("min_freq", lowest, _LOWEST_FREQUENCY)
            yield {**bounds, **least}, first / lowest
    elif first == 1:
        for base in plain_bases(series, span):
            yield unless_default("base", base, USUAL_BASE), base
    else:
        for longest in _other_ends(series, span, first, 1, USUAL_BASE):
            yield {"min_timescale": first, "max_timescale": longest}, longest / first


def _other_ends(
    series: GeometricSeries, span: float, first: float, power: int, usual: float
) -> list[float]:
    """Return plain numbers near first·base^power; [usual] if the series determines no base."""
    base, error = series.base(span / 2)
    if not series.has_ratio or not span or not error < _MAX_BASE_ERROR:
        return [usual]
    return plain_numbers(first * base**power, error + 2.0**-40, (usual,))


# Conventions of rows.

_LAYOUTS: Mapping[str, tuple[str, bool]] = {
    "sin_flat": ("interleaved", False),
    "sin_concat": ("concatenated", False),
    "concat": ("concatenated", True),
}
"""For each packing, the layout of encodings, and whether cosines come first."""


def layout_of(reading: RowReading) -> tuple[str, bool] | None:
    """Return the layout of a reading and whether cosines come first; None if it is of another."""
    return _LAYOUTS.get(reading.packing)


def possible_widths(
    convention: SinusoidConvention,
    width: int,
    d_model: int | None,
    fits: Callable[[SinusoidConvention, int], bool],
) -> list[int]:
    """Return which of width, width - 1 and width + 1 the convention allows and ``fits`` accepts.

    If d_model is among them, it is the only result.
    """
    possible = [
        each
        for each in (width, width - 1, width + 1)
        if each >= 1
        and convention.spacing != "bands"
        and not (convention.odd == "refused" and each % 2)
        and convention.span(each) > 0
        and fits(convention, each)
    ]
    return [each for each in possible if each == d_model] or possible


def forms_of(reading: RowReading, d_model: int | None) -> list[tuple[str, int, Parameters]]:
    """Return the conventions that may have a reading, with d_model and other parameters."""
    layout = layout_of(reading)
    if layout is None:
        return []

    def fits(convention: SinusoidConvention, width: int) -> bool:
        return (
            convention.width(width) == reading.width
            and convention.zeros(width) == reading.zeros
            and convention.count(width) in {reading.pairs, reading.pairs + 1}
        )

    order, is_flipped = layout
    found: list[tuple[str, int, Parameters]] = []
    for name, convention in CONVENTIONS.items():
        if not _has_layout(convention, order, reading.scale[0], is_flipped=is_flipped):
            continue
        for width in possible_widths(convention, reading.width, d_model, fits):
            named = _named(name, width, order, is_flipped=is_flipped)
            scales = _scales(convention, width, *reading.scale)
            found += [(name, width, {**named, **scale}) for scale in scales]
    return found


def _has_layout(
    convention: SinusoidConvention, layout: str, scale: float, *, is_flipped: bool
) -> bool:
    if is_flipped:
        return "flip_sin_to_cos" in convention.takes or "cos_first" in convention.takes
    if scale != 1 and "scale" not in convention.takes:
        return False
    return convention.is_free or convention.layout == layout


def _named(name: str, d_model: int, layout: str, *, is_flipped: bool) -> Parameters:
    convention = CONVENTIONS[name]
    named: dict[str, ParameterValue] = {"d_model": d_model}
    if name != "vaswani":
        named["convention"] = name
    elif layout != convention.layout:
        named["layout"] = layout
    if is_flipped:
        named["flip_sin_to_cos" if "flip_sin_to_cos" in convention.takes else "cos_first"] = True
    return named


def _scales(
    convention: SinusoidConvention, d_model: int, scale: float, scale_error: float
) -> list[Parameters]:
    if "scale" not in convention.takes:
        return [{}]
    usual = ((convention.scale or 1) / d_model) ** 0.5
    error = 2 * scale_error + 2.0**-50
    if abs(scale - usual) <= error * usual:
        return [{}]
    return [{"scale": each} for each in plain_numbers(scale, error, ())[:1]]
