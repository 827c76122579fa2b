"""Which conventions have the channels of a grid's table as an array may have them.

Channels that are in no order that has a name: each says what it holds.

How long the axes of a grid are, by which rows of its table repeat each other.

``/encoding/grid``: the sin-cos table of a grid, in whose channels each convention has its axes.

What a convention makes of a grid says which channels are about which axis, and which of them are
the sine and the cosine of the same angle. Where the array has it so, its parameters follow from how
those pairs turn along their axis, and the axes as the convention then makes them must be those that
were sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import AngleModel, IdentifyInput, Proposal, Sample, TableRequest
from service.analysis.families.coordinate_series import (
    FITS,
    AxisTurns,
    Measures,
    Values,
    axis_turns,
    band_count,
    geometric,
    nearest,
    sine_bands,
)
from service.encodings.grid.grid_conventions import (
    AXES,
    CONVENTIONS,
    Grid,
    GridConvention,
    convention_for,
)
from service.encodings.grid.sincos import Lane, Layout, lanes
from service.numerics.dtypes import FLOAT32, FLOAT64, REAL_DTYPES, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Indices

_EARLY_ROWS = 64
_SWITCHES = ("reverse_coord", "interleave_sin_cos", "concat_pos", "sine_only")


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows that may be those of a grid.

    Attributes:
        rows: (S, C), the rows of zeros left out.
        shape: of the tokens as they were sent, axes of 1 left out.
        zero_rows: how many rows of zeros came first.
        channels_first: whether the channels were the first axis.
        dtype: the type of the elements.
    """

    rows: Float64s
    shape: tuple[int, ...]
    zero_rows: int
    channels_first: bool
    dtype: DType

    @property
    def rounding(self) -> float:
        """Half a unit in the last place at 1."""
        return rounding_bound(self.dtype, 1.0)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A convention that has the channels of an array.

    Attributes:
        convention: what it makes.
        name: its name.
        lengths: tokens along each axis, in the order of the axes.
        values: those of its parameters that say where channels are.
    """

    convention: GridConvention
    name: str
    lengths: Mapping[str, int]
    values: Values

    def layout(self, d_model: int, values: Values) -> Layout:
        """Lay the table out, with values beside the defaults."""
        every: dict[str, Any] = {**self.convention.defaults, **self.values, **values}
        if "max_resolution" in self.convention.takes:
            every.setdefault("max_resolution", (2,))
            listed = every["max_resolution"]
            each = listed if isinstance(listed, tuple) else (listed,)
            every["max_resolution"] = each * (len(self.lengths) // len(each))
        return self.convention.layout(Grid(self.lengths, d_model, every))


def orientations(sample: Sample) -> Iterator[TokenRows]:
    """Read an array with its channels last, and with its channels first."""
    values, rounding = sample.reals(), rounding_bound(sample.element_dtype, 1.0)
    shape = values.shape
    if max(values.max(), -values.min()) > 1 + 8 * rounding:
        return
    for channels_first in (False, True):
        channels = shape[0] if channels_first else shape[-1]
        rows = values.reshape(channels, -1).T if channels_first else values.reshape(-1, channels)
        tokens = shape[1:] if channels_first else shape[:-1]
        zero_rows = _zero_rows(rows)
        if channels >= 2 and zero_rows < len(rows):
            yield TokenRows(
                rows[zero_rows:], tokens, zero_rows, channels_first, sample.element_dtype
            )


def _zero_rows(rows: Float64s) -> int:
    """Count the rows of zeros that come first; most tables have few."""
    for some in (rows[:_EARLY_ROWS], rows):
        is_filled = some.any(axis=1)
        if is_filled.any():
            return int(np.argmax(is_filled))
    return len(rows)


def candidates(
    name: str, along: tuple[int, ...], rows: TokenRows
) -> Iterator[tuple[Candidate, Layout]]:
    """Lay out what a convention makes of tokens, in every way that it has."""
    convention = convention_for(name, len(along))
    width = rows.rows.shape[1]
    if convention is None or width % convention.multiple_of:
        return
    if convention.is_spread and width // (2 * len(along)) < 2:
        return
    own: Values = _zeros(convention, rows.zero_rows)
    if rows.zero_rows and not own:
        return
    switches = [switch for switch in _SWITCHES if switch in convention.takes]
    for chosen in product((False, True), repeat=len(switches)):
        values: Values = {**own, **dict(zip(switches, chosen, strict=True))}
        if convention.gives_channels:
            count = band_count(
                width,
                len(along),
                concat_pos=bool(values["concat_pos"]),
                sine_only=bool(values.get("sine_only", False)),
            )
            if count is None:
                continue
            values["num_bands"] = count
        yield from _laid_out(Candidate(convention, name, {}, values), along, rows)


def _zeros(convention: GridConvention, zero_rows: int) -> Values:
    """Say how a convention is asked for so many rows of zeros; nothing where it has none."""
    if not zero_rows or "cls_token" not in convention.takes:
        return {}
    if "extra_tokens" in convention.takes:
        return {"cls_token": True, "extra_tokens": zero_rows}
    return {"cls_token": True} if zero_rows == 1 else {}


def _laid_out(
    candidate: Candidate, along: tuple[int, ...], rows: TokenRows
) -> Iterator[tuple[Candidate, Layout]]:
    """Name the lengths of axes in the order in which the convention has its tokens run."""
    width, names = rows.rows.shape[1], AXES[-len(along) :]
    trial = Candidate(
        candidate.convention, candidate.name, dict.fromkeys(names, 1), candidate.values
    )
    by_name = dict(zip(trial.layout(width, {}).along, along, strict=True))
    lengths = {name: by_name[name] for name in names}
    named = Candidate(candidate.convention, candidate.name, lengths, candidate.values)
    layout = named.layout(width, {})
    flat = layout.zero_rows + prod(along[layout.leading :])
    shape = (*along[: layout.leading], *((flat,) if layout.leading < len(along) else ()))
    if tuple(length for length in shape if length > 1) == rows.shape:
        yield named, layout


@dataclass(frozen=True)
class ListedChannels(Channels):
    """Say which component of which frequency each channel holds, one by one.

    Attributes:
        frequencies: the index of the frequency of each channel.
        sines: whether a channel holds the sine.
    """

    frequencies: tuple[int, ...] = ()
    sines: tuple[bool, ...] = ()

    @classmethod
    def of(cls, frequencies: list[int], sines: list[bool]) -> "ListedChannels":
        """List channels."""
        return cls(("cos", "sin"), False, len(sines), 1, 0, tuple(frequencies), tuple(sines))

    def indices(self) -> tuple[Indices, NDArray[np.bool_]]:
        """Give the frequency's index, and whether it is the sine, for each channel."""
        return np.array(self.frequencies, dtype=np.intp), np.array(self.sines, dtype=np.bool_)


_MOST_COLUMNS = 32

# An engine computes an axis once and copies it, or computes the same twice: the last bits of a
# product may differ where a loop is vectorized for all but its tail.
_EQUAL_ROUNDINGS = 4


@dataclass(frozen=True, eq=False)
class AxisLines:
    """The rows of a grid along each of its axes, where the other axes are at their first token.

    Attributes:
        lengths: tokens along each axis, the slowest first.
        lines: for each axis its rows, (length, C).
        depends: for each axis, whether a channel changes along it, (C,).
    """

    lengths: tuple[int, ...]
    lines: tuple[Float64s, ...]
    depends: tuple[NDArray[np.bool_], ...]

    def only(self, axis: int, channels: Sequence[int] | range | NDArray[np.intp]) -> bool:
        """Tell whether channels change along no axis but one."""
        others = (depends for other, depends in enumerate(self.depends) if other != axis)
        return not any(depends[channels].any() for depends in others)


def axis_lines(rows: Float64s, lengths: tuple[int, ...], rounding: float) -> AxisLines:
    """Take the rows (S, C) of a grid of known lengths apart into its axes."""
    lines = []
    for axis, length in enumerate(lengths):
        inner = prod(lengths[axis + 1 :])
        lines.append(rows[: length * inner : inner])
    tolerance = _EQUAL_ROUNDINGS * rounding
    depends = tuple(np.ptp(line, axis=0) > tolerance for line in lines)
    return AxisLines(lengths, tuple(lines), depends)


def token_grids(rows: Float64s, rounding: float) -> Iterator[tuple[int, ...]]:
    """Give the lengths of grids of two or three axes that rows (S, C) may be the tokens of.

    A channel is about one axis: it is the same in runs of tokens, and repeats after longer ones.

    Args:
        rows: the table, token by token.
        rounding: half a unit in the last place of its numbers, at 1.
    """
    count, width = rows.shape
    columns = rows[:, some_of(width, _MOST_COLUMNS)]
    tolerance = _EQUAL_ROUNDINGS * rounding
    varies = np.ptp(columns, axis=0) > tolerance
    if count < 2 or not varies.any():
        return
    varying = columns[:, varies]
    found = list(_of_repeats(varying, tolerance))
    yield from found
    if not varies.all():
        for lengths in [(count,), *(each for each in found if len(each) == 2)]:
            for place in range(len(lengths), -1, -1):
                yield (*lengths[:place], 1, *lengths[place:])
        yield from ((1, 1, count), (count, 1, 1), (1, count, 1))


def some_of(count: int, most: int) -> NDArray[np.intp]:
    """Pick some of a number of channels, in no step that channels may take turns in."""
    if count <= most:
        return np.arange(count)
    golden = np.arange(most) * 0.6180339887498949 % 1
    return np.unique((golden * count).astype(np.intp))


def _of_repeats(columns: Float64s, tolerance: float) -> Iterator[tuple[int, ...]]:
    """Give three axes before two, as which two of three that run on pass."""
    count = len(columns)
    spans = [span for span in range(2, count) if count % span == 0]
    steady = {span: _is_steady(columns, span, tolerance) for span in spans}
    periodic = {span: _repeats(columns, span, tolerance) for span in spans}
    for short, long in ((a, b) for a in spans for b in spans if a < b and b % a == 0):
        middle = steady[short] & periodic[long]
        if _are_kinds(steady[long], middle, periodic[short]):
            yield count // long, long // short, short
    for span in spans:
        if _are_kinds(steady[span], periodic[span]):
            yield count // span, span


def _are_kinds(*kinds: NDArray[np.bool_]) -> bool:
    """Tell whether every channel is of a kind, and some of each kind alone."""
    number = np.sum(kinds, axis=0)
    return bool((number > 0).all() and all((kind & (number == 1)).any() for kind in kinds))


def _is_steady(columns: Float64s, span: int, tolerance: float) -> NDArray[np.bool_]:
    runs = (columns[:span], columns[-span:])
    steady: NDArray[np.bool_] = np.all([np.ptp(run, axis=0) <= tolerance for run in runs], axis=0)
    return steady


def _repeats(columns: Float64s, span: int, tolerance: float) -> NDArray[np.bool_]:
    first = columns[:span]
    others = (columns[span : 2 * span], columns[-span:])
    apart = [np.abs(other - first).max(axis=0) <= tolerance for other in others]
    repeats: NDArray[np.bool_] = np.all(apart, axis=0)
    return repeats


_MOST = 16


def propose(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose the tables of grids that an array may be."""
    sample = question.sample
    if question.is_pair or sample.is_complex or sample.element_dtype.name not in REAL_DTYPES:
        return
    if not sample.is_finite or sample.values.ndim < 2:
        return
    given: list[TableRequest] = []
    for rows in orientations(sample):
        for proposal in _of_rows(rows):
            if proposal.request not in given:
                given.append(proposal.request)
                yield proposal
            if len(given) == _MOST:
                return


def _of_rows(rows: TokenRows) -> Iterator[Proposal]:
    sent = [rows.shape] if len(rows.shape) in {1, 2, 3} else []
    for along in dict.fromkeys([*token_grids(rows.rows, rows.rounding), *sent]):
        if prod(along) != len(rows.rows):
            continue
        lines = axis_lines(rows.rows, along, rows.rounding)
        for name, variants in CONVENTIONS.items():
            # Others of one axis are no grids: they are what a sequence has.
            if len(along) > 1 or variants[0].gives_channels:
                for candidate, layout in candidates(name, along, rows):
                    yield from _fitting(candidate, layout, lines, rows)


def _fitting(
    candidate: Candidate, layout: Layout, lines: AxisLines, rows: TokenRows
) -> Iterator[Proposal]:
    width = rows.rows.shape[1]
    listed = list(lanes(layout.blocks, width))
    measures = _measured(candidate, layout, listed, lines, rows)
    if measures is None:
        return
    finals = [
        (values, candidate.layout(width, values)) for values in FITS[candidate.name](measures)
    ]
    apart = [_residual(final, listed, lines) for _, final in finals]
    said = [repr(values) for values, _ in finals]
    # Resolutions of bands are no measured numbers, of which one is meant: all give the same table.
    is_exact = candidate.convention.gives_channels
    ways = range(len(finals)) if is_exact else nearest(apart, said, rows.rounding)
    for way in ways:
        yield _proposal(candidate, *finals[way], measures, rows)


def _measured(
    candidate: Candidate, layout: Layout, listed: list[Lane], lines: AxisLines, rows: TokenRows
) -> Measures | None:
    """Measure the axes of an array whose channels are as a convention has them."""
    held = np.zeros(rows.rows.shape[1], dtype=np.bool_)
    turns: dict[str, AxisTurns] = {}
    for axis, name in enumerate(layout.along):
        own = {lane.content: lane.channels for lane in listed if lane.axis == name}
        for channels in own.values():
            held[channels] = True
            if not lines.only(axis, np.array(channels, dtype=np.intp)):
                return None
        found = _turns_of(lines.lines[axis], own.get("sin"), own.get("cos"), rows.rounding)
        if found is None:
            return None
        turns[name] = found
    if np.abs(rows.rows[:2, ~held]).any():
        return None
    is_geometric = not candidate.convention.gives_channels
    series = {}
    for name, found in turns.items():
        if is_geometric and found.length > 1 and len(found.rates):
            fitted = geometric(found)
            if fitted is None:
                return None
            series[name] = fitted
    return Measures(layout, candidate.lengths, turns, series)


def _turns_of(
    line: Float64s, sines: range | None, cosines: range | None, rounding: float
) -> AxisTurns | None:
    if sines is None:
        return axis_turns(np.zeros((len(line), 0), dtype=np.complex128), rounding)
    if cosines is None:
        return sine_bands(line[:, _slice(sines)], rounding)
    count = min(len(sines), len(cosines))
    pairs = line[:, _slice(cosines[:count])] + 1j * line[:, _slice(sines[:count])]
    return axis_turns(pairs, rounding)


def _slice(channels: range) -> slice:
    """Give channels as a slice, of which NumPy makes no list and no copy."""
    return slice(channels.start, channels.stop, channels.step)


def _residual(layout: Layout, listed: list[Lane], lines: AxisLines) -> float:
    """Say how far the axes as a convention makes them are from those that were sent."""
    apart = 0.0
    for axis, (name, along) in enumerate(layout.along.items()):
        line = lines.lines[axis]
        places = np.arange(len(line), dtype=np.float64) * along.tokens.step + along.tokens.first
        coordinates: Float64s = places * float(along.unit)
        angles = np.outer(coordinates, [float(each) for each in along.rule.exact()])
        for lane in listed:
            if lane.axis == name:
                made = _content(lane, coordinates, angles)
                apart = max(apart, float(np.abs(line[:, lane.channels] - made).max(initial=0)))
    return apart


def _content(lane: Lane, coordinates: Float64s, angles: Float64s) -> Float64s:
    if lane.content == "coordinate":
        return coordinates[:, np.newaxis]
    some = angles[:, : len(lane.channels)]
    return np.sin(some) if lane.content == "sin" else np.cos(some)


def _proposal(
    candidate: Candidate,
    values: Values,
    layout: Layout,
    measures: Measures,
    rows: TokenRows,
) -> Proposal:
    convention, width = candidate.convention, rows.rows.shape[1]
    parameters: Values = {"convention": candidate.name, **candidate.lengths}
    if not convention.gives_channels:
        parameters["d_model"] = width
    own = {**candidate.values, **values}
    parameters |= {
        name: value for name, value in own.items() if value != convention.defaults.get(name)
    }
    if rows.channels_first != convention.channels_first:
        parameters["channels_first"] = rows.channels_first
    if rows.dtype is not FLOAT32:
        parameters["dtype"] = rows.dtype.name
    call = TableRequest("encoding/grid", parameters)
    # diffusers divides coordinates in float32 and does the rest in float64.
    is_mixed = candidate.name == "diffusers" and rows.dtype is FLOAT64
    is_plain = not rows.channels_first and not is_mixed
    turning = _turning(layout, width, rows) if is_plain else None
    return Proposal(call, tuple(_support(candidate, measures)), turning)


def _support(candidate: Candidate, measures: Measures) -> Iterator[str]:
    said = " x ".join(f"{length} ({name})" for name, length in candidate.lengths.items())
    yield f"each channel changes along one axis of a grid of {said} tokens"
    for name, series in measures.series.items():
        if series.count > 1:
            yield (
                f"along {name} {series.count} pairs turn by {series.first:.7g} radians a token and "
                f"less, each {np.exp(series.decay):.6g} times slower than the one before"
            )


def _turning(layout: Layout, width: int, rows: TokenRows) -> AngleModel | None:
    """Say what angles a table is made of, where it is made of nothing else."""
    if rows.zero_rows:
        return None
    count = len(rows.rows)
    frequencies, sines = [-1] * width, [False] * width
    axis: list[int] = []
    omega: list[float] = []
    coordinates = np.empty((count, len(layout.along)))
    for index, (name, along) in enumerate(layout.along.items()):
        coordinates[:, index] = along.tokens.at(0, count) * float(along.unit)
        for lane in lanes(layout.blocks, width):
            if lane.axis == name and lane.content != "coordinate":
                for k, channel in enumerate(lane.channels):
                    frequencies[channel], sines[channel] = len(omega) + k, lane.content == "sin"
        rates = [float(each) for each in along.rule.exact()]
        omega += rates
        axis += [index] * len(rates)
    if min(frequencies) < 0:
        return None
    channels = {"encoding": ListedChannels.of(frequencies, sines)}
    return AngleModel(coordinates, tuple(axis), np.array(omega), channels)
