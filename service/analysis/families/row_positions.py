"""Where rows are, from the angles of channels whose frequencies are known.

Rows of turning pairs: the rules that they follow, and the position of each row.

How the cosines and sines of a rotary table may lie in an array: every pack, read.

What rotary families ask of an array: its rounding, its numbers, and where its rows are.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from service.analysis.array import IdentifyInput, Sample
from service.analysis.families.frequency_lists import (
    USUAL_BASES,
    MeasuredFrequencies,
    RuleMatch,
    frequencies,
)
from service.analysis.families.scaling_rules import find_rules
from service.analysis.measure import (
    EARLY_ROWS,
    Complexes,
    MeasuredWaves,
    fit_geometric,
    layout_readings,
    measure,
)
from service.analysis.precision import rounding_share
from service.encodings.rotary.packs import PACKS
from service.encodings.rotary.rules import Default, Linear
from service.numerics.document import ParameterValue
from service.numerics.dtypes import BFLOAT16, REAL_DTYPES
from service.numerics.phase import Float64s, Int64s
from service.numerics.phasors import Channels, Component
from service.numerics.positions import Positions

_MOST_TURNS = 4096
_MOST_KEPT = 4

# Farther out than this float64 has no room for an angle beside its turns.
_FARTHEST = 2.0**40
_TWO_PI = 2 * np.pi

# Frequencies in float32 are a few units of the last place off, and an angle by as much.
_FREQUENCY_ERROR = 2.0**-21


def positions_of(angles: Float64s, omega: Float64s, error: float) -> Iterator[Int64s]:
    """Find integers p with p·ω_k the angle of each channel, modulo whole turns.

    The slowest channel says p up to whole turns of its own; each faster one after it says it more
    exactly. Where the slowest turns often, several p are left: those near 0 come first.

    Args:
        angles: in radians, (K,) or, for many rows, (S, K).
        omega: radians per position, (K,), none below 0.
        error: how far angles may be off, in radians.

    Yields:
        For each row those that fit, at most four.
    """
    turning = np.flatnonzero(omega > 0)
    order = turning[np.argsort(omega[turning])]
    rows = np.atleast_2d(angles)
    return (_of_row(row, omega, order, error) for row in rows)


def _of_row(row: Float64s, omega: Float64s, order: Int64s, error: float) -> Int64s:
    if not len(order):
        return np.zeros(0, dtype=np.int64)
    # A channel slower than this turns by no more than its own error on the way to the farthest.
    order = order[omega[order] * _FARTHEST > error]
    first = order[0]
    turns = np.arange(-_MOST_TURNS, _MOST_TURNS + 1)
    kept = (row[first] + _TWO_PI * turns) / omega[first]
    off = error / omega[first] + np.abs(kept) * _FREQUENCY_ERROR
    place = 0
    while len(kept) and (off > 0.25).any() and place + 1 < len(order):
        place = _next(order, omega, place, float(off.max()))
        channel = order[place]
        turned = np.round((kept * omega[channel] - row[channel]) / _TWO_PI)
        finer = (row[channel] + _TWO_PI * turned) / omega[channel]
        fits = np.abs(finer - kept) <= off + error / omega[channel]
        kept = finer[fits]
        off = error / omega[channel] + np.abs(kept) * _FREQUENCY_ERROR
    kept = kept[np.abs(kept) < _FARTHEST]
    whole = np.unique(np.round(kept)).astype(np.int64)
    whole = whole[np.argsort(np.abs(whole), kind="stable")]
    allowed = 2 * error + np.outer(np.abs(whole), omega[order]) * _FREQUENCY_ERROR
    left = np.outer(whole, omega[order]) - row[order]
    fits = np.abs((left + np.pi) % _TWO_PI - np.pi) <= allowed
    return whole[fits.all(axis=1)][:_MOST_KEPT]


def _next(order: Int64s, omega: Float64s, place: int, off: float) -> int:
    """Give the fastest channel that what is known so far leaves no doubt of a turn in."""
    clear = np.flatnonzero(omega[order] * off < 1.0)
    return max(place + 1, int(clear[-1]) if len(clear) else 0)


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

    found: RuleMatch
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
        if waves.angle_error.max() < _CROOKED:
            yield from _known(turns, unit, places, is_given=positions is not None)


def _cut(found: Iterator[Located]) -> Iterator[Located]:
    """Leave out the row of position 0 that was put before the one there is."""
    for each in found:
        yield Located(each.found, each.omega, each.positions[1:])


def _measured(
    waves: MeasuredWaves, turns: Complexes, unit: float, places: Float64s
) -> MeasuredFrequencies:
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
    return MeasuredFrequencies(omega, error, waves.scale, 2 * unit)


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
    error = 4 * float(waves.angle_error.max()) + 8 * unit
    for told in find_rules(_measured(waves, turns, unit, places)):
        step, found = (1, told) if is_given else _step_of(told)
        omega = frequencies(found.rule)
        if is_given:
            yield Located(found, omega, places.astype(np.int64))
            continue
        for start in next(positions_of(waves.phase, omega, error))[:2]:
            yield Located(found, omega, step * places.astype(np.int64) + start)


def _step_of(found: RuleMatch) -> tuple[int, RuleMatch]:
    """Read frequencies that are a multiple of a base's as those of rows some steps apart."""
    rule = found.rule
    if not isinstance(rule, Linear) or rule.factor > _LEAST_FACTOR:
        return 1, found
    step = round(1 / rule.factor)
    if abs(step * rule.factor - 1) > _WHOLE:
        return 1, found
    plain = Default(rule.rotary_dim, rule.rope_theta)
    return step, RuleMatch(
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


def _guesses(turns: Complexes, unit: float, scale: float) -> Iterator[RuleMatch]:
    count = turns.shape[1]
    yield from rules_of_first_rows(turns, unit)
    rows = _straight_rows(turns, unit)
    if rows:
        yield from _stepped(measure(turns[:rows]), unit, rows - 1.0)
    if abs(scale - 1) < 4 * unit:
        for base in USUAL_BASES:
            said = (f"angles are whole multiples of frequencies of base {base:g}",)
            yield RuleMatch(Default(2 * count, base), {"rope_theta": base}, said)


def rules_of_first_rows(turns: Complexes, unit: float) -> Iterator[RuleMatch]:
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
        if measure(turns[:rows]).angle_error.max() < max(_CROOKED / 16, 8 * unit):
            return rows
    return 0


def _plain_ones(found: Iterator[RuleMatch]) -> Iterator[RuleMatch]:
    return (each for each in found if not each.parameters.keys() & {"inv_freq", "freq_factors"})


def _stepped(waves: MeasuredWaves, unit: float, reach: float) -> Iterator[RuleMatch]:
    """Find the rule of rows some steps apart: those that turn from 1 on with a step of 1."""
    count = len(waves.omega)
    tail = max(2, count // 3)
    error = np.maximum(waves.omega_error, 4 * unit / reach)
    series = fit_geometric(waves.omega[-tail:], error[-tail:])
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
    measured = MeasuredFrequencies(straight / whole, error / whole, waves.scale, 2 * unit)
    yield from _plain_ones(find_rules(measured))


_SIN: tuple[Component, ...] = ("sin",)
_OF_LAYOUT: Mapping[str, str] = {
    "half_concat": "half_concat",
    "sin_half_concat": "sin_half_concat",
    "sin_interleaved_concat": "sin_interleaved_concat",
    "flat": "flat",
    "concat": "concat",
    "concatenated": "sin_concat",
}


# The first rows say which table it may be; whether it is, all of them.
MOST_ROWS = 512

# In so few rows channels may be alike by chance: all ones at position 0.
_FEW_ROWS = 8


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows read as a pack of rotary tables.

    Attributes:
        pack: its name.
        channels: for each array by name, what it holds where.
        turns: cosine + i·sine of each pair, of the first rows, (S, K).
        rows: how many rows there are in all.
        says: where pairs are, in words.
    """

    pack: str
    channels: Mapping[str, Channels]
    turns: Complexes
    rows: int
    says: str


def rows_of(sample: Sample) -> Float64s:
    """Give an array's rows of channels: what the last axis holds, that had more than one."""
    values = sample.reals()
    if values.ndim == 1:
        last = sample.shape[-1] if sample.shape else 1
        return values[np.newaxis] if last == len(values) else values[:, np.newaxis]
    return values.reshape(-1, values.shape[-1])


def packings(question: IdentifyInput, unit: float) -> Iterator[Packed]:
    """Read an array, or two, in every pack in which channels that should be equal are.

    Args:
        question: what was sent.
        unit: how far rounding may move a number, as a share of it.
    """
    if question.is_pair:
        if question.sample.values.ndim <= 2:
            yield from _pair(question, unit)
        return
    sample = question.sample
    if sample.is_complex or _ends_in_two(sample):
        yield from _paired(sample)
    elif sample.values.ndim <= 2:
        yield from _single(rows_of(sample), unit)


def _ends_in_two(sample: Sample) -> bool:
    """Tell whether an array has an axis of pairs: its last one, with another of channels."""
    return len(sample.shape) >= 3 and sample.shape[-1] == 2 and sample.values.ndim <= 3


def _paired(sample: Sample) -> Iterator[Packed]:
    pairs = sample.shape[-1] if sample.is_complex else sample.shape[-2]
    values = sample.reals().reshape(-1, pairs, 2)
    channels = Channels(("cos", "sin"), True, 2 * pairs)
    turns = values[..., 0] + 1j * values[..., 1]
    name = "complex" if sample.is_complex else "pair"
    says = "the real and the imaginary part" if sample.is_complex else "the last axis"
    yield Packed(name, {"rope": channels}, turns[:MOST_ROWS], len(turns), says)


def _single(every: Float64s, unit: float) -> Iterator[Packed]:
    rows = every[:MOST_ROWS]
    allowed = 4 * unit * float(np.abs(rows).max(initial=0.0))
    fitting = [
        reading
        for reading in layout_readings(rows)
        if reading.layout in _OF_LAYOUT and reading.copy_error <= allowed and rows.shape[1] % 2 == 0
    ]
    fewest = min((each.phasors.shape[1] for each in fitting), default=0)
    for reading in sorted(fitting, key=lambda each: each.phasors.shape[1]):
        if reading.phasors.shape[1] > fewest and len(rows) > _FEW_ROWS:
            return
        pack = _OF_LAYOUT[reading.layout]
        says = f"channels laid out as {PACKS[pack].description}"
        yield Packed(pack, {"rope": reading.channels}, reading.phasors, len(every), says)


def _pair(question: IdentifyInput, unit: float) -> Iterator[Packed]:
    every = [rows_of(question.arrays[name]) for name in ("cos", "sin")]
    if every[0].shape != every[1].shape:
        return
    cos, sin = (rows[:MOST_ROWS] for rows in every)
    for pack, laid_out in component_channels(cos, unit):
        twin = Channels(_SIN * len(laid_out.components), laid_out.interleaved, laid_out.width)
        if not _agrees(sin, twin, unit):
            continue
        turns = pick(cos, laid_out) + 1j * pick(sin, twin)
        says = f"channels laid out as {PACKS[pack].description}"
        yield Packed(pack, {"cos": laid_out, "sin": twin}, turns, len(every[0]), says)


def component_channels(
    rows: Float64s, unit: float, component: Component = "cos"
) -> Iterator[tuple[str, Channels]]:
    """Name the packs of two arrays that rows of one component may be, those with copies first."""
    width, is_told = rows.shape[1], False
    for pack, copies, interleaved in (("half", 2, False), ("interleaved", 2, True)):
        channels = Channels((component,) * copies, interleaved, width)
        if width % 2 == 0 and _agrees(rows, channels, unit):
            is_told = len(rows) > _FEW_ROWS
            yield pack, channels
    if not is_told:
        yield "compact", Channels((component,), False, width)


def _agrees(rows: Float64s, channels: Channels, unit: float) -> bool:
    """Tell whether copies of a channel are alike."""
    index, _ = channels.indices()
    first = pick(rows, channels)[:, index]
    return bool(np.abs(rows - first).max() <= 4 * unit * np.abs(rows).max())


def pick(rows: Float64s, channels: Channels) -> Float64s:
    """Give the first channel of each frequency."""
    index, _ = channels.indices()
    _, places = np.unique(index, return_index=True)
    return rows[:, places]


def unit_of(sample: Sample) -> float:
    """Give how far rounding to an array's type moves cosines and sines, as a share of their scale.

    They are below 1, where half a step of bfloat16 is 2^-9. Finer types have as much again, for
    what engines lose beside it.
    """
    rounding = rounding_share(sample)
    return rounding / 2 if sample.element_dtype is BFLOAT16 else rounding


def is_of_numbers(sample: Sample) -> bool:
    """Tell whether an array has real or complex numbers, all finite, not all of them 0."""
    is_known = sample.element_dtype in REAL_DTYPES.values()
    return is_known and sample.is_finite and bool(sample.values.any())


def has_whole_positions(question: IdentifyInput, rows: int) -> bool:
    """Tell whether the positions of rows are unknown, or integers that rise, one for each row."""
    known = question.positions
    if known is None:
        return True
    is_whole = len(known) == rows and bool((known == np.round(known)).all())
    return is_whole and bool((np.diff(known) > 0).all())


def positions_as_parameters(positions: Int64s) -> dict[str, ParameterValue]:
    """Spell positions, all that is not left to a default."""
    spelled = Positions.of_runs(positions.tolist()).parameters()
    return {name: value for name, value in spelled.items() if (name, value) != ("start", 0)}
