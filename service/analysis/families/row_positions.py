"""Find the rotary rule and the positions of rows of cosines and sines, in every pack.

An array is read in each pack in which channels that should be equal are. The angles of its pairs
then give frequencies, where rows follow each other or their positions are known; frequencies give
rules; and a rule gives the position of each row, from the slowest pair to the fastest.
"""

from collections.abc import Iterator, Mapping
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
    fit_geometric,
    layout_readings,
    measure,
)
from service.analysis.precision import rounding_share
from service.encodings.rotary.angles import PACKS
from service.encodings.rotary.rules import Default, Linear
from service.numerics.dtypes import BFLOAT16, REAL_DTYPES
from service.numerics.phase import Float64s, Int64s
from service.numerics.phasors import Channels, Component

_TWO_PI = 2 * np.pi


def has_real_numbers(sample: Sample) -> bool:
    """Return whether an array has real or complex numbers, all finite, not all of them 0."""
    is_known = sample.element_dtype in REAL_DTYPES.values()
    return is_known and sample.is_finite and bool(sample.values.any())


def unit_of(sample: Sample) -> float:
    """Return the rounding error of cosines and sines in an array's type, as a share of their scale.

    They are below 1, where half a step of bfloat16 is 2^-9. Finer types have as much again, for
    what engines lose beside it.
    """
    rounding = rounding_share(sample)
    return rounding / 2 if sample.element_dtype is BFLOAT16 else rounding


def rows_of(sample: Sample) -> Float64s:
    """Return an array by rows; the channels are the last axis, unless its length is 1."""
    values = sample.reals()
    if values.ndim == 1:
        last = sample.shape[-1] if sample.shape else 1
        return values[np.newaxis] if last == len(values) else values[:, np.newaxis]
    return values.reshape(-1, values.shape[-1])


def has_rising_positions(request: IdentifyInput, rows: int) -> bool:
    """Return whether the positions of rows are unknown, or rising integers, one for each row."""
    known = request.positions
    if known is None:
        return True
    is_integer = len(known) == rows and bool((known == np.round(known)).all())
    return is_integer and bool((np.diff(known) > 0).all())


# Packs.

# The first rows propose tables; all rows verify them.
MAX_ROWS = 512

_SINE: tuple[Component, ...] = ("sin",)

# In so few rows channels may be alike by chance: all are 1 at position 0.
_FEW_ROWS = 8

_PACK_OF_LAYOUT: Mapping[str, str] = {
    **{name: name for name in ("half_concat", "sin_half_concat", "sin_interleaved_concat")},
    **{name: name for name in ("flat", "concat")},
    "concatenated": "sin_concat",
}


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Rows read as a pack of rotary tables.

    Attributes:
        pack: its name.
        channels: for each array by name, which component of which frequency a channel holds.
        turns: cosine + i·sine of each pair, of the first rows, (S, K).
        rows: how many rows there are in all.
        support: where pairs are, in words.
    """

    pack: str
    channels: Mapping[str, Channels]
    turns: Complexes
    rows: int
    support: str


def packings(request: IdentifyInput, unit: float) -> Iterator[PackedRows]:
    """Read an array, or a pair of them, in every pack in which channels that should be equal are.

    Args:
        request: what was sent.
        unit: how far rounding may move a number, as a share of it.
    """
    sample = request.sample
    if request.is_pair:
        if sample.values.ndim <= 2:
            yield from _two_arrays(request, unit)
    elif sample.is_complex or _ends_in_two(sample):
        yield _last_axis_pairs(sample)
    elif sample.values.ndim <= 2:
        yield from _one_array(rows_of(sample), unit)


def _ends_in_two(sample: Sample) -> bool:
    return len(sample.shape) >= 3 and sample.shape[-1] == 2 and sample.values.ndim <= 3


def _last_axis_pairs(sample: Sample) -> PackedRows:
    pairs = sample.shape[-1] if sample.is_complex else sample.shape[-2]
    values = sample.reals().reshape(-1, pairs, 2)
    channels = {"rope": Channels(("cos", "sin"), True, 2 * pairs)}
    turns = (values[..., 0] + 1j * values[..., 1])[:MAX_ROWS]
    if sample.is_complex:
        support = "the real and the imaginary part"
        return PackedRows("complex", channels, turns, len(values), support)
    return PackedRows("pair", channels, turns, len(values), "the last axis")


def _one_array(every: Float64s, unit: float) -> Iterator[PackedRows]:
    rows = every[:MAX_ROWS]
    allowed = 4 * unit * float(np.abs(rows).max(initial=0.0))
    fitting = [
        reading
        for reading in layout_readings(rows)
        if reading.layout in _PACK_OF_LAYOUT
        and reading.copy_error <= allowed
        and rows.shape[1] % 2 == 0
    ]
    fitting.sort(key=lambda each: each.phasors.shape[1])
    for reading in fitting:
        if reading.phasors.shape[1] > fitting[0].phasors.shape[1] and len(rows) > _FEW_ROWS:
            return
        pack = _PACK_OF_LAYOUT[reading.layout]
        channels = {"rope": reading.channels}
        yield PackedRows(pack, channels, reading.phasors, len(every), _laid_out(pack))


def _laid_out(pack: str) -> str:
    return f"channels laid out as {PACKS[pack].description}"


def _two_arrays(request: IdentifyInput, unit: float) -> Iterator[PackedRows]:
    every = [rows_of(request.arrays[name]) for name in ("cos", "sin")]
    if every[0].shape != every[1].shape:
        return
    cos, sin = (rows[:MAX_ROWS] for rows in every)
    for pack, channels in component_channels(cos, unit):
        of_sine = replace(channels, components=_SINE * len(channels.components))
        if _are_copies_alike(sin, of_sine, unit):
            turns = first_copies(cos, channels) + 1j * first_copies(sin, of_sine)
            named = {"cos": channels, "sin": of_sine}
            yield PackedRows(pack, named, turns, len(every[0]), _laid_out(pack))


def component_channels(
    rows: Float64s, unit: float, component: Component = "cos"
) -> Iterator[tuple[str, Channels]]:
    """Yield the packs of two arrays that rows of one component may be, those with copies first."""
    width, is_certain = rows.shape[1], False
    for pack, interleaved in (("half", False), ("interleaved", True)):
        channels = Channels((component,) * 2, interleaved, width)
        if width % 2 == 0 and _are_copies_alike(rows, channels, unit):
            is_certain = len(rows) > _FEW_ROWS
            yield pack, channels
    if not is_certain:
        yield "compact", Channels((component,), False, width)


def _are_copies_alike(rows: Float64s, channels: Channels, unit: float) -> bool:
    index, _ = channels.indices()
    first = first_copies(rows, channels)[:, index]
    return bool(np.abs(rows - first).max() <= 4 * unit * np.abs(rows).max())


def first_copies(rows: Float64s, channels: Channels) -> Float64s:
    """Return the first channel of each frequency."""
    index, _ = channels.indices()
    _, places = np.unique(index, return_index=True)
    return rows[:, places]


# Rules and positions of rows.

# Angles that are farther than this from a straight line are not those of evenly spaced rows.
_CROOKED = 0.25

# Logarithms and powers of float64 are some units of the last place off.
_LEAST_SHARE = 2.0**-44

# A model is stretched: below this a factor is the step between rows.
_LEAST_FACTOR = 0.6
_WHOLE = 2.0**-8

_MAX_PREFIX = 16


@dataclass(frozen=True, eq=False)
class LocatedRows:
    """Rows whose frequencies and positions are known.

    Attributes:
        match: the rule of the frequencies.
        omega: radians per position.
        positions: of each row.
    """

    match: RuleMatch
    omega: Float64s
    positions: Int64s


def evenly_located(
    turns: Complexes, unit: float, positions: Float64s | None = None
) -> Iterator[LocatedRows]:
    """Yield the rules of rows that have known positions or follow each other.

    Args:
        turns: cosine + i·sine, (S, K), all of about one norm.
        unit: how far rounding may move them, as a share of that norm.
        positions: of the rows, where they are known.
    """
    places = np.arange(len(turns), dtype=np.float64) if positions is None else positions
    if len(turns) == 1 and positions is not None and places[0] > 0:
        at_zero = np.full((1, turns.shape[1]), np.median(np.abs(turns)))
        both = np.concatenate([at_zero, turns])
        for rows in _rules_along(both, unit, np.array([0.0, places[0]]), is_known=True):
            yield replace(rows, positions=rows.positions[1:])
    elif len(turns) > 1 and measure(turns, places).angle_error.max() < _CROOKED:
        yield from _rules_along(turns, unit, places, is_known=positions is not None)


def scattered(turns: Complexes, unit: float) -> Iterator[LocatedRows]:
    """Yield the rules and positions of rows that do not follow each other.

    The rule follows from the first rows, if these do; or from how the slow channels of evenly
    spaced rows turn; or it is that of a usual base.

    Args:
        turns: cosine + i·sine, (S, K), all of about one norm.
        unit: how far rounding may move them, as a share of that norm.
    """
    for match in _rule_guesses(turns, unit):
        omega = frequencies(match.rule)
        positions = _nearest_positions(np.angle(turns), omega, unit)
        if positions is None:
            continue
        again: list[LocatedRows] = []
        if len(turns) > 1 and (np.diff(positions) > 0).all():
            again = list(_rules_along(turns, unit, positions.astype(np.float64), is_known=True))
        yield from again or [LocatedRows(match, omega, positions)]
        return


def _nearest_positions(angles: Float64s, omega: Float64s, unit: float) -> Int64s | None:
    """Return the position nearest to 0 of each row, or None where a row has none."""
    nearest = []
    for row in angles:
        fitting = whole_positions(row, omega, 16 * unit)
        if not len(fitting):
            return None
        nearest.append(fitting[0])
    return np.array(nearest, dtype=np.int64)


def rules_of_first_rows(turns: Complexes, unit: float) -> Iterator[RuleMatch]:
    """Yield the rules of as many first rows as follow each other.

    Args:
        turns: cosine + i·sine, (S, K), all of about one norm.
        unit: how far rounding may move them, as a share of that norm.
    """
    rows = _even_rows(turns, unit)
    if rows:
        places = np.arange(rows, dtype=np.float64)
        measured = _frequencies(measure(turns[:rows]), turns[:rows], unit, places)
        yield from _unlisted(find_rules(measured))


def _rules_along(
    turns: Complexes, unit: float, places: Float64s, *, is_known: bool
) -> Iterator[LocatedRows]:
    """Yield the rules of rows at places, which are positions, or positions from one on."""
    waves = measure(turns, places)
    error = 4 * float(waves.angle_error.max()) + 8 * unit
    rows = places.astype(np.int64)
    for match in find_rules(_frequencies(waves, turns, unit, places)):
        if is_known:
            yield LocatedRows(match, frequencies(match.rule), rows)
            continue
        step, unscaled = _row_step(match)
        omega = frequencies(unscaled.rule)
        for start in whole_positions(waves.phase, omega, error)[:2]:
            yield LocatedRows(unscaled, omega, step * rows + start)


def _frequencies(
    waves: MeasuredWaves, turns: Complexes, unit: float, places: Float64s
) -> MeasuredFrequencies:
    """Return the frequencies, with an error at least as large as rounding may hide.

    Rounding moves sin φ and cos φ by ``unit`` of each, and φ by unit·|sin 2φ| at most. Where rows
    are all moved alike, as those of slow pairs far out, they lie in a straight line nevertheless.
    The slope of a line through rows that are off by e, R apart at most, is off by
    e·Σ|m|/Σm² = 3e/R, and by 2e/R where there are two.
    """
    early, first = places[:EARLY_ROWS], turns[:EARLY_ROWS]
    with np.errstate(invalid="ignore", divide="ignore"):
        norm = np.nan_to_num(first / np.abs(first))
    moved = unit * np.abs(2 * norm.real * norm.imag).max(axis=0)
    error = waves.omega_error + np.abs(waves.omega) * _LEAST_SHARE
    error = np.maximum(error, 3 * moved / float(early[-1] - early[0]))
    omega = _without_lost_turns(waves.omega, _TWO_PI / waves.step)
    return MeasuredFrequencies(omega, error, waves.scale, 2 * unit)


def _without_lost_turns(omega: Float64s, period: float) -> Float64s:
    """Undo the loss of whole turns between rows, from the slowest channel on.

    Each frequency is to the next slower one about what that one is to the one after it.
    """
    if period > _TWO_PI * 0.999 and omega[0] > 0:
        return omega
    restored = omega.copy()
    for k in range(len(omega) - 3, -1, -1):
        slower, slowest = restored[k + 1], restored[k + 2]
        if 0 < slowest < slower:
            expected = slower * slower / slowest
            restored[k] += period * np.round((expected - omega[k]) / period)
    return restored


def _row_step(match: RuleMatch) -> tuple[int, RuleMatch]:
    """Read a linear rule with a factor of 1/n as the default rule of rows n apart."""
    rule = match.rule
    if not isinstance(rule, Linear) or rule.factor > _LEAST_FACTOR:
        return 1, match
    step = round(1 / rule.factor)
    if abs(step * rule.factor - 1) > _WHOLE:
        return 1, match
    support = (*match.support, f"rows are {step} apart")
    default = Default(rule.rotary_dim, rule.rope_theta)
    return step, RuleMatch(default, {"rope_theta": rule.rope_theta}, support)


def _rule_guesses(turns: Complexes, unit: float) -> Iterator[RuleMatch]:
    yield from rules_of_first_rows(turns, unit)
    rows = _even_rows(turns, unit)
    if rows:
        yield from _rules_of_steps(measure(turns[:rows]), unit, rows - 1.0)
    if abs(float(np.median(np.abs(turns))) - 1) < 4 * unit:
        for base in USUAL_BASES:
            support = (f"angles are whole multiples of frequencies of base {base:g}",)
            yield RuleMatch(Default(2 * turns.shape[1], base), {"rope_theta": base}, support)


def _even_rows(turns: Complexes, unit: float) -> int:
    """Count the first rows that are evenly spaced; 0 where not even two are."""
    for rows in range(min(_MAX_PREFIX, len(turns)), 1, -1):
        if measure(turns[:rows]).angle_error.max() < max(_CROOKED / 16, 8 * unit):
            return rows
    return 0


def _unlisted(matches: Iterator[RuleMatch]) -> Iterator[RuleMatch]:
    """Leave out lists, which fit whatever was measured."""
    return (each for each in matches if not each.parameters.keys() & {"inv_freq", "freq_factors"})


def _rules_of_steps(waves: MeasuredWaves, unit: float, reach: float) -> Iterator[RuleMatch]:
    """Yield the rules of rows some steps apart, whose first frequency is 1 per position."""
    count = len(waves.omega)
    tail = max(2, count // 3)
    error = np.maximum(waves.omega_error, 4 * unit / reach)
    series = fit_geometric(waves.omega[-tail:], error[-tail:])
    if series is None or not 0 < series.ratio < 1:
        return
    if round(series.first * series.ratio ** (tail - count)) < 2:
        return
    omega = waves.omega.copy()
    for k in range(count - tail - 1, -1, -1):
        expected = omega[k + 1] / series.ratio
        omega[k] += _TWO_PI * np.round((expected - omega[k]) / _TWO_PI)
    step = max(1, round(float(omega[0])))
    measured = MeasuredFrequencies(omega / step, error / step, waves.scale, 2 * unit)
    yield from _unlisted(find_rules(measured))
