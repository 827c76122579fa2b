"""The axes of a rotary table as a convention shares its frequencies out, and what comes of it.

Axial tables whose tokens lie within ±1: with periods, as DINOv3, or with bands, as of pixels.

Which parameters of an axial convention give the turns that were measured along each axis.

``/rope/axial``: rotary tables of images and videos, whose frequencies are shared out to axes.

Which frequencies turn along which axis of a grid says which conventions share them out so; how fast
they turn, and from where on, says what these must have been given.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import exp, log, pi
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import AngleModel, IdentifyInput, Proposal, TableRequest
from service.analysis.families.axial_packing import AxialTokens, Packed, axial_tokens, packed
from service.analysis.families.coordinate_series import (
    AxisTurns,
    Series,
    axis_turns,
    common,
    first_place,
    geometric,
    nearest,
    pixel_bands,
    written,
)
from service.analysis.measure import Complexes
from service.analysis.round_numbers import round_numbers
from service.encodings.grid.grids import Coordinates, counted, spread
from service.encodings.rotary.axial import CONVENTIONS, AxialConvention
from service.numerics.document import ParameterValue
from service.numerics.dtypes import FLOAT32
from service.numerics.limits import MIN_UNIT
from service.numerics.phase import Float64s

Values: TypeAlias = dict[str, ParameterValue]

NEAR_ONE = 2.0**-18
"""How near 1 a step is that engines in float32 make of 1."""

MAX_LOGARITHM = 512.0
"""The logarithm of a base that is taken for one: its exponential is still a float64."""


@dataclass(frozen=True, eq=False)
class Shares:
    """The axes of a table, in the order of their channels, as a convention shares them out.

    Attributes:
        name: of the convention whose they are.
        turns: how each axis turns.
        lengths: tokens along it.
        widths: channels of it.
        order: which axis of the grid it is.
    """

    name: str
    turns: tuple[AxisTurns, ...]
    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def convention(self) -> AxialConvention:
        """What the convention is."""
        return CONVENTIONS[self.name]

    def listed(self, numbers: Sequence[float]) -> tuple[float, ...]:
        """Put numbers of axes into the order of the grid, as one where they are the same."""
        by_axis = [numbers[self.order.index(axis)] for axis in range(len(numbers))]
        return (by_axis[0],) if len(set(by_axis)) == 1 else tuple(by_axis)


@dataclass(frozen=True, eq=False)
class Made:
    """What parameters make of axes.

    Attributes:
        values: the parameters.
        firsts, steps: coordinates of the first token of each axis, and from one to the next.
        omega: radians per coordinate of the frequencies of each axis.
    """

    values: Values
    firsts: tuple[float, ...]
    steps: tuple[float, ...]
    omega: tuple[Float64s, ...]


def bases(series: Sequence[Series | None], spans: Sequence[float]) -> list[float]:
    """Give the bases that series over so many frequencies may have, the plainest first."""
    known = [
        (exp(each.decay * span), each.decay_error * span)
        for each, span in zip(series, spans, strict=True)
        if each is not None and each.count > 1 and 0 < each.decay * span < MAX_LOGARITHM
    ]
    if not known:
        return [10000.0]
    base = common(known)
    return [] if base is None else [each for each in round_numbers(*base, 3) if each > 1]


def periods(shares: Shares, series: Sequence[Series | None]) -> Iterator[Made]:
    """Place the centres of patches within ±1, with periods from a shortest to a longest."""
    sides = {"separate": list(shares.lengths)}
    if len(set(shares.lengths)) > 1:
        sides |= {name: [pick(shares.lengths)] * len(series) for name, pick in _SIDES.items()}
    for name, side in sides.items():
        shortest = common(
            [
                (4 * pi / n / each.first, each.first_error)
                for n, each in zip(side, series, strict=True)
                if each is not None
            ]
        )
        if shortest is not None:
            chosen: Values = {} if name == "separate" else {"normalize_coords": name}
            yield from _with_periods(shares, chosen, series, side, shortest)


_SIDES: Mapping[str, Callable[[Sequence[int]], int]] = {"max": max, "min": min}


def _with_periods(
    shares: Shares,
    chosen: Values,
    series: Sequence[Series | None],
    side: Sequence[int],
    shortest: tuple[float, float],
) -> Iterator[Made]:
    count = shares.widths[0] // 2
    steps = [2 / n for n in side]
    is_one = abs(shortest[0] - 1) <= max(2 * shortest[1], NEAR_ONE)
    options: list[tuple[Values, float, float, float]] = []
    if is_one:
        thetas = bases(series, [count] * len(series))
        usual = shares.convention.rope_theta
        options += [
            ({} if theta == usual else {"rope_theta": theta}, 1.0, theta, count) for theta in thetas
        ]
    elif count > 1:
        for low in written(shortest[0], shortest[0] * shortest[1], 2):
            for times, error in _ratios(series, count - 1):
                high = written(low * times, low * times * (error + shortest[1]), 2)
                options += [
                    ({"min_period": low, "max_period": each}, low, each, count - 1) for each in high
                ]
    for values, shortest_period, longest, span in options:
        if min(shortest_period, longest) <= 0:
            continue
        ratio = longest / shortest_period
        rates = 2 * pi / shortest_period * np.exp(-log(ratio) / span * np.arange(count))
        offsets = []
        for turns, step in zip(shares.turns, steps, strict=True):
            place = first_place(turns.phases, rates, turns.noise)
            if place is None:
                return
            offset = (place.first + 1) / step - 0.5
            offsets += written(offset, place.error / step + 1e-9)[:1]
        if len(offsets) < len(side):
            continue
        firsts = [step * (0.5 + offset) - 1 for step, offset in zip(steps, offsets, strict=True)]
        moved: Values = {"grid_offset": shares.listed(offsets)} if any(offsets) else {}
        yield Made({**chosen, **values, **moved}, tuple(firsts), tuple(steps), (rates,) * len(side))


def _ratios(series: Sequence[Series | None], span: float) -> list[tuple[float, float]]:
    known = [
        (exp(each.decay * span), each.decay_error * span)
        for each in series
        if each is not None and each.decay * span < MAX_LOGARITHM
    ]
    found = common(known)
    return [] if found is None else [found]


def of_pixels(shares: Shares) -> Iterator[Made]:
    """Place tokens from −1 to 1, with bands from 1 to half of a number."""
    convention = shares.convention
    scales = []
    for turns in shares.turns:
        usual = 2 * pi / max(turns.length - 1, 1)
        measured = usual / float(turns.rates[0]) if turns.length > 1 and turns.rates[0] > 0 else 1.0
        error = float(turns.errors[0]) / usual * 4
        is_one = turns.length == 1 or abs(measured - 1) <= max(error, NEAR_ONE)
        scales += [1.0] if is_one else written(measured, error)[:1]
    if len(scales) < len(shares.turns) or min(scales) <= 0:
        return
    # An axis of one token says nothing of its scale: that of the others.
    other = next((s for s, n in zip(scales, shares.lengths, strict=True) if n > 1), 1.0)
    scales = [other if n == 1 else s for s, n in zip(scales, shares.lengths, strict=True)]
    found = [
        set(pixel_bands(turns, 1 / scale))
        for turns, scale in zip(shares.turns, scales, strict=True)
    ]
    both = sorted(set.intersection(*found), key=lambda each: each != _usual_bands(convention))
    count = len(shares.turns[0].rates)
    for highest, is_linear in both[:4]:
        values: Values = {} if highest == convention.max_freq else {"max_freq": float(highest)}
        if is_linear != convention.linear_bands:
            values["linear_bands"] = is_linear
        if any(scale != 1 for scale in scales):
            values["interpolation_scale"] = shares.listed(scales)
        share = np.arange(count) / max(count - 1, 1)
        half = highest / 2
        bands = pi * (1 + share * (half - 1) if is_linear else half**share)
        firsts = tuple(-1 / scale for scale in scales)
        steps = tuple(
            2 / max(n - 1, 1) / scale for n, scale in zip(shares.lengths, scales, strict=True)
        )
        yield Made(values, firsts, steps, (bands,) * len(scales))


def _usual_bands(convention: AxialConvention) -> tuple[int, bool]:
    return int(convention.max_freq), convention.linear_bands


# Whose tables come with coordinates that are scaled, or that do not begin at 0; what others would
# make of the same parameters, these make as well.
_SCALED = frozenset(("timm", "lumina"))
_MOVED = frozenset(("timm", "lumina", "llama4", "rotary_embedding_torch"))


def fits(shares: Shares) -> Iterator[Made]:
    """Give parameters that the measured turns follow from, the plainest first."""
    if shares.convention.series == "pixels":
        yield from of_pixels(shares)
        return
    series = [geometric(turns) if turns.length > 1 else None for turns in shares.turns]
    if any(
        each is None and turns.length > 1 for each, turns in zip(series, shares.turns, strict=True)
    ):
        return
    if shares.convention.series == "ones":
        if all(each is None or abs(each.decay) <= each.decay_error for each in series):
            omega = tuple(np.ones(len(turns.rates)) for turns in shares.turns)
            yield from _placed(shares, {}, series, omega, [1.0] * len(series))
        return
    if shares.convention.series == "periods":
        yield from periods(shares, series)
        return
    spans = [width / 2 for width in shares.widths]
    starts = [0] * len(spans)
    if shares.convention.placing == "dealt":
        spans = [sum(shares.widths) / 2 / len(spans)] * len(spans)
        starts = list(range(len(spans)))
    for theta in bases(series, spans):
        values: Values = {} if theta == shares.convention.rope_theta else {"rope_theta": theta}
        omega = tuple(
            _geometric(theta, len(turns.rates), start / len(spans), span)
            for turns, span, start in zip(shares.turns, spans, starts, strict=True)
        )
        yield from _placed(shares, values, series, omega, [float(each[0]) for each in omega])


def _geometric(theta: float, count: int, start: float, span: float) -> Float64s:
    series: Float64s = np.exp(-log(theta) * (np.arange(count, dtype=np.float64) + start) / span)
    return series


def _placed(
    shares: Shares,
    values: Values,
    series: Sequence[Series | None],
    omega: tuple[Float64s, ...],
    fastest: Sequence[float],
) -> Iterator[Made]:
    """Find where on each axis tokens are, in the ways that a convention has to say it."""
    steps, errors, firsts = [], [], []
    for turns, each, rates, top in zip(shares.turns, series, omega, fastest, strict=True):
        step = 1.0 if each is None else each.first / top
        place = first_place(turns.phases, rates, turns.noise)
        if place is None:
            return
        steps.append(step)
        errors.append(0.0 if each is None else each.first_error)
        firsts.append((place.first, place.error))
    for own, starts, each_step in _PLACES[shares.convention.places](shares, steps, errors, firsts):
        yield Made({**values, **own}, tuple(starts), tuple(each_step), omega)


_Place: TypeAlias = tuple[Values, Sequence[float], Sequence[float]]
_Placer: TypeAlias = Callable[
    [Shares, Sequence[float], Sequence[float], Sequence[tuple[float, float]]], Iterator[_Place]
]


def _counted(
    shares: Shares,
    steps: Sequence[float],
    errors: Sequence[float],
    firsts: Sequence[tuple[float, float]],
) -> Iterator[_Place]:
    """Place tokens at i + offset, or at that times a step that a grid or a scale gives."""
    is_unit = all(
        abs(step - 1) <= max(2 * error, NEAR_ONE) for step, error in zip(steps, errors, strict=True)
    )
    if is_unit:
        for offset, starts in _offsets(shares, [1.0] * len(steps), firsts):
            yield offset, starts, [1.0] * len(steps)
        return
    if shares.name not in _SCALED:
        return
    scaled = list(zip(shares.lengths, steps, errors, strict=True))
    if shares.name == "timm":
        for grid in _each([written(n * step, n * step * error) for n, step, error in scaled]):
            exact = [size / n for size, n in zip(grid, shares.lengths, strict=True)]
            for offset, starts in _offsets(shares, exact, firsts):
                placed = [
                    counted(n, Fraction(start / step), Fraction(size))
                    for n, start, step, size in zip(
                        shares.lengths, starts, exact, grid, strict=True
                    )
                ]
                if not _are_countable(placed):
                    continue
                yield {"reference_grid": shares.listed(grid), **offset}, starts, exact
    for scales in _each([written(1 / step, error / step) for _, step, error in scaled]):
        exact = [1 / scale for scale in scales]
        for offset, starts in _offsets(shares, exact, firsts):
            yield {"interpolation_scale": shares.listed(scales), **offset}, starts, exact


def _each(choices: Sequence[list[float]]) -> Iterator[tuple[float, ...]]:
    """Combine the choices of axes: all the first, and what else there is, up to a few."""
    for count, chosen in enumerate(product(*choices)):
        if count == 4:
            return
        if all(each > 0 for each in chosen):
            yield chosen


def _offsets(
    shares: Shares, steps: Sequence[float], firsts: Sequence[tuple[float, float]]
) -> Iterator[tuple[Values, Sequence[float]]]:
    offsets = [
        written(first / step, error / step + 1e-9, 1)
        for (first, error), step in zip(firsts, steps, strict=True)
    ]
    for chosen in _each_any(offsets):
        starts = [offset * step for offset, step in zip(chosen, steps, strict=True)]
        is_usual = all(offset == shares.convention.offset for offset in chosen)
        if not is_usual and shares.name not in _MOVED:
            continue
        yield ({} if is_usual else {"grid_offset": shares.listed(chosen)}), starts


def _each_any(choices: Sequence[list[float]]) -> Iterator[tuple[float, ...]]:
    yield from (chosen for chosen, _ in zip(product(*choices), range(2), strict=False))


def _spread(
    shares: Shares,
    steps: Sequence[float],
    errors: Sequence[float],
    firsts: Sequence[tuple[float, float]],
) -> Iterator[_Place]:
    """Place tokens evenly from a start to a stop that is left out."""
    begins = [written(first, error + 1e-9, 1) for first, error in firsts]
    if not all(begins):
        return
    starts = [begin[0] for begin in begins]
    stops = []
    for start, step, error, length in zip(starts, steps, errors, shares.lengths, strict=True):
        last = (start + step * (length - 1)) * length / max(length - 1, 1)
        stops.append([float(length)] if length == 1 else written(last, abs(last) * error + 1e-9, 2))
    for stop in _each_any(stops):
        ends = zip(shares.lengths, map(Fraction, starts), map(Fraction, stop), strict=True)
        if not _are_countable([spread(*end) for end in ends]):
            continue
        exact = [
            (end * (n - 1) / n - start) / max(n - 1, 1)
            for end, n, start in zip(stop, shares.lengths, starts, strict=True)
        ]
        values: Values = {}
        if any(starts):
            values["grid_start"] = shares.listed(starts)
        if any(end != n for end, n in zip(stop, shares.lengths, strict=True)):
            values["grid_stop"] = shares.listed(stop)
        yield values, starts, exact


def _are_countable(axes: Sequence[Coordinates]) -> bool:
    """Tell whether coordinates are whole numbers of a unit that is served."""
    return all(each.is_countable and each.unit >= MIN_UNIT for each in axes)


_PLACES: Mapping[str, _Placer] = {"counted": _counted, "spread": _spread}


_MOST = 24

# Who has the first two axes change places; what others would make of it, some other has as its own.
_INDEXED = frozenset(("timm", "timm_pixels", "dinov3"))


def propose(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose the axial tables that an array, or two, may be."""
    given: list[TableRequest] = []
    for table in packed(question):
        if table.scale != 1.0:
            continue
        known = len(given)
        for tokens in axial_tokens(table.turns, table.rounding):
            # A first token at 0 is like a class token: only where there is no other way.
            if tokens.class_token is not None and len(given) > known:
                break
            for proposal in _of_tokens(table, tokens):
                if proposal.request not in given:
                    given.append(proposal.request)
                    yield proposal
                if len(given) == _MOST:
                    return


def _of_tokens(table: Packed, tokens: AxialTokens) -> Iterator[Proposal]:
    found: list[tuple[int, Proposal]] = []
    measured = _Measured(tokens, table.rounding)
    for name, convention in CONVENTIONS.items():
        if len(tokens.lengths) not in convention.axes:
            continue
        if tokens.frames > 1 and not convention.repeats_frames:
            continue
        for own, shares, axis_of in _shared(name, tokens, measured):
            for made in _nearest(shares, tokens, axis_of, table.rounding):
                values: Values = {**own, **made.values}
                proposal = _proposal(name, values, made, shares, (table, tokens, axis_of))
                found.append((len(repr(values)), proposal))
    # What is asked for with fewer words is plainer.
    yield from (proposal for _, proposal in sorted(found, key=lambda each: each[0]))


class _Measured:
    """Measures frequencies along an axis, the same ones once."""

    def __init__(self, tokens: AxialTokens, rounding: float) -> None:
        self._tokens, self._rounding = tokens, rounding
        self._of = lru_cache(maxsize=None)(self._measure)

    def along(self, axis: int, places: tuple[int, ...]) -> AxisTurns | None:
        """Measure some of the frequencies."""
        return self._of(axis, places)

    def _measure(self, axis: int, places: tuple[int, ...]) -> AxisTurns | None:
        return axis_turns(self._tokens.lines[axis][:, list(places)], self._rounding)


@dataclass(frozen=True)
class _Share:
    own: Values
    widths: tuple[int, ...]
    order: tuple[int, ...]
    axis_of: NDArray[np.intp]


def _shared(
    name: str, tokens: AxialTokens, measured: _Measured
) -> Iterator[tuple[Values, Shares, NDArray[np.intp]]]:
    """Share the frequencies out as a convention may, where those of an axis turn along it only."""
    for share in _shares(name, tokens):
        if not tokens.may_be(share.axis_of):
            continue
        turns = []
        for axis in share.order:
            places = tuple(np.flatnonzero(share.axis_of == axis).tolist())
            turns.append(measured.along(axis, places) if places else None)
        known = tuple(each for each in turns if each is not None)
        if len(known) == len(turns):
            lengths = tuple(tokens.lengths[axis] for axis in share.order)
            own: Values = {**share.own, **tokens.parameters()}
            yield own, Shares(name, known, lengths, share.widths, share.order), share.axis_of


def _shares(name: str, tokens: AxialTokens) -> Iterator[_Share]:
    convention = CONVENTIONS[name]
    axes, count = len(tokens.lengths), tokens.count
    for indexing in ("ij", "xy"):
        order = tuple(range(axes))
        if convention.is_reversed != (indexing == "xy"):
            order = (*order[1::-1], *order[2:])
        if indexing == "xy" and (axes == 1 or name not in _INDEXED):
            return
        own: Values = {} if indexing == "ij" else {"grid_indexing": "xy"}
        usual = convention.widths(2 * count, axes)
        is_usual = sum(usual) == 2 * count and all(w >= 2 and w % 2 == 0 for w in usual)
        if is_usual or convention.placing == "dealt":
            yield _Share(own, usual, order, _axis_of(convention, usual, order, count))
        if convention.placing == "blocks" and convention.series == "geometric":
            widths = tokens.block_widths(order)
            if widths is not None and widths != usual:
                axis_of = _axis_of(convention, widths, order, count)
                yield _Share({**own, "axes_dim": widths}, widths, order, axis_of)


def _axis_of(
    convention: AxialConvention, widths: tuple[int, ...], order: tuple[int, ...], count: int
) -> NDArray[np.intp]:
    """Say which axis of the grid each frequency turns along."""
    if convention.placing == "alternating":
        return np.array([order[k % len(order)] for k in range(count)])
    if convention.placing == "dealt":
        axes = len(order)
        return np.array([order[a] for a in range(axes) for _ in range(a, count, axes)])
    return np.array([axis for axis, w in zip(order, widths, strict=True) for _ in range(w // 2)])


def _nearest(
    shares: Shares, tokens: AxialTokens, axis_of: NDArray[np.intp], rounding: float
) -> Iterator[Made]:
    """Give what parameters make that is near the axes, the plainest of what is as near first."""
    made = list(fits(shares))
    apart = [_residual(each, shares, tokens, axis_of) for each in made]
    said = [repr(each.values) for each in made]
    yield from (made[way] for way in nearest(apart, said, rounding))


def _residual(made: Made, shares: Shares, tokens: AxialTokens, axis_of: NDArray[np.intp]) -> float:
    apart = 0.0
    for index, axis in enumerate(shares.order):
        line: Complexes = tokens.lines[axis][:, axis_of == axis]
        coordinates = made.firsts[index] + made.steps[index] * np.arange(len(line))
        expected = np.exp(1j * np.outer(coordinates, made.omega[index]))
        apart = max(apart, float(np.abs(line - expected).max(initial=0)))
    return apart


def _proposal(
    name: str,
    values: Values,
    made: Made,
    shares: Shares,
    found: tuple[Packed, AxialTokens, NDArray[np.intp]],
) -> Proposal:
    table, tokens, axis_of = found
    parameters: Values = {
        "convention": name,
        "head_dim": 2 * tokens.count,
        "grid": tokens.grid,
        **values,
    }
    if table.pack != "pair":
        parameters["pack"] = table.pack
    if table.dtype is not FLOAT32:
        parameters["dtype"] = table.dtype.name
    support = tuple(_support(shares, tokens))
    proposal = Proposal(TableRequest("rope/axial", parameters), support)
    channels = table.channels()
    if not channels:
        return proposal
    omega = np.empty(tokens.count)
    coordinates = np.empty((tokens.rows, len(shares.order)))
    for index, axis in enumerate(shares.order):
        omega[axis_of == axis] = made.omega[index]
        coordinates[:, axis] = tokens.coordinates(axis, made.firsts[index], made.steps[index])
    turning = AngleModel(coordinates, tuple(axis_of.tolist()), omega, channels)
    return replace(proposal, angles=turning)


def _support(shares: Shares, tokens: AxialTokens) -> Iterator[str]:
    yield (
        "each frequency turns along one axis of a grid of "
        f"{' x '.join(map(str, tokens.grid))} tokens"
    )
    for axis, turns in zip(shares.order, shares.turns, strict=True):
        if turns.length > 1:
            yield (
                f"along axis {axis} {len(turns.rates)} frequencies turn, the first by "
                f"{turns.rates[0]:.7g} radians from token to token"
            )
