"""Match rows of sines and cosines with the published conventions of absolute encodings.

The channel layout of the rows selects conventions. The measured frequencies give their parameters:
a base, or the highest and the lowest frequency. From frequencies and angles follow the positions of
the rows, which become request parameters.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from service.analysis.families.requests import position_parameters, unless_default
from service.analysis.families.sinusoid_rows import LayoutView, RowSeries
from service.analysis.families.unwrapping import (
    ENGINE_ERROR,
    LocatedPositions,
    locate,
    locate_whole,
)
from service.analysis.measure import (
    USUAL_BASE,
    GeometricSeries,
    base_of_series,
    round_bases,
    spread_indices,
)
from service.analysis.round_numbers import round_number, round_numbers, significant_digits
from service.encodings.absolute.conventions import CONVENTIONS, SinusoidConvention
from service.grammar import to_query
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue

Parameters: TypeAlias = Mapping[str, ParameterValue]

# Numbers.

_MAX_BASES = 2
# A base with a larger relative error is unknown.
_MAX_BASE_ERROR = 0.5
# The highest probability that a random number is this close to a number with so few digits.
_MAX_CHANCE = 0.02
_LEAST_BASE, _LARGEST_BASE = 1.0, 1e250


def falling(base: float, span: float, count: int) -> Float64s:
    """Return base^(−2k/span) for k = 0 … count - 1, within about half an ulp of float64."""
    exponent = np.arange(count).astype(np.longdouble) * -2 / (span or 1)
    omega: Float64s = np.exp(exponent * np.log(np.longdouble(base))).astype(np.float64)
    return omega


def plainest(numbers: Iterable[float], error: float) -> list[float]:
    """Return the first round number, and also the second if the first may match by chance.

    Args:
        numbers: round numbers near a measured value, those with the fewest digits first.
        error: the relative error of the measured value.
    """
    first = list(numbers)[:_MAX_BASES]
    is_certain = first and is_unlikely_chance(significant_digits(first[0]), error)
    return first[:1] if is_certain else first


def is_unlikely_chance(digits: int, error: float) -> bool:
    """Return whether a match of a ``digits``-digit number is unlikely to be chance.

    The probability of a chance match within a relative error is about error·10^digits.
    """
    return error * 10.0**digits < _MAX_CHANCE


# Frequencies of conventions.

_LOWEST_FREQUENCY = 1e-4


@dataclass(frozen=True, eq=False)
class FrequencyFit:
    """Frequencies that fit a measured series, and the parameters that give them.

    Attributes:
        parameters: the request parameters that are not defaults.
        omega: all frequencies in radians per position, (n,).
        base: the base b of frequencies proportional to b^(−2k/span).
        span: the number of channels, two per frequency, over which frequencies fall to 1/base.
        is_plain: whether the parameters have too few digits to match by chance.
    """

    parameters: Parameters
    omega: Float64s
    base: float
    span: float
    is_plain: bool = True

    def support(self, series: GeometricSeries) -> str:
        """Return a sentence for the report about the frequencies."""
        if len(self.omega) == 1:
            return "there is one frequency, which does not determine a base"
        return (
            f"{len(self.omega)} frequencies are proportional to {self.base:.9g}^(-2k/"
            f"{self.span:g}); the ratio of neighbours has a relative error of "
            f"{series.ratio_error:.1e}"
        )


def base_fits(
    series: GeometricSeries, span: int, count: int, name: str = "base"
) -> Iterator[FrequencyFit]:
    """Yield fits of frequencies base^(−2k/span), k = 0 … count - 1, to a measured series.

    A series that does not determine a base, such as one frequency, gets the usual base.

    Args:
        series: the measured frequencies.
        span: the number of channels, two per frequency, over which frequencies fall to 1/base.
        count: the number of frequencies.
        name: the name of the base parameter.
    """
    for base in _bases(series, span if count > 1 else 0):
        parameters = unless_default(name, base, USUAL_BASE)
        yield FrequencyFit(parameters, falling(base, span, count), base, span)


def _bases(series: GeometricSeries, span: int) -> list[float]:
    if span == 0:
        return [USUAL_BASE]
    bases = plainest(round_bases(series, span), span / 2 * series.ratio_error)
    return [base for base in bases if _LEAST_BASE <= base <= _LARGEST_BASE]


def frequency_fits(
    convention: SinusoidConvention, d_model: int, series: GeometricSeries, *, has_first: bool
) -> Iterator[FrequencyFit]:
    """Yield the parameters and frequencies of a convention that fit a measured series.

    Args:
        convention: the convention.
        d_model: the width of the convention's table.
        series: the measured frequencies.
        has_first: whether the highest frequency is measured; else only the ratio is known.
    """
    count, span = convention.count(d_model), convention.span(d_model)
    error = span / 2 * series.ratio_error
    for number, is_full_turns in _first_numbers(convention, series if has_first else None):
        fastest = number * (2 * np.pi if is_full_turns else 1.0)
        unit = unless_default("full_turns", is_full_turns, default=False)
        for parameters, base in _ends(convention, number, series, span if count > 1 else 0):
            digits = min(significant_digits(each) for each in (base, 1 / base, number * base))
            is_plain = count == 1 or is_unlikely_chance(digits, error)
            omega = fastest * falling(base, span, count)
            yield FrequencyFit({**unit, **parameters}, omega, base, span, is_plain)


def _first_numbers(
    convention: SinusoidConvention, series: GeometricSeries | None
) -> Iterator[tuple[float, bool]]:
    """Yield (highest frequency, is_full_turns): 1 or the round numbers near the measured one.

    The unit is full turns per position if ``is_full_turns``, else radians per position.
    """
    yield 1.0, False
    if series is None or not (convention.has_bounds or "min_timescale" in convention.takes):
        return
    first, error = series.first, 2 * series.first_error + 2.0**-50
    if abs(first - 1) > error:
        yield from ((number, False) for number in round_numbers(first, error, 1))
    if convention.has_bounds:
        yield from ((number, True) for number in round_numbers(first / (2 * np.pi), error, 1))


def _ends(
    convention: SinusoidConvention, first: float, series: GeometricSeries, span: int
) -> Iterator[tuple[Parameters, float]]:
    """Yield the parameters of the highest and lowest frequency, and the ratio of both (base)."""
    if convention.has_bounds:
        for lowest in _other_ends(series, span, first, -1, _LOWEST_FREQUENCY):
            bounds = unless_default("max_freq", first, 1)
            yield (
                {**bounds, **unless_default("min_freq", lowest, _LOWEST_FREQUENCY)},
                first / lowest,
            )
    elif first == 1:
        for base in _bases(series, span):
            yield unless_default("base", base, USUAL_BASE), base
    else:
        for longest in _other_ends(series, span, first, 1, USUAL_BASE):
            yield {"min_timescale": first, "max_timescale": longest}, longest / first


def _other_ends(
    series: GeometricSeries, span: int, first: float, power: int, usual: float
) -> list[float]:
    """Return round numbers near first·base^power; [usual] if the series determines no base."""
    error = span / 2 * series.ratio_error
    if not span or not error < _MAX_BASE_ERROR:
        return [usual]
    return plainest(round_numbers(first * base_of_series(series, power * span), error), error)


# Conventions.


@dataclass(frozen=True, eq=False)
class ConventionCandidate:
    """A convention that rows may follow, with its parameters except for the positions."""

    name: str
    parameters: Parameters
    frequencies: FrequencyFit

    @property
    def convention(self) -> SinusoidConvention:
        return CONVENTIONS[self.name]


def candidates(view: LayoutView, rows: RowSeries, d_model: int | None) -> list[ConventionCandidate]:
    """Return the conventions that rows may follow, those with the fewest parameters first.

    Args:
        view: the rows, read in a layout.
        rows: the measured frequencies of the rows.
        d_model: the width of the encoding; None if unknown.
    """

    def fits(convention: SinusoidConvention, width: int) -> bool:
        return (
            convention.width(width) == view.width
            and convention.zeros(width) == view.channels.zeros
            and convention.count(width) in {view.pairs, view.pairs + 1}
        )

    ordered = [
        (order, len(candidate.parameters), candidate)
        for name, convention in CONVENTIONS.items()
        if _has_layout(convention, view)
        for width in possible_widths(convention, view.width, d_model, fits)
        for order, candidate in enumerate(_candidates_of_width(name, width, view, rows))
    ]
    plain = [each for each in ordered if each[-1].frequencies.is_plain] or ordered
    return [candidate for *_, candidate in sorted(plain, key=lambda each: each[:2])]


def _has_layout(convention: SinusoidConvention, view: LayoutView) -> bool:
    if view.is_flipped:
        return "flip_sin_to_cos" in convention.takes or "cos_first" in convention.takes
    if view.scale != 1 and "scale" not in convention.takes:
        return False
    return convention.is_free or convention.layout == view.layout


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


def _candidates_of_width(
    name: str, d_model: int, view: LayoutView, rows: RowSeries
) -> Iterator[ConventionCandidate]:
    convention = CONVENTIONS[name]
    named: dict[str, ParameterValue] = {"d_model": d_model}
    if name != "vaswani":
        named["convention"] = name
    elif view.layout != convention.layout:
        named["layout"] = view.layout
    if view.is_flipped:
        named["flip_sin_to_cos" if "flip_sin_to_cos" in convention.takes else "cos_first"] = True
    has_first = rows.window is not None
    for scale in _scales(convention, d_model, view):
        for fit in frequency_fits(convention, d_model, rows.series, has_first=has_first):
            yield ConventionCandidate(name, {**named, **scale, **fit.parameters}, fit)


def _scales(convention: SinusoidConvention, d_model: int, view: LayoutView) -> list[Parameters]:
    if "scale" not in convention.takes:
        return [{}]
    usual = ((convention.scale or 1) / d_model) ** 0.5
    error = 2 * view.scale_error + 2.0**-50
    if abs(view.scale - usual) <= error * usual:
        return [{}]
    return [{"scale": scale} for scale in round_numbers(view.scale, error, 1)]


# Positions.

# The most positions that a request lists.
_MAX_LISTED = 4096

# How many rows are located first, and the most frequencies that locate the others.
_TRIED_ROWS, _MAX_PAIRS = 8, 64

_STEP_ERROR = 1e-6
_MAX_DIGITS = 9

# A fraction with more characters than this is probably wrong: try large integers too.
_SHORT_FRACTION = 5
_LARGEST = 2.0**53


@dataclass(frozen=True, eq=False)
class PositionedRows:
    """The positions of rows, found from their angles.

    Attributes:
        values: the position of each row, (S,); NaN for rows of zeros if rows are not evenly spaced.
        residual: the largest difference between a measured angle and position·frequency, in
            radians.
        step: the distance of consecutive positions; None if rows are not evenly spaced.
    """

    values: Float64s
    residual: float
    step: float | None

    @property
    def are_integers(self) -> bool:
        """True if all known positions are integers."""
        known = self.values[~np.isnan(self.values)]
        return bool((known == np.round(known)).all())

    def support(self, offset: float = 0.0) -> str:
        """Return a sentence for the report about the positions."""
        positions = self.values + offset
        where = f"angles put the first row at position {positions[0]:.9g}"
        if self.step is None:
            ends = f"{positions.min():.9g} to {positions.max():.9g}"
            where = f"angles put rows at positions from {ends}"
        elif self.step != 1:
            where += f", with a step of {self.step:.9g}"
        return f"{where}, within {self.residual:.1e} radians"


def positions_of(view: LayoutView, rows: RowSeries, omega: Float64s) -> PositionedRows | None:
    """Find the positions of rows for given frequencies; None if the angles do not fit them.

    Args:
        view: the rows.
        rows: their measured series.
        omega: radians per position, (K,) or more.
    """
    omega = omega[: view.pairs]
    if rows.window is None:
        return _positions_one_by_one(view, omega)
    step = _step(rows, float(omega[0]))
    where = rows.coordinates[view.nonzero[rows.window]]
    phasors, errors = view.phasors(rows.window)
    at_start = phasors * np.exp(-1j * step * np.outer(where, omega))
    phases = np.angle(at_start.sum(axis=0))[np.newaxis]
    # Errors of float32 frequencies cause angle errors proportional to the distance of rows.
    engine = ENGINE_ERROR * abs(step) * omega * np.abs(where).max()
    located = _locate_one(phases, (np.median(errors, axis=0) + engine)[np.newaxis], omega)
    if located is None:
        return None
    start = float(located.rounded()[0])
    if not _is_short(start) or not _is_short(step):
        return None
    gaps = np.diff(rows.coordinates)
    is_even = len(gaps) > 0 and bool((gaps == gaps[0]).all())
    row_step = step * float(gaps[0]) if is_even else None
    return PositionedRows(start + step * rows.coordinates, located.residual, row_step)


def _positions_one_by_one(view: LayoutView, omega: Float64s) -> PositionedRows | None:
    phasors, errors = view.phasors(spread_indices(len(view.nonzero), _TRIED_ROWS))
    if locate(np.angle(phasors), errors, omega) is None:
        return None
    # At most _MAX_PAIRS evenly spaced frequencies are enough; the slowest is one of them.
    step = -(-view.pairs // _MAX_PAIRS)
    pairs = slice((view.pairs - 1) % step, None, step)
    phasors, errors = view.phasors(slice(None), pairs)
    find = _locate_one if len(phasors) == 1 else locate
    located = find(np.angle(phasors), errors, omega[pairs])
    if located is None:
        return None
    values = np.full(len(view.rows.values), np.nan)
    values[view.nonzero] = located.rounded()
    return PositionedRows(values, located.residual, None)


def _locate_one(phases: Float64s, errors: Float64s, omega: Float64s) -> LocatedPositions | None:
    """Return the position of one row of phases, (1, K); None if none fits.

    An integer that fits is preferred to a fraction of many digits.
    """
    located = locate(phases, errors, omega)
    if located is None:
        return None
    start = float(located.rounded()[0])
    if not np.isfinite(start):
        return None
    if start != round(start) and len(to_query(start)) > _SHORT_FRACTION:
        return locate_whole(phases, errors, omega) or located
    return located


def _step(rows: RowSeries, fastest: float) -> float:
    """Return the distance of positions per unit of row coordinate, rounded within its error."""
    step = rows.series.first / fastest
    error = max(2 * rows.series.first_error, _STEP_ERROR)
    if round(step) and abs(step - round(step)) <= min(error * step, 0.5):
        return rows.sign * float(round(step))
    return rows.sign * round_number(step, error)


def _is_short(number: float) -> bool:
    """Return whether a number is an integer or has at most 9 digits, as a float32 has."""
    return number == round(number) or float(f"{number:.{_MAX_DIGITS - 1}e}") == number


def listed_positions(values: Float64s) -> Parameters | None:
    """Return the shortest request parameters for positions without NaN; None if too many or large.

    At most ``_MAX_LISTED`` positions can be listed.
    """
    if np.abs(values).max() >= _LARGEST:
        return None
    if (values != np.round(values)).any():
        numbers = listed_numbers(values)
        return None if numbers is None else {"positions": numbers}
    parameters = position_parameters(values.astype(np.int64))
    if str(parameters.get("positions")).count(",") >= _MAX_LISTED:
        return None
    # Sorted by name: seq_len comes before start.
    return dict(sorted(parameters.items()))


def listed_numbers(values: Float64s) -> str | None:
    """Return numbers as comma-separated text; None if they are too many for a URL."""
    if len(values) > _MAX_LISTED:
        return None
    return to_query(tuple((values + 0.0).tolist()))
