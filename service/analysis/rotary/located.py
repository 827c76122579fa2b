"""Rows of turning pairs: the rules that they follow, and the position of each row."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from service.analysis.progression import geometric
from service.analysis.rotary.positions import positions_of
from service.analysis.rotary.rules import find_rules
from service.analysis.rotary.rules_measured import USUAL_BASES, Found, Measured, frequencies
from service.analysis.waves import EARLY_ROWS, Complexes, Waves, measure
from service.tables.angle import Float64s, Int64s
from service.tables.rope_rules import Default, Linear

# Angles that are farther than this from a straight line are not those of evenly spaced rows.
_CROOKED = 0.25

# Logarithms and powers of float64 are some units of the last place off.
_LEAST_SHARE = 2.0**-44

# A model is stretched: below this a factor is the step between rows.
_LEAST_FACTOR = 0.6
_WHOLE = 2.0**-8

_MOST_PREFIX = 16


@dataclass(frozen=True, eq=False)
class Located:
    """Rows whose frequencies and positions are known.

    Attributes:
        found: the rule of the frequencies.
        omega: them, radians per position.
        positions: of each row.
    """

    found: Found
    omega: Float64s
    positions: Int64s


def evenly_located(
    turns: Complexes, unit: float, positions: Float64s | None = None
) -> Iterator[Located]:
    """Find what rules rows follow whose positions are known, or follow each other.

    Args:
        turns: cosine + i·sine, (S, K), all of about one norm.
        unit: how far rounding may move them, as a share of that norm.
        positions: of the rows, where they are known.
    """
    places = np.arange(len(turns), dtype=np.float64) if positions is None else positions
    if len(turns) == 1 and positions is not None and places[0] > 0:
        at_zero = np.full((1, turns.shape[1]), np.median(np.abs(turns)))
        both = np.concatenate([at_zero, turns])
        yield from _cut(_known(both, unit, np.array([0.0, places[0]]), is_given=True))
    elif len(turns) > 1:
        waves = measure(turns, places)
        if waves.crookedness.max() < _CROOKED:
            yield from _known(turns, unit, places, is_given=positions is not None)


def _cut(found: Iterator[Located]) -> Iterator[Located]:
    """Leave out the row of position 0 that was put before the one there is."""
    for each in found:
        yield Located(each.found, each.omega, each.positions[1:])


def _measured(waves: Waves, turns: Complexes, unit: float, places: Float64s) -> Measured:
    """Say what was measured, and how far it may be off where no row shows it.

    Rounding moves sin φ and cos φ by ``unit`` of each, and φ by unit·|sin 2φ| at most. Where rows
    are all moved alike, as those of slow pairs far out, they lie in a straight line nevertheless.
    The slope of a line through rows that are off by e, R apart at most, is off by
    e·Σ|m|/Σm² = 3e/R, and by 2e/R where there are two.
    """
    early = places[:EARLY_ROWS]
    error = waves.omega_error + np.abs(waves.omega) * _LEAST_SHARE
    moved = unit * _doubled_sines(turns[:EARLY_ROWS])
    error = np.maximum(error, 3 * moved / float(early[-1] - early[0]))
    omega = _unfolded(waves.omega, 2 * np.pi / waves.step)
    return Measured(omega, error, waves.scale, 2 * unit)


def _doubled_sines(turns: Complexes) -> Float64s:
    """Give the largest |sin 2φ| of each pair."""
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = np.nan_to_num(turns / np.abs(turns))
    largest: Float64s = np.abs(2 * unit.real * unit.imag).max(axis=0)
    return largest


def _unfolded(omega: Float64s, period: float) -> Float64s:
    """Undo the loss of whole turns between rows, from the slowest channel on.

    Each frequency is to the next slower one about what that one is to the one after it.
    """
    if period > 2 * np.pi * 0.999 and omega[0] > 0:
        return omega
    straight = omega.copy()
    for k in range(len(omega) - 3, -1, -1):
        slower, slowest = straight[k + 1], straight[k + 2]
        if 0 < slowest < slower:
            expected = slower * slower / slowest
            straight[k] += period * np.round((expected - omega[k]) / period)
    return straight


def _known(turns: Complexes, unit: float, places: Float64s, *, is_given: bool) -> Iterator[Located]:
    """Find the rules of rows a known way apart, and the position of the first of them."""
    waves = measure(turns, places)
    error = 4 * float(waves.crookedness.max()) + 8 * unit
    for told in find_rules(_measured(waves, turns, unit, places)):
        step, found = (1, told) if is_given else _step_of(told)
        omega = frequencies(found.rule)
        if is_given:
            yield Located(found, omega, places.astype(np.int64))
            continue
        for start in next(positions_of(waves.phase, omega, error))[:2]:
            yield Located(found, omega, step * places.astype(np.int64) + start)


def _step_of(found: Found) -> tuple[int, Found]:
    """Read frequencies that are a multiple of a base's as those of rows some steps apart."""
    rule = found.rule
    if not isinstance(rule, Linear) or rule.factor > _LEAST_FACTOR:
        return 1, found
    step = round(1 / rule.factor)
    if abs(step * rule.factor - 1) > _WHOLE:
        return 1, found
    plain = Default(rule.rotary_dim, rule.rope_theta)
    return step, Found(
        plain, {"rope_theta": rule.rope_theta}, (*found.says, f"rows are {step} apart")
    )


def scattered(turns: Complexes, unit: float) -> Iterator[Located]:
    """Find the rules and positions of rows that do not follow each other.

    The rule follows from the first rows, if these do; or from how the slow channels of evenly
    spaced rows turn; or it is that of a usual base.

    Args:
        turns: cosine + i·sine, (S, K), all of about one norm.
        unit: how far rounding may move them, as a share of that norm.
    """
    scale = float(np.median(np.abs(turns)))
    for rule in _guesses(turns, unit, scale):
        omega = frequencies(rule.rule)
        positions = _each_position(np.angle(turns), omega, unit)
        if positions is None:
            continue
        if len(turns) > 1 and (np.diff(positions) > 0).all():
            again = list(_known(turns, unit, positions.astype(np.float64), is_given=True))
            if again:
                yield from again
                return
        yield Located(rule, omega, positions)
        return


def _each_position(angles: Float64s, omega: Float64s, unit: float) -> Int64s | None:
    """Give the position nearest to 0 that each row may have, or None where a row has none."""
    nearest = []
    for fitting in positions_of(angles, omega, 16 * unit):
        if not len(fitting):
            return None
        nearest.append(fitting[0])
    return np.array(nearest, dtype=np.int64)


def _guesses(turns: Complexes, unit: float, scale: float) -> Iterator[Found]:
    count = turns.shape[1]
    yield from rules_of_first_rows(turns, unit)
    rows = _straight_rows(turns, unit)
    if rows:
        yield from _stepped(measure(turns[:rows]), unit, rows - 1.0)
    if abs(scale - 1) < 4 * unit:
        for base in USUAL_BASES:
            said = (f"angles are whole multiples of frequencies of base {base:g}",)
            yield Found(Default(2 * count, base), {"rope_theta": base}, said)


def rules_of_first_rows(turns: Complexes, unit: float) -> Iterator[Found]:
    """Find the rules of the first rows, as many of them as follow each other.

    Args:
        turns: cosine + i·sine, (S, K), all of about one norm.
        unit: how far rounding may move them, as a share of that norm.
    """
    rows = _straight_rows(turns, unit)
    if rows:
        waves, places = measure(turns[:rows]), np.arange(rows, dtype=np.float64)
        yield from _plain_ones(find_rules(_measured(waves, turns[:rows], unit, places)))


def _straight_rows(turns: Complexes, unit: float) -> int:
    """Count the first rows that are evenly spaced; 0 where not even two are."""
    for rows in range(min(_MOST_PREFIX, len(turns)), 1, -1):
        if measure(turns[:rows]).crookedness.max() < max(_CROOKED / 16, 8 * unit):
            return rows
    return 0


def _plain_ones(found: Iterator[Found]) -> Iterator[Found]:
    return (each for each in found if not each.parameters.keys() & {"inv_freq", "freq_factors"})


def _stepped(waves: Waves, unit: float, reach: float) -> Iterator[Found]:
    """Find the rule of rows some steps apart: those that turn from 1 on with a step of 1."""
    count = len(waves.omega)
    tail = max(2, count // 3)
    error = np.maximum(waves.omega_error, 4 * unit / reach)
    series = geometric(waves.omega[-tail:], error[-tail:])
    if series is None or not 0 < series.ratio < 1:
        return
    step = round(series.first * series.ratio ** (tail - count))
    if step < 2:
        return
    straight = waves.omega.copy()
    for k in range(count - tail - 1, -1, -1):
        expected = straight[k + 1] / series.ratio
        straight[k] += 2 * np.pi * np.round((expected - straight[k]) / (2 * np.pi))
    whole = max(1, round(float(straight[0])))
    measured = Measured(straight / whole, error / whole, waves.scale, 2 * unit)
    yield from _plain_ones(find_rules(measured))
