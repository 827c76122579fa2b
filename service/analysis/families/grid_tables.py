"""Propose ``/encoding/grid``: sin-cos tables of grids, in the channel order of each convention.

A convention's layout says which channels are about which axis, and which of them are the sine and
the cosine of the same angle. Where the array has it so, its parameters follow from how those pairs
turn along their axis; the axes that the convention computes of them must be those of the array.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import pi, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import AngleModel, IdentifyInput, Proposal, Sample, TableRequest
from service.analysis.families.requests import nearest_fits, unless_default
from service.analysis.families.token_grids import AxisLines, axis_lines, token_grids
from service.analysis.families.unwrapping import (
    AxisWaves,
    axis_series,
    axis_waves,
    band_resolutions,
    sine_bands,
)
from service.analysis.measure import USUAL_BASE, GeometricSeries
from service.analysis.precision import dtype_parameters, rounding_share
from service.analysis.round_numbers import common_value, round_numbers, signed_round_numbers
from service.encodings.grid.grid_conventions import (
    AXES,
    CONVENTIONS,
    EPSILON,
    Grid,
    GridConvention,
    convention_for,
)
from service.encodings.grid.sincos import Lane, Layout, lanes
from service.numerics.dtypes import FLOAT64, REAL_DTYPES
from service.numerics.phase import Float64s, Geometric, ScaledGeometric
from service.numerics.phasors import Channels, Indices
from service.numerics.tables import ParameterValue

ParameterValues: TypeAlias = dict[str, ParameterValue]

_MAX_PROPOSALS = 16
_EARLY_ROWS = 64
_MAX_BASE = 1e260
_SWITCHES = ("reverse_coord", "interleave_sin_cos", "concat_pos", "sine_only")


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows that may be those of a grid.

    Attributes:
        rows: (S, C), the rows of zeros left out.
        shape: of the tokens as they were sent, axes of 1 left out.
        zero_rows: how many rows of zeros came first.
        channels_first: whether the channels were the first axis.
        sample: what was sent.
    """

    rows: Float64s
    shape: tuple[int, ...]
    zero_rows: int
    channels_first: bool
    sample: Sample

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    @property
    def rounding(self) -> float:
        """Half a unit in the last place at 1."""
        return rounding_share(self.sample)


def propose_grid(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the tables of grids that an array may be."""
    sample = request.sample
    if request.is_pair or sample.is_complex or sample.element_dtype.name not in REAL_DTYPES:
        return
    if not sample.is_finite or sample.values.ndim < 2:
        return
    proposed: list[TableRequest] = []
    for rows in orientations(sample):
        for proposal in _of_rows(rows):
            if proposal.request not in proposed:
                proposed.append(proposal.request)
                yield proposal
            if len(proposed) == _MAX_PROPOSALS:
                return


def orientations(sample: Sample) -> Iterator[TokenRows]:
    """Read an array with its channels last, and with its channels first."""
    values = sample.reals()
    shape = values.shape
    if max(values.max(), -values.min()) > 1 + 8 * rounding_share(sample):
        return
    for channels_first in (False, True):
        channels = shape[0] if channels_first else shape[-1]
        rows = values.reshape(channels, -1).T if channels_first else values.reshape(-1, channels)
        tokens = shape[1:] if channels_first else shape[:-1]
        zero_rows = _zero_rows(rows)
        if channels >= 2 and zero_rows < len(rows):
            yield TokenRows(rows[zero_rows:], tokens, zero_rows, channels_first, sample)


def _zero_rows(rows: Float64s) -> int:
    """Count the rows of zeros that come first; most tables have few."""
    for some in (rows[:_EARLY_ROWS], rows):
        is_filled = some.any(axis=1)
        if is_filled.any():
            return int(np.argmax(is_filled))
    return len(rows)


def _of_rows(rows: TokenRows) -> Iterator[Proposal]:
    sent = [rows.shape] if len(rows.shape) in {1, 2, 3} else []
    for along in dict.fromkeys([*token_grids(rows.rows, rows.rounding), *sent]):
        if prod(along) != len(rows.rows):
            continue
        lines = axis_lines(rows.rows, along, rows.rounding)
        for name, variants in CONVENTIONS.items():
            # With one axis the others are the conventions of sequences.
            if len(along) > 1 or variants[0].gives_channels:
                for candidate, layout in candidates(name, along, rows):
                    yield from _fitting(candidate, layout, lines, rows)


# Layouts.


@dataclass(frozen=True, eq=False)
class GridCandidate:
    """A convention that has the channels of an array.

    Attributes:
        convention: the convention.
        name: its name.
        lengths: tokens along each axis, in the order of the axes.
        values: those of its parameters that order channels.
    """

    convention: GridConvention
    name: str
    lengths: Mapping[str, int]
    values: ParameterValues

    def layout(self, d_model: int, values: ParameterValues) -> Layout:
        """Lay the table out, with values beside the defaults."""
        every: dict[str, Any] = {**self.convention.defaults, **self.values, **values}
        if "max_resolution" in self.convention.takes:
            listed = every.get("max_resolution", (2,))
            each = listed if isinstance(listed, tuple) else (listed,)
            every["max_resolution"] = each * (len(self.lengths) // len(each))
        return self.convention.layout(Grid(self.lengths, d_model, every))


def candidates(
    name: str, along: tuple[int, ...], rows: TokenRows
) -> Iterator[tuple[GridCandidate, Layout]]:
    """Lay out what a convention makes of tokens, with each choice of its switches."""
    convention = convention_for(name, len(along))
    if convention is None or rows.width % convention.multiple_of:
        return
    if convention.is_spread and rows.width // (2 * len(along)) < 2:
        return
    zeros = _zero_parameters(convention, rows.zero_rows)
    if rows.zero_rows and not zeros:
        return
    switches = [switch for switch in _SWITCHES if switch in convention.takes]
    for chosen in product((False, True), repeat=len(switches)):
        values: ParameterValues = {**zeros, **dict(zip(switches, chosen, strict=True))}
        if convention.gives_channels:
            count = band_count(
                rows.width,
                len(along),
                concat_pos=bool(values["concat_pos"]),
                sine_only=bool(values.get("sine_only", False)),
            )
            if count is None:
                continue
            values["num_bands"] = count
        names = AXES[-len(along) :]
        trial = GridCandidate(convention, name, dict.fromkeys(names, 1), values)
        # Lengths come in the order in which the convention has its tokens run.
        by_name = dict(zip(trial.layout(rows.width, {}).along, along, strict=True))
        candidate = replace(trial, lengths={name: by_name[name] for name in names})
        layout = candidate.layout(rows.width, {})
        flat = layout.zero_rows + prod(along[layout.leading :])
        shape = (*along[: layout.leading], *((flat,) if layout.leading < len(along) else ()))
        if tuple(length for length in shape if length > 1) == rows.shape:
            yield candidate, layout


def _zero_parameters(convention: GridConvention, zero_rows: int) -> ParameterValues:
    """Return the parameters for so many rows of zeros; nothing where a convention has none."""
    if not zero_rows or "cls_token" not in convention.takes:
        return {}
    if "extra_tokens" in convention.takes:
        return {"cls_token": True, "extra_tokens": zero_rows}
    return {"cls_token": True} if zero_rows == 1 else {}


def band_count(channels: int, axes: int, *, concat_pos: bool, sine_only: bool) -> int | None:
    """Return how many bands have so many channels; None where no number does."""
    rest = channels - axes * concat_pos
    each = axes * (1 if sine_only else 2)
    return rest // each if rest > 0 and rest % each == 0 else None


# Measurements along the axes.


@dataclass(frozen=True, eq=False)
class GridMeasures:
    """Rates, phases and series measured along the axes of a grid.

    Attributes:
        layout: what a convention would make of the grid, whatever its numbers.
        lengths: tokens along each axis by its name.
        turns: of each axis.
        series: the rates of each axis that has more than one token.
    """

    layout: Layout
    lengths: Mapping[str, int]
    turns: Mapping[str, AxisWaves]
    series: Mapping[str, GeometricSeries]

    def first(self, *names: str) -> tuple[float, float] | None:
        """Return the first rate of axes, and its relative error; None where they differ."""
        every = [self.series[name] for name in names or self.series if name in self.series]
        return common_value((each.first, each.first_error) for each in every)

    def bases(self) -> list[float | None]:
        """Return the bases that may be meant, the plainest first; None where the data has none."""
        known = [
            series.base(span)
            for name, series in self.series.items()
            if series.has_ratio and (span := self._span(name)) and series.base(span)[0] < _MAX_BASE
        ]
        if known:
            base = common_value(known)
            return [] if base is None else list(round_numbers(*base, 2))
        return [None] if not any(series.has_ratio for series in self.series.values()) else []

    def _span(self, name: str) -> float:
        rule = self.layout.along[name].rule
        return rule.dim / 2 if isinstance(rule, Geometric | ScaledGeometric) else 0.0


def _fitting(
    candidate: GridCandidate, layout: Layout, lines: AxisLines, rows: TokenRows
) -> Iterator[Proposal]:
    listed = list(lanes(layout.blocks, rows.width))
    measures = _measured(candidate, layout, listed, lines, rows)
    if measures is None:
        return
    finals = [
        (values, candidate.layout(rows.width, values)) for values in _FITS[candidate.name](measures)
    ]
    ways: Sequence[int] = range(len(finals))
    # Resolutions of bands are no measured numbers, of which one is meant: all give the same table.
    if not candidate.convention.gives_channels:
        apart = [_residual(final, listed, lines) for _, final in finals]
        ways = nearest_fits(apart, [values for values, _ in finals], rows.rounding)
    for way in ways:
        yield _proposal(candidate, *finals[way], measures, rows)


def _measured(
    candidate: GridCandidate, layout: Layout, listed: list[Lane], lines: AxisLines, rows: TokenRows
) -> GridMeasures | None:
    """Measure the axes of an array whose channels are as a convention has them."""
    filled = np.zeros(rows.width, dtype=np.bool_)
    turns: dict[str, AxisWaves] = {}
    for axis, name in enumerate(layout.along):
        own = {lane.content: lane.channels for lane in listed if lane.axis == name}
        for channels in own.values():
            filled[channels] = True
            if not lines.only(axis, np.array(channels, dtype=np.intp)):
                return None
        measured = _turns_of(lines.lines[axis], own.get("sin"), own.get("cos"), rows.rounding)
        if measured is None:
            return None
        turns[name] = measured
    if np.abs(rows.rows[:2, ~filled]).any():
        return None
    series = {}
    if not candidate.convention.gives_channels:
        for name, measured in turns.items():
            if measured.length > 1 and len(measured.rates):
                fitted = axis_series(measured)
                if fitted is None:
                    return None
                series[name] = fitted
    return GridMeasures(layout, candidate.lengths, turns, series)


def _turns_of(
    line: Float64s, sines: range | None, cosines: range | None, rounding: float
) -> AxisWaves | None:
    if sines is None:
        return axis_waves(np.zeros((len(line), 0), dtype=np.complex128), rounding)
    if cosines is None:
        return sine_bands(line[:, _slice(sines)], rounding)
    count = min(len(sines), len(cosines))
    pairs = line[:, _slice(cosines[:count])] + 1j * line[:, _slice(sines[:count])]
    return axis_waves(pairs, rounding)


def _slice(channels: range) -> slice:
    """Return channels as a slice, of which NumPy makes no list and no copy."""
    return slice(channels.start, channels.stop, channels.step)


def _residual(layout: Layout, listed: list[Lane], lines: AxisLines) -> float:
    """Return how far the axes as a convention computes them are from those of the array."""
    apart = 0.0
    for axis, (name, along) in enumerate(layout.along.items()):
        line = lines.lines[axis]
        places = np.arange(len(line), dtype=np.float64) * along.tokens.step + along.tokens.first
        coordinates: Float64s = places * float(along.unit)
        angles = np.outer(coordinates, [float(each) for each in along.rule.exact()])
        for lane in listed:
            if lane.axis == name:
                computed = _content(lane, coordinates, angles)
                apart = max(apart, float(np.abs(line[:, lane.channels] - computed).max(initial=0)))
    return apart


def _content(lane: Lane, coordinates: Float64s, angles: Float64s) -> Float64s:
    if lane.content == "coordinate":
        return coordinates[:, np.newaxis]
    some = angles[:, : len(lane.channels)]
    return np.sin(some) if lane.content == "sin" else np.cos(some)


# Parameters of each convention.


def _fit_unit_steps(measures: GridMeasures) -> Iterator[ParameterValues]:
    """Yield the base of series that begin with one radian per token."""
    first = measures.first()
    if measures.series and (first is None or not _is_near(1.0, *first)):
        return
    for base in measures.bases():
        yield _with_base({}, base)


def _is_near(value: float, measured: float, error: float) -> bool:
    return abs(measured - value) <= 2 * error * abs(value) + 2.0**-20


def _with_base(values: ParameterValues, base: float | None) -> ParameterValues:
    return values if base in {None, USUAL_BASE} else {**values, "base": base}


def _fit_detr(measures: GridMeasures) -> Iterator[ParameterValues]:
    """Yield the base, and the scale where positions are normalized."""
    yield from _fit_unit_steps(measures)
    scale = common_value(
        (series.first * float(measures.lengths[name] + EPSILON), series.first_error)
        for name, series in measures.series.items()
    )
    if scale is None:
        return
    chosen: list[ParameterValues] = [{"normalize": True}] if _is_near(2 * pi, *scale) else []
    plain = signed_round_numbers(scale[0], scale[0] * scale[1], 2)
    chosen += [{"normalize": True, "scale": each} for each in plain]
    for base in measures.bases()[:1]:
        yield from (_with_base(values, base) for values in chosen)


_BASE_SIZE = 16


def _fit_diffusers(measures: GridMeasures) -> Iterator[ParameterValues]:
    """Yield what a grid is stretched to: base_size over interpolation_scale."""
    if set(measures.lengths) == {"depth", "height", "width"}:
        yield from _fit_diffusers_video(measures)
        return
    stretched = common_value(
        (series.first * measures.lengths[name], series.first_error)
        for name, series in measures.series.items()
    )
    if stretched is None:
        return
    size, error = stretched
    bases = measures.bases()[:1]
    for base_size in dict.fromkeys((_BASE_SIZE, *measures.lengths.values())):
        for scale in signed_round_numbers(base_size / size, error * base_size / size):
            values = unless_default("interpolation_scale", scale, 1)
            values |= unless_default("base_size", base_size, _BASE_SIZE)
            yield from (_with_base(values, base) for base in bases)
    for plain in signed_round_numbers(size, error * size, 1):
        yield from (_with_base({"base_size": plain}, base) for base in bases)


def _fit_diffusers_video(measures: GridMeasures) -> Iterator[ParameterValues]:
    temporal = _interpolation_scales(measures, "temporal", "depth")
    spatial = _interpolation_scales(measures, "spatial", "height", "width")
    for base in measures.bases()[:2]:
        for one, other in product(temporal, spatial):
            yield _with_base({**one, **other}, base)


def _interpolation_scales(measures: GridMeasures, kind: str, *names: str) -> list[ParameterValues]:
    """Return what coordinates of axes may be divided by; nothing where axes differ."""
    first = measures.first(*names)
    if first is None:
        return [] if any(name in measures.series for name in names) else [{}]
    if _is_near(1.0, *first):
        return [{}]
    scale, error = 1 / first[0], first[1]
    plain = signed_round_numbers(scale, error * scale)
    return [{f"{kind}_interpolation_scale": each} for each in plain]


def _fit_tensor2tensor(measures: GridMeasures) -> Iterator[ParameterValues]:
    """Yield the two timescales; the base is the ratio of the slowest to the fastest."""
    first = measures.first()
    if first is None:
        return
    shortest = next(round_numbers(*first), 1.0)
    for ratio in measures.bases():
        if ratio is not None:
            yield {
                **unless_default("min_timescale", shortest, 1),
                **unless_default("max_timescale", shortest * ratio, USUAL_BASE),
            }


def _fit_bands(measures: GridMeasures) -> Iterator[ParameterValues]:
    """Yield twice the highest band of each axis, where bands are evenly spaced."""
    for numbers in band_resolutions([measures.turns[name] for name in measures.lengths]):
        yield {"max_resolution": numbers}


_FITS: Mapping[str, Callable[[GridMeasures], Iterator[ParameterValues]]] = {
    **dict.fromkeys(
        ("mae", "transformers", "moco-v3", "simple-vit", "timm", "positional-encodings"),
        _fit_unit_steps,
    ),
    "detr": _fit_detr,
    "diffusers": _fit_diffusers,
    "tensor2tensor": _fit_tensor2tensor,
    "perceiver": _fit_bands,
    "timm-fourier": _fit_bands,
}
"""For each convention, the parameters that fit the measurements."""


# Proposals.


@dataclass(frozen=True)
class ListedChannels(Channels):
    """Channels with a component and a frequency listed for each.

    Attributes:
        frequencies: the index of the frequency of each channel.
        sines: whether a channel holds the sine.
    """

    frequencies: tuple[int, ...] = ()
    sines: tuple[bool, ...] = ()

    @classmethod
    def of(cls, frequencies: list[int], sines: list[bool]) -> "ListedChannels":
        return cls(("cos", "sin"), False, len(sines), 1, 0, tuple(frequencies), tuple(sines))

    def indices(self) -> tuple[Indices, NDArray[np.bool_]]:
        return np.array(self.frequencies, dtype=np.intp), np.array(self.sines, dtype=np.bool_)


def _proposal(
    candidate: GridCandidate,
    values: ParameterValues,
    layout: Layout,
    measures: GridMeasures,
    rows: TokenRows,
) -> Proposal:
    convention = candidate.convention
    parameters: ParameterValues = {"convention": candidate.name, **candidate.lengths}
    if not convention.gives_channels:
        parameters["d_model"] = rows.width
    own = {**candidate.values, **values}
    parameters |= {
        name: value for name, value in own.items() if value != convention.defaults.get(name)
    }
    if rows.channels_first != convention.channels_first:
        parameters["channels_first"] = rows.channels_first
    parameters |= dtype_parameters(rows.sample)
    # diffusers divides coordinates in float32 and does the rest in float64.
    is_mixed = candidate.name == "diffusers" and rows.sample.element_dtype is FLOAT64
    is_plain = not (rows.channels_first or rows.zero_rows or is_mixed)
    angles = _angles(layout, rows) if is_plain else None
    support = tuple(_support(candidate, measures))
    return Proposal(TableRequest("encoding/grid", parameters), support, angles)


def _support(candidate: GridCandidate, measures: GridMeasures) -> Iterator[str]:
    grid = " x ".join(f"{length} ({name})" for name, length in candidate.lengths.items())
    yield f"each channel changes along one axis of a grid of {grid} tokens"
    for name, series in measures.series.items():
        if series.has_ratio:
            yield (
                f"along {name} the angles of {len(measures.turns[name].rates)} pairs grow by "
                f"{series.first:.7g} radians a token and less, each {1 / series.ratio:.6g} times "
                "slower than the one before"
            )


def _angles(layout: Layout, rows: TokenRows) -> AngleModel | None:
    """Return the angles of a table, where it holds nothing but their sines and cosines."""
    count, width = rows.rows.shape
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
