"""Propose ``/rope/axial``: rotary tables of images and videos, with frequencies for each axis.

The axis of each frequency shows which conventions the table may follow. The frequencies along an
axis and the angles of its first token give the parameters. Tokens have the coordinates 0, 1, … or
others evenly between two ends; with the periods of DINOv3 or the bands of pixels these are within
±1.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import islice, product
from math import log, pi
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import IdentifyInput, Proposal, TableRequest
from service.analysis.explanation.views import Complexes
from service.analysis.families.axis_waves import (
    AxisWaves,
    axis_series,
    axis_waves,
    bands,
    first_coordinate,
    highest_bands,
)
from service.analysis.families.readings import (
    PackReading,
    component_views,
    packed_tables,
)
from service.analysis.families.requests import (
    USUAL_BASE,
    nearest_fits,
    pack_parameters,
    table_proposal,
    unless_default,
)
from service.analysis.families.series import GeometricSeries
from service.analysis.families.token_grids import AxialTokens, axial_tokens
from service.analysis.round_numbers import common_value, round_numbers, signed_round_numbers
from service.encodings.grid.grids import Coordinates, counted, spread
from service.encodings.rotary.axial_conventions import CONVENTIONS, AxialConvention
from service.numerics.dtypes import rounding_bound
from service.numerics.limits import MIN_UNIT
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue

Values: TypeAlias = dict[str, ParameterValue]
OptionalSeries: TypeAlias = Sequence[GeometricSeries | None]

_MAX_PROPOSALS = 24

# More than 1 by the factors of engines.
_LARGEST_COMPONENT = 1 + 2.0**-7

_KNOWN_PLACES = frozenset(("counted", "spread", "pixels", "centred"))

# The error of a step of 1 in engines that compute in float32.
_NEAR_ONE = 2.0**-18

_MAX_BASE = 1e222

# The error of an offset that is computed in float64.
_OFFSET_ERROR = 1e-9


@dataclass(frozen=True, eq=False)
class ConventionAxes:
    """The axes of a table in the order in which a named convention has their channels.

    Attributes:
        widths: the number of channels of each axis.
        order: the grid index of each axis.
        axis_of: the grid index of each frequency's axis, (K,).
        waves: the measured rates and phases of each axis.
    """

    name: str
    tokens: AxialTokens
    widths: tuple[int, ...]
    order: tuple[int, ...]
    axis_of: NDArray[np.intp]
    waves: tuple[AxisWaves, ...]

    @property
    def convention(self) -> AxialConvention:
        return CONVENTIONS[self.name]

    @property
    def lengths(self) -> list[int]:
        """The number of tokens along each axis."""
        return [each.length for each in self.waves]

    def listed(self, numbers: Iterable[float]) -> tuple[float, ...]:
        """Return the values of the axes in the order of the grid; a single one if all are equal."""
        by_axis = [number for _, number in sorted(zip(self.order, numbers, strict=True))]
        return (by_axis[0],) if len(set(by_axis)) == 1 else tuple(by_axis)


@dataclass(frozen=True, eq=False)
class AxialFit:
    """Request parameters of an axial table, with the coordinates and frequencies that they give.

    Attributes:
        values: the request parameters.
        firsts: the coordinate of the first token of each axis, (A,).
        steps: the distance of neighbouring tokens of each axis, (A,).
        omega: the frequencies of each axis, in radians per unit of coordinate.
    """

    values: Values
    firsts: Float64s
    steps: Float64s
    omega: Sequence[Float64s]


def propose_axial(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/rope/axial`` tables for one array, or for arrays of cosines and of sines."""
    proposed: list[TableRequest] = []
    for table in packed_tables(request):
        if table.scale != 1.0:
            continue
        known = len(proposed)
        for tokens in axial_tokens(table.phasors, table.rounding):
            # A first token at 0 looks like a class token, which comes only where nothing else fits.
            if tokens.class_token is not None and len(proposed) > known:
                break
            for proposal in _of_tokens(request, table, tokens):
                if proposal.request not in proposed:
                    proposed.append(proposal.request)
                    yield proposal
                if len(proposed) == _MAX_PROPOSALS:
                    return


def propose_axial_components(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/rope/axial`` tables that contain only the cosines or only the sines.

    No angles are measured without the other component: frequencies and coordinates are the default
    ones of a convention.
    """
    for view in component_views(request):
        values = np.asarray(view.parts[0], dtype=np.complex128)
        if np.abs(values).max(initial=0) <= _LARGEST_COMPONENT:
            for tokens in axial_tokens(values, rounding_bound(view.dtype, 1.0)):
                # Rows along one axis may be anything.
                if sum(length > 1 for length in tokens.lengths) > 1:
                    yield from _usual_components(request, view.packing, tokens)


def _usual_components(request: IdentifyInput, pack: str, tokens: AxialTokens) -> Iterator[Proposal]:
    """Yield the cosines and the sines of each convention whose axes a table has."""
    grid = " x ".join(map(str, tokens.grid))
    for name in _conventions(tokens):
        for own, widths, order in _channel_orders(name, tokens):
            if not tokens.may_be(_axis_of(CONVENTIONS[name], widths, order, tokens.count)):
                continue
            parameters = {
                "convention": name,
                "head_dim": 2 * tokens.count,
                "grid": tokens.grid,
                **own,
                **tokens.parameters(),
                "pack": pack,
            }
            for part in ("cos", "sin"):
                support = f"each channel changes along one axis of a grid of {grid} tokens: {part}"
                proposed = {**parameters, "part": part}
                yield table_proposal(request, "rope/axial", proposed, (f"{support} alone",))


def _conventions(tokens: AxialTokens) -> Iterator[str]:
    """Yield the conventions that have as many axes as the tokens."""
    for name, convention in CONVENTIONS.items():
        has_axes = len(tokens.lengths) in convention.axes
        may_repeat = tokens.frames == 1 or convention.repeats_frames
        if has_axes and may_repeat and convention.places in _KNOWN_PLACES:
            yield name


def _of_tokens(
    request: IdentifyInput, table: PackReading, tokens: AxialTokens
) -> Iterator[Proposal]:
    """Yield the proposals of all conventions for tokens, those with the shortest URLs first."""
    found: list[tuple[int, Proposal]] = []

    @cache
    def measured(axis: int, channels: tuple[int, ...]) -> AxisWaves | None:
        return axis_waves(tokens.lines[axis][:, list(channels)], table.rounding)

    for name in _conventions(tokens):
        for own, widths, order in _channel_orders(name, tokens):
            axis_of = _axis_of(CONVENTIONS[name], widths, order, tokens.count)
            if not (tokens.may_be(axis_of) and set(order) <= set(axis_of.tolist())):
                continue
            waves = [measured(a, tuple(np.flatnonzero(axis_of == a).tolist())) for a in order]
            known = tuple(each for each in waves if each is not None)
            if len(known) < len(waves):
                continue
            axes = ConventionAxes(name, tokens, widths, order, axis_of, known)
            every = list(_fits(axes))
            residuals = [_residual(fit, axes) for fit in every]
            for way in nearest_fits(residuals, [fit.values for fit in every], table.rounding):
                values = {**own, **tokens.parameters(), **every[way].values}
                parameters: Values = {
                    "convention": name,
                    "head_dim": 2 * tokens.count,
                    "grid": tokens.grid,
                    **values,
                    **pack_parameters(table.pack),
                }
                support = tuple(_support(axes))
                proposal = table_proposal(request, "rope/axial", parameters, support)
                found.append((len(repr(values)), proposal))
    yield from (proposal for _, proposal in sorted(found, key=lambda each: each[0]))


def _residual(fit: AxialFit, axes: ConventionAxes) -> float:
    """Return the largest difference between phasors of the fit and phasors of the array."""
    largest = 0.0
    for index, axis in enumerate(axes.order):
        line: Complexes = axes.tokens.lines[axis][:, axes.axis_of == axis]
        coordinates = fit.firsts[index] + fit.steps[index] * np.arange(len(line))
        expected = np.exp(1j * np.outer(coordinates, fit.omega[index]))
        largest = max(largest, float(np.abs(line - expected).max(initial=0)))
    return largest


def _support(axes: ConventionAxes) -> Iterator[str]:
    grid = " x ".join(map(str, axes.tokens.grid))
    yield f"each frequency rotates along one axis of a grid of {grid} tokens"
    for axis, waves in zip(axes.order, axes.waves, strict=True):
        if waves.length > 1:
            yield (
                f"along axis {axis} {len(waves.rates)} frequencies rotate, the first by "
                f"{waves.rates[0]:.7g} radians from token to token"
            )


# Axes of frequencies.

# The conventions that have a parameter for the order of axes. Others need no second proposal with
# the first two axes exchanged.
_INDEXED = frozenset(("timm", "timm_pixels", "dinov3"))


def _channel_orders(
    name: str, tokens: AxialTokens
) -> Iterator[tuple[Values, tuple[int, ...], tuple[int, ...]]]:
    """Yield (request parameters, axis widths, axis order) that a convention allows."""
    convention = CONVENTIONS[name]
    axes, channels = len(tokens.lengths), 2 * tokens.count
    usual = convention.widths(channels, axes)
    is_usual = sum(usual) == channels and all(w >= 2 and w % 2 == 0 for w in usual)
    has_indexing = axes > 1 and name in _INDEXED
    for indexing in ("ij", "xy") if has_indexing else ("ij",):
        order = tuple(range(axes))
        if convention.is_reversed != (indexing == "xy"):
            order = (*order[1::-1], *order[2:])
        own = unless_default("grid_indexing", indexing, "ij")
        if is_usual or convention.placing == "strided":
            yield own, usual, order
        if convention.placing == "blocks" and convention.series == "geometric":
            widths = tokens.block_widths(order)
            if widths is not None and widths != usual:
                yield {**own, "axes_dim": widths}, widths, order


def _axis_of(
    convention: AxialConvention, widths: tuple[int, ...], order: tuple[int, ...], count: int
) -> NDArray[np.intp]:
    """Return the index of each frequency's axis in the grid, (K,)."""
    if convention.placing == "alternating":
        return np.resize(order, count)
    if convention.placing == "strided":
        return np.repeat(order, [len(range(a, count, len(order))) for a in range(len(order))])
    return np.repeat(order, [width // 2 for width in widths])


# Frequencies of axes.


def _fits(axes: ConventionAxes) -> Iterator[AxialFit]:
    """Yield the fits of a convention to the measured frequencies, the simplest first."""
    kind = axes.convention.series
    if kind == "pixels":
        yield from _fit_pixels(axes)
        return
    series = [axis_series(waves) if waves.length > 1 else None for waves in axes.waves]
    if any(each is None and n > 1 for each, n in zip(series, axes.lengths, strict=True)):
        return
    if kind == "ones":
        if all(each is None or abs(log(each.ratio)) <= each.ratio_error for each in series):
            yield from _placed(axes, {}, series, [np.ones(len(w.rates)) for w in axes.waves])
    elif kind == "periods":
        yield from _fit_periods(axes, series)
    else:
        yield from _fit_geometric(axes, series)


def _fit_geometric(axes: ConventionAxes, series: OptionalSeries) -> Iterator[AxialFit]:
    count = len(axes.widths)
    spans, starts = [width / 2 for width in axes.widths], [0.0] * count
    if axes.convention.placing == "strided":
        spans = [sum(axes.widths) / 2 / count] * count
        starts = [axis / count for axis in range(count)]
    for theta in bases(series, spans):
        values = unless_default("rope_theta", theta, axes.convention.rope_theta)
        omega = [
            np.exp(-log(theta) * (np.arange(len(waves.rates)) + start) / span)
            for waves, span, start in zip(axes.waves, spans, starts, strict=True)
        ]
        yield from _placed(axes, values, series, omega)


def bases(series: OptionalSeries, spans: Sequence[float]) -> list[float]:
    """Return the bases that fit all series, the simplest first.

    Args:
        series: the frequencies of each axis; None for an axis of one token.
        spans: for each axis, the count of frequencies over which they fall to 1/base.
    """
    known = [
        each.base(span)
        for each, span in zip(series, spans, strict=True)
        if each is not None and each.has_ratio and 1 < each.base(span)[0] < _MAX_BASE
    ]
    if not known:
        return [USUAL_BASE]
    base = common_value(known)
    return [] if base is None else [each for each in round_numbers(*base, 3) if each > 1]


def _fit_periods(axes: ConventionAxes, series: OptionalSeries) -> Iterator[AxialFit]:
    """Yield fits with patch centres within ±1 and periods from min_period to max_period."""
    lengths, count = axes.lengths, len(axes.lengths)
    divisors = {"separate": lengths}
    if len(set(lengths)) > 1:
        divisors |= {"max": [max(lengths)] * count, "min": [min(lengths)] * count}
    for name, divisor in divisors.items():
        shortest = common_value(
            (4 * pi / n / each.first, each.first_error)
            for n, each in zip(divisor, series, strict=True)
            if each is not None
        )
        if shortest is None:
            continue
        chosen = unless_default("normalize_coords", name, "separate")
        steps = 2 / np.array(divisor)
        for values, omega in _periods(axes, series, shortest):
            first = _first_coordinates(axes, [omega] * count)
            if first is None:
                break
            found = _choices((first[0] + 1) / steps - 0.5, first[1] / steps + _OFFSET_ERROR)
            offsets = [each[0] for each in found if each]
            if len(offsets) == count:
                moved: Values = {"grid_offset": axes.listed(offsets)} if any(offsets) else {}
                firsts = steps * (0.5 + np.array(offsets)) - 1
                yield AxialFit({**chosen, **values, **moved}, firsts, steps, [omega] * count)


def _periods(
    axes: ConventionAxes, series: OptionalSeries, shortest: tuple[float, float]
) -> Iterator[tuple[Values, Float64s]]:
    """Yield (request parameters, frequencies) of a geometric series of periods."""
    count = axes.widths[0] // 2
    ratio = common_value(
        each.base(count - 1)
        for each in series
        if each is not None and each.has_ratio and each.base(count - 1)[0] < _MAX_BASE
    )
    options: list[tuple[Values, float, float, float]] = []
    if abs(shortest[0] - 1) <= max(2 * shortest[1], _NEAR_ONE):
        usual = axes.convention.rope_theta
        thetas = bases(series, [count] * len(series))
        options = [(unless_default("rope_theta", each, usual), 1.0, each, count) for each in thetas]
    elif count > 1 and ratio is not None:
        times, error = ratio[0], ratio[1] + shortest[1]
        options = [
            ({"min_period": low, "max_period": high}, low, high, count - 1)
            for low in signed_round_numbers(shortest[0], shortest[0] * shortest[1], 2)
            for high in signed_round_numbers(low * times, low * times * error, 2)
        ]
    for values, low, high, span in options:
        if min(low, high) > 0:
            yield values, 2 * pi / low * np.exp(-log(high / low) / span * np.arange(count))


def _fit_pixels(axes: ConventionAxes) -> Iterator[AxialFit]:
    """Yield fits with coordinates from −1 to 1 and bands from 1 to max_freq/2."""
    convention, lengths = axes.convention, axes.lengths
    scales = []
    for waves in axes.waves:
        usual = 2 * pi / max(waves.length - 1, 1)
        measured = usual / float(waves.rates[0]) if waves.length > 1 and waves.rates[0] > 0 else 1.0
        error = float(waves.errors[0]) / usual * 4
        is_one = waves.length == 1 or abs(measured - 1) <= max(error, _NEAR_ONE)
        scales += [1.0] if is_one else signed_round_numbers(measured, error)[:1]
    if len(scales) < len(axes.waves) or min(scales) <= 0:
        return
    # An axis of one token does not show its scale: that of another axis is taken.
    other = next((s for s, n in zip(scales, lengths, strict=True) if n > 1), 1.0)
    scales = [other if n == 1 else s for s, n in zip(scales, lengths, strict=True)]
    common = set.intersection(
        *(
            set(highest_bands(waves, 1 / scale))
            for waves, scale in zip(axes.waves, scales, strict=True)
        )
    )
    usual_bands = int(convention.max_freq), convention.linear_bands
    count = len(axes.waves[0].rates)
    inverse = 1 / np.array(scales)
    for highest, is_linear in sorted(common, key=lambda each: each != usual_bands)[:4]:
        values = unless_default("max_freq", float(highest), convention.max_freq)
        values |= unless_default("linear_bands", is_linear, convention.linear_bands)
        if any(scale != 1 for scale in scales):
            values["interpolation_scale"] = axes.listed(scales)
        omega = pi * bands(highest / 2, count, is_linear=is_linear)
        steps = 2 / np.maximum(np.array(lengths) - 1, 1) * inverse
        yield AxialFit(values, -inverse, steps, [omega] * len(scales))


# Coordinates of tokens.

# The conventions with parameters for coordinates that are scaled, or do not begin at 0: they give
# the tables of the others with such coordinates.
_SCALED = frozenset(("timm", "lumina"))
_MOVED = frozenset(("timm", "lumina", "llama4", "rotary_embedding_torch"))


class MeasuredCoordinates(NamedTuple):
    """The measured coordinates of tokens, one value per axis, (A,).

    Attributes:
        steps: the distance of neighbouring tokens.
        step_errors: bounds of the relative errors of the steps.
        firsts: the coordinate of the first token.
        first_errors: bounds of the absolute errors of ``firsts``.
    """

    steps: Float64s
    step_errors: Float64s
    firsts: Float64s
    first_errors: Float64s


_Placed: TypeAlias = tuple[Values, Float64s, Float64s]
"""Request parameters, coordinates of the first token (A,), and steps (A,)."""


def _placed(
    axes: ConventionAxes, values: Values, series: OptionalSeries, omega: Sequence[Float64s]
) -> Iterator[AxialFit]:
    """Yield fits of the axial table.

    Each adds the convention's coordinate parameters to ``values``, with the first coordinate and
    the step of each axis.
    """
    first = _first_coordinates(axes, omega)
    if first is None:
        return
    known_steps = [
        (1.0, 0.0) if each is None else (each.first / float(rates[0]), each.first_error)
        for each, rates in zip(series, omega, strict=True)
    ]
    own_steps, errors = np.transpose(known_steps)
    measured = MeasuredCoordinates(own_steps, errors, *first)
    by_kind = _counted if axes.convention.places == "counted" else _spread
    for own, firsts, steps in by_kind(axes, measured):
        yield AxialFit({**values, **own}, firsts, steps, omega)


def _first_coordinates(
    axes: ConventionAxes, omega: Sequence[Float64s]
) -> tuple[Float64s, Float64s] | None:
    """Return each axis's first coordinate and its error bound; None if an axis does not fit."""
    every = [first_coordinate(*each) for each in zip(axes.waves, omega, strict=True)]
    found = [each for each in every if each is not None]
    if len(found) < len(every):
        return None
    firsts, errors = np.transpose(found)
    return firsts, errors


def _choices(numbers: Float64s, errors: Float64s, most: int = 3) -> list[list[float]]:
    """Return, for each number, the round numbers within its error."""
    return [
        signed_round_numbers(number, error, most)
        for number, error in zip(numbers.tolist(), errors.tolist(), strict=True)
    ]


def _counted(axes: ConventionAxes, measured: MeasuredCoordinates) -> Iterator[_Placed]:
    """Yield placements of tokens at i + offset, or at (i + offset)·step.

    ``reference_grid`` or ``interpolation_scale`` sets the step.
    """
    steps, errors = measured.steps, measured.step_errors
    if (np.abs(steps - 1) <= np.maximum(2 * errors, _NEAR_ONE)).all():
        yield from _offset(axes, np.ones(len(steps)), measured)
        return
    if axes.name not in _SCALED:
        return
    if axes.name == "timm":
        sizes = np.array(axes.lengths) * steps
        for grid in _positive(_choices(sizes, sizes * errors)):
            for offset, firsts, scaled in _offset(axes, grid / np.array(axes.lengths), measured):
                ends = zip(axes.lengths, firsts / scaled, grid, strict=True)
                if _are_countable(counted(n, Fraction(u), Fraction(size)) for n, u, size in ends):
                    yield {"reference_grid": axes.listed(grid.tolist()), **offset}, firsts, scaled
    for scales in _positive(_choices(1 / steps, errors / steps)):
        for offset, firsts, scaled in _offset(axes, 1 / scales, measured):
            yield {"interpolation_scale": axes.listed(scales.tolist()), **offset}, firsts, scaled


def _positive(choices: list[list[float]]) -> Iterator[Float64s]:
    """Yield up to four combinations of one positive choice per axis, first choices first."""
    combined = islice(product(*choices), 4)
    return (np.array(chosen) for chosen in combined if all(each > 0 for each in chosen))


def _offset(
    axes: ConventionAxes, steps: Float64s, measured: MeasuredCoordinates
) -> Iterator[_Placed]:
    errors = measured.first_errors / steps + _OFFSET_ERROR
    for chosen in islice(product(*_choices(measured.firsts / steps, errors, 1)), 2):
        firsts = np.array(chosen) * steps
        if all(offset == axes.convention.offset for offset in chosen):
            yield {}, firsts, steps
        elif axes.name in _MOVED:
            yield {"grid_offset": axes.listed(chosen)}, firsts, steps


def _spread(axes: ConventionAxes, measured: MeasuredCoordinates) -> Iterator[_Placed]:
    """Yield placements of evenly spaced tokens from grid_start to grid_stop, the end excluded."""
    begins = _choices(measured.firsts, measured.first_errors + _OFFSET_ERROR, 1)
    if not all(begins):
        return
    starts = [begin[0] for begin in begins]
    n, gaps = np.array(axes.lengths), np.maximum(np.array(axes.lengths) - 1, 1)
    last = (np.array(starts) + measured.steps * (n - 1)) * n / gaps
    found = _choices(last, np.abs(last) * measured.step_errors + _OFFSET_ERROR, 2)
    stops = [[1.0] if length == 1 else each for length, each in zip(n, found, strict=True)]
    for stop in islice(product(*stops), 2):
        ends = zip(axes.lengths, starts, stop, strict=True)
        if not _are_countable(spread(n, Fraction(u), Fraction(v)) for n, u, v in ends):
            continue
        values: Values = {"grid_start": axes.listed(starts)} if any(starts) else {}
        if any(np.array(stop) != n):
            values["grid_stop"] = axes.listed(stop)
        firsts = np.array(starts)
        yield values, firsts, (np.array(stop) * (n - 1) / n - firsts) / gaps


def _are_countable(axes: Iterable[Coordinates]) -> bool:
    """Return whether coordinates are integer multiples of a unit that the service supports."""
    return all(each.is_countable and each.unit >= MIN_UNIT for each in axes)
