"""``/encoding/grid``: the sin-cos table of a grid, in whose channels each convention has its axes.

What a convention makes of a grid says which channels are about which axis, and which of them are
the sine and the cosine of the same angle. Where the array has it so, its parameters follow from how
those pairs turn along their axis, and the axes as the convention then makes them must be those that
were sent.
"""

from collections.abc import Iterator
from math import prod

import numpy as np

from service.analysis.call import Call
from service.analysis.grids.grid_bands import sine_bands
from service.analysis.grids.grid_candidates import Candidate, TokenRows, candidates, orientations
from service.analysis.grids.grid_channels import ListedChannels
from service.analysis.grids.grid_fits import FITS, Measures, Values
from service.analysis.grids.grid_series import AxisTurns, axis_turns, geometric
from service.analysis.grids.grid_tokens import AxisLines, axis_lines, token_grids
from service.analysis.grids.grid_ways import nearest
from service.analysis.question import Proposal, Question, Turning
from service.tables.angle import Float64s
from service.tables.dtypes import FLOAT32, FLOAT64, REAL_DTYPES
from service.tables.grid_conventions import CONVENTIONS
from service.tables.grid_layouts import Layout
from service.tables.sincos_grid import Lane, lanes

_MOST = 16


def propose(question: Question) -> Iterator[Proposal]:
    """Propose the tables of grids that an array may be."""
    sample = question.sample
    if question.is_pair or sample.is_complex or sample.element_dtype.name not in REAL_DTYPES:
        return
    if not sample.is_finite or sample.values.ndim < 2:
        return
    given: list[Call] = []
    for rows in orientations(sample):
        for proposal in _of_rows(rows):
            if proposal.call not in given:
                given.append(proposal.call)
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
    call = Call("encoding/grid", parameters)
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


def _turning(layout: Layout, width: int, rows: TokenRows) -> Turning | None:
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
    return Turning(coordinates, tuple(axis), np.array(omega), channels)
