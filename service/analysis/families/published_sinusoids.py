"""Match rows of sinusoids with the published conventions of absolute encodings.

A convention that has the layout of the rows gets the numbers that their series of frequencies
allows: a base, or the ends of the series. With its frequencies the rows have positions, which a
request spells as shortly as it can.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from service.analysis.families.requests import unless_default
from service.analysis.families.sinusoid_rows import (
    LayoutView,
    RowSeries,
)
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
from service.numerics.positions import Positions
from service.numerics.tables import ParameterValue

Parameters: TypeAlias = Mapping[str, ParameterValue]

# Numbers.

_MAX_BASES = 2
# A base that is not even known to a half of it is not measured at all.
_MAX_DOUBT = 0.5
# One number in fifty: the odds that a random one is so near one with so few digits.
_NO_CHANCE = 0.02
_LEAST_BASE, _LARGEST_BASE = 1.0, 1e250


def falling(base: float, span: int, count: int) -> Float64s:
    """Return base^(−2k/span) for k below count, right to the last bit of float64 or nearly so."""
    exponent = np.arange(count).astype(np.longdouble) * -2 / max(span, 1)
    omega: Float64s = np.exp(exponent * np.log(np.longdouble(base))).astype(np.float64)
    return omega


def usable_bases(series: GeometricSeries, span: int) -> tuple[float, ...]:
    """Return the bases of a series over a span, the usual one where it does not tell."""
    if span == 0:
        return (USUAL_BASE,)
    known = plainest(round_bases(series, span), span / 2 * series.ratio_error)
    return tuple(base for base in known if _LEAST_BASE <= base <= _LARGEST_BASE)


def plainest(plain: Iterable[float], error: float) -> list[float]:
    """Keep the plainest of numbers that are within an error, and a next one where chance made it.

    A number of n digits is within the error of any number with a chance of about error·10^n.
    """
    numbers = list(plain)[:_MAX_BASES]
    return (
        numbers[:1] if numbers and is_no_chance(significant_digits(numbers[0]), error) else numbers
    )


def is_no_chance(count: int, error: float) -> bool:
    """Return whether a number of so many digits is hardly by chance within an error of another."""
    return error * 10.0**count < _NO_CHANCE


# Conventions.

_LOWEST_FREQUENCY = 1e-4


@dataclass(frozen=True, eq=False)
class ConventionFrequencies:
    """Frequencies of a convention, and the parameters that give them.

    Attributes:
        parameters: those that are not defaults.
        omega: radians per position of every frequency, (n,).
        base: by how much they fall over the span.
        is_plain: whether its numbers have so few digits that no chance made them fit.
    """

    parameters: Parameters
    omega: Float64s
    base: float
    is_plain: bool


@dataclass(frozen=True, eq=False)
class ConventionCandidate:
    """A convention, and its parameters without positions; span is that of the base, in channels."""

    name: str
    parameters: Parameters
    frequencies: ConventionFrequencies
    span: int

    @property
    def convention(self) -> SinusoidConvention:
        return CONVENTIONS[self.name]


def candidates(view: LayoutView, rows: RowSeries, d_model: int | None) -> list[ConventionCandidate]:
    """Return what rows may be, the candidates with the fewest parameters first.

    Args:
        view: rows in a layout.
        rows: how their angles run.
        d_model: as far as it is known.
    """
    ordered = [
        (order, len(candidate.parameters), candidate)
        for name, convention in CONVENTIONS.items()
        if convention.spacing != "bands" and _has_layout(convention, view)
        for width in _widths(convention, view, d_model)
        for order, candidate in enumerate(_numbered(name, width, view, rows))
    ]
    plain = [each for each in ordered if each[-1].frequencies.is_plain] or ordered
    return [candidate for *_, candidate in sorted(plain, key=lambda each: each[:2])]


def _has_layout(convention: SinusoidConvention, view: LayoutView) -> bool:
    if view.is_flipped:
        return "flip_sin_to_cos" in convention.takes or "cos_first" in convention.takes
    if view.scale != 1 and "scale" not in convention.takes:
        return False
    return convention.is_free or convention.layout == view.layout


def _widths(convention: SinusoidConvention, view: LayoutView, d_model: int | None) -> list[int]:
    """Return what d_model may be for the channels there are."""
    width = view.width
    fitting = [
        d
        for d in (width, width - 1, width + 1)
        if d >= 1
        and convention.width(d) == width
        and convention.zeros(d) == view.channels.zeros
        and not (convention.odd == "refused" and d % 2)
        and convention.span(d) > 0
        and convention.count(d) in {view.pairs, view.pairs + 1}
    ]
    return [d for d in fitting if d == d_model] or fitting


def _numbered(
    name: str, d_model: int, view: LayoutView, rows: RowSeries
) -> Iterator[ConventionCandidate]:
    convention, span = CONVENTIONS[name], CONVENTIONS[name].span(d_model)
    named: dict[str, ParameterValue] = {"d_model": d_model}
    if name != "vaswani":
        named["convention"] = name
    elif view.layout != convention.layout:
        named["layout"] = view.layout
    if view.is_flipped:
        named["flip_sin_to_cos" if "flip_sin_to_cos" in convention.takes else "cos_first"] = True
    for scale in _scales(convention, d_model, view):
        for each in frequencies_of(convention, d_model, rows.series, has_first=rows.is_even):
            yield ConventionCandidate(name, {**named, **scale, **each.parameters}, each, span)


def _scales(convention: SinusoidConvention, d_model: int, view: LayoutView) -> list[Parameters]:
    if "scale" not in convention.takes:
        return [{}]
    usual = ((convention.scale or 1) / d_model) ** 0.5
    error = 2 * view.scale_error + 2.0**-50
    if abs(view.scale - usual) <= error * usual:
        return [{}]
    return [{"scale": scale} for scale in round_numbers(view.scale, error, 1)]


def frequencies_of(
    convention: SinusoidConvention, d_model: int, series: GeometricSeries, *, has_first: bool
) -> Iterator[ConventionFrequencies]:
    """Yield the frequencies of a convention that a measured series may be.

    Args:
        convention: the convention.
        d_model: its width.
        series: what was measured.
        has_first: whether the first number of the series is known.
    """
    count, span = convention.count(d_model), convention.span(d_model)
    error = span / 2 * series.ratio_error
    for number, is_in_turns in _firsts(convention, series if has_first else None):
        fastest = number * (2 * np.pi if is_in_turns else 1.0)
        turns: Parameters = {"full_turns": True} if is_in_turns else {}
        for parameters, base in _ends(convention, number, series, span if count > 1 else 0):
            few = min(significant_digits(each) for each in (base, 1 / base, number * base))
            is_plain = count == 1 or is_no_chance(few, error)
            omega = fastest * falling(base, span, count)
            yield ConventionFrequencies({**turns, **parameters}, omega, base, is_plain)


def _firsts(
    convention: SinusoidConvention, series: GeometricSeries | None
) -> Iterator[tuple[float, bool]]:
    """Yield the fastest frequency: 1, or the measured one; and whether it counts turns."""
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
    """Yield the parameters of the ends of frequencies, and the base that these have."""
    if convention.has_bounds:
        for least in _other_ends(series, span, first, -1, _LOWEST_FREQUENCY):
            bounds = unless_default("max_freq", first, 1)
            yield {**bounds, **unless_default("min_freq", least, _LOWEST_FREQUENCY)}, first / least
    elif first == 1:
        for base in usable_bases(series, span):
            yield unless_default("base", base, USUAL_BASE), base
    else:
        for greatest in _other_ends(series, span, first, 1, USUAL_BASE):
            yield {"min_timescale": first, "max_timescale": greatest}, greatest / first


def _other_ends(
    series: GeometricSeries, span: int, first: float, power: int, usual: float
) -> list[float]:
    """Return plain numbers for first·base^power, the usual one where the series does not tell."""
    error = span / 2 * series.ratio_error
    if not span or not error < _MAX_DOUBT:
        return [usual]
    return plainest(round_numbers(first * base_of_series(series, power * span), error), error)


# Positions.

# Rows that are listed one by one: a longer list is no URL.
_MAX_LISTED = 4096

# Rows that are tried before all of them are located, and frequencies by which all are.
_TRIED_ROWS, _MAX_PAIRS = 8, 64

_WHOLE = 1e-6
_MAX_DIGITS = 9

# A start that is no whole number is doubted if it takes more to write it.
_FEW_CHARACTERS = 5
_LARGEST = 2.0**53


@dataclass(frozen=True, eq=False)
class PositionedRows:
    """Positions of rows.

    Attributes:
        values: the position of each row, (S,), that of a row of zeros where its neighbours are
            evenly spaced, and NaN otherwise.
        residual: how far angles are from those of the positions at most, in radians, where it
            was checked.
        step: from row to row; None where they are not evenly spaced.
    """

    values: Float64s
    residual: float
    step: float | None

    @property
    def is_whole(self) -> bool:
        """Return whether all known positions are whole numbers."""
        known = self.values[~np.isnan(self.values)]
        return bool((known == np.round(known)).all())


def positions_of(view: LayoutView, rows: RowSeries, omega: Float64s) -> PositionedRows | None:
    """Find the positions that rows have with these frequencies; None if there are none.

    Args:
        view: the rows.
        rows: how their angles run.
        omega: radians per position, (K,) or more.
    """
    omega = omega[: view.pairs]
    if not rows.window:
        return _each_position(view, omega)
    step = _step(rows, float(omega[0]))
    where = rows.places[view.filled[rows.window]]
    turns, angle_errors = view.turns(rows.window)
    at_start = turns * np.exp(-1j * step * np.outer(where, omega))
    phases = np.angle(at_start.sum(axis=0))[np.newaxis]
    # Frequencies that engines have in float32 are off by as much as rows are far.
    engine = ENGINE_ERROR * abs(step) * omega * np.abs(where).max()
    located = _locate_one(phases, (np.median(angle_errors, axis=0) + engine)[np.newaxis], omega)
    if located is None:
        return None
    start = float(located.rounded()[0])
    if not _is_writable(start) or not _is_writable(step):
        return None
    apart = np.diff(rows.places)
    is_even = len(apart) > 0 and bool((apart == apart[0]).all())
    between = step * float(apart[0]) if is_even else None
    return PositionedRows(start + step * rows.places, located.residual, between)


def _each_position(view: LayoutView, omega: Float64s) -> PositionedRows | None:
    turns, errors = view.turns(spread_indices(len(view.filled), _TRIED_ROWS))
    if locate(np.angle(turns), errors, omega) is None:
        return None
    # Some of many frequencies are enough, the slowest among them: each is near enough to the next.
    step = -(-view.pairs // _MAX_PAIRS)
    pairs = slice((view.pairs - 1) % step, None, step)
    turns, errors = view.turns(slice(None), pairs)
    find = _locate_one if len(turns) == 1 else locate
    located = find(np.angle(turns), errors, omega[pairs])
    if located is None:
        return None
    values = np.full(len(view.rows.values), np.nan)
    values[view.filled] = located.rounded()
    return PositionedRows(values, located.residual, None)


def _locate_one(phases: Float64s, errors: Float64s, omega: Float64s) -> LocatedPositions | None:
    """Locate one row, (1, K): at a whole position if it is at no short fraction."""
    located = locate(phases, errors, omega)
    if located is None:
        return None
    start = float(located.rounded()[0])
    if not np.isfinite(start):
        return None
    if start != round(start) and len(to_query(start)) > _FEW_CHARACTERS:
        return locate_whole(phases, errors, omega) or located
    return located


def _step(rows: RowSeries, fastest: float) -> float:
    """Return the step between rows: whole if it may be, and otherwise in few digits."""
    step = rows.series.first / fastest
    error = max(2 * rows.series.first_error, _WHOLE)
    if round(step) and abs(step - round(step)) <= min(error * step, 0.5):
        return rows.sign * float(round(step))
    return rows.sign * round_number(step, error)


def _is_writable(number: float) -> bool:
    """Return whether a number is whole, or has at most the digits of a float32."""
    return number == round(number) or float(f"{number:.{_MAX_DIGITS - 1}e}") == number


def spelled_positions(values: Float64s) -> Parameters | None:
    """Return positions as parameters, as short as can be; None where they are too many.

    Args:
        values: one for each row, none of them NaN.
    """
    if np.abs(values).max() >= _LARGEST:
        return None
    if (values != np.round(values)).any():
        listed = listed_numbers(values)
        return None if listed is None else {"positions": listed}
    positions = Positions.of_runs(map(int, values.tolist()))
    if positions.is_contiguous:
        start = unless_default("start", positions.runs[0].first, 0)
        return {"seq_len": positions.count, **start}
    return None if len(positions.runs) > _MAX_LISTED else {"positions": str(positions)}


def listed_numbers(values: Float64s) -> str | None:
    """List numbers with commas between them; None where there are too many of them."""
    if len(values) > _MAX_LISTED:
        return None
    return to_query(tuple((values + 0.0).tolist()))


# Support.


def series_support(series: GeometricSeries, count: int, base: float, span: float) -> str:
    """Return a sentence on the frequencies."""
    if count == 1:
        return "there is one frequency, which does not determine a base"
    return (
        f"{count} frequencies fall as {base:.9g}^(-2k/{span:g}), each to the one before within "
        f"{series.ratio_error:.1e}"
    )


def rows_support(rows: PositionedRows, offset: float = 0.0) -> str:
    """Return a sentence on the positions of rows."""
    positions = rows.values + offset
    where = f"angles put the first row at position {positions[0]:.9g}"
    if rows.step is None:
        where = f"angles put rows at positions from {positions.min():.9g} to {positions.max():.9g}"
    elif rows.step != 1:
        where += f", each next one {rows.step:.9g} on"
    return f"{where}, within {rows.residual:.1e} radians"
