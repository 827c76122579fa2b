"""Find the frequency rule and the row positions of rotary tables.

Where rows are evenly spaced or their positions are known, the angles of the rows give frequencies,
and the frequencies give rules. The frequencies of a rule and the angles of a row give the row's
position: the slowest pair gives an estimate, and each faster pair refines it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.array import IdentifyInput, Sample
from service.analysis.families.scaling_rules import find_rules
from service.analysis.families.series_rules import (
    USUAL_BASES,
    MeasuredFrequencies,
    RuleMatch,
    frequencies,
)
from service.analysis.families.unwrapping import whole_positions
from service.analysis.measure import (
    EARLY_ROWS,
    Complexes,
    MeasuredWaves,
    measure,
)
from service.analysis.precision import rounding_share
from service.encodings.rotary.rules import Default, Linear
from service.numerics.dtypes import BFLOAT16, REAL_DTYPES
from service.numerics.phase import Float64s, Int64s

_TWO_PI = 2 * np.pi

# If angles deviate from a line by more radians than this, the rows are not evenly spaced.
_MAX_DEVIATION = 0.25

# The relative error of logarithms and powers of float64.
_LEAST_ERROR = 2.0**-44

# Linear scaling of models has a factor of at least 1: a smaller factor is the step between rows.
_LEAST_FACTOR = 0.6
_STEP_ERROR = 2.0**-8
# float32 represents every integer up to this one.
_MOST_STEP = 2**24

_MAX_FIRST_ROWS = 16


def has_real_numbers(sample: Sample) -> bool:
    """Return whether all elements are real or complex numbers and finite, and some are not 0."""
    is_known = sample.element_dtype in REAL_DTYPES.values()
    return is_known and sample.is_finite and bool(sample.values.any())


def unit_of(sample: Sample) -> float:
    """Return the rounding error of an array's cosines and sines, relative to their scale.

    Elements below 1 have an error of at most half an ulp in bfloat16, 2^-9. For other types the
    bound is twice as large, which includes the arithmetic errors of engines.
    """
    rounding = rounding_share(sample)
    return rounding / 2 if sample.element_dtype is BFLOAT16 else rounding


def has_rising_positions(request: IdentifyInput, rows: int) -> bool:
    """Return True if the row positions are unknown, or are rising integers, one for each row."""
    known = request.positions
    if known is None:
        return True
    is_integer = len(known) == rows and bool((known == np.round(known)).all())
    return is_integer and bool((np.diff(known) > 0).all())


@dataclass(frozen=True, eq=False)
class LocatedRows:
    """Rows with known frequencies and positions.

    Attributes:
        match: the rule that gives the frequencies.
        omega: the frequencies in radians per position, (K,).
        positions: the position of each row, (S,).
    """

    match: RuleMatch
    omega: Float64s
    positions: Int64s


def evenly_located(
    phasors: Complexes, unit: float, positions: Float64s | None = None
) -> Iterator[LocatedRows]:
    """Yield rules and positions for rows that are evenly spaced or have known positions.

    Args:
        phasors: cosine + i·sine of S rows and K frequencies, (S, K), all of about one norm.
        unit: the rounding error of cosines and sines, relative to the norm.
        positions: the position of each row, (S,); None if unknown.
    """
    where = np.arange(len(phasors), dtype=np.float64) if positions is None else positions
    if len(phasors) == 1 and positions is not None and where[0] > 0:
        # All angles are 0 at position 0.
        at_zero = np.full((1, phasors.shape[1]), np.median(np.abs(phasors)))
        both = np.concatenate([at_zero, phasors])
        for rows in _rules_along(both, unit, np.array([0.0, where[0]]), is_known=True):
            yield replace(rows, positions=rows.positions[1:])
    elif len(phasors) > 1 and measure(phasors, where).angle_error.max() < _MAX_DEVIATION:
        yield from _rules_along(phasors, unit, where, is_known=positions is not None)


def scattered(phasors: Complexes, unit: float) -> Iterator[LocatedRows]:
    """Yield rules and positions for rows that are not evenly spaced.

    The rule comes from the first rows, if these are evenly spaced, or from a usual base.

    Args:
        phasors: cosine + i·sine of S rows and K frequencies, (S, K), all of about one norm.
        unit: the rounding error of cosines and sines, relative to the norm.
    """
    for match in _rule_guesses(phasors, unit):
        omega = frequencies(match.rule)
        positions = _nearest_positions(np.angle(phasors), omega, unit)
        if positions is None:
            continue
        refined: list[LocatedRows] = []
        if len(phasors) > 1 and (np.diff(positions) > 0).all():
            refined = list(_rules_along(phasors, unit, positions.astype(np.float64), is_known=True))
        yield from refined or [LocatedRows(match, omega, positions)]
        return


def _nearest_positions(angles: Float64s, omega: Float64s, unit: float) -> Int64s | None:
    """Return, for each row of angles (S, K), its integer position nearest to 0, (S,).

    Return None if some row has no integer position.
    """
    nearest = []
    for row in angles:
        positions = whole_positions(row, omega, 16 * unit)
        if not len(positions):
            return None
        nearest.append(positions[0])
    return np.array(nearest, dtype=np.int64)


def rules_of_first_rows(phasors: Complexes, unit: float) -> Iterator[RuleMatch]:
    """Yield the rules that fit the evenly spaced rows at the start of the array.

    Args:
        phasors: cosine + i·sine of S rows and K frequencies, (S, K), all of about one norm.
        unit: the rounding error of cosines and sines, relative to the norm.
    """
    count = _count_even_rows(phasors, unit)
    if count:
        first = phasors[:count]
        where = np.arange(count, dtype=np.float64)
        yield from _formulas(find_rules(_frequencies(measure(first), first, unit, where)))


def _rules_along(
    phasors: Complexes, unit: float, where: Float64s, *, is_known: bool
) -> Iterator[LocatedRows]:
    """Yield rules and positions for rows whose angles are linear in ``where``, (S,).

    ``where`` has the positions if ``is_known``, otherwise the row indices.
    """
    waves = measure(phasors, where)
    error = 4 * float(waves.angle_error.max()) + 8 * unit
    rows = where.astype(np.int64)
    for match in find_rules(_frequencies(waves, phasors, unit, where)):
        if is_known:
            yield LocatedRows(match, frequencies(match.rule), rows)
            continue
        step, unscaled = _row_step(match)
        omega = frequencies(unscaled.rule)
        for start in whole_positions(waves.phase, omega, error)[:2]:
            yield LocatedRows(unscaled, omega, step * rows + start)


def _frequencies(
    waves: MeasuredWaves, phasors: Complexes, unit: float, where: Float64s
) -> MeasuredFrequencies:
    """Return the measured frequencies, with error bounds that include the effects of rounding.

    Rounding changes sin φ and cos φ by the relative error ``unit``, and φ by at most
    unit·|sin 2φ|. In slow pairs at large positions it changes the angles of all rows alike, so
    the deviation from a line does not show it. The slope of a line through rows m, over a range R
    of positions, with angle errors e, has an error of e·Σ|m|/Σm² = 3e/R, or 2e/R for two rows.
    """
    early, first = where[:EARLY_ROWS], phasors[:EARLY_ROWS]
    with np.errstate(invalid="ignore", divide="ignore"):
        norm = np.nan_to_num(first / np.abs(first))
    moved = unit * np.abs(2 * norm.real * norm.imag).max(axis=0)
    error = waves.omega_error + np.abs(waves.omega) * _LEAST_ERROR
    error = np.maximum(error, 3 * moved / float(early[-1] - early[0]))
    omega = _unwrapped(waves.omega, _TWO_PI / waves.step)
    return MeasuredFrequencies(omega, error, waves.scale, 2 * unit)


def _unwrapped(omega: Float64s, period: float) -> Float64s:
    """Return the frequencies plus multiples of the period, unwrapped from the slowest on.

    The ratio of neighbouring frequencies changes slowly in all rules, so two slower frequencies
    predict the next one.
    """
    if period > _TWO_PI * 0.999 and omega[0] > 0:
        return omega
    unwrapped = omega.copy()
    for k in range(len(omega) - 3, -1, -1):
        slower, slowest = unwrapped[k + 1], unwrapped[k + 2]
        if 0 < slowest < slower:
            expected = slower * slower / slowest
            unwrapped[k] += period * np.round((expected - omega[k]) / period)
    return unwrapped


def _row_step(match: RuleMatch) -> tuple[int, RuleMatch]:
    """Return the step between rows, and the rule for positions with this step.

    A linear rule with the factor 1/n is the default rule for rows n positions apart. Any other
    rule is returned unchanged, with the step 1.
    """
    rule = match.rule
    if not isinstance(rule, Linear) or rule.factor > _LEAST_FACTOR:
        return 1, match
    step = round(1 / rule.factor)
    if abs(step * rule.factor - 1) > _STEP_ERROR or step > _MOST_STEP:
        return 1, match
    support = (*match.support, f"rows are {step} apart")
    default = Default(rule.rotary_dim, rule.rope_theta)
    return step, RuleMatch(default, {"rope_theta": rule.rope_theta}, support)


def _rule_guesses(phasors: Complexes, unit: float) -> Iterator[RuleMatch]:
    for match in rules_of_first_rows(phasors, unit):
        yield _row_step(match)[1]
    if abs(float(np.median(np.abs(phasors))) - 1) < 4 * unit:
        for base in USUAL_BASES:
            support = (f"angles are integer multiples of frequencies of base {base:g}",)
            yield RuleMatch(Default(2 * phasors.shape[1], base), {"rope_theta": base}, support)


def _count_even_rows(phasors: Complexes, unit: float) -> int:
    """Return the number of evenly spaced rows at the start, at most 16; 0 if fewer than two."""
    for rows in range(min(_MAX_FIRST_ROWS, len(phasors)), 1, -1):
        if measure(phasors[:rows]).angle_error.max() < max(_MAX_DEVIATION / 16, 8 * unit):
            return rows
    return 0


def _formulas(matches: Iterator[RuleMatch]) -> Iterator[RuleMatch]:
    """Yield the matches without a listed value per frequency: lists fit all measurements."""
    return (each for each in matches if not each.parameters.keys() & {"inv_freq", "freq_factors"})
