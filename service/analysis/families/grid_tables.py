"""Propose ``/encoding/grid``: sin-cos tables of grids, in the channel order of each convention.

The layout of a convention says which channels belong to which axis, and which of them are sine and
cosine of the same angle. If the array has this layout, the frequencies and phases of the pairs
along each axis give the parameters; with them the convention must reproduce the array.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import pi, prod
from typing import Any, TypeAlias

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, Sample, TableRequest
from service.analysis.families.axis_waves import (
    AxisWaves,
    axis_series,
    axis_waves,
    band_resolutions,
    sine_bands,
)
from service.analysis.families.requests import USUAL_BASE, nearest_fits
from service.analysis.families.series import GeometricSeries
from service.analysis.families.token_grids import AxisLines, axis_lines, token_grids
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
from service.numerics.dtypes import REAL_DTYPES
from service.numerics.phase import Float64s, Geometric, ScaledGeometric
from service.numerics.tables import ParameterValue

ParameterValues: TypeAlias = dict[str, ParameterValue]

_MAX_PROPOSALS = 16
_MAX_BASE = 1e260
_SWITCHES = ("reverse_coord", "interleave_sin_cos", "concat_pos", "sine_only")


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows that may be the tokens of a grid.

    Attributes:
        rows: the S rows of C channels after the leading rows of zeros, (S, C).
        shape: the lengths of the array's token axes, without axes of length 1.
        zero_rows: the number of leading rows that contain only zeros.
        channels_first: whether the channels are the first axis of the array.
        sample: the submitted array.
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
        """Half an ulp of 1 in the dtype of the array."""
        return rounding_share(self.sample)


def propose_grid(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose grid tables in every convention whose channel order the array has."""
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
    """Yield the token rows of an array with the last axis, then the first axis, as channels."""
    values = sample.reals()
    shape = values.shape
    if np.abs(values).max() > 1 + 8 * rounding_share(sample):
        return
    for channels_first in (False, True):
        channels = shape[0] if channels_first else shape[-1]
        rows = values.reshape(channels, -1).T if channels_first else values.reshape(-1, channels)
        tokens = shape[1:] if channels_first else shape[:-1]
        nonzero = rows.any(axis=1)
        if channels >= 2 and nonzero.any():
            zero_rows = int(nonzero.argmax())
            yield TokenRows(rows[zero_rows:], tokens, zero_rows, channels_first, sample)


def _of_rows(rows: TokenRows) -> Iterator[Proposal]:
    own = [rows.shape] if len(rows.shape) in {1, 2, 3} else []
    for lengths in dict.fromkeys([*token_grids(rows.rows, rows.rounding), *own]):
        if prod(lengths) != len(rows.rows):
            continue
        lines = axis_lines(rows.rows, lengths, rows.rounding)
        for name, variants in CONVENTIONS.items():
            # Grids of one axis are sequences, except in the conventions of band tables.
            if len(lengths) > 1 or variants[0].gives_channels:
                for candidate, layout in candidates(name, lengths, rows):
                    yield from _proposals(candidate, layout, lines, rows)


# Layouts.


@dataclass(frozen=True, eq=False)
class GridCandidate:
    """A convention whose table can have the array's shape.

    Attributes:
        convention: the convention.
        name: the name of the convention.
        lengths: the number of tokens along each axis, by axis name.
        values: the request parameters that determine the order of channels.
    """

    convention: GridConvention
    name: str
    lengths: Mapping[str, int]
    values: ParameterValues

    def layout(self, d_model: int, values: ParameterValues) -> Layout:
        """Return the layout of the table of ``d_model`` channels; ``values`` replace defaults."""
        every: dict[str, Any] = {**self.convention.defaults, **self.values, **values}
        if "max_resolution" in self.convention.takes:
            numbers = every.get("max_resolution", (2,))
            each = numbers if isinstance(numbers, tuple) else (numbers,)
            every["max_resolution"] = each * (len(self.lengths) // len(each))
        return self.convention.layout(Grid(self.lengths, d_model, every))

    def parameters(self, values: ParameterValues) -> ParameterValues:
        """Return the request parameters that differ from the convention's defaults."""
        defaults = self.convention.defaults
        every = {**self.values, **values}
        return {name: value for name, value in every.items() if value != defaults.get(name)}


def candidates(
    name: str, lengths: tuple[int, ...], rows: TokenRows
) -> Iterator[tuple[GridCandidate, Layout]]:
    """Yield the candidates of one convention, each with its layout.

    There is one for each choice of the boolean parameters that determine the order of channels.
    """
    convention = convention_for(name, len(lengths))
    if convention is None or rows.width % convention.multiple_of:
        return
    if convention.is_spread and rows.width // (2 * len(lengths)) < 2:
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
                len(lengths),
                concat_pos=bool(values["concat_pos"]),
                sine_only=bool(values.get("sine_only", False)),
            )
            if count is None:
                continue
            values["num_bands"] = count
        names = AXES[-len(lengths) :]
        trial = GridCandidate(convention, name, dict.fromkeys(names, 1), values)
        # Lengths come in the order of the convention's tokens.
        by_name = dict(zip(trial.layout(rows.width, {}).along, lengths, strict=True))
        candidate = replace(trial, lengths={name: by_name[name] for name in names})
        layout = candidate.layout(rows.width, {})
        flat = layout.zero_rows + prod(lengths[layout.leading :])
        shape = (*lengths[: layout.leading], *((flat,) if layout.leading < len(lengths) else ()))
        if tuple(length for length in shape if length > 1) == rows.shape:
            yield candidate, layout


def _zero_parameters(convention: GridConvention, zero_rows: int) -> ParameterValues:
    """Return the request parameters that add ``zero_rows`` leading rows of zeros to a table.

    The result is empty if the convention has no such parameters.
    """
    if not zero_rows or "cls_token" not in convention.takes:
        return {}
    if "extra_tokens" in convention.takes:
        return {"cls_token": True, "extra_tokens": zero_rows}
    return {"cls_token": True} if zero_rows == 1 else {}


def band_count(channels: int, axes: int, *, concat_pos: bool, sine_only: bool) -> int | None:
    """Return the number of bands per axis in a table of ``channels`` channels; None if none fits.

    ``concat_pos`` adds a coordinate channel per axis; ``sine_only`` leaves out cosines.
    """
    rest = channels - axes * concat_pos
    each = axes * (1 if sine_only else 2)
    return rest // each if rest > 0 and rest % each == 0 else None


# Measurements along the axes.


@dataclass(frozen=True, eq=False)
class GridMeasures:
    """Frequencies and phases along the axes of a grid.

    Attributes:
        lengths: the number of tokens along each axis, by axis name.
        layout: the layout of the convention with default parameters.
        waves: the measured rates and phases of each axis, by axis name.
        series: the geometric series of the rates, for each axis of several tokens.
    """

    lengths: Mapping[str, int]
    layout: Layout
    waves: Mapping[str, AxisWaves]
    series: Mapping[str, GeometricSeries]

    def first(self, *names: str) -> tuple[float, float] | None:
        """Return the first rate, in radians per token, that the named axes share, and its error.

        The error is relative. Without names, all axes count. None if the rates differ.
        """
        every = [self.series[name] for name in names or self.series if name in self.series]
        return common_value((each.first, each.first_error) for each in every)

    def size(self, extra: float = 0.0) -> tuple[float, float] | None:
        """Return the product of first rate and length + ``extra`` that all axes share.

        With it comes its relative error; None if the products differ.
        """
        return common_value(
            (series.first * (self.lengths[name] + extra), series.first_error)
            for name, series in self.series.items()
        )

    def bases(self) -> list[float]:
        """Return the round bases that fit all axes; 10000 if each axis has a single frequency."""
        known = [
            series.base(span)
            for name, series in self.series.items()
            if series.has_ratio and (span := self._span(name)) and series.base(span)[0] < _MAX_BASE
        ]
        if known:
            base = common_value(known)
            return [] if base is None else list(round_numbers(*base, 2))
        return [] if any(series.has_ratio for series in self.series.values()) else [USUAL_BASE]

    def _span(self, name: str) -> float:
        rule = self.layout.along[name].rule
        return rule.dim / 2 if isinstance(rule, Geometric | ScaledGeometric) else 0.0


def _proposals(
    candidate: GridCandidate, layout: Layout, lines: AxisLines, rows: TokenRows
) -> Iterator[Proposal]:
    table_lanes = list(lanes(layout.blocks, rows.width))
    measures = _measured(candidate, layout, table_lanes, lines, rows)
    if measures is None:
        return
    fits = [
        (candidate.parameters(values), candidate.layout(rows.width, values))
        for values in _FITS[candidate.name](measures)
    ]
    chosen: Sequence[int] = range(len(fits))
    # All candidate resolutions of band tables give the same table: keep them all.
    if not candidate.convention.gives_channels:
        residuals = [_residual(fitted, table_lanes, lines) for _, fitted in fits]
        chosen = nearest_fits(residuals, [parameters for parameters, _ in fits], rows.rounding)
    for index in chosen:
        yield _proposal(candidate, fits[index][0], measures, rows)


def _measured(
    candidate: GridCandidate,
    layout: Layout,
    table_lanes: list[Lane],
    lines: AxisLines,
    rows: TokenRows,
) -> GridMeasures | None:
    """Return the measured waves of each axis; None if the channels contradict the layout."""
    used = np.zeros(rows.width, dtype=np.bool_)
    waves: dict[str, AxisWaves] = {}
    for axis, name in enumerate(layout.along):
        by_content = {lane.content: lane.channels for lane in table_lanes if lane.axis == name}
        for channels in by_content.values():
            used[channels] = True
            if not lines.only(axis, np.array(channels, dtype=np.intp)):
                return None
        sines, cosines = (by_content.get(content) for content in ("sin", "cos"))
        measured = _axis_waves(lines.lines[axis], sines, cosines, rows.rounding)
        if measured is None:
            return None
        waves[name] = measured
    if np.abs(rows.rows[:2, ~used]).any():
        return None
    series: dict[str, GeometricSeries] = {}
    for name, measured in waves.items():
        if candidate.convention.gives_channels or measured.length < 2 or not len(measured.rates):
            continue
        fitted = axis_series(measured)
        if fitted is None:
            return None
        series[name] = fitted
    return GridMeasures(candidate.lengths, layout, waves, series)


def _axis_waves(
    line: Float64s, sines: range | None, cosines: range | None, rounding: float
) -> AxisWaves | None:
    if sines is None:
        return axis_waves(np.zeros((len(line), 0), dtype=np.complex128), rounding)
    if cosines is None:
        return sine_bands(line[:, sines], rounding)
    count = min(len(sines), len(cosines))
    return axis_waves(line[:, cosines[:count]] + 1j * line[:, sines[:count]], rounding)


def _residual(layout: Layout, table_lanes: list[Lane], lines: AxisLines) -> float:
    """Return the largest difference between the layout's table and the array along each axis."""
    largest = 0.0
    for line, (name, along) in zip(lines.lines, layout.along.items(), strict=True):
        tokens = np.arange(len(line), dtype=np.float64) * along.tokens.step + along.tokens.first
        coordinates: Float64s = tokens * float(along.unit)
        angles = np.outer(coordinates, [float(each) for each in along.rule.exact()])
        for lane in table_lanes:
            if lane.axis == name:
                expected = _content(lane, coordinates, angles)
                difference = np.abs(line[:, lane.channels] - expected).max(initial=0)
                largest = max(largest, float(difference))
    return largest


def _content(lane: Lane, coordinates: Float64s, angles: Float64s) -> Float64s:
    if lane.content == "coordinate":
        return coordinates[:, np.newaxis]
    some = angles[:, : len(lane.channels)]
    return np.sin(some) if lane.content == "sin" else np.cos(some)


# Parameters of each convention.


def _fit_unit_steps(measures: GridMeasures) -> Iterator[ParameterValues]:
    """Yield the ``base`` parameter if the rates of every axis begin at one radian per token."""
    first = measures.first()
    if not measures.series or (first is not None and _is_near(1.0, *first)):
        for base in measures.bases():
            yield {"base": base}


def _is_near(value: float, measured: float, error: float) -> bool:
    return abs(measured - value) <= 2 * error * abs(value) + 2.0**-20


def _fit_detr(measures: GridMeasures) -> Iterator[ParameterValues]:
    """Yield the ``base`` parameter, with ``normalize`` and ``scale`` for normalized positions."""
    yield from _fit_unit_steps(measures)
    scale = measures.size(float(EPSILON))
    if scale is None:
        return
    chosen: list[ParameterValues] = [{"normalize": True}] if _is_near(2 * pi, *scale) else []
    numbers = signed_round_numbers(scale[0], scale[0] * scale[1], 2)
    chosen += [{"normalize": True, "scale": each} for each in numbers]
    for base in measures.bases()[:1]:
        yield from ({**values, "base": base} for values in chosen)


_BASE_SIZE = 16


def _fit_diffusers(measures: GridMeasures) -> Iterator[ParameterValues]:
    """Yield ``base``, ``base_size`` and ``interpolation_scale``.

    The grid is stretched to base_size/interpolation_scale: only this quotient is measured.
    """
    if set(measures.lengths) == {"depth", "height", "width"}:
        yield from _fit_diffusers_video(measures)
        return
    stretched = measures.size()
    if stretched is None:
        return
    size, error = stretched
    chosen: list[ParameterValues] = [
        {"interpolation_scale": scale, "base_size": base_size}
        for base_size in dict.fromkeys((_BASE_SIZE, *measures.lengths.values()))
        for scale in signed_round_numbers(base_size / size, error * base_size / size)
    ]
    chosen.extend({"base_size": each} for each in signed_round_numbers(size, error * size, 1))
    for base in measures.bases()[:1]:
        yield from ({**values, "base": base} for values in chosen)


def _fit_diffusers_video(measures: GridMeasures) -> Iterator[ParameterValues]:
    temporal = _interpolation_scales(measures, "temporal", "depth")
    spatial = _interpolation_scales(measures, "spatial", "height", "width")
    for base in measures.bases()[:2]:
        for one, other in product(temporal, spatial):
            yield {**one, **other, "base": base}


def _interpolation_scales(measures: GridMeasures, kind: str, *names: str) -> list[ParameterValues]:
    """Return candidates for the ``kind`` interpolation scale, which divides coordinates.

    The list is empty if the named axes have different scales.
    """
    first = measures.first(*names)
    if first is None:
        return [] if any(name in measures.series for name in names) else [{}]
    if _is_near(1.0, *first):
        return [{}]
    scale, error = 1 / first[0], first[1]
    numbers = signed_round_numbers(scale, error * scale)
    return [{f"{kind}_interpolation_scale": each} for each in numbers]


def _fit_tensor2tensor(measures: GridMeasures) -> Iterator[ParameterValues]:
    """Yield ``min_timescale`` and ``max_timescale``; their ratio is the base of the series."""
    first = measures.first()
    if first is not None:
        shortest = next(round_numbers(*first), 1.0)
        for ratio in measures.bases():
            yield {"min_timescale": shortest, "max_timescale": shortest * ratio}


def _fit_bands(measures: GridMeasures) -> Iterator[ParameterValues]:
    """Yield ``max_resolution``: twice the highest of the evenly spaced bands of each axis."""
    for numbers in band_resolutions([measures.waves[name] for name in measures.lengths]):
        yield {"max_resolution": numbers}


_FITS: Mapping[str, Callable[[GridMeasures], Iterator[ParameterValues]]] = {
    **dict.fromkeys(CONVENTIONS, _fit_unit_steps),
    "detr": _fit_detr,
    "diffusers": _fit_diffusers,
    "tensor2tensor": _fit_tensor2tensor,
    "perceiver": _fit_bands,
    "timm-fourier": _fit_bands,
}
"""For each convention, the function that yields the request parameters that fit measurements."""


# Proposals.


def _proposal(
    candidate: GridCandidate,
    fitted: ParameterValues,
    measures: GridMeasures,
    rows: TokenRows,
) -> Proposal:
    convention = candidate.convention
    parameters: ParameterValues = {"convention": candidate.name, **candidate.lengths}
    if not convention.gives_channels:
        parameters["d_model"] = rows.width
    parameters |= fitted
    if rows.channels_first != convention.channels_first:
        parameters["channels_first"] = rows.channels_first
    parameters |= dtype_parameters(rows.sample)
    support = tuple(_support(candidate, measures))
    return Proposal(TableRequest("encoding/grid", parameters), support)


def _support(candidate: GridCandidate, measures: GridMeasures) -> Iterator[str]:
    grid = " x ".join(f"{length} ({name})" for name, length in candidate.lengths.items())
    yield f"each channel changes along one axis of a grid of {grid} tokens"
    for name, series in measures.series.items():
        if series.has_ratio:
            yield (
                f"along {name} the angles of {len(measures.waves[name].rates)} pairs grow by "
                f"{series.first:.7g} radians a token and less, each {1 / series.ratio:.6g} times "
                "slower than the one before"
            )
