"""Propose ``/rope/axial``: rotary tables of images and videos, with frequencies shared out to axes.

Which frequencies turn along which axis of a grid tells the conventions that share them out so; how
fast they turn, and from where on, gives their parameters. Tokens are counted, or spread between
two ends; with the periods of DINOv3 or the bands of pixels they lie within ±1.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import islice, product
from math import log, pi
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import AngleModel, IdentifyInput, Proposal, TableRequest
from service.analysis.families.requests import (
    nearest_fits,
    pack_parameters,
    table_proposal,
    unless_default,
)
from service.analysis.families.rotary_packs import PackReading, packed_tables
from service.analysis.families.token_grids import AxialTokens, axial_tokens
from service.analysis.families.unwrapping import (
    AxisWaves,
    axis_series,
    axis_waves,
    bands,
    first_coordinate,
    highest_bands,
)
from service.analysis.measure import USUAL_BASE, Complexes, GeometricSeries
from service.analysis.round_numbers import common_value, round_numbers, signed_round_numbers
from service.encodings.grid.grids import Coordinates, counted, spread
from service.encodings.rotary.axial_conventions import CONVENTIONS, AxialConvention
from service.numerics.limits import MIN_UNIT
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue

Values: TypeAlias = dict[str, ParameterValue]
OptionalSeries: TypeAlias = Sequence[GeometricSeries | None]

_MAX_PROPOSALS = 24

# How near 1 a step is that engines in float32 compute for 1.
_NEAR_ONE = 2.0**-18

_MAX_BASE = 1e222

# What float64 loses in an offset.
_OFFSET_ERROR = 1e-9


@dataclass(frozen=True, eq=False)
class AxisShares:
    """The axes of a table, in the order of their channels, as a convention shares them out.

    Attributes:
        name: of the convention.
        turns: how each axis turns.
        lengths: tokens along it.
        widths: channels of it.
        order: which axis of the grid it is.
    """

    name: str
    turns: tuple[AxisWaves, ...]
    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def convention(self) -> AxialConvention:
        return CONVENTIONS[self.name]

    def listed(self, numbers: Sequence[float]) -> tuple[float, ...]:
        """Put numbers of axes into the order of the grid, as one where they are the same."""
        by_axis = [numbers[self.order.index(axis)] for axis in range(len(numbers))]
        return (by_axis[0],) if len(set(by_axis)) == 1 else tuple(by_axis)


@dataclass(frozen=True, eq=False)
class AxialFit:
    """Parameters, and the first coordinate, the step and the frequencies of each axis by them."""

    values: Values
    firsts: Sequence[float]
    steps: Sequence[float]
    omega: Sequence[Float64s]


def propose_axial(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the axial tables that an array, or a pair, may be."""
    proposed: list[TableRequest] = []
    for table in packed_tables(request):
        if table.scale != 1.0:
            continue
        known = len(proposed)
        for tokens in axial_tokens(table.phasors, table.rounding):
            # A first token at 0 is like a class token: only where there is no other way.
            if tokens.class_token is not None and len(proposed) > known:
                break
            for proposal in _of_tokens(request, table, tokens):
                if proposal.request not in proposed:
                    proposed.append(proposal.request)
                    yield proposal
                if len(proposed) == _MAX_PROPOSALS:
                    return


def _of_tokens(
    request: IdentifyInput, table: PackReading, tokens: AxialTokens
) -> Iterator[Proposal]:
    """Yield the tables of every convention, those with the shortest parameters first."""
    found: list[tuple[int, Proposal]] = []

    @cache
    def measured(axis: int, places: tuple[int, ...]) -> AxisWaves | None:
        return axis_waves(tokens.lines[axis][:, list(places)], table.rounding)

    for name, convention in CONVENTIONS.items():
        if len(tokens.lengths) not in convention.axes:
            continue
        if tokens.frames > 1 and not convention.repeats_frames:
            continue
        for own, widths, order in _share_out(name, tokens):
            axis_of = _axis_of(convention, widths, order, tokens.count)
            if not tokens.may_be(axis_of):
                continue
            turns = []
            for axis in order:
                places = tuple(np.flatnonzero(axis_of == axis).tolist())
                turns.append(measured(axis, places) if places else None)
            known = tuple(each for each in turns if each is not None)
            if len(known) < len(turns):
                continue
            lengths = tuple(tokens.lengths[axis] for axis in order)
            shares = AxisShares(name, known, lengths, widths, order)
            every = list(fits(shares))
            apart = [_residual(fit, shares, tokens, axis_of) for fit in every]
            for way in nearest_fits(apart, [fit.values for fit in every], table.rounding):
                values = {**own, **tokens.parameters(), **every[way].values}
                parameters: Values = {
                    "convention": name,
                    "head_dim": 2 * tokens.count,
                    "grid": tokens.grid,
                    **values,
                    **pack_parameters(table.pack),
                }
                proposal = table_proposal(
                    request,
                    "rope/axial",
                    parameters,
                    tuple(_support(shares, tokens)),
                    _angles(every[way], shares, table, tokens, axis_of),
                )
                found.append((len(repr(values)), proposal))
    yield from (proposal for _, proposal in sorted(found, key=lambda each: each[0]))


def _residual(
    fit: AxialFit, shares: AxisShares, tokens: AxialTokens, axis_of: NDArray[np.intp]
) -> float:
    apart = 0.0
    for index, axis in enumerate(shares.order):
        line: Complexes = tokens.lines[axis][:, axis_of == axis]
        coordinates = fit.firsts[index] + fit.steps[index] * np.arange(len(line))
        expected = np.exp(1j * np.outer(coordinates, fit.omega[index]))
        apart = max(apart, float(np.abs(line - expected).max(initial=0)))
    return apart


def _angles(
    fit: AxialFit,
    shares: AxisShares,
    table: PackReading,
    tokens: AxialTokens,
    axis_of: NDArray[np.intp],
) -> AngleModel | None:
    channels = table.channels()
    if not channels:
        return None
    omega = np.empty(tokens.count)
    coordinates = np.empty((tokens.rows, len(shares.order)))
    for index, axis in enumerate(shares.order):
        omega[axis_of == axis] = fit.omega[index]
        coordinates[:, axis] = tokens.coordinates(axis, fit.firsts[index], fit.steps[index])
    return AngleModel(coordinates, tuple(axis_of.tolist()), omega, channels)


def _support(shares: AxisShares, tokens: AxialTokens) -> Iterator[str]:
    grid = " x ".join(map(str, tokens.grid))
    yield f"each frequency turns along one axis of a grid of {grid} tokens"
    for axis, turns in zip(shares.order, shares.turns, strict=True):
        if turns.length > 1:
            yield (
                f"along axis {axis} {len(turns.rates)} frequencies turn, the first by "
                f"{turns.rates[0]:.7g} radians from token to token"
            )


# Axes of frequencies.

# The conventions that have a parameter for the order of axes: no other needs to be proposed with
# the first two exchanged.
_INDEXED = frozenset(("timm", "timm_pixels", "dinov3"))


def _share_out(
    name: str, tokens: AxialTokens
) -> Iterator[tuple[Values, tuple[int, ...], tuple[int, ...]]]:
    """Yield the parameters, widths and orders of axes of a convention."""
    convention = CONVENTIONS[name]
    axes, channels = len(tokens.lengths), 2 * tokens.count
    for indexing in ("ij", "xy"):
        order = tuple(range(axes))
        if convention.is_reversed != (indexing == "xy"):
            order = (*order[1::-1], *order[2:])
        if indexing == "xy" and (axes == 1 or name not in _INDEXED):
            return
        own = unless_default("grid_indexing", indexing, "ij")
        usual = convention.widths(channels, axes)
        is_usual = sum(usual) == channels and all(w >= 2 and w % 2 == 0 for w in usual)
        if is_usual or convention.placing == "strided":
            yield own, usual, order
        if convention.placing == "blocks" and convention.series == "geometric":
            widths = tokens.block_widths(order)
            if widths is not None and widths != usual:
                yield {**own, "axes_dim": widths}, widths, order


def _axis_of(
    convention: AxialConvention, widths: tuple[int, ...], order: tuple[int, ...], count: int
) -> NDArray[np.intp]:
    """Return the axis of the grid that each frequency turns along."""
    if convention.placing == "alternating":
        return np.array([order[k % len(order)] for k in range(count)])
    if convention.placing == "strided":
        return np.repeat(order, [len(range(a, count, len(order))) for a in range(len(order))])
    return np.repeat(order, [width // 2 for width in widths])


# Parameters of axes.


def fits(shares: AxisShares) -> Iterator[AxialFit]:
    """Yield the parameters that the measured turns follow from, the plainest first."""
    kind = shares.convention.series
    if kind == "pixels":
        yield from _fit_pixels(shares)
        return
    series = [axis_series(turns) if turns.length > 1 else None for turns in shares.turns]
    lengths = [turns.length for turns in shares.turns]
    if any(each is None and n > 1 for each, n in zip(series, lengths, strict=True)):
        return
    if kind == "ones":
        if all(each is None or abs(log(each.ratio)) <= each.ratio_error for each in series):
            yield from _placed(shares, {}, series, [np.ones(len(t.rates)) for t in shares.turns])
    elif kind == "periods":
        yield from _fit_periods(shares, series)
    else:
        yield from _fit_geometric(shares, series)


def _fit_geometric(shares: AxisShares, series: OptionalSeries) -> Iterator[AxialFit]:
    axes = len(shares.widths)
    spans, starts = [width / 2 for width in shares.widths], [0.0] * axes
    if shares.convention.placing == "strided":
        spans = [sum(shares.widths) / 2 / axes] * axes
        starts = [axis / axes for axis in range(axes)]
    for theta in bases(series, spans):
        values = unless_default("rope_theta", theta, shares.convention.rope_theta)
        omega = [
            np.exp(-log(theta) * (np.arange(len(turns.rates)) + start) / span)
            for turns, span, start in zip(shares.turns, spans, starts, strict=True)
        ]
        yield from _placed(shares, values, series, omega)


def bases(series: OptionalSeries, spans: Sequence[float]) -> list[float]:
    """Return the bases of series over so many frequencies, the plainest first."""
    known = [
        each.base(span)
        for each, span in zip(series, spans, strict=True)
        if each is not None and each.has_ratio and 1 < each.base(span)[0] < _MAX_BASE
    ]
    if not known:
        return [USUAL_BASE]
    base = common_value(known)
    return [] if base is None else [each for each in round_numbers(*base, 3) if each > 1]


_SIDES: Mapping[str, Callable[[Sequence[int]], int]] = {"max": max, "min": min}


def _fit_periods(shares: AxisShares, series: OptionalSeries) -> Iterator[AxialFit]:
    """Place the centres of patches within ±1, with periods from a shortest to a longest."""
    sides = {"separate": list(shares.lengths)}
    if len(set(shares.lengths)) > 1:
        sides |= {name: [pick(shares.lengths)] * len(series) for name, pick in _SIDES.items()}
    for name, side in sides.items():
        shortest = common_value(
            (4 * pi / n / each.first, each.first_error)
            for n, each in zip(side, series, strict=True)
            if each is not None
        )
        if shortest is None:
            continue
        chosen = unless_default("normalize_coords", name, "separate")
        steps = [2 / n for n in side]
        for values, omega in _periods(shares, series, shortest):
            offsets = _patch_offsets(shares, omega, steps)
            if offsets is None:
                break
            if len(offsets) == len(side):
                moved: Values = {"grid_offset": shares.listed(offsets)} if any(offsets) else {}
                firsts = [
                    step * (0.5 + offset) - 1 for step, offset in zip(steps, offsets, strict=True)
                ]
                yield AxialFit({**chosen, **values, **moved}, firsts, steps, [omega] * len(side))


def _periods(
    shares: AxisShares, series: OptionalSeries, shortest: tuple[float, float]
) -> Iterator[tuple[Values, Float64s]]:
    """Yield the parameters of a series of periods, and its frequencies."""
    count = shares.widths[0] // 2
    ratio = common_value(
        each.base(count - 1)
        for each in series
        if each is not None and each.has_ratio and each.base(count - 1)[0] < _MAX_BASE
    )
    options: list[tuple[Values, float, float, float]] = []
    if abs(shortest[0] - 1) <= max(2 * shortest[1], _NEAR_ONE):
        usual = shares.convention.rope_theta
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


def _patch_offsets(
    shares: AxisShares, omega: Float64s, steps: Sequence[float]
) -> list[float] | None:
    """Return the offsets of the first patches, as far as they are plain; None if they have none."""
    offsets: list[float] = []
    for turns, step in zip(shares.turns, steps, strict=True):
        place = first_coordinate(turns, omega)
        if place is None:
            return None
        first, error = place
        offset = (first + 1) / step - 0.5
        offsets += signed_round_numbers(offset, error / step + _OFFSET_ERROR)[:1]
    return offsets


def _fit_pixels(shares: AxisShares) -> Iterator[AxialFit]:
    """Place tokens from −1 to 1, with bands from 1 to half of a number."""
    convention = shares.convention
    scales = []
    for turns in shares.turns:
        usual = 2 * pi / max(turns.length - 1, 1)
        measured = usual / float(turns.rates[0]) if turns.length > 1 and turns.rates[0] > 0 else 1.0
        error = float(turns.errors[0]) / usual * 4
        is_one = turns.length == 1 or abs(measured - 1) <= max(error, _NEAR_ONE)
        scales += [1.0] if is_one else signed_round_numbers(measured, error)[:1]
    if len(scales) < len(shares.turns) or min(scales) <= 0:
        return
    # An axis of one token does not show its scale: that of the others is taken.
    other = next((s for s, n in zip(scales, shares.lengths, strict=True) if n > 1), 1.0)
    scales = [other if n == 1 else s for s, n in zip(scales, shares.lengths, strict=True)]
    common = set.intersection(
        *(
            set(highest_bands(turns, 1 / scale))
            for turns, scale in zip(shares.turns, scales, strict=True)
        )
    )
    usual_bands = int(convention.max_freq), convention.linear_bands
    count = len(shares.turns[0].rates)
    for highest, is_linear in sorted(common, key=lambda each: each != usual_bands)[:4]:
        values: Values = {} if highest == convention.max_freq else {"max_freq": float(highest)}
        values |= unless_default("linear_bands", is_linear, convention.linear_bands)
        if any(scale != 1 for scale in scales):
            values["interpolation_scale"] = shares.listed(scales)
        omega = pi * bands(highest / 2, count, is_linear=is_linear)
        steps = [2 / max(n - 1, 1) / scale for n, scale in zip(shares.lengths, scales, strict=True)]
        yield AxialFit(values, [-1 / scale for scale in scales], steps, [omega] * len(scales))


# Places of tokens.

# The conventions with parameters for coordinates that are scaled, or do not begin at 0: they give
# what others would give for the same parameters.
_SCALED = frozenset(("timm", "lumina"))
_MOVED = frozenset(("timm", "lumina", "llama4", "rotary_embedding_torch"))


@dataclass(frozen=True)
class _AxisPlace:
    """The coordinates of the tokens of an axis; step_error is relative, first_error absolute."""

    length: int
    step: float
    step_error: float
    first: float
    first_error: float


_Placed: TypeAlias = tuple[Values, Sequence[float], Sequence[float]]
"""Parameters, coordinates of the first tokens, and steps."""


def _placed(
    shares: AxisShares, values: Values, series: OptionalSeries, omega: Sequence[Float64s]
) -> Iterator[AxialFit]:
    """Find where on each axis tokens are, in the parameters that a convention has for it."""
    places = []
    for turns, each, rates in zip(shares.turns, series, omega, strict=True):
        place = first_coordinate(turns, rates)
        if place is None:
            return
        step = 1.0 if each is None else each.first / float(rates[0])
        error = 0.0 if each is None else each.first_error
        places.append(_AxisPlace(turns.length, step, error, *place))
    by_kind = _counted if shares.convention.places == "counted" else _spread
    for own, firsts, steps in by_kind(shares, places):
        yield AxialFit({**values, **own}, firsts, steps, omega)


def _counted(shares: AxisShares, places: Sequence[_AxisPlace]) -> Iterator[_Placed]:
    """Place tokens at i + offset, or at that times a step that a grid or a scale gives."""
    if all(abs(each.step - 1) <= max(2 * each.step_error, _NEAR_ONE) for each in places):
        yield from _offset(shares, [1.0] * len(places), places)
        return
    if shares.name not in _SCALED:
        return
    if shares.name == "timm":
        sizes = [(each.length * each.step, each.step_error) for each in places]
        for grid in _positive(signed_round_numbers(size, size * error) for size, error in sizes):
            steps = [size / n for size, n in zip(grid, shares.lengths, strict=True)]
            for offset, firsts, _ in _offset(shares, steps, places):
                ends = zip(shares.lengths, firsts, steps, grid, strict=True)
                axes = [counted(n, Fraction(u / d), Fraction(size)) for n, u, d, size in ends]
                if _are_countable(axes):
                    yield {"reference_grid": shares.listed(grid), **offset}, firsts, steps
    inverses = (signed_round_numbers(1 / each.step, each.step_error / each.step) for each in places)
    for scales in _positive(inverses):
        steps = [1 / scale for scale in scales]
        for offset, firsts, _ in _offset(shares, steps, places):
            yield {"interpolation_scale": shares.listed(scales), **offset}, firsts, steps


def _positive(choices: Iterator[list[float]]) -> Iterator[tuple[float, ...]]:
    """Combine the choices of axes, the first ones before others, up to four."""
    combined = islice(product(*choices), 4)
    return (chosen for chosen in combined if all(each > 0 for each in chosen))


def _offset(
    shares: AxisShares, steps: Sequence[float], places: Sequence[_AxisPlace]
) -> Iterator[_Placed]:
    offsets = [
        signed_round_numbers(each.first / step, each.first_error / step + _OFFSET_ERROR, 1)
        for each, step in zip(places, steps, strict=True)
    ]
    for chosen in islice(product(*offsets), 2):
        firsts = [offset * step for offset, step in zip(chosen, steps, strict=True)]
        if all(offset == shares.convention.offset for offset in chosen):
            yield {}, firsts, steps
        elif shares.name in _MOVED:
            yield {"grid_offset": shares.listed(chosen)}, firsts, steps


def _spread(shares: AxisShares, places: Sequence[_AxisPlace]) -> Iterator[_Placed]:
    """Place tokens evenly from a start to a stop that is left out."""
    begins = [
        signed_round_numbers(each.first, each.first_error + _OFFSET_ERROR, 1) for each in places
    ]
    if not all(begins):
        return
    starts = [begin[0] for begin in begins]
    stops = []
    for start, each in zip(starts, places, strict=True):
        n = each.length
        last = (start + each.step * (n - 1)) * n / max(n - 1, 1)
        error = abs(last) * each.step_error + _OFFSET_ERROR
        stops.append([float(n)] if n == 1 else signed_round_numbers(last, error, 2))
    for stop in islice(product(*stops), 2):
        ends = list(zip(shares.lengths, starts, stop, strict=True))
        if not _are_countable([spread(n, Fraction(u), Fraction(v)) for n, u, v in ends]):
            continue
        steps = [(v * (n - 1) / n - u) / max(n - 1, 1) for n, u, v in ends]
        values: Values = {"grid_start": shares.listed(starts)} if any(starts) else {}
        if any(v != n for n, _, v in ends):
            values["grid_stop"] = shares.listed(stop)
        yield values, starts, steps


def _are_countable(axes: Sequence[Coordinates]) -> bool:
    """Return whether coordinates are whole numbers of a unit that is served."""
    return all(each.is_countable and each.unit >= MIN_UNIT for each in axes)
