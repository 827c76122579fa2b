"""Conventions of absolute encodings that have a layout and a series of frequencies.

Positions of the rows of a sinusoidal table, and how a request spells them.

What is said in support of a sinusoidal table.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from service.analysis.families.sinusoid_rows import (
    ENGINE_SHARE,
    Course,
    Places,
    View,
    locate,
    locate_whole,
)
from service.analysis.measure import GeometricSeries, base_of_series, round_bases
from service.analysis.round_numbers import round_numbers
from service.encodings.absolute.conventions import CONVENTIONS, SinusoidConvention
from service.grammar import to_query
from service.numerics.document import ParameterValue
from service.numerics.phase import Float64s
from service.numerics.positions import Positions

_USUAL_BASE = 10000.0
_LOWEST_FREQUENCY = 1e-4
_BASES = 2
# A base that is not even known to a half of it is not measured at all.
_MOST_DOUBT = 0.5
# One number in fifty: the odds that a random one is so near one with so few digits.
_NO_CHANCE = 0.02
_LEAST_BASE, _MOST_BASE = 1.0, 1e250

Parameters = Mapping[str, ParameterValue]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A convention with the numbers that a table speaks for.

    Attributes:
        name: of the convention.
        parameters: what is asked for, positions left out.
        omega: radians per position of every frequency of it, (n,).
        base: over how much its frequencies fall.
        span: over how many channels they do.
        is_plain: whether its numbers have so few digits that no chance made them fit.
    """

    name: str
    parameters: Parameters
    omega: Float64s
    base: float
    span: int
    is_plain: bool

    @property
    def convention(self) -> SinusoidConvention:
        """Give the convention."""
        return CONVENTIONS[self.name]


@dataclass(frozen=True)
class First:
    """The fastest frequency.

    Attributes:
        number: as it is said.
        is_in_turns: whether it counts turns, not radians.
    """

    number: float = 1.0
    is_in_turns: bool = False

    @property
    def fastest(self) -> float:
        """Give it in radians."""
        return self.number * (2 * np.pi if self.is_in_turns else 1.0)


def candidates(view: View, course: Course, d_model: int | None) -> list[Candidate]:
    """List what rows may be, what takes the fewest parameters first.

    Args:
        view: rows in a layout.
        course: how their angles run.
        d_model: as far as it is known.
    """
    found = [
        (order, len(candidate.parameters), candidate)
        for name, convention in CONVENTIONS.items()
        if convention.spacing != "bands" and _has_layout(convention, view)
        for width in widths(convention, view, d_model)
        for order, candidate in enumerate(_numbered(name, width, view, course))
    ]
    plain = [each for each in found if each[-1].is_plain] or found
    return [candidate for *_, candidate in sorted(plain, key=lambda each: each[:2])]


def _has_layout(convention: SinusoidConvention, view: View) -> bool:
    if view.is_flipped:
        return "flip_sin_to_cos" in convention.takes or "cos_first" in convention.takes
    if view.scale != 1 and "scale" not in convention.takes:
        return False
    return convention.is_free or convention.layout == view.layout


def widths(convention: SinusoidConvention, view: View, d_model: int | None) -> list[int]:
    """List what d_model may be for the channels there are."""
    width, pairs = view.width, view.pairs
    fitting = [
        d
        for d in (width, width - 1, width + 1)
        if d >= 1
        and convention.width(d) == width
        and convention.zeros(d) == view.channels.zeros
        and not (convention.odd == "refused" and d % 2)
        and convention.span(d) > 0
        and convention.count(d) in {pairs, pairs + 1}
    ]
    return [d for d in fitting if d == d_model] or fitting


def _numbered(name: str, d_model: int, view: View, course: Course) -> Iterator[Candidate]:
    convention = CONVENTIONS[name]
    said: dict[str, ParameterValue] = {"d_model": d_model}
    if name != "vaswani":
        said["convention"] = name
    elif view.layout != convention.layout:
        said["layout"] = view.layout
    if view.is_flipped:
        said["flip_sin_to_cos" if "flip_sin_to_cos" in convention.takes else "cos_first"] = True
    for scale in _scales(convention, d_model, view):
        for numbers, omega, base, is_plain in frequencies_of(convention, d_model, course):
            every, span = {**said, **scale, **numbers}, convention.span(d_model)
            yield Candidate(name, every, omega, base, span, is_plain)


def _scales(convention: SinusoidConvention, d_model: int, view: View) -> list[Parameters]:
    if "scale" not in convention.takes:
        return [{}]
    usual = ((convention.scale or 1) / d_model) ** 0.5
    error = 2 * view.scale_error + 2.0**-50
    if abs(view.scale - usual) <= error * usual:
        return [{}]
    return [{"scale": scale} for scale in list(round_numbers(view.scale, error))[:1]]


def frequencies_of(
    convention: SinusoidConvention, d_model: int, course: Course
) -> Iterator[tuple[Parameters, Float64s, float, bool]]:
    """Give the parameters that make the frequencies, with them, their base, and if it is plain."""
    count, span = convention.count(d_model), convention.span(d_model)
    error = span / 2 * course.series.ratio_error
    for first in first_numbers(convention, course):
        for said, base in _ends(convention, first, course.series, span if count > 1 else 0):
            plainest = min(digits(number) for number in (base, 1 / base, first.number * base))
            is_plain = count == 1 or is_no_chance(plainest, error)
            yield said, first.fastest * falling(base, span, count), base, is_plain


def _ends(
    convention: SinusoidConvention, first: First, series: GeometricSeries, span: int
) -> Iterator[tuple[Parameters, float]]:
    """Give what frequencies lie between, and the base that this makes."""
    if not convention.has_bounds and first.number == 1:
        for base in usable_bases(series, span):
            yield {"base": base} if base != _USUAL_BASE else {}, base
        return
    said: dict[str, ParameterValue] = {"full_turns": True} if first.is_in_turns else {}
    if convention.has_bounds:
        said |= {"max_freq": first.number} if first.number != 1 else {}
        for least in _other_ends(series, span, first.number, -1, _LOWEST_FREQUENCY):
            bound = {"min_freq": least} if least != _LOWEST_FREQUENCY else {}
            yield {**said, **bound}, first.number / least
        return
    for greatest in _other_ends(series, span, first.number, 1, _USUAL_BASE):
        yield {"min_timescale": first.number, "max_timescale": greatest}, greatest / first.number


def _other_ends(
    series: GeometricSeries, span: int, first: float, power: int, usual: float
) -> list[float]:
    """Give plain numbers for first·base^power, the usual one where the series says nothing."""
    error = span / 2 * series.ratio_error
    if not span or not error < _MOST_DOUBT:
        return [usual]
    return fewest(round_numbers(first * base_of_series(series, power * span), error), error)


def usable_bases(series: GeometricSeries, span: int) -> tuple[float, ...]:
    """Give the bases that a series speaks for, the usual one where it says nothing."""
    if span == 0:
        return (_USUAL_BASE,)
    known = fewest(round_bases(series, span), span / 2 * series.ratio_error)
    return tuple(base for base in known if _LEAST_BASE <= base <= _MOST_BASE)


def fewest(plain: Iterable[float], error: float) -> list[float]:
    """Keep the plainest of numbers that are within an error, and a next one where chance made it.

    A number of n digits is within the error of any number with a chance of about error·10^n.
    """
    numbers = list(plain)[:_BASES]
    if not numbers:
        return []
    return numbers[:1] if is_no_chance(digits(numbers[0]), error) else numbers


def digits(number: float) -> int:
    """Count the digits of a number, as far as float64 surely has them."""
    return len(f"{number:.14e}".partition("e")[0].replace(".", "").rstrip("0"))


def is_no_chance(count: int, error: float) -> bool:
    """Tell whether a number of so many digits is hardly by chance within an error of another."""
    return error * 10.0**count < _NO_CHANCE


def falling(base: float, span: int, count: int) -> Float64s:
    """Give base^(−2k/span) for k below count, right to the last bit of float64 or nearly so."""
    exponent = np.arange(count).astype(np.longdouble) * -2 / max(span, 1)
    omega: Float64s = np.exp(exponent * np.log(np.longdouble(base))).astype(np.float64)
    return omega


def first_numbers(convention: SinusoidConvention, course: Course) -> Iterator[First]:
    """Give what the fastest frequency may be: 1, or what it is from one row to the next."""
    yield First()
    takes_first = convention.has_bounds or "min_timescale" in convention.takes
    if not course.is_even or not takes_first:
        return
    first, error = course.series.first, 2 * course.series.first_error + 2.0**-50
    if abs(first - 1) > error:
        yield from (First(number) for number in list(round_numbers(first, error))[:1])
    if convention.has_bounds:
        turns = list(round_numbers(first / (2 * np.pi), error))[:1]
        yield from (First(number, is_in_turns=True) for number in turns)


# Rows that are listed one by one: a longer list is no URL.
_MOST_LISTED = 4096

# Rows that are looked at before all of them are.
_TRIED_ROWS = 8

# Frequencies by which all rows are located.
_MOST_PAIRS = 64

_WHOLE = 1e-6
_MOST_DIGITS = 9

# A start that is no whole number is doubted if it takes more to write it.
_FEW_CHARACTERS = 5
_LARGEST = 2.0**53


@dataclass(frozen=True, eq=False)
class Positioned:
    """Where rows are.

    Attributes:
        values: the position of each row, (S,), that of a row of zeros where its neighbours are
            evenly spaced, and NaN otherwise.
        residual: how far angles are from those of the positions at most, in radians, where it
            was looked.
        step: from row to row; None where they are not evenly spaced.
    """

    values: Float64s
    residual: float
    step: float | None

    @property
    def is_whole(self) -> bool:
        """Tell whether all are whole numbers."""
        known = self.values[~np.isnan(self.values)]
        return bool((known == np.round(known)).all())

    def moved(self, distance: float) -> Float64s:
        """Give them so much further on."""
        return self.values + distance


def positions_of(view: View, course: Course, omega: Float64s) -> Positioned | None:
    """Find the positions that rows have, if frequencies are those; None if there are none.

    Args:
        view: the rows.
        course: how their angles run.
        omega: radians per position, (K,) or more.
    """
    omega = omega[: view.pairs]
    if not course.window:
        return _each(view, omega)
    step = _step(course, float(omega[0]))
    where = course.places[view.kept[course.window]]
    turns, angle_errors = view.part(course.window)
    straight = turns * np.exp(-1j * step * np.outer(where, omega))
    phases = np.angle(straight.sum(axis=0))[np.newaxis]
    # Frequencies that engines have in float32 are off by as much as rows are far.
    engine = ENGINE_SHARE * abs(step) * omega * np.abs(where).max()
    errors = (np.median(angle_errors, axis=0) + engine)[np.newaxis]
    found = _one(phases, errors, omega)
    if found is None:
        return None
    start = float(found.rounded()[0])
    if not _is_written(start) or not _is_written(step):
        return None
    apart = np.diff(course.places)
    is_even = len(apart) > 0 and bool((apart == apart[0]).all())
    between = step * float(apart[0]) if is_even else None
    return Positioned(start + step * course.places, found.residual, between)


def _each(view: View, omega: Float64s) -> Positioned | None:
    some = np.unique(np.linspace(0, len(view.kept) - 1, _TRIED_ROWS).astype(np.intp))
    turns, errors = view.part(some)
    if locate(np.angle(turns), errors, omega) is None:
        return None
    # Of many frequencies some say as much, the slowest among them: each is near enough to the next.
    step = -(-view.pairs // _MOST_PAIRS)
    pairs = slice((view.pairs - 1) % step, None, step)
    turns, errors = view.part(slice(None), pairs)
    omega = omega[pairs]
    find = _one if len(turns) == 1 else locate
    found = find(np.angle(turns), errors, omega)
    if found is None:
        return None
    values = np.full(len(view.rows.values), np.nan)
    values[view.kept] = found.rounded()
    return Positioned(values, found.residual, None)


def _one(phases: Float64s, errors: Float64s, omega: Float64s) -> Places | None:
    """Locate one row, (1, K): at a whole position if it is at no short fraction."""
    found = locate(phases, errors, omega)
    if found is None:
        return None
    start = float(found.rounded()[0])
    if not np.isfinite(start):
        return None
    if start != round(start) and len(to_query(start)) > _FEW_CHARACTERS:
        return locate_whole(phases, errors, omega) or found
    return found


def _step(course: Course, fastest: float) -> float:
    """Give the step between rows: whole if it may be, and otherwise in few digits."""
    step = course.series.first / fastest
    error = max(2 * course.series.first_error, _WHOLE)
    if round(step) and abs(step - round(step)) <= min(error * step, 0.5):
        return course.sign * float(round(step))
    return course.sign * next(round_numbers(step, error), step)


def _is_written(number: float) -> bool:
    """Tell whether somebody may have written a number down, as a float32 at the most."""
    return number == round(number) or float(f"{number:.{_MOST_DIGITS - 1}e}") == number


def spelled_positions(values: Float64s) -> Mapping[str, ParameterValue] | None:
    """Spell positions as parameters, as shortly as they can be; None where they cannot be.

    Args:
        values: one for each row, none of them NaN.
    """
    if np.abs(values).max() >= _LARGEST:
        return None
    if (values == np.round(values)).all():
        positions = Positions.of_runs(map(int, values.tolist()))
        if positions.is_contiguous:
            start = positions.runs[0].first
            return {"seq_len": positions.count, **({"start": start} if start else {})}
        if len(positions.runs) > _MOST_LISTED:
            return None
        return {"positions": str(positions)}
    listed = listed_numbers(values)
    return None if listed is None else {"positions": listed}


def listed_numbers(values: Float64s) -> str | None:
    """List numbers with commas between them; None where there are too many of them."""
    if len(values) > _MOST_LISTED:
        return None
    return to_query(tuple((values + 0.0).tolist()))


def series_support(series: GeometricSeries, count: int, base: float, span: float) -> str:
    """Say what the frequencies are."""
    if count == 1:
        return "there is one frequency, which says nothing of a base"
    return (
        f"{count} frequencies fall as {base:.9g}^(-2k/{span:g}), each to the one before within "
        f"{series.ratio_error:.1e}"
    )


def rows_support(positioned: Positioned, offset: float = 0.0) -> str:
    """Say where rows are."""
    turned = positioned.values + offset
    where = f"angles put the first row at position {turned[0]:.9g}"
    if positioned.step is None:
        where = f"angles put rows at positions from {turned.min():.9g} to {turned.max():.9g}"
    elif positioned.step != 1:
        where += f", each next one {positioned.step:.9g} on"
    return f"{where}, within {positioned.residual:.1e} radians"
